//! Time and observations per session, event and query, with their course over the window: what every table is made from. Pure.

use super::grid::Grid;
use super::meaning::Meaning;
use super::walk::Walk;
use crate::trace::Trace;
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

/// Time and sampled observations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Nanoseconds.
    pub ns: u64,
    /// Observations.
    pub samples: u64,
}

/// One key's part.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// What.
    pub key: Key,
    /// How much.
    pub sum: Sum,
    /// Where its course is kept.
    line: usize,
}

/// Nanoseconds per point of the window; empty when no sparklines are wanted.
pub type Line = Vec<u64>;

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
    /// The courses of all rows, one behind the other, `points` long each.
    lines: Line,
    points: usize,
}

impl Tally {
    /// Adds up a walk, and its course over the points of a grid if there is one.
    pub fn of<T: Trace>(walk: &Walk<'_, T>, detail: Detail, grid: Option<&Grid>) -> Self {
        let with_session = matches!(detail, Detail::Session | Detail::SessionEvent | Detail::SessionEventAndQueries);
        let with_event = detail != Detail::Session;
        let with_query = matches!(detail, Detail::QueryEvent | Detail::QueryEventAndSessions);
        let with_runs = matches!(detail, Detail::SessionEventAndQueries | Detail::QueryEventAndSessions);
        let mut places: FxHashMap<Key, usize> = FxHashMap::default();
        let mut workers: FxHashSet<SessionId> = FxHashSet::default();
        let mut this = Self { points: grid.map_or(0, Grid::len), ..Self::default() };
        this.sessions = walk.pieces(|p| {
            let r = &p.record;
            let key = Key {
                session: if with_session { r.session } else { SessionId::default() },
                query: if with_query { r.query } else { QueryId::NONE },
                event: if with_event { r.event } else { WaitEvent::CPU },
                meaning: p.meaning,
            };
            let place = *places.entry(key).or_insert_with(|| {
                this.rows.push(Row { key, sum: Sum::default(), line: this.lines.len() });
                this.lines.resize(this.lines.len() + this.points, 0);
                this.rows.len() - 1
            });
            let Some(row) = this.rows.get_mut(place) else { return };
            row.sum.ns += p.span.len();
            row.sum.samples += u64::from(p.samples);
            if let (Some(grid), Some(line)) = (grid, this.lines.get_mut(row.line..row.line + this.points)) {
                grid.split(p.span, |i, ns| add(line, i, ns));
            }
            match p.meaning {
                Meaning::Load if with_runs => *this.runs.entry((r.session, r.query)).or_default() += p.span.len(),
                Meaning::IoWorkerBusy | Meaning::IoWorkerIdle => {
                    workers.insert(r.session);
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

    /// Adds a row's course to a line.
    pub fn trace(&self, row: &Row, line: &mut Line) {
        line.resize(self.points, 0);
        for (cell, ns) in line.iter_mut().zip(self.lines.get(row.line..row.line + self.points).unwrap_or_default()) {
            *cell += ns;
        }
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
