//! What every session was doing at the last tick of the window, and for how long already. Pure.
//!
//! How long is read backwards from that tick through the whole trace, not only through the window, and only until each session's run is
//! known to have begun.

use super::answer::{ActiveRow, Doing, Sql};
use super::matcher::Matcher;
use super::meaning::Meaning;
use super::queries::sql;
use super::sessions::who;
use super::tally::Tally;
use super::walk::Walk;
use crate::trace::Trace;
use crate::trace::block::{Block, Tick};
use crate::trace::catalog::{BackendKind, Catalog, UnixMicros};
use crate::trace::clock::{Span, Ts};
use crate::trace::cut::Inside;
use crate::trace::record::{QueryId, Record, SessionId};
use crate::trace::times::Times;
use crate::trace::wait::WaitEvent;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::ops::ControlFlow;

/// The rows and the tick they are of; at most `limit` rows (0 = all), and how many there were.
pub fn active<T: Trace>(walk: &Walk<'_, T>, matcher: &Matcher, tally: &Tally, limit: usize) -> (Vec<ActiveRow>, Option<Ts>, usize) {
    let catalog = walk.trace.catalog();
    let Some((at, seen, mut runs)) = last_tick(walk) else { return (Vec::new(), None, 0) };
    begin(walk.trace, at, &mut runs);
    measured(walk.trace, at, &mut runs);
    let mut load: FxHashMap<SessionId, u64> = FxHashMap::default();
    for row in tally.load() {
        *load.entry(row.key.session).or_default() += row.sum.ns;
    }
    let wall = walk.trace.clock().wall(at) / 1_000;
    let known = walk.trace.times(at);
    // In memory accounts are the newest there are: what had begun by then was so then.
    let times_of = |id: &SessionId| match &known {
        Some(known) => known.get(id).copied(),
        None => catalog.sessions.get(id).map(|s| Times::of(&s.activity).by(wall)),
    };
    let mut rows: Vec<ActiveRow> = seen
        .iter()
        .filter(|r| matcher.record(&matcher.session(r.session, catalog.sessions.get(&r.session)), r))
        .filter_map(|r| {
            let run = runs.get(&r.session)?;
            let times = times_of(&r.session).unwrap_or_default();
            // It is no older than the command it is in, or than the state outside of one.
            let since = if r.state.in_command() { times.query_start } else { times.state_change };
            let since = if since == 0 { Ts(0) } else { walk.trace.clock().ts(since.saturating_mul(1_000)).min(at) };
            let (start, began) = if since > run.start { (since, true) } else { (run.start, run.began) };
            Some(ActiveRow {
                who: who(catalog, r.session),
                doing: run.doing,
                state: r.state,
                event: r.event,
                name: catalog.events.name(r.event),
                for_ns: at.since(start),
                for_at_least: !began,
                time_ns: load.get(&r.session).copied().unwrap_or_default(),
                sql: command(catalog, r, times.query_start),
                query_start: times.query_start,
                xact_start: times.xact_start,
                state_change: times.state_change,
            })
        })
        .collect();
    rows.sort_unstable_by_key(|r| (r.doing, Reverse(r.for_ns), r.who.pid, r.who.session));
    let total = rows.len();
    rows.truncate(if limit == 0 { total } else { limit });
    (rows, Some(at), total)
}

type Runs = FxHashMap<SessionId, Run>;

/// The last tick of the window, the records of the sessions it saw, and the runs they are the end of.
fn last_tick<T: Trace>(walk: &Walk<'_, T>) -> Option<(Ts, Vec<Record>, Runs)> {
    let catalog = walk.trace.catalog();
    let mut found = None;
    walk.trace.scan_back(walk.window, &mut |block| {
        let Some(tick) = Inside::new(block, walk.window).ticks().last() else { return ControlFlow::Continue(()) };
        let only = Inside::new(block, Span::new(tick.at - 1, tick.at));
        let seen: Vec<Record> = block.records().filter(|r| only.samples(r) > 0).collect();
        let runs = seen.iter().map(|r| (r.session, Run::new(catalog, block, r))).collect();
        found = Some((tick.at, seen, runs));
        ControlFlow::Break(())
    });
    found
}

/// An unbroken run of one event, as far back as it is known.
#[derive(Debug)]
struct Run {
    event: WaitEvent,
    kind: BackendKind,
    doing: Doing,
    start: Ts,
    /// Whether it is known that something else, or nothing, was there right before `start`.
    began: bool,
    /// Whether it may reach further back.
    open: bool,
}

