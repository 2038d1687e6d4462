//! On a server as it comes, which computes no query ids: nothing waits for one so long that a picture would be wrong meanwhile.

use super::{SECONDS, free, session};
use crate::support::watch::Watch;
use crate::support::{Options, Server, wait_until};
use pg_wait_tracer::analysis::answer::Body;
use pg_wait_tracer::analysis::question::Ask;
use pg_wait_tracer::capture::sys::perf::Watchpoint;
use pg_wait_tracer::capture::window::Kind;
use pg_wait_tracer::trace::clock::{MILLI, SECOND, Span, Window};
use pg_wait_tracer::trace::record::QueryId;
use std::time::{Duration, Instant};

#[test]
fn waits_in_progress_are_load_while_they_last() {
    for version in ["16", "18"] {
        let Some(server) = Server::start(version, &Options::new()) else { return };
        server.psql("CREATE TABLE t (id int)");
        let mut holder = server.connect();
        holder.batch_execute("BEGIN; LOCK TABLE t").unwrap();
        // Waiting for a table's lock is part of parse analysis: there is no id yet, whatever the server computes.
        let _waiters: Vec<_> = (0..2).map(|_| server.session("SELECT * FROM t")).collect();
        let _sleepers: Vec<_> = (0..4).map(|_| server.session("SELECT pg_sleep(100)")).collect();
        let mut looker = server.connect();
        let there = "SELECT count(*) FROM pg_stat_activity WHERE wait_event IN ('relation', 'PgSleep')";
        assert!(wait_until(SECONDS(20), || looker.query_one(there, &[]).unwrap().get::<_, i64>(0) == 6));
        drop(looker);
        for kind in [Kind::Exact, Kind::Blocking] {
            let mut watch = Watch::windows(&server, free());
            watch.run(Duration::from_millis(300));
            watch.open(kind, None);
            watch.run(SECONDS(4));
            // Some of the last seconds, of which all is to be told after one.
            let end = watch.last(SECONDS(1)).end - SECOND;
            let window = Span::new(end - 2 * SECOND, end);
            let answer = watch.ask(Ask::TimeModel, Window::Fixed(window));
            let load = answer.db_time_ns as f64 / window.len() as f64;
            println!("{version} {kind:?}: AAS {load:.3} of 6 while they wait, {}", answer.coverage.fidelity.name());
            assert!((5.9..6.3).contains(&load), "{version} {kind:?}: {load}");
            watch.close();
        }
    }
}

#[test]
fn a_wait_is_no_older_than_its_command() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    let mut client = server.connect();
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
    let mut watch = Watch::windows(&server, free());
    watch.run(Duration::from_millis(300));
    watch.open(Kind::Exact, None);
    let (began, when) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        client.batch_execute("SELECT pg_sleep(1.5)").unwrap();
        began.send(Instant::now()).unwrap();
        // Ends with the server.
        client.batch_execute("SELECT pg_sleep(100)").ok();
    });
    watch.run(SECONDS(3));
    let second = when.try_recv().unwrap();
    let who = session(&watch, pid);
    let row = watch.active().into_iter().find(|r| r.who.session == who).unwrap();
    let age = second.elapsed().as_nanos() as u64;
    println!("in {} for {:.2} s, the command is {:.2} s old", row.name, row.for_ns as f64 / 1e9, age as f64 / 1e9);
    assert!(row.name == "Timeout:PgSleep" && row.for_ns < age + 100 * MILLI && row.for_ns + SECOND > age, "{row:?}");
    drop(watch);
    drop(server);
    sleeper.join().unwrap();
}

#[test]
fn executions_are_of_the_query_whose_time_they_have() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.pgbench(&["-i", "-q", "-s", "1"]).finish();
    let mut watch = Watch::windows(&server, free());
    watch.run(Duration::from_millis(300));
    watch.open(Kind::Exact, None);
    server.pgbench(&["-n", "-c", "1", "-t", "300"]).finish();
    watch.run(SECONDS(1));
    watch.close();
    let Body::Queries { queries } = watch.ask(Ask::Queries, Window::Fixed(watch.last(SECONDS(60)))).body else { panic!() };
    let ended = |q: &&pg_wait_tracer::analysis::answer::QueryRow| q.executions.map_or(0, |e| e.count);
    let all: u64 = queries.iter().map(|q| ended(&q)).sum();
    let unknown: u64 = queries.iter().filter(|q| q.sql.query == QueryId::NONE).map(|q| ended(&q)).sum();
    println!("{all} executions, of them {unknown} of no known query");
    // Seven statements of 300 transactions; of those without a wait the text may be gone before anybody looks.
    assert!(all >= 2_000 && unknown * 10 < all, "{unknown} of {all}: {queries:#?}");
}

/// Watchpoints on everybody, as another tracer has them.
#[test]
fn a_window_that_can_follow_nobody_is_none() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    let children = format!("/proc/{0}/task/{0}/children", server.pid());
    let there = || std::fs::read_to_string(&children).unwrap();
    // Some are started a while after the server answers.
    let mut processes = there();
    assert!(wait_until(SECONDS(20), || {
        std::thread::sleep(SECONDS(1));
        std::mem::replace(&mut processes, there()) == processes
    }));
    let taken: Vec<_> = processes
        .split_whitespace()
        .flat_map(|pid| (0..4).map(move |i| Watchpoint::new(pid.parse().unwrap(), 0x1000 + i * 8).unwrap()))
        .collect();
    assert!(taken.len() >= 16);
    let mut watch = Watch::windows(&server, free());
    watch.run(Duration::from_millis(300));
    watch.open(Kind::Exact, None);
    let closed = watch.closed(SECONDS(5));
    println!("{}", closed.reason);
    assert!(closed.reason.starts_with("no backend could be followed: ") && closed.reason.contains("debug registers"), "{closed:?}");
}
