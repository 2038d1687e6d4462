//! The time of one process, made from its records into rows that lie one behind the other: no gap, no overlap, no negative length.
//!
//! A row of "no wait" is cut where a command began or ended, which the server's own times of the command say to a microsecond. Rows of a command
//! whose query is not known yet are held back until it is.

use super::program::wire::{record, track};
use crate::capture::sampler::PARSED_BY;
use crate::trace::block::{Edge, Intervals, Loss, Mark};
use crate::trace::catalog::UnixMicros;
use crate::trace::clock::{Clock, Span, Ts};
use crate::trace::record::{Detail, QueryId, Record, SessionId, State};
use crate::trace::wait::WaitEvent;

/// Rows held back at most for want of a query id.
const MOST_PENDING: usize = 512;
/// A process that has run for longer since it slept is not in the same wait any more, whatever comes.
const STILL_INSIDE: u64 = 20_000_000;

/// What a process showed in its status row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shown {
    /// Whether there was a row to see.
    pub seen: bool,
    /// `state`.
    pub state: State,
    /// Its query id.
    pub query: QueryId,
    /// `query_start`.
    pub activity_start: UnixMicros,
    /// `state_change`.
    pub state_start: UnixMicros,
}

impl Shown {
    /// Whether the command is so old that the server would have shown an id for it if it had one, or waits before it can make one.
    pub fn is_parsed(&self, clock: Clock) -> bool {
        clock.wall_ns / 1_000 - self.activity_start >= PARSED_BY
    }
}

/// Where rows go.
#[derive(Debug)]
pub struct Sink<'a> {
    /// Rows, losses, marks.
    pub to: &'a mut Intervals,
    /// The server's times are wall-clock times.
    pub clock: Clock,
    /// Whether rows show query ids at all.
    pub ids: bool,
}

/// A wait that may have gone on with another sleep.
#[derive(Debug, Clone, Copy)]
struct Held {
    row: Record,
    frame: u64,
    shown: Shown,
}

/// One process.
#[derive(Debug)]
pub struct Strand {
    /// Its session.
    pub session: SessionId,
    /// Records taken in.
    turn: u32,
    /// What it is in, and since when.
    event: WaitEvent,
    since: Ts,
    /// Up to here it has been told, with these totals.
    cut: Ts,
    cpu: u64,
    runq: u64,
    shown: Shown,
    held: Option<Held>,
    pending: Vec<Record>,
    /// Ends of the command whose rows are pending.
    ends: Vec<Mark>,
    pending_since: UnixMicros,
    /// The query of the command that began then, found by its text or in a later row.
    found: (UnixMicros, QueryId),
    /// Every write of `st_state` is told, too, so that nothing about commands has to be inferred.
    states: bool,
    /// The state is not known, since records were lost.
    unsure: bool,
}

impl Strand {
    /// A process that is followed from `at` on, found in `event`.
    pub fn new(session: SessionId, at: Ts, event: WaitEvent, shown: Shown) -> Self {
        Self {
            session,
            turn: 0,
            event,
            since: at,
            cut: at,
            cpu: 0,
            runq: 0,
            shown,
            held: None,
            pending: Vec::new(),
            ends: Vec::new(),
            pending_since: 0,
            found: (0, QueryId::NONE),
            states: false,
            unsure: false,
        }
    }

    /// Records taken in so far.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// From now on every write of `st_state` is told; it showed `shown` when that began.
    pub fn watch_states(&mut self, shown: Shown) {
        self.states = true;
        self.unsure = true;
        if shown.seen {
            self.shown = shown;
        }
    }

    /// Exact: it wrote its `wait_event_info`, or its `st_state`.
    pub fn written(&mut self, r: &record, after: Shown, sink: &mut Sink<'_>) {
        self.mind_the_gap(r, r.since, sink);
        let now = WaitEvent(r.now);
        if now == self.event {
            // Not the wait changed: the state, or nothing.
            if self.states && now == WaitEvent::CPU && after.seen {
                self.turned(r, after, sink);
            }
            return;
        }
        self.close(Ts(r.at), r.cpu, r.runq, after, false, sink);
        self.event = now;
        self.since = self.cut;
    }

