//! What was recorded, as immutable values: records in blocks, and the catalog that gives them names.
//!
//! Everything upstream (shared memory, scripts, files) makes [`block::Block`]s; everything downstream (text, JSON,
//! screen) is a function of blocks. This half knows no files, no threads and no clocks of its own.

pub mod block;
pub mod catalog;
pub mod clock;
pub mod codec;
pub mod cut;
pub mod digest;
pub mod health;
pub mod learned;
pub mod lengths;
pub mod marker;
pub mod meaning;
pub mod precise;
pub mod recent;
pub mod record;
pub mod times;
pub mod wait;

use block::Block;
use catalog::Catalog;
use clock::{Clock, Span, Ts};
use digest::{Digest, Part, Place};
use health::Health;
use marker::Marker;
use record::SessionId;
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use times::Times;

/// Holds records and is read by analysis. Implemented by [`recent::Recent`] (memory) and by `store::dir::Dir` (files).
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
    /// Openings and closings of windows and what asked for them in `(window.start, window.end]`, oldest first. Reads no blocks with records.
    fn markers(&self, window: Span) -> Vec<Marker> {
        let _ = window;
        Vec::new()
    }
    /// How a window is best read when digests of at most `longest` nanoseconds will do: parts that adjoin, in order, and make up the window.
    fn cover(&self, window: Span, longest: u64) -> Vec<Part> {
        let _ = longest;
        vec![Part::Blocks(window)]
    }
    /// A digest that [`Self::cover`] named, with the lengths of waits if they are wanted. `None`: it cannot be read, the blocks can.
    fn digest(&self, place: &Place, lengths: bool) -> Option<Arc<Digest>> {
        let _ = (place, lengths);
        None
    }
    /// What sessions said of their own times at an instant, as far as it is known. `None`: the catalog is their account, and the newest there is.
    fn times(&self, at: Ts) -> Option<FxHashMap<SessionId, Times>> {
        let _ = at;
        None
    }
    /// The newest digest at hand that ends at or before an instant, without lengths: where executions stood then.
    fn digest_before(&self, at: Ts) -> Option<Arc<Digest>> {
        let _ = at;
        None
    }
}
