//! The index of named areas in the server's shared memory, and the walker of PostgreSQL's shared hash tables (dynahash) it is made of.
//!
//! Needs no symbols. The tables are read without locks and their pointers are not trusted: the walk is bounded and leaves the segment never.

use super::layout::Layout;
use super::memory::Segment;
use anyhow::{Context, Result, bail, ensure};
use rustc_hash::FxHashMap;

/// Buckets per hash segment (`DEF_SEGSIZE`).
const SEGMENT_BUCKETS: u64 = 256;
/// `HASHELEMENT`: link, hash value, padding. The entry follows.
const ELEMENT: u64 = 16;
/// No table of ours has more entries; a walk that finds more runs in circles.
const MAX_ENTRIES: usize = 1 << 22;

/// Entries of a hash table, as found at one pass.
#[derive(Debug, Default)]
pub struct Walk {
    /// Addresses of the entries.
    pub entries: Vec<u64>,
    /// Chains that ended in a pointer out of the segment or did not end: the table changed under way.
    pub broken: usize,
}

/// Walks the hash table whose header is at `header`.
pub fn walk(segment: &Segment, layout: &Layout, header: u64) -> Result<Walk> {
    let h = &layout.hash;
    let at = |offset: usize| header.wrapping_add(offset as u64);
    let word = |offset: usize, what: &str| segment.u64(at(offset)).with_context(|| format!("hash table at {header:#x}: no {what}"));
    let max_bucket = u64::from(segment.u32(at(h.max_bucket)).with_context(|| format!("no hash table at {header:#x}"))?);
    let segments = word(h.nsegs, "segments")?;
    let entry_size = word(h.entrysize, "entry size")?;
    ensure!(
        max_bucket < segments.saturating_mul(SEGMENT_BUCKETS)
            && segments <= word(h.dsize, "directory size")?
            && (1..=1 << 20).contains(&entry_size),
        "no hash table at {header:#x}"
    );
    if let Some(ssize) = h.ssize {
        ensure!(word(ssize, "segment size")? == SEGMENT_BUCKETS, "hash table at {header:#x} has segments of another size");
    }
    let directory = match h.dir {
        Some(dir) => word(dir, "directory")?,
        None => at(h.size),
    };
    let limit = usize::try_from(segment.len() / (ELEMENT + entry_size)).unwrap_or(MAX_ENTRIES).min(MAX_ENTRIES);
    let mut out = Walk::default();
    let mut buckets = vec![0; SEGMENT_BUCKETS as usize * 8];
    for (index, first) in (0..=max_bucket).step_by(SEGMENT_BUCKETS as usize).enumerate() {
        let table = segment.u64(directory.wrapping_add(index as u64 * 8)).context("hash directory lies outside the shared memory")?;
        segment.copy(table, &mut buckets).context("hash segment lies outside the shared memory")?;
        for bucket in buckets.chunks_exact(8).take(usize::try_from(max_bucket - first + 1).unwrap_or(usize::MAX)) {
            let mut element = bucket.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
            while element != 0 {
                let next = segment.u64(element);
                let (Some(next), Some(_)) = (next, segment.offset(element.wrapping_add(ELEMENT), entry_size as usize)) else {
                    out.broken += 1;
                    break;
                };
                if out.entries.len() >= limit {
                    bail!("hash table at {header:#x} does not end");
                }
                out.entries.push(element + ELEMENT);
                element = next;
            }
        }
    }
    Ok(out)
}

/// A named area: where it is and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// Address in the server.
    pub addr: u64,
    /// Length in bytes.
    pub len: usize,
}

/// All named areas: what `pg_shmem_allocations` shows.
#[derive(Debug, Clone, Default)]
pub struct Index {
    areas: FxHashMap<String, Named>,
}

impl Index {
    /// Reads the index of a segment.
    pub fn read(segment: &Segment, layout: &Layout) -> Result<Self> {
        let start = segment.start();
        let header = match (layout.header.index, layout.header.content_offset, &layout.allocator) {
            (Some(index), ..) => segment.u64(start + index as u64),
            (None, Some(content), Some(allocator)) => segment
                .u64(start + content as u64)
                .and_then(|offset| segment.u64(start.checked_add(offset)?.checked_add(allocator.index as u64)?)),
            _ => None,
        };
        let header = header.filter(|h| *h != 0).context("the shared memory header has no index of areas")?;
        let walked = walk(segment, layout, header)?;
        ensure!(walked.broken == 0 && !walked.entries.is_empty(), "the index of shared memory areas is damaged or of another version");
        let ent = &layout.index_ent;
        let mut areas = FxHashMap::default();
        for entry in walked.entries {
            let name = segment.c_string(entry + ent.key as u64, 48).context("index entry without a name")?;
            let name = String::from_utf8_lossy(&name).into_owned();
            let addr = segment.u64(entry + ent.location as u64).unwrap_or_default();
            let len = segment.u64(entry + ent.entry_size as u64).and_then(|l| usize::try_from(l).ok()).unwrap_or_default();
            ensure!(
                !name.is_empty() && segment.offset(addr, len).is_some(),
                "the shared memory area '{}' lies outside the shared memory",
                name.escape_debug()
            );
            areas.insert(name, Named { addr, len });
        }
        Ok(Self { areas })
    }

    /// An area by its name, such as `Proc Header`.
    pub fn get(&self, name: &str) -> Option<Named> {
        self.areas.get(name).copied()
    }

