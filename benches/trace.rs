//! What a recording costs: where its bytes go, how fast it is written, how fast a cold one is read and asked, and how much memory that takes.
//!
//! `make bench-trace`, or `cargo bench --bench trace [TRANSITIONS]`: 10 million invented transitions when not said, whose times are random and so
//! hardly compressible (and no more with `--invented`); then samples of a state that does not change; then, as root and where a PostgreSQL 18 is, pgbench in an exact window.
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
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::store::access::Access;
use pg_wait_tracer::store::dir::{Dir, Options};
use pg_wait_tracer::store::pen::{Pen, Settings};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::{Builder, Intervals};
use pg_wait_tracer::trace::catalog::{BackendKind, News, Session};
use pg_wait_tracer::trace::clock::{Clock, SECOND, Span, Ts, Window};
use pg_wait_tracer::trace::codec::bytes::Writer as Numbers;
use pg_wait_tracer::trace::codec::frame::Frames;
use pg_wait_tracer::trace::codec::kind;
use pg_wait_tracer::trace::codec::records::{is_marker, read_transitions};
use pg_wait_tracer::trace::recent::Batch;
use pg_wait_tracer::trace::record::{Detail, Fidelity, QueryId, Record, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(all(feature = "capture", target_os = "linux"))]
#[path = "../tests/support/mod.rs"]
mod support;

const SESSIONS: u32 = 32;
const BEGIN: u64 = 1_000 * SECOND;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|a| a == "--read") {
        return read(Path::new(&arguments[at + 1]));
    }
    let total: u64 = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(10_000_000);
    let dir = tempfile::tempdir().unwrap();
    println!("{total} invented transitions of {SESSIONS} sessions:");
    invented(dir.path(), total);
    report(dir.path());
    if arguments.iter().any(|a| a == "--invented") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    println!("\n100 sessions for 10 min at 10 Hz, none of which changes its state:");
    unchanged(dir.path());
    report(dir.path());
    #[cfg(all(feature = "capture", target_os = "linux"))]
    for (name, load) in [("pgbench -S -c 8", &["-S", "-n", "-c", "8", "-j", "2"][..]), ("TPC-B -c 16", &["-n", "-c", "16", "-j", "2"])] {
        let dir = tempfile::tempdir().unwrap();
        println!("\n{name}, 20 s in one exact window of PostgreSQL 18, sampled at 10 Hz beside:");
        if real(dir.path(), load) {
            report(dir.path());
        } else {
            println!("  no server to record");
        }
    }
}

/// Sizes here; reading in a process of its own, so that its memory is that of reading.
fn report(dir: &Path) {
    sizes(dir);
    let done = Command::new(std::env::current_exe().unwrap()).arg("--read").arg(dir).status().unwrap();
    assert!(done.success());
}

fn pen(dir: &Path) -> Pen {
    Pen::new(Settings { dir: dir.to_owned(), access: Access::default(), zone: TimeZone::UTC, run: 1 }).unwrap()
}

fn sessions(n: u32) -> Vec<News> {
    let session = |id| Session { pid: 4_000 + id as i32, kind: BackendKind::Client, ..Session::default() };
    (0..n).map(|id| News::Session(SessionId(id), Box::new(session(id)))).collect()
}

fn clock(until: u64) -> Clock {
    Clock { mono: Ts(until), wall_ns: 1_790_000_000 * SECOND as i64 + (until - BEGIN) as i64 }
}

