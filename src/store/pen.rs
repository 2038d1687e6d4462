//! Writes a recording into a directory: what came since the last flush as one piece, so that a crash leaves whole groups. One thread, no clock of its own.
//!
//! A file is begun with the first record, holds one local hour and explains itself: names are written before what they name, once per file.
//! An error loses what was to be written then and nothing else: it is in [`Status`], recording goes on with the next flush that works, and the gap is written down.

use super::access::{Access, sync};
use super::lock::Lock;
use super::names as paths;
use super::recover::{self, Found, finish, hour, which_hour};
use crate::trace::block::Block;
use crate::trace::catalog::{Catalog, News};
use crate::trace::clock::{Clock, SECOND, Span, Ts};
use crate::trace::codec::digest::write_digest;
use crate::trace::codec::encoder::Encoder;
use crate::trace::codec::frame::{Frames, own_span};
use crate::trace::codec::header::{BlockHeader, FILE_HEADER, footer};
use crate::trace::codec::notes::{self, Account, Gap};
use crate::trace::codec::times::write_times;
use crate::trace::codec::{FileHeader, kind};
use crate::trace::health::{Health, Link};
use crate::trace::marker::{Kind as MarkerKind, Marker};
use crate::trace::recent::Batch;
use crate::trace::record::Fidelity;
use anyhow::{Context, Result};
use jiff::tz::TimeZone;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

mod beside;
mod digester;
mod kept;
mod names;
mod times;

/// Where and how to record.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory. Made if it is not there.
    pub dir: PathBuf,
    /// Who may read it.
    pub access: Access,
    /// What hours are called after.
    pub zone: TimeZone,
    /// When this run began, Unix nanoseconds: no two runs have the same.
    pub run: u64,
}

/// How recording is doing. Counters only ever grow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// One line: why nothing is being written now, and to what. `None`: all is well.
    pub error: Option<String>,
    /// Errors so far.
    pub errors: u64,
    /// Records that were lost by them, or because the writer did not keep up.
    pub lost_records: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Records written.
    pub records: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Files finished.
    pub files: u64,
    /// Newest instant on disk.
    pub newest: Ts,
    /// One line: what a recorder before this one had left, and what was made of it.
    pub recovered: Option<String>,
}

/// The file being written.
#[derive(Debug)]
struct Page {
    file: File,
    path: PathBuf,
    hour: (String, i32),
    clock: Clock,
    major: u16,
    end: u64,
    blocks: Vec<(Ts, u64)>,
    encoder: Encoder,
    known: names::Known,
    told: times::Told,
    accounted: Ts,
    /// How windows stood in the account written last.
    stood: (bool, u64),
}

/// What is written in one piece.
#[derive(Debug, Default)]
struct Waiting {
    sampled: Vec<Arc<Block>>,
    intervals: Vec<Arc<Block>>,
    markers: Vec<Marker>,
    rows: usize,
}

/// Blocks in a file at which another one is begun.
const MOST_BLOCKS: usize = 1 << 20;
/// A wall clock that moved by more against the trace clock: another file begins, so that each has its own.
const STEP: u64 = 2 * SECOND;
/// How often the recorder's account is written.
const ACCOUNT: u64 = 10 * SECOND;
/// The same while an exact or blocking window is open.
const ACCOUNT_OPEN: u64 = SECOND;
/// Markers kept while nothing can be written.
const MOST_MARKERS: usize = 1_000;
/// Rows of intervals in one block.
const ROWS: usize = 16 << 10;

/// Writes one directory.
#[derive(Debug)]
pub struct Pen {
    settings: Settings,
    page: Option<Page>,
    waiting: Waiting,
    catalog: Catalog,
    fresh: names::Fresh,
    moved: times::Moved,
    beside: beside::Beside,
    digester: digester::Digester,
    clock: Clock,
    health: Health,
    gap: Option<Gap>,
    /// The opening of the window that is open, so that each file says why.
    window: Option<Marker>,
    kept: kept::Kept,
    status: Status,
    _lock: Lock,
}

impl Pen {
    /// Takes the directory, and finishes what a recorder before this one left in it.
    pub fn new(settings: Settings) -> Result<Self> {
        let dir = settings.dir.display();
        settings.access.directory(&settings.dir).with_context(|| format!("cannot record into {dir}: it cannot be made"))?;
        let lock = Lock::take(&settings.dir, settings.access)?;
        let recovered = recover_now(&settings).with_context(|| format!("cannot record into {dir}: what is there cannot be finished"))?;
        Ok(Self {
            beside: beside::Beside::new(&settings.dir, settings.access),
            settings,
            page: None,
            waiting: Waiting::default(),
            catalog: Catalog::default(),
            fresh: names::Fresh::default(),
            moved: times::Moved::default(),
            digester: digester::Digester::default(),
            clock: Clock::default(),
            health: Health::default(),
            gap: None,
            window: None,
            kept: kept::Kept::default(),
            status: Status { recovered, ..Status::default() },
            _lock: lock,
        })
    }

