//! Time and observations per session, event and query, with their course over the window: what every table is made from. Pure.

use super::answer::{Latency, Measured};
use super::grid::Grid;
use super::latency;
use super::meaning::Meaning;
use super::walk::{Ended, Piece, Walk};
use crate::trace::Trace;
use crate::trace::lengths::Lengths;
use crate::trace::record::{QueryId, SessionId};
use crate::trace::wait::WaitEvent;
use rustc_hash::{FxHashMap, FxHashSet};

/// What a table needs to be told apart. The less it is, the faster it is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Events.
    Event,
    /// Sessions.
    Session,
    /// Sessions and events.
    SessionEvent,
    /// Queries and events.
    QueryEvent,
    /// Sessions and events, and which queries they ran.
    SessionEventAndQueries,
    /// Queries and events, and which sessions ran them.
    QueryEventAndSessions,
}

impl Detail {
    fn has_session(self) -> bool {
        matches!(self, Self::Session | Self::SessionEvent | Self::SessionEventAndQueries)
    }

    fn has_query(self) -> bool {
        matches!(self, Self::QueryEvent | Self::QueryEventAndSessions)
    }

    fn has_runs(self) -> bool {
        matches!(self, Self::SessionEventAndQueries | Self::QueryEventAndSessions)
    }

    /// Whether how long waits were is wanted, per row of the table.
    fn has_lengths(self) -> bool {
        matches!(self, Self::SessionEvent | Self::QueryEvent)
    }

    fn has_event(self) -> bool {
        self != Self::Session
    }

    /// What has a sparkline of its own: the rows of the table that this detail is for.
    fn has_line(self, key: Key) -> Key {
        match self {
            Self::Event | Self::SessionEvent => Key { session: SessionId::default(), query: QueryId::NONE, ..key },
            Self::Session | Self::SessionEventAndQueries => Key { event: WaitEvent::CPU, query: QueryId::NONE, ..key },
            Self::QueryEvent => key,
            Self::QueryEventAndSessions => Key { event: WaitEvent::CPU, session: SessionId::default(), ..key },
        }
    }
}

/// What is told apart; what the detail leaves out is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Who.
    pub session: SessionId,
    /// For which query.
    pub query: QueryId,
    /// In what.
    pub event: WaitEvent,
    /// What it counts as.
    pub meaning: Meaning,
}

/// Time, observations and waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Nanoseconds.
    pub ns: u64,
    /// Sampled observations.
    pub samples: u64,
    /// Waits that ended.
    pub waits: u64,
    /// Whether any row was exact or blocking.
    pub precise: bool,
    /// What of the time was measured, and where it went.
    pub measured: Measured,
}

impl Sum {
    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.ns += other.ns;
        self.samples += other.samples;
        self.waits += other.waits;
        self.precise |= other.precise;
        self.measured.time_ns += other.measured.time_ns;
        self.measured.cpu_ns += other.measured.cpu_ns;
        self.measured.runq_ns += other.measured.runq_ns;
    }

    fn take(&mut self, p: &Piece<'_>) {
        let measured = p.measured.unwrap_or_default();
        self.add(&Self { ns: p.ns, samples: p.samples, waits: p.ended.count(), precise: p.measured.is_some(), measured });
    }

    /// Waits, where they can be counted.
    pub fn waits(&self) -> Option<u64> {
        self.precise.then_some(self.waits)
    }

    /// Where time went, where it was measured.
    pub fn measured(&self) -> Option<Measured> {
        self.precise.then_some(self.measured)
    }
}

/// One key's part.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// What.
    pub key: Key,
    /// How much.
    pub sum: Sum,
    /// Its row of the table: which course and which lengths are its.
    line: usize,
}

/// All of a window that passed the filter.
#[derive(Debug, Default)]
pub struct Tally {
    /// In ascending order of key.
    pub rows: Vec<Row>,
    /// Load of each session for each query, where the detail asks for it.
    pub runs: FxHashMap<(SessionId, QueryId), u64>,
    /// Load: DB Time.
    pub load_ns: u64,
    /// Idle time.
    pub idle_ns: u64,
    /// Busy time of the I/O workers.
    pub io_busy_ns: u64,
    /// Their idle time.
    pub io_idle_ns: u64,
    /// Distinct sessions.
    pub sessions: u32,
    /// Distinct I/O workers.
    pub io_workers: u32,
    /// Courses, one behind the other, `points` long each.
    lines: Vec<u64>,
    points: usize,
    lengths: Vec<Lengths>,
}

