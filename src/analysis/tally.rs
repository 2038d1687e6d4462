//! Time and observations per (session, event, query): what every table is made from. Pure.

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
    /// Everything.
    All,
}

/// What is told apart; what the detail leaves out is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Who.
    pub session: SessionId,
    /// In what.
    pub event: WaitEvent,
    /// For which query.
    pub query: QueryId,
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

/// All of a window that passed the filter.
#[derive(Debug, Default)]
pub struct Tally {
    /// In ascending order of key.
    pub rows: Vec<(Key, Sum)>,
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
}

impl Tally {
    /// Adds up a walk.
    pub fn of<T: Trace>(walk: &Walk<'_, T>, detail: Detail) -> Self {
        let with_session = matches!(detail, Detail::Session | Detail::SessionEvent | Detail::All);
        let with_event = detail != Detail::Session;
        let with_query = matches!(detail, Detail::QueryEvent | Detail::All);
        let mut sums: FxHashMap<Key, Sum> = FxHashMap::default();
        let mut workers: FxHashSet<SessionId> = FxHashSet::default();
        let sessions = walk.pieces(|p| {
            let r = &p.record;
            if matches!(p.meaning, Meaning::IoWorkerBusy | Meaning::IoWorkerIdle) {
                workers.insert(r.session);
            }
            let key = Key {
                session: if with_session { r.session } else { SessionId::default() },
                event: if with_event { r.event } else { WaitEvent::CPU },
                query: if with_query { r.query } else { QueryId::NONE },
                meaning: p.meaning,
            };
            let sum = sums.entry(key).or_default();
            sum.ns += p.span.len();
            sum.samples += u64::from(p.samples);
        });
        let mut this = Self { rows: sums.into_iter().collect(), sessions, io_workers: workers.len() as u32, ..Self::default() };
        this.rows.sort_unstable_by_key(|(key, _)| *key);
        for (key, sum) in &this.rows {
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
    pub fn load(&self) -> impl Iterator<Item = &(Key, Sum)> {
        self.rows.iter().filter(|(key, _)| key.meaning == Meaning::Load)
    }

    /// `ns` as a share of DB Time; `None` when there is no DB Time.
    pub fn share(&self, ns: u64) -> Option<f64> {
        (self.load_ns > 0).then(|| ns as f64 / self.load_ns as f64)
    }
}

/// The key with the most time; of equals the smallest.
pub fn top<K: Ord + Copy>(times: impl IntoIterator<Item = (K, u64)>) -> Option<(K, u64)> {
    times.into_iter().filter(|(_, ns)| *ns > 0).max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)))
}
