//! What is replayed is what was shown live.

use crate::binary::{objects, prints, program, run, scenario};
use crate::{open, path, recorded};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::clock::MILLI;
use serde_json::Value;
use tempfile::TempDir;

const VIEWS: [&str; 5] = ["time_model", "system_event", "session_event", "query_event", "active"];

/// Without what the recorder says of itself, which is of the present, and what a session says of its own times, which is recorded once a second at most;
/// no wait is shown longer than its command, so how long it lasts depends on those.
fn figures(text: &str) -> Vec<Value> {
    let one = |line: &str| {
        let mut o: Value = serde_json::from_str(line).unwrap();
        o.as_object_mut().unwrap().remove("health");
        // Sessions stand in the order of how long they wait.
        if o["rows"][0].get("doing").is_some() {
            o["rows"].as_array_mut().unwrap().sort_by_key(|r| r["pid"].as_i64());
        }
        for row in o["rows"].as_array_mut().unwrap() {
            row.as_object_mut().unwrap().retain(|key, _| {
                !["query_start", "xact_start", "state_change", "for_ms", "for_ns", "for_at_least"].contains(&key.as_str())
            });
        }
        o
    };
    text.lines().map(one).collect()
}

/// The moments at which the first interval may have begun: live it begins at the end of what came first, a tick or a few.
fn first_ticks(dir: &TempDir) -> Vec<String> {
    let first = open(dir.path()).extent().unwrap().start;
    let at = |ns: u64| jiff::Timestamp::from_nanosecond(ns.into()).unwrap().to_string();
    (0..50).map(|i| at(first.0 + i * 10 * MILLI)).collect()
}

/// Every view is shown live, twice a second long, while it is recorded; then the same stretch of the recording.
#[test]
fn replay_prints_what_the_live_view_printed() {
    let shows: Vec<(&str, &str, &str)> = VIEWS
        .into_iter()
        .flat_map(|v| ["text", "json", "csv"].map(|f| (v, f, "mix")))
        .filter(|show| show.0 != "active" || show.1 == "json")
        .chain(["time_model", "system_event", "session_event", "query_event"].map(|v| (v, "json", "exact_wins")))
        .collect();
    let running: Vec<_> = shows
        .iter()
        .map(|(view, format, name)| {
            let dir = TempDir::new().unwrap();
            let mut live = program();
            live.arg("-T").arg(dir.path()).args(["--script", &scenario(name), "--view", view, "--format", format]);
            live.args(["--interval", "1", "--count", "2"]);
            let child = live.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
            (view, format, dir, child)
        })
        .collect();
    for (view, format, dir, child) in running {
        let live = child.wait_with_output().unwrap();
        assert!(live.status.success() && live.stderr.is_empty(), "{view}: {}", String::from_utf8_lossy(&live.stderr));
        let live = String::from_utf8(live.stdout).unwrap();
        let same = |from: &String| {
            let flags = ["--from", from, "--interval", "1", "--count", "2", "--view", view, "--format", format];
            let again = prints(&[&["--replay", "-T", path(&dir)], &flags[..]].concat());
            if *format == "json" { figures(&again) == figures(&live) } else { again == live }
        };
        assert!(first_ticks(&dir).iter().any(same), "{view} {format} is nowhere in the recording as it was shown live: {live}");
        assert!(live.lines().count() >= 2, "{view} {format}: {live}");
    }
}

#[test]
fn dump_is_the_four_views_of_the_whole_recording() {
    let dir = recorded("mix");
    let dump = prints(&["dump", path(&dir)]);
    let mut rest = dump.as_str();
    for view in ["time_model", "system_event", "session_event", "query_event"] {
        let text = prints(&["--replay", "-T", path(&dir), "--view", view]);
        let at = rest.find(&text).unwrap_or_else(|| panic!("{view} is not in the dump:\n{text}\n{dump}"));
        rest = &rest[at + text.len()..];
    }
    assert!(rest.trim().is_empty(), "{rest}");
    for line in [
        "PostgreSQL     18.4, port 5432",
        "Recorded       2026-01-02 03:04:05 UTC to 2026-01-02 03:04:15 UTC (10.0 s)",
        "Seen           sampled 10.0 s",
    ] {
        assert!(dump.contains(line), "{line}: {dump}");
    }
    assert!(!dump.contains("Looked at") && !dump.contains("being recorded"), "{dump}");
    // Four sessions, each busy for six of ten seconds: what the scenario says.
    let json = objects(&["dump", path(&dir), "--format", "json"]);
    assert_eq!(json.len(), 4);
    assert!(json.iter().all(|o| o["db_time_ns"] == "24000000000" && o["sessions"] == 4), "{json:?}");
    let ms = |name: &str| json[1]["rows"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap()["total_ms"].as_f64().unwrap();
    assert_eq!([ms("CPU*") + ms("IO:DataFileRead"), ms("IO:WalSync")], [20_000.0, 4_000.0]);
}

#[test]
fn what_one_table_cannot_be_is_refused() {
    let dir = recorded("mix");
    for (flags, says) in [
        (&["dump", path(&dir), "--format", "csv"][..], "--replay -T DIR --view X --format csv"),
        (&["dump", path(&dir), "--filter", "usr=app"], "--filter"),
        (&["dump", path(&dir), "--tz", "Mars/Base"], "Mars/Base"),
        (&["--replay", "-T", path(&dir), "--mode", "full"], "--mode"),
        (&["--replay", "-T", path(&dir), "--pid", "1"], "--pid"),
        (&["--replay", "-T", path(&dir), "--format", "tui"], "terminal"),
        (&["--replay"], "--trace-dir"),
        (&["--daemon"], "--trace-dir"),
        (&["-T", path(&dir), "--from", "10m"], "--replay"),
        (&["tui", "--daemon", "-T", path(&dir)], "--daemon has no screen"),
    ] {
        crate::binary::refused(flags, 2, &[says]);
    }
}

#[test]
fn a_filter_and_one_query_or_session_are_of_the_recording_too() {
    let dir = recorded("mix");
    let replay = |flags: &[&str]| objects(&[&["--replay", "-T", path(&dir), "--format", "json"], flags].concat()).remove(0);
    let ms = |o: &Value| o["db_time_ms"].as_f64().unwrap();
    assert_eq!(ms(&replay(&["--filter", "class=IO"])) + ms(&replay(&["--filter", "class=CPU"])), 24_000.0);
    assert_eq!(replay(&["--event", "IO:WalSync"])["db_time_ns"], "4000000000");
    assert_eq!(replay(&["--pid-filter", "100"])["sessions"], 1);
    assert_eq!(replay(&["--view", "query_event", "--query-id", "1"])["db_time_ns"], "24000000000");
    let out = run(&["--replay", "-T", path(&dir), "--event", "IO:DataFileRaed"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("IO:DataFileRead"));
}
