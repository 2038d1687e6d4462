//! Plays a scenario as if it were a server: for tests, demos and screenshots; no root, no PostgreSQL. Runs on the capture thread.
//!
//! The same scenario always gives the same records, played at once or in real time.

pub mod intervals;
pub mod line;
pub mod scenario;

use super::{Capture, Feed, Progress};
use crate::trace::catalog::{Activity, News, Query, Session, UnixMicros};
use crate::trace::clock::{Clock, SECOND, Ts};
use crate::trace::health::{Access, Health, Link};
use crate::trace::recent::{Batch, Recent};
use crate::trace::record::{Fidelity, QueryId, SessionId, State};
use crate::trace::wait::WaitEvent;
use anyhow::Result;
use intervals::Lanes;
use line::{Does, Stretch};
use rustc_hash::FxHashSet;
use scenario::{Actor, Scenario};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where a scenario starts on the trace clock: late enough that moments before it exist.
pub const START: Ts = Ts(1_000_000 * SECOND);
/// When a scenario starts by the wall clock unless it says so or plays in real time: 2026-01-02T03:04:05Z.
pub const START_WALL: i64 = 1_767_323_045 * SECOND as i64;
/// How much of a scenario goes into one block.
const PORTION: i64 = SECOND as i64 / 4;

/// A scenario being played.
#[derive(Debug)]
pub struct Script {
    scenario: Scenario,
    /// `None`: all at once.
    began: Option<Instant>,
    clock: Clock,
    /// Whole runs of the scenario behind us, the shift we are in, and its ticks behind us.
    round: i64,
    shift: usize,
    tick: u64,
    present: Vec<Option<SessionId>>,
    next_session: u32,
    known: FxHashSet<QueryId>,
    lanes: Lanes,
    introduced: bool,
    now: i64,
    health: Health,
}

/// A tick to be taken.
struct Due {
    /// When, in the scenario's own time of this round.
    at: i64,
    weight: i64,
}

impl Script {
    /// Plays everything at once, at a fixed time of day: each `drain` gives a quarter of a second.
    pub fn instant(scenario: Scenario) -> Self {
        let wall_ns = scenario.start.unwrap_or(START_WALL);
        Self::new(scenario, None, wall_ns)
    }

