//! On a real server: load is what PostgreSQL has, windows open and close on demand, and hostile clients do not disturb the capture.

use crate::binary::Daemon;
use crate::support::{Options, Server};
use crate::{Talk, address, ask, prints, scrape, until};
use pg_wait_tracer::store::dir::{self, Dir};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::clock::{Span, Ts};
use serde_json::Value;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn watch(server: &Server, rec: &Path, more: &[&str]) -> Daemon {
    let pgdata = server.pgdata();
    let mut daemon = Daemon::start(rec, &[&["-D", pgdata.to_str().unwrap()], more].concat());
    daemon.says("recording into");
    until("it has an account", || Talk::to(rec).is_some_and(|mut t| t.ask(r#"{"cmd":"status"}"#)["sampler_healthy"] == true));
    daemon
}

#[test]
fn five_sessions_that_sleep_are_five_active_sessions() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    let dir = TempDir::new().unwrap();
    let sleepers: Vec<_> = (0..5).map(|_| server.session("SELECT pg_sleep(120)")).collect();
    let daemon = watch(&server, dir.path(), &["--metrics-listen", ":0"]);
    let at = address(&daemon);
    let mut client = server.connect();
    let mut asleep =
        || -> i64 { client.query_one("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'", &[]).unwrap().get(0) };
    until("five sleep", || asleep() == 5);
    until("it is counted", || scrape(&at).families.contains_key("pg_wait_tracer_event_seconds_total"));
    let event = [("class", "Timeout"), ("event", "PgSleep")];
    // Once all that is counted is of a time in which all slept.
    std::thread::sleep(Duration::from_secs(3));
    let first = scrape(&at);
    let mut truth = Vec::new();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        truth.push(asleep());
        std::thread::sleep(Duration::from_millis(250));
    }
    let second = scrape(&at);
    assert!(truth.iter().all(|n| *n == 5), "{truth:?}");
    let seconds = second.sum("observed_seconds_total") - first.sum("observed_seconds_total");
    let aas = (second.get("event_seconds_total", &event) - first.get("event_seconds_total", &event)) / seconds;
    let by_clock = (second.get("event_seconds_total", &event) - first.get("event_seconds_total", &event)) / began.elapsed().as_secs_f64();
    eprintln!("PgSleep: {aas:.4} AAS over {seconds:.2} s observed; {by_clock:.3} by the scraper's clock");
    assert!((aas - 5.0).abs() < 0.15, "{aas}");
    // By the clock of whoever scrapes it is a second more or less, in which the counters step.
    assert!((by_clock - 5.0).abs() < 5.0 * 1.3 / 10.0, "{by_clock}");
    assert_eq!(second.get("metering_dropped_records_total", &[]), 0.0);
    drop(sleepers);
    daemon.stop();
}

#[test]
fn a_window_is_opened_and_closed_by_ctl() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.pgbench(&["-i", "-q", "-s", "1"]).finish();
    let load = server.pgbench(&["-n", "-c", "2", "-T", "3600", "-R", "200"]);
    let dir = TempDir::new().unwrap();
    let rec = dir.path();
    let daemon = watch(&server, rec, &["--mode", "tiered", "--max-overhead", "1000", "--metrics-listen", ":0"]);
    let at = address(&daemon);
    let ctl = |words: &[&str]| prints(&[&["ctl", "-T", rec.to_str().unwrap()], words].concat());
    assert_eq!(ask(rec, r#"{"cmd":"status"}"#)["escalation_supported"], true);
    let said = ctl(&["escalate", "4"]);
    assert!(said.starts_with("exact window open: 4 s granted"), "{said}");
    until("it is open", || ask(rec, r#"{"cmd":"status"}"#)["tier"] == "escalated");
    let status = ask(rec, r#"{"cmd":"status"}"#);
    assert_eq!(status["escalation_reason"], "manual", "{status}");
    assert!((1..=4).contains(&status["escalation_seconds_remaining"].as_u64().unwrap()), "{status}");
    until("it closes by itself", || ask(rec, r#"{"cmd":"status"}"#)["tier"] == "sampled");
    let opened: Value = serde_json::from_str(&ctl(&["escalate", "60", "--format", "json"])).unwrap();
    assert_eq!((&opened["escalated"], &opened["granted_s"]), (&Value::Bool(true), &Value::from(60)), "{opened}");
    std::thread::sleep(Duration::from_secs(1));
    assert!(ctl(&["deescalate"]).starts_with("no window is open"));
    until("it is closed", || ask(rec, r#"{"cmd":"status"}"#)["tier"] == "sampled");
    assert!(ctl(&["deescalate"]).starts_with("no window is open"), "once more is no error");
    until("waits are counted", || scrape(&at).sum("event_waits_total") > 100.0);
    let metrics = scrape(&at);
    assert_eq!(metrics.get("windows_opened_total", &[]), 2.0);
    assert!(metrics.get("events_total", &[]) > 1_000.0);
    assert!(metrics.get("observed_seconds_total", &[("fidelity", "exact")]) > 2.0);
    assert_eq!(metrics.get("ringbuf_drops_total", &[]), 0.0);
    drop(load);
    daemon.stop();
}

/// Asks for ticks taken, late ticks, dropped blocks.
fn ticks(rec: &Path) -> (u64, u64, u64) {
    let health = ask(rec, r#"{"cmd":"health"}"#);
    let of = |member: &str| health["health"][member].as_u64().unwrap();
    (of("ticks"), of("late_ticks"), of("dropped_blocks"))
}

/// Everything bad at once, until told to stop.
fn nuisance(rec: &Path, at: &str, stop: &AtomicBool) {
    let status = b"{\"cmd\":\"status\"}\n";
    let mut held: Vec<UnixStream> = Vec::new();
    let mut round = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        if let Ok(mut s) = UnixStream::connect(rec.join("pgwt.sock")) {
            let _ = s.set_nonblocking(true);
            let _ = match round % 5 {
                0 => s.write(&"{\"cmd\":\"metrics\"}\n".repeat(2_000).into_bytes()),
                1 => s.write(&vec![b'x'; 1 << 20]),
                2 => s.write(b"\xff\xfe{{{[[[\n\n\n"),
                3 => s.write(b"{\"cmd\":"),
                _ => s.write(status),
            };
            held.push(s);
        }
        if let Ok(mut s) = TcpStream::connect(at) {
            let _ = s.write(if round.is_multiple_of(2) { b"GET /metrics HTTP/1.1\r\n\r\n" } else { b"GET /met" });
        }
        if held.len() > 100 {
            held.drain(..50);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Two and a half seconds of hostile clients of one recorder: ticks and late ticks of another, or of the same.
fn annoyed(watched: &Path, rec: &Path, at: &str) -> (u64, u64) {
    let stop = Arc::new(AtomicBool::new(false));
    let before = ticks(watched);
    let nuisances: Vec<_> = (0..2)
        .map(|_| {
            let (rec, at, stop) = (rec.to_owned(), at.to_owned(), Arc::clone(&stop));
            std::thread::spawn(move || nuisance(&rec, &at, &stop))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(2_500));
    stop.store(true, Ordering::Relaxed);
    for nuisance in nuisances {
        nuisance.join().unwrap();
    }
    until("there is room again", || Talk::to(watched).is_some_and(|mut t| t.ask(r#"{"cmd":"health"}"#)["ok"] == true));
    let after = ticks(watched);
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn hostile_clients_do_not_disturb_the_capture() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    let dir = TempDir::new().unwrap();
    let rec = dir.path();
    let daemon = watch(&server, rec, &["--metrics-listen", ":0", "--sample-rate", "100"]);
    let at = address(&daemon);
    // The same load on the machine, on somebody else: what is late then is late because of that.
    let elsewhere = TempDir::new().unwrap();
    let other = crate::plays(elsewhere.path(), &["--metrics-listen", ":0"]);
    let (other_rec, other_at) = (elsewhere.path().join("rec"), address(&other));
    let (mut calm, mut hostile) = ((0, 0), (0, 0));
    for _ in 0..4 {
        let here = annoyed(rec, &other_rec, &other_at);
        calm = (calm.0 + here.0, calm.1 + here.1);
        let here = annoyed(rec, rec, &at);
        hostile = (hostile.0 + here.0, hostile.1 + here.1);
    }
    other.stop();
    eprintln!("late ticks: {} of {} with hostile clients elsewhere, {} of {} with them here", calm.1, calm.0, hostile.1, hostile.0);
    assert!(hostile.0 * 10 >= calm.0 * 9, "ticks are missing: {hostile:?} against {calm:?}");
    // A neighbour on the machine may delay some at any time.
    assert!(hostile.1 <= 2 * calm.1 + hostile.0 / 50, "{hostile:?} against {calm:?}");
    let after = ticks(rec);
    assert_eq!(after.2, 0, "blocks were dropped");
    let sum = scrape(&at);
    assert!(sum.get("control_clients_refused_total", &[]) + sum.get("control_clients_dropped_total", &[]) > 0.0);
    assert_eq!(sum.get("metering_dropped_blocks_total", &[]), 0.0);
    let gaps = ask(rec, r#"{"cmd":"health"}"#)["health"]["gaps"].clone();
    daemon.stop();
    // Every tick is on disk, none twice.
    let mut trace = Dir::open(rec, dir::Options::default()).unwrap();
    trace.narrow(trace.extent().unwrap());
    let mut recorded = Vec::new();
    trace.scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| recorded.extend(b.ticks().iter().map(|t| t.at)));
    let n = recorded.len() as u64;
    recorded.sort_unstable();
    recorded.dedup();
    assert_eq!(recorded.len() as u64, n);
    assert!(n >= after.0, "{n} recorded of {} and more", after.0);
    assert_eq!(gaps, 0);
}
