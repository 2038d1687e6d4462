//! Recordings on disk, read as one trace: the same answers as from memory, whatever is in the directory.

#![allow(
    clippy::format_push_string,
    clippy::needless_for_each,
    clippy::type_complexity,
    clippy::needless_pass_by_value,
    reason = "one column a line"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::answer::{Answer, Body};
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::capture::script::Script;
use pg_wait_tracer::capture::script::scenario::Scenario;
use pg_wait_tracer::store::dir::{Dir, Options};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::Block;
use pg_wait_tracer::trace::catalog::{News, Session};
use pg_wait_tracer::trace::clock::{Clock, SECOND, Span, Ts, Window};
use pg_wait_tracer::trace::codec::encoder::Encoder;
use pg_wait_tracer::trace::codec::frame::Frames;
use pg_wait_tracer::trace::codec::header::footer;
use pg_wait_tracer::trace::codec::{FileHeader, notes};
use pg_wait_tracer::trace::recent::{Batch, Recent};
use pg_wait_tracer::trace::record::{Fidelity, QueryId, SessionId};
use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use tempfile::TempDir;

#[path = "support/by_hand.rs"]
mod by_hand;

const ASKS: [Ask; 9] = [
    Ask::Load { buckets: 17 },
    Ask::TimeModel,
    Ask::Events,
    Ask::Sessions,
    Ask::Queries,
    Ask::QueryEvents,
    Ask::Active,
    Ask::Latency { buckets: 9 },
    Ask::Flow,
];

/// Trace time and wall time are the same, so that times in memory and on disk are.
fn plain(mut batches: Vec<Batch>) -> Vec<Batch> {
    batches.iter_mut().for_each(|b| b.clock.wall_ns = b.clock.mono.0 as i64);
    batches
}

fn scenario(name: &str) -> Vec<Batch> {
    plain(Script::batches(Scenario::load(Path::new(&format!("tests/scenarios/{name}.toml"))).unwrap()).unwrap())
}

/// The bytes of a file that holds some batches. `known`: names from before.
fn file(batches: &[Batch], known: &[News], run: u64, finished: bool) -> Vec<u8> {
    let clock = batches[0].clock;
    let mut pids = HashMap::new();
    let mut head = |news: &News| {
        if let News::Session(id, s) = news {
            pids.insert(*id, s.pid as u32);
        }
    };
    known.iter().chain(batches.iter().flat_map(|b| &b.news)).for_each(&mut head);
    let header = FileHeader::new(18, clock);
    let mut out = header.write().to_vec();
    notes::write_file(&mut out, &header, "a test", run);
    notes::write_names(&mut out, clock.mono, known);
    let mut encoder = Encoder::default();
    for b in batches {
        let at = b.block.iter().chain(&b.intervals).map(|b| b.span().end).max().unwrap_or(b.clock.mono);
        notes::write_names(&mut out, at, &b.news);
        for block in b.block.iter().chain(&b.intervals) {
            encoder.block(block, |s| pids.get(&s).copied().unwrap_or(0), &mut out);
        }
    }
    encoder.finish(&mut out);
    notes::write_account(&mut out, &notes::Account { clock, health: batches.last().unwrap().health.clone() });
    if finished {
        let mut at = 28;
        let blocks: Vec<(Ts, u64)> = Frames(&out[28..]).map(|f| (f.header.first, (at, at += f.bytes.len() as u64).0)).collect();
        out.extend(footer(&blocks));
    }
    out
}

fn news(batches: &[Batch]) -> Vec<News> {
    batches.iter().flat_map(|b| b.news.clone()).collect()
}

fn recent(batches: &[Batch]) -> Recent {
    let mut recent = Recent::new(usize::MAX);
    batches.iter().cloned().for_each(|b| recent.absorb(b));
    recent
}

fn open(dir: &TempDir) -> Dir {
    Dir::open(dir.path(), Options::default()).unwrap()
}

