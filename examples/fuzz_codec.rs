//! Damages recordings and reads them by every way in, for some time: `cargo run --example fuzz_codec -- SECONDS [SEED]`, or `make fuzz`.
//!
//! Knows what files look like, so that it gets deep: half of the damage is done inside of blocks whose checksums are set right again. It fails, and
//! says with which seed, on a panic, on a read of more than 2 s, on more memory than the bytes justify, and, where no checksum was set right again, on
//! a block that was never written.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a program for developers")]

use jiff::tz::TimeZone;
use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::store::access::Access;
use pg_wait_tracer::store::dir::{Dir, Options};
use pg_wait_tracer::store::pen::{Pen, Settings};
use pg_wait_tracer::store::recover::recover;
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::{Blind, Block, Builder, Edge, Intervals, Loss, Mark};
use pg_wait_tracer::trace::catalog::{Activity, News, Session};
use pg_wait_tracer::trace::clock::{Clock, SECOND, Span, Ts, Window};
use pg_wait_tracer::trace::codec::body::read_block;
use pg_wait_tracer::trace::codec::digest::read_digest;
use pg_wait_tracer::trace::codec::encoder::Encoder;
use pg_wait_tracer::trace::codec::frame::{Framed, Frames, own_span, write_own};
use pg_wait_tracer::trace::codec::header::{BlockHeader, FILE_HEADER, FileHeader, footer, read_footer};
use pg_wait_tracer::trace::codec::index::{read_index, read_page};
use pg_wait_tracer::trace::codec::records::{read_samples, read_transitions};
use pg_wait_tracer::trace::codec::times::read_times;
use pg_wait_tracer::trace::codec::{foreign, kind, notes};
use pg_wait_tracer::trace::health::Health;
use pg_wait_tracer::trace::recent::Batch;
use pg_wait_tracer::trace::record::{Detail, Fidelity, QueryId, Record, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// The seed being run, and when it began (ms since the start; 0: none runs).
static SEED: AtomicU64 = AtomicU64::new(0);
static BEGAN: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: everything is handed on to the system's allocator as it came; the counters are only that.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: as asked for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as asked for.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

const EVENTS: [u32; 6] = [0, 0x0a00_0015, 0x0300_0005, 0x0100_0008, 0x0600_0000, 0x0500_0003];
const STATES: [State; 4] = [State::Active, State::Idle, State::IdleInTransaction, State::None];
const BASE: u64 = 5_000 * SECOND;

fn sampled(r: &mut Random) -> Option<Block> {
    let mut b = Builder::default();
    let mut at = BASE + r.next() % SECOND;
    for _ in 0..=r.below(30) {
        let elapsed = 1 + r.next() % 20_000_000;
        at += elapsed;
        b.tick(Ts(at), if r.one_in(9) { 0 } else { elapsed });
        for s in 0..r.below(6) as u32 {
            b.sample(SessionId(s), WaitEvent(*r.pick(&EVENTS)), QueryId(r.below(3) as i64), *r.pick(&STATES));
        }
        (0..r.below(2)).for_each(|_| b.unread());
    }
    b.seal()
}

fn intervals(r: &mut Random) -> Vec<Block> {
    let mut made = Intervals::default();
    made.begin(*r.pick(&[Fidelity::Exact, Fidelity::Blocking]));
    let end = BASE + SECOND;
    for s in 0..=(r.below(5) as u32) {
        let mut at = BASE + r.next() % 1_000;
        // Enough for blocks of their own, now and then.
        let most = if r.one_in(4) { 300 } else { 20 };
        for _ in 0..r.below(most) {
            let length = r.next() % [10, 90_000, 9_000_000, 9_000_000_000][r.below(4)];
            let open = r.one_in(20);
            let lead_ns = if r.one_in(15) { r.next() % 99_999 } else { 0 };
            let detail = Detail { cpu_ns: length / 2, runq_ns: r.next() % 900, lead_ns, open };
            made.row(Record {
                span: Span::new(Ts(at), Ts(at + length)),
                session: SessionId(s),
                event: WaitEvent(*r.pick(&EVENTS)),
                query: QueryId(r.below(3) as i64),
                state: *r.pick(&STATES),
                samples: 0,
                detail: Some(detail),
            });
            if r.one_in(5) {
                let edge = *r.pick(&[Edge::Begin, Edge::End]);
                made.mark(Mark { at: Ts(at), session: SessionId(s), query: QueryId(1), edge, inferred: r.one_in(2) });
            }
            at += length;
        }
    }
    made.watched(Span::new(Ts(BASE), Ts(end)));
    if r.one_in(3) {
        made.lost(Loss { span: Span::new(Ts(BASE), Ts(BASE + 9)), session: None, records: 3 });
        made.blind(Blind { session: SessionId(1), span: Span::new(Ts(BASE + 9), Ts(BASE + 99)) });
    }
    made.seal()
}

/// What a block holds but for where it is in time and what its sessions are called.
fn print(block: &Block) -> u64 {
    let mut h = DefaultHasher::new();
    let base = block.span().start.0;
    let rel = |t: Ts| t.0.wrapping_sub(base);
    (block.fidelity() as u8, block.span().len()).hash(&mut h);
    block.ticks().iter().for_each(|t| (rel(t.at), t.weight, t.unread).hash(&mut h));
    for r in block.records() {
        (rel(r.span.start), rel(r.span.end), r.event.0, r.query, r.state as u8, r.samples).hash(&mut h);
        r.detail.map(|d| (d.cpu_ns, d.runq_ns, d.lead_ns, d.open)).hash(&mut h);
    }
    block.watched().iter().for_each(|s| (rel(s.start), rel(s.end)).hash(&mut h));
    block.losses().iter().for_each(|l| (rel(l.span.start), rel(l.span.end), l.records).hash(&mut h));
    block.blind().iter().for_each(|b| (rel(b.span.start), rel(b.span.end)).hash(&mut h));
    block.marks().iter().for_each(|m| (rel(m.at), m.query, m.edge == Edge::End, m.inferred).hash(&mut h));
    h.finish()
}

/// A file as the recorder writes it, over some seconds, with digests and sessions' times; finished, with its index, or growing.
fn recorded(r: &mut Random, written: &mut HashSet<u64>) -> Vec<u8> {
    let dir = room();
    let run = 1_790_000_000 * SECOND;
    let settings = Settings { dir: dir.path().to_owned(), access: Access::default(), zone: TimeZone::UTC, run };
    let mut pen = Pen::new(settings).unwrap();
    let clock = |at: u64| Clock { mono: Ts(at), wall_ns: (run + at) as i64 };
    let session = |id: u32| Session { pid: 4_000 + id as i32, ..Session::default() };
    for n in 0..3 + r.next() % 12 {
        let later = n * SECOND;
        let moved = |b: Block| {
            let mut c = b.columns();
            c.translate(later as i64, |s| s);
            c.block().map(Arc::new)
        };
        let mut news: Vec<News> =
            if n == 0 { (0..6).map(|id| News::Session(SessionId(id), Box::new(session(id)))).collect() } else { Vec::new() };
        let activity = Activity { query_start: (r.next() % 9_000_000) as i64, xact_start: (r.next() % 9) as i64, ..Activity::default() };
        news.push(News::Activity(SessionId(r.below(6) as u32), activity));
        let block = sampled(r).and_then(moved);
        let intervals = if r.one_in(2) { intervals(r).into_iter().filter_map(moved).collect() } else { Vec::new() };
        pen.absorb(Batch { block, intervals, news, clock: clock(BASE + later + SECOND), ..Batch::default() });
        pen.flush();
    }
    if r.one_in(2) {
        pen.close();
    }
    let path = dir.path().join("current.trace");
    let file = fs::read(&path).unwrap();
    // What is read of it unharmed is what was written.
    written.extend(by_codec(&file));
    written.extend(by_dir(dir.path(), Ask::TimeModel));
    file
}

/// A directory in memory, where there is such a place.
fn room() -> tempfile::TempDir {
    tempfile::tempdir_in(if Path::new("/dev/shm").exists() { "/dev/shm".into() } else { std::env::temp_dir() }).unwrap()
}

/// A valid file, and the prints of its blocks.
fn valid(r: &mut Random, written: &mut HashSet<u64>) -> Vec<u8> {
    let clock = Clock { mono: Ts(BASE), wall_ns: 1_790_000_000 * SECOND as i64 };
    let header = FileHeader::new(18, clock);
    let mut out = header.write().to_vec();
    let program = if r.one_in(2) { "fuzz" } else { "pg_wait_tracer" };
    notes::write_file(&mut out, &header, program, 7);
    let session = |id: u32| Session { pid: 4_000 + id as i32, ..Session::default() };
    let news: Vec<News> = (0..6).map(|id| News::Session(SessionId(id), Box::new(session(id)))).collect();
    notes::write_names(&mut out, Ts(BASE), &news);
    let mut encoder = Encoder::default();
    for _ in 0..=r.below(4) {
        let blocks = if r.one_in(2) { sampled(r).into_iter().collect() } else { intervals(r) };
        for block in blocks {
            written.insert(print(&block));
            encoder.block(&block, |s| 4_000 + s.0, &mut out);
        }
        if r.one_in(4) {
            notes::write_gap(&mut out, &notes::Gap { span: Span::new(Ts(BASE), Ts(BASE + 5)), records: 1, why: "a gap".into() });
            notes::write_account(&mut out, &notes::Account { clock, health: Health::default() });
        }
    }
    encoder.finish(&mut out);
    // The end of a window stands in a block that holds nothing else.
    written.insert(print(&Block::default()));
    if r.one_in(2) {
        finish(&mut out);
    }
    out
}

fn finish(file: &mut Vec<u8>) {
    let mut at = FILE_HEADER as u64;
    let mut blocks = Vec::new();
    for f in Frames(&file[FILE_HEADER..]) {
        blocks.push((f.header.first, at));
        at += f.bytes.len() as u64;
    }
    file.truncate(at as usize);
    file.extend(footer(&blocks));
}

/// Changes bytes without a thought of what they are.
fn scramble(r: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let at = r.below(bytes.len());
    let some = 1 + r.below(64);
    let to = (at + some).min(bytes.len());
    match r.below(9) {
        0 => bytes[at] ^= 1 << r.below(8),
        1 => bytes[at] = *r.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..to)),
        4 => {
            let again = bytes[at..to].to_vec();
            bytes.splice(at..at, again);
        }
        5 if !other.is_empty() => {
            let from = r.below(other.len());
            bytes.splice(at..to, other[from..(from + some).min(other.len())].iter().copied());
        }
        6 => bytes[at..to].fill(*r.pick(&[0, 0x80, 0xff])),
        7 => drop(bytes.splice(at..at, [0xff; 9].into_iter().chain([1]))),
        _ => bytes[at] = bytes[at].wrapping_add(r.next() as u8),
    }
}