    /// Plays in real time: `drain` sleeps until the next tick is due.
    pub fn live(scenario: Scenario) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
        Self::new(scenario, Some(Instant::now()), wall)
    }

    fn new(scenario: Scenario, began: Option<Instant>, wall_ns: i64) -> Self {
        let present = vec![None; scenario.actors.len()];
        let health = Health { link: Link::Attached, access: Access::None, attachments: 1, ..Health::default() };
        let clock = Clock { mono: START, wall_ns };
        Self {
            scenario,
            began,
            clock,
            round: 0,
            shift: 0,
            tick: 0,
            present,
            next_session: 1,
            known: FxHashSet::default(),
            lanes: Lanes::default(),
            introduced: false,
            now: 0,
            health,
        }
    }

    /// A whole scenario in memory, one round of it.
    pub fn trace(scenario: Scenario) -> Result<Recent> {
        let mut recent = Recent::new(usize::MAX);
        for batch in Self::batches(scenario)? {
            recent.absorb(batch);
        }
        Ok(recent)
    }

    /// A whole scenario as capture would hand it over, one round of it.
    pub fn batches(scenario: Scenario) -> Result<Vec<Batch>> {
        let mut script = Self::instant(Scenario { again: false, ..scenario });
        let (mut feed, mut batches) = (Feed::default(), Vec::new());
        loop {
            let progress = script.drain(&mut feed, Duration::ZERO)?;
            script.refresh(&mut feed);
            let block = feed.builder.seal().map(Arc::new);
            let intervals = feed.intervals.seal().into_iter().map(Arc::new).collect();
            let news = std::mem::take(&mut feed.news);
            batches.push(Batch { block, intervals, news, health: script.health(), clock: script.clock(), ..Batch::default() });
            if progress == Progress::Ended {
                return Ok(batches);
            }
        }
    }

    /// The next tick, `None` at the scenario's end.
    fn due(&self) -> Option<Due> {
        let shifts = &self.scenario.shifts;
        let shift = shifts.get(self.shift)?;
        let before = match self.shift.checked_sub(1) {
            Some(i) => shifts.get(i),
            // The round before ran to its end, and this one goes on without a gap.
            None if self.round > 0 => shifts.last().filter(|s| s.to == self.scenario.length),
            None => None,
        };
        let follows = before.is_some_and(|b| b.to == shift.from || (self.shift == 0 && shift.from == 0));
        if self.tick == 0 && !follows {
            return Some(Due { at: shift.from, weight: 0 });
        }
        let nth = |k: u64| (shift.from + (u128::from(k) * u128::from(SECOND) / u128::from(shift.hz)) as i64).min(shift.to);
        let k = self.tick.max(1);
        Some(Due { at: nth(k), weight: nth(k) - nth(k - 1) })
    }

    /// Marks a tick as taken.
    fn advance(&mut self, due: &Due) {
        self.tick = if due.weight == 0 { 1 } else { self.tick.max(1) + 1 };
        if self.scenario.shifts.get(self.shift).is_some_and(|s| due.at >= s.to) {
            (self.shift, self.tick) = (self.shift + 1, 0);
            if self.shift >= self.scenario.shifts.len() && self.scenario.again {
                (self.round, self.shift) = (self.round + 1, 0);
            }
        }
    }

    /// An instant of this round since the scenario began.
    fn elapsed(&self, at: i64) -> i64 {
        self.round * self.scenario.length + at
    }

    fn take(&mut self, due: &Due, feed: &mut Feed) {
        let at = START + self.elapsed(due.at).max(0) as u64;
        self.now = self.elapsed(due.at);
        feed.builder.tick(at, due.weight as u64);
        // What was done up to the tick. The first tick after a gap has no such stretch: it finds what is being done from then on.
        let look = if due.weight == 0 { due.at + 1 } else { due.at };
        self.health.ticks += 1;
        self.health.backends = 0;
        self.health.gaps += u64::from(due.weight == 0 && self.health.ticks > 1);
        self.health.rate_hz = self.scenario.shifts.get(self.shift).map_or(0, |s| s.hz);
        for (i, (actor, present)) in self.scenario.actors.iter().zip(&mut self.present).enumerate() {
            let Some(stretch) = actor.at(look) else {
                feed.news.extend(present.take().map(News::Gone));
                continue;
            };
            self.health.backends += 1;
            let id = *present.get_or_insert_with(|| {
                let id = SessionId(self.next_session);
                self.next_session += 1;
                let begin = if actor.repeat.is_some() { 0 } else { actor.does.first().map_or(0, |s| s.from) };
                let started = micros(self.clock, self.round * self.scenario.length + begin);
                feed.news.push(News::Session(id, Box::new(Session { started, ..actor.session.clone() })));
                id
            });
            match &stretch.does {
                Does::Unread => {
                    feed.builder.unread();
                    self.health.unread += 1;
                }
                Does::Seen { mix, query, state, .. } => {
                    if *query != QueryId::NONE && self.known.insert(*query) {
                        feed.news.extend(self.scenario.queries.get(query).map(|q| News::Query(*query, q.clone())));
                    }
                    feed.builder.sample(id, draw(mix, i as u64, self.health.ticks), *query, *state);
                }
            }
        }
        self.lanes.advance(&self.scenario, &self.present, self.now, &mut feed.intervals);
    }

    fn introduce(&mut self, feed: &mut Feed) {
        if !std::mem::replace(&mut self.introduced, true) {
            let mut server = self.scenario.server.clone();
            server.started = micros(self.clock, -self.scenario.up);
            feed.news.push(News::Server(server));
            feed.news.push(News::Events(self.scenario.names.clone()));
        }
    }

    /// What a session says of itself at an instant of this round.
    fn activity(&self, actor: &Actor, at: i64) -> Option<Activity> {
        let base = self.round * self.scenario.length;
        let look = actor.repeat.map_or(at, |(period, ahead)| (at + ahead - 1).rem_euclid(period) + 1);
        let i = actor.does.partition_point(|s| s.to < look);
        let (here, now) = (actor.does.get(..=i)?, seen(actor.does.get(i)?)?);
        if now.1 == State::None {
            return None;
        }
        let begin = |same: &dyn Fn((QueryId, State)) -> bool| {
            let run = here.iter().rev().take_while(|s| seen(s).is_none_or(same)).last();
            run.map_or(0, |s| micros(self.clock, base + at - look + s.from))
        };
        // The newest command: the running one, or the last that ran.
        let last = here.iter().rposition(|s| seen(s).is_some_and(|s| s.1.in_command()));
        let query_start = last.map_or(0, |last| {
            let command = here.get(..=last).unwrap_or_default();
            let run = command.iter().rev().take_while(|s| seen(s).is_none_or(|s| s.1.in_command() && s.0 == now.0)).last();
            run.map_or(0, |s| micros(self.clock, base + at - look + s.from))
        });
        let in_transaction = |s: (QueryId, State)| !matches!(s.1, State::Idle | State::Starting);
        let Query { text, truncated, .. } = self.scenario.queries.get(&now.0).cloned().unwrap_or_default();
        Some(Activity {
            text,
            truncated,
            query_start,
            xact_start: if in_transaction(now) { begin(&in_transaction) } else { 0 },
            state_change: begin(&|s| s.1 == now.1),
            query: now.0,
        })
    }
}