impl Tally {
    /// Adds up a walk, and its course over the points of a grid if there is one.
    pub fn of<T: Trace>(walk: &Walk<'_, T>, detail: Detail, grid: Option<&Grid>) -> Self {
        let mut places: FxHashMap<Key, usize> = FxHashMap::default();
        let mut courses: FxHashMap<Key, usize> = FxHashMap::default();
        let mut workers: FxHashSet<SessionId> = FxHashSet::default();
        let mut this = Self { points: grid.map_or(0, Grid::len), ..Self::default() };
        this.sessions = walk.pieces(detail.has_lengths(), |p| {
            let key = Key {
                session: if detail.has_session() { p.session } else { SessionId::default() },
                query: if detail.has_query() { p.query } else { QueryId::NONE },
                event: if detail.has_event() { p.event } else { WaitEvent::CPU },
                meaning: p.meaning,
            };
            let place = *places.entry(key).or_insert_with(|| {
                let next = courses.len();
                let line = *courses.entry(detail.has_line(key)).or_insert(next);
                this.lines.resize(this.lines.len().max((line + 1) * this.points), 0);
                this.rows.push(Row { key, sum: Sum::default(), line });
                this.rows.len() - 1
            });
            let Some(row) = this.rows.get_mut(place) else { return };
            row.sum.take(p);
            if let (Some(grid), Some(line)) = (grid, this.lines.get_mut(row.line * this.points..(row.line + 1) * this.points)) {
                p.split(grid, |i, ns| add(line, i, ns));
            }
            if detail.has_lengths() && p.ended.count() > 0 {
                this.lengths.resize(this.lengths.len().max(row.line + 1), Lengths::default());
                match (this.lengths.get_mut(row.line), p.ended) {
                    (Some(lengths), Ended::One(length)) => lengths.add(length),
                    (Some(lengths), Ended::Many(_, many)) => lengths.take(many),
                    _ => {}
                }
            }
            match p.meaning {
                Meaning::Load if detail.has_runs() => *this.runs.entry((p.session, p.query)).or_default() += p.ns,
                Meaning::IoWorkerBusy | Meaning::IoWorkerIdle => {
                    workers.insert(p.session);
                }
                Meaning::Load | Meaning::Idle | Meaning::Nothing => {}
            }
        });
        this.io_workers = workers.len() as u32;
        this.rows.sort_unstable_by_key(|row| row.key);
        for Row { key, sum, .. } in &this.rows {
            match key.meaning {
                Meaning::Load => this.load_ns += sum.ns,
                Meaning::Idle => this.idle_ns += sum.ns,
                Meaning::IoWorkerBusy => this.io_busy_ns += sum.ns,
                Meaning::IoWorkerIdle => this.io_idle_ns += sum.ns,
                Meaning::Nothing => {}
            }
        }
        this
    }

    /// The rows that are load.
    pub fn load(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.key.meaning == Meaning::Load)
    }

    /// The course of the table's row that a row belongs to.
    pub fn line(&self, row: &Row) -> &[u64] {
        self.lines.get(row.line * self.points..(row.line + 1) * self.points).unwrap_or_default()
    }

    /// How long the waits of the table's row that a row belongs to were; `None` where that is not known.
    pub fn latency(&self, row: &Row) -> Option<Latency> {
        self.lengths.get(row.line).and_then(latency::figures)
    }

    /// `ns` as a share of DB Time; `None` when there is no DB Time.
    pub fn share(&self, ns: u64) -> Option<f64> {
        (self.load_ns > 0).then(|| ns as f64 / self.load_ns as f64)
    }
}

/// Adds to one cell.
pub fn add(cells: &mut [u64], i: usize, ns: u64) {
    if let Some(cell) = cells.get_mut(i) {
        *cell += ns;
    }
}

/// The key with the most time; of equals the smallest.
pub fn top<K: Ord + Copy>(times: impl IntoIterator<Item = (K, u64)>) -> Option<(K, u64)> {
    times.into_iter().filter(|(_, ns)| *ns > 0).max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)))
}
