//! The binary as a user meets it: help, bad flags, exit statuses, closed pipes, scenarios as text. Needs no root and no server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/binary.rs"]
mod binary;

use binary::{program, refused, run, scenario};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn help_and_version_are_on_stdout() {
    for arguments in [&["--help"][..], &["-h"], &["tui", "--help"], &["doctor", "--help"], &["demo", "--help"]] {
        let out = run(arguments);
        assert!(out.status.success() && out.stderr.is_empty());
        assert!(String::from_utf8(out.stdout).unwrap().contains("Usage: pg_wait_tracer"), "{arguments:?}");
    }
    let version = String::from_utf8(run(&["--version"]).stdout).unwrap();
    assert!(version.starts_with("pg_wait_tracer 0."), "{version}");
}

#[test]
fn wrong_usage_is_one_line_and_status_2() {
    refused(&["--sample-rate", "0"], 2, &["--sample-rate", "1..=10000"]);
    refused(&["--sample-rate", "10001"], 2, &["1..=10000"]);
    refused(&["--interval", "0"], 2, &["--interval"]);
    refused(&["--window", "5s,5s"], 2, &["each window must be longer"]);
    refused(&["--window", "5s,1m", "--interval", "1"], 2, &["the first window is 5 s", "interval is 1 s"]);
    refused(&["--window", "soon"], 2, &["soon", "5s, 1m or 2h"]);
    refused(&["--view", "nothing"], 2, &["time_model", "active"]);
    refused(&["--tz", "Mars/Base"], 2, &["unknown time zone 'Mars/Base'"]);
    refused(&["--query-id", "12x"], 2, &["12x", "hexadecimal"]);
    refused(&["--filter", "usr=app"], 2, &["usr", "user"]);
    refused(&["--theme", "sepia", "--format", "text"], 2, &["sepia", "dark", "light"]);
    refused(&["--frobnicate"], 2, &["--frobnicate"]);
    refused(&["tui", "--script", &scenario("storm")], 2, &["needs a terminal", "--format text"]);
    refused(&["--cumulative", "--window", "1s,5s"], 2, &["--cumulative"]);
}

#[test]
fn capture_tiers_that_do_not_fit_are_refused_in_one_line() {
    refused(&["--mode", "coop"], 2, &["patched server", "--mode tiered", "full or blocking"]);
    refused(&["--mode", "coop", "--format", "text", "--view", "histogram"], 2, &["patched server"]);
    for flag in [&["--lightweight"][..], &["--skip-query-id"], &["--max-overhead", "10"]] {
        refused(&[&["--mode", "sampled"], flag].concat(), 2, &[flag[0], "--mode full, blocking or tiered"]);
    }
    for mode in ["sampled", "full", "blocking"] {
        for flag in ["--escalation-budget=10", "--anomaly-window-s=5", "--anomaly-cpu-cusum-disable"] {
            refused(&["--mode", mode, flag], 2, &["open by themselves", "--mode tiered"]);
        }
    }
    for (flag, says) in [
        ("--escalation-budget=-2", "unlimited"),
        ("--escalation-budget=4000", "unlimited"),
        ("--anomaly-aas-factor=-1", "0 or more"),
        ("--anomaly-lock-fraction=1.5", "0 to 1"),
        ("--anomaly-aas-ticks=0", "1..=36000"),
        ("--anomaly-cpu-cusum-cap=0.5", "make it larger"),
    ] {
        refused(&[flag], 2, &[says]);
    }
    for mode in ["full", "blocking", "tiered"] {
        for flag in ["--lightweight", "--skip-query-id"] {
            refused(&["--mode", mode, flag, "--view", "query_event"], 2, &[flag, "query_event", "records no queries"]);
            refused(&["--mode", mode, flag, "--query-id", "42"], 2, &[flag, "--query-id"]);
        }
    }
    for mode in ["sampled", "full", "blocking"] {
        refused(&["--mode", mode, "--window-tier", "blocking"], 2, &["--window-tier", "--mode tiered"]);
    }
    // In the full screen only the terminal is missing.
    for flags in [&["--lightweight"][..], &["--window-tier", "blocking"], &["--max-overhead", "10"]] {
        refused(&[&["tui"], flags].concat(), 2, &["needs a terminal"]);
    }
    refused(&["--mode", "full", "--script", &scenario("storm")], 2, &["scenario", "--mode"]);
    for bad in ["0", "-1", "NaN", "inf", "much"] {
        let flag = format!("--max-overhead={bad}");
        refused(&["--mode", "full", &flag], 2, &["--max-overhead", "not a number above 0"]);
    }
    // Waits without queries are all that a histogram needs: nothing but the server is missing.
    for view in ["histogram", "flow", "session_event"] {
        refused(&["--mode", "full", "--lightweight", "--view", view, "--pgdata", "/nonexistent", "--format", "text"], 1, &["/nonexistent"]);
    }
    refused(&["--view", "session_event", "--window", "1s,5s", "--format", "text"], 2, &["histogram"]);
}

