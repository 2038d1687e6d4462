//! No room on the disk: said once, survived, and written down.

use crate::binary::{now, objects, prints, until};
use crate::support::{Options, Server};
use crate::{newest, recorded_after, watch};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A small file system of one's own; `None`, only without `PGWT_REQUIRE_LIVE`, where none can be mounted.
struct Small(TempDir);

impl Small {
    fn mount(size: &str) -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(dir.path()).status();
        if mounted.is_ok_and(|s| s.success()) {
            return Some(Self(dir));
        }
        assert!(std::env::var_os("PGWT_REQUIRE_LIVE").is_none(), "no small file system can be mounted here");
        None
    }

    /// Takes all room there is.
    fn fill(&self) -> std::path::PathBuf {
        let path = self.0.path().join("filler");
        let mut file = fs::File::create(&path).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0.path()).status().ok();
    }
}

fn holes(dir: &Path) -> Vec<String> {
    let disk = crate::open(dir);
    let extent = pg_wait_tracer::trace::Trace::extent(&disk).unwrap();
    disk.holes(extent).into_iter().map(|h| h.why).collect()
}

#[test]
fn a_full_disk_is_told_and_survived_and_the_server_does_not_notice() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    let Some(small) = Small::mount("8m") else { return };
    server.pgbench(&["-i", "-q", "-s", "2"]).finish();
    let mut load = server.pgbench(&["-S", "-n", "-c", "4", "-j", "1", "-T", "3600"]);
    let dir = small.0.path().join("traces");
    let mut daemon = watch(&server, &dir, &["--mode", "full", "--max-overhead", "1000"]);
    daemon.says("exact window open");
    recorded_after(&dir, now());
    let filler = small.fill();
    let full = now();
    daemon.says("NOT RECORDING");
    assert!(daemon.stderr().contains("No space left on device"), "{}", daemon.stderr());
    // Nobody waits for the disk: neither the server nor the daemon.
    let (began, mut client) = (Instant::now(), server.connect());
    for _ in 0..20 {
        let asked = Instant::now();
        client.query_one("SELECT count(*) FROM pgbench_accounts WHERE aid < 100", &[]).unwrap();
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(began.elapsed() < Duration::from_secs(20) && load.is_running() && daemon.is_running());
    assert_eq!(daemon.times("NOT RECORDING"), 1, "{}", daemon.stderr());
    fs::remove_file(&filler).unwrap();
    let room = now();
    daemon.says("recording again");
    recorded_after(&dir, room);
    assert_eq!(daemon.times("recording again"), 1, "{}", daemon.stderr());
    until("the hole is written down", || holes(&dir).iter().any(|h| h.contains("No space left on device")));
    let at = |ns: u64| jiff::Timestamp::from_nanosecond(ns.into()).unwrap().to_string();
    let path = dir.to_str().unwrap();
    let (from, to) = (at(full - 1_000_000_000), at(room + 500_000_000));
    let text = prints(&["--replay", "-T", path, "--view", "system_event", "--from", &from, "--to", &to]);
    assert!(text.contains("are not in the recording: records were not written") && text.contains("No space left on device"), "{text}");
    let middle = u64::midpoint(full, room);
    let json = objects(&["--replay", "-T", path, "--format", "json", "--from", &at(middle), "--to", &at(middle + 200_000_000)]).remove(0);
    assert_eq!((&json["fidelity"], &json["aas"]), (&"none".into(), &serde_json::Value::Null), "not zero: {json}");
    // Full again at its end: it ends all the same, and says what is not there.
    small.fill();
    until("it is said again", || daemon.times("NOT RECORDING") == 2);
    let last = newest(&dir);
    let asked = Instant::now();
    daemon.signal("TERM");
    let (status, said) = daemon.ends();
    assert!(asked.elapsed() < Duration::from_secs(10));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.lines().last().unwrap().contains("No space left on device"), "{said}");
    assert!(newest(&dir) >= last);
    drop(load);
}
