//! What is answered. The view model of the screen, the rows of the tables and the wire in one. Times are nanoseconds; instants are on the
//! trace clock, [`Answer::clock`] makes them wall-clock time.

use crate::trace::catalog::{BackendKind, Named, Server, TextSource, UnixMicros};
use crate::trace::clock::{Clock, Span, Ts};
use crate::trace::health::Health;
pub use crate::trace::marker::Marker;
use crate::trace::record::{Fidelity, QueryId, SessionId, State};
use crate::trace::wait::{WaitClass, WaitEvent};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

mod precise;

pub use precise::{Executions, Flow, FlowLink, FlowNode, LatencyBar, LatencyColumn, LatencyView, Measured, Stretch};

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The window the question meant, resolved to instants.
    pub window: Span,
    /// What the trace holds altogether; `None` before the first tick.
    pub extent: Option<Span>,
    /// How trace time stands against the wall clock.
    pub clock: Clock,
    /// What of the window was seen how. Not affected by the filter.
    pub coverage: Coverage,
    /// The server.
    pub server: Arc<Server>,
    /// How the recording is doing now.
    pub health: Health,
    /// Load in the window that passed the filter: the 100 % of every share.
    pub db_time_ns: u64,
    /// Idle time in the window that passed the filter.
    pub idle_ns: u64,
    /// Sessions in the catalog that were seen in the window and passed the filter.
    pub sessions: u32,
    /// Rows there were before `limit` cut them.
    pub total_rows: usize,
    /// The rows.
    pub body: Body,
}

impl Answer {
    /// Average active sessions: DB Time over the time that was observed. `None` when nothing was.
    pub fn aas(&self) -> Option<f64> {
        let observed = self.coverage.observed_ns();
        (observed > 0).then(|| self.db_time_ns as f64 / observed as f64)
    }
}

/// What of a window was observed, and how.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Fidelity of the observed part.
    pub fidelity: Fidelity,
    /// Nanoseconds seen by exact capture.
    pub exact_ns: u64,
    /// Nanoseconds seen by blocking capture only.
    pub blocking_ns: u64,
    /// Nanoseconds seen by samples only.
    pub sampled_ns: u64,
    /// Nanoseconds not observed.
    pub gap_ns: u64,
    /// The stretches not observed, in order, at most [`MAX_GAPS`]; `gap_ns` counts them all.
    pub gaps: Vec<Span>,
    /// Ticks inside.
    pub ticks: u64,
    /// Backend readings refused, over all ticks.
    pub unread: u64,
    /// The exact and blocking stretches, in order, at most [`MAX_GAPS`].
    #[serde(default)]
    pub precise: Vec<Stretch>,
    /// Records that exact or blocking capture lost inside the window.
    #[serde(default)]
    pub lost_records: u64,
    /// Time of sessions inside exact and blocking stretches in which they were not followed, added up over sessions. Samples stand in for it.
    #[serde(default)]
    pub unfollowed_ns: u64,
}

/// Gaps, and exact stretches, listed in a [`Coverage`] at most.
pub const MAX_GAPS: usize = 256;

/// Markers listed in a [`Load`] at most.
pub const MAX_MARKERS: usize = 1_000;

impl Coverage {
    /// Nanoseconds observed in any way.
    pub fn observed_ns(&self) -> u64 {
        self.exact_ns + self.blocking_ns + self.sampled_ns
    }
}

/// Rows, by kind of question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Body {
    /// To [`super::question::Ask::Load`].
    Load(Load),
    /// To [`super::question::Ask::TimeModel`].
    TimeModel(TimeModel),
    /// To [`super::question::Ask::Events`].
    Events {
        /// Rows.
        events: Vec<EventRow>,
    },
    /// To [`super::question::Ask::Sessions`].
    Sessions {
        /// Rows.
        sessions: Vec<SessionRow>,
    },
    /// To [`super::question::Ask::Queries`].
    Queries {
        /// Rows.
        queries: Vec<QueryRow>,
    },
    /// To [`super::question::Ask::QueryEvents`].
    QueryEvents {
        /// Rows.
        pairs: Vec<PairRow>,
    },
    /// To [`super::question::Ask::Active`].
    Active {
        /// Rows.
        active: Vec<ActiveRow>,
        /// The tick they are of; `None` when the window holds none.
        at: Option<Ts>,
    },
    /// To [`super::question::Ask::Latency`].
    Latency(LatencyView),
    /// To [`super::question::Ask::Flow`].
    Flow(Flow),
}

