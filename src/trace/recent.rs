//! The last minutes in memory: what a live picture reads. Owned by one thread (the session worker or the text loop).
//!
//! Blocks arrive small, so that the picture is fresh; older ones are merged eight by eight into larger ones, in which a session that did
//! not change is one row. Memory is bounded: beyond the limit the oldest block is dropped and the extent says so.

mod past;

use super::Trace;
use super::block::{Block, FULL};
use super::catalog::{Catalog, News};
use super::clock::{Clock, Span, Ts};
use super::health::Health;
use super::learned::Learned;
use super::marker::Marker;
use super::record::{Fidelity, SessionId};
use super::times::Times;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What capture hands over: a block (when something was recorded), the names that go with it, and how capture is doing.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Samples and ticks.
    pub block: Option<Arc<Block>>,
    /// Exact or blocking rows and their coverage, while a window is open.
    pub intervals: Vec<Arc<Block>>,
    /// Names.
    pub news: Vec<News>,
    /// Openings and closings of windows, and what asked for them.
    pub markers: Vec<Marker>,
    /// What is to be kept over a restart of the recorder, when it is new.
    pub learned: Option<Arc<Learned>>,
    /// Capture's account of itself.
    pub health: Health,
    /// The trace clock against the wall clock.
    pub clock: Clock,
}

/// Blocks of one kind, newest at the back.
#[derive(Debug, Default)]
struct Ladder {
    /// (level, block), oldest first: a block of level n holds 8^n blocks as they arrived.
    blocks: VecDeque<(u8, Arc<Block>)>,
    bytes: usize,
}

/// Blocks of the last minutes.
#[derive(Debug)]
pub struct Recent {
    sampled: Ladder,
    /// Exact and blocking.
    intervals: Ladder,
    /// Oldest first.
    markers: VecDeque<Marker>,
    past: past::Past,
    limit: usize,
    catalog: Catalog,
    clock: Clock,
    health: Health,
}

/// Blocks of one level that become one of the next.
const FAN_IN: usize = 8;
/// Highest level: 8^4 blocks of a quarter of a second are 17 minutes.
const TOP: u8 = 4;
/// Rows of a merged block at most: busy sessions gain nothing from merging, and it would make the viewer wait.
const MERGED: usize = 1 << 16;
/// The same for exact blocks, whose rows hardly ever merge.
const MERGED_EXACT: usize = 4 * FULL;
/// Markers kept at most: there are a few a minute at worst.
const MARKERS: usize = 10_000;

impl Ladder {
    fn push(&mut self, level: u8, block: Arc<Block>) {
        self.bytes += block.bytes();
        self.blocks.push_back((level, block));
    }

    fn drop_oldest(&mut self) {
        if let Some((_, old)) = self.blocks.pop_front() {
            self.bytes = self.bytes.saturating_sub(old.bytes());
        }
    }

    /// Merges the newest blocks of one level and one fidelity into one of the next, as often as possible.
    fn settle(&mut self) {
        loop {
            let Some((level, newest)) = self.blocks.back() else { return };
            let (level, fidelity) = (*level, newest.fidelity());
            let most = if fidelity == Fidelity::Sampled { MERGED } else { MERGED_EXACT };
            let alike = |(l, b): &&(u8, Arc<Block>)| *l == level && b.fidelity() == fidelity;
            let newest = || self.blocks.iter().rev().take(FAN_IN).take_while(alike);
            let rows: usize = newest().map(|(_, b)| b.len()).sum();
            if level >= TOP || newest().count() < FAN_IN || rows > most {
                return;
            }
            let parts: Vec<_> = self.blocks.drain(self.blocks.len() - FAN_IN..).collect();
            self.bytes = self.bytes.saturating_sub(parts.iter().map(|(_, b)| b.bytes()).sum());
            self.push(level + 1, Arc::new(Block::merge(parts.iter().map(|(_, b)| b.as_ref()))));
        }
    }

    fn start(&self) -> Option<Ts> {
        self.blocks.front().map(|(_, b)| b.span().start)
    }

    fn end(&self) -> Option<Ts> {
        self.blocks.back().map(|(_, b)| b.span().end)
    }

    /// Blocks with something in a window. A block of one weightless tick has an empty span, which meets nothing, but its tick counts.
    fn within(&self, window: Span) -> impl DoubleEndedIterator<Item = &Block> {
        let inside = move |b: &&Block| b.span().start <= window.end && b.span().end > window.start;
        self.blocks.iter().map(|(_, block)| block.as_ref()).filter(inside)
    }
}