    /// It wrote its state, before the rest of its row: a command begins (the row still shows the one before), or ends (the row shows it).
    fn turned(&mut self, r: &record, after: Shown, sink: &mut Sink<'_>) {
        let before = self.shown;
        let (ends, begins) = (before.state.in_command(), after.state.in_command());
        if after.state == before.state && !begins {
            return;
        }
        let of = if ends { Shown { state: before.state, ..after } } else { before };
        self.close(Ts(r.at), r.cpu, r.runq, of, false, sink);
        self.since = self.cut;
        let (at, session) = (self.cut, self.session);
        let mark = |query, edge| Mark { at, session, query, edge, inferred: false };
        // Parse, Bind and Execute of one statement each say that a command runs: one execution.
        if ends && !begins {
            let query = if of.activity_start == self.found.0 && of.query == QueryId::NONE { self.found.1 } else { of.query };
            let end = mark(query, Edge::End);
            if query == QueryId::NONE && !self.pending.is_empty() && self.pending_since == of.activity_start {
                self.ends.push(end);
            } else {
                sink.to.mark(end);
            }
        }
        if begins && !ends {
            sink.to.mark(mark(QueryId::NONE, Edge::Begin));
        }
        self.shown = Shown { query: if begins { QueryId::NONE } else { after.query }, ..after };
        self.unsure = false;
    }

    /// Blocking: it ran again after a sleep inside a wait.
    pub fn slept(&mut self, r: &record, after: Shown, sink: &mut Sink<'_>) {
        self.mind_the_gap(r, r.since, sink);
        let event = WaitEvent(r.old);
        let out = Ts(r.since).max(self.cut);
        let back = Ts(r.at).max(out);
        let inside = self.held.is_some_and(|h| h.frame != 0 && h.frame == r.frame && h.row.event == event);
        if let Some(held) = self.held.as_mut().filter(|_| inside) {
            // It never left the system call: what it computed in between is part of the wait.
            held.row.span.end = back;
            let longest = held.row.span.len();
            let detail = held.row.detail.get_or_insert_default();
            detail.cpu_ns = (detail.cpu_ns + r.cpu.saturating_sub(self.cpu)).min(longest - detail.runq_ns);
            add_runq(&mut held.row, r.runq.saturating_sub(self.runq));
        } else {
            self.recognise(after, sink);
            self.release_held(sink);
            if out.0 == r.since {
                // It ran until then, whatever it was found in.
                self.event = WaitEvent::CPU;
                self.close(out, r.cpu_out, r.runq_out, after, false, sink);
                self.since = out;
            }
            // Else a part of this very sleep was told already.
            let detail = Detail {
                cpu_ns: r.cpu.saturating_sub(self.cpu).min(back.since(self.cut)),
                runq_ns: 0,
                lead_ns: self.cut.since(self.since),
                open: false,
            };
            let mut row = self.row(Span::new(self.cut, back), event, after, detail);
            add_runq(&mut row, r.runq.saturating_sub(self.runq));
            self.held = Some(Held { row, frame: r.frame, shown: after });
        }
        self.event = WaitEvent::CPU;
        self.advance(back, r.cpu, r.runq);
        self.since = back;
        self.shown = if after.seen { after } else { self.shown };
    }

    /// It ended.
    pub fn died(&mut self, r: &record, blocking: bool, sink: &mut Sink<'_>) {
        self.mind_the_gap(r, if blocking { r.at } else { r.since }, sink);
        self.release_held(sink);
        self.close(Ts(r.at), r.cpu, r.runq, Shown::default(), false, sink);
        self.give_up(sink);
    }