#[test]
fn a_histogram_of_samples_says_why_there_is_none_and_is_no_failure() {
    for view in ["histogram", "flow"] {
        let out = run(&["--script", &scenario("mix"), "--view", view, "--format", "text", "--interval", "1", "--count", "1"]);
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.success() && text.contains("unavailable") && text.contains("--mode full"), "{view}: {text}");
    }
}

#[test]
fn a_scenario_opens_no_windows_in_any_mode() {
    for mode in ["tiered", "sampled"] {
        let out = run(&["--script", &scenario("mix"), "--mode", mode, "--format", "text", "--interval", "1", "--count", "1", "-v"]);
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.success() && text.contains("Fidelity: sampled") && out.stderr.is_empty(), "{text}");
    }
}

#[test]
fn a_server_that_is_not_there_is_one_line_and_status_1() {
    refused(&["--pgdata", "/nonexistent"], 1, &["/nonexistent", "--pgdata"]);
    refused(&["--pgdata", "/"], 1, &["not a PostgreSQL data directory"]);
    let own = std::process::id().to_string();
    refused(&["--pid", &own], 1, &[&own, "not a PostgreSQL server"]);
    refused(&["--pid", "999999999"], 1, &["no process 999999999"]);
    refused(&["--script", "/nonexistent.toml"], 1, &["/nonexistent.toml"]);
}

#[test]
fn an_unknown_event_names_the_nearest() {
    refused(
        &["--script", &scenario("storm"), "--event", "IO:DataFileRaed", "--format", "text"],
        1,
        &["IO:DataFileRaed", "IO:DataFileRead"],
    );
}

#[test]
fn a_scenario_plays_as_text_json_and_csv() {
    for (view, format, has) in [
        ("time_model", "text", "DB Time"),
        ("system_event", "text", "% DB"),
        ("session_event", "text", "Top Wait"),
        ("query_event", "text", "query_id"),
        ("active", "text", "State"),
        ("time_model", "json", "\"db_time_ms\""),
        ("active", "csv", "pid"),
    ] {
        let out = run(&["--script", &scenario("mix"), "--view", view, "--format", format, "--interval", "1", "--count", "1"]);
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.success(), "{view} {format}: {}", String::from_utf8_lossy(&out.stderr));
        assert!(text.contains(has), "{view} {format}: {text}");
        if format == "json" {
            for line in text.lines() {
                serde_json::from_str::<serde_json::Value>(line).unwrap();
            }
        }
    }
}

#[test]
fn a_closed_pipe_ends_the_program_silently() {
    let mut child = program()
        .args(["--script", &scenario("storm"), "--format", "text", "--interval", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    // The reader is gone from here on.
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn output_that_cannot_be_written_is_one_line_and_status_1() {
    let scenario = scenario("storm");
    for arguments in [&["doctor"][..], &["--script", &scenario, "--format", "text", "--interval", "1"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let out = program().args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("pg_wait_tracer: cannot write to standard output: "), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    }
}
