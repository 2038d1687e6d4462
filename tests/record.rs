//! Recording into a directory: what was captured is on disk, whatever happens to the disk, the clock or the recorder.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

#[path = "record/past.rs"]
mod past;

use jiff::tz::{Offset, TimeZone};
use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::answer::Answer;
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::capture::script::Script;
use pg_wait_tracer::capture::script::scenario::Scenario;
use pg_wait_tracer::store::access::Access;
use pg_wait_tracer::store::dir::{Dir, Options};
use pg_wait_tracer::store::pen::{Pen, Settings};
use pg_wait_tracer::store::recover::{Found, recover};
use pg_wait_tracer::store::retain::Limits;
use pg_wait_tracer::store::writer::Writer;
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::{Block, Builder};
use pg_wait_tracer::trace::catalog::{News, Session};
use pg_wait_tracer::trace::clock::{Clock, MILLI, SECOND, Span, Ts, Window};
use pg_wait_tracer::trace::health::{Health, Link};
use pg_wait_tracer::trace::recent::{Batch, Recent};
use pg_wait_tracer::trace::record::{QueryId, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const ALL: Span = Span { start: Ts(0), end: Ts(u64::MAX) };

fn settings(dir: &Path) -> Settings {
    Settings { dir: dir.to_owned(), access: Access::default(), zone: TimeZone::UTC, run: 1_790_000_000_000_000_000 }
}

/// Trace time and wall time are the same, so that times in memory and on disk are.
fn scenario(name: &str) -> Vec<Batch> {
    let mut batches = Script::batches(Scenario::load(Path::new(&format!("tests/scenarios/{name}.toml"))).unwrap()).unwrap();
    for b in &mut batches {
        b.clock.wall_ns = b.clock.mono.0 as i64;
    }
    batches
}

fn record(pen: &mut Pen, batches: &[Batch]) {
    for two in batches.chunks(2) {
        two.iter().cloned().for_each(|b| pen.absorb(b));
        pen.flush();
    }
}

fn open(dir: &Path) -> Dir {
    let mut dir = Dir::open(dir, Options::default()).unwrap();
    dir.narrow(dir.extent().unwrap_or_default());
    dir
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn traces(dir: &Path) -> Vec<String> {
    names(dir).into_iter().filter(|n| n.contains(".trace")).collect()
}

fn ask(trace: &impl Trace, ask: Ask, window: Span) -> Answer {
    let mut a = answer(trace, &Question { spark: 5, ..Question::new(ask, Window::Fixed(window)) }).unwrap();
    // The account is written now and then only.
    (a.clock, a.health) = (Clock::default(), Health::default());
    a
}

fn rows(dir: &Dir) -> u64 {
    let mut n = 0;
    dir.scan(ALL, &mut |b: &Block| n += b.records().map(|r| u64::from(r.samples)).sum::<u64>());
    n
}

/// A quarter of a second in which some sessions did something, ending at `at`.
fn quarter(at: u64, wall: i64, sessions: u32, changing: bool) -> Batch {
    let mut b = Builder::default();
    for i in 1..=25 {
        b.tick(Ts(at - 250 * MILLI + i * 10 * MILLI), 10 * MILLI);
        for s in 0..sessions {
            let query = if changing { ((i as i64) << 32) | (i64::from(s) * 77_777) } else { i64::from(s) };
            b.sample(SessionId(s), WaitEvent(0x0300_0005), QueryId(query), State::Active);
        }
    }
    let news = |s| News::Session(SessionId(s), Box::new(Session { pid: 100 + s as i32, started: 5, ..Session::default() }));
    Batch {
        block: b.seal().map(Arc::new),
        news: (0..sessions).map(news).collect(),
        clock: Clock { mono: Ts(at), wall_ns: wall },
        ..Batch::default()
    }
}

#[test]
fn a_recording_over_two_hours_has_the_same_answers_as_memory() {
    for name in ["mix", "exact_wins", "exact_flow", "come_and_go", "parallel", "queries"] {
        let batches = scenario(name);
        let mut memory = Recent::new(usize::MAX);
        batches.iter().cloned().for_each(|b| memory.absorb(b));
        let extent = memory.extent().unwrap();
        // A place on earth where the hour ends in the middle of it.
        let middle = (u64::midpoint(extent.start.0, extent.end.0) / SECOND) as i32;
        let zone = TimeZone::fixed(Offset::from_seconds(3_600 - middle % 3_600).unwrap());
        let dir = TempDir::new().unwrap();
        let mut pen = Pen::new(Settings { zone, ..settings(dir.path()) }).unwrap();
        record(&mut pen, &batches);
        let growing = open(dir.path());
        let status = pen.close();
        assert_eq!((status.error, status.lost_records), (None, 0), "{name}");
        assert!(traces(dir.path()).len() == 3 || name == "exact_flow", "{name}: {:?}", traces(dir.path()));
        let finished = open(dir.path());
        for disk in [&growing, &finished] {
            assert_eq!((disk.extent(), disk.holes(extent), disk.skipped()), (Some(extent), vec![], vec![]), "{name}");
            for a in [Ask::TimeModel, Ask::Events, Ask::Sessions, Ask::Queries, Ask::Active, Ask::Latency { buckets: 4 }, Ask::Flow] {
                let (mut got, want) = (ask(disk, a, extent), ask(&memory, a, extent));
                // What a session does now is written at most every ten seconds.
                if a == Ask::Active || a == Ask::Sessions {
                    (got.body, got.sessions) = (want.body.clone(), want.sessions);
                }
                assert_eq!(got, want, "{name} {a:?}");
            }
        }
    }
}

#[test]
fn everything_in_the_directory_is_readable_by_the_group_and_nobody_else() {
    let top = TempDir::new().unwrap();
    let dir = top.path().join("new/traces");
    let mut pen = Pen::new(settings(&dir)).unwrap();
    record(&mut pen, &scenario("queries"));
    pen.rotate();
    record(&mut pen, &[quarter(2_000_000 * SECOND, 2_000_000 * SECOND as i64, 3, false)]);
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&dir), 0o750);
    let all = names(&dir);
    assert_eq!(all.len(), 7, "{all:?}");
    for name in all {
        assert_eq!(mode(&dir.join(&name)), 0o640, "{name}");
    }
}

