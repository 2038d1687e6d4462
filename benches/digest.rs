//! What digests buy and what they cost: a recording of exact transitions and one of samples, what share of them digests are, and how long each question takes
//! and how much memory it needs from a cold directory, with digests and without.
//!
//! `cargo bench --bench digest [TRANSITIONS] [keep DIR]`, 10 million when not said. `keep`: the recording is written into DIR, or read from it when it is there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a program for developers"
)]

use jiff::tz::TimeZone;
use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::answer::Answer;
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::store::access::Access;
use pg_wait_tracer::store::dir::{Dir, Options};
use pg_wait_tracer::store::pen::{Pen, Settings};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::{Block, Builder, Edge, Intervals, Mark};
use pg_wait_tracer::trace::catalog::{BackendKind, Catalog, News, Session};
use pg_wait_tracer::trace::clock::{Clock, SECOND, Span, Ts, Window};
use pg_wait_tracer::trace::codec::frame::Frames;
use pg_wait_tracer::trace::codec::kind;
use pg_wait_tracer::trace::health::Health;
use pg_wait_tracer::trace::recent::Batch;
use pg_wait_tracer::trace::record::{Detail, Fidelity, QueryId, Record, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BEGIN: u64 = 1_000 * SECOND;
const WALL: i64 = 1_790_000_000 * SECOND as i64;

/// A directory read as if it had no digests.
struct Rows(Dir);

impl Trace for Rows {
    fn extent(&self) -> Option<Span> {
        self.0.extent()
    }
    fn catalog(&self) -> &Catalog {
        self.0.catalog()
    }
    fn clock(&self) -> Clock {
        self.0.clock()
    }
    fn health(&self) -> &Health {
        self.0.health()
    }
    fn scan(&self, window: Span, visit: &mut dyn FnMut(&Block)) {
        self.0.scan(window, visit);
    }
    fn scan_back(&self, window: Span, visit: &mut dyn FnMut(&Block) -> ControlFlow<()>) {
        self.0.scan_back(window, visit);
    }
}

fn pen(dir: &Path) -> Pen {
    Pen::new(Settings { dir: dir.to_owned(), access: Access::default(), zone: TimeZone::UTC, run: 1 }).unwrap()
}

fn clock(at: u64) -> Clock {
    Clock { mono: Ts(at), wall_ns: WALL + (at - BEGIN) as i64 }
}

fn news(sessions: u32) -> Vec<News> {
    let session = |id| Session { pid: 4_000 + id as i32, kind: BackendKind::Client, ..Session::default() };
    (0..sessions).map(|id| News::Session(SessionId(id), Box::new(session(id)))).collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % n
    }
}

/// Transitions from which on they are told as four times as long, so that 110 million take more than an hour; and are not read row by row.
const MANY: u64 = 50_000_000;

/// How many times longer than usual waits are: with `slow=40`, 10 million take more than an hour, too, and have digests like those of 110 million.
fn slow(total: u64) -> u64 {
    let told = std::env::args().find_map(|a| a.strip_prefix("slow=")?.parse().ok());
    told.unwrap_or(if total > MANY { 4 } else { 1 })
}

