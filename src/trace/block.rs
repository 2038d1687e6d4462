//! A block of records as columns: sorted by start, immutable once sealed, shared. The unit from capture to the screen.
//!
//! A sampled block also holds its ticks: when each was taken and how much time it stands for. They are the coverage: time that no
//! tick stands for was not observed, and a tick that saw nobody is still a tick. An exact or blocking block says instead which stretches
//! it observed, which sessions it was blind to, and what it lost.

use super::clock::{Span, Ts};
use super::record::{Detail, Fidelity, QueryId, Record, SessionId, State};
use super::wait::WaitEvent;
use rustc_hash::FxHashMap;

pub mod columns;
pub mod intervals;

pub use columns::Columns;
pub use intervals::{Blind, Edge, Intervals, Loss, Mark};

/// Records per block at which a [`Builder`] asks to be sealed.
pub const FULL: usize = 4096;

/// One look at every backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// When it was taken.
    pub at: Ts,
    /// Nanoseconds before `at` it stands for: the measured time since the tick before. 0 for the first tick after a gap.
    pub weight: u64,
    /// Backends it could not read: holes in their coverage.
    pub unread: u32,
}

impl Tick {
    /// The stretch it stands for.
    pub fn span(self) -> Span {
        Span::new(self.at - self.weight, self.at)
    }
}

/// Records as columns of equal length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Block {
    fidelity: Fidelity,
    span: Span,
    ticks: Vec<Tick>,
    start: Vec<Ts>,
    end: Vec<Ts>,
    session: Vec<SessionId>,
    event: Vec<WaitEvent>,
    query: Vec<QueryId>,
    state: Vec<State>,
    samples: Vec<u32>,
    /// Nanoseconds; empty in sampled blocks. Rows of exact blocks are cut long before this is too small.
    cpu: Vec<u32>,
    runq: Vec<u32>,
    /// Rows that are not whole intervals.
    pieces: Vec<Piece>,
    watched: Vec<Span>,
    losses: Vec<Loss>,
    blind: Vec<Blind>,
    marks: Vec<Mark>,
}

/// A row that is a part of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    row: u32,
    lead_ns: u64,
    open: bool,
}

/// Longest row of an exact block, so that its times fit their columns.
const LONGEST: u64 = 4_000_000_000;