impl Recent {
    /// Keeps blocks of about `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            sampled: Ladder::default(),
            intervals: Ladder::default(),
            markers: VecDeque::new(),
            past: past::Past::default(),
            limit,
            catalog: Catalog::default(),
            clock: Clock::default(),
            health: Health::default(),
        }
    }

    /// Takes in what capture handed over.
    pub fn absorb(&mut self, batch: Batch) {
        let newest = self.sampled.end().unwrap_or_default();
        // Sessions are looked at behind the last tick.
        let stretch = batch.block.as_ref().map_or(Span::new(newest, batch.clock.mono.max(newest)), |b| b.span());
        for news in batch.news {
            self.past.hear(&news, stretch);
            self.catalog.learn(news);
        }
        self.health = batch.health;
        self.health.evicted_queries += self.catalog.evicted_queries;
        self.clock = batch.clock;
        self.markers.extend(batch.markers);
        let over = self.markers.len().saturating_sub(MARKERS);
        self.markers.drain(..over);
        let mut dropped = false;
        for block in batch.block.into_iter().chain(batch.intervals) {
            self.catalog.saw(block.sessions(), block.span().end);
            let ladder = if block.fidelity() == Fidelity::Sampled { &mut self.sampled } else { &mut self.intervals };
            ladder.push(0, block);
            ladder.settle();
        }
        while self.bytes() > self.limit && self.sampled.blocks.len() + self.intervals.blocks.len() > 1 {
            // The oldest first, whatever it is.
            match (self.sampled.start(), self.intervals.start()) {
                (Some(a), Some(b)) if b <= a => self.intervals.drop_oldest(),
                (None, _) => self.intervals.drop_oldest(),
                _ => self.sampled.drop_oldest(),
            }
            dropped = true;
        }
        if dropped || self.catalog.sessions.len() > 4 * (self.health.backends as usize + 1_000) {
            let oldest = self.extent().map(|e| e.start).unwrap_or_default();
            self.catalog.forget_sessions(oldest);
            self.past.forget(oldest);
            self.markers.retain(|m| m.at >= oldest);
        }
    }

    /// Drops blocks that end at or before an instant, and sessions that had ended by then.
    pub fn forget(&mut self, before: Ts) {
        for ladder in [&mut self.sampled, &mut self.intervals] {
            while ladder.blocks.front().is_some_and(|(_, b)| b.span().end <= before) {
                ladder.drop_oldest();
            }
        }
        self.catalog.forget_sessions(before);
        self.past.forget(before);
    }

    /// Bytes the blocks occupy.
    pub fn bytes(&self) -> usize {
        self.sampled.bytes + self.intervals.bytes
    }
}

impl Trace for Recent {
    fn extent(&self) -> Option<Span> {
        let start = self.sampled.start().into_iter().chain(self.intervals.start()).min()?;
        let end = self.sampled.end().into_iter().chain(self.intervals.end()).max()?;
        Some(Span::new(start, end))
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn health(&self) -> &Health {
        &self.health
    }

    fn times(&self, at: Ts) -> Option<FxHashMap<SessionId, Times>> {
        Some(self.past.at(at, self.clock.wall(at) / 1_000))
    }

    fn markers(&self, window: Span) -> Vec<Marker> {
        let mut markers: Vec<Marker> = self.markers.iter().filter(|m| m.is_in(window)).cloned().collect();
        // A fire is told when it is known what came of it.
        markers.sort_by_key(|m| m.at);
        markers
    }

    fn scan(&self, window: Span, visit: &mut dyn FnMut(&Block)) {
        let mut a = self.sampled.within(window).peekable();
        let mut b = self.intervals.within(window).peekable();
        while let Some(block) = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if y.span().start < x.span().start => b.next(),
            (None, _) => b.next(),
            _ => a.next(),
        } {
            visit(block);
        }
    }

