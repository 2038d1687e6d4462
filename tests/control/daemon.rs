//! The socket's life with its recorder, and `ctl`.

use crate::binary::{Daemon, objects, prints, program, refused, until};
use crate::{Talk, address, ask, plays, scrape};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use tempfile::TempDir;

const STATUS: &str = r#"{"cmd":"status"}"#;

#[test]
fn the_socket_lives_as_long_as_its_recorder() {
    let dir = TempDir::new().unwrap();
    let rec = dir.path().join("rec");
    let socket = rec.join("pgwt.sock");
    let first = plays(dir.path(), &[]);
    let meta = std::fs::symlink_metadata(&socket).unwrap();
    assert!(meta.file_type().is_socket() && meta.permissions().mode() & 0o777 == 0o600);
    // A second recorder is refused, and the socket stays the first one's.
    let script = dir.path().join("endless.toml");
    refused(
        &["--daemon", "-T", rec.to_str().unwrap(), "--script", script.to_str().unwrap()],
        1,
        &["records into", &first.pid().to_string()],
    );
    assert_eq!(ask(&rec, STATUS)["ok"], true);
    first.stop();
    assert!(!socket.exists());
    // Killed, it leaves one behind, which the next one replaces.
    let second = plays(dir.path(), &[]);
    second.kill();
    assert!(socket.exists() && Talk::to(&rec).is_none());
    refused(&["ctl", "-T", rec.to_str().unwrap(), "status"], 1, &["was killed", "--daemon -T"]);
    let third = plays(dir.path(), &[]);
    assert_eq!(std::fs::symlink_metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(ask(&rec, STATUS)["ok"], true);
    third.stop();
    assert!(!socket.exists());
}

#[test]
fn text_that_records_has_a_socket_too() {
    let dir = TempDir::new().unwrap();
    let rec = dir.path().join("rec");
    let mut command = program();
    command.args(["--script", &crate::binary::scenario("storm"), "--format", "text", "-i", "1", "-T"]).arg(&rec);
    let text = Daemon::spawn(command);
    until("it answers", || Talk::to(&rec).is_some_and(|mut t| t.ask(STATUS)["trace_dir"].as_str() == rec.to_str()));
    text.stop();
    assert!(!rec.join("pgwt.sock").exists());
}

#[test]
fn what_is_in_the_way_is_said_and_recording_goes_on() {
    let dir = TempDir::new().unwrap();
    let rec = dir.path().join("rec");
    std::fs::create_dir(&rec).unwrap();
    std::fs::write(rec.join("pgwt.sock"), "a note").unwrap();
    let mut daemon = Daemon::start(&rec, &["--script", &crate::binary::scenario("storm")]);
    daemon.says("recording into");
    assert_eq!(daemon.times("no control socket"), 1, "{}", daemon.stderr());
    assert!(daemon.stderr().contains("is no socket; recording goes on without"), "{}", daemon.stderr());
    daemon.stop();
    assert_eq!(std::fs::read(rec.join("pgwt.sock")).unwrap(), b"a note");
}

#[test]
fn counters_only_grow_also_across_files() {
    let dir = TempDir::new().unwrap();
    let rec = dir.path().join("rec");
    let daemon = plays(dir.path(), &["--metrics-listen", ":0"]);
    let at = address(&daemon);
    let mut last = scrape(&at);
    let mut numbers = ask(&rec, r#"{"cmd":"metrics"}"#);
    for round in 1..=4 {
        let written = last.get("trace_events_written_total", &[]);
        daemon.signal("HUP");
        until("the file is finished, and another one written", || {
            let now = scrape(&at);
            now.get("trace_files_finished_total", &[]) >= f64::from(round) && now.get("trace_events_written_total", &[]) > written
        });
        let now = scrape(&at);
        for (name, value) in last.counters() {
            assert!(now.counters()[&name] >= value, "{name}: {value} became {}", now.counters()[&name]);
        }
        let later = ask(&rec, r#"{"cmd":"metrics"}"#);
        for (name, value) in numbers.as_object().unwrap().iter().filter(|(name, _)| name.ends_with("_total")) {
            assert!(later[name].as_f64().unwrap() >= value.as_f64().unwrap(), "{name}: {value} became {}", later[name]);
        }
        (last, numbers) = (now, later);
    }
    assert!(last.get("trace_written_bytes_total", &[]) > 0.0 && numbers["trace_bytes_written_total"].as_u64().unwrap() > 0);
    assert_eq!(last.get("recording_lost_records_total", &[]), 0.0);
    daemon.stop();
}

#[test]
fn ctl_says_how_it_stands() {
    let dir = TempDir::new().unwrap();
    let rec = dir.path().join("rec");
    let at = rec.to_str().unwrap();
    refused(&["ctl", "-T", at, "status"], 1, &["no recorder runs here", "--daemon -T", at]);
    refused(&["ctl", "status"], 2, &["--trace-dir"]);
    refused(&["ctl", "-T", at, "fly"], 2, &["escalate", "deescalate"]);
    refused(&["ctl", "-T", at, "escalate", "0"], 2, &["SECONDS"]);
    refused(&["ctl", "-T", at, "status", "5"], 2, &["SECONDS"]);
    let daemon = plays(dir.path(), &[]);
    let status = prints(&["ctl", "-T", at, "status"]);
    for (name, value) in [("mode", "sampled"), ("backends", "5"), ("sample_rate", "100 Hz"), ("tier", "sampled"), ("window", "—")] {
        assert!(
            status.lines().any(|l| l.split_whitespace().collect::<Vec<_>>().join(" ") == format!("{name} {value}")),
            "{name}: {status}"
        );
    }
    // Aligned: all values begin in the same column.
    let columns: Vec<usize> = status.lines().map(|l| l.len() - l[l.find("  ").unwrap()..].trim_start().len()).collect();
    assert!(columns.windows(2).all(|w| w[0] == w[1]), "{status}");
    let metrics = objects(&["ctl", "-T", at, "metrics", "--format", "json"]);
    assert_eq!(metrics.len(), 1);
    assert!(metrics[0]["samples_total"].as_u64().unwrap() > 0);
    assert!(prints(&["ctl", "-T", at, "metrics"]).contains("trace_bytes_written_total"));
    assert!(prints(&["ctl", "-T", at, "health"]).lines().any(|l| l.starts_with("recording.dir ")));
    refused(&["ctl", "-T", at, "escalate", "5"], 1, &["denied: escalation requires --mode tiered"]);
    refused(&["ctl", "-T", at, "deescalate"], 1, &["denied: escalation requires --mode tiered"]);
    daemon.stop();
}

#[test]
fn others_than_its_user_may_not_ask() {
    if !rustix::process::geteuid().is_root() {
        // Nobody else can be played.
        eprintln!("skipped: only root can try as another user");
        return;
    }
    let dir = TempDir::new().unwrap();
    let rec = dir.path().join("rec");
    let daemon = plays(dir.path(), &[]);
    // The way there is open, the program too; only the socket is not.
    for open in [dir.path(), &rec] {
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let binary = dir.path().join("pgwt");
    std::fs::copy(env!("CARGO_BIN_EXE_pg_wait_tracer"), &binary).unwrap();
    let out =
        std::process::Command::new(&binary).args(["ctl", "-T", rec.to_str().unwrap(), "status"]).uid(65_534).gid(65_534).output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("as that user, or with sudo") && stderr.lines().count() == 1, "{stderr}");
    daemon.stop();
}