impl Block {
    /// How its records were made.
    pub fn fidelity(&self) -> Fidelity {
        self.fidelity
    }
    /// The time it covers, from the first tick's stretch to the last tick, records included.
    pub fn span(&self) -> Span {
        self.span
    }
    /// Its ticks, oldest first.
    pub fn ticks(&self) -> &[Tick] {
        &self.ticks
    }
    /// Number of records.
    pub fn len(&self) -> usize {
        self.start.len()
    }
    /// Whether it holds no record (it may still hold ticks).
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }
    /// The sessions column.
    pub fn sessions(&self) -> &[SessionId] {
        &self.session
    }
    /// The queries column.
    pub fn queries(&self) -> &[QueryId] {
        &self.query
    }
    /// Stretches that were watched without interruption (exact and blocking blocks), in order: their coverage, whether anybody did anything or not.
    /// Rows may reach back before them: they are handed over when it is certain what they are.
    pub fn watched(&self) -> &[Span] {
        &self.watched
    }
    /// What was lost inside watched stretches.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }
    /// Sessions that were there in watched stretches and not followed.
    pub fn blind(&self) -> &[Blind] {
        &self.blind
    }
    /// Beginnings and ends of executions.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }
    /// Bytes it occupies in memory, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.ticks.capacity() * size_of::<Tick>()
            + self.start.capacity() * (8 + 8 + 4 + 4 + 8 + 1 + 4)
            + self.cpu.capacity() * 8
            + self.pieces.capacity() * size_of::<Piece>()
            + self.watched.capacity() * size_of::<Span>()
            + self.losses.capacity() * size_of::<Loss>()
            + self.blind.capacity() * size_of::<Blind>()
            + self.marks.capacity() * size_of::<Mark>()
    }

    /// What exact rows know beyond others, row by row.
    fn details(&self) -> impl FnMut() -> Option<Detail> + '_ {
        let mut times = self.cpu.iter().zip(&self.runq);
        let mut pieces = self.pieces.iter().peekable();
        let mut row = 0;
        move || {
            let (cpu, runq) = times.next()?;
            let piece = pieces.next_if(|p| p.row == row);
            row += 1;
            Some(Detail {
                cpu_ns: u64::from(*cpu),
                runq_ns: u64::from(*runq),
                lead_ns: piece.map_or(0, |p| p.lead_ns),
                open: piece.is_some_and(|p| p.open),
            })
        }
    }

    /// The records, by start time.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = Record> + ExactSizeIterator + '_ {
        let times = self.start.iter().zip(&self.end);
        let what = self.session.iter().zip(&self.event).zip(&self.query);
        let how = self.state.iter().zip(&self.samples);
        let mut detail = self.details();
        times.zip(what).zip(how).map(move |(((start, end), ((session, event), query)), (state, samples))| Record {
            span: Span { start: *start, end: *end },
            session: *session,
            event: *event,
            query: *query,
            state: *state,
            samples: *samples,
            detail: detail(),
        })
    }

    fn from_records(fidelity: Fidelity, ticks: Vec<Tick>, mut records: Vec<Record>) -> Self {
        // By end, too, and what goes on before what goes on from there: an order that does not depend on how the records came.
        records.sort_by_key(|r| (r.span.start, r.session, r.span.end, r.detail.is_none_or(|d| !d.open)));
        let n = records.len();
        let detailed = if records.iter().any(|r| r.detail.is_some()) { n } else { 0 };
        let mut block = Self {
            fidelity,
            ticks,
            start: Vec::with_capacity(n),
            end: Vec::with_capacity(n),
            session: Vec::with_capacity(n),
            event: Vec::with_capacity(n),
            query: Vec::with_capacity(n),
            state: Vec::with_capacity(n),
            samples: Vec::with_capacity(n),
            cpu: Vec::with_capacity(detailed),
            runq: Vec::with_capacity(detailed),
            ..Self::default()
        };
        let mut span: Option<Span> = None;
        let mut cover = |s: Span| {
            span = Some(span.map_or(s, |x| Span { start: x.start.min(s.start), end: x.end.max(s.end) }));
        };
        block.ticks.iter().for_each(|t| cover(t.span()));
        for r in records {
            cover(r.span);
            block.start.push(r.span.start);
            block.end.push(r.span.end);
            block.session.push(r.session);
            block.event.push(r.event);
            block.query.push(r.query);
            block.state.push(r.state);
            block.samples.push(r.samples);
            if detailed > 0 {
                let d = r.detail.unwrap_or_default();
                let short = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
                if d.open || d.lead_ns > 0 {
                    block.pieces.push(Piece { row: block.cpu.len() as u32, lead_ns: d.lead_ns, open: d.open });
                }
                block.cpu.push(short(d.cpu_ns));
                block.runq.push(short(d.runq_ns));
            }
        }
        block.span = span.unwrap_or_default();
        block
    }

    /// One block with the content of several consecutive ones of one fidelity: rows of a session that run on without a change become one row.
    /// Every question has the same answer over it as over the parts.
    #[must_use]
    pub fn merge<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut ticks = Vec::new();
        let mut done: Vec<Record> = Vec::new();
        let mut open: FxHashMap<SessionId, Record> = FxHashMap::default();
        let mut fidelity = Fidelity::None;
        let mut coverage = Self::default();
        for part in parts {
            fidelity = fidelity.join(part.fidelity);
            ticks.extend_from_slice(&part.ticks);
            coverage.add_coverage(part);
            for r in part.records() {
                match open.get_mut(&r.session) {
                    Some(o) if same_run(o, &r) => {
                        o.span.end = r.span.end;
                        o.samples += r.samples;
                        if let (Some(d), Some(e)) = (&mut o.detail, r.detail) {
                            d.cpu_ns += e.cpu_ns;
                            d.runq_ns += e.runq_ns;
                            d.open = e.open;
                        }
                    }
                    Some(o) => done.push(std::mem::replace(o, r)),
                    None => {
                        open.insert(r.session, r);
                    }
                }
            }
        }
        done.extend(open.into_values());
        ticks.shrink_to_fit();
        let mut block = Self::from_records(fidelity, ticks, done);
        block.add_coverage(&coverage);
        block
    }

    /// Takes over what another block says about coverage.
    fn add_coverage(&mut self, other: &Self) {
        for span in &other.watched {
            match self.watched.last_mut() {
                Some(last) if last.end == span.start => last.end = span.end,
                _ => self.watched.push(*span),
            }
            let whole = if self.span.is_empty() { *span } else { self.span };
            self.span = Span { start: whole.start.min(span.start), end: whole.end.max(span.end) };
        }
        self.losses.extend_from_slice(&other.losses);
        self.blind.extend_from_slice(&other.blind);
        self.marks.extend_from_slice(&other.marks);
    }
}

/// Whether `next` goes on where `run` ends, in the same state. Whole exact rows never merge, each is a wait of its own; pieces of one wait do.
fn same_run(run: &Record, next: &Record) -> bool {
    let goes_on = match (run.detail, next.detail) {
        (None, None) => run.samples > 0 && next.samples > 0,
        (Some(a), Some(b)) => a.open && b.lead_ns == run.length() && run.span.len() + next.span.len() < LONGEST,
        _ => false,
    };
    goes_on && run.span.end == next.span.start && (run.event, run.query, run.state) == (next.event, next.query, next.state)
}

