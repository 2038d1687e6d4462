//! The server goes and comes back, in every way: the daemon waits, takes it up again by itself, and the time between is a gap.

use crate::binary::{Daemon, now, objects, until};
use crate::support::{Options, Server, Stop};
use crate::{ask, events, newest, recorded_after, watch};
use pg_wait_tracer::analysis::answer::Body;
use pg_wait_tracer::analysis::question::Ask;
use pg_wait_tracer::trace::clock::{SECOND, Span, Ts};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Waits until the server is taken up again for the `n`th time and something was recorded since.
fn back(daemon: &Daemon, dir: &Path, n: usize) {
    until(&format!("the server is back: {}", daemon.stderr()), || daemon.times("is back") == n);
    recorded_after(dir, now());
}

/// The server was told to stop, was gone, and was there again: for so long the recording has a gap, and nobody has time in it.
fn is_a_gap(dir: &Path, [told, gone, again]: [u64; 3]) {
    // Not before the recording began.
    let window = Span::new(Ts(told - SECOND / 2), Ts(again));
    let answer = ask(dir, Ask::Sessions, window);
    let away = again - gone;
    let gap = answer.coverage.gap_ns;
    let (least, most) = (away.saturating_sub(SECOND / 2), again - told + SECOND / 2);
    assert!(gap > least && gap < most, "a gap of {gap} ns, not {least} to {most}");
    let Body::Sessions { sessions } = &answer.body else { panic!() };
    for s in sessions {
        let time = s.time_ns + s.idle_ns;
        assert!(time <= answer.coverage.observed_ns(), "{} has {time} ns of {} observed", s.who.pid, answer.coverage.observed_ns());
    }
    let at = |ns: u64| jiff::Timestamp::from_nanosecond(ns.into()).unwrap().to_string();
    let (from, to) = (at(gone + away / 3), at(gone + 2 * away / 3));
    let inside = objects(&["--replay", "-T", dir.to_str().unwrap(), "--format", "json", "--from", &from, "--to", &to]).remove(0);
    assert_eq!((&inside["aas"], &inside["fidelity"]), (&serde_json::Value::Null, &"none".into()), "nobody looked: {inside}");
}

#[test]
fn a_daemon_waits_for_its_server_and_records_when_it_comes() {
    let Some(mut server) = Server::start("18", &Options::new()) else { return };
    server.stop(Stop::Fast);
    let dir = TempDir::new().unwrap();
    let mut told = watch(&server, dir.path(), &[]);
    told.says("no PostgreSQL server is running on");
    assert!(told.stderr().contains("; waiting for it"), "{}", told.stderr());
    // Told to end while it waits.
    assert_eq!(told.stop().lines().count(), 1);
    let mut daemon = watch(&server, dir.path(), &[]);
    daemon.says("waiting for it");
    // Long enough for several looks: it is said once.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(daemon.times("waiting for it"), 1);
    server.restart();
    daemon.says("recording into");
    recorded_after(dir.path(), now());
    daemon.stop();
    // A process that is not there is not waited for.
    let other = TempDir::new().unwrap();
    crate::binary::refused(&["--daemon", "-T", other.path().to_str().unwrap(), "--pid", "999999999"], 1, &["no process 999999999"]);
}