fn seen(stretch: &Stretch) -> Option<(QueryId, State)> {
    match stretch.does {
        Does::Seen { query, state, .. } => Some((query, state)),
        Does::Unread => None,
    }
}

/// Microseconds since 1970 UTC of an instant of the scenario.
fn micros(clock: Clock, at: i64) -> UnixMicros {
    clock.wall_ns.saturating_add(at) / 1_000
}

/// One of the events, by weight; the same for the same session and tick.
fn draw(mix: &[(WaitEvent, u32)], actor: u64, tick: u64) -> WaitEvent {
    let total: u64 = mix.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut x = (actor << 32 ^ tick).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let mut point = (x ^ x >> 31) % total.max(1);
    for (event, weight) in mix {
        match point.checked_sub(u64::from(*weight)) {
            Some(rest) => point = rest,
            None => return *event,
        }
    }
    WaitEvent::CPU
}

impl Capture for Script {
    fn drain(&mut self, feed: &mut Feed, patience: Duration) -> Result<Progress> {
        self.introduce(feed);
        let Some(first) = self.due() else { return Ok(Progress::Ended) };
        let first = self.elapsed(first.at);
        let until = match self.began {
            None => first + PORTION - 1,
            Some(began) => {
                let wait = Duration::from_nanos(first.max(0) as u64).saturating_sub(began.elapsed());
                std::thread::sleep(wait.min(patience));
                began.elapsed().as_nanos() as i64
            }
        };
        while let Some(due) = self.due() {
            let at = self.elapsed(due.at);
            if at > until || at > first + PORTION {
                return Ok(Progress::More);
            }
            self.take(&due, feed);
            self.advance(&due);
        }
        Ok(Progress::Ended)
    }

    fn refresh(&mut self, feed: &mut Feed) {
        self.lanes.tell(&mut feed.intervals);
        let at = self.now - self.round * self.scenario.length;
        for (actor, present) in self.scenario.actors.iter().zip(&self.present) {
            if let (Some(id), Some(activity)) = (present, self.activity(actor, at)) {
                feed.news.push(News::Activity(*id, activity));
            }
        }
    }

    fn fidelity(&self) -> Fidelity {
        Fidelity::Sampled
    }

    fn health(&self) -> Health {
        let mut health = self.health.clone();
        for (_, report) in self.scenario.reports.iter().filter(|(at, _)| *at <= self.now) {
            report.apply(&mut health);
        }
        health
    }

