//! The recorder as a process: who may record where, what its files are, signals, and what goes when room is short. It plays a scenario.

use crate::binary::{Daemon, prints, refused, scenario, until};
use crate::{open, path, recorded, traces};
use pg_wait_tracer::store::dir::Dir;
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::clock::{MILLI, SECOND, Span, Ts};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn daemon(dir: &Path, more: &[&str]) -> Daemon {
    Daemon::start(dir, &[&["--script", &scenario("mix")], more].concat())
}

/// Nanoseconds recorded; 0: nothing yet.
fn length(dir: &Path) -> u64 {
    Dir::open(dir, pg_wait_tracer::store::dir::Options::default()).ok().and_then(|d| d.extent()).map_or(0, Span::len)
}

fn ticks(dir: &Path) -> Vec<Ts> {
    let mut ticks = Vec::new();
    open(dir).scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| ticks.extend(b.ticks().iter().map(|t| t.at)));
    ticks
}

#[test]
fn one_recorder_per_directory_and_its_directory_is_free_after_its_death() {
    let top = TempDir::new().unwrap();
    let dir = top.path().join("new/traces");
    let mut first = daemon(&dir, &[]);
    first.says("recording into");
    until("something is recorded", || dir.exists() && length(&dir) > SECOND / 2);
    let files = traces(&dir);
    let inode = fs::metadata(dir.join("current.trace")).unwrap().ino();
    let pid = format!("(process {})", first.pid());
    let arguments = ["--daemon", "-T", dir.to_str().unwrap(), "--script", &scenario("mix")];
    refused(&arguments, 1, &["another pg_wait_tracer", &pid, dir.to_str().unwrap(), "-T"]);
    assert_eq!((traces(&dir), fs::metadata(dir.join("current.trace")).unwrap().ino()), (files, inode));
    let before = length(&dir);
    until("the first goes on", || length(&dir) > before + SECOND / 2);
    assert!(first.is_running() && !first.stderr().contains("NOT RECORDING"), "{}", first.stderr());
    first.kill();
    let kept = length(&dir);
    let mut third = daemon(&dir, &[]);
    third.says("finished");
    let said = third.stderr();
    assert!(said.contains(".trace.lz4") && said.lines().next().unwrap().contains(dir.to_str().unwrap()), "{said}");
    until("the third records", || length(&dir) > kept + SECOND / 2);
    third.stop();
    assert!(prints(&["dump", dir.to_str().unwrap()]).contains("2 files"));
}

#[test]
fn a_place_that_cannot_be_recorded_into_is_one_line_and_status_1() {
    let top = TempDir::new().unwrap();
    let scenario = scenario("mix");
    let record = |dir: &str, more: &[&str], says: &[&str]| {
        refused(&[&["--daemon", "-T", dir, "--script", &scenario], more].concat(), 1, says);
    };
    let file = top.path().join("file");
    fs::write(&file, "mine").unwrap();
    record(file.to_str().unwrap(), &[], &["cannot record into", file.to_str().unwrap()]);
    let below = file.join("below");
    record(below.to_str().unwrap(), &[], &["cannot record into", below.to_str().unwrap()]);
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    record("/proc/nowhere", &[], &["cannot record into /proc/nowhere"]);
    let dir = top.path().join("traces");
    record(dir.to_str().unwrap(), &["--trace-group", "no-such-group"], &["--trace-group no-such-group", "no such group"]);
    assert!(!dir.exists(), "refused before anything was made");
    // Not without a daemon, either: what is asked to be recorded and cannot be is not shown.
    refused(&["-T", file.to_str().unwrap(), "--script", &scenario, "--format", "text"], 1, &["cannot record into"]);
    // A file system mounted read-only; modes alone do not stop root.
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m,ro", "tmpfs"]).arg(top.path()).status();
    if !mounted.is_ok_and(|s| s.success()) {
        assert!(std::env::var_os("PGWT_REQUIRE_LIVE").is_none(), "no file system can be mounted here");
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        record(path(&top), &[], &["cannot record into", path(&top), "Read-only file system"]);
        record(dir.to_str().unwrap(), &[], &["cannot record into", "Read-only file system"]);
    });
    Command::new("umount").arg("-l").arg(top.path()).status().unwrap();
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Everything in the directory, and it: modes and group.
fn only_the_group_reads(dir: &Path, gid: u32, files: &[&str]) {
    let of = |path: &Path| fs::metadata(path).map(|m| (m.permissions().mode() & 0o7777, m.gid())).unwrap();
    assert_eq!(of(dir), (0o750, gid));
    let mut names: Vec<String> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|n| !n.contains(".tmp"));
    for name in &names {
        // Who may read a recording may not open windows.
        let mode = if name == "pgwt.sock" { (0o600, fs::metadata("/proc/self").unwrap().gid()) } else { (0o640, gid) };
        assert_eq!(of(&dir.join(name)), mode, "{name}");
    }
    for file in files {
        assert!(names.iter().any(|n| n.contains(file)), "{file} is not among {names:?}");
    }
}

