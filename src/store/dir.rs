//! A trace directory as one trace: files in the order of time, finished or growing, ours or another program's. A reader, it never changes anything.
//!
//! Its times are nanoseconds since 1970: each file's monotonic clock is tied to the wall clock by the newest file of its generation (files whose
//! clock goes on), so that a step of the wall clock between files of one run moves no record against another. Only the headers of blocks are read
//! until a question needs their content. Names are those of the window last given to [`Dir::narrow`].

use super::cache::Cache;
use super::file::{File, Group, Index};
use super::names;
use super::roster::Roster;
use crate::trace::Trace;
use crate::trace::block::{Block, Columns};
use crate::trace::catalog::{Catalog, EventNames};
use crate::trace::clock::{Clock, SECOND, Span, Ts};
use crate::trace::codec::body::Depth;
use crate::trace::codec::foreign;
use crate::trace::codec::notes;
use crate::trace::digest::{Digest, Part, Place};
use crate::trace::health::Health;
use crate::trace::marker::Marker;
use crate::trace::record::{Fidelity, SessionId};
use crate::trace::times::Times;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod decode;
mod digests;
mod learn;
mod majors;
mod marked;
mod times;

pub use super::file::Hole;

/// How a directory is read.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bytes of decoded blocks kept in memory.
    pub cache: usize,
    /// Names of a version's events, where the directory has none.
    pub names: fn(u16) -> Option<EventNames>,
}

impl Default for Options {
    fn default() -> Self {
        Self { cache: 64 << 20, names: |_| None }
    }
}

/// Indexes kept in memory: those of so many files.
const INDEXES: usize = 64;
/// A wall clock that moved by more is not a correction: what follows is another generation.
const STEP: u64 = 300 * SECOND;
/// Rows of a file may begin so long before it.
const STRADDLE: u64 = 10 * SECOND;

/// A file with its place in time.
#[derive(Debug)]
struct Entry {
    id: u32,
    file: File,
    /// What to add to the file's clock, nanoseconds.
    offset: i64,
    /// Where the file before it in its generation ends, else where it begins, on its own clock.
    from: Ts,
    /// Newest time in it, on its own clock.
    last: Ts,
    /// It has no footer yet.
    growing: bool,
}

impl Entry {
    fn global(&self, ts: Ts) -> Ts {
        Ts(ts.0.saturating_add_signed(self.offset))
    }
    fn span(&self) -> Span {
        Span::new(self.global(self.from.min(self.file.header.clock.mono) - STRADDLE), self.global(self.last))
    }
    fn shift(&self, span: Span) -> Span {
        Span { start: self.global(span.start), end: self.global(span.end) }
    }
    /// The run of the recorder whose numbers of sessions it uses; 0: those are process ids.
    fn run(&self, index: &Index) -> u64 {
        let began = self.file.header.clock.wall_ns as u64;
        self.file.note.as_ref().map_or(if index.ours() { began } else { 0 }, |n| n.run)
    }
}

/// The wall clock when the file's own clock was zero, by its header.
fn own(e: &Entry) -> i64 {
    e.file.header.clock.wall_ns.saturating_sub_unsigned(e.file.header.clock.mono.0)
}

/// Puts files in order: by the wall clock, but by their own clock where they are of one run and the wall clock was put back a little between them.
fn order(files: &mut [Entry]) {
    files.sort_by_key(|e| (e.file.header.clock.wall_ns, e.file.header.clock.mono));
    let run = |e: &Entry| e.file.note.as_ref().map(|n| n.run);
    let turned = |a: &Entry, b: &Entry| {
        b.file.header.clock.mono < a.file.header.clock.mono && own(a).abs_diff(own(b)) <= STEP && run(a).is_some() && run(a) == run(b)
    };
    for i in 1..files.len() {
        let Some((last, before)) = files.get(..=i).and_then(<[Entry]>::split_last) else { return };
        let places = before.iter().rev().take_while(|e| turned(e, last)).count();
        if let Some(part) = files.get_mut(i - places..=i) {
            part.rotate_right(1);
        }
    }
}

