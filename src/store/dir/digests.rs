//! Digests of a directory: which of them hold, and how a window is covered by them. One is void when other groups touch its stretch now than did when it was
//! made: then shorter ones, or the blocks, are read.

use super::{Dir, Entry};
use crate::store::file::{Index, Totals};
use crate::trace::clock::{Span, Ts};
use crate::trace::codec::digest::Made;
use crate::trace::digest::{Digest, Part, Place};
use crate::trace::record::SessionId;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::sync::Arc;

/// Bytes of digests kept in memory.
const KEPT: usize = 32 << 20;

/// Digests in memory, by file, offset and whether the lengths are there; `None`: void, or it cannot be read. All are forgotten when they are too many, and when a file has changed.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    digests: FxHashMap<(u32, u64, bool), Option<Arc<Digest>>>,
    bytes: usize,
}

impl Shelf {
    fn put(&mut self, key: (u32, u64, bool), digest: Option<&Arc<Digest>>) {
        let bytes = 64 + digest.map_or(0, |d| d.bytes());
        if self.bytes + bytes > KEPT {
            *self = Self::default();
        }
        if bytes <= KEPT {
            self.bytes += bytes;
            self.digests.insert(key, digest.cloned());
        }
    }
}

impl Dir {
    /// Parts that make up a window: the longest digests that hold, blocks between them.
    pub(super) fn parts(&self, window: Span, longest: u64) -> Vec<Part> {
        let mut found: Vec<Place> = Vec::new();
        for entry in self.files.iter().filter(|e| e.span().touches(window)) {
            let index = self.index(entry);
            let global = index.digests.iter().map(|d| Place { span: entry.shift(d.block.span), part: entry.id, offset: d.block.offset });
            found.extend(global.filter(|p| p.span.start >= window.start && p.span.end <= window.end && p.span.len() <= longest));
        }
        found.sort_by_key(|p| (p.span.start, Reverse(p.span.end)));
        let (mut parts, mut from) = (Vec::new(), window.start);
        for place in found {
            if place.span.start < from || place.span.is_empty() || self.load(&place, false).is_none() {
                continue;
            }
            if place.span.start > from {
                parts.push(Part::Blocks(Span::new(from, place.span.start)));
            }
            from = place.span.end;
            parts.push(Part::Digest(place));
        }
        if from < window.end || parts.is_empty() {
            parts.push(Part::Blocks(Span::new(from, window.end)));
        }
        parts
    }

    /// The newest digest that holds and ends at or before an instant.
    pub(super) fn before(&self, at: Ts) -> Option<Arc<Digest>> {
        let near = Span::new(at - super::STRADDLE, at);
        let mut found: Vec<Place> = Vec::new();
        for entry in self.files.iter().filter(|e| e.span().touches(near)) {
            let index = self.index(entry);
            let global = index.digests.iter().map(|d| Place { span: entry.shift(d.block.span), part: entry.id, offset: d.block.offset });
            found.extend(global.filter(|p| p.span.end <= at && p.span.end >= near.start));
        }
        // Of equal ends the shortest.
        found.sort_by_key(|p| (Reverse(p.span.end), Reverse(p.span.start)));
        found.iter().find_map(|place| self.load(place, false))
    }

    /// A digest, if it can be read and holds.
    pub(super) fn load(&self, place: &Place, lengths: bool) -> Option<Arc<Digest>> {
        let key = (place.part, place.offset, lengths);
        if let Some(known) = self.inner().shelf.digests.get(&key) {
            return known.clone();
        }
        let digest = self.files.iter().find(|e| e.id == place.part).and_then(|e| self.read(e, place, lengths)).map(Arc::new);
        self.inner().shelf.put(key, digest.as_ref());
        digest
    }

    fn read(&self, entry: &Entry, place: &Place, lengths: bool) -> Option<Digest> {
        let index = self.index(entry);
        let totals = index.digests.iter().find(|d| d.block.offset == place.offset)?;
        let (mut digest, made) = entry.file.digest(totals, lengths).ok()?;
        // Certain of the groups of its own file: then others matter only if they are near.
        let alone = || self.files.iter().all(|e| e.id == entry.id || !e.span().touches(place.span));
        if !(totals.holds && alone()) && self.touching(place.span) != made {
            return None;
        }
        self.translate(entry, &index, totals, &mut digest);
        Some(digest)
    }

    /// The groups that touch a stretch.
    fn touching(&self, span: Span) -> Made {
        let mut made = Made::default();
        for entry in self.files.iter().filter(|e| e.span().touches(span)) {
            let index = self.index(entry);
            self.groups(entry, &index, span).iter().for_each(|g| made.add(g.sum));
        }
        made
    }

    /// Moves times and renames sessions, as in blocks.
    fn translate(&self, entry: &Entry, index: &Index, totals: &Totals, digest: &mut Digest) {
        // Who is spoken of may be introduced in the file before alone.
        for other in self.files.iter().filter(|e| e.id == entry.id || e.span().touches(entry.shift(totals.block.span))) {
            let index = self.index(other);
            self.introduce(other, &index);
        }
        let run = entry.run(index);
        let mut inner = self.inner();
        let mut known: FxHashMap<SessionId, SessionId> = FxHashMap::default();
        let mut name = |id: &mut SessionId| *id = *known.entry(*id).or_insert_with(|| inner.roster.id(run, *id));
        digest.rows.iter_mut().for_each(|r| name(&mut r.key.session));
        if let Some(numbers) = self.renumbered(entry) {
            digest.rows.iter_mut().for_each(|r| r.key.event = numbers.number(r.key.event));
        }
        digest.executions.iter_mut().for_each(|e| name(&mut e.session));
        digest.open.iter_mut().for_each(|o| name(&mut o.session));
        digest.rows.sort_by_key(|r| r.key);
        digest.executions.sort_by_key(|e| (e.session, e.query));
        digest.open.sort_by_key(|o| o.session);
        digest.span = entry.shift(digest.span);
        digest.open.iter_mut().for_each(|o| o.at = entry.global(o.at));
        digest.seen.sampled.iter_mut().for_each(|s| *s = entry.shift(*s));
        digest.seen.precise.iter_mut().for_each(|s| s.span = entry.shift(s.span));
    }
}
