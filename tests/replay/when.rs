//! Which stretch is looked at: `--from` and `--to` in every form, one view after the other, moments inside and outside of gaps.

use crate::binary::{objects, prints, program, refused};
use crate::{path, recorded};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Milliseconds since the scenario's beginning, 2026-01-02T03:04:05Z.
fn ms(o: &Value, end: &str) -> i64 {
    (o["window"][end].as_str().unwrap().parse::<i64>().unwrap() - 1_767_323_045_000_000_000) / 1_000_000
}

#[test]
fn from_and_to_are_understood_in_every_form() {
    let dir = recorded("mix");
    let window = |flags: &[&str]| {
        let o = objects(&[&["--replay", "-T", path(&dir), "--format", "json"], flags].concat()).remove(0);
        (ms(&o, "from_ns"), ms(&o, "to_ns"))
    };
    assert_eq!(window(&[]), (0, 10_000));
    for from in ["03:04:08", "2026-01-02 03:04:08", "2026-01-02T03:04:08Z", "2026-01-02T04:04:08+01:00", "2026-01-02T03:04:08.000", "7s"] {
        assert_eq!(window(&["--from", from]), (3_000, 10_000), "{from}");
        assert_eq!(window(&["--from", from, "--to", "now"]), (3_000, 10_000), "{from}");
        assert_eq!(window(&["--to", from]), (0, 3_000), "{from}");
        assert_eq!(window(&["--from", from, "--to", "03:04:09.5"]), (3_000, 4_500), "{from}");
    }
    assert_eq!(window(&["--from", "04:04:08", "--to", "04:04:09", "--tz", "Europe/Berlin"]), (3_000, 4_000));
    assert_eq!(window(&["--from", "2026-01-01 22:04:08", "--tz", "America/New_York"]), (3_000, 10_000));
    // The time of a place is also what is printed.
    let text = prints(&["--replay", "-T", path(&dir), "--tz", "Europe/Berlin"]);
    assert!(text.contains("From 2026-01-02 04:04:05 CET to 2026-01-02 04:04:15 CET"), "{text}");
    let dump = prints(&["dump", path(&dir), "--from", "7s", "--to", "03:04:10"]);
    assert!(dump.contains("Looked at      2026-01-02 03:04:08 UTC to 2026-01-02 03:04:10 UTC (2.00 s)"), "{dump}");
    // Two seconds of four sessions that are busy for six tenths.
    assert!(dump.contains("AAS: 2.4"), "{dump}");
}

#[test]
fn a_stretch_that_cannot_be_is_one_line_and_status_2() {
    let dir = recorded("mix");
    for command in [&["--replay", "-T", path(&dir)][..], &["dump", path(&dir)]] {
        let wrong = |flags: &[&str], says: &[&str]| refused(&[command, flags].concat(), 2, says);
        wrong(&["--from", "yesterday"], &["--from", "'yesterday' is not a time", "14:02"]);
        wrong(&["--to", "25:00"], &["--to", "'25:00' is not a time"]);
        wrong(&["--from", "03:04:10", "--to", "03:04:08"], &["--from is not before --to"]);
        wrong(&["--from", "03:04:10", "--to", "03:04:10"], &["--from is not before --to"]);
        wrong(&["--from", "2026-01-02 03:05"], &["--from is 2026-01-02 03:05:00 UTC", "the recording ends at 2026-01-02 03:04:15 UTC"]);
        wrong(&["--to", "2026-01-02 03:04"], &["--to is 2026-01-02 03:04:00 UTC", "the recording begins at 2026-01-02 03:04:05 UTC"]);
        wrong(&["--tz", "Europe/Berlin", "--from", "2026-03-29 02:30"], &["never came"]);
        wrong(&["--tz", "Europe/Berlin", "--from", "2025-10-26 02:30"], &["came twice", "+02:00", "+01:00"]);
        wrong(&["--from", ""], &["--from"]);
    }
}