/// What reading changes.
#[derive(Debug)]
struct Inner {
    indexes: FxHashMap<u32, (u64, Arc<Index>)>,
    clock: u64,
    cache: Cache,
    /// Blocks without rows.
    outlines: Cache,
    roster: Roster,
    /// Of each file, how many blocks of names the roster has seen.
    introduced: FxHashMap<u32, usize>,
    /// Groups that could not be read.
    broken: BTreeMap<(u32, u64), Hole>,
    shelf: digests::Shelf,
}

/// A file that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Which.
    pub path: PathBuf,
    /// One line: why.
    pub why: String,
}

/// A trace directory.
#[derive(Debug)]
pub struct Dir {
    path: PathBuf,
    options: Options,
    files: Vec<Entry>,
    /// Files that are not read, by path, with their length then.
    skipped: BTreeMap<PathBuf, (u64, String)>,
    next: u32,
    extent: Option<Span>,
    catalog: Catalog,
    learned: Vec<(u32, usize)>,
    /// Of versions before the newest, how their events are numbered.
    majors: BTreeMap<u16, majors::Renumbered>,
    health: Health,
    inner: Mutex<Inner>,
}

impl Dir {
    /// Opens a directory. Files that cannot be read are passed over, see [`Self::skipped`]; the error is a directory that cannot be.
    pub fn open(path: &Path, options: Options) -> io::Result<Self> {
        let inner = Inner {
            indexes: FxHashMap::default(),
            clock: 0,
            cache: Cache::new(options.cache - options.cache / 8),
            outlines: Cache::new(options.cache / 8),
            roster: Roster::default(),
            introduced: FxHashMap::default(),
            broken: BTreeMap::new(),
            shelf: digests::Shelf::default(),
        };
        let mut this = Self {
            path: path.to_owned(),
            options,
            files: Vec::new(),
            skipped: BTreeMap::new(),
            next: 0,
            extent: None,
            catalog: Catalog::default(),
            learned: Vec::new(),
            majors: BTreeMap::new(),
            health: Health::default(),
            inner: Mutex::new(inner),
        };
        this.refresh()?;
        if let Some(newest) = this.files.last().map(Entry::span) {
            this.narrow(newest);
        }
        Ok(this)
    }

