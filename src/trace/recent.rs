//! The last minutes in memory: what a live picture reads. Owned by one thread (the session worker or the text loop).
//!
//! Blocks arrive small, so that the picture is fresh; older ones are merged eight by eight into larger ones, in which a session that did
//! not change is one row. Memory is bounded: beyond the limit the oldest block is dropped and the extent says so.

use super::Trace;
use super::block::Block;
use super::catalog::{Catalog, News};
use super::clock::{Clock, Span};
use super::health::Health;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What capture hands over: a block (when something was recorded), the names that go with it, and how capture is doing.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Records and ticks.
    pub block: Option<Arc<Block>>,
    /// Names.
    pub news: Vec<News>,
    /// Capture's account of itself.
    pub health: Health,
    /// The trace clock against the wall clock.
    pub clock: Clock,
}

/// Blocks of the last minutes, newest at the back.
#[derive(Debug)]
pub struct Recent {
    /// (level, block): a block of level n holds about 8^n blocks as they arrived. Levels never rise towards the back.
    blocks: VecDeque<(u8, Arc<Block>)>,
    bytes: usize,
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

impl Recent {
    /// Keeps blocks of about `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { blocks: VecDeque::new(), bytes: 0, limit, catalog: Catalog::default(), clock: Clock::default(), health: Health::default() }
    }

    /// Takes in what capture handed over.
    pub fn absorb(&mut self, batch: Batch) {
        for news in batch.news {
            self.catalog.learn(news);
        }
        self.health = batch.health;
        self.health.evicted_queries += self.catalog.evicted_queries;
        self.clock = batch.clock;
        let Some(block) = batch.block else { return };
        self.catalog.saw(block.sessions(), block.span().end);
        self.push(0, block);
        self.settle();
        let before = self.blocks.len();
        while self.bytes > self.limit && self.blocks.len() > 1 {
            if let Some((_, old)) = self.blocks.pop_front() {
                self.bytes = self.bytes.saturating_sub(old.bytes());
            }
        }
        if before != self.blocks.len() || self.catalog.sessions.len() > 4 * (self.health.backends as usize + 1_000) {
            let oldest = self.blocks.front().map(|(_, b)| b.span().start).unwrap_or_default();
            self.catalog.forget_sessions(oldest);
        }
    }

    fn push(&mut self, level: u8, block: Arc<Block>) {
        self.bytes += block.bytes();
        self.blocks.push_back((level, block));
    }

    /// Merges the newest full run of one level into the next, as often as possible.
    fn settle(&mut self) {
        loop {
            let Some(&(level, _)) = self.blocks.back() else { return };
            let run = self.blocks.iter().rev().take_while(|(l, _)| *l == level).count();
            let rows: usize = self.blocks.iter().rev().take(run).map(|(_, b)| b.len()).sum();
            if level >= TOP || run < FAN_IN || rows > MERGED {
                return;
            }
            let parts: Vec<_> = self.blocks.drain(self.blocks.len() - run..).collect();
            self.bytes = self.bytes.saturating_sub(parts.iter().map(|(_, b)| b.bytes()).sum());
            self.push(level + 1, Arc::new(Block::merge(parts.iter().map(|(_, b)| b.as_ref()))));
        }
    }

    /// Blocks with something in a window. A block of one weightless tick has an empty span, which meets nothing, but its tick counts.
    fn within(&self, window: Span) -> impl DoubleEndedIterator<Item = &Block> {
        let inside = move |b: &&Block| b.span().start <= window.end && b.span().end > window.start;
        self.blocks.iter().map(|(_, block)| block.as_ref()).filter(inside)
    }

    /// Bytes the blocks occupy.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Trace for Recent {
    fn extent(&self) -> Option<Span> {
        let (_, first) = self.blocks.front()?;
        let (_, last) = self.blocks.back()?;
        Some(Span::new(first.span().start, last.span().end))
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

    fn scan(&self, window: Span, visit: &mut dyn FnMut(&Block)) {
        self.within(window).for_each(visit);
    }

    fn scan_back(&self, window: Span, visit: &mut dyn FnMut(&Block) -> ControlFlow<()>) {
        let _ = self.within(window).rev().try_for_each(visit);
    }
}