#[test]
fn one_view_after_the_other_to_the_end_of_a_finished_recording() {
    let dir = recorded("mix");
    let step = |flags: &[&str]| {
        let all = objects(&[&["--replay", "-T", path(&dir), "--format", "json"], flags].concat());
        let windows: Vec<_> = all.iter().map(|o| (ms(o, "from_ns"), ms(o, "to_ns"))).collect();
        let time: u64 = all.iter().map(|o| o["db_time_ns"].as_str().unwrap().parse::<u64>().unwrap()).sum();
        (windows, time / 1_000_000)
    };
    let (windows, time) = step(&["--interval", "1"]);
    assert_eq!((windows.len(), time), (10, 24_000));
    assert!(windows.iter().enumerate().all(|(i, w)| *w == (1_000 * i as i64, 1_000 * (i as i64 + 1))), "{windows:?}");
    assert_eq!(step(&["--interval", "3"]), (vec![(0, 3_000), (3_000, 6_000), (6_000, 9_000), (9_000, 10_000)], 24_000));
    assert_eq!(step(&["--interval", "3", "--count", "2"]).0, [(0, 3_000), (3_000, 6_000)]);
    assert_eq!(step(&["--interval", "2", "--duration", "3"]).0, [(0, 2_000), (2_000, 3_000)]);
    assert_eq!(step(&["--interval", "2", "--from", "03:04:07", "--to", "03:04:10"]).0, [(2_000, 4_000), (4_000, 5_000)]);
    assert_eq!(step(&["--interval", "60"]).0, [(0, 10_000)]);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let dir = recorded("mix");
    for arguments in [&["--replay", "-T", path(&dir), "--interval", "1", "--view", "system_event"][..], &["dump", path(&dir)]] {
        let mut child = program().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!((out.status.code(), out.stderr.len()), (Some(0), 0), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

#[test]
fn at_a_moment_it_says_what_every_session_was_doing() {
    let dir = recorded("active");
    let active = |to: &str| objects(&["--replay", "-T", path(&dir), "--view", "active", "--format", "json", "--to", to]).remove(0);
    let rows = |to: &str| {
        let o = active(to);
        let row =
            |r: &Value| (r["pid"].as_i64().unwrap(), r["event"].as_str().unwrap_or("").to_owned(), r["state"].as_str().unwrap().to_owned());
        o["rows"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    let at = |pid: i64, to: &str| rows(to).into_iter().find(|r| r.0 == pid).map(|r| r.1);
    assert_eq!(at(10, "03:04:14.9").as_deref(), Some("IO:DataFileRead"));
    assert_eq!(at(11, "03:04:14.9").as_deref(), Some("Lock:tuple"));
    assert_eq!(at(12, "03:04:08").as_deref(), Some("Lock:tuple"));
    assert_eq!(at(15, "03:04:09"), at(12, "03:04:12"), "both on the CPU");
    assert_eq!(at(15, "03:04:12"), None, "it was gone");
    let text = prints(&["--replay", "-T", path(&dir), "--view", "active", "--to", "03:04:10"]);
    let line = text.lines().find(|l| l.trim_start().starts_with("11 ")).unwrap_or_else(|| panic!("{text}"));
    // It had waited for three of the five seconds shown.
    assert!(line.contains("Lock:tuple") && line.contains("3000.0"), "{text}");
}

#[test]
fn inside_a_gap_nothing_was_observed_and_nothing_is_zero() {
    let dir = recorded("gap");
    // From 20 s to 40 s nobody looked.
    let show = |flags: &[&str]| prints(&[&["--replay", "-T", path(&dir)], flags].concat());
    for view in ["active", "system_event", "session_event"] {
        let text = show(&["--view", view, "--from", "03:04:28", "--to", "03:04:35"]);
        assert!(text.contains("nothing was observed") && text.contains("AAS: —"), "{view}: {text}");
        assert!(text.contains("Observed 0.0 % of the interval; 1 gap of 7.00 s."), "{view}: {text}");
    }
    // A moment: the five seconds before it are in the gap.
    let text = show(&["--view", "active", "--to", "03:04:35"]);
    assert!(text.contains("nothing was observed"), "{text}");
    let around = objects(&["--replay", "-T", path(&dir), "--format", "json", "--from", "03:04:20", "--to", "03:04:50"]).remove(0);
    assert_eq!((around["coverage"]["gap_ns"].as_str(), around["db_time_ns"].as_str()), (Some("20000000000"), Some("10000000000")));
    assert_eq!(around["aas"], 1.0, "averaged over what was observed");
    let steps = objects(&["--replay", "-T", path(&dir), "--format", "json", "--interval", "10"]);
    let aas: Vec<Option<f64>> = steps.iter().map(|o| o["aas"].as_f64()).collect();
    assert_eq!(aas, [Some(1.0), Some(1.0), None, None, Some(1.0), Some(1.0), Some(0.0), Some(0.0), Some(0.0)]);
    let dump = show(&[]);
    assert!(dump.contains("1 gap of 20.0 s"), "{dump}");
    let dump = prints(&["dump", path(&dir)]);
    assert!(dump.contains("Seen           sampled 1m 10s, not observed 20.0 s"), "{dump}");
}