    /// Tells what it is in up to `until`, as something that goes on. `read_at`: when `track` and `fresh` were read, not before `until`.
    /// `last`: nothing will come behind it.
    #[allow(clippy::too_many_arguments)]
    pub fn tell(&mut self, until: Ts, track: &track, read_at: Ts, fresh: Shown, blocking: bool, last: bool, sink: &mut Sink<'_>) {
        if track.turn != self.turn || until <= self.cut {
            // Records are on their way and will tell.
            return;
        }
        let (cpu, runq) = totals(track, until, read_at);
        if !blocking {
            let fresh = if self.event == WaitEvent::CPU { fresh } else { Shown::default() };
            self.close(until, cpu, runq, fresh, true, sink);
            return;
        }
        let asleep = if track.out == 0 { track.on == 0 } else { track.asleep != 0 && track.out <= until.0 };
        let event = WaitEvent(track.event);
        if asleep && event != WaitEvent::CPU {
            let out = if track.out == 0 { self.cut } else { Ts(track.out).max(self.cut) };
            let inside = self.held.is_some_and(|h| h.frame != 0 && h.frame == track.frame && h.row.event == event);
            if let Some(held) = self.held.take_if(|_| inside) {
                let mut row = held.row;
                let lead = row.length();
                row.detail.get_or_insert_default().open = true;
                self.give(row, held.shown, sink);
                // The rest of the wait begins here: what was computed in between is told with it.
                self.since = self.cut - lead;
            } else {
                self.release_held(sink);
                if self.event == WaitEvent::CPU {
                    self.close(out, track.cpu_out.max(self.cpu), track.runq_out.max(self.runq), fresh, false, sink);
                    self.since = out;
                }
            }
            self.event = event;
            self.close(until, cpu, runq, fresh, true, sink);
        } else if last || self.held.is_none() || until.since(self.cut) > STILL_INSIDE {
            self.release_held(sink);
            self.close(until, cpu, runq, fresh, true, sink);
        }
    }

    /// The value that was read when it was taken in had changed before the watch began: nobody knows when. Begins anew.
    pub fn repair(&mut self, at: Ts, event: WaitEvent, cpu: u64, runq: u64, sink: &mut Sink<'_>) {
        sink.to.lost(Loss { span: Span::new(self.cut, at), session: Some(self.session), records: 1 });
        self.event = event;
        self.since = at;
        self.advance(at, cpu, runq);
    }

    /// Hands over what is held back, as it is: nothing more will come.
    pub fn give_up(&mut self, sink: &mut Sink<'_>) {
        self.release_held(sink);
        self.settle(QueryId::NONE, sink);
    }

    /// The beginning of the command whose rows wait for a query id.
    pub fn wants_query(&self) -> Option<UnixMicros> {
        (!self.pending.is_empty()).then_some(self.pending_since)
    }

    /// The query of the rows that waited for one.
    pub fn settle(&mut self, query: QueryId, sink: &mut Sink<'_>) {
        if query != QueryId::NONE {
            self.found = (self.pending_since, query);
        }
        for row in self.pending.drain(..) {
            sink.to.row(Record { query, ..row });
        }
        for mark in self.ends.drain(..) {
            sink.to.mark(Mark { query, ..mark });
        }
    }

    /// Counts the record. Where records before it were lost there is a hole up to `known`, from where the record tells.
    fn mind_the_gap(&mut self, r: &record, known: u64, sink: &mut Sink<'_>) {
        let missing = r.turn.wrapping_sub(self.turn).wrapping_sub(1);
        self.turn = r.turn;
        if missing == 0 {
            return;
        }
        self.release_held(sink);
        self.unsure = true;
        let known = Ts(known).max(self.cut);
        sink.to.lost(Loss { span: Span::new(self.cut, known), session: Some(self.session), records: u64::from(missing) });
        self.event = WaitEvent(r.old);
        if r.cpu_out > 0 {
            self.event = WaitEvent::CPU;
            self.advance(known, r.cpu_out, r.runq_out);
        } else {
            // On-CPU time inside the hole is not known apart from that behind it: as much as fits is behind it.
            let length = Ts(r.at).since(known);
            self.advance(known, r.cpu - r.cpu.saturating_sub(self.cpu).min(length), r.runq - r.runq.saturating_sub(self.runq).min(length));
        }
        self.since = known;
    }