    fn scan_back(&self, window: Span, visit: &mut dyn FnMut(&Block) -> ControlFlow<()>) {
        let mut a = self.sampled.within(window).rev().peekable();
        let mut b = self.intervals.within(window).rev().peekable();
        while let Some(block) = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if y.span().end > x.span().end => b.next(),
            (None, _) => b.next(),
            _ => a.next(),
        } {
            if visit(block).is_break() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::Builder;
    use super::super::catalog::News;
    use super::super::clock::Ts;
    use super::super::record::{QueryId, SessionId, State};
    use super::super::wait::WaitEvent;
    use super::*;

    const LOCK: WaitEvent = WaitEvent(0x0300_0005);

    /// A block of ten ticks in which each of some sessions is in one event, or changes at every tick.
    fn block(at: u64, sessions: std::ops::Range<u32>, busy: bool) -> Arc<Block> {
        let mut b = Builder::default();
        for tick in 1..=10 {
            b.tick(Ts(at + tick * 10), 10);
            for id in sessions.clone() {
                b.sample(SessionId(id), LOCK, QueryId(if busy { tick as i64 } else { 0 }), State::Active);
            }
        }
        Arc::new(b.seal().unwrap())
    }

    fn absorb(recent: &mut Recent, block: Arc<Block>) {
        recent.absorb(Batch { block: Some(block), ..Batch::default() });
    }

    fn shape(recent: &Recent) -> (usize, usize) {
        let (mut blocks, mut rows) = (0, 0);
        recent.scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| (blocks, rows) = (blocks + 1, rows + b.len()));
        (blocks, rows)
    }

    #[test]
    fn a_session_that_does_not_change_is_one_row() {
        let mut recent = Recent::new(usize::MAX);
        for i in 0..64 {
            absorb(&mut recent, block(i * 100, 0..5, false));
        }
        assert_eq!(shape(&recent), (1, 5));
        assert_eq!(recent.extent(), Some(Span::new(Ts(0), Ts(6_400))));
    }

    #[test]
    fn blocks_do_not_become_larger_than_is_quick_to_merge() {
        let mut recent = Recent::new(usize::MAX);
        for i in 0..64 {
            absorb(&mut recent, block(i * 100, 0..300, true));
        }
        let mut largest = 0;
        recent.scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| largest = largest.max(b.len()));
        assert!(largest > MERGED / FAN_IN && largest <= MERGED, "{largest}");
        // What comes behind them, when it is quiet again, is merged as ever.
        let (blocks, _) = shape(&recent);
        for i in 64..128 {
            absorb(&mut recent, block(i * 100, 0..1, false));
        }
        assert!(shape(&recent).0 <= blocks + 2);
    }

    #[test]
    fn the_oldest_goes_first_and_memory_is_bounded() {
        let one = block(0, 0..50, true).bytes();
        let mut recent = Recent::new(one * 20);
        for i in 0..200 {
            absorb(&mut recent, block(i * 100, 0..50, true));
            assert!(recent.bytes() <= one * 20);
        }
        let extent = recent.extent().unwrap();
        assert_eq!(extent.end, Ts(20_000));
        assert!(extent.start > Ts(17_000), "{extent:?}");
    }

    #[test]
    fn sessions_that_ended_are_forgotten_with_their_records() {
        let one = block(0, 0..50, true).bytes();
        let mut recent = Recent::new(one * 20);
        let news = vec![News::Session(SessionId(0), Box::default()), News::Session(SessionId(1), Box::default())];
        recent.absorb(Batch { block: Some(block(0, 0..2, false)), news, ..Batch::default() });
        recent.absorb(Batch { news: vec![News::Gone(SessionId(0))], ..Batch::default() });
        assert!(recent.catalog().sessions.contains_key(&SessionId(0)));
        for i in 1..100 {
            absorb(&mut recent, block(i * 100, 1..51, true));
        }
        assert!(!recent.catalog().sessions.contains_key(&SessionId(0)));
        assert!(recent.catalog().sessions.contains_key(&SessionId(1)));
    }

    #[test]
    fn a_window_finds_its_blocks_in_both_directions() {
        let mut recent = Recent::new(usize::MAX);
        for at in [0, 100, 200] {
            absorb(&mut recent, block(at, 0..1, false));
        }
        let mut first = Builder::default();
        first.tick(Ts(1_000), 0);
        absorb(&mut recent, Arc::new(first.seal().unwrap()));
        let forth = |from, to| {
            let mut found = Vec::new();
            recent.scan(Span::new(Ts(from), Ts(to)), &mut |b| found.push(b.span().start.0));
            found
        };
        assert_eq!(forth(50, 150), [0, 100]);
        assert_eq!(forth(100, 150), [100]);
        // A block of one weightless tick has no length, but its tick is inside (start, end].
        assert_eq!(forth(900, 1_000), [1_000]);
        assert_eq!(forth(1_000, 1_100), [0; 0]);
        let mut back = Vec::new();
        recent.scan_back(Span::new(Ts(0), Ts(1_000)), &mut |b| {
            back.push(b.span().start.0);
            if back.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(back, [1_000, 200]);
    }
}
