//! One trace file, finished or growing: its index, made of block headers alone or read from its end, and single groups of blocks read from it.
//!
//! A file of ours begins with a block that says so. In it a group counts only when its block of ours is there; in a file of another program every
//! block of transitions or samples stands for itself.

use super::names;
use crate::trace::block::{Block, Columns};
use crate::trace::clock::{Span, Ts};
use crate::trace::codec::body::{Depth, read_columns};
use crate::trace::codec::digest::{Made, read_digest};
use crate::trace::codec::foreign::{self, Mention};
use crate::trace::codec::frame::{Framed, Frames, own_span};
use crate::trace::codec::header::{BLOCK_HEADER, BlockHeader, FILE_HEADER, FileHeader, footer_len, read_footer};
use crate::trace::codec::notes::{self, FileNote, Gap};
use crate::trace::codec::records::{read_samples, read_transitions};
use crate::trace::codec::{Problem, kind};
use crate::trace::digest::Digest;
use crate::trace::record::SessionId;
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

mod stored;

pub use crate::trace::codec::index::{Group, Totals};
pub use stored::touching;

/// Something a file should have told and did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// When, on the file's clock.
    pub span: Span,
    /// One line: why.
    pub why: String,
}

/// What the block headers of a file say.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Blocks with records, by start, as far as headers were read; see [`Index::near`].
    groups: Vec<Group>,
    /// The same, where the file says it itself.
    pages: Vec<stored::Page>,
    extent: Option<Span>,
    /// Blocks with names, as they come.
    pub names: Vec<Group>,
    /// Blocks with sessions' times, as they come.
    pub times: Vec<Group>,
    /// Blocks with markers, as they come.
    pub markers: Vec<Group>,
    /// Digests, by start, of equal ones the longest first. They may be of time before the file.
    pub digests: Vec<Totals>,
    /// The newest account of the recorder.
    pub account: Option<Group>,
    /// Stretches that were not recorded, and groups that cannot be read.
    pub holes: Vec<Hole>,
    /// Of a file of another program: what its blocks say about coverage, and the process ids in it.
    pub mentions: Vec<Mention>,
    /// See `mentions`.
    pub pids: FxHashSet<u32>,
    ours: bool,
    torn: bool,
    blocks: usize,
    end: u64,
    pending: Vec<(u64, BlockHeader)>,
    newest: Ts,
}

impl Index {
    /// Whether it was written by this program.
    pub fn ours(&self) -> bool {
        self.ours
    }

    /// From the earliest start to the newest end.
    pub fn span(&self) -> Option<Span> {
        if self.extent.is_some() {
            return self.extent;
        }
        let start = self.groups.first()?.span.start;
        Some(Span::new(start, self.groups.iter().map(|g| g.span.end).max()?))
    }
}

/// One trace file.
#[derive(Debug)]
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// Its header; its clock as the file says it twice.
    pub header: FileHeader,
    /// What it says it is; `None`: another program wrote it.
    pub note: Option<FileNote>,
    /// Which file on the disk it is.
    pub inode: (u64, u64),
    /// The newest time a look at its end finds.
    pub last: Ts,
    bytes: fs::File,
    /// The index it holds is damaged.
    distrusted: AtomicBool,
}

fn damaged(p: Problem) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, p)
}