    fn advance(&mut self, to: Ts, cpu: u64, runq: u64) {
        self.cut = self.cut.max(to);
        self.cpu = self.cpu.max(cpu);
        self.runq = self.runq.max(runq);
    }

    fn row(&self, span: Span, event: WaitEvent, shown: Shown, detail: Detail) -> Record {
        let query = if shown.seen { shown.query } else { QueryId::NONE };
        Record { span, session: self.session, event, query, state: shown.state, samples: 0, detail: Some(detail) }
    }

    /// Tells the current interval up to `at`.
    fn close(&mut self, at: Ts, cpu: u64, runq: u64, after: Shown, open: bool, sink: &mut Sink<'_>) {
        let span = Span::new(self.cut, at.max(self.cut));
        let length = span.len();
        let cpu_ns = cpu.saturating_sub(self.cpu).min(length);
        let runq_ns = runq.saturating_sub(self.runq).min(length - cpu_ns);
        let before = self.shown;
        let now = if after.seen { after } else { before };
        let lead_ns = span.start.since(self.since);
        if length > 0 {
            if self.event == WaitEvent::CPU {
                let parts = if self.states {
                    let state = if self.unsure { now.state } else { before.state };
                    vec![(span, Shown { state, ..now })]
                } else {
                    parts(span, before, now, self.session, sink)
                };
                let last = parts.len().saturating_sub(1);
                for (i, (part, shown)) in parts.iter().enumerate() {
                    let share = |ns: u64| (u128::from(ns) * u128::from(part.len()) / u128::from(length)) as u64;
                    let detail = Detail {
                        cpu_ns: share(cpu_ns),
                        runq_ns: share(runq_ns),
                        lead_ns: if i == 0 { lead_ns } else { 0 },
                        open: open && i == last,
                    };
                    let row = self.row(*part, self.event, *shown, detail);
                    self.give(row, *shown, sink);
                }
                if let Some((part, _)) = parts.last().filter(|_| last > 0) {
                    self.since = part.start;
                }
            } else {
                let row = self.row(span, self.event, now, Detail { cpu_ns, runq_ns, lead_ns, open });
                self.give(row, now, sink);
            }
        }
        // What did not fit is told with the next row.
        self.cut = span.end;
        self.cpu += cpu_ns;
        self.runq += runq_ns;
        self.shown = now;
        self.unsure &= !after.seen;
    }

    /// A wait held back whose process showed nothing yet, so young it was: the command it shows now is the one of that wait if it began before it.
    fn recognise(&mut self, after: Shown, sink: &Sink<'_>) {
        let Some(held) = self.held.as_mut().filter(|h| !h.shown.seen) else { return };
        let began = sink.clock.ts(after.activity_start.saturating_mul(1_000));
        if after.seen && after.state.in_command() && began <= held.row.span.start {
            (held.row.state, held.shown) = (after.state, after);
            if sink.ids {
                held.row.query = after.query;
            }
        }
    }

    fn release_held(&mut self, sink: &mut Sink<'_>) {
        if let Some(held) = self.held.take() {
            self.give(held.row, held.shown, sink);
        }
    }

    /// Hands a row over, or holds it back until the query of its command is known.
    fn give(&mut self, mut row: Record, shown: Shown, sink: &mut Sink<'_>) {
        if sink.ids && shown.seen && row.query == QueryId::NONE && shown.activity_start == self.found.0 {
            row.query = self.found.1;
        }
        let same = self.pending_since == shown.activity_start;
        if sink.ids && shown.seen && row.query == QueryId::NONE && row.state.in_command() {
            if !same || self.pending.len() >= MOST_PENDING {
                self.settle(QueryId::NONE, sink);
            }
            self.pending_since = shown.activity_start;
            self.pending.push(row);
            return;
        }
        if !self.pending.is_empty() && (!same || row.query != QueryId::NONE) {
            let query = if same { row.query } else { QueryId::NONE };
            self.settle(query, sink);
        }
        sink.to.row(row);
    }
}

/// More time in the run queue, as far as it fits beside the time on the CPU.
fn add_runq(row: &mut Record, ns: u64) {
    let longest = row.span.len();
    let detail = row.detail.get_or_insert_default();
    detail.runq_ns = (detail.runq_ns + ns).min(longest.saturating_sub(detail.cpu_ns));
}