impl Run {
    fn new(catalog: &Catalog, block: &Block, r: &Record) -> Self {
        let kind = catalog.sessions.get(&r.session).map_or(BackendKind::Unknown, |s| s.kind);
        let mut run = Self { event: r.event, kind, doing: doing(catalog, kind, r), start: r.span.end, began: false, open: true };
        run.reach(block, r);
        run
    }

    /// Takes in a record at its beginning. A record that begins with the first tick after a gap may have begun in the gap.
    fn reach(&mut self, block: &Block, r: &Record) {
        self.start = r.span.start;
        if tick_at(block, self.start).is_some_and(|t| t.weight == 0)
            && Inside::new(block, Span::new(self.start - 1, self.start)).samples(r) > 0
        {
            self.open = false;
        }
    }

    fn close(&mut self, began: bool) {
        (self.open, self.began) = (false, began);
    }
}

/// What a session seen in a record is doing.
fn doing(catalog: &Catalog, kind: BackendKind, r: &Record) -> Doing {
    match Meaning::of(kind, r.state, r.event, &catalog.events) {
        Meaning::Load | Meaning::IoWorkerBusy if r.event == WaitEvent::CPU => Doing::OnCpu,
        Meaning::Load | Meaning::IoWorkerBusy => Doing::Waiting,
        Meaning::Idle | Meaning::IoWorkerIdle | Meaning::Nothing => Doing::Idle,
    }
}

/// Follows every run back to where it began.
fn begin<T: Trace>(trace: &T, at: Ts, runs: &mut Runs) {
    let catalog = trace.catalog();
    trace.scan_back(Span::new(Ts(0), at), &mut |block| {
        if block.ticks().is_empty() {
            // Intervals: how long it lasts is read from the ticks, which go on beside them.
            return ControlFlow::Continue(());
        }
        for r in block.records().rev() {
            let Some(run) = runs.get_mut(&r.session).filter(|run| run.open && r.span.end == run.start) else { continue };
            if r.event == run.event && doing(catalog, run.kind, &r) == run.doing {
                run.reach(block, &r);
            } else {
                run.close(true);
            }
        }
        let mut open = false;
        for run in runs.values_mut().filter(|run| run.open) {
            // Nothing of it ends where the run starts: it was not there, or the tick could not see it, or there is no such tick.
            match tick_at(block, run.start) {
                Some(tick) => run.close(tick.unread == 0),
                None if run.start > block.span().start => run.close(false),
                None => {}
            }
            open |= run.open;
        }
        if open { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
}

/// Where exact or blocking capture saw the interval that a run is in, it began there; unless that is where the capture began.
fn measured<T: Trace>(trace: &T, at: Ts, runs: &mut Runs) {
    let mut found: Vec<(SessionId, Ts)> = Vec::new();
    trace.scan(Span::new(at - 1, at), &mut |block| {
        for r in block.records().filter(|r| r.span.start < at && r.span.end >= at) {
            let Some(detail) = r.detail else { continue };
            let start = r.span.start - detail.lead_ns;
            if runs.get(&r.session).is_some_and(|run| run.event == r.event && start > run.start) {
                found.push((r.session, start));
            }
        }
    });
    for (session, start) in found {
        let (mut inside, mut cut) = (false, false);
        trace.scan_coverage(Span::new(start - 1, start), &mut |block| {
            inside |= block.watched().iter().any(|w| w.start < start && w.end >= start);
            cut |= block.blind().iter().any(|b| b.session == session && b.span.end == start);
            cut |= block.losses().iter().any(|l| l.session == Some(session) && l.span.end == start);
        });
        if let Some(run) = runs.get_mut(&session).filter(|_| inside && !cut) {
            (run.start, run.began) = (start, true);
        }
    }
}

/// The tick taken at exactly `at`.
fn tick_at(block: &Block, at: Ts) -> Option<Tick> {
    let ticks = block.ticks();
    ticks.binary_search_by_key(&at, |t| t.at).ok().and_then(|i| ticks.get(i)).copied()
}

/// The current or last command: as the session sent it where it is known to be the one that began then, else by the query id.
fn command(catalog: &Catalog, r: &Record, query_start: UnixMicros) -> Sql {
    match catalog.sessions.get(&r.session).map(|s| &s.activity) {
        Some(a) if !a.text.is_empty() && query_start != 0 && a.query_start == query_start => {
            let query = if a.query == QueryId::NONE { r.query } else { a.query };
            let source = catalog.queries.get(&query).map(|q| q.source).unwrap_or_default();
            Sql { query, text: a.text.clone(), truncated: a.truncated, source }
        }
        _ => sql(catalog, r.query),
    }
}