fn ask(trace: &impl Trace, ask: Ask, window: Span) -> Answer {
    let mut a = answer(trace, &Question { spark: 7, ..Question::new(ask, Window::Fixed(window)) }).unwrap();
    a.clock = Clock::default();
    a
}

fn all(dir: &Dir) -> Vec<Block> {
    let mut out = Vec::new();
    dir.scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| out.push(b.clone()));
    out
}

#[test]
fn every_scenario_has_the_same_answers_from_disk_as_from_memory() {
    for entry in fs::read_dir("tests/scenarios").unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
        let batches = scenario(&name);
        let dir = TempDir::new().unwrap();
        let half = batches.len() / 2;
        if half > 0 {
            fs::write(dir.path().join("2026-03-01_10.trace.lz4"), file(&batches[..half], &[], 1, true)).unwrap();
        }
        let mut rest = batches[half..].to_vec();
        rest[0].clock.mono = batches[half..].iter().flat_map(|b| &b.block).next().map_or(rest[0].clock.mono, |b| b.span().start);
        rest[0].clock.wall_ns = rest[0].clock.mono.0 as i64;
        fs::write(dir.path().join("current.trace"), file(&rest, &news(&batches[..half]), 1, false)).unwrap();
        let memory = recent(&batches);
        let no_cache = Options { cache: 0, ..Options::default() };
        for options in [Options::default(), no_cache].into_iter().take(if batches.len() < 60 { 2 } else { 1 }) {
            let mut disk = Dir::open(dir.path(), options).unwrap();
            assert_eq!(disk.extent(), memory.extent(), "{name}");
            let Some(extent) = memory.extent() else { continue };
            disk.narrow(extent);
            assert_eq!(disk.skipped(), []);
            let third = extent.len() / 3;
            for window in
                [extent, Span::new(extent.start + third, extent.end - third + 12_345), Span::new(extent.start, extent.start + third)]
            {
                for a in ASKS {
                    assert_eq!(ask(&disk, a, window), ask(&memory, a, window), "{name} {a:?} {window:?}");
                }
            }
            assert_eq!(disk.holes(extent), []);
        }
    }
}

#[test]
fn a_growing_file_is_followed_and_a_finished_one_stays_the_same_file() {
    let batches = scenario("mix");
    let (memory, dir) = (recent(&batches), TempDir::new().unwrap());
    let whole = file(&batches, &[], 1, false);
    let current = dir.path().join("current.trace");
    fs::write(&current, &whole[..20]).unwrap();
    let mut disk = open(&dir);
    assert_eq!((disk.extent(), disk.skipped().len()), (None, 0));
    let mut ends = Vec::new();
    for cut in (0..whole.len()).step_by(whole.len() / 40 + 1).chain([whole.len()]) {
        fs::write(&current, &whole[..cut]).unwrap();
        disk.refresh().unwrap();
        ends.extend(disk.extent().map(|e| e.end));
    }
    assert!(ends.is_sorted() && ends.first() < ends.last());
    let extent = disk.extent().unwrap();
    assert_eq!(Some(extent), memory.extent());
    disk.narrow(extent);
    for a in ASKS {
        assert_eq!(ask(&disk, a, extent), ask(&memory, a, extent));
    }
    // Finished between two looks, and renamed.
    fs::write(&current, &whole[..whole.len() / 2]).unwrap();
    let mut disk = open(&dir);
    fs::write(&current, file(&batches, &[], 1, true)).unwrap();
    fs::rename(&current, dir.path().join("2026-03-01_10.trace.lz4")).unwrap();
    disk.refresh().unwrap();
    assert_eq!(ask(&disk, Ask::Events, extent), ask(&memory, Ask::Events, extent));
    fs::remove_file(dir.path().join("2026-03-01_10.trace.lz4")).unwrap();
    disk.refresh().unwrap();
    assert_eq!(disk.extent(), None);
}