    /// An area that every server of this version has.
    pub fn require(&self, name: &str) -> Result<Named> {
        self.get(name).with_context(|| format!("the shared memory has no area '{name}'"))
    }

    /// All areas with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Named)> {
        self.areas.iter().map(|(name, area)| (name.as_str(), *area))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x7000_0000_0000;
    const HEADER: u64 = 0x100;
    const DIRECTORY: u64 = 0x1000;
    const SEGMENT: u64 = 0x2000;
    const ELEMENTS: u64 = 0x4000;
    const SIZE: usize = 0x8000;

    /// Shared memory with an index, written as a server of this version writes it.
    struct Made {
        layout: &'static Layout,
        bytes: Vec<u8>,
    }

    impl Made {
        fn new(major: u16) -> Self {
            let layout = Layout::of(major).unwrap();
            let mut this = Self { layout, bytes: vec![0; SIZE] };
            let h = &layout.hash;
            let header = HEADER as usize;
            this.word(header + h.dsize, 256);
            this.word(header + h.nsegs, 1);
            this.bytes[header + h.max_bucket..][..4].copy_from_slice(&63_u32.to_ne_bytes());
            this.word(header + h.entrysize, layout.index_ent.size as u64);
            if let Some(ssize) = h.ssize {
                this.word(header + ssize, 256);
            }
            let directory = match h.dir {
                Some(dir) => {
                    this.word(header + dir, START + DIRECTORY);
                    DIRECTORY as usize
                }
                None => header + h.size,
            };
            this.word(directory, START + SEGMENT);
            match (layout.header.index, layout.header.content_offset, &layout.allocator) {
                (Some(index), ..) => this.word(index, START + HEADER),
                (_, Some(content), Some(allocator)) => {
                    this.word(content, 48);
                    this.word(48 + allocator.index, START + HEADER);
                }
                _ => unreachable!(),
            }
            this
        }

        fn word(&mut self, at: usize, value: u64) {
            self.bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }

        /// Puts an entry in front of a bucket's chain.
        fn entry(&mut self, n: usize, bucket: usize, name: &str, addr: u64, len: u64) -> u64 {
            let at = ELEMENTS as usize + n * 128;
            let head = SEGMENT as usize + bucket * 8;
            let next = u64::from_ne_bytes(self.bytes[head..head + 8].try_into().unwrap());
            self.word(at, next);
            self.word(head, START + at as u64);
            let (entry, ent) = (at + ELEMENT as usize, &self.layout.index_ent);
            self.bytes[entry + ent.key..][..name.len()].copy_from_slice(name.as_bytes());
            self.word(entry + ent.location, addr);
            self.word(entry + ent.entry_size, len);
            START + at as u64
        }

        fn read(&self) -> Result<Index> {
            Index::read(&Segment::made_of(START, &self.bytes), self.layout)
        }
    }

    #[test]
    fn every_version_keeps_its_index_where_we_look() {
        for major in 13..=19 {
            let mut made = Made::new(major);
            made.entry(0, 3, "Proc Header", START + 64, 104);
            made.entry(1, 3, "Backend Status Array", START + 256, 4240);
            made.entry(2, 63, "Empty", START + SIZE as u64, 0);
            let index = made.read().unwrap();
            assert_eq!(index.iter().count(), 3, "{major}");
            assert_eq!(index.get("Proc Header"), Some(Named { addr: START + 64, len: 104 }));
            assert_eq!(index.get("proc header"), None);
            assert!(index.require("LOCK hash").unwrap_err().to_string().contains("LOCK hash"));
        }
    }

    #[test]
    fn pointers_are_not_trusted() {
        for major in [13, 18, 19] {
            let fails = |change: &dyn Fn(&mut Made)| {
                let mut made = Made::new(major);
                made.entry(0, 3, "Proc Header", START + 64, 104);
                change(&mut made);
                made.read().expect_err("this index is damaged")
            };
            // An area that reaches out of the segment, one in front of it, one whose end overflows.
            fails(&|m| _ = m.entry(1, 4, "x", START + SIZE as u64 - 8, 9));
            fails(&|m| _ = m.entry(1, 4, "x", START - 8, 8));
            fails(&|m| _ = m.entry(1, 4, "x", u64::MAX, 8));
            fails(&|m| _ = m.entry(1, 4, "", START, 8));
            // A chain that bites its tail, one that leaves the segment, one that points between words.
            assert!(
                fails(&|m| {
                    let first = m.entry(1, 4, "x", START, 8);
                    m.word((first - START) as usize, first);
                })
                .to_string()
                .contains("does not end")
            );
            fails(&|m| {
                let first = m.entry(1, 4, "x", START, 8);
                m.word((first - START) as usize, 0x10);
            });
            fails(&|m| {
                let first = m.entry(1, 4, "x", START, 8);
                m.word((first - START) as usize, first + 3);
            });
            // No index, no table, no directory.
            fails(&|m| match m.layout.header.index {
                Some(at) => m.word(at, 0),
                None => m.word(48 + m.layout.allocator.as_ref().unwrap().index, 0),
            });
            fails(&|m| m.word(HEADER as usize + m.layout.hash.nsegs, 0));
            fails(&|m| m.word(HEADER as usize + m.layout.hash.nsegs, u64::MAX));
            fails(&|m| m.word(HEADER as usize + m.layout.hash.entrysize, u64::MAX));
            fails(&|m| {
                let directory = m.layout.hash.dir.map_or(HEADER as usize + m.layout.hash.size, |_| DIRECTORY as usize);
                m.word(directory, START + SIZE as u64 - 8);
            });
        }
    }
}