#[test]
fn whatever_made_a_file_it_is_for_the_group_alone() {
    // Root alone may give a file to a group it is not in.
    let (name, gid) = if fs::metadata("/proc/self").unwrap().uid() == 0 { ("daemon", 1) } else { return };
    let group = fs::read_to_string("/etc/group").unwrap();
    assert!(group.lines().any(|l| l.starts_with("daemon:x:1:")), "{group}");
    let top = TempDir::new().unwrap();
    let dir = top.path().join("traces");
    let scenario = scenario("queries");
    // What the shell of a careless administrator would do to new files.
    let start = |mask: &str| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("umask {mask}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_pg_wait_tracer"), "--daemon", "-T"]);
        command.arg(&dir).args(["--script", &scenario, "--trace-group", name]).env("XDG_CONFIG_HOME", "/nonexistent");
        Daemon::spawn(command)
    };
    let daemon = start("0");
    until("texts of queries are recorded", || dir.join("query_texts.jsonl").exists() && length(&dir) > SECOND / 2);
    let sidecars = ["backends.jsonl", "query_texts.jsonl", "wait_event_names.json", "pgwt.lock", "current.trace.meta", "current.trace"];
    only_the_group_reads(&dir, gid, &sidecars);
    daemon.signal("HUP");
    until("another file was begun", || traces(&dir).iter().filter(|n| n.ends_with(".lz4") || *n == "current.trace").count() == 2);
    until("it holds something", || dir.join("current.trace.meta").exists());
    only_the_group_reads(&dir, gid, &[".trace.lz4"]);
    daemon.kill();
    // Somebody changed modes meanwhile, and the next recorder sees only what it may.
    fs::set_permissions(dir.join("current.trace"), fs::Permissions::from_mode(0o666)).unwrap();
    let mut daemon = start("777");
    daemon.says("finished");
    until("it records", || dir.join("current.trace.meta").exists());
    only_the_group_reads(&dir, gid, &sidecars);
    daemon.kill();
    fs::write(dir.join("current.trace"), "no trace").unwrap();
    let mut daemon = start("22");
    daemon.says("current.trace was no trace and is kept as");
    until("it records", || dir.join("current.trace.meta").exists());
    only_the_group_reads(&dir, gid, &["current.trace.corrupt."]);
    daemon.stop();
    only_the_group_reads(&dir, gid, &sidecars);
}