#[test]
fn what_is_no_trace_is_passed_over_with_a_reason_and_stays() {
    let batches = scenario("mix");
    let dir = TempDir::new().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    put("2026-03-01_10.trace.lz4", &file(&batches, &[], 1, true));
    put("2026-03-01_11.trace.lz4", b"this is not a trace file, whatever its name says");
    put("2026-03-01_12.trace.lz4", b"PGWT");
    put("2026-03-01_13.trace.lz4", &by_hand::file_header(1));
    put("current.trace.corrupt.1790000000", b"kept aside");
    put("notes.txt", b"");
    let disk = open(&dir);
    let why: Vec<String> = disk.skipped().into_iter().map(|s| s.why).collect();
    assert_eq!(
        why,
        [
            "not a trace file: it does not begin with PGWT",
            "not a trace file: it is shorter than a file header",
            "trace format 1 is not read, only 2 and 3"
        ]
    );
    assert_eq!(disk.extent(), recent(&batches).extent());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6);
    assert!(Dir::open(&dir.path().join("nowhere"), Options::default()).is_err());
}

/// Any byte of any file: an error, fewer blocks and a hole that says so, or nothing wrong at all. Never a block that was not written.
#[test]
fn damage_is_a_hole_and_never_a_wrong_number() {
    let batches = scenario("exact_wins");
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("2026-03-01_10.trace.lz4");
    let good = file(&batches, &[], 1, true);
    fs::write(&path, &good).unwrap();
    let intact = open(&dir);
    let (written, window) = (all(&intact), Span::new(Ts(0), Ts(u64::MAX)));
    assert!(written.len() > 3);
    let names = intact.catalog().sessions.len();
    for i in (0..good.len()).step_by(97).chain(0..120).chain(good.len() - 90..good.len()) {
        let flip = 1 << (i % 8);
        let mut bytes = good.clone();
        bytes[i] ^= flip;
        fs::write(&path, &bytes).unwrap();
        let disk = open(&dir);
        let read = all(&disk);
        let mut left = written.iter();
        assert!(read.iter().all(|b| left.any(|w| w == b)), "byte {i} ^ {flip}: a block that was never written");
        let told = !disk.holes(window).is_empty() || !disk.skipped().is_empty();
        let whole = read.len() == written.len() && disk.catalog().sessions.len() == names;
        // What holds nothing of a question may be damaged without a word: footers, accounts, sizes said twice.
        assert!(whole || told, "byte {i} ^ {flip}: {} of {} blocks and not a word", read.len(), written.len());
    }
    let last_block = good.len() - 5_000;
    for cut in (0..last_block).step_by(211) {
        fs::write(&path, &good[..cut]).unwrap();
        let read = all(&open(&dir));
        let mut left = written.iter();
        assert!(read.len() < written.len() && read.iter().all(|b| left.any(|w| w == b)), "cut at {cut}");
    }
}

#[test]
fn sessions_of_two_runs_and_times_of_two_boots_come_together() {
    let mut batches = scenario("active");
    let started = |b: &mut Batch| {
        for n in &mut b.news {
            if let News::Session(id, s) = n {
                s.started = 1_000 + i64::from(id.0);
            }
        }
    };
    batches.iter_mut().for_each(started);
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("2026-03-01_10.trace.lz4"), file(&batches, &[], 1, true)).unwrap();
    // The next run gives other numbers to the same processes, and the machine has booted anew: its clock is lower.
    let mut again = batches.clone();
    let ago = 40 * SECOND;
    for b in &mut again {
        b.clock = Clock { mono: b.clock.mono - ago, wall_ns: b.clock.wall_ns + 7_200 * SECOND as i64 };
        let translate = |b: &Block| {
            let mut c = b.columns();
            c.translate(-(ago as i64), |s| SessionId(s.0 + 100));
            std::sync::Arc::new(c.block().unwrap())
        };
        b.block = b.block.as_deref().map(translate);
        b.intervals = b.intervals.iter().map(|b| translate(b)).collect();
        for n in &mut b.news {
            match n {
                News::Session(id, _) | News::Activity(id, _) | News::Gone(id) => id.0 += 100,
                _ => {}
            }
        }
    }
    fs::write(dir.path().join("2026-03-01_12.trace.lz4"), file(&again, &[], 2, true)).unwrap();
    let mut disk = open(&dir);
    let memory = recent(&batches);
    let extent = memory.extent().unwrap();
    let later = |s: Span| Span::new(s.start + 7_200 * SECOND, s.end + 7_200 * SECOND);
    assert_eq!(disk.extent(), Some(Span::new(extent.start, later(extent).end)));
    disk.narrow(disk.extent().unwrap());
    let (a, b) = (ask(&disk, Ask::Sessions, extent), ask(&disk, Ask::Sessions, later(extent)));
    assert!(a.db_time_ns > 0);
    assert_eq!((a.db_time_ns, &a.body), (b.db_time_ns, &b.body));
    let both = ask(&disk, Ask::Sessions, disk.extent().unwrap());
    assert_eq!((both.db_time_ns, both.sessions), (2 * a.db_time_ns, a.sessions));
    assert_eq!(both.coverage.gap_ns, 7_200 * SECOND - extent.len() + 2 * a.coverage.gap_ns);
    let mut order = Vec::new();
    disk.scan_back(disk.extent().unwrap(), &mut |b| {
        order.push(b.span().end);
        ControlFlow::Continue(())
    });
    assert!(order.is_sorted_by(|a, b| a >= b) && order.len() == all(&disk).len());
}

