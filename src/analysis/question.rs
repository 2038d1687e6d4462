//! What can be asked. Plain serde data: the wire, the dump and the screen use the same.

use super::filter::Filter;
use crate::trace::clock::Window;
use serde::{Deserialize, Serialize};

/// One question about one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// What is asked.
    pub ask: Ask,
    /// About which stretch of time.
    pub window: Window,
    /// About which rows. Applied once, before anything is added up.
    #[serde(default)]
    pub filter: Filter,
    /// Rows wanted at most; 0 = all. The answer says how many there were.
    #[serde(default)]
    pub limit: usize,
    /// Points of a sparkline per row; 0 = none.
    #[serde(default)]
    pub spark: u16,
}

impl Question {
    /// The question without filter, limit or sparklines.
    pub fn new(ask: Ask, window: Window) -> Self {
        Self { ask, window, filter: Filter::default(), limit: 0, spark: 0 }
    }
}

/// The kinds of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Average active sessions over time, stacked by wait class.
    Load {
        /// Points over the window, at least 1.
        buckets: u16,
    },
    /// DB Time by class and event. Never cut by `limit`.
    TimeModel,
    /// Wait events, largest first: those that are load, then idle ones, the `Activity` class last.
    Events,
    /// Sessions, largest DB Time first.
    Sessions,
    /// Queries, largest DB Time first.
    Queries,
    /// Pairs of query and event, largest first.
    QueryEvents,
    /// What every session was doing at the last tick of the window.
    Active,
    /// How long waits were: distribution, and its course over the window. Exact and blocking rows only. Without a filter on events: all waits that
    /// are load; with one, also idle ones.
    Latency {
        /// Points over the window, at least 1.
        buckets: u16,
    },
    /// What followed what: transitions between events. Exact and blocking rows only. A filter on class or event keeps the transitions with
    /// such an event on either side. `limit` cuts the links.
    Flow,
}
