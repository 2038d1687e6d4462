//! The exact and the blocking tier against real servers: what they say must be what PostgreSQL and the kernel say about the same time.
//! Each test prints its figures.
#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use pg_wait_tracer::capture::window::{Kind, Rules};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::clock::Span;
use pg_wait_tracer::trace::record::{Record, SessionId};
use pg_wait_tracer::trace::wait::{WaitClass, WaitEvent};
use support::watch::{Captured, Watch};
use support::{Options, Server, wait_until};

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

/// Tests see to it that windows stay open whatever the traps of this machine cost.
fn free() -> Rules {
    Rules { max_overhead_pct: 100_000.0, ..Rules::default() }
}

fn event(watch: &Watch, name: &str) -> WaitEvent {
    watch.trace.0.catalog().events.find(name).unwrap_or_else(|| panic!("no event {name}"))
}

/// Whole waits for an event.
fn waits(captured: &Captured, event: WaitEvent) -> Vec<Record> {
    captured.rows.iter().filter(|r| r.event == event && !r.detail.unwrap().open).copied().collect()
}

/// Session of a pid.
fn session(watch: &Watch, pid: i32) -> SessionId {
    let sessions = &watch.trace.0.catalog().sessions;
    *sessions.iter().find(|(_, s)| s.pid == pid).unwrap_or_else(|| panic!("no session of {pid}")).0
}

/// Asserts that the rows of each session lie one behind the other, and returns the largest share of a session's time that no row tells.
fn assert_tiled(captured: &Captured) -> f64 {
    let whole = captured.span();
    let mut worst: f64 = 0.0;
    for (session, rows) in captured.by_session() {
        let mut missing = 0;
        for pair in rows.windows(2) {
            assert!(pair[1].span.start >= pair[0].span.end, "session {session}: {:#?} overlaps {:#?}", pair[0], pair[1]);
            missing += pair[1].span.start.since(pair[0].span.end);
        }
        for row in &rows {
            let d = row.detail.unwrap();
            assert!(!row.span.is_empty(), "{row:?}");
            assert!(d.cpu_ns + d.runq_ns <= row.span.len() + 2, "{row:?}");
        }
        let (first, last) = (rows[0].span.start, rows.last().unwrap().span.end);
        let gone = watch_gone(last, whole);
        missing += first.since(whole.start) * u64::from(first.since(whole.start) < 1_000_000) + gone;
        worst = worst.max(missing as f64 / last.since(first).max(1) as f64);
    }
    worst
}

/// Nanoseconds between a session's last row and the end, unless it ended long before.
fn watch_gone(last: pg_wait_tracer::trace::clock::Ts, whole: Span) -> u64 {
    let short = whole.end.since(last);
    if short < 300_000_000 { short } else { 0 }
}

#[test]
fn sleeps_are_counted_exactly_and_every_session_is_tiled() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    for kind in [Kind::Exact, Kind::Blocking] {
        let mut watch = Watch::windows(&server, free());
        watch.run(Duration::from_millis(300));
        watch.open(kind, None);
        let sessions: Vec<_> = (0..3)
            .map(|_| server.session("DO $$ BEGIN FOR i IN 1..20 LOOP PERFORM pg_sleep(0.1); END LOOP; END $$"))
            .collect();
        sessions.into_iter().for_each(|s| drop(s.finish()));
        watch.run(Duration::from_millis(500));
        let health = watch.close();
        let captured = watch.captured(kind);
        let sleeps = waits(&captured, event(&watch, "Timeout:PgSleep"));
        let lengths: Vec<f64> = sleeps.iter().map(|r| r.length() as f64 / 1e6).collect();
        let (low, high) = lengths.iter().fold((f64::MAX, 0.0_f64), |(a, b), l| (a.min(*l), b.max(*l)));
        let missing = assert_tiled(&captured);
        println!("{kind:?}: {} sleeps of {low:.3} to {high:.3} ms; untold {:.5} %; {health:?}", sleeps.len(), missing * 100.0);
        assert_eq!(sleeps.len(), 60);
        assert!(low > 99.0 && high < 101.0 || high < 105.0, "{low} {high}");
        assert!(missing < 0.001, "{missing}");
        assert_eq!(health.lost_records, 0);
        let _ = (WaitClass::Cpu, BTreeMap::<u32, u32>::new(), wait_until(SECONDS(0), || true), session, SECONDS);
    }
}