/// A file in pieces: groups of blocks that belong together.
fn blocks(file: &[u8]) -> Vec<Vec<u8>> {
    Frames(file.get(FILE_HEADER..).unwrap_or_default()).map(|f| f.bytes.to_vec()).collect()
}

/// Puts blocks into another order, drops some, takes some from another file.
fn shuffle(r: &mut Random, file: &mut Vec<u8>, other: &[u8]) {
    let mut all = blocks(file);
    let strange = blocks(other);
    if all.is_empty() || strange.is_empty() {
        return;
    }
    for _ in 0..=r.below(3) {
        let (i, j) = (r.below(all.len()), r.below(all.len()));
        match r.below(4) {
            0 => all.swap(i, j),
            1 => all.insert(i, all[j].clone()),
            2 if all.len() > 1 => drop(all.remove(i)),
            _ => all.insert(i, r.pick(&strange).clone()),
        }
    }
    file.truncate(FILE_HEADER);
    for b in &all {
        file.extend_from_slice(b);
    }
    if r.one_in(2) {
        finish(file);
    }
}

/// Changes what is inside of blocks, and sets every checksum and size right again.
fn deep(r: &mut Random, file: &mut Vec<u8>) {
    let old = file.clone();
    let frames: Vec<Framed<'_>> = Frames(old.get(FILE_HEADER..).unwrap_or_default()).collect();
    file.truncate(FILE_HEADER);
    let chosen = r.below(frames.len());
    let mut beside: Vec<u8> = Vec::new();
    let mut n = 0;
    for (i, f) in frames.iter().enumerate() {
        let Ok(mut content) = f.header.unpack(f.stored()) else { continue };
        let hit = i == chosen || r.one_in(8);
        let mut header = f.header;
        if hit && r.one_in(3) {
            match r.below(5) {
                0 => header.count = (i64::from(header.count) + r.below(5) as i64 - 2).clamp(1, 4096) as u32,
                1 => header.first = Ts(*r.pick(&[0, 1, u64::MAX, BASE, u64::MAX / 2])),
                2 => header.last = Ts(*r.pick(&[0, 1, u64::MAX, BASE, u64::MAX / 2])),
                3 => header.period = *r.pick(&[0, 1, u64::MAX, SECOND]),
                _ => header.kind = r.below(16) as u16,
            }
        }
        let own = f.header.kind > kind::SAMPLES;
        if own {
            content = content.get(4..content.len().saturating_sub(4)).unwrap_or_default().to_vec();
        }
        if hit {
            for _ in 0..=r.below(3) {
                scramble(r, &mut content, &[]);
            }
        }
        if own {
            let span = if hit { own_span(&header) } else { own_span(&f.header) };
            let around = if f.header.kind == kind::BLOCK { (&beside[..], n) } else { (&[][..], 0) };
            let mut out = Vec::new();
            write_own(&mut out, header.kind, header.first, span, around, &content);
            if f.header.kind != kind::BLOCK || n < 4095 {
                file.extend_from_slice(if f.header.kind == kind::BLOCK { &beside } else { &[] });
                file.extend_from_slice(&out);
            }
            if f.header.kind == kind::BLOCK {
                beside.clear();
                n = 0;
            }
        } else {
            let packed = lz4_flex::block::compress(&content);
            let header = BlockHeader { packed: packed.len() as u32, unpacked: content.len() as u32, ..header };
            beside.extend_from_slice(&header.write());
            beside.extend_from_slice(&packed);
            n += 1;
        }
    }
    file.extend_from_slice(&beside);
    if r.one_in(2) {
        finish(file);
    }
}

