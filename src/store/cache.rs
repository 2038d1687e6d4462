//! Decoded blocks of files, the least recently used forgotten first.

use crate::trace::block::Block;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which block: the file's number and the offset in it.
pub type Key = (u32, u64);

/// Blocks of at most so many bytes together.
#[derive(Debug)]
pub struct Cache {
    limit: usize,
    bytes: usize,
    clock: u64,
    blocks: FxHashMap<Key, (u64, Arc<Block>)>,
    order: BTreeMap<u64, Key>,
}

impl Cache {
    /// A cache of about `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, bytes: 0, clock: 0, blocks: FxHashMap::default(), order: BTreeMap::new() }
    }

    /// The block, if it is here.
    pub fn get(&mut self, key: Key) -> Option<Arc<Block>> {
        self.clock += 1;
        let (used, block) = self.blocks.get_mut(&key)?;
        self.order.remove(used);
        *used = self.clock;
        self.order.insert(self.clock, key);
        Some(block.clone())
    }

    /// Keeps a block. One that is larger than the whole cache is not kept.
    pub fn put(&mut self, key: Key, block: &Arc<Block>) {
        if block.bytes() > self.limit || self.blocks.contains_key(&key) {
            return;
        }
        self.clock += 1;
        self.bytes += block.bytes();
        self.blocks.insert(key, (self.clock, block.clone()));
        self.order.insert(self.clock, key);
        while self.bytes > self.limit {
            let Some((_, key)) = self.order.pop_first() else { return };
            self.bytes -= self.blocks.remove(&key).map_or(0, |(_, b)| b.bytes());
        }
    }

    /// Forgets the blocks of a file.
    pub fn forget(&mut self, file: u32) {
        self.order.retain(|_, key| key.0 != file);
        self.blocks.retain(|key, _| key.0 != file);
        self.bytes = self.blocks.values().map(|(_, b)| b.bytes()).sum();
    }

    /// Bytes the blocks here occupy.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::block::Builder;
    use crate::trace::clock::Ts;

    #[test]
    fn what_was_used_last_stays() {
        let block = |at| {
            let mut b = Builder::default();
            b.tick(Ts(at), 1);
            Arc::new(b.seal().unwrap())
        };
        let one = block(1).bytes();
        let mut cache = Cache::new(one * 3);
        for i in 0..3 {
            cache.put((0, i), &block(i));
        }
        assert!(cache.get((0, 0)).is_some());
        cache.put((1, 9), &block(9));
        assert!(cache.get((0, 1)).is_none() && cache.get((0, 0)).is_some() && cache.get((1, 9)).is_some());
        cache.forget(0);
        assert_eq!(cache.bytes(), one);
        assert!(cache.get((0, 0)).is_none() && cache.get((1, 9)).is_some());
    }
}