/// Ten waits of 100 ms and samples around them, by another program, without a single marker; then a window with markers.
#[test]
fn a_directory_of_another_program_reads_as_its_rules_say() {
    const T: u64 = SECOND;
    let transitions = |file: &mut Vec<u8>, rows: &[by_hand::Ended]| by_hand::transitions(file, 3, rows);
    let samples = by_hand::samples;
    let dir = TempDir::new().unwrap();
    let (io, lock) = (0x0a00_0015, 0x0300_0005);
    let mut file = by_hand::file_header(3);
    transitions(&mut file, &(0..11).map(|i| (2 * T + i * T / 10, 1000, io, T / 10, 100, Some(7))).collect::<Vec<_>>());
    samples(&mut file, T / 10, &(0..31).map(|i| (2 * T + i * T / 10, 1001, lock, 100)).collect::<Vec<_>>());
    fs::write(dir.path().join("2026-09-21_14.trace.lz4"), &file).unwrap();
    fs::write(
        dir.path().join("backends.jsonl"),
        "{\"pid\":1000,\"type\":\"client\",\"user\":\"old\"}\n{\"pid\":1000,\"type\":\"client\",\"user\":\"app\",\"db\":\"shop\"}\n{\"pid\":10",
    )
    .unwrap();
    fs::write(dir.path().join("query_texts.jsonl"), b"{\"q\":\"100\",\"t\":\"select \xff\",\"ts\":1}\n").unwrap();
    fs::write(dir.path().join("wait_event_names.json"), "{\"pg_version\":17,\"Lock\":[\"a\",\"\",\"\",\"\",\"\",\"transactionid\"]}")
        .unwrap();
    let disk = open(&dir);
    let extent = disk.extent().unwrap();
    // The first sample stands for the tenth of a second before it, as the first wait was.
    let wall = 1_790_000_000_000_000_000u64 - T;
    assert_eq!(extent, Span::new(Ts(wall + 2 * T - T / 10), Ts(wall + 5 * T)));
    let events = ask(&disk, Ask::Events, extent);
    let Body::Events { events: rows } = &events.body else { panic!() };
    assert_eq!((rows[0].name.as_str(), rows[1].name.as_str()), ("Lock:transactionid", "IO:0x000015"));
    assert_eq!(events.coverage.fidelity, Fidelity::Mixed);
    // Each session counts by itself: the one whose samples there are had no intervals, and every stretch is exact for all.
    let ns: Vec<u64> = rows.iter().map(|r| r.time_ns).collect();
    assert_eq!(ns, [2 * T, 11 * T / 10], "samples inside the exact stretch do not count");
    let who = disk.catalog().sessions.values().find(|s| s.pid == 1000).unwrap();
    assert_eq!((who.user.show(), who.database.show()), ("app".into(), "shop".into()));
    assert_eq!(disk.catalog().queries[&QueryId(100)].text.as_ref(), "select \u{fffd}");
    assert_eq!(disk.catalog().server.major, 17);

    // Markers say where the window was: a lock of 60 s, samples inside it and behind.
    let dir = TempDir::new().unwrap();
    let mut file = by_hand::file_header(3);
    transitions(
        &mut file,
        &[
            (10 * T, 0, 0xFFFF_FFF4, 0, (60 << 8) | 1, Some(0)),
            (70 * T, 1000, lock, 60 * T, 5, Some(9)),
            (70 * T, 0, 0xFFFF_FFF5, 0, (60 << 8) | 2, Some(0)),
        ],
    );
    let inside = (1..=300u64).map(|i| (10 * T + i * T / 10, 1000, lock, 5));
    let behind = (0..=50u64).map(|i| (75 * T + i * T / 10, 1000, lock, 5));
    samples(&mut file, T / 10, &inside.chain(behind).collect::<Vec<_>>());
    fs::write(dir.path().join("current.trace"), &file).unwrap();
    let disk = open(&dir);
    let model = ask(&disk, Ask::TimeModel, disk.extent().unwrap());
    assert_eq!(model.db_time_ns, 60 * T + 51 * T / 10);
    assert_eq!(
        disk.catalog().sessions.values().next(),
        Some(&Session { pid: 1000, server_pid: 1000, kind: pg_wait_tracer::trace::catalog::BackendKind::Client, ..Session::default() })
    );

    // A command of 2 s that used the CPU, then 3 s without a command.
    let dir = TempDir::new().unwrap();
    let mut file = by_hand::file_header(3);
    transitions(
        &mut file,
        &[
            (10 * T, 1000, 0xFFFF_FFF6, 0, 0, Some(0)),
            (12 * T, 1000, 0, 2 * T, 0, Some(2 * T)),
            (12 * T, 1000, 0xFFFF_FFF7, 0, 0, Some(0)),
            (15 * T, 1000, 0, 3 * T, 0, Some(3 * T)),
        ],
    );
    fs::write(dir.path().join("current.trace"), &file).unwrap();
    let disk = open(&dir);
    let model = ask(&disk, Ask::TimeModel, disk.extent().unwrap());
    assert_eq!((model.db_time_ns, model.coverage.exact_ns), (2 * T, 5 * T));
}

