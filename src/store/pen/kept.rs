//! When what the rules of windows have learned is written beside the recording: every few seconds, more often while one is open, and at the end.

use super::Pen;
use crate::store::kept;
use crate::trace::clock::{SECOND, Ts};
use crate::trace::learned::Learned;
use std::sync::Arc;

/// Not more often than this.
const EVERY: u64 = 5 * SECOND;

#[derive(Debug, Default)]
pub(super) struct Kept {
    /// What is not written yet.
    fresh: Option<Arc<Learned>>,
    written: Ts,
}

impl Pen {
    pub(super) fn keep(&mut self, learned: Option<Arc<Learned>>) {
        let Some(learned) = learned else { return };
        self.kept.fresh = Some(learned);
        let every = if self.health.window.as_ref().is_some_and(|w| w.open) { SECOND / 2 } else { EVERY };
        if self.clock.mono.since(self.kept.written) >= every {
            self.keep_now();
        }
    }

    pub(super) fn keep_now(&mut self) {
        let Some(learned) = self.kept.fresh.take() else { return };
        self.kept.written = self.clock.mono;
        // What cannot be written here is told by the recording itself, which cannot be written either.
        kept::write(&self.settings.dir, self.settings.access, self.clock, &learned).ok();
    }
}