    /// Takes in what capture handed over. Nothing is written yet.
    pub fn absorb(&mut self, batch: Batch) {
        let major = self.catalog.server.major;
        if batch.news.iter().any(|n| matches!(n, News::Server(s) if s.major != major)) {
            // What waits is of the version before.
            self.flush();
        }
        for news in batch.news {
            self.fresh.note(&news);
            self.moved.note(&news);
            self.beside.note(&news);
            self.catalog.learn(news);
        }
        self.clock = batch.clock;
        self.health = batch.health;
        self.waiting.markers.extend(batch.markers);
        self.keep(batch.learned);
        for block in batch.block.into_iter().chain(batch.intervals) {
            self.waiting.rows += block.len();
            if block.fidelity() == Fidelity::Sampled { &mut self.waiting.sampled } else { &mut self.waiting.intervals }.push(block);
        }
    }

    /// Records were lost before they came here.
    pub fn lost(&mut self, gap: Gap) {
        self.status.lost_records += gap.records;
        self.gap = Some(match self.gap.take() {
            None => gap,
            Some(before) => Gap { span: join(before.span, gap.span), records: before.records + gap.records, why: before.why },
        });
    }

    /// Rows that wait to be written.
    pub fn rows(&self) -> usize {
        self.waiting.rows
    }

    /// Whether anything waits to be written.
    pub fn is_empty(&self) -> bool {
        self.waiting.sampled.is_empty() && self.waiting.intervals.is_empty() && self.waiting.markers.is_empty()
    }

    /// How recording is doing.
    pub fn status(&self) -> &Status {
        &self.status
    }

    fn account_every(&self) -> u64 {
        if self.health.window.as_ref().is_some_and(|w| w.open) { ACCOUNT_OPEN } else { ACCOUNT }
    }

    /// Whether there is anything to write: what waits, or, while there is nothing to record, that the recorder is there and how it stands.
    pub fn has_work(&self) -> bool {
        !self.is_empty() || self.page.as_ref().is_some_and(|p| self.clock.mono.since(p.accounted) >= ACCOUNT)
    }

