//! Openings and closings of windows in a recording: read back equal, by this program and by readers of trace format v3, also where only digests are read.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use jiff::tz::TimeZone;
use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::answer::Body;
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::store::access::Access;
use pg_wait_tracer::store::dir::{Dir, Options};
use pg_wait_tracer::store::pen::{Pen, Settings};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::{Builder, Intervals};
use pg_wait_tracer::trace::clock::{Clock, MILLI, SECOND, Span, Ts, Window};
use pg_wait_tracer::trace::codec::frame::Frames;
use pg_wait_tracer::trace::codec::records::{WINDOW_END, WINDOW_START, read_transitions};
use pg_wait_tracer::trace::codec::{FILE_HEADER, kind};
use pg_wait_tracer::trace::learned::Learned;
use pg_wait_tracer::trace::marker::{Kind, Marker, Reason};
use pg_wait_tracer::trace::recent::{Batch, Recent};
use pg_wait_tracer::trace::record::{Fidelity, QueryId, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const BEGIN: u64 = 1_000_000 * SECOND;

fn at(seconds: u64) -> Ts {
    Ts(BEGIN + seconds * SECOND)
}

fn marker(at: Ts, kind: Kind, reason: Reason, seconds: Option<u64>) -> Marker {
    Marker { at, kind, reason, tier: Fidelity::Exact, detail: format!("why \"{}\"", reason.name()), granted: kind != Kind::Near, seconds }
}

/// A second of ticks, and of an open window's coverage.
fn second(n: u64, watched: Option<Span>, markers: Vec<Marker>) -> Batch {
    let mut b = Builder::default();
    for i in 1..=10 {
        b.tick(at(n) + i * 100 * MILLI, 100 * MILLI);
        b.sample(SessionId(1), WaitEvent(0x0300_0005), QueryId(7), State::Active);
    }
    let mut intervals = Intervals::default();
    intervals.begin(Fidelity::Exact);
    if let Some(watched) = watched {
        intervals.watched(watched);
    }
    Batch {
        block: b.seal().map(Arc::new),
        intervals: intervals.seal().into_iter().map(Arc::new).collect(),
        markers,
        clock: Clock { mono: at(n + 1), wall_ns: at(n + 1).0 as i64 },
        ..Batch::default()
    }
}

fn pen(dir: &Path) -> Pen {
    Pen::new(Settings { dir: dir.to_owned(), access: Access::default(), zone: TimeZone::UTC, run: 5 }).unwrap()
}

/// Markers of trace format v3, in the order of the files.
fn edges(dir: &Path) -> Vec<(u64, u32, i64)> {
    let mut found = Vec::new();
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort_by_key(|p| (p.ends_with("current.trace"), p.clone()));
    for path in paths.iter().filter(|p| p.to_string_lossy().contains(".trace") && p.extension().is_none_or(|e| e != "meta")) {
        let bytes = fs::read(path).unwrap();
        for f in Frames(&bytes[FILE_HEADER..]).filter(|f| f.header.kind == kind::TRANSITIONS) {
            let t = read_transitions(3, &f.header, f.stored()).unwrap();
            let all = t.ts.iter().zip(&t.old).zip(&t.query).map(|((ts, e), q)| (*ts, *e, *q as i64));
            found.extend(all.filter(|(_, e, _)| [WINDOW_START, WINDOW_END].contains(e)));
        }
    }
    found
}

fn open(dir: &Path) -> Dir {
    let mut disk = Dir::open(dir, Options::default()).unwrap();
    disk.narrow(disk.extent().unwrap());
    disk
}

const ALL: Span = Span { start: Ts(0), end: Ts(u64::MAX) };

#[test]
fn every_reader_sees_when_windows_open_and_close_and_why() {
    let dir = TempDir::new().unwrap();
    let mut pen = pen(dir.path());
    let mut memory = Recent::new(usize::MAX);
    let told = [
        marker(at(2), Kind::Near, Reason::CpuSaturation, None),
        marker(at(3), Kind::Fire, Reason::Anomaly, Some(4)),
        marker(at(3) + 7, Kind::Opened, Reason::Anomaly, Some(4)),
        marker(at(7) + 7, Kind::Closed, Reason::Expired, Some(4)),
        marker(at(9) + 1, Kind::Opened, Reason::Manual, None),
        marker(at(12), Kind::Closed, Reason::Budget, Some(3)),
    ];
    for n in 0..14 {
        let within = Span::new(at(n), at(n + 1));
        let first = Span::new(told[2].at, told[3].at).clip(within);
        let second_one = Span::new(told[4].at, told[5].at).clip(within);
        let watched = [first, second_one].into_iter().find(|s| !s.is_empty());
        let markers = told.iter().filter(|m| m.at > within.start && m.at <= within.end).cloned().collect();
        let batch = second(n, watched, markers);
        memory.absorb(batch.clone());
        pen.absorb(batch);
        pen.flush();
        if n == 4 {
            // At once, while the file grows; and a window that is open goes on in the next file.
            assert_eq!(open(dir.path()).markers(ALL), told[..3]);
            assert_eq!(edges(dir.path()), [(told[2].at.0, WINDOW_START, 4 << 8 | 1)]);
            pen.rotate();
        }
    }
    assert_eq!(open(dir.path()).markers(ALL), told, "growing");
    assert_eq!(pen.close().error, None);
    let disk = open(dir.path());
    for trace in [&disk as &dyn Trace, &memory] {
        assert_eq!(trace.markers(ALL), told);
        assert_eq!(trace.markers(Span::new(at(2), told[2].at)), told[1..3], "behind the start, up to the end");
    }
    let word = |m: &Marker| m.word();
    let said = edges(dir.path());
    let wanted = [
        (told[2].at.0, WINDOW_START, word(&told[2])),
        // The file ends while the window is open: that end has no reason, and the next file repeats why it is open.
        (at(5).0, WINDOW_END, 0),
        (at(5).0, WINDOW_START, word(&told[2])),
        (told[3].at.0, WINDOW_END, 4 << 8 | 2),
        (told[4].at.0, WINDOW_START, 0),
        (told[5].at.0, WINDOW_END, 3 << 8 | 5),
    ];
    assert_eq!(said, wanted);
    // A chart of all of it is answered from digests, and has the markers.
    let answer = answer(&disk, &Question::new(Ask::Load { buckets: 1 }, Window::Fixed(disk.extent().unwrap()))).unwrap();
    let Body::Load(load) = answer.body else { panic!() };
    assert_eq!(load.markers, told);
}

#[test]
fn a_closing_without_records_is_written_too_and_survives_an_error() {
    let dir = TempDir::new().unwrap();
    let mut pen = pen(dir.path());
    let opened = marker(at(0) + 1, Kind::Opened, Reason::Standing, None);
    pen.absorb(second(0, Some(Span::new(opened.at, at(1))), vec![opened.clone()]));
    pen.flush();
    // The server goes: nothing but the closing.
    let closed = marker(at(1), Kind::Closed, Reason::ServerGone, Some(1));
    pen.absorb(Batch { markers: vec![closed.clone()], clock: Clock { mono: at(2), wall_ns: at(2).0 as i64 }, ..Batch::default() });
    assert!(pen.has_work());
    pen.flush();
    assert_eq!(edges(dir.path()), [(opened.at.0, WINDOW_START, 7), (closed.at.0, WINDOW_END, 1 << 8 | 9)]);
    pen.close();
    assert_eq!(open(dir.path()).markers(ALL), [opened, closed]);
}

#[test]
fn what_was_learned_stands_beside_the_recording() {
    let dir = TempDir::new().unwrap();
    let mut pen = pen(dir.path());
    let learned = |baseline| Some(Arc::new(Learned { server: "1 /data".into(), baseline_aas: Some(baseline), ..Learned::default() }));
    let path = dir.path().join("escalation.json");
    for (n, seconds) in [(1.0, 10), (2.0, 11), (3.0, 12)] {
        pen.absorb(Batch { learned: learned(n), ..second(seconds, None, vec![]) });
        pen.flush();
        // Every few seconds.
        assert!(fs::read_to_string(&path).unwrap().contains("\"baseline_aas\":1.0"));
    }
    pen.close();
    assert!(fs::read_to_string(&path).unwrap().contains("\"baseline_aas\":3.0"), "and at the end");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn any_markers_come_back_as_they_were(
        moments in prop::collection::vec((0u64..40_000, 0usize..4, 0usize..10, any::<bool>(), prop::option::of(0u64..1_000_000), "\\PC{0,40}"), 1..60),
        rotate in 0u64..40,
    ) {
        let kinds = [Kind::Opened, Kind::Closed, Kind::Fire, Kind::Near];
        let reasons = [
            Reason::Manual, Reason::Anomaly, Reason::CpuSaturation, Reason::Standing, Reason::Expired, Reason::Request, Reason::Shutdown,
            Reason::Budget, Reason::Overhead, Reason::ServerGone, Reason::Unfollowed,
        ];
        let mut told: Vec<Marker> = moments
            .into_iter()
            .map(|(ms, k, r, granted, seconds, detail)| {
                Marker { at: at(1) + ms * MILLI, kind: kinds[k], reason: reasons[r], tier: Fidelity::Blocking, detail, granted, seconds }
            })
            .collect();
        told.sort_by_key(|m| m.at);
        let dir = TempDir::new().unwrap();
        let mut pen = pen(dir.path());
        for n in 0..42 {
            let markers = told.iter().filter(|m| m.at > at(n) && m.at <= at(n + 1)).cloned().collect();
            pen.absorb(second(n, None, markers));
            pen.flush();
            if n == rotate {
                pen.rotate();
            }
        }
        pen.close();
        prop_assert_eq!(open(dir.path()).markers(ALL), told);
    }
}
