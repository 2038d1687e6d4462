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
        max_bucket < segments.saturating_mul(SEGMENT_BUCKETS) && segments <= word(h.dsize, "directory size")? && entry_size > 0,
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
