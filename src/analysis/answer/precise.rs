//! What only exact and blocking rows can tell.

use super::Latency;
use crate::trace::wait::{WaitClass, WaitEvent};
use serde::{Deserialize, Serialize};

pub use crate::trace::precise::Stretch;

/// Where measured time went. Of a wait: `cpu_ns` it spun (or worked in the kernel), `runq_ns` it was woken and had no CPU, the rest it was blocked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Time that the two below are parts of, nanoseconds: that of exact and blocking rows.
    pub time_ns: u64,
    /// On the CPU.
    pub cpu_ns: u64,
    /// Runnable, without a CPU.
    pub runq_ns: u64,
}

impl Measured {
    /// Asleep.
    pub fn blocked_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.cpu_ns + self.runq_ns)
    }
}

/// Executions of a query that ended in the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Executions {
    /// How many ended.
    pub count: u64,
    /// Of those, how many began while it was watched: those that [`Self::latency`] is made from.
    pub whole: u64,
    /// How long those took; `None` when there are none.
    pub latency: Option<Latency>,
    /// How many have a boundary that was not seen but taken from the server's own times, or from the next command.
    pub inferred: u64,
}

/// How long waits were. Waits are those that ended in the window, with their whole length; time is what lies in the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyView {
    /// Waits that ended in the window.
    pub waits: u64,
    /// Their length, added up, nanoseconds.
    pub time_ns: u64,
    /// Their figures; `None` when there are none.
    pub latency: Option<Latency>,
    /// The distribution: a bar for each power of two of microseconds, shortest first, without a hole, from under 1 µs to at least 16 ms and on
    /// to the longest wait. Empty when there are no waits.
    pub bars: Vec<LatencyBar>,
    /// Length of a column.
    pub column_ns: f64,
    /// The distribution over time, oldest first.
    pub columns: Vec<LatencyColumn>,
}

/// Waits of about one length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyBar {
    /// Shortest, nanoseconds.
    pub from_ns: u64,
    /// They are shorter than this.
    pub to_ns: u64,
    /// How many.
    pub waits: u64,
    /// Their length, added up.
    pub time_ns: u64,
}

/// Waits that ended in one part of the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyColumn {
    /// Share of it that exact or blocking capture saw, 0 to 1. At 0 nothing is known.
    pub observed: f64,
    /// Waits by bar; empty when there are none.
    pub waits: Vec<u32>,
}

/// What followed what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Transitions, those of links that `limit` cut included.
    pub transitions: u64,
    /// Events on either side of a transition, most time first.
    pub nodes: Vec<FlowNode>,
    /// Pairs of events, most frequent first.
    pub links: Vec<FlowLink>,
}

/// An event in a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowNode {
    /// The event.
    pub event: WaitEvent,
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: WaitClass,
    /// Transitions out of it.
    pub count: u64,
    /// Time spent in it before those, nanoseconds, whole lengths.
    pub time_ns: u64,
}

/// A pair of events that followed each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowLink {
    /// The event before.
    pub from: WaitEvent,
    /// The event after.
    pub to: WaitEvent,
    /// How often.
    pub count: u64,
    /// Time spent in `from` before, nanoseconds, whole lengths.
    pub time_ns: u64,
}
