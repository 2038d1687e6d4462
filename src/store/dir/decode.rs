//! Reads groups of blocks one after the other, ahead of who wants them on other threads when there are many. How far ahead is bounded.

use super::{Dir, Entry};
use crate::store::file::{Group, Hole, Index};
use crate::trace::block::Block;
use crate::trace::catalog::News;
use crate::trace::codec::body::Depth;
use crate::trace::codec::notes;
use crate::trace::record::SessionId;
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// From so many groups on it is worth starting threads.
const WORTH: usize = 8;
/// Threads at most.
const THREADS: usize = 8;
/// Groups each thread may be ahead.
const AHEAD: usize = 3;
/// Numbers of sessions below are looked up by place.
const SMALL: u32 = 1 << 14;

/// What readers and the one who visits share: the groups in order.
#[derive(Default)]
struct Queue {
    /// The next one to be read.
    next: usize,
    /// The next one to be visited.
    visited: usize,
    /// What was read and not visited. `None` inside: it cannot be read.
    ready: FxHashMap<usize, Option<Arc<Block>>>,
    stop: bool,
}

#[derive(Default)]
struct Line {
    queue: Mutex<Queue>,
    moved: Condvar,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while a condition holds.
    fn wait(&self, condition: impl Fn(&Queue) -> bool) -> MutexGuard<'_, Queue> {
        self.moved.wait_while(self.lock(), |q| condition(q)).unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads groups until there are no more.
    fn work(&self, n: usize, ahead: usize, read: &impl Fn(usize) -> Option<Arc<Block>>) {
        loop {
            let mut queue = self.wait(|q| !q.stop && q.next < n && q.next >= q.visited + ahead);
            if queue.stop || queue.next >= n {
                return;
            }
            let i = queue.next;
            queue.next += 1;
            drop(queue);
            let block = read(i);
            self.lock().ready.insert(i, block);
            self.moved.notify_all();
        }
    }
}

/// Lets the readers go, however the visit ends.
struct Stop<'a>(&'a Line);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.lock().stop = true;
        self.0.moved.notify_all();
    }
}

impl Dir {
    /// Visits the blocks of some groups in their order, until `visit` breaks. One that cannot be read is passed over and written down, see [`Dir::holes`].
    pub(super) fn each(
        &self,
        entry: &Entry,
        index: &Index,
        groups: &[Group],
        depth: Depth,
        visit: &mut dyn FnMut(&Block) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.introduce(entry, index);
        let read = |i: usize| groups.get(i).and_then(|g| self.block(entry, index, *g, depth));
        let n = groups.len();
        let threads = if n < WORTH { 0 } else { thread::available_parallelism().map_or(1, usize::from).min(THREADS) };
        if threads < 2 {
            return (0..n).filter_map(read).try_for_each(|b| visit(&b));
        }
        let line = Line::default();
        thread::scope(|scope| {
            let (line, read) = (&line, &read);
            let stop = Stop(line);
            let start =
                || thread::Builder::new().name("pgwt-decode".into()).spawn_scoped(scope, move || line.work(n, threads * AHEAD, read));
            if (0..threads).filter(|_| start().is_ok()).count() == 0 {
                return (0..n).filter_map(read).try_for_each(|b| visit(&b));
            }
            for i in 0..n {
                let mut queue = line.wait(|q| !q.ready.contains_key(&i));
                let block = queue.ready.remove(&i).flatten();
                queue.visited = i + 1;
                drop(queue);
                line.moved.notify_all();
                if let Some(block) = block {
                    visit(&block)?;
                }
            }
            drop(stop);
            ControlFlow::Continue(())
        })
    }

    /// One block, from memory or from the file.
    fn block(&self, entry: &Entry, index: &Index, group: Group, depth: Depth) -> Option<Arc<Block>> {
        let key = (entry.id, group.offset);
        {
            let mut inner = self.inner();
            let outline = if depth == Depth::Coverage { inner.outlines.get(key) } else { None };
            if let Some(block) = outline.or_else(|| inner.cache.get(key)) {
                return Some(block);
            }
        }
        let run = entry.run(index);
        // Numbers are small and come again with every row.
        let mut small: Vec<Option<SessionId>> = Vec::new();
        let mut large: FxHashMap<SessionId, SessionId> = FxHashMap::default();
        let name = |number: SessionId| {
            let look = || self.inner().roster.id(run, number);
            if number.0 >= SMALL {
                return *large.entry(number).or_insert_with(look);
            }
            let place = number.0 as usize;
            if small.len() <= place {
                small.resize(place + 1, None);
            }
            small.get_mut(place).map_or_else(look, |slot| *slot.get_or_insert_with(look))
        };
        match entry.file.block(index.ours(), group, depth, entry.offset, name) {
            Ok(block) => {
                let block = Arc::new(match self.renumbered(entry) {
                    Some(numbers) => numbers.block(block),
                    None => block,
                });
                let mut inner = self.inner();
                let outline = depth == Depth::Coverage && index.ours();
                if outline { &mut inner.outlines } else { &mut inner.cache }.put(key, &block);
                Some(block)
            }
            Err(why) => {
                let hole = Hole { span: group.span, why: format!("the block at byte {}: {why}", group.offset) };
                self.inner().broken.insert(key, hole);
                None
            }
        }
    }

    /// Lets the roster know whom a file speaks of, before its numbers are used.
    pub(super) fn introduce(&self, entry: &Entry, index: &Index) {
        let done = self.inner().introduced.insert(entry.id, index.names.len()).unwrap_or(0);
        let run = entry.run(index);
        for group in index.names.iter().skip(done) {
            let Ok(news) = entry.file.note(*group, notes::read_names) else { continue };
            let mut inner = self.inner();
            for one in news {
                if let News::Session(number, s) = one {
                    inner.roster.introduce(run, number, s.pid, s.started);
                }
            }
        }
    }
}
