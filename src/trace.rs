//! What was recorded, as immutable values: records in blocks, and the catalog that gives them names.
//!
//! Everything upstream (shared memory, scripts, files) makes [`block::Block`]s; everything downstream (text, JSON,
//! screen) is a function of blocks. This half knows no files, no threads and no clocks of its own.

pub mod block;
pub mod catalog;
pub mod clock;
pub mod codec;
pub mod health;
pub mod recent;
pub mod record;
pub mod wait;

use block::Block;
use catalog::Catalog;
use clock::{Clock, Span};
use health::Health;
use std::ops::ControlFlow;

/// Holds records and is read by analysis. Implemented by [`recent::Recent`] (memory).
pub trait Trace {
    /// The stretch of time this trace holds anything about, from the oldest block to the newest tick. `None` before the first.
    fn extent(&self) -> Option<Span>;
    /// Names of sessions, queries, events and the server.
    fn catalog(&self) -> &Catalog;
    /// Where trace time stands against the wall clock.
    fn clock(&self) -> Clock;
    /// How the recording itself is doing, as of the newest block.
    fn health(&self) -> &Health;
    /// Visits every block that overlaps `window` or has a tick in `(window.start, window.end]`, oldest first. A block may reach beyond the window: clip.
    fn scan(&self, window: Span, visit: &mut dyn FnMut(&Block));
    /// The same blocks, of which only fidelity, ticks, watched stretches, losses and blind sessions count: they may come without rows and marks.
    fn scan_coverage(&self, window: Span, visit: &mut dyn FnMut(&Block)) {
        self.scan(window, visit);
    }
    /// The same blocks, newest first, until `visit` breaks.
    fn scan_back(&self, window: Span, visit: &mut dyn FnMut(&Block) -> ControlFlow<()>);
}
