//! A recording over an upgrade: the same numbers mean other events in another major version, and each is called what it was.

use crate::binary::objects;
use crate::{path, settings};
use jiff::tz::TimeZone;
use pg_wait_tracer::pg::names::event_names;
use pg_wait_tracer::store::pen::Pen;
use pg_wait_tracer::trace::block::Builder;
use pg_wait_tracer::trace::catalog::{News, Server, Session};
use pg_wait_tracer::trace::clock::{Clock, MILLI, SECOND, Span, Ts};
use pg_wait_tracer::trace::recent::Batch;
use pg_wait_tracer::trace::record::{QueryId, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use std::sync::Arc;
use tempfile::TempDir;

/// 2026-03-01T12:00:00Z.
const WALL: i64 = 1_772_366_400_000_000_000;

/// Two seconds of a server of this version from `at` seconds on, one session in each of these events.
fn seconds(pen: &mut Pen, major: u16, at: u64, names: &[&str]) {
    let events = event_names(major).unwrap();
    let of: Vec<WaitEvent> = names.iter().map(|n| events.find(n).unwrap_or_else(|| panic!("{n} in {major}"))).collect();
    for i in 0..8 {
        let end = (1_000 + at) * SECOND + (i + 1) * 250 * MILLI;
        let mut b = Builder::default();
        for tick in 1..=25 {
            b.tick(Ts(end - 250 * MILLI + tick * 10 * MILLI), 10 * MILLI);
            of.iter().zip(0..).for_each(|(event, n)| b.sample(SessionId(u32::from(major) * 100 + n), *event, QueryId(1), State::Active));
        }
        let mut news = vec![News::Server(Server { major, ..Server::default() }), News::Events(events.clone())];
        let session = |pid: u32| News::Session(SessionId(pid), Box::new(Session { pid: pid as i32, started: 5, ..Session::default() }));
        news.extend((0..of.len() as u32).map(|n| session(u32::from(major) * 100 + n)));
        let clock = Clock { mono: Ts(end), wall_ns: WALL + (end - 1_000 * SECOND) as i64 };
        pen.absorb(Batch { block: b.seal().map(Arc::new), news: if i == 0 { news } else { Vec::new() }, clock, ..Batch::default() });
        pen.flush();
    }
}

type Times = Vec<(String, f64)>;

/// Time of each event in a stretch, by name.
fn times(dir: &TempDir, from: &str, to: &str) -> Times {
    let o = objects(&["--replay", "-T", path(dir), "--view", "system_event", "--format", "json", "--from", from, "--to", to]).remove(0);
    let row = |r: &serde_json::Value| (r["name"].as_str().unwrap().to_owned(), r["total_ms"].as_f64().unwrap());
    sorted(o["rows"].as_array().unwrap().iter().map(row).collect())
}

fn sorted(mut rows: Times) -> Times {
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

fn rows(list: &[(&str, f64)]) -> Times {
    sorted(list.iter().map(|(n, ms)| ((*n).to_owned(), *ms)).collect())
}

#[test]
fn each_event_is_called_what_its_version_calls_it() {
    let numbers = [16, 17].map(|major| event_names(major).unwrap().find("IO:WALSync").unwrap());
    assert_ne!(numbers[0], numbers[1], "the test is of a number that moved");
    let dir = TempDir::new().unwrap();
    let mut pen = Pen::new(settings(dir.path(), TimeZone::UTC)).unwrap();
    seconds(&mut pen, 16, 0, &["IO:WALSync", "Timeout:PgSleep"]);
    seconds(&mut pen, 17, 10, &["IO:WALSync", "Timeout:PgSleep", "IO:WALWrite"]);
    assert_eq!(pen.close().error, None);
    assert_eq!(crate::traces(dir.path()).iter().filter(|n| !n.ends_with(".meta")).count(), 2);
    // 17 spells it in another way; a stretch in which both ran goes by the newer one.
    let (io, sleep) = ("IO:WalSync", "Timeout:PgSleep");
    assert_eq!(times(&dir, "12:00:00", "12:00:12"), rows(&[(io, 4_000.0), (sleep, 4_000.0), ("IO:WalWrite", 2_000.0)]));
    assert_eq!(times(&dir, "12:00:00", "12:00:02"), rows(&[("IO:WALSync", 2_000.0), (sleep, 2_000.0)]));
    assert_eq!(times(&dir, "12:00:10", "12:00:12"), rows(&[(io, 2_000.0), (sleep, 2_000.0), ("IO:WalWrite", 2_000.0)]));
    let one = objects(&["--replay", "-T", path(&dir), "--format", "json", "--event", io]).remove(0);
    assert_eq!(one["db_time_ns"], "4000000000");
}

/// An event the newer version does not have keeps its name, also where the newer one uses its number.
#[test]
fn an_event_that_went_keeps_its_name() {
    let (old, new) = (event_names(13).unwrap(), event_names(18).unwrap());
    let went = old.all().filter(|(_, n)| n.starts_with("LWLock:") || n.starts_with("IO:") || n.starts_with("IPC:"));
    let went = went.filter(|(e, n)| new.find(n).is_none() && new.knows(*e)).map(|(_, n)| n).min().expect("an event that went");
    let dir = TempDir::new().unwrap();
    let mut pen = Pen::new(settings(dir.path(), TimeZone::UTC)).unwrap();
    seconds(&mut pen, 13, 0, &[&went]);
    seconds(&mut pen, 18, 10, &["IO:DataFileRead"]);
    assert_eq!(pen.close().error, None);
    assert_eq!(times(&dir, "12:00:00", "12:00:12"), rows(&[(&went, 2_000.0), ("IO:DataFileRead", 2_000.0)]));
    assert_eq!(times(&dir, "12:00:00", "12:00:02"), rows(&[(&went, 2_000.0)]));
}

/// The first tick of a recording stands for no time. Written alone, it is there all the same.
#[test]
fn a_tick_that_stands_for_no_time_is_kept() {
    use pg_wait_tracer::trace::Trace;
    let dir = TempDir::new().unwrap();
    let mut pen = Pen::new(settings(dir.path(), TimeZone::UTC)).unwrap();
    let mut b = Builder::default();
    b.tick(Ts(1_000 * SECOND), 0);
    b.sample(SessionId(1), WaitEvent(0x0a00_0015), QueryId(1), State::Active);
    let clock = Clock { mono: Ts(1_000 * SECOND), wall_ns: WALL };
    pen.absorb(Batch { block: b.seal().map(Arc::new), clock, ..Batch::default() });
    pen.flush();
    seconds(&mut pen, 18, 0, &["IO:DataFileRead"]);
    assert_eq!(pen.close().error, None);
    let extent = crate::open(dir.path()).extent().unwrap();
    assert_eq!((extent.start.0, extent.len()), (WALL as u64, 2 * SECOND));
    let mut ticks = Vec::new();
    crate::open(dir.path()).scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| ticks.extend(b.ticks().iter().map(|t| t.at)));
    assert_eq!(ticks.len(), 201);
}
