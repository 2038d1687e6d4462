//! A server upgraded in place: another major version on the same data directory.

use crate::binary::{now, prints, until};
use crate::support::binaries;
use crate::support::{Options, Server, Stop, wait_until};
use crate::{ask, events, newest, recorded_after, watch};
use pg_wait_tracer::analysis::question::Ask;
use pg_wait_tracer::trace::clock::{SECOND, Span, Ts};
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A postmaster started by hand. Dropped, it is stopped.
struct ByHand(Child);

impl Drop for ByHand {
    fn drop(&mut self) {
        std::process::Command::new("kill").args(["-QUIT", &self.0.id().to_string()]).status().ok();
        self.0.wait().ok();
    }
}

fn time_of(dir: &std::path::Path, window: Span, name: &str) -> u64 {
    events(dir, window).iter().filter(|e| e.0 == name).map(|e| e.1).sum()
}

#[test]
fn an_upgrade_in_place_goes_on_in_the_same_directory() {
    let (Some(mut old), Some(mut new)) = (Server::start("16", &Options::new()), Server::start("17", &Options::new())) else { return };
    let Some(cache) = binaries::cache() else { return };
    let dir = TempDir::new().unwrap();
    let mut daemon = watch(&old, dir.path(), &[]);
    daemon.says("recording into");
    let sleep = "SELECT pg_sleep(600)";
    let first = old.session(sleep);
    until("the sleep is recorded", || {
        let end = Ts(newest(dir.path()));
        end.0 > 0 && time_of(dir.path(), Span::new(end - SECOND, end), "Timeout:PgSleep") > 0
    });
    recorded_after(dir.path(), now() + 2 * SECOND);
    let upgraded = now();
    let pgdata = old.pgdata();
    old.stop(Stop::Fast);
    drop(first);
    new.stop(Stop::Fast);
    fs::rename(&pgdata, pgdata.with_extension("16")).unwrap();
    fs::rename(new.pgdata(), &pgdata).unwrap();
    daemon.says("the server stopped");
    let mut command = new.account().command(cache.join("servers/17/bin/postgres"));
    let postmaster = ByHand(command.arg("-D").arg(&pgdata).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    assert!(wait_until(Duration::from_secs(60), || new.try_connect("postgres", "postgres").is_ok()), "the new server did not start");
    until("the server is back", || daemon.times("is back") == 1);
    let second = new.session(sleep);
    until("the sleep is recorded", || {
        let end = Ts(newest(dir.path()));
        end.0 > upgraded + SECOND && time_of(dir.path(), Span::new(end - SECOND / 2, end), "Timeout:PgSleep") > 0
    });
    recorded_after(dir.path(), now() + 2 * SECOND);
    drop(second);
    let said = daemon.stop();
    assert!(!said.contains("NOT RECORDING"), "{said}");
    drop(postmaster);
    // Two files, each of its version; and all of it as one recording.
    let disk = crate::open(dir.path());
    assert_eq!(disk.size().0, 2);
    let extent = pg_wait_tracer::trace::Trace::extent(&disk).unwrap();
    let before = Span::new(extent.start, Ts(upgraded));
    let after = Span::new(extent.end - 2 * SECOND, extent.end);
    assert_eq!(ask(dir.path(), Ask::TimeModel, before).server.major, 16);
    assert_eq!(ask(dir.path(), Ask::TimeModel, after).server.major, 17);
    let path = dir.path().to_str().unwrap();
    let dump = prints(&["dump", path]);
    assert!(dump.contains("2 files") && dump.contains("not observed") && dump.contains("Timeout:PgSleep"), "{dump}");
    let both = events(dir.path(), extent);
    let parts = [before, Span::new(Ts(upgraded), extent.end)].map(|w| events(dir.path(), w));
    for (name, ns) in &both {
        // 17 spells some names in another way: in the whole they are as in the newer one.
        let sum: u64 = parts.iter().flatten().filter(|e| e.0.eq_ignore_ascii_case(name)).map(|e| e.1).sum();
        assert_eq!(*ns, sum, "{name}: the whole is its parts\n{both:?}\n{parts:?}");
    }
    // The loops of background processes have other numbers in 17, and the same names.
    for (name, _) in parts.iter().flatten() {
        assert!(both.iter().any(|b| b.0.eq_ignore_ascii_case(name)), "{name} of a part is not in the whole: {both:?}");
    }
    assert!(both.iter().all(|e| !e.0.contains(":0x")), "{both:?}");
    let walwriter = "Activity:WalWriterMain";
    assert!(parts.iter().all(|p| p.iter().any(|e| e.0 == walwriter)), "{parts:?}");
}
