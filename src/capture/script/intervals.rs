//! The exact and blocking windows of a scenario: what every session does in them, as intervals. Pure.

use super::START;
use super::line::{Does, Stretch};
use super::scenario::{Actor, Scenario};
use crate::capture::command::Kind;
use crate::trace::block::{Blind, Edge, Intervals, Mark};
use crate::trace::clock::{Span, Ts};
use crate::trace::record::{Detail, QueryId, Record, SessionId, State};
use crate::trace::wait::WaitEvent;

/// A stretch of time in which everything is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// Its start.
    pub from: i64,
    /// Its end.
    pub to: i64,
    /// How it is seen.
    pub kind: Kind,
}

/// What of the windows was told so far.
#[derive(Debug, Default)]
pub struct Lanes {
    done: i64,
    open: Vec<Option<Lane>>,
    /// Who each actor was last: it is told to its end, of which a tick comes to know only behind it.
    last: Vec<Option<SessionId>>,
}

/// What a session is in.
#[derive(Debug, Clone)]
struct Lane {
    session: SessionId,
    /// What it does, in absolute time.
    stretch: Stretch,
    /// Where it began inside the window, and up to where rows were made.
    from: i64,
    told: i64,
}

fn ts(at: i64) -> Ts {
    START + at.max(0) as u64
}

impl Lanes {
    /// Goes on to an instant, absolute: tells what ended until then.
    pub fn advance(&mut self, scenario: &Scenario, present: &[Option<SessionId>], upto: i64, to: &mut Intervals) {
        self.open.resize(scenario.actors.len(), None);
        self.last.resize(scenario.actors.len(), None);
        self.last.iter_mut().zip(present).for_each(|(last, id)| *last = id.or(*last));
        while self.done < upto {
            let round = self.done.div_euclid(scenario.length);
            let base = round * scenario.length;
            let end = upto.min(base + scenario.length);
            for window in &scenario.windows {
                let (from, until) = (window.from + base, window.to + base);
                let (a, b) = (self.done.max(from), end.min(until));
                if a < b {
                    to.begin(window.kind.fidelity());
                    self.inside(scenario, (a, b), base, to);
                    to.watched(Span::new(ts(a), ts(b)));
                    if b == until {
                        self.tell(to);
                        self.open.iter_mut().for_each(|lane| *lane = None);
                    }
                }
            }
            self.done = end;
        }
    }

    /// Tells what everybody is in, up to where the lanes have come.
    pub fn tell(&mut self, to: &mut Intervals) {
        for lane in self.open.iter_mut().flatten() {
            let upto = lane.stretch.to.min(self.done.max(lane.told));
            row(lane, upto, true, to);
        }
    }

    fn inside(&mut self, scenario: &Scenario, (a, b): (i64, i64), base: i64, to: &mut Intervals) {
        for ((actor, id), place) in scenario.actors.iter().zip(&self.last).zip(&mut self.open) {
            let Some(session) = *id else { continue };
            over(actor, (a, b), base, &mut |stretch| {
                if place.as_ref().is_some_and(|lane| lane.stretch.from != stretch.from) {
                    *place = None;
                }
                let begins = place.is_none() && stretch.from >= a;
                if begins {
                    mark(actor, &stretch, base, session, to);
                }
                let from = stretch.from.max(a);
                let lane = place.get_or_insert_with(|| Lane { session, stretch: stretch.clone(), from, told: from });
                if stretch.to <= b {
                    row(lane, stretch.to, false, to);
                    *place = None;
                } else {
                    lane.told = lane.told.max(from);
                    row(lane, b, true, to);
                }
            });
        }
    }
}

/// A row of a lane up to an instant.
fn row(lane: &mut Lane, upto: i64, open: bool, to: &mut Intervals) {
    let span = Span::new(ts(lane.told), ts(upto));
    match &lane.stretch.does {
        Does::Unread => to.blind(Blind { session: lane.session, span }),
        Does::Seen { mix, query, state, cpu, runq } if !open || !span.is_empty() => {
            let event = mix.first().map_or(WaitEvent::CPU, |(event, _)| *event);
            let whole = lane.stretch.to - lane.stretch.from;
            let part = |ns: i64| {
                let upto = |at: i64| (i128::from(ns) * i128::from(at - lane.stretch.from) / i128::from(whole.max(1))) as u64;
                upto(upto_end(lane, span)) - upto(lane.told)
            };
            let cpu = cpu.unwrap_or(if event == WaitEvent::CPU { whole } else { 0 });
            let detail =
                Detail { cpu_ns: part(cpu), runq_ns: part(runq.unwrap_or(0)), lead_ns: (lane.told - lane.from).max(0) as u64, open };
            let (session, query, state) = (lane.session, *query, *state);
            to.row(Record { span, session, event, query, state, samples: 0, detail: Some(detail) });
        }
        Does::Seen { .. } => {}
    }
    lane.told = upto.max(lane.told);
}

fn upto_end(lane: &Lane, span: Span) -> i64 {
    lane.told + span.len() as i64
}

/// Visits what an actor does in `(a, b]`, in absolute time.
fn over(actor: &Actor, (a, b): (i64, i64), base: i64, visit: &mut impl FnMut(Stretch)) {
    let mut one = |offset: i64| {
        for s in &actor.does {
            let stretch = Stretch { from: s.from + offset, to: s.to + offset, does: s.does.clone() };
            if stretch.from < b && stretch.to > a {
                visit(stretch);
            }
        }
    };
    let Some((period, ahead)) = actor.repeat else { return one(base) };
    let first = (a - base + ahead).div_euclid(period);
    let last = (b - base + ahead - 1).div_euclid(period);
    (first..=last).for_each(|k| one(base + k * period - ahead));
}

/// The ends of executions where a stretch begins.
fn mark(actor: &Actor, stretch: &Stretch, base: i64, session: SessionId, to: &mut Intervals) {
    let at = ts(stretch.from);
    let command = |does: &Does| match does {
        Does::Seen { query, state, .. } if state.in_command() && *state != State::Disabled => Some(*query),
        _ => None,
    };
    let before = before(actor, stretch.from - base);
    let (was, is) = (before.and_then(|s| command(&s.does)), command(&stretch.does));
    if was == is {
        return;
    }
    let mut tell = |query: Option<QueryId>, edge| {
        if let Some(query) = query {
            to.mark(Mark { at, session, query, edge, inferred: false });
        }
    };
    tell(was, Edge::End);
    tell(is, Edge::Begin);
}

/// What an actor did right before an instant of the round.
fn before(actor: &Actor, at: i64) -> Option<&Stretch> {
    let at = actor.repeat.map_or(at, |(period, ahead)| (at + ahead - 1).rem_euclid(period) + 1);
    actor.does.iter().find(|s| s.from < at && s.to >= at)
}