/// Makes sampled blocks: call [`Self::tick`], then [`Self::sample`] for each backend, again and again; [`Self::seal`] now and then.
#[derive(Debug, Default)]
pub struct Builder {
    ticks: Vec<Tick>,
    /// The current run of each session, and where it is. Sessions come in the same order at nearly every tick, so the next place is tried first.
    open: Vec<Record>,
    places: FxHashMap<SessionId, usize>,
    next: usize,
    done: Vec<Record>,
}

impl Builder {
    /// Begins a tick taken at `at` that stands for the `weight` nanoseconds before it. Weight 0: the first after a gap; its samples are seen, but weigh nothing.
    pub fn tick(&mut self, at: Ts, weight: u64) {
        self.ticks.push(Tick { at, weight, unread: 0 });
        self.next = 0;
    }

    /// What one session was found doing at the current tick.
    pub fn sample(&mut self, session: SessionId, event: WaitEvent, query: QueryId, state: State) {
        let Some(tick) = self.ticks.last() else { return };
        let row = Record { span: tick.span(), session, event, query, state, samples: 1, detail: None };
        let expected = self.open.get(self.next).is_some_and(|run| run.session == session);
        let place = if expected { self.next } else { *self.places.entry(session).or_insert(self.open.len()) };
        self.next = place + 1;
        match self.open.get_mut(place) {
            Some(run) if same_run(run, &row) => {
                run.span.end = row.span.end;
                run.samples += 1;
            }
            Some(run) => self.done.push(std::mem::replace(run, row)),
            None => self.open.push(row),
        }
    }

    /// A backend that the current tick could not read: a hole, not CPU.
    pub fn unread(&mut self) {
        if let Some(tick) = self.ticks.last_mut() {
            tick.unread += 1;
        }
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.open.len() + self.done.len()
    }

    /// Whether there is nothing to seal.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    /// The instant of the first tick since the last seal.
    pub fn since(&self) -> Option<Ts> {
        self.ticks.first().map(|t| t.at)
    }

    /// Everything since the last seal as a block. A run that goes on continues in the next block as another row.
    pub fn seal(&mut self) -> Option<Block> {
        if self.ticks.is_empty() {
            return None;
        }
        let ticks = std::mem::take(&mut self.ticks);
        let mut records = std::mem::take(&mut self.done);
        records.append(&mut self.open);
        self.places.clear();
        Some(Block::from_records(Fidelity::Sampled, ticks, records))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const LOCK: WaitEvent = WaitEvent(0x0300_0005);

    fn tick(b: &mut Builder, at: u64, weight: u64, rows: &[(SessionId, WaitEvent)]) {
        b.tick(Ts(at), weight);
        for (s, e) in rows {
            b.sample(*s, *e, QueryId(7), State::Active);
        }
    }

    #[test]
    fn unchanged_state_is_one_row_worth_exactly_its_ticks() {
        let mut b = Builder::default();
        tick(&mut b, 100, 0, &[(A, LOCK)]);
        tick(&mut b, 110, 10, &[(A, LOCK)]);
        tick(&mut b, 125, 15, &[(A, LOCK)]);
        tick(&mut b, 130, 5, &[(A, WaitEvent::CPU)]);
        let block = b.seal().unwrap();
        let rows: Vec<Record> = block.records().collect();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].span, rows[0].samples), (Span::new(Ts(100), Ts(125)), 3));
        assert_eq!((rows[1].span, rows[1].event), (Span::new(Ts(125), Ts(130)), WaitEvent::CPU));
        assert_eq!(block.span(), Span::new(Ts(100), Ts(130)));
        assert!(b.seal().is_none());
    }

    #[test]
    fn a_missed_tick_breaks_the_run() {
        let mut b = Builder::default();
        tick(&mut b, 10, 10, &[(A, LOCK)]);
        tick(&mut b, 20, 10, &[]);
        b.unread();
        tick(&mut b, 30, 10, &[(A, LOCK)]);
        let block = b.seal().unwrap();
        let rows: Vec<Record> = block.records().collect();
        assert_eq!(rows.iter().map(|r| r.span.len()).sum::<u64>(), 20);
        assert_eq!(block.ticks()[1].unread, 1);
    }

    #[test]
    fn a_tick_that_saw_nobody_is_recorded() {
        let mut b = Builder::default();
        tick(&mut b, 10, 10, &[]);
        let block = b.seal().unwrap();
        assert!(block.is_empty());
        assert_eq!(block.span().len(), 10);
    }

    #[test]
    fn merging_joins_runs_across_blocks() {
        let mut b = Builder::default();
        tick(&mut b, 10, 10, &[(A, LOCK)]);
        let first = b.seal().unwrap();
        tick(&mut b, 20, 10, &[(A, LOCK)]);
        let second = b.seal().unwrap();
        let merged = Block::merge([&first, &second]);
        assert_eq!(merged.len(), 1);
        assert_eq!(merged.ticks().len(), 2);
        assert_eq!(merged.records().next().unwrap().span, Span::new(Ts(0), Ts(20)));
    }
}
