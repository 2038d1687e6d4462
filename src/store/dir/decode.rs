//! Reads groups of blocks, several at a time on several threads when there are many.

use super::{Dir, Entry};
use crate::store::file::{Group, Hole, Index};
use crate::trace::block::Block;
use crate::trace::catalog::News;
use crate::trace::codec::Problem;
use crate::trace::codec::notes;
use crate::trace::record::SessionId;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::thread;

/// Groups read at a time.
pub(super) const TOGETHER: usize = 64;
/// From so many on it is worth starting threads.
const WORTH: usize = 8;
/// Threads at most.
const THREADS: usize = 8;

impl Dir {
    /// The blocks of some groups, `None` where one cannot be read: that is written down, see [`Dir::holes`].
    pub(super) fn blocks(&self, entry: &Entry, index: &Index, groups: &[Group]) -> Vec<Option<Arc<Block>>> {
        self.introduce(entry, index);
        let mut found: Vec<Option<Arc<Block>>> = {
            let mut inner = self.inner();
            groups.iter().map(|g| inner.cache.get((entry.id, g.offset))).collect()
        };
        let missing: Vec<usize> = found.iter().enumerate().filter(|(_, b)| b.is_none()).map(|(i, _)| i).collect();
        let read = |i: &usize| groups.get(*i).map(|g| (*i, *g, self.decode(entry, index, *g)));
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS).min(missing.len() / WORTH + 1);
        let results: Vec<(usize, Group, Result<Block, Problem>)> = if threads < 2 {
            missing.iter().filter_map(read).collect()
        } else {
            thread::scope(|scope| {
                let read = &read;
                let share = |some| thread::Builder::new().name("pgwt-decode".into()).spawn_scoped(scope, move || decode_all(some, read));
                let parts: Vec<_> = missing.chunks(missing.len().div_ceil(threads)).map(|some| (some, share(some))).collect();
                // A thread that could not be started: its share is read here.
                let join = |(some, handle): (_, std::io::Result<_>)| match handle {
                    Ok(handle) => thread::ScopedJoinHandle::join(handle).unwrap_or_default(),
                    Err(_) => decode_all(some, read),
                };
                parts.into_iter().flat_map(join).collect()
            })
        };
        let mut inner = self.inner();
        for (i, group, result) in results {
            match result {
                Ok(block) => {
                    let block = Arc::new(block);
                    inner.cache.put((entry.id, group.offset), &block);
                    if let Some(slot) = found.get_mut(i) {
                        *slot = Some(block);
                    }
                }
                Err(why) => {
                    let hole = Hole { span: group.span, why: format!("the block at byte {}: {why}", group.offset) };
                    inner.broken.insert((entry.id, group.offset), hole);
                }
            }
        }
        found
    }

    fn decode(&self, entry: &Entry, index: &Index, group: Group) -> Result<Block, Problem> {
        let run = entry.run(index);
        let mut known: FxHashMap<SessionId, SessionId> = FxHashMap::default();
        let mut last = None;
        let name = |number: SessionId| match last {
            Some((n, id)) if n == number => id,
            _ => {
                let id = *known.entry(number).or_insert_with(|| self.inner().roster.id(run, number));
                last = Some((number, id));
                id
            }
        };
        let block = entry.file.block(index.ours(), group, entry.offset, name)?;
        Ok(match self.renumbered(entry) {
            Some(numbers) => numbers.block(block),
            None => block,
        })
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

type Found = (usize, Group, Result<Block, Problem>);

fn decode_all(some: &[usize], read: &(impl Fn(&usize) -> Option<Found> + Sync)) -> Vec<Found> {
    some.iter().filter_map(read).collect()
}