/// Average active sessions over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Length of a bucket; the window is divided evenly, so the last ends where the window ends.
    pub bucket_ns: f64,
    /// Oldest first.
    pub buckets: Vec<LoadBucket>,
    /// Largest total over the observed buckets.
    pub max_aas: f64,
    /// Windows that opened and closed in it, fires of rules and what came near, oldest first. The newest [`MAX_MARKERS`]. Not filtered.
    #[serde(default)]
    pub markers: Vec<Marker>,
}

/// One point of the chart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadBucket {
    /// Share of the bucket that was observed, 0 to 1. At 0 there is no value: a gap, not zero.
    pub observed: f64,
    /// AAS by class, in the order of [`WaitClass::ALL`], over the observed part. Idle time is not in it.
    pub aas: [f64; WaitClass::ALL.len()],
}

impl LoadBucket {
    /// AAS of all classes.
    pub fn total(&self) -> f64 {
        self.aas.iter().sum()
    }
}

/// DB Time by class and event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeModel {
    /// DB Time first, then classes by time with their events under them, then idle time with its events.
    pub rows: Vec<ModelRow>,
    /// Share of the I/O workers' time that was busy, 0 to 1 (18 and later); they are not load.
    pub io_worker_busy: Option<f64>,
    /// I/O workers seen.
    pub io_workers: u32,
    /// Where the time of waits (load, without CPU) went; only where it was measured.
    #[serde(default)]
    pub waits: Option<Measured>,
}

/// What a row of the time model stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKey {
    /// All load.
    DbTime,
    /// One class of load.
    Class(WaitClass),
    /// One event of load.
    Event(WaitEvent),
    /// All idle time.
    Idle,
    /// One idle event.
    IdleEvent(WaitEvent),
}

/// A row of the time model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRow {
    /// What it is.
    pub key: ModelKey,
    /// As shown: `DB Time`, `CPU*`, `Lock`, `Lock:transactionid`, `Idle`.
    pub name: String,
    /// 0 for DB Time and Idle, 1 for classes and idle events, 2 for events.
    pub depth: u8,
    /// Time, nanoseconds.
    pub time_ns: u64,
    /// Share of DB Time, 0 to 1. `None` for idle rows and when DB Time is 0.
    pub db_share: Option<f64>,
    /// Time over observed time. 0 when nothing was observed.
    pub aas: f64,
    /// AAS over the window, oldest first, `NaN`-free; `None` points are gaps.
    #[serde(default)]
    pub spark: Vec<Option<f32>>,
}

/// Latency figures; only where intervals with true lengths exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean, nanoseconds.
    pub avg_ns: u64,
    /// Median, nearest rank.
    pub p50_ns: u64,
    /// 95th percentile, nearest rank.
    pub p95_ns: u64,
    /// 99th percentile, nearest rank.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

/// A row per wait event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRow {
    /// The event.
    pub event: WaitEvent,
    /// `Class:Event` as this server version prints it.
    pub name: String,
    /// Its class.
    pub class: WaitClass,
    /// Whether it is idle time: listed, but no part of DB Time.
    pub idle: bool,
    /// Number of waits; only where exact data exist.
    pub waits: Option<u64>,
    /// Number of sampled observations.
    pub samples: u64,
    /// Time, nanoseconds.
    pub time_ns: u64,
    /// Latency; only where exact data exist.
    pub latency: Option<Latency>,
    /// On-CPU and run-queue time inside; only where it was measured.
    #[serde(default)]
    pub measured: Option<Measured>,
    /// Share of DB Time; `None` for idle events.
    pub db_share: Option<f64>,
    /// Time over observed time.
    pub aas: f64,
    /// Sessions that were in it.
    pub sessions: u32,
    /// AAS over the window; `None` points are gaps.
    #[serde(default)]
    pub spark: Vec<Option<f32>>,
}

/// Who a row is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Who {
    /// Session in the trace.
    pub session: SessionId,
    /// Process id (in the recorder's pid namespace).
    pub pid: i32,
    /// Process id as the server knows it; differs in containers.
    pub server_pid: i32,
    /// `backend_start`, microseconds since 1970 UTC.
    pub started: UnixMicros,
    /// What it is.
    pub kind: BackendKind,
    /// Leader of the parallel group.
    pub leader: Option<i32>,
    /// User.
    pub user: Named,
    /// Database.
    pub database: Named,
    /// Application.
    pub application: Arc<str>,
    /// Client address.
    pub client: Arc<str>,
    /// Whether it has ended.
    pub gone: bool,
}

/// An event with the time spent in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The event.
    pub event: WaitEvent,
    /// Its name.
    pub name: String,
    /// Time, nanoseconds.
    pub time_ns: u64,
}