/// Reads bytes as the codec does. Prints of the blocks found.
fn by_codec(file: &[u8]) -> Vec<u64> {
    let version = FileHeader::read(file).map_or(3, |h| h.version);
    if let Some(last) = file.last_chunk::<4>() {
        let len = (u32::from_le_bytes(*last) as usize).saturating_mul(16).saturating_add(4);
        let _ = read_footer(&file[file.len().saturating_sub(len)..], file.len() as u64);
    }
    let frames: Vec<Framed<'_>> = Frames(file.get(FILE_HEADER..).unwrap_or_default()).collect();
    let mut found = Vec::new();
    for (i, f) in frames.iter().enumerate() {
        let from = (i + 1).saturating_sub(f.header.count as usize);
        if let Ok(block) = read_block(version, f, &frames[from..i]) {
            found.push(print(&block));
        }
        if let Ok(rows) = read_transitions(version, &f.header, f.stored()) {
            let _ = foreign::mentions(&rows);
            let _ = foreign::transitions(&rows);
        }
        if let Ok(rows) = read_samples(&f.header, f.stored()) {
            let _ = foreign::samples(&rows, f.header.period);
        }
        let _ = notes::read_file(f);
        let _ = notes::read_names(f);
        let _ = notes::read_gap(f);
        let _ = notes::read_account(f);
        let _ = read_times(f);
        let _ = read_digest(f, frames.get(i + 1));
        let _ = read_page(f);
        let _ = read_index(f, offset_of(file, f));
    }
    found
}