impl File {
    /// Opens a file and reads its two ends. The error is one line that says what is wrong with it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = fs::File::open(path)?;
        let meta = file.metadata()?;
        let mut head = vec![0; 4096.min(meta.len() as usize)];
        file.read_exact_at(&mut head, 0)?;
        let mut header = FileHeader::read(&head).map_err(damaged)?;
        let (inode, last) = ((meta.dev(), meta.ino()), header.clock.mono);
        let mut this = Self { path: path.to_owned(), header, note: None, inode, last, bytes: file, distrusted: AtomicBool::new(false) };
        let first = Frames(head.get(FILE_HEADER..).unwrap_or_default()).next();
        this.note = first.filter(|f| f.header.kind == kind::FILE).and_then(|f| notes::read_file(&f).ok());
        if let Some(note) = &this.note {
            // Said twice, the second time with a checksum.
            (header.clock, header.pg_version) = (note.clock, note.major);
            this.header = header;
        }
        Ok(this)
    }

    /// Its length now.
    pub fn len(&self) -> u64 {
        self.bytes.metadata().map_or(0, |m| m.len())
    }

    /// Whether it has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the footer begins, if there is one, and the offsets in it.
    fn footer(&self, len: u64) -> Option<(u64, Vec<(Ts, u64)>)> {
        let mut last = [0; 4];
        self.bytes.read_exact_at(&mut last, len.checked_sub(4)?).ok()?;
        let bytes = footer_len(last, len)?;
        // The first block is right behind the file header: what says otherwise is no footer and not worth reading.
        let mut first = [0; 16];
        self.bytes.read_exact_at(&mut first, len - bytes).ok()?;
        if u128::from_le_bytes(first) >> 64 != FILE_HEADER as u128 {
            return None;
        }
        let mut footer = vec![0; usize::try_from(bytes).ok()?];
        self.bytes.read_exact_at(&mut footer, len - bytes).ok()?;
        Some((len - bytes, read_footer(&footer, len)?))
    }

    /// How far the records of a finished file reach, without an index: its footer says where the last blocks are.
    pub fn reach(&self) -> Option<Ts> {
        let len = self.len();
        if let Some((stored, _)) = self.note.as_ref().and_then(|_| self.stored(len)) {
            return Some(stored.extent.map_or(self.last, |e| e.end));
        }
        let (_, entries) = self.footer(len)?;
        let header = |offset: u64| BlockHeader::read(&self.read(offset, BLOCK_HEADER as u32).ok()?);
        // Blocks of two kinds overlap: the newest time is in one of the last.
        // In a file of ours, what the block of ours says: a mark may stand behind the records it belongs to.
        let records = |h: &BlockHeader| if self.note.is_some() { h.kind == kind::BLOCK } else { h.kind <= kind::SAMPLES };
        entries.iter().rev().filter_map(|(_, offset)| header(*offset)).filter(records).take(16).map(|h| h.last).max()
    }

    fn read(&self, offset: u64, len: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        self.bytes.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    fn read_into(&self, bytes: &mut [u8], offset: u64) -> Option<()> {
        self.bytes.read_exact_at(bytes, offset).ok()
    }

    /// The index it holds turned out to be damaged: headers are read from now on.
    pub fn distrust(&self) {
        self.distrusted.store(true, Ordering::Relaxed);
    }

    /// Reads on in the headers of blocks from where `index` ends; of a finished file that was not begun yet, the index it holds.
    pub fn index(&self, index: &mut Index) {
        let len = self.len();
        if index.end == 0
            && self.note.is_some()
            && !self.distrusted.load(Ordering::Relaxed)
            && let Some(stored) = self.stored_index(len)
        {
            *index = stored;
            return;
        }
        let footer = self.footer(len);
        let end = footer.as_ref().map_or(len, |f| f.0);
        if len < index.end {
            // Cut behind our back: what was known of it is void.
            *index = Index::default();
        }
        index.end = index.end.max(FILE_HEADER as u64);
        index.ours |= self.note.is_some();
        let most = if index.ours || footer.is_some() { usize::MAX } else { self.watermark().unwrap_or(usize::MAX) };
        let mut sorted = true;
        while index.blocks < most && index.end + (BLOCK_HEADER as u64) < end {
            let offset = index.end;
            let header = self.read(offset, BLOCK_HEADER as u32).ok().and_then(|h| BlockHeader::read(&h));
            let next = header.map(|h| offset + BLOCK_HEADER as u64 + u64::from(h.packed)).filter(|next| *next <= end);
            let (Some(header), Some(next)) = (header, next) else {
                // A growing file ends here for now. A finished one is damaged, and says itself where it goes on.
                let Some((first, on)) = footer.as_ref().and_then(|(_, entries)| entries.iter().find(|e| e.1 > offset)) else { break };
                let span = Span::new(index.newest, (*first).max(index.newest));
                index.holes.push(Hole { span, why: format!("damaged at byte {offset}") });
                index.pending.clear();
                index.end = *on;
                continue;
            };
            index.end = next;
            index.blocks += 1;
            sorted = false;
            self.take(index, offset, header, next);
        }
        if index.end < end && !index.torn && !self.path.ends_with(names::CURRENT) {
            index.torn = true;
            let span = Span { start: index.newest, end: index.newest };
            index.holes.push(Hole { span, why: format!("what stands behind byte {} cannot be read", index.end) });
        }
        if !sorted {
            index.groups.sort_by_key(|g| (g.span.start, g.offset));
            index.digests.sort_by_key(|d| (d.block.span.start, Reverse(d.block.span.end), d.block.offset));
        }
    }

    /// How many blocks the file beside the one being written says there are.
    fn watermark(&self) -> Option<usize> {
        let mut path = self.path.clone().into_os_string();
        path.push(".meta");
        fs::read_to_string(path).ok()?.trim().parse().ok().filter(|n| *n > 0)
    }

    fn take(&self, index: &mut Index, offset: u64, header: BlockHeader, next: u64) {
        let (len, sum) = ((next - offset) as u32, crc32c::crc32c(&header.write()));
        if !matches!(header.kind, kind::DIGEST | kind::LENGTHS | kind::INDEX | kind::GROUPS) {
            index.newest = index.newest.max(header.last);
        }
        match header.kind {
            kind::TRANSITIONS | kind::SAMPLES if index.ours => index.pending.push((offset, header)),
            kind::TRANSITIONS | kind::SAMPLES => self.take_foreign(index, Group { offset, len, span: Span::default(), sum }, &header),
            other => {
                if !index.ours {
                    // Only we write such blocks: the block that says so is damaged.
                    *index = Index { ours: true, blocks: index.blocks, end: index.end, newest: index.newest, ..Index::default() };
                    let span = Span::new(self.header.clock.mono, header.first);
                    index.holes.push(Hole { span, why: "the first block of the file is damaged".into() });
                }
                let whole = Group { offset, len, span: own_span(&header), sum };
                let beside = header.count as usize - 1;
                let pending = std::mem::take(&mut index.pending);
                match (other, pending.first()) {
                    (kind::BLOCK, first) if pending.len() == beside => {
                        let offset = first.map_or(offset, |f| f.0);
                        index.groups.push(Group { offset, len: (next - offset) as u32, ..whole });
                        return;
                    }
                    (kind::BLOCK, _) => return index.holes.push(Hole { span: whole.span, why: format!("damaged before byte {offset}") }),
                    (_, Some((at, first))) => {
                        let span = Span::new(first.first, header.first);
                        index.holes.push(Hole { span, why: format!("damaged at byte {at}") });
                    }
                    _ => {}
                }
                match other {
                    kind::NAMES => index.names.push(whole),
                    kind::TIMES => index.times.push(whole),
                    kind::MARKERS => index.markers.push(whole),
                    kind::DIGEST => index.digests.push(Totals { block: whole, ..Totals::default() }),
                    kind::LENGTHS => match index.digests.last_mut() {
                        Some(d) if d.block.offset + u64::from(d.block.len) == offset => d.lengths = len,
                        _ => {}
                    },
                    kind::ACCOUNT => index.account = Some(whole),
                    kind::GAP => {
                        if let Ok(Gap { span, why, .. }) = self.note(whole, notes::read_gap) {
                            index.holes.push(Hole { span, why });
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn take_foreign(&self, index: &mut Index, mut group: Group, header: &BlockHeader) {
        let mut read = || -> Result<Option<Span>, Problem> {
            let bytes = self.read(group.offset, group.len).map_err(|_| Problem::Damaged("it cannot be read"))?;
            let Some(frame) = Frames(&bytes).next() else { return Ok(None) };
            if header.kind == kind::SAMPLES {
                index.pids.extend(read_samples(header, frame.stored())?.pid);
                index.mentions.push(Mention::Samples);
                return Ok(Some(Span::new(header.first - header.period, header.last)));
            }
            let rows = read_transitions(self.header.version, header, frame.stored())?;
            let mentions = foreign::mentions(&rows);
            index.pids.extend(rows.pid);
            let span = mentions.iter().find_map(|m| if let Mention::Transitions(s) = m { Some(*s) } else { None });
            index.mentions.extend(mentions);
            Ok(span)
        };
        match read() {
            Ok(Some(span)) => {
                group.span = span;
                index.groups.push(group);
            }
            Ok(None) => {}
            Err(why) => {
                let span = Span::new(header.first, header.last);
                index.holes.push(Hole { span, why: format!("the block at byte {}: {why}", group.offset) });
            }
        }
    }

    /// A block that holds text.
    pub fn note<T>(&self, group: Group, read: impl Fn(&Framed<'_>) -> Result<T, Problem>) -> Result<T, Problem> {
        let bytes = self.read(group.offset, group.len).map_err(|_| Problem::Damaged("it cannot be read"))?;
        read(&Frames(&bytes).next().ok_or(Problem::Damaged("a block is cut"))?)
    }

    /// A digest as it stands in the file, with the lengths of waits if they are wanted, and what it was made from.
    pub fn digest(&self, totals: &Totals, lengths: bool) -> Result<(Digest, Made), Problem> {
        let more = if lengths { totals.lengths } else { 0 };
        let bytes = self.read(totals.block.offset, totals.block.len + more).map_err(|_| Problem::Damaged("it cannot be read"))?;
        let mut frames = Frames(&bytes);
        read_digest(&frames.next().ok_or(Problem::Damaged("a block is cut"))?, frames.next().as_ref())
    }

    /// A group, its times moved by `ns` and its sessions renamed. Another program's is read whole, whatever is wanted of it.
    pub fn block(
        &self,
        ours: bool,
        group: Group,
        depth: Depth,
        ns: i64,
        session: impl FnMut(SessionId) -> SessionId,
    ) -> Result<Block, Problem> {
        let bytes = self.read(group.offset, group.len).map_err(|_| Problem::Damaged("it cannot be read"))?;
        let frames: Vec<Framed<'_>> = Frames(&bytes).collect();
        let (own, beside) = frames.split_last().ok_or(Problem::Damaged("a block is cut"))?;
        let mut columns = if ours {
            read_columns(self.header.version, depth, own, beside)?
        } else if own.header.kind == kind::SAMPLES {
            whole(foreign::samples(&read_samples(&own.header, own.stored())?, own.header.period))?
        } else {
            whole(foreign::transitions(&read_transitions(self.header.version, &own.header, own.stored())?))?
        };
        columns.translate(ns, session);
        columns.block().ok_or(Problem::Damaged("a block's columns differ in length"))
    }
}

fn whole(block: Option<Block>) -> Result<Columns, Problem> {
    block.map(|b| b.columns()).ok_or(Problem::Damaged("a block holds nothing"))
}