/// 32 sessions without a rest between waits of 20 to 520 µs, in 8 queries; an execution every 64 transitions.
fn exact(dir: &Path, total: u64) -> (u64, Duration) {
    const SESSIONS: u32 = 32;
    let slow = slow(total);
    let mut pen = pen(dir);
    let mut made = Intervals::default();
    made.begin(Fidelity::Exact);
    let mut news = news(SESSIONS);
    let mut at = vec![BEGIN; SESSIONS as usize];
    let mut done = vec![0u64; SESSIONS as usize];
    let (mut random, mut rows, mut sealed, mut writing) = (Random(1), 0, BEGIN, Duration::ZERO);
    while rows < total {
        let until = sealed + SECOND / 4;
        for id in 0..SESSIONS {
            let session = SessionId(id);
            while at[id as usize] < until {
                let n = done[id as usize];
                let query = QueryId(7_777_777_777_777 * (1 + (n / 64 % 8) as i64));
                let event = if n % 2 == 1 { [0x0600_0000, 0x0a00_0015, 0x0100_0008, 0x0300_0005][random.below(4) as usize] } else { 0 };
                let length = (20_000 + random.below(500_000)) * slow;
                let cpu_ns = if event == 0 { length - random.below(9_000) } else { random.below(3_000) };
                let span = Span::new(Ts(at[id as usize]), Ts(at[id as usize] + length));
                if n.is_multiple_of(64) {
                    let mark = |at, edge, query| Mark { at, session, query, edge, inferred: false };
                    made.mark(mark(span.start, Edge::End, QueryId::NONE));
                    made.mark(mark(span.start, Edge::Begin, query));
                }
                let detail = Some(Detail { cpu_ns, runq_ns: random.below(5_000), ..Detail::default() });
                made.row(Record { span, session, event: WaitEvent(event), query, state: State::Active, samples: 0, detail });
                at[id as usize] += length;
                done[id as usize] += 1;
                rows += 1;
            }
        }
        made.watched(Span::new(Ts(sealed), Ts(until)));
        sealed = until;
        let intervals = made.seal().into_iter().map(Arc::new).collect();
        let began = Instant::now();
        pen.absorb(Batch { intervals, news: std::mem::take(&mut news), clock: clock(until), ..Batch::default() });
        pen.flush();
        writing += began.elapsed();
    }
    let began = Instant::now();
    assert_eq!(pen.close().error, None);
    (rows, writing + began.elapsed())
}

/// 100 sessions looked at 100 times a second, each for 100 to 1100 ms in one event.
fn sampled(dir: &Path, seconds: u64) -> (u64, Duration) {
    const SESSIONS: u32 = 100;
    let mut pen = pen(dir);
    let (mut news, mut random, mut writing) = (news(SESSIONS), Random(2), Duration::ZERO);
    let mut doing = vec![(0, 0u32, 0i64); SESSIONS as usize];
    let mut samples = 0;
    for quarter in 1..=seconds * 4 {
        let end = BEGIN + quarter * SECOND / 4;
        let mut b = Builder::default();
        for tick in 1..=25 {
            let at = end - SECOND / 4 + tick * SECOND / 100;
            b.tick(Ts(at), SECOND / 100);
            for id in 0..SESSIONS {
                let d = &mut doing[id as usize];
                if d.0 <= at {
                    let event = [0, 0, 0x0600_0000, 0x0a00_0015, 0x0100_0008, 0x0300_0005][random.below(6) as usize];
                    *d = (at + SECOND / 10 + random.below(SECOND), event, 7_777_777_777_777 * (1 + random.below(20) as i64));
                }
                b.sample(SessionId(id), WaitEvent(d.1), QueryId(d.2), State::Active);
                samples += 1;
            }
        }
        let block = b.seal().map(Arc::new);
        let began = Instant::now();
        pen.absorb(Batch { block, news: std::mem::take(&mut news), clock: clock(end), ..Batch::default() });
        pen.flush();
        writing += began.elapsed();
    }
    assert_eq!(pen.close().error, None);
    (samples, writing)
}

/// Bytes of a recording, and of that its digests.
fn bytes(dir: &Path) -> (u64, u64, u64) {
    let (mut all, mut totals, mut lengths) = (0, 0, 0);
    for entry in fs::read_dir(dir).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        all += bytes.len() as u64;
        for f in Frames(bytes.get(28..).unwrap_or_default()) {
            totals += if f.header.kind == kind::DIGEST { f.bytes.len() as u64 } else { 0 };
            lengths += if f.header.kind == kind::LENGTHS { f.bytes.len() as u64 } else { 0 };
        }
    }
    (all, totals, lengths)
}

/// Kilobytes of memory this process has used at most.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse().ok()).unwrap()
}