/// A track's totals at `until`, not after it was read.
fn totals(track: &track, until: Ts, read_at: Ts) -> (u64, u64) {
    let mut cpu = track.cpu;
    let mut runq = track.runq;
    if track.on != 0 {
        cpu += until.since(Ts(track.on));
    } else if track.out > until.0 {
        // It left the CPU between the two moments.
        cpu = cpu.saturating_sub(track.out - until.0);
    } else if track.out != 0 {
        let from = if track.asleep == 0 {
            track.out
        } else if track.woken > track.out {
            track.woken
        } else {
            until.0
        };
        runq += until.0.saturating_sub(from);
    }
    debug_assert!(read_at >= until);
    (cpu, runq)
}

/// A stretch without a wait, cut where commands began and ended.
fn parts(span: Span, before: Shown, after: Shown, session: SessionId, sink: &mut Sink<'_>) -> Vec<(Span, Shown)> {
    let began = after.activity_start != before.activity_start && after.activity_start != 0;
    let ran = began || before.state.in_command();
    let ended = after.seen && ran && !after.state.in_command() && after.state_start != before.state_start;
    if !before.seen || !began && !ended {
        return vec![(span, after)];
    }
    let at = |micros: UnixMicros, from: Ts| sink.clock.ts(micros.saturating_mul(1_000)).clamp(from, span.end);
    let mut parts = Vec::with_capacity(3);
    let mut marks = Vec::with_capacity(3);
    let mut from = span.start;
    let mark = |at, query, edge| Mark { at, session, query, edge, inferred: true };
    if began {
        let begin = at(after.activity_start, from);
        if before.state.in_command() {
            marks.push(mark(begin, before.query, Edge::End));
        }
        marks.push(mark(begin, after.query, Edge::Begin));
        parts.push((Span::new(from, begin), before));
        from = begin;
    }
    if ended {
        let end = at(after.state_start, from);
        marks.push(mark(end, after.query, Edge::End));
        parts.push((Span::new(from, end), Shown { state: State::Active, ..after }));
        from = end;
    }
    parts.push((Span::new(from, span.end), after));
    for m in marks {
        sink.to.mark(m);
    }
    parts.retain(|(span, _)| !span.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::window::program::wire;

    const READ: u32 = 0x0600_0000;
    const LOCK: u32 = 0x0300_0005;
    const SYNC: u32 = 0x0a00_004e;
    const CLOCK: Clock = Clock { mono: Ts(0), wall_ns: 0 };

    fn idle(at_us: i64) -> Shown {
        Shown { seen: true, state: State::Idle, query: QueryId(1), activity_start: 1, state_start: at_us }
    }

    fn active(began_us: i64, query: i64) -> Shown {
        Shown { seen: true, state: State::Active, query: QueryId(query), activity_start: began_us, state_start: began_us }
    }

    fn write(turn: u32, at: u64, old: u32, now: u32, since: u64, cpu: u64) -> record {
        record { kind: wire::kind::WRITE, turn, at, stamp: at, old, now, since, cpu, ..record::default() }
    }

    fn sleep(turn: u32, out: u64, back: u64, event: u32, frame: u64, cpu: u64) -> record {
        record {
            kind: wire::kind::SLEPT,
            turn,
            at: back,
            stamp: back,
            since: out,
            old: event,
            frame,
            cpu,
            cpu_out: cpu,
            ..record::default()
        }
    }

    /// (start, end, event, query, state, cpu, lead, open)
    type Row = (u64, u64, u32, i64, State, u64, u64, bool);

    fn rows(made: &mut Intervals) -> Vec<Row> {
        let blocks = made.seal();
        let mut rows: Vec<Record> = blocks.iter().flat_map(|b| b.records().collect::<Vec<_>>()).collect();
        rows.sort_by_key(|r| r.span.start);
        assert!(rows.windows(2).all(|p| p[0].span.end <= p[1].span.start), "{rows:#?}");
        rows.iter()
            .map(|r| {
                let d = r.detail.unwrap();
                (r.span.start.0, r.span.end.0, r.event.0, r.query.0, r.state, d.cpu_ns, d.lead_ns, d.open)
            })
            .collect()
    }

    fn sink(made: &mut Intervals) -> Sink<'_> {
        Sink { to: made, clock: CLOCK, ids: true }
    }

    #[test]
    fn a_wait_of_a_process_too_young_to_be_known_is_of_the_command_it_is_found_in() {
        for (began_us, query, state) in [(5, 7, State::Active), (35, 0, State::default())] {
            let mut made = Intervals::default();
            let mut s = Strand::new(SessionId(1), Ts(9_000), WaitEvent::CPU, Shown::default());
            s.slept(&sleep(1, 10_000, 20_000, LOCK, 1, 0), Shown::default(), &mut sink(&mut made));
            s.slept(&sleep(2, 40_000, 50_000, LOCK, 2, 0), active(began_us, 7), &mut sink(&mut made));
            s.release_held(&mut sink(&mut made));
            let waits: Vec<Row> = rows(&mut made).into_iter().filter(|r| r.2 == LOCK).collect();
            assert_eq!((waits[0].3, waits[0].4), (query, state), "{waits:?}");
            assert_eq!((waits[1].3, waits[1].4), (7, State::Active));
        }
    }

    #[test]
    fn transitions_tile_and_commands_cut() {
        let mut made = Intervals::default();
        let mut s = Strand::new(SessionId(1), Ts(10_000), WaitEvent(READ), idle(5));
        s.written(&write(1, 50_000, READ, 0, 10_000, 0), idle(5), &mut sink(&mut made));
        // Between the two writes a command began (at 52 µs) and ended (at 70 µs); it was on the CPU all the time.
        let after = Shown { query: QueryId(9), activity_start: 52, state_start: 70, ..idle(0) };
        s.written(&write(2, 80_000, 0, READ, 50_000, 30_000), after, &mut sink(&mut made));
        assert_eq!(
            rows(&mut made),
            [
                (10_000, 50_000, READ, 1, State::Idle, 0, 0, false),
                (50_000, 52_000, 0, 1, State::Idle, 2_000, 0, false),
                (52_000, 70_000, 0, 9, State::Active, 18_000, 0, false),
                (70_000, 80_000, 0, 9, State::Idle, 10_000, 0, false),
            ]
        );
    }

    #[test]
    fn a_lost_record_is_a_hole_and_the_rest_is_right() {
        let mut made = Intervals::default();
        let mut s = Strand::new(SessionId(1), Ts(10), WaitEvent(LOCK), active(0, 7));
        s.written(&write(1, 20, LOCK, 0, 10, 0), active(0, 7), &mut sink(&mut made));
        // The second is lost: it said that LOCK began at 30.
        s.written(&write(3, 40, LOCK, 0, 30, 5), active(0, 7), &mut sink(&mut made));
        let losses = made.seal().iter().flat_map(|b| b.losses().to_vec()).collect::<Vec<_>>();
        assert_eq!(losses, [Loss { span: Span::new(Ts(20), Ts(30)), session: Some(SessionId(1)), records: 1 }]);
    }

    #[test]
    fn rows_wait_for_the_query_of_their_command() {
        let mut made = Intervals::default();
        let mut s = Strand::new(SessionId(1), Ts(10), WaitEvent::CPU, active(3, 0));
        s.written(&write(1, 20, 0, LOCK, 10, 0), active(3, 0), &mut sink(&mut made));
        s.written(&write(2, 30, LOCK, 0, 20, 0), active(3, 0), &mut sink(&mut made));
        assert!(rows(&mut made).is_empty());
        assert_eq!(s.wants_query(), Some(3));
        s.written(&write(3, 40, 0, READ, 30, 0), active(3, 8), &mut sink(&mut made));
        assert!(rows(&mut made).iter().all(|r| r.3 == 8));
    }

    #[test]
    fn sleeps_of_one_system_call_are_one_wait() {
        let mut made = Intervals::default();
        let mut s = Strand::new(SessionId(1), Ts(0), WaitEvent::CPU, active(0, 7));
        s.slept(&sleep(1, 10, 20, SYNC, 99, 10), active(0, 7), &mut sink(&mut made));
        s.slept(&sleep(2, 22, 30, SYNC, 99, 12), active(0, 7), &mut sink(&mut made));
        s.slept(&sleep(3, 35, 40, SYNC, 98, 17), active(0, 7), &mut sink(&mut made));
        s.give_up(&mut sink(&mut made));
        assert_eq!(
            rows(&mut made),
            [
                (0, 10, 0, 7, State::Active, 10, 0, false),
                (10, 30, SYNC, 7, State::Active, 2, 0, false),
                (30, 35, 0, 7, State::Active, 5, 0, false),
                (35, 40, SYNC, 7, State::Active, 0, 0, false),
            ]
        );
    }

    #[test]
    fn commands_without_a_wait_between_them_are_told_apart_by_their_states() {
        let idle = |began, query| Shown { state: State::Idle, ..active(began, query) };
        let mut made = Intervals::default();
        let mut s = Strand::new(SessionId(1), Ts(0), WaitEvent::CPU, idle(0, 6));
        s.watch_states(idle(0, 6));
        // What a row shows when its state is written: where a command begins still the one before.
        for (turn, (at, shown)) in [(10, active(0, 6)), (30, idle(1, 7)), (35, active(1, 7)), (50, idle(2, 8))].into_iter().enumerate() {
            s.written(&write(turn as u32 + 1, at, 0, 0, 0, at), shown, &mut sink(&mut made));
        }
        s.written(&write(5, 60, 0, LOCK, 0, 60), idle(2, 8), &mut sink(&mut made));
        let block = made.seal().remove(0);
        let rows: Vec<_> = block.records().map(|r| (r.span.start.0, r.span.end.0, r.query.0, r.state)).collect();
        let (idle, active) = (State::Idle, State::Active);
        assert_eq!(rows, [(0, 10, 6, idle), (10, 30, 7, active), (30, 35, 7, idle), (35, 50, 8, active), (50, 60, 8, idle)]);
        let marks: Vec<_> = block.marks().iter().map(|m| (m.at.0, m.query.0, m.edge, m.inferred)).collect();
        let (begin, end) = (Edge::Begin, Edge::End);
        assert_eq!(marks, [(10, 0, begin, false), (30, 7, end, false), (35, 0, begin, false), (50, 8, end, false)]);
    }

    #[test]
    fn a_wait_that_lasts_is_told_in_pieces() {
        let mut made = Intervals::default();
        for blocking in [false, true] {
            let mut s = Strand::new(SessionId(1), Ts(0), WaitEvent::CPU, active(0, 7));
            let mut asleep = track { out: 10, asleep: 1, event: LOCK, cpu: 10, cpu_out: 10, known: 1, ..track::default() };
            if !blocking {
                s.written(&write(1, 10, 0, LOCK, 0, 10), active(0, 7), &mut sink(&mut made));
                asleep.turn = 1;
            }
            s.tell(Ts(100), &asleep, Ts(100), active(0, 7), blocking, false, &mut sink(&mut made));
            s.tell(Ts(200), &asleep, Ts(200), active(0, 7), blocking, false, &mut sink(&mut made));
            if blocking {
                s.slept(&sleep(1, 10, 250, LOCK, 0, 10), active(0, 7), &mut sink(&mut made));
            } else {
                s.written(&write(2, 250, LOCK, 0, 10, 10), active(0, 7), &mut sink(&mut made));
            }
            s.give_up(&mut sink(&mut made));
            assert_eq!(
                rows(&mut made),
                [
                    (0, 10, 0, 7, State::Active, 10, 0, false),
                    (10, 100, LOCK, 7, State::Active, 0, 0, true),
                    (100, 200, LOCK, 7, State::Active, 0, 90, true),
                    (200, 250, LOCK, 7, State::Active, 0, 190, false),
                ],
                "{blocking}"
            );
        }
    }
}
