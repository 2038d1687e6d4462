//! Windows that open by themselves, on real servers: the daemon as it is run, an incident, and what the recording says of it afterwards.
#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

#[path = "support/arming.rs"]
mod arming;
#[path = "support/binary.rs"]
mod binary;
mod support;

use binary::{Daemon, until};
use pg_wait_tracer::analysis::answer::{self, Answer, Body};
use pg_wait_tracer::analysis::filter::Filter;
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::capture::budget::Allowance;
use pg_wait_tracer::capture::escalation::Settings;
use pg_wait_tracer::capture::sampler::{Command, Policy};
use pg_wait_tracer::capture::window::Kind as Tier;
use pg_wait_tracer::pg::names::event_names;
use pg_wait_tracer::store::dir::{Dir, Options as Reading};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::clock::{SECOND, Span, Window};
use pg_wait_tracer::trace::codec::frame::Frames;
use pg_wait_tracer::trace::codec::records::{WINDOW_END, WINDOW_START, read_transitions};
use pg_wait_tracer::trace::codec::{FILE_HEADER, kind};
use pg_wait_tracer::trace::marker::{Kind, Marker, Reason};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use support::server::versions;
use support::watch::Watch;
use support::{Options, Running, Server};

/// Servers of both ways to say what a wait is: before 17 and since.
fn servers() -> impl Iterator<Item = Server> {
    versions().into_iter().filter(|v| v == "16" || v == "18").filter_map(|v| Server::start(&v, &Options::new()))
}

/// A daemon on a server; traps cost more on some machines than a window may.
fn watch(server: &Server, dir: &Path, arguments: &[&str]) -> Daemon {
    let pid = server.pid().to_string();
    let mut all = vec!["--pid", &pid, "--max-overhead", "100000"];
    all.extend_from_slice(arguments);
    let daemon = Daemon::start(dir, &all);
    until("it records", || dir.join("current.trace").exists());
    daemon
}

const NO_CPU: &str = "--anomaly-cpu-cusum-disable";
const NO_LOAD: &str = "--anomaly-aas-factor=0";
const NO_LOCKS: &str = "--anomaly-lock-fraction=0";

fn ask(dir: &Path, ask: Ask, filter: &str, window: Option<Span>) -> Answer {
    let mut disk = Dir::open(dir, Reading { names: event_names, ..Reading::default() }).unwrap();
    let window = window.unwrap_or(disk.extent().unwrap());
    disk.narrow(window);
    let mut question = Question::new(ask, Window::Fixed(window));
    question.filter = Filter::parse(filter).unwrap();
    answer(&disk, &question)
}

fn answer(disk: &Dir, question: &Question) -> Answer {
    pg_wait_tracer::analysis::answer(disk, question).unwrap()
}

fn markers(dir: &Path) -> Vec<Marker> {
    let Body::Load(answer::Load { markers, .. }) = ask(dir, Ask::Load { buckets: 10 }, "", None).body else { panic!() };
    markers
}

fn one(markers: &[Marker], kind: Kind) -> &Marker {
    let found: Vec<&Marker> = markers.iter().filter(|m| m.kind == kind).collect();
    assert_eq!(found.len(), 1, "{kind:?} in {markers:#?}");
    found[0]
}

/// Openings and closings as readers of trace format v3 see them: marker and the number in the place of the query.
fn edges(dir: &Path) -> Vec<(u32, i64)> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.to_string_lossy().contains(".trace") && !p.to_string_lossy().ends_with(".meta"))
    {
        let bytes = std::fs::read(file).unwrap();
        for f in Frames(&bytes[FILE_HEADER..]).filter(|f| f.header.kind == kind::TRANSITIONS) {
            let rows = read_transitions(3, &f.header, f.stored()).unwrap();
            found.extend(
                rows.old.iter().zip(&rows.query).filter(|(e, _)| [WINDOW_START, WINDOW_END].contains(e)).map(|(e, q)| (*e, *q as i64)),
            );
        }
    }
    found
}

fn waiters(server: &Server, n: usize) -> Vec<Running> {
    (0..n).map(|_| server.session("SET lock_timeout = '60s'; LOCK TABLE convoy")).collect()
}

fn waiting(server: &Server) -> usize {
    server.psql("SELECT count(*) FROM pg_locks WHERE NOT granted").parse().unwrap()
}