    /// Sees what came since: records, files, and files that went.
    pub fn refresh(&mut self) -> io::Result<()> {
        let mut there = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(names::is_trace) {
                there.push(entry.path());
            }
        }
        let mut known: FxHashMap<(u64, u64), Entry> = self.files.drain(..).map(|e| (e.file.inode, e)).collect();
        self.skipped.retain(|path, _| there.contains(path));
        for path in there {
            let Ok(meta) = fs::metadata(&path) else { continue };
            let len = meta.len();
            if let Some(mut entry) = known.remove(&(meta.dev(), meta.ino())) {
                entry.file.path = path;
                self.files.push(entry);
                continue;
            }
            if self.skipped.get(&path).is_some_and(|s| s.0 == len) || (len < 28 && path.ends_with(names::CURRENT)) {
                continue;
            }
            match File::open(&path) {
                Ok(file) => {
                    self.skipped.remove(&path);
                    let (from, last) = (file.header.clock.mono, file.last);
                    self.files.push(Entry { id: self.next, file, offset: 0, from, last, growing: true });
                    self.next += 1;
                }
                Err(e) => {
                    self.skipped.insert(path, (len, e.to_string()));
                }
            }
        }
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        // What touches a digest's stretch now may be something else.
        inner.shelf = digests::Shelf::default();
        for gone in known.into_values() {
            inner.forget(gone.id);
        }
        order(&mut self.files);
        for entry in self.files.iter_mut().filter(|e| e.growing) {
            let finished = entry.file.reach();
            // Also when it is finished now: what came since belongs into its index.
            if finished.is_none() || inner.indexes.contains_key(&entry.id) {
                let index = inner.read_on(entry);
                entry.last = index.span().map_or(entry.last, |s| s.end.max(entry.last));
            }
            if let Some(last) = finished {
                (entry.last, entry.growing) = (last, false);
            }
        }
        self.renumber();
        self.place();
        self.measure();
        Ok(())
    }

    /// Ties the clocks of the files to the wall clock, generation by generation.
    fn place(&mut self) {
        let mut from = 0;
        while let Some(first) = self.files.get(from) {
            let (mut last, mut offset, mut to) = (first.last, own(first), from + 1);
            while let Some(next) = self.files.get(to) {
                if next.file.header.clock.mono < last - SECOND || own(next).abs_diff(offset) > STEP {
                    break;
                }
                (last, offset, to) = (last.max(next.last), own(next), to + 1);
            }
            let mut before: Option<Ts> = None;
            for entry in self.files.get_mut(from..to).unwrap_or_default() {
                if entry.offset != offset {
                    entry.offset = offset;
                    self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).forget_blocks(entry.id);
                    self.learned.clear();
                }
                let begun = entry.file.header.clock.mono;
                entry.from = before.map_or(begun, |b| b.min(begun));
                before = Some(entry.last);
            }
            from = to;
        }
    }

    /// What the directory as a whole holds.
    fn measure(&mut self) {
        let spans = |e: &Entry| self.index(e).span().map(|s| e.shift(s));
        let first = self.files.iter().find_map(spans);
        let end = self.files.iter().filter(|e| !e.growing || self.index(e).span().is_some()).map(|e| e.global(e.last)).max();
        self.extent = first.zip(end).map(|(f, end)| Span::new(f.start, end));
        let account = self.files.last().and_then(|e| e.file.note(self.index(e).account?, notes::read_account).ok());
        self.health = account.map(|a| a.health).unwrap_or_default();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self, entry: &Entry) -> Arc<Index> {
        self.inner().index(entry)
    }

    /// Files that are not read, and why.
    pub fn skipped(&self) -> Vec<Skipped> {
        self.skipped.iter().map(|(path, (_, why))| Skipped { path: path.clone(), why: why.clone() }).collect()
    }

    /// What the files of a window should have told and did not: gaps the recorder wrote down, and what was found damaged so far.
    pub fn holes(&self, window: Span) -> Vec<Hole> {
        let mut holes = Vec::new();
        for entry in self.files.iter().filter(|e| e.span().touches(window)) {
            let index = self.index(entry);
            let inner = self.inner();
            let broken = inner.broken.range((entry.id, 0)..=(entry.id, u64::MAX)).map(|(_, h)| h);
            let all = index.holes.iter().chain(broken).map(|h| Hole { span: entry.shift(h.span), why: h.why.clone() });
            holes.extend(all.filter(|h| h.span.touches(window)));
        }
        holes
    }

    /// Whether the newest file is not finished: a recorder writes it, or died.
    pub fn grows(&self) -> bool {
        self.files.last().is_some_and(|e| e.growing)
    }

    /// How many files are read, and their bytes together.
    pub fn size(&self) -> (usize, u64) {
        let bytes = self.files.iter().filter_map(|e| Some(fs::metadata(&e.file.path).ok()?.len())).sum();
        (self.files.len(), bytes)
    }

    /// Bytes of decoded blocks in memory.
    pub fn cached(&self) -> usize {
        let inner = self.inner();
        inner.cache.bytes() + inner.outlines.bytes()
    }

    /// The stretches in which a file of another program holds every transition, as blocks without rows.
    fn watched(entry: &Entry, index: &Index) -> Vec<Arc<Block>> {
        if index.ours() {
            return Vec::new();
        }
        let spans = foreign::spans(&index.mentions, entry.from);
        let block = |s: Span| Columns { fidelity: Fidelity::Exact, span: s, watched: vec![s], ..Columns::default() }.block().map(Arc::new);
        spans.into_iter().filter_map(|s| block(entry.shift(s))).collect()
    }

    fn scan_deep(&self, window: Span, depth: Depth, visit: &mut dyn FnMut(&Block)) {
        for entry in self.files.iter().filter(|e| e.span().touches(window)) {
            let index = self.index(entry);
            Self::watched(entry, &index).iter().filter(|b| b.span().touches(window)).for_each(|b| visit(b));
            let groups = self.groups(entry, &index, window);
            // Nobody breaks.
            let _ = self.each(entry, &index, &groups, depth, &mut |block| {
                visit(block);
                ControlFlow::Continue(())
            });
        }
    }

    /// Groups of a file that touch a window, in order.
    fn groups(&self, entry: &Entry, index: &Index, window: Span) -> Vec<Group> {
        let back = |ts: Ts| Ts(ts.0.saturating_add_signed(entry.offset.saturating_neg()));
        let local = Span { start: back(window.start), end: back(window.end) };
        index.near(&entry.file, local).unwrap_or_else(|_| {
            entry.file.distrust();
            let mut inner = self.inner();
            inner.indexes.remove(&entry.id);
            inner.index(entry).near(&entry.file, local).unwrap_or_default()
        })
    }
}