#[test]
fn hangup_begins_another_file_and_nothing_is_lost_at_the_seam() {
    let dir = TempDir::new().unwrap();
    let daemon = daemon(dir.path(), &[]);
    for files in 2..=4 {
        let before = length(dir.path());
        until("a second is recorded", || length(dir.path()) > before + SECOND);
        daemon.signal("HUP");
        let count = || traces(dir.path()).iter().filter(|n| n.ends_with(".lz4") || *n == "current.trace").count();
        until("another file was begun", || count() == files);
    }
    let at = daemon.signal("TERM");
    let (status, said) = daemon.ends();
    assert_eq!(status, Some(0), "{said}");
    let names = traces(dir.path());
    assert!(names.iter().any(|n| n.ends_with(".2.trace.lz4")) || names.len() > 4, "{names:?}");
    let ticks = ticks(dir.path());
    assert!(ticks.len() > 300, "{}", ticks.len());
    assert!(ticks.windows(2).all(|w| w[1].0 - w[0].0 == 10 * MILLI), "a tick is missing at a seam");
    let last = ticks.last().unwrap().0;
    assert!(last + 300 * MILLI > at, "{} ms before the signal are missing", at.saturating_sub(last) / MILLI);
    // Every file has its footer: its index at the end says where its blocks are, and its first one is at byte 28.
    for name in names.iter().filter(|n| !n.ends_with(".meta")) {
        let bytes = fs::read(dir.path().join(name)).unwrap();
        let n = u32::from_le_bytes(*bytes.last_chunk().unwrap()) as usize;
        let footer = &bytes[bytes.len() - 4 - 16 * n..];
        assert!(n > 1 && footer[8..16] == 28u64.to_le_bytes(), "{name}: {n} blocks");
    }
    assert!(!open(dir.path()).grows());
    let dump = prints(&["dump", path(&dir)]);
    assert!(dump.contains("4 files") && !dump.contains("not observed"), "{dump}");
}

#[test]
fn what_is_too_old_or_too_much_goes_and_the_file_being_written_stays() {
    let kept = recorded("mix");
    let good = fs::read(kept.path().join("current.trace")).unwrap();
    let old = ["2020-01-01_10.trace.lz4", "2020-01-01_11.trace.lz4", "2020-01-01_11.1.trace.lz4"];
    let fill = || {
        let dir = TempDir::new().unwrap();
        old.iter().for_each(|name| fs::write(dir.path().join(name), &good).unwrap());
        dir
    };
    let left = |dir: &Path| old.iter().filter(|name| dir.join(name).exists()).count();
    let dir = fill();
    let all = daemon(dir.path(), &["-R", "0"]);
    let default = fill();
    let day = daemon(default.path(), &[]);
    until("the default removes what is older than a day", || left(default.path()) == 0);
    until("it records", || length(dir.path()) > 2 * SECOND);
    assert_eq!(left(dir.path()), 3, "-R 0 keeps all, however old");
    day.stop();
    all.stop();
    // Room for two of the three: the oldest goes.
    let dir = fill();
    let gib = format!("{:.9}", (good.len() as f64 * 2.5) / 1_073_741_824.0);
    let two = daemon(dir.path(), &["-R", "0", "--retention-gb", &gib]);
    until("the oldest is removed", || !dir.path().join(old[0]).exists());
    until("it records", || length(dir.path()) > SECOND);
    assert!(dir.path().join(old[2]).exists());
    two.stop();
    // No room at all: all goes but what is being written.
    let dir = fill();
    let none = daemon(dir.path(), &["-R", "0", "--retention-gb", "0.000000001"]);
    until("all finished files are removed", || left(dir.path()) == 0);
    until("it records", || length(dir.path()) > SECOND);
    none.kill();
    let last = length(dir.path());
    assert!(last > SECOND);
    for bad in ["-1", "NaN", "much"] {
        refused(&["--daemon", "-T", path(&dir), &format!("--retention-gb={bad}")], 2, &["--retention-gb", "not a number, 0 or more"]);
    }
}

#[test]
fn texts_of_queries_written_again_and_again_are_kept_once() {
    let top = TempDir::new().unwrap();
    let texts = top.path().join("query_texts.jsonl");
    let lines = |n: u64| (0..n).map(|i| format!("{{\"q\":\"{}\",\"t\":\"SELECT {}\",\"ts\":1}}\n", i % 50, i % 50)).collect::<String>();
    fs::write(&texts, lines(10_000)).unwrap();
    let daemon = Daemon::start(top.path(), &["--script", &scenario("queries")]);
    until("it records", || length(top.path()) > SECOND / 2);
    daemon.stop();
    let now = fs::read_to_string(&texts).unwrap();
    assert!(now.starts_with(&lines(50)) && now.lines().count() < 100, "{} lines", now.lines().count());
    assert_eq!(fs::metadata(&texts).unwrap().permissions().mode() & 0o777, 0o640);
}