#[test]
fn a_record_is_on_disk_within_a_second() {
    let dir = TempDir::new().unwrap();
    let writer = Writer::start(settings(dir.path()), Limits::default()).unwrap();
    let began = Instant::now();
    let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    for i in 1..=8u64 {
        let at = 1_000 * SECOND + i * 250 * MILLI;
        let sent = Instant::now();
        writer.absorb(&quarter(at, wall(), 3, false));
        assert!(sent.elapsed() < Duration::from_millis(50));
        if i % 4 == 0 {
            while writer.status().newest < Ts(at) {
                assert!(sent.elapsed() < Duration::from_millis(740), "not on disk yet");
                std::thread::sleep(Duration::from_millis(5));
            }
            // What the status says is on disk can be read.
            assert_eq!(rows(&open(dir.path())), i * 75);
        }
        std::thread::sleep(Duration::from_millis(30));
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    let status = writer.stop();
    assert_eq!((status.error, status.lost_records, status.files), (None, 0, 1));
}

#[test]
fn a_storm_is_counted_and_never_waited_for() {
    let dir = TempDir::new().unwrap();
    let writer = Writer::start(settings(dir.path()), Limits::default()).unwrap();
    let mut slowest = Duration::ZERO;
    let mut total = 0;
    for i in 1..=600u64 {
        let at = 1_000 * SECOND + i * 250 * MILLI;
        let batch = quarter(at, 1_790_000_000 * SECOND as i64 + (at - 1_000 * SECOND) as i64, 40, true);
        total += batch.block.as_ref().unwrap().len() as u64;
        let sent = Instant::now();
        writer.absorb(&batch);
        slowest = slowest.max(sent.elapsed());
    }
    let status = writer.stop();
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    assert_eq!(status.records + status.lost_records, total);
    let disk = open(dir.path());
    assert_eq!(rows(&disk), status.records);
    assert_eq!(disk.catalog().sessions.len(), 40);
}

/// A recorder that is killed leaves what it had written, torn anywhere.
#[test]
fn while_there_is_nothing_to_record_the_recorder_says_how_it_stands() {
    let dir = TempDir::new().unwrap();
    let mut pen = Pen::new(settings(dir.path())).unwrap();
    let first = quarter(1_000 * SECOND, 1_000 * SECOND as i64, 3, false);
    let away = |seconds: u64| {
        let clock = Clock { mono: Ts(first.clock.mono.0 + seconds * SECOND), wall_ns: first.clock.wall_ns + (seconds * SECOND) as i64 };
        let health = Health { link: Link::Waiting { why: "the server stopped".into() }, ..Health::default() };
        Batch { clock, health, ..Batch::default() }
    };
    pen.absorb(first.clone());
    pen.flush();
    let written = pen.status().bytes;
    // Not each time, but every ten seconds.
    pen.absorb(away(5));
    assert!(!pen.has_work());
    pen.absorb(away(12));
    assert!(pen.is_empty() && pen.has_work());
    pen.flush();
    assert!(!pen.has_work() && pen.status().bytes > written && pen.status().bytes < written + 2_000);
    let extent = open(dir.path()).extent().unwrap();
    let health = open(dir.path()).health().clone();
    assert_eq!(health.link, Link::Waiting { why: "the server stopped".into() });
    // The records go on behind it, and the file is whole.
    pen.absorb(quarter(1_020 * SECOND, 1_020 * SECOND as i64, 3, false));
    assert_eq!(pen.close().error, None);
    let dir = open(dir.path());
    assert!(
        dir.holes(ALL).is_empty() && dir.extent().unwrap().end > extent.end && rows(&dir) == 150,
        "{:?} {:?} {extent:?} {}",
        dir.holes(ALL),
        dir.extent(),
        rows(&dir)
    );
}

#[test]
fn a_torn_file_is_finished_with_everything_that_was_whole() {
    let dir = TempDir::new().unwrap();
    let mut pen = Pen::new(settings(dir.path())).unwrap();
    record(&mut pen, &scenario("exact_wins"));
    let whole = fs::read(dir.path().join("current.trace")).unwrap();
    let count = |dir: &Path| {
        let mut n = 0;
        open(dir).scan(ALL, &mut |_| n += 1);
        n
    };
    let all = count(dir.path());
    let mut most = 0;
    for cut in (0..whole.len()).step_by(313).chain(whole.len() - 60..=whole.len()) {
        let other = TempDir::new().unwrap();
        let current = other.path().join("current.trace");
        fs::write(&current, &whole[..cut]).unwrap();
        fs::write(other.path().join("current.trace.meta"), "99").unwrap();
        let before = count(other.path());
        let found = recover(other.path(), Access::default(), &TimeZone::UTC, 77).unwrap();
        assert!(!current.exists() && !other.path().join("current.trace.meta").exists());
        match found {
            Found::Nothing => assert!(cut == 0 || cut == 28),
            Found::Aside(path) => {
                assert_eq!(path, other.path().join("current.trace.corrupt.77"));
                assert_eq!(fs::read(path).unwrap(), whole[..cut]);
                assert_eq!(before, 0);
            }
            Found::Finished { path, .. } => {
                assert_eq!(path.file_name().unwrap(), "1970-01-12_13.trace.lz4");
                let disk = open(other.path());
                assert_eq!((count(other.path()), disk.holes(ALL)), (before, vec![]), "cut at {cut}");
                assert!(before >= most);
                most = before;
            }
        }
    }
    assert_eq!(most, all);
    // Twice in one hour, and what is no trace.
    let other = TempDir::new().unwrap();
    for n in 0..3 {
        fs::write(other.path().join("current.trace"), &whole).unwrap();
        recover(other.path(), Access::default(), &TimeZone::UTC, n).unwrap();
    }
    fs::write(other.path().join("current.trace"), b"something else").unwrap();
    fs::write(other.path().join("current.trace.corrupt.5"), b"of another time").unwrap();
    let found = recover(other.path(), Access::default(), &TimeZone::UTC, 5).unwrap();
    assert_eq!(found, Found::Aside(other.path().join("current.trace.corrupt.6")));
    assert_eq!(traces(other.path()).len(), 5);
}

#[test]
fn a_second_recorder_is_refused_and_harms_nothing() {
    let dir = TempDir::new().unwrap();
    let mut pen = Pen::new(settings(dir.path())).unwrap();
    let batches = scenario("mix");
    record(&mut pen, &batches[..4]);
    let before = (traces(dir.path()), fs::read(dir.path().join("current.trace")).unwrap());
    let refused = Pen::new(settings(dir.path())).unwrap_err().to_string();
    assert!(refused.starts_with("another pg_wait_tracer (process "), "{refused}");
    assert_eq!(before, (traces(dir.path()), fs::read(dir.path().join("current.trace")).unwrap()));
    record(&mut pen, &batches[4..]);
    assert_eq!(pen.close().error, None);
}

#[test]
fn a_clock_that_is_set_back_begins_another_file() {
    let dir = TempDir::new().unwrap();
    let mut pen = Pen::new(settings(dir.path())).unwrap();
    let wall = 1_790_000_000 * SECOND as i64;
    let hour = 3_600 * SECOND as i64;
    for i in 1..=8u64 {
        let at = 1_000 * SECOND + i * 250 * MILLI;
        let back = if i > 4 { hour } else { 0 };
        record(&mut pen, &[quarter(at, wall + (i * 250 * MILLI) as i64 - back, 2, false)]);
    }
    assert_eq!(pen.close().error, None);
    assert_eq!(traces(dir.path()), ["2026-09-21_14.trace.lz4", "current.trace", "current.trace.meta"]);
    let disk = open(dir.path());
    assert_eq!(rows(&disk), 8 * 50);
    assert_eq!(disk.extent().unwrap().end, Ts((wall + 1_000 * MILLI as i64) as u64));
}

#[test]
fn a_full_disk_is_told_survived_and_written_down() {
    let dir = TempDir::new().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"]).arg(dir.path()).status();
    if !mounted.is_ok_and(|s| s.success()) {
        assert!(std::env::var_os("PGWT_REQUIRE_LIVE").is_none(), "no small file system can be mounted here");
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        let mut pen = Pen::new(settings(dir.path())).unwrap();
        let wall = 1_790_000_000 * SECOND as i64;
        let step =
            |pen: &mut Pen, i: u64| record(pen, &[quarter(1_000 * SECOND + i * 250 * MILLI, wall + (i * 250 * MILLI) as i64, 20, true)]);
        (1..=4).for_each(|i| step(&mut pen, i));
        assert_eq!(pen.status().error, None);
        let filler = dir.path().join("filler");
        let mut size = 512 << 10;
        while size > 100 {
            // As much as fits.
            fs::write(&filler, vec![0; size]).ok();
            size -= 4096;
            if fs::metadata(&filler).is_ok_and(|m| m.len() as usize == size + 4096) {
                break;
            }
        }
        (5..=12).for_each(|i| step(&mut pen, i));
        let status = pen.status().clone();
        let error = status.error.unwrap();
        assert!(error.contains("No space left on device") && error.contains(dir.path().to_str().unwrap()), "{error}");
        assert!(status.lost_records > 0);
        fs::remove_file(&filler).unwrap();
        (13..=16).for_each(|i| step(&mut pen, i));
        assert_eq!(pen.status().error, None);
        let status = pen.close();
        let disk = open(dir.path());
        let total = 16 * 25 * 20;
        assert_eq!((rows(&disk), status.records), (total - status.lost_records, total - status.lost_records));
        let holes = disk.holes(ALL);
        assert_eq!(holes.len(), 1, "{holes:?}");
        assert!(holes[0].why.contains("No space left on device"));
        let cover = ask(&disk, Ask::TimeModel, disk.extent().unwrap()).coverage;
        assert_eq!(cover.gaps.len(), 1);
        assert_eq!(cover.gaps[0], holes[0].span);
    });
    Command::new("umount").arg("-l").arg(dir.path()).status().ok();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