#[test]
fn restarts_and_crashes_are_gaps_in_one_recording() {
    let Some(mut server) = Server::start("18", &Options::new()) else { return };
    let dir = TempDir::new().unwrap();
    let mut daemon = watch(&server, dir.path(), &[]);
    daemon.says("recording into");
    let sleeper = server.session("SELECT pg_sleep(600)");
    until("the sleeper is recorded", || {
        newest(dir.path()) > 0 && {
            let end = Ts(newest(dir.path()));
            events(dir.path(), Span::new(end - SECOND, end)).iter().any(|e| e.0 == "Timeout:PgSleep")
        }
    });
    let mut outages = Vec::new();
    let told = now();
    server.stop(Stop::Fast);
    let gone = now();
    drop(sleeper);
    daemon.says("the server stopped");
    std::thread::sleep(Duration::from_secs(3));
    server.restart();
    let again = now();
    back(&daemon, dir.path(), 1);
    outages.push([told, gone, again]);
    // A crash: the postmaster throws away the shared memory and makes it anew.
    server.crash_backend();
    back(&daemon, dir.path(), 2);
    let told = now();
    server.stop(Stop::Immediate);
    let gone = now();
    std::thread::sleep(Duration::from_secs(2));
    server.restart();
    outages.push([told, gone, now()]);
    back(&daemon, dir.path(), 3);
    let said = daemon.stop();
    for outage in outages {
        is_a_gap(dir.path(), outage);
    }
    assert!(said.contains("waiting for it to come back") && said.contains("the server stopped;"), "{said}");
    assert_eq!(said.matches("is back").count(), 3, "{said}");
    assert_eq!(crate::open(dir.path()).size().0, 1, "one recording");
    let dump = crate::binary::prints(&["dump", dir.path().to_str().unwrap()]);
    assert!(dump.contains("not observed") && dump.contains("Timeout:PgSleep"), "{dump}");
}

/// The next process that is started gets this id, if nobody else starts one meanwhile.
fn next_pid(pid: u32) -> bool {
    fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).is_ok()
}

/// A process of another program with this id.
fn stranger(pid: u32) -> Option<Child> {
    for _ in 0..200 {
        if !next_pid(pid) {
            return None;
        }
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        if child.id() == pid {
            return Some(child);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    None
}

#[test]
fn a_process_id_that_is_used_again_is_not_taken_for_the_server() {
    let Some(mut server) = Server::start("17", &Options::new()) else { return };
    let dir = TempDir::new().unwrap();
    let mut daemon = watch(&server, dir.path(), &[]);
    daemon.says("recording into");
    recorded_after(dir.path(), now());
    // Another program has the postmaster's number, and the server another.
    let pid = server.pid();
    server.stop(Stop::Fast);
    daemon.says("the server stopped");
    let Some(mut other) = stranger(pid) else {
        eprintln!("skipped: this machine does not let process ids be chosen");
        return;
    };
    server.restart();
    assert_ne!(server.pid(), pid);
    back(&daemon, dir.path(), 1);
    other.kill().unwrap();
    other.wait().unwrap();
    // The next server has the number of the one before.
    let mut same = false;
    let mut times = 1;
    for _ in 0..10 {
        let pid = server.pid();
        server.stop(Stop::Fast);
        next_pid(pid);
        server.restart();
        times += 1;
        back(&daemon, dir.path(), times);
        same |= server.pid() == pid;
        if same {
            break;
        }
    }
    assert!(same, "no restart had the same process id");
    daemon.stop();
}

#[test]
fn without_its_data_directory_it_waits_quietly() {
    let Some(mut server) = Server::start("18", &Options::new()) else { return };
    let dir = TempDir::new().unwrap();
    let mut daemon = watch(&server, dir.path(), &[]);
    recorded_after(dir.path(), now());
    let pgdata = server.pgdata();
    server.stop(Stop::Immediate);
    fs::remove_dir_all(&pgdata).unwrap();
    daemon.says("the server stopped; waiting for it to come back");
    // It looks often at first, for five seconds.
    std::thread::sleep(Duration::from_secs(6));
    let (began, before) = (Instant::now(), daemon.cpu());
    std::thread::sleep(Duration::from_secs(5));
    let share = (daemon.cpu() - before) / began.elapsed().as_secs_f64();
    println!("waiting takes {:.1} % of a CPU", share * 100.0);
    // Twice a second it looks at every process of the machine; a program built for debugging takes several times as long for that.
    assert!(share < 0.15, "{share} of a CPU");
    assert!(daemon.is_running());
    assert_eq!(daemon.stderr().lines().filter(|l| l.contains("stopped")).count(), 1, "{}", daemon.stderr());
    daemon.stop();
}