    /// Writes everything that waits. An error is in the status afterwards, and what waited is lost.
    pub fn flush(&mut self) {
        if self.is_empty() {
            if self.has_work()
                && let Err(e) = self.account()
            {
                self.failed("the recorder's account was not written", &e);
            }
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let blocks = || waiting.sampled.iter().chain(&waiting.intervals);
        let moments = waiting.markers.iter().map(|m| Span { start: m.at, end: m.at });
        // A fire may be told seconds after it was: a file begins with its records, where there are any.
        let span = blocks().map(|b| b.span()).reduce(join).or_else(|| moments.reduce(join)).unwrap_or_default();
        match self.try_flush(&waiting, span) {
            Ok(()) => {
                if let Some(last) = waiting.markers.iter().rfind(|m| matches!(m.kind, MarkerKind::Opened | MarkerKind::Closed)) {
                    self.window = (last.kind == MarkerKind::Opened).then(|| last.clone());
                }
                self.status.error = None;
                self.status.newest = self.status.newest.max(span.end);
                self.status.records += waiting.rows as u64;
            }
            Err(e) => {
                let why = self.failed("records were not written", &e);
                // They are few, and say why there are windows: once more.
                self.waiting.markers = waiting.markers;
                let over = self.waiting.markers.len().saturating_sub(MOST_MARKERS);
                self.waiting.markers.drain(..over);
                self.lost(Gap { span, records: waiting.rows as u64, why });
            }
        }
    }

    /// Writes only how the recorder stands: the server is away.
    fn account(&mut self) -> io::Result<()> {
        let Some(page) = &mut self.page else { return Ok(()) };
        page.accounted = self.clock.mono;
        let mut out = Vec::new();
        notes::write_account(&mut out, &Account { clock: self.clock, health: self.health.clone() });
        append(page, &out, &mut self.status, |_, _| {}).inspect_err(|_| {
            page.file.set_len(page.end).ok();
        })
    }

    /// Tells an error once in the status and gives it back as one line.
    fn failed(&mut self, what: &str, e: &io::Error) -> String {
        let why = format!("{what} to {}: {e}", self.settings.dir.display());
        self.status.errors += 1;
        self.status.error = Some(why.clone());
        why
    }

    fn try_flush(&mut self, waiting: &Waiting, span: Span) -> io::Result<()> {
        let now = self.clock.wall(span.start);
        if let Some(page) = &self.page {
            let gone = page.file.metadata().map_or(true, |m| m.nlink() == 0);
            let stepped = self.clock.wall(span.start).abs_diff(page.clock.wall(span.start)) > STEP;
            let other = page.major != self.catalog.server.major || page.blocks.len() >= MOST_BLOCKS;
            if gone {
                // Somebody removed the file; its records went with it.
                self.page = None;
            } else if stepped || other || page.hour != which_hour(now, &self.settings.zone) {
                self.finish_page(true)?;
            }
        }
        let mut out = Vec::new();
        let begins = self.page.is_none();
        let mut page = match self.page.take() {
            Some(page) => page,
            None => self.begin(span, now, &mut out)?,
        };
        let written = self.write(&mut page, waiting, span, out);
        match &written {
            Err(_) if begins => {
                // A file that holds nothing is no file.
                std::fs::remove_file(&page.path).ok();
            }
            Err(_) => self.page = page.file.set_len(page.end).is_ok().then_some(page),
            Ok(()) => self.page = Some(page),
        }
        written
    }

    /// Begins a file.
    fn begin(&mut self, span: Span, now: i64, out: &mut Vec<u8>) -> io::Result<Page> {
        let path = self.settings.dir.join(paths::CURRENT);
        let access = self.settings.access;
        let create = || access.open(&path, OpenOptions::new().read(true).write(true).create_new(true));
        let file = match create() {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                self.status.recovered = recover_now(&self.settings)?;
                create()?
            }
            other => other?,
        };
        let clock = Clock { mono: span.start, wall_ns: now };
        let major = self.catalog.server.major;
        let header = FileHeader::new(major, clock);
        out.extend_from_slice(&header.write());
        notes::write_file(out, &header, concat!("pg_wait_tracer ", env!("CARGO_PKG_VERSION")), self.settings.run);
        Ok(Page {
            file,
            path,
            hour: which_hour(now, &self.settings.zone),
            clock,
            major,
            end: 0,
            blocks: Vec::new(),
            encoder: Encoder::within(self.window.clone()),
            known: names::Known::default(),
            told: times::Told::default(),
            accounted: Ts(0),
            stood: (false, 0),
        })
    }

    fn write(&mut self, page: &mut Page, waiting: &Waiting, span: Span, mut out: Vec<u8>) -> io::Result<()> {
        let news = page.known.news(&self.catalog, &mut self.fresh, waiting.sampled.iter().chain(&waiting.intervals), span.end);
        notes::write_names(&mut out, span.start, &news);
        if let Some(gap) = &self.gap {
            notes::write_gap(&mut out, gap);
        }
        for (digest, made) in self.digester.take(false) {
            write_digest(&mut out, &digest, made);
        }
        let pid = |id| self.catalog.sessions.get(&id).map_or(0, |s| s.pid as u32);
        let mut merged: Vec<Block> = Vec::new();
        if !waiting.sampled.is_empty() {
            merged.push(Block::merge(waiting.sampled.iter().map(AsRef::as_ref)));
        }
        let mut from = 0;
        while let Some(first) = waiting.intervals.get(from) {
            let mut rows = 0;
            let alike = waiting.intervals.iter().skip(from).take_while(|b| {
                rows += b.len();
                b.fidelity() == first.fidelity() && (rows <= ROWS || rows == b.len())
            });
            let n = alike.count();
            let parts = waiting.intervals.iter().skip(from).take(n);
            merged.push(Block::merge(parts.map(AsRef::as_ref)));
            from += n;
        }
        page.encoder.learn(&waiting.markers);
        for block in &merged {
            page.encoder.block(block, pid, &mut out);
        }
        // As of the newest tick: the account was read right behind it.
        let seen = waiting.sampled.iter().map(|b| b.span()).reduce(join).unwrap_or(span);
        if let Some(accounts) = page.told.accounts(&self.catalog, &mut self.moved, seen, ended(&self.health)) {
            write_times(&mut out, &accounts);
        }
        page.encoder.close_window(&mut out);
        notes::write_markers(&mut out, &waiting.markers);
        let stands = stands(&self.health);
        if page.accounted == Ts(0) || span.end.since(page.accounted) >= self.account_every() || stands != page.stood {
            (page.accounted, page.stood) = (span.end, stands);
            notes::write_account(&mut out, &Account { clock: self.clock, health: self.health.clone() });
        }
        let mut merged = merged.into_iter();
        if let Err(e) = append(page, &out, &mut self.status, |header, sum| self.digester.wrote(own_span(header), sum, merged.next())) {
            // Names of this piece are not in the file: all that are needed are written again.
            (page.known, page.told) = Default::default();
            return Err(e);
        }
        self.gap = None;
        // Only for other programs' readers: a record that is on disk is not lost because this is not.
        let meta = paths::meta(&self.settings.dir);
        self.settings.access.replace(&meta, page.blocks.len().to_string().as_bytes()).ok();
        self.beside.write(&self.catalog);
        names::forget(&mut self.catalog, &mut self.fresh, span.start);
        Ok(())
    }

