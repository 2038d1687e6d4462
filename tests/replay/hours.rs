//! Files and hours: names of files as docs/FORMAT.md has them, and every record once and in order, whatever the clocks do.

use crate::binary::prints;
use crate::{open, path, settings, traces};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use pg_wait_tracer::store::pen::Pen;
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::Builder;
use pg_wait_tracer::trace::catalog::{News, Session};
use pg_wait_tracer::trace::clock::{Clock, MILLI, SECOND, Span, Ts};
use pg_wait_tracer::trace::recent::Batch;
use pg_wait_tracer::trace::record::{QueryId, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// What the monotonic clock shows at the beginning.
const BOOT: u64 = 1_000 * SECOND;

/// A quarter of a second of one session in I/O, ending `at` after the beginning, when the wall clock shows `wall`.
fn quarter(at: u64, wall: u64) -> Batch {
    let mut b = Builder::default();
    for i in 1..=25 {
        b.tick(Ts(BOOT + at - 250 * MILLI + i * 10 * MILLI), 10 * MILLI);
        b.sample(SessionId(7), WaitEvent(0x0a00_0015), QueryId(1), State::Active);
    }
    Batch {
        block: b.seal().map(Arc::new),
        news: vec![News::Session(SessionId(7), Box::new(Session { pid: 107, started: 5, ..Session::default() }))],
        clock: Clock { mono: Ts(BOOT + at), wall_ns: wall as i64 },
        ..Batch::default()
    }
}

/// Records `seconds` seconds, `step` apart, with a wall clock that shows `wall(elapsed)`.
fn record(dir: &Path, zone: &str, seconds: u64, wall: impl Fn(u64) -> u64) {
    let mut pen = Pen::new(settings(dir, TimeZone::get(zone).unwrap())).unwrap();
    for i in 1..=seconds * 4 {
        pen.absorb(quarter(i * 250 * MILLI, wall(i * 250 * MILLI)));
        pen.flush();
    }
    assert_eq!(pen.close().error, None);
}

fn unix(text: &str) -> u64 {
    text.parse::<Timestamp>().unwrap().as_nanosecond() as u64
}

/// Each tick once, 10 ms apart, in the order of time.
fn ticks_are_whole(dir: &Path, seconds: u64) {
    let disk = open(dir);
    let (mut ticks, mut samples) = (Vec::new(), 0);
    disk.scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| {
        ticks.extend(b.ticks().iter().map(|t| t.at));
        samples += b.records().map(|r| u64::from(r.samples)).sum::<u64>();
    });
    assert_eq!((ticks.len() as u64, samples), (seconds * 100, seconds * 100));
    assert!(ticks.windows(2).all(|w| w[1].0 - w[0].0 == 10 * MILLI), "a tick is missing or out of order");
    let extent = disk.extent().unwrap();
    assert_eq!(extent.len(), seconds * SECOND);
    let ms = format!("{}.0", seconds * 1_000);
    let dump = prints(&["dump", dir.to_str().unwrap()]);
    assert!(dump.contains(&ms) && dump.contains(&format!("({seconds}.0 s)")), "{dump}");
    assert!(!dump.contains("gap") && !dump.contains("not observed") && !dump.contains("not in the recording"), "{dump}");
}

#[test]
fn a_new_hour_is_a_new_file() {
    let dir = TempDir::new().unwrap();
    let begin = unix("2026-03-01T13:59:50Z");
    record(dir.path(), "UTC", 20, |t| begin + t);
    assert_eq!(traces(dir.path()), ["2026-03-01_13.trace.lz4", "current.trace", "current.trace.meta"]);
    ticks_are_whole(dir.path(), 20);
    // A place whose hours end at half past has no new file then.
    let dir = TempDir::new().unwrap();
    record(dir.path(), "Asia/Kolkata", 20, |t| begin + t);
    assert_eq!(traces(dir.path()), ["current.trace", "current.trace.meta"]);
    let dir = TempDir::new().unwrap();
    record(dir.path(), "Asia/Kolkata", 20, |t| begin + t - 1_800 * SECOND);
    assert_eq!(traces(dir.path()), ["2026-03-01_18.trace.lz4", "current.trace", "current.trace.meta"]);
    ticks_are_whole(dir.path(), 20);
}

#[test]
fn an_hour_that_comes_twice_has_two_files() {
    let dir = TempDir::new().unwrap();
    // At 01:00 UTC it was 03:00 in Berlin, and it became 02:00 again.
    let begin = unix("2026-10-25T00:59:50Z");
    record(dir.path(), "Europe/Berlin", 20, |t| begin + t);
    assert_eq!(traces(dir.path()), ["2026-10-25_02.trace.lz4", "current.trace", "current.trace.meta"]);
    // The next recorder gives the second its name.
    drop(Pen::new(settings(dir.path(), TimeZone::get("Europe/Berlin").unwrap())).unwrap());
    assert_eq!(traces(dir.path()), ["2026-10-25_02.1.trace.lz4", "2026-10-25_02.trace.lz4"]);
    ticks_are_whole(dir.path(), 20);
    let at = |time: &str| prints(&["--replay", "-T", path(&dir), "--tz", "Europe/Berlin", "--from", time]);
    assert!(at("2026-10-25T02:59:55+02:00").contains("From 2026-10-25 02:59:55 CEST to 2026-10-25 02:00:10 CET"));
    assert!(at("2026-10-25T02:00:05+01:00").contains("Length: 5.00 s"));
}

#[test]
fn a_clock_set_back_an_hour_loses_and_doubles_nothing() {
    let dir = TempDir::new().unwrap();
    let begin = unix("2026-03-01T13:30:00Z");
    record(dir.path(), "UTC", 20, |t| if t > 10 * SECOND { begin + t - 3_600 * SECOND } else { begin + t });
    assert_eq!(traces(dir.path()), ["2026-03-01_13.trace.lz4", "current.trace", "current.trace.meta"]);
    drop(Pen::new(settings(dir.path(), TimeZone::UTC)).unwrap());
    assert_eq!(traces(dir.path()), ["2026-03-01_12.trace.lz4", "2026-03-01_13.trace.lz4"]);
    let disk = open(dir.path());
    let (mut ticks, mut samples) = (Vec::new(), 0);
    disk.scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| {
        ticks.extend(b.ticks().iter().map(|t| t.at));
        samples += b.records().map(|r| u64::from(r.samples)).sum::<u64>();
    });
    assert_eq!((ticks.len(), samples), (2_000, 2_000));
    assert!(ticks.is_sorted());
    let dump = prints(&["dump", path(&dir)]);
    assert!(dump.contains("20000.0"), "each second once: {dump}");
}

#[test]
fn a_clock_corrected_by_seconds_begins_a_file_and_moves_no_record() {
    let dir = TempDir::new().unwrap();
    let begin = unix("2026-03-01T13:30:00Z");
    record(dir.path(), "UTC", 20, |t| if t > 10 * SECOND { begin + t - 30 * SECOND } else { begin + t });
    assert_eq!(traces(dir.path()), ["2026-03-01_13.trace.lz4", "current.trace", "current.trace.meta"]);
    ticks_are_whole(dir.path(), 20);
    drop(Pen::new(settings(dir.path(), TimeZone::UTC)).unwrap());
    assert_eq!(traces(dir.path()), ["2026-03-01_13.1.trace.lz4", "2026-03-01_13.trace.lz4"]);
    ticks_are_whole(dir.path(), 20);
}