    fn clock(&self) -> Clock {
        self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Trace;
    use crate::trace::clock::Span;
    use crate::trace::record::Record;

    const STORY: &str = r#"
        title = "short"
        rate = 50
        length = "400ms"
        [[session]]
        pid = 1
        does = ["0s..400ms CPU query=5"]
        [[session]]
        pid = 2
        does = ["100ms..200ms Lock:tuple query=5", "200ms..300ms Client:ClientRead"]
        [[query]]
        id = 5
        sql = "SELECT 1"
        [[health]]
        at = "200ms"
        waiting = "the server is restarting"
        late_ticks = 7
    "#;

    fn story(more: &str) -> Scenario {
        Scenario::parse(&format!("{more}\n{STORY}")).unwrap()
    }

    /// Plays to the end, or until `ticks` ticks were taken.
    fn play(script: &mut Script, ticks: u64) -> (Vec<Record>, Vec<News>) {
        let mut feed = Feed::default();
        while script.drain(&mut feed, Duration::from_millis(20)).unwrap() == Progress::More && script.health().ticks < ticks {}
        script.refresh(&mut feed);
        let block = feed.builder.seal().unwrap();
        (block.records().collect(), feed.news)
    }

    #[test]
    fn in_real_time_it_gives_the_same_records() {
        let begin = Instant::now();
        let live = play(&mut Script::live(story("")), u64::MAX);
        assert!(begin.elapsed() >= Duration::from_millis(400));
        let instant = play(&mut Script::instant(story("")), u64::MAX);
        assert_eq!(live.0, instant.0);
        assert_eq!(live.0.len(), 3);
    }

    #[test]
    fn names_come_before_what_they_name_and_the_end_is_told() {
        let mut script = Script::instant(story(""));
        let (_, news) = play(&mut script, u64::MAX);
        assert!(matches!(news[0], News::Server(_)) && matches!(news[1], News::Events(_)));
        let at = |wanted: &dyn Fn(&News) -> bool| news.iter().position(wanted).unwrap();
        let session = at(&|n| matches!(n, News::Session(SessionId(2), s) if s.pid == 2));
        assert!(session < at(&|n| matches!(n, News::Gone(SessionId(2)))));
        assert!(matches!(&news[at(&|n| matches!(n, News::Query(..)))], News::Query(QueryId(5), q) if &*q.text == "SELECT 1"));
        assert!(matches!(news.last(), Some(News::Activity(SessionId(1), a)) if &*a.text == "SELECT 1"));
        assert_eq!(script.drain(&mut Feed::default(), Duration::ZERO).unwrap(), Progress::Ended);
    }

    #[test]
    fn in_a_loop_who_stays_is_the_same_and_who_comes_again_is_another() {
        let mut script = Script::instant(story("loop = true"));
        let (records, news) = play(&mut script, 55);
        let count = |pid| news.iter().filter(|n| matches!(n, News::Session(_, s) if s.pid == pid)).count();
        assert_eq!((count(1), count(2)), (1, 3));
        let first: Vec<_> = records.iter().filter(|r| r.session == SessionId(1)).collect();
        // Twenty ticks a round and the weightless one at the start.
        assert_eq!((first.len(), u64::from(first[0].samples)), (1, script.health().ticks));
        let started = |n: &&News| matches!(n, News::Session(_, s) if s.pid == 2);
        let starts: Vec<i64> = news.iter().filter(started).map(|n| if let News::Session(_, s) = n { s.started } else { 0 }).collect();
        assert_eq!(starts[1] - starts[0], 400_000);
    }

    #[test]
    fn the_recorder_says_what_the_scenario_says() {
        let mut script = Script::instant(story(""));
        let mut feed = Feed::default();
        assert_eq!(script.health().link, Link::Attached);
        while script.drain(&mut feed, Duration::ZERO).unwrap() == Progress::More {}
        let health = script.health();
        assert_eq!(health.link, Link::Waiting { why: "the server is restarting".into() });
        assert_eq!((health.late_ticks, health.ticks, health.backends, health.rate_hz), (7, 21, 1, 50));
    }

    #[test]
    fn a_trace_is_at_a_fixed_time_of_day() {
        let trace = Script::trace(story("")).unwrap();
        assert_eq!(trace.extent(), Some(Span::new(START, START + SECOND * 2 / 5)));
        assert_eq!(trace.clock().wall(START), START_WALL);
        assert_eq!(trace.catalog().server.started, (START_WALL - 3 * 86_400 * SECOND as i64) / 1_000);
        let trace = Script::trace(story("start = \"1970-01-01T00:00:05Z\"")).unwrap();
        assert_eq!(trace.clock().wall(START), 5 * SECOND as i64);
    }
}