impl Inner {
    /// Reads on where a file has grown.
    fn read_on(&mut self, entry: &Entry) -> Arc<Index> {
        let mut index = self.indexes.remove(&entry.id).map(|(_, i)| Arc::unwrap_or_clone(i)).unwrap_or_default();
        entry.file.index(&mut index);
        let index = Arc::new(index);
        self.clock += 1;
        if self.indexes.len() >= INDEXES
            && let Some(oldest) = self.indexes.iter().min_by_key(|(_, (used, _))| *used).map(|(id, _)| *id)
        {
            self.indexes.remove(&oldest);
        }
        self.indexes.insert(entry.id, (self.clock, index.clone()));
        index
    }

    fn index(&mut self, entry: &Entry) -> Arc<Index> {
        self.clock += 1;
        let now = self.clock;
        match self.indexes.get_mut(&entry.id) {
            Some((used, index)) => {
                *used = now;
                index.clone()
            }
            None => self.read_on(entry),
        }
    }

    fn forget_blocks(&mut self, id: u32) {
        self.cache.forget(id);
        self.outlines.forget(id);
    }

    fn forget(&mut self, id: u32) {
        self.indexes.remove(&id);
        self.forget_blocks(id);
        self.introduced.remove(&id);
        self.broken.retain(|(file, _), _| *file != id);
    }
}

impl Trace for Dir {
    fn extent(&self) -> Option<Span> {
        self.extent
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn clock(&self) -> Clock {
        Clock::default()
    }

    fn health(&self) -> &Health {
        &self.health
    }

    fn scan(&self, window: Span, visit: &mut dyn FnMut(&Block)) {
        self.scan_deep(window, Depth::Rows, visit);
    }

    fn scan_coverage(&self, window: Span, visit: &mut dyn FnMut(&Block)) {
        self.scan_deep(window, Depth::Coverage, visit);
    }

    fn markers(&self, window: Span) -> Vec<Marker> {
        self.marked(window)
    }

    fn cover(&self, window: Span, longest: u64) -> Vec<Part> {
        self.parts(window, longest)
    }

    fn digest(&self, place: &Place, lengths: bool) -> Option<Arc<Digest>> {
        self.load(place, lengths)
    }

    fn times(&self, at: Ts) -> Option<FxHashMap<SessionId, Times>> {
        Some(self.times_at(at))
    }

    fn digest_before(&self, at: Ts) -> Option<Arc<Digest>> {
        self.before(at)
    }

    fn scan_back(&self, window: Span, visit: &mut dyn FnMut(&Block) -> ControlFlow<()>) {
        for entry in self.files.iter().rev().filter(|e| e.span().touches(window)) {
            let index = self.index(entry);
            let mut groups = self.groups(entry, &index, window);
            groups.sort_by_key(|g| std::cmp::Reverse((g.span.end, g.offset)));
            // The first ones are often enough.
            let (first, rest) = groups.split_at(groups.len().min(2));
            for some in [first, rest] {
                if self.each(entry, &index, some, Depth::Rows, visit).is_break() {
                    return;
                }
            }
            for block in Self::watched(entry, &index).iter().rev().filter(|b| b.span().touches(window)) {
                if visit(block).is_break() {
                    return;
                }
            }
        }
    }
}