#[test]
fn a_convoy_opens_a_window_a_lone_waiter_does_not_and_the_recording_holds_it() {
    for server in servers() {
        server.psql("CREATE TABLE convoy()");
        let dir = tempfile::tempdir().unwrap();
        let daemon = watch(&server, dir.path(), &[NO_CPU, NO_LOAD, "--anomaly-window-s", "4"]);
        let holder = server.session("BEGIN; LOCK TABLE convoy; SELECT pg_sleep(9)");
        until("the holder has it", || server.psql("SELECT count(*) FROM pg_locks WHERE relation = 'convoy'::regclass") == "1");
        let mut all = waiters(&server, 1);
        until("it waits", || waiting(&server) == 1);
        sleep(Duration::from_secs(2));
        assert_eq!(daemon.times("window open"), 0, "{}", daemon.stderr());
        all.extend(waiters(&server, 5));
        until("a window", || daemon.times("exact window open for 4 s: anomaly (lock: ") == 1);
        assert!(
            markers(dir.path()).iter().any(|m| m.kind == Kind::Opened) || {
                sleep(Duration::from_secs(1));
                markers(dir.path()).iter().any(|m| m.kind == Kind::Opened)
            },
            "told at once"
        );
        until("closed", || daemon.times("window closed after") == 1);
        drop(holder);
        drop(all);
        daemon.stop();
        let markers = markers(dir.path());
        let (opened, closed) = (one(&markers, Kind::Opened), one(&markers, Kind::Closed));
        assert_eq!((opened.reason, closed.reason, opened.seconds), (Reason::Anomaly, Reason::Expired, Some(4)), "{markers:#?}");
        let fire = markers.iter().find(|m| m.kind == Kind::Fire && m.granted).unwrap();
        assert!(fire.detail.starts_with("lock: ") && fire.at <= opened.at, "{fire:?}");
        let late = closed.at.since(opened.at + 4 * SECOND);
        println!("{}: closed {} us late", server.major(), late / 1_000);
        assert!(late < SECOND / 2, "{late}");
        // Exact, and the convoy in it.
        let window = Span::new(opened.at, closed.at);
        let events = ask(dir.path(), Ask::Events, "class=Lock", Some(window));
        assert!(events.coverage.exact_ns > window.len() * 99 / 100, "{:?}", events.coverage);
        let Body::Events { events } = events.body else { panic!() };
        assert!(events[0].name == "Lock:relation" && events[0].time_ns > 22 * SECOND && events[0].measured.is_some(), "{events:?}");
        let dump = binary::prints(&["dump", dir.path().to_str().unwrap()]);
        let told = ["exact window opened (anomaly, 4 s): lock: ", "exact window closed (expired, 4 s)", "anomaly, 4 s: lock: "];
        assert!(told.iter().all(|w| dump.contains(w)), "{dump}");
        assert_eq!(edges(dir.path()), [(WINDOW_START, 4 << 8 | 1), (WINDOW_END, (closed.seconds.unwrap() << 8 | 2) as i64)]);
    }
}

#[test]
fn a_jump_of_the_load_opens_one_that_ends_with_the_budget() {
    for server in servers() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = watch(&server, dir.path(), &[NO_CPU, NO_LOCKS, "--escalation-budget", "3"]);
        sleep(Duration::from_secs(7));
        assert_eq!(daemon.times("window"), 0, "{}", daemon.stderr());
        let load: Vec<Running> = (0..8).map(|_| server.session("SELECT pg_sleep(12)")).collect();
        until("a window", || daemon.times("exact window open for 3 s: anomaly (load ") == 1);
        until("closed", || daemon.times("the budget of this hour was used up") == 1);
        drop(load);
        daemon.stop();
        let markers = markers(dir.path());
        let (opened, closed) = (one(&markers, Kind::Opened), one(&markers, Kind::Closed));
        assert_eq!((opened.reason, closed.reason), (Reason::Anomaly, Reason::Budget));
        let length = closed.at.since(opened.at);
        println!("{}: {} us beyond the budget", server.major(), length.saturating_sub(3 * SECOND) / 1_000);
        assert!((3 * SECOND..3 * SECOND + SECOND / 2).contains(&length), "{length}");
        // What was spent is known to the next recorder of this server, and of no other.
        let daemon = watch(&server, dir.path(), &["--escalation-budget", "3", "--mode", "tiered"]);
        until("its account", || {
            let mut disk = Dir::open(dir.path(), Reading::default()).unwrap();
            disk.refresh().unwrap();
            disk.health().escalation.as_ref().is_some_and(|e| e.remaining_s.unwrap() < 0.1 && e.warming_s == 0.0 && e.windows == 0)
        });
        daemon.stop();
        std::fs::write(dir.path().join("escalation.json"), "{}").unwrap();
        let daemon = watch(&server, dir.path(), &["--mode", "tiered"]);
        until("it says so", || daemon.times("budget and usual load begin anew") == 1);
        daemon.stop();
    }
}

