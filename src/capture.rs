//! Making records: of a running server (Linux, feature `capture`) or of a scenario file. Runs on the capture thread.

pub mod anomaly;
pub mod budget;
pub mod capacity;
pub mod command;
pub mod engine;
pub mod escalation;
pub mod fingerprint;
pub mod script;

#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod sampler;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod support;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod sys;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod window;

use crate::trace::block::{Builder, Intervals};
use crate::trace::catalog::News;
use crate::trace::clock::Clock;
use crate::trace::health::Health;
use crate::trace::learned::Learned;
use crate::trace::marker::Marker;
use crate::trace::record::Fidelity;
use std::sync::Arc;
use std::time::Duration;

/// Where captured records and names go.
#[derive(Debug, Default)]
pub struct Feed {
    /// Records and ticks since the last seal.
    pub builder: Builder,
    /// Exact or blocking rows since the last seal.
    pub intervals: Intervals,
    /// Names since the last seal.
    pub news: Vec<News>,
    /// Openings and closings of windows, and what asked for them, since the last seal.
    pub markers: Vec<Marker>,
    /// What is to be kept over a restart of this program, when it is new.
    pub learned: Option<Arc<Learned>>,
}

/// Makes records on the capture thread. Implemented by the sampler and by [`script::Script`].
pub trait Capture {
    /// Waits for what comes next, at most `patience`, and puts it into `feed`. An error ends the recording; a server that is away is no error.
    fn drain(&mut self, feed: &mut Feed, patience: Duration) -> anyhow::Result<Progress>;
    /// Called before a seal: adds what is refreshed with each block rather than with each tick (current SQL of sessions).
    fn refresh(&mut self, feed: &mut Feed);
    /// Nothing more will be asked of it: what is under way is brought to its end.
    fn finish(&mut self, _feed: &mut Feed) {}
    /// How its records are made.
    fn fidelity(&self) -> Fidelity;
    /// Its account of itself.
    fn health(&self) -> Health;
    /// The trace clock against the wall clock, now.
    fn clock(&self) -> Clock;
}

/// Whether there will be more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Call again.
    More,
    /// Nothing more will come (a scenario has ended).
    Ended,
}
