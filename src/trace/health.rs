//! How the recording itself is doing: what was lost, what it costs, whether the server is there. Counters only ever grow.

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
}
