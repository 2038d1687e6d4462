//! What is known about the present: how the recording stands, and which instant of the trace clock it is.
//!
//! The screen never reads a clock. It knows the newest tick from the last status answer and how long ago that was.

use crate::analysis::answer::Answer;
use crate::trace::clock::{SECOND, Span, Ts};
use crate::trace::health::Link;
use std::sync::Arc;
use std::time::Duration;

/// Without a newer tick for so long, time goes on without data.
const SILENT: Duration = Duration::from_secs(3);

/// The present.
#[derive(Debug, Clone, Default)]
pub struct Pulse {
    latest: Option<Arc<Answer>>,
    /// When the newest tick was first heard of.
    moved: Duration,
    /// When the newest clock reading was first heard of.
    read: Duration,
    now: Duration,
}

impl Pulse {
    /// Time goes on.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
    }

    /// A status answer arrived.
    pub fn hear(&mut self, answer: Arc<Answer>) {
        let old = self.latest.as_deref();
        if old.is_none_or(|o| o.extent.map(|e| e.end) != answer.extent.map(|e| e.end)) {
            self.moved = self.now;
        }
        if old.is_none_or(|o| o.clock != answer.clock) {
            self.read = self.now;
        }
        self.latest = Some(answer);
    }

    /// The last status answer.
    pub fn answer(&self) -> Option<&Answer> {
        self.latest.as_deref()
    }

    /// How the recorder stands with its server.
    pub fn link(&self) -> &Link {
        self.latest.as_ref().map_or(&Link::Starting, |a| &a.health.link)
    }

    /// What the trace holds.
    pub fn extent(&self) -> Option<Span> {
        self.latest.as_ref().and_then(|a| a.extent)
    }

    /// Seconds since the newest tick, when there should have been one.
    pub fn silent(&self) -> Option<u64> {
        let quiet = self.now.saturating_sub(self.moved);
        (*self.link() == Link::Attached && self.extent().is_some() && quiet > SILENT).then_some(quiet.as_secs())
    }

    /// This instant on the trace clock; `None` before the first tick. It goes on while the server is away, so that the gap is seen to grow.
    pub fn present(&self) -> Option<Ts> {
        let answer = self.latest.as_deref()?;
        let end = answer.extent?.end;
        Some(match answer.health.link {
            Link::Attached => end + self.elapsed(self.moved).min(if self.silent().is_some() { u64::MAX } else { SECOND }),
            Link::Starting | Link::Waiting { .. } => (end + self.elapsed(self.moved)).max(answer.clock.mono + self.elapsed(self.read)),
            Link::Ended { .. } => end,
        })
    }

    fn elapsed(&self, since: Duration) -> u64 {
        u64::try_from(self.now.saturating_sub(since).as_nanos()).unwrap_or(u64::MAX)
    }
}