/// A row per session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Who.
    pub who: Who,
    /// Load, nanoseconds.
    pub time_ns: u64,
    /// Idle time, nanoseconds.
    pub idle_ns: u64,
    /// Share of its load on CPU, 0 to 1; `None` without load.
    pub cpu_share: Option<f64>,
    /// Share of its load in waits.
    pub wait_share: Option<f64>,
    /// Share of DB Time.
    pub db_share: Option<f64>,
    /// Time over observed time.
    pub aas: f64,
    /// Event with the most time, CPU included; `None` without load.
    pub top: Option<Share>,
    /// Event with the most time, CPU left out; `None` when it never waited.
    #[serde(default)]
    pub top_wait: Option<Share>,
    /// Load by class, in the order of [`WaitClass::ALL`], nanoseconds.
    pub classes: [u64; WaitClass::ALL.len()],
    /// Query it spent most load in; `NONE` when unknown.
    pub query: QueryId,
    /// Waits that ended; only where exact or blocking data exist.
    #[serde(default)]
    pub waits: Option<u64>,
    /// On-CPU and run-queue time of its load; only where it was measured.
    #[serde(default)]
    pub measured: Option<Measured>,
    /// AAS over the window; `None` points are gaps.
    #[serde(default)]
    pub spark: Vec<Option<f32>>,
}

/// Which query, and what it says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sql {
    /// The id; `NONE` for load without a known query.
    pub query: QueryId,
    /// SQL text; empty when unknown. May hold control bytes: escape before showing.
    pub text: Arc<str>,
    /// Whether the server cut the text at `track_activity_query_size`.
    pub truncated: bool,
    /// Where the text and the id came from.
    pub source: TextSource,
}

/// A row per query. Load without a known query is one row with id 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryRow {
    /// Which query.
    pub sql: Sql,
    /// Load, nanoseconds.
    pub time_ns: u64,
    /// Share of DB Time (of all of it, not only of what has an id).
    pub db_share: Option<f64>,
    /// Time over observed time.
    pub aas: f64,
    /// Number of sampled observations.
    pub samples: u64,
    /// Sessions that ran it.
    pub sessions: u32,
    /// Waits that ended; only where exact or blocking data exist.
    #[serde(default)]
    pub waits: Option<u64>,
    /// Executions that ended; only where exact or blocking data exist.
    #[serde(default)]
    pub executions: Option<Executions>,
    /// Database and user of the session that spent most in it.
    pub database: Named,
    /// User of that session.
    pub user: Named,
    /// Load by class, in the order of [`WaitClass::ALL`], nanoseconds.
    pub classes: [u64; WaitClass::ALL.len()],
    /// Event with the most time, CPU included.
    pub top: Option<Share>,
    /// AAS over the window; `None` points are gaps.
    #[serde(default)]
    pub spark: Vec<Option<f32>>,
}

/// A row per query and event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairRow {
    /// Which query.
    pub sql: Sql,
    /// The event.
    pub event: WaitEvent,
    /// Its name.
    pub name: String,
    /// Number of waits; only where exact data exist.
    pub waits: Option<u64>,
    /// Number of sampled observations.
    pub samples: u64,
    /// Time, nanoseconds.
    pub time_ns: u64,
    /// Latency; only where exact data exist.
    pub latency: Option<Latency>,
    /// Share of the load that passed the filter.
    pub db_share: Option<f64>,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// In a wait that is load.
    Waiting,
    /// No wait, command open (or a background process at work).
    OnCpu,
    /// Idle.
    Idle,
}

/// A row per session at one instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActiveRow {
    /// Who.
    pub who: Who,
    /// What it is doing.
    pub doing: Doing,
    /// `pg_stat_activity.state`.
    pub state: State,
    /// The event.
    pub event: WaitEvent,
    /// Its name.
    pub name: String,
    /// How long it has been seen in that state without a break, nanoseconds, inside what the trace holds. A lower bound with the sampling period as its error.
    pub for_ns: u64,
    /// Whether the trace began (or a gap ended) in that state, so that it may have lasted longer.
    pub for_at_least: bool,
    /// Its load in the window, nanoseconds.
    pub time_ns: u64,
    /// Its current or last command.
    pub sql: Sql,
    /// `query_start`, microseconds since 1970 UTC; 0 = unset.
    pub query_start: UnixMicros,
    /// `xact_start`; 0 = no transaction.
    pub xact_start: UnixMicros,
    /// `state_change`.
    pub state_change: UnixMicros,
}
