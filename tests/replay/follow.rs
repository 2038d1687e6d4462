//! A recording that grows is followed; at its end the replay ends.

use crate::binary::{Daemon, now, program, scenario, until};
use crate::{open, path};
use pg_wait_tracer::trace::Trace;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use tempfile::TempDir;

#[test]
fn a_growing_recording_is_followed_and_its_end_is_the_end() {
    let dir = TempDir::new().unwrap();
    let daemon = Daemon::start(dir.path(), &["--script", &scenario("mix")]);
    until("something is recorded", || open(dir.path()).extent().is_some_and(|e| !e.is_empty()));
    let dump = crate::binary::prints(&["dump", path(&dir)]);
    assert!(dump.contains("1 files") && dump.contains(", being recorded"), "{dump}");
    let mut replay = program();
    replay.args(["--replay", "-T", path(&dir), "--interval", "1", "--format", "json"]);
    let mut child = replay.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut windows = Vec::new();
    for _ in 0..3 {
        let o: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let at = |end: &str| o["window"][end].as_str().unwrap().parse::<u64>().unwrap();
        let (from, to) = (at("from_ns"), at("to_ns"));
        // Printed when it had been observed, and not long after.
        let behind = now() - to;
        assert!(behind < 3_000_000_000, "{behind} ns behind");
        assert_eq!((to - from, &o["coverage"]["gap_ns"]), (1_000_000_000, &Value::from("0")));
        windows.push((from, to));
    }
    assert!(windows.windows(2).all(|w| w[0].1 == w[1].0), "{windows:?}");
    assert!(child.try_wait().unwrap().is_none());
    daemon.stop();
    // What is left, the last one shorter; then it ends by itself.
    let rest: Vec<Value> = lines.map(|l| serde_json::from_str(&l.unwrap()).unwrap()).collect();
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), out.stderr.len()), (Some(0), 0));
    let extent = open(dir.path()).extent().unwrap();
    let last = rest.last().map_or(windows[2].1, |o| o["window"]["to_ns"].as_str().unwrap().parse().unwrap());
    assert_eq!(last, extent.end.0, "to the very end");
    assert!(!crate::binary::prints(&["dump", path(&dir)]).contains("being recorded"));
}

#[test]
fn an_end_that_was_asked_for_ends_it_while_the_recording_goes_on() {
    let dir = TempDir::new().unwrap();
    let mut daemon = Daemon::start(dir.path(), &["--script", &scenario("mix")]);
    until("two seconds are recorded", || open(dir.path()).extent().is_some_and(|e| e.len() > 2_000_000_000));
    let replay = crate::binary::objects(&["--replay", "-T", path(&dir), "--interval", "1", "--to", "now", "--format", "json"]);
    assert!(replay.len() >= 2, "{replay:?}");
    let counted = crate::binary::objects(&["--replay", "-T", path(&dir), "--interval", "1", "--count", "2", "--format", "json"]);
    assert_eq!(counted.len(), 2);
    assert!(daemon.is_running());
}