fn invented(dir: &Path, total: u64) {
    let mut pen = pen(dir);
    let mut made = Intervals::default();
    made.begin(Fidelity::Exact);
    let mut news = sessions(SESSIONS);
    let mut at = vec![BEGIN; SESSIONS as usize];
    let (mut seed, mut rows, mut sealed) = (1u64, 0, BEGIN);
    let mut random = move |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % n
    };
    let mut writing = Duration::ZERO;
    while rows < total {
        let until = sealed + SECOND / 2;
        for id in 0..SESSIONS {
            let now = &mut at[id as usize];
            let mut wait = false;
            while *now < until {
                let event = if wait { [0x0600_0000, 0x0a00_0015, 0x0100_0008, 0x0300_0005][random(4) as usize] } else { 0 };
                let length = 20_000 + random(500_000);
                let detail = Detail {
                    cpu_ns: if wait { random(3_000) } else { length - random(9_000) },
                    runq_ns: random(5_000),
                    ..Detail::default()
                };
                made.row(Record {
                    span: Span::new(Ts(*now), Ts(*now + length)),
                    session: SessionId(id),
                    event: WaitEvent(event),
                    query: QueryId(7_777_777_777_777 * (1 + random(8) as i64)),
                    state: State::Active,
                    samples: 0,
                    detail: Some(detail),
                });
                *now += length;
                wait = !wait;
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
    assert_eq!(pen.close().error, None);
    println!("  write  {:.2} million transitions per second", rows as f64 / writing.as_secs_f64() / 1e6);
}

fn unchanged(dir: &Path) {
    let mut pen = pen(dir);
    let mut builder = Builder::default();
    let mut news = sessions(100);
    let mut at = BEGIN;
    for tick in 0..6_000u64 {
        let elapsed = SECOND / 10 + (tick * 7_919) % 40_000;
        at += elapsed;
        builder.tick(Ts(at), elapsed);
        for s in 0..100u32 {
            let event = if s < 10 { 0x0300_0005 } else { 0x0600_0000 };
            builder.sample(SessionId(s), WaitEvent(event), QueryId(i64::from(s % 30) * 987_654_321_987_654), State::Active);
        }
        // Handed over and written as by a recorder.
        if tick % 4 == 3 {
            pen.absorb(Batch {
                block: builder.seal().map(Arc::new),
                news: std::mem::take(&mut news),
                clock: clock(at),
                ..Batch::default()
            });
            pen.flush();
        }
    }
    assert_eq!(pen.close().error, None);
}

#[cfg(all(feature = "capture", target_os = "linux"))]
fn real(dir: &Path, load: &[&str]) -> bool {
    use crossbeam_channel::unbounded;
    use pg_wait_tracer::capture::engine::Engine;
    use pg_wait_tracer::capture::sampler::{Command, Options as Sampling, Sampler};
    use pg_wait_tracer::capture::window::{Kind, Rules};
    use pg_wait_tracer::pg::discover;
    use pg_wait_tracer::pg::memory::Reach;
    use pg_wait_tracer::store::retain::Limits;
    use pg_wait_tracer::store::writer::Writer;
    let Some(server) = support::Server::start("18", &support::Options::new().preload("pg_stat_statements")) else { return false };
    server.pgbench(&["-i", "-q", "-s", "10"]).finish();
    let pgbench = server.pgbench(&[load, &["-T", "60"]].concat());
    let mut options = Sampling::new(discover::choose(Some(server.pid() as i32), None).unwrap(), Some(10), Reach::Auto);
    options.rules = Rules { max_overhead_pct: 1e9, ..Rules::default() };
    let (commands, inbox) = unbounded();
    options.commands = Some(inbox);
    let settings = Settings { dir: dir.to_owned(), access: Access::default(), zone: TimeZone::UTC, run: 1 };
    let writer = Writer::start(settings, Limits::default()).unwrap();
    {
        let (_engine, batches) = Engine::start(move || Sampler::start(options)).unwrap();
        commands.send(Command::Open { kind: Kind::Exact, seconds: Some(20) }.into()).unwrap();
        let end = Instant::now() + Duration::from_secs(22);
        while let Ok(batch) = batches.recv_deadline(end) {
            writer.absorb(&batch);
        }
    }
    let status = writer.stop();
    drop(pgbench);
    assert_eq!((status.error, status.lost_records), (None, 0));
    true
}

/// Where the bytes of a directory are.
#[derive(Default)]
struct Sizes {
    transitions: u64,
    markers: u64,
    samples: u64,
    /// Stored bytes and blocks of each kind.
    kinds: [(u64, u64); 16],
    /// Bytes of blocks of ours behind transitions and behind samples.
    behind: [u64; 2],
    /// What each column of transitions compresses to by itself.
    columns: [u64; 7],
}

impl Sizes {
    fn add(&mut self, file: &[u8]) {
        let mut before = kind::FILE;
        for f in Frames(file.get(28..).unwrap_or_default()) {
            let bytes = f.bytes.len() as u64;
            let slot = &mut self.kinds[usize::from(f.header.kind)];
            *slot = (slot.0 + bytes, slot.1 + 1);
            match f.header.kind {
                kind::TRANSITIONS => self.columns(&f),
                kind::SAMPLES => self.samples += u64::from(f.header.count),
                kind::BLOCK => self.behind[usize::from(before == kind::SAMPLES)] += bytes,
                _ => {}
            }
            before = f.header.kind;
        }
    }

    fn columns(&mut self, f: &pg_wait_tracer::trace::codec::frame::Framed<'_>) {
        let rows = read_transitions(3, &f.header, f.stored()).unwrap();
        let markers = rows.old.iter().filter(|e| is_marker(**e)).count() as u64;
        self.markers += markers;
        self.transitions += rows.old.len() as u64 - markers;
        let ulebs = |values: &mut dyn Iterator<Item = u64>| {
            let mut w = Numbers::default();
            values.for_each(|v| w.uleb(v));
            w.0
        };
        let words = |values: &[u32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let mut last = 0;
        let columns = [
            ulebs(&mut rows.ts.iter().map(|t| t - std::mem::replace(&mut last, *t))),
            words(&rows.pid),
            words(&rows.old),
            words(&rows.new),
            ulebs(&mut rows.duration.iter().copied()),
            rows.query.iter().flat_map(|v| v.to_le_bytes()).collect(),
            ulebs(&mut rows.cpu.iter().copied()),
        ];
        for (sum, column) in self.columns.iter_mut().zip(columns) {
            *sum += lz4_flex::block::compress(&column).len() as u64;
        }
    }
}

fn sizes(dir: &Path) {
    let mut s = Sizes::default();
    let mut total = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        if bytes.starts_with(b"PGWT") {
            total += bytes.len();
            s.add(&bytes);
        }
    }
    let kind = |k: u16| s.kinds[usize::from(k)];
    println!(
        "  size   {total} bytes: {} transitions, {} markers, {} samples; names and accounts {} bytes",
        s.transitions,
        s.markers,
        s.samples,
        kind(kind::NAMES).0 + kind(kind::ACCOUNT).0 + kind(kind::FILE).0
    );
    if s.transitions > 0 {
        let each = |bytes: u64| bytes as f64 / s.transitions as f64;
        let (stored, blocks) = kind(kind::TRANSITIONS);
        println!(
            "         {:.2} bytes per transition: {:.2} in type 0 ({blocks} blocks), {:.2} in ours behind them ({} blocks)",
            each(stored + s.behind[0]),
            each(stored),
            each(s.behind[0]),
            kind(kind::BLOCK).1
        );
        let names = ["time", "process", "event", "next", "length", "query", "on-CPU"];
        let columns: Vec<String> = names.iter().zip(s.columns).map(|(n, bytes)| format!("{n} {:.2}", each(bytes))).collect();
        println!("         type 0 by column, each compressed alone: {}", columns.join(", "));
    }
    if s.samples > 0 {
        let each = |bytes: u64| bytes as f64 / s.samples as f64;
        let (stored, behind) = (kind(kind::SAMPLES).0, s.behind[1]);
        println!("         {:.2} bytes per sample: {:.2} in type 1, {:.2} in ours", each(stored + behind), each(stored), each(behind));
    }
}

/// The most memory this process ever had, MB.
fn peak() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e3
}

fn read(dir: &Path) {
    let began = Instant::now();
    let mut disk = Dir::open(dir, Options::default()).unwrap();
    let extent = disk.extent().unwrap();
    disk.narrow(extent);
    println!("  open   {:.2} ms", began.elapsed().as_secs_f64() * 1e3);
    let began = Instant::now();
    let (mut rows, mut blocks) = (0, 0);
    disk.scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| {
        rows += b.len();
        blocks += 1;
    });
    let took = began.elapsed().as_secs_f64();
    let each = took / rows as f64 * 1e9;
    println!("  scan   {took:.3} s cold, {rows} rows in {blocks} blocks, {each:.0} ns a row; peak {:.0} MB", peak());
    let asks = [
        Ask::TimeModel,
        Ask::Events,
        Ask::Sessions,
        Ask::Queries,
        Ask::QueryEvents,
        Ask::Latency { buckets: 200 },
        Ask::Flow,
        Ask::Active,
        Ask::Load { buckets: 200 },
    ];
    for ask in asks {
        let began = Instant::now();
        answer(&disk, &Question::new(ask, Window::Fixed(extent))).unwrap();
        println!("  ask    {:.3} s {ask:?}", began.elapsed().as_secs_f64());
    }
    println!("  peak   {:.0} MB", peak());
}
