//! Killed at any moment, it leaves all but the last second, and nothing that was there is changed.

use crate::binary::{Daemon, now};
use crate::support::{Options, Server};
use crate::{ask, newest, open, recorded_after, ticks, watch};
use pg_wait_tracer::analysis::answer::Body;
use pg_wait_tracer::analysis::question::Ask;
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::clock::{MILLI, SECOND, Span, Ts};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Nanoseconds by which a time may differ: shares of a tick are rounded.
const SLACK: u64 = 100;

/// Everything the views of a window tell, each with its time in nanoseconds, in order of names.
fn told(dir: &Path, window: Span) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for a in [Ask::TimeModel, Ask::Events, Ask::Sessions, Ask::Queries] {
        let answer = ask(dir, a, window);
        all.push((format!("{a:?} observed"), answer.coverage.observed_ns()));
        all.push((format!("{a:?} DB Time of {} sessions, {} ticks", answer.sessions, answer.coverage.ticks), answer.db_time_ns));
        match answer.body {
            Body::TimeModel(model) => all.extend(model.rows.into_iter().map(|r| (format!("model {}", r.name), r.time_ns))),
            Body::Events { events } => {
                all.extend(events.into_iter().map(|e| (format!("{} {:?} {}", e.name, e.waits, e.samples), e.time_ns)));
            }
            Body::Sessions { sessions } => {
                all.extend(sessions.into_iter().map(|s| (format!("process {} {}", s.who.pid, s.who.kind.name()), s.time_ns)));
            }
            Body::Queries { queries } => all.extend(queries.into_iter().map(|q| (format!("query {}", q.sql.query), q.time_ns))),
            other => panic!("{other:?}"),
        }
    }
    all.sort();
    all
}

/// `PGWT_KILLS` says how often.
fn kills() -> u64 {
    std::env::var("PGWT_KILLS").ok().map_or(10, |n| n.parse().expect("PGWT_KILLS is a number"))
}

/// Numbers that look random, the same ones each time.
fn moments() -> impl Iterator<Item = u64> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    })
}

#[test]
fn a_killed_daemon_loses_less_than_a_second_and_nothing_older() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.pgbench(&["-i", "-q", "-s", "2"]).finish();
    let load = server.pgbench(&["-n", "-c", "4", "-j", "1", "-T", "3600"]);
    let dir = TempDir::new().unwrap();
    let (mut losses, mut fixed) = (Vec::new(), None);
    for (n, moment) in (0..kills()).zip(moments()) {
        let mode: &[&str] = match n % 4 {
            1 => &["--mode", "blocking"],
            3 => &["--mode", "full", "--max-overhead", "1000"],
            _ => &[],
        };
        let mut daemon: Daemon = watch(&server, dir.path(), &[&["-R", "0"], mode].concat());
        daemon.says("recording into");
        let said = daemon.stderr();
        let finished = said.contains("finished") && said.contains(".trace.lz4");
        assert_eq!(finished, n > 0, "kill {n}: {said}");
        assert!(!said.contains("NOT RECORDING") && !said.contains("no trace"), "{said}");
        if !mode.is_empty() {
            daemon.says("window open");
        }
        recorded_after(dir.path(), now());
        std::thread::sleep(Duration::from_micros(moment % 900_000));
        let at = daemon.kill();
        let disk = open(dir.path());
        assert_eq!(disk.skipped(), []);
        let extent = disk.extent().unwrap();
        let last = extent.end.0;
        losses.push((at.saturating_sub(last) / MILLI, n));
        // The first window has the answers it had, whatever was killed and finished since. Wall clocks are corrected: it lies where the recording begins.
        let (length, before) = fixed.get_or_insert_with(|| (extent.len(), told(dir.path(), Span::new(extent.start, extent.end))));
        let after = told(dir.path(), Span::new(extent.start, extent.start + *length));
        assert_eq!(after.len(), before.len(), "kill {n}");
        for (old, new) in before.iter().zip(&after) {
            assert!(old.0 == new.0 && old.1.abs_diff(new.1) <= SLACK, "kill {n}: {old:?} became {new:?}");
        }
    }
    drop(load);
    losses.sort_unstable();
    let (worst, n) = losses[losses.len() - 1];
    println!("{} kills: half of them lost at most {} ms, all at most {worst} ms (kill {n})", losses.len(), losses[losses.len() / 2].0);
    assert!(worst < 1_000, "lost milliseconds, and by which kill: {losses:?}");
}

/// Ten seconds at 100 Hz with a new file four times, then its end: no tick is missing.
#[test]
fn hangup_begins_another_file_and_term_is_the_end() {
    let Some(server) = Server::start("17", &Options::new()) else { return };
    let dir = TempDir::new().unwrap();
    let daemon = watch(&server, dir.path(), &[]);
    let files = || open(dir.path()).size().0;
    for n in 1..=4 {
        recorded_after(dir.path(), now() + SECOND / 2);
        daemon.signal("HUP");
        crate::binary::until("another file was begun", || files() == n + 1);
    }
    recorded_after(dir.path(), now() + SECOND / 2);
    let at = daemon.signal("TERM");
    let (status, said) = daemon.ends();
    assert_eq!(status, Some(0), "{said}");
    let last = newest(dir.path());
    assert!(last + 300 * MILLI > at, "{} ms before the signal are missing", at.saturating_sub(last) / MILLI);
    assert!(!open(dir.path()).grows(), "it has its footer");
    let extent = open(dir.path()).extent().unwrap();
    let cover = ask(dir.path(), Ask::TimeModel, extent).coverage;
    assert_eq!((cover.gap_ns, cover.gaps.len()), (0, 0), "{:?}", cover.gaps);
    assert_eq!(cover.observed_ns(), extent.len());
    let ticks = ticks(dir.path());
    assert!(ticks.windows(2).all(|w| w[0] < w[1]), "each tick once");
    // Every stretch between two ticks is in one of them.
    let longest = ticks.windows(2).map(|w| w[1].since(w[0])).max().unwrap();
    assert!(longest < SECOND, "{longest} ns between two ticks");
    assert!(ticks.first() < ticks.last() && Ts(at) > ticks[0]);
}