    /// Ends the file: footer, fsync; and, unless the run ends, gives it the name of its hour.
    fn finish_page(&mut self, rename: bool) -> io::Result<()> {
        let Some(mut page) = self.page.take() else { return Ok(()) };
        let mut out = Vec::new();
        page.encoder.finish(&mut out);
        if self.clock != Clock::default() {
            notes::write_account(&mut out, &Account { clock: self.clock, health: self.health.clone() });
        }
        append(&mut page, &out, &mut self.status, |header, sum| self.digester.wrote(own_span(header), sum, None))?;
        let upgraded = page.major != self.catalog.server.major;
        if !rename || upgraded {
            // The recording, or the server's version, ends: nothing comes late any more. Numbers of events are of one version in each file.
            let mut out = Vec::new();
            for (digest, made) in self.digester.take(true) {
                write_digest(&mut out, &digest, made);
            }
            append(&mut page, &out, &mut self.status, |_, _| {})?;
            self.digester = digester::Digester::default();
        }
        if let Ok(file) = super::file::File::open(&page.path)
            && file.len() == page.end
        {
            append(&mut page, &file.index_blocks(), &mut self.status, |_, _| {})?;
        }
        page.file.write_all_at(&footer(&page.blocks), page.end)?;
        page.file.sync_all()?;
        self.status.files += 1;
        if rename {
            finish(&self.settings.dir, &page.path, &hour(page.clock.wall_ns, &self.settings.zone))?;
            std::fs::remove_file(paths::meta(&self.settings.dir)).ok();
        }
        sync(&self.settings.dir)
    }

    /// Ends the file and begins another with the next record.
    pub fn rotate(&mut self) {
        self.flush();
        if let Err(e) = self.finish_page(true) {
            self.failed("a file was not finished", &e);
        }
    }

    /// Ends the recording. The file keeps its name; the next recorder gives it another.
    pub fn close(mut self) -> Status {
        self.flush();
        self.keep_now();
        if let Err(e) = self.finish_page(false) {
            self.failed("the last file was not finished", &e);
        }
        self.status
    }
}

fn recover_now(settings: &Settings) -> io::Result<Option<String>> {
    let found = recover::recover(&settings.dir, settings.access, &settings.zone, settings.run / SECOND)?;
    Ok(match found {
        Found::Nothing => None,
        Found::Finished { path, cut: 0 } => Some(format!("finished {}", path.display())),
        Found::Finished { path, cut } => Some(format!("finished {}: {cut} bytes of a torn end were cut off", path.display())),
        Found::Aside(path) => Some(format!("current.trace was no trace and is kept as {}", path.display())),
    })
}

/// Adds whole blocks (behind the file header, in the first piece) to a file. `wrote` is told the last header of each group and its CRC32C.
fn append(page: &mut Page, bytes: &[u8], status: &mut Status, mut wrote: impl FnMut(&BlockHeader, u32)) -> io::Result<()> {
    page.file.write_all_at(bytes, page.end)?;
    let head = if page.end == 0 { FILE_HEADER } else { 0 };
    let mut at = page.end + head as u64;
    for f in Frames(bytes.get(head..).unwrap_or_default()) {
        page.blocks.push((f.header.first, at));
        at += f.bytes.len() as u64;
        status.blocks += 1;
        if f.header.kind == kind::BLOCK {
            wrote(&f.header, crc32c::crc32c(&f.header.write()));
        }
    }
    page.end += bytes.len() as u64;
    status.bytes += bytes.len() as u64;
    Ok(())
}

/// Whether a window is open, and how many were and were denied: when that changes the account is written at once.
fn stands(health: &Health) -> (bool, u64) {
    let open = health.window.as_ref().is_some_and(|w| w.open);
    (open, health.escalation.as_ref().map_or(0, |e| e.windows + e.denied + e.fires))
}

fn ended(health: &Health) -> bool {
    matches!(health.link, Link::Ended { .. })
}

fn join(a: Span, b: Span) -> Span {
    Span { start: a.start.min(b.start), end: a.end.max(b.end) }
}