/// Where a block stands in its file.
fn offset_of(file: &[u8], f: &Framed<'_>) -> u64 {
    (f.bytes.as_ptr() as usize - file.as_ptr() as usize) as u64
}

/// Reads a directory every way there is.
fn by_dir(path: &Path, ask: Ask) -> Vec<u64> {
    let mut found = Vec::new();
    let Ok(mut dir) = Dir::open(path, Options::default()) else { return found };
    let all = Span::new(Ts(0), Ts(u64::MAX));
    dir.narrow(all);
    dir.scan_coverage(all, &mut |b| assert!(b.is_empty() || b.fidelity() != Fidelity::None));
    dir.scan(all, &mut |b| found.push(print(b)));
    dir.scan_back(all, &mut |b| if b.len() > 9_999_999 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
    let _ = dir.holes(all);
    let _ = dir.refresh();
    if let Some(extent) = dir.extent() {
        dir.narrow(extent);
        let _ = answer(&dir, &Question::new(ask, Window::Fixed(extent)));
    }
    found
}

/// What reading may take: sixteen times what is there when decompressed, and something for its own: another program's intervals are cut into rows of
/// 4 s, at most three days of them.
fn justified(file: &[u8]) -> usize {
    let inside = |f: Framed<'_>| (f.header.unpacked as usize).min(f.stored().len() * 255 + 64);
    let unpacked: usize = Frames(file.get(FILE_HEADER..).unwrap_or_default()).map(inside).sum();
    (unpacked + file.len()) * 16 + (32 << 20)
}

const ASKS: [Ask; 8] = [
    Ask::TimeModel,
    Ask::Events,
    Ask::Sessions,
    Ask::Queries,
    Ask::Active,
    Ask::Load { buckets: 9 },
    Ask::Latency { buckets: 9 },
    Ask::Flow,
];

struct Pool {
    files: Vec<Vec<u8>>,
    written: HashSet<u64>,
}

fn pool(seed: u64) -> Pool {
    let mut r = Random(seed);
    let mut pool = Pool { files: Vec::new(), written: HashSet::new() };
    for _ in 0..24 {
        let file = if r.one_in(3) { recorded(&mut r, &mut pool.written) } else { valid(&mut r, &mut pool.written) };
        pool.files.push(file);
    }
    pool
}

/// One execution. The error says what went wrong.
fn run(seed: u64, pool: &Pool, dir: &Path) -> Result<(), String> {
    let mut r = Random(seed);
    let mut file = r.pick(&pool.files).clone();
    let other = r.pick(&pool.files);
    let repaired = r.one_in(2);
    if repaired {
        for _ in 0..=r.below(2) {
            deep(&mut r, &mut file);
        }
    } else if r.one_in(3) {
        shuffle(&mut r, &mut file, other);
    } else {
        for _ in 0..=r.below(4) {
            scramble(&mut r, &mut file, other);
        }
    }
    // Another program's: without our blocks.
    let stripped = r.one_in(8);
    if stripped {
        let theirs: Vec<u8> =
            Frames(file.get(FILE_HEADER..).unwrap_or_default()).filter(|f| f.header.kind <= 1).flat_map(|f| f.bytes.to_vec()).collect();
        file.truncate(FILE_HEADER);
        file.extend(theirs);
    }
    let ours = Frames(file.get(FILE_HEADER..).unwrap_or_default()).any(|f| f.header.kind > kind::SAMPLES);
    let limit = justified(&file);
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let mut found = by_codec(&file);
    if r.one_in(4) {
        let name = *r.pick(&["current.trace", "2026-09-21_14.trace.lz4"]);
        let path = dir.join(name);
        fs::write(&path, &file).map_err(|e| e.to_string())?;
        let ask = *r.pick(&ASKS);
        let seen = by_dir(dir, ask);
        if ours {
            found.extend(seen);
        }
        if name == "current.trace" && r.one_in(3) {
            let _ = recover(dir, Access::default(), &TimeZone::UTC, 1);
            let seen = by_dir(dir, ask);
            if ours {
                found.extend(seen);
            }
        }
        for entry in fs::read_dir(dir).map_err(|e| e.to_string())? {
            fs::remove_file(entry.map_err(|e| e.to_string())?.path()).ok();
        }
    }
    let used = PEAK.load(Relaxed).saturating_sub(before);
    if used > limit {
        return Err(format!("{used} bytes of memory for a file of {} bytes (at most {limit} are justified)", file.len()));
    }
    if !repaired && found.iter().any(|p| !pool.written.contains(p)) {
        return Err("a block that was never written".into());
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize| arguments.get(i).and_then(|a| a.parse::<u64>().ok());
    let (seconds, only) = (number(1).unwrap_or(60), number(2));
    let start = Instant::now();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let began = BEGAN.load(Relaxed);
            if began > 0 && start.elapsed().as_millis() as u64 > began + 2_000 && only.is_none() {
                eprintln!("seed {}: it takes more than 2 s", SEED.load(Relaxed));
                std::process::exit(1);
            }
        }
    });
    std::panic::set_hook(Box::new(|info| eprintln!("seed {}: {info}", SEED.load(Relaxed))));
    let dir = room();
    // A seed names its files, too: the upper part is theirs.
    let first = only.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_nanos() as u64) & !0xFFF);
    let mut files = pool(first >> 12);
    let (mut done, mut findings) = (0u64, 0u64);
    loop {
        let seed = first.wrapping_add(done);
        if done > 0 && seed.trailing_zeros() >= 12 {
            files = pool(seed >> 12);
        }
        SEED.store(seed, Relaxed);
        BEGAN.store(start.elapsed().as_millis() as u64 + 1, Relaxed);
        let result = catch_unwind(AssertUnwindSafe(|| run(seed, &files, dir.path())));
        BEGAN.store(0, Relaxed);
        done += 1;
        match result {
            Ok(Ok(())) => {}
            Ok(Err(why)) => {
                findings += 1;
                eprintln!("seed {seed}: {why}");
            }
            Err(_) => findings += 1,
        }
        if only.is_some() || findings >= 10 || start.elapsed().as_secs() >= seconds {
            break;
        }
    }
    println!("{done} executions in {} s, {findings} findings", start.elapsed().as_secs());
    std::process::exit(i32::from(findings > 0));
}