#[test]
fn a_storm_on_the_cpu_opens_one_and_no_budget_none() {
    for server in servers() {
        for (budget, says) in [("300", "cpu_saturation (CPU: "), ("0", "cpu_saturation and no window: CPU: ")] {
            let dir = tempfile::tempdir().unwrap();
            let arguments = [NO_LOAD, NO_LOCKS, "--anomaly-cpu-capacity=1", "--anomaly-window-s=2", "--escalation-budget", budget];
            let mut daemon = watch(&server, dir.path(), &arguments);
            let load: Vec<Running> = (0..3).map(|_| server.session("SELECT count(*) FROM generate_series(1, 1000000000)")).collect();
            daemon.says(says);
            if budget == "0" {
                sleep(Duration::from_secs(3));
                assert_eq!(daemon.times("no window"), 1, "once: {}", daemon.stderr());
                assert_eq!(daemon.times("--escalation-budget 0"), 1);
            } else {
                daemon.says("window closed after");
            }
            server.psql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%generate_series%' AND pid <> pg_backend_pid()",
            );
            drop(load);
            daemon.stop();
            let markers = markers(dir.path());
            let fire = markers.iter().find(|m| m.kind == Kind::Fire).unwrap();
            assert_eq!((fire.reason, fire.granted), (Reason::CpuSaturation, budget != "0"), "{markers:#?}");
            assert_eq!(markers.iter().any(|m| m.kind == Kind::Opened), budget != "0");
            assert_eq!(edges(dir.path()).first().map(|e| e.1 & 0xff), (budget != "0").then_some(6));
        }
    }
}

#[test]
fn by_hand_exact_windows_have_a_budget_blocking_ones_none_and_sampled_mode_opens_nothing() {
    for server in servers() {
        let settings = Settings { budget: Allowance::Ns(2 * SECOND), ..Settings::default() };
        let mut watch = Watch::policy(&server, Policy::Auto { settings: Box::new(settings), learned: None });
        let open = |kind, seconds| Command::Open { kind, seconds };
        let done = watch.order(open(Tier::Blocking, Some(60))).unwrap();
        assert_eq!((done.granted_s, watch.health().escalation.unwrap().remaining_s), (Some(60), Some(2.0)));
        let done = watch.order(open(Tier::Exact, Some(60))).unwrap();
        assert_eq!((done.granted_s, done.remaining_s), (Some(2), Some(2)));
        let window = watch.health().window.unwrap();
        assert_eq!((window.open, window.tier, window.cause.as_str()), (true, Tier::Exact.fidelity(), "manual"));
        let closed = watch.closed(Duration::from_secs(10));
        assert!(closed.reason.contains("budget"), "{closed:?}");
        let denied = watch.order(open(Tier::Exact, None)).unwrap_err();
        assert!(denied.contains("exhausted") && watch.health().window_error == Some(denied), "{:?}", watch.health());
        let account = watch.health().escalation.unwrap();
        assert_eq!((account.windows, account.denied, account.budget_closed, account.remaining_s), (1, 1, 1, Some(0.0)));
        let Body::Load(load) = watch.ask(Ask::Load { buckets: 1 }, Window::Follow(60 * SECOND)).body else { panic!() };
        let told: Vec<(Kind, Reason)> = load.markers.iter().map(|m| (m.kind, m.reason)).collect();
        let manual = Reason::Manual;
        assert_eq!(told, [(Kind::Opened, manual), (Kind::Closed, Reason::Request), (Kind::Opened, manual), (Kind::Closed, Reason::Budget)]);
        let mut watch = Watch::policy(&server, Policy::Never);
        for kind in [Tier::Exact, Tier::Blocking] {
            assert!(watch.order(open(kind, Some(5))).unwrap_err().contains("--mode tiered"));
        }
        assert_eq!((watch.health().window, watch.health().escalation), (None, None));
    }
}

#[test]
fn where_memory_is_not_mapped_it_says_once_why_no_window_opens_and_records() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let load: Vec<Running> = (0..3).map(|_| server.session("SELECT pg_sleep(8)")).collect();
    let daemon = watch(&server, dir.path(), &["--access", "readv", "--mode", "tiered", "--anomaly-aas-factor", "0"]);
    sleep(Duration::from_secs(3));
    drop(load);
    let said = daemon.stop();
    assert_eq!(said.matches("no window: exact windows need the server's memory mapped").count(), 1, "{said}");
    let active = ask(dir.path(), Ask::TimeModel, "event=Timeout:PgSleep", None);
    assert!(active.db_time_ns > 3 * SECOND, "{active:?}");
}

#[test]
fn arming_five_hundred_does_not_stop_the_ticks() {
    let Some(server) = Server::start("18", &arming::options()) else { return };
    let _clients = arming::connect(&server, 500);
    for tier in [Tier::Exact, Tier::Blocking] {
        let run = arming::open_and_close(&server, tier, Duration::from_secs(2));
        println!("{tier:?}: {run}");
        assert!(run.window.armed >= 500 && run.window.unarmed == 0, "{:?}", run.window);
        // Far below what a synchronous arming took, far above what a busy machine does.
        assert!(run.within(100_000_000) > 0.9, "{run}");
        assert!(run.untold_ns < 10_000_000, "{run}");
        assert!(run.blind_ns < 2 * SECOND, "the last was armed after {} ms", run.blind_ns / 1_000_000);
    }
}
