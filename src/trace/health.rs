//! How the recording itself is doing: what was lost, what it costs, whether the server is there. Counters only ever grow.

use super::record::Fidelity;
use serde::{Deserialize, Serialize};

/// Where the recorder stands with its server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Link {
    /// Not yet connected to anything.
    #[default]
    Starting,
    /// Reading a server whose layout was proven.
    Attached,
    /// The server is gone or restarting; the recorder keeps trying.
    Waiting {
        /// One line: what happened and what is being waited for.
        why: String,
    },
    /// The recorder stopped for good.
    Ended {
        /// One line: what happened and what to do next. Empty after an orderly end.
        why: String,
    },
}

/// How the server's memory is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// No server memory is read (scripts, recordings).
    #[default]
    None,
    /// The shared memory segment is mapped read-only: a sample costs no system call.
    Mapped,
    /// `process_vm_readv`, one call per area and tick.
    Readv,
}

/// A recorder's own account of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Where the recorder stands with its server.
    pub link: Link,
    /// How memory is reached.
    pub access: Access,
    /// Ticks per second asked for.
    pub rate_hz: u32,
    /// Processes of the server at the newest tick.
    pub backends: u32,
    /// Ticks taken since the start.
    pub ticks: u64,
    /// Ticks later than half a period.
    pub late_ticks: u64,
    /// Stretches of time without observation (server away, recorder stopped, machine suspended).
    pub gaps: u64,
    /// Backend readings that were refused because they could not be trusted; each is a hole in that backend's coverage.
    pub unread: u64,
    /// `wait_event_info` values no known version writes; never recorded.
    pub invalid: u64,
    /// Blocks dropped because the consumer did not keep up.
    pub dropped_blocks: u64,
    /// Rows in those blocks.
    pub dropped_records: u64,
    /// Query texts forgotten to bound memory.
    pub evicted_queries: u64,
    /// Attachments to a server, the first included. More than one means it restarted.
    pub attachments: u64,
    /// CPU time the recording thread has used, nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory of this process, bytes; 0 when unknown.
    pub rss_bytes: u64,
    /// The exact or blocking window that is open, or the last one; `None` before the first.
    pub window: Option<WindowHealth>,
    /// Why the window that was asked for last could not be opened; `None` when it could.
    pub window_error: Option<String>,
    /// Budget and rules of windows that open by themselves; `None` where they cannot (`--mode sampled`, full, blocking, scenarios).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<Escalation>,
    /// The directory this is recorded into, or was read from; `None` when it is in memory only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
}

/// Account of the budget for exact windows and of the rules that open them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Escalation {
    /// Seconds of exact windows allowed in any hour; `None`: no limit.
    pub budget_s: Option<f64>,
    /// Seconds left of them; `None`: no limit.
    pub remaining_s: Option<f64>,
    /// Windows opened.
    pub windows: u64,
    /// Requests that the budget denied.
    pub denied: u64,
    /// Windows closed since the budget was used up.
    pub budget_closed: u64,
    /// Windows that a rule asked for and got, and open ones that it made last longer.
    pub fires: u64,
    /// Of those, by the rule about the CPU.
    pub cpu_fires: u64,
    /// Observations that came near a fire.
    pub near: u64,
    /// Fires that the budget denied.
    pub dropped_budget: u64,
    /// Fires in the pause after a window.
    pub dropped_cooldown: u64,
    /// Usual average active sessions, as far as learned.
    pub baseline_aas: f64,
    /// Seconds until the usual load is known well enough for the rule about load; 0: it is.
    pub warming_s: f64,
    /// Seconds until rules may fire again after a window; 0: they may.
    pub cooldown_s: f64,
    /// Cores the server can have; `None`: not known.
    pub capacity_cores: Option<f64>,
    /// Where that comes from: `affinity`, `quota`, `override` or `unknown`.
    pub capacity_source: String,
    /// Evidence of too little CPU, seconds of overload; `None`: the rule is off.
    pub cpu_evidence: Option<f64>,
    /// Evidence at which it fires.
    pub cpu_threshold: f64,
    /// What came near at the newest observation, in words; empty when nothing did.
    pub near_now: String,
}

/// A trace directory, and what of the recording is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Its path on the machine that holds it.
    pub dir: String,
    /// One line: why nothing is being written now. `None`: all is well, or it is only read.
    pub error: Option<String>,
    /// Records that were not written.
    pub lost_records: u64,
    /// A line each: files that are not read, stretches of the window that were not written or are damaged.
    pub notes: Vec<String>,
}

/// Account of an exact or blocking window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowHealth {
    /// Exact or blocking.
    pub tier: Fidelity,
    /// Whether it is open now.
    pub open: bool,
    /// Who wanted it: `manual`, `anomaly` or `cpu_saturation`; `standing` for a window that is open all the time.
    #[serde(default)]
    pub cause: String,
    /// The rule that opened it, in words; empty when none did.
    #[serde(default)]
    pub cause_detail: String,
    /// Why it was closed; empty while it is open.
    pub reason: String,
    /// Seconds it will stay open; `None`: until it is closed.
    pub remaining_s: Option<u64>,
    /// What one transition costs the server, nanoseconds, measured on our own memory when the window opened (exact), or what the programs took per
    /// record (blocking). Exact waits are longer by about this.
    pub price_ns: u64,
    /// Transitions (exact) or switches (blocking) per second, over the last second.
    pub events_per_s: u64,
    /// Rate times price, per cent of one core.
    pub overhead_pct: f64,
    /// Ceiling of that, beyond which the window closes.
    pub max_overhead_pct: f64,
    /// Backends followed now.
    pub armed: u32,
    /// Backends there that cannot be followed: their debug registers are in use, or descriptors ran out.
    pub unarmed: u32,
    /// Why the last of them could not be followed; empty when everybody could.
    pub unarmed_why: String,
    /// Backends followed now without a second debug register: where their commands begin and end is inferred from activity and waits.
    #[serde(default)]
    pub inferred: u32,
    /// Processes the server started since the window opened.
    pub born: u64,
    /// Of those, ended before they could be followed.
    pub missed: u64,
    /// Records lost because a ring was full.
    pub lost_records: u64,
    /// Backends whose state had to be read again because a write fell between reading it and arming.
    pub repaired: u64,
    /// Fullest a ring was found, per cent.
    pub ring_fill_pct: f64,
    /// Records taken in.
    pub records: u64,
    /// Reads of a backend's memory that failed.
    pub faults: u64,
    /// Switches of a process that do not follow on the one before: the kernel did not tell one.
    pub odd_switches: u64,
}