/// A file written when the format was settled, and what it holds. `PGWT_BLESS=1` writes both anew: only for another revision of the format.
#[test]
fn the_golden_file_reads_the_same_forever() {
    let golden = Path::new("tests/golden");
    if std::env::var_os("PGWT_BLESS").is_some() {
        fs::create_dir_all(golden).unwrap();
        let mut batches = scenario("exact_wins");
        batches.truncate(12);
        fs::write(golden.join("2026-03-01_10.trace.lz4"), file(&batches, &[], 1, true)).unwrap();
    }
    let disk = Dir::open(golden, Options::default()).unwrap();
    let mut told = String::new();
    disk.scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| {
        told += &format!("{:?} {:?} ticks {:?}\n", b.fidelity(), b.span(), b.ticks());
        told += &format!("watched {:?} losses {:?} blind {:?} marks {:?}\n", b.watched(), b.losses(), b.blind(), b.marks());
        b.records().for_each(|r| told += &format!("{r:?}\n"));
    });
    let mut sessions: Vec<_> = disk.catalog().sessions.iter().collect();
    sessions.sort_by_key(|s| s.0);
    sessions.iter().for_each(|(id, s)| told += &format!("{id:?} {} {} {}\n", s.pid, s.kind.name(), s.application));
    let path = golden.join("2026-03-01_10.txt");
    if std::env::var_os("PGWT_BLESS").is_some() {
        fs::write(&path, &told).unwrap();
    }
    assert!(told.lines().count() > 10);
    assert_eq!(told, fs::read_to_string(path).unwrap());
}