fn ask(trace: &impl Trace, kind: Ask, window: Span) -> (Answer, f64) {
    let began = Instant::now();
    let answer = answer(trace, &Question { limit: 20, ..Question::new(kind, Window::Fixed(window)) }).unwrap();
    (answer, began.elapsed().as_secs_f64() * 1e3)
}

const DUMP: [Ask; 4] = [Ask::TimeModel, Ask::Events, Ask::Sessions, Ask::Queries];

/// In a process of its own: opens a directory, asks what a dump asks, tells how long it took and how much memory.
fn dump(dir: &Path, digests: bool, how: &str) {
    let began = Instant::now();
    let mut disk = Dir::open(dir, Options::default()).unwrap();
    let extent = disk.extent().unwrap();
    // The middle half, or an hour in the middle.
    let edge = (extent.len().saturating_sub(3_600 * SECOND) / 2).max(if extent.len() > 3_600 * SECOND { 0 } else { extent.len() / 4 });
    let window = match how {
        "whole" => extent,
        // Whole digests, nothing at the edges.
        "cells" => {
            let cell = |at: Ts| Ts(at.0 / (16 * SECOND) * (16 * SECOND));
            Span::new(cell(extent.start + edge) + 16 * SECOND, cell(extent.end - edge))
        }
        _ => Span::new(extent.start + edge + 123_456_789, extent.end - edge),
    };
    disk.narrow(window);
    let open = began.elapsed().as_secs_f64() * 1e3;
    let times: Vec<f64> = if digests {
        DUMP.iter().map(|a| ask(&disk, *a, window).1).collect()
    } else {
        let rows = Rows(disk);
        DUMP.iter().map(|a| ask(&rows, *a, window).1).collect()
    };
    let each: Vec<String> = DUMP.iter().zip(&times).map(|(a, ms)| format!("{a:?} {ms:.1}")).collect();
    let total = began.elapsed().as_secs_f64() * 1e3;
    println!("{total:9.1} ms, {:4} MB   open {open:.1}, {}", peak() >> 10, each.join(", "));
}

fn again(dir: &Path, how: &str) {
    let me = std::env::current_exe().unwrap();
    assert!(Command::new(me).arg("--dump").arg(how).arg(dir).status().unwrap().success());
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [flag, how, dir] = args.as_slice()
        && flag == "--dump"
    {
        return dump(Path::new(dir), how.contains("digests"), how.rsplit(' ').next().unwrap_or_default());
    }
    let total: u64 = args.iter().find_map(|a| a.parse().ok()).unwrap_or(10_000_000);
    let keep = args.iter().skip_while(|a| *a != "keep").nth(1).map(PathBuf::from);
    let temp = tempfile::tempdir().unwrap();
    let dir = keep.unwrap_or_else(|| temp.path().join("exact"));
    if !dir.exists() {
        let (rows, writing) = exact(&dir, total);
        println!("exact: {rows} transitions, written at {:.2} million per second", rows as f64 / writing.as_secs_f64() / 1e6);
    }
    let told = |what: &str, dir: &Path| {
        let (all, totals, lengths) = bytes(dir);
        let share = |n: u64| n as f64 * 100.0 / all as f64;
        println!("{what}: {} MB, of it digests {:.2} %, their lengths {:.2} %", all >> 20, share(totals), share(lengths));
    };
    told("exact", &dir);
    for how in ["digests whole", "digests middle", "digests cells", "rows whole"].into_iter().take(if total > MANY { 3 } else { 4 }) {
        print!("{how:16}");
        std::io::Write::flush(&mut std::io::stdout()).unwrap();
        again(&dir, how);
    }
    let other = temp.path().join("sampled");
    let (samples, writing) = sampled(&other, 600);
    println!("sampled: {samples} samples, written at {:.2} million per second", samples as f64 / writing.as_secs_f64() / 1e6);
    told("sampled", &other);
    for how in ["digests whole", "digests middle", "rows whole"] {
        print!("{how:16}");
        std::io::Write::flush(&mut std::io::stdout()).unwrap();
        again(&other, how);
    }
}
