//! The sampled tier against real servers: what it says must be what PostgreSQL says about itself at the same moment.
#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pg_wait_tracer::analysis::Source;
use pg_wait_tracer::analysis::answer::Body;
use pg_wait_tracer::analysis::filter::Filter;
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::capture::sampler::{self, Sampler};
use pg_wait_tracer::capture::{Capture, Feed};
use pg_wait_tracer::pg::discover;
use pg_wait_tracer::pg::memory::Reach;
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::catalog::TextSource;
use pg_wait_tracer::trace::clock::{Span, Window};
use pg_wait_tracer::trace::health::Link;
use pg_wait_tracer::trace::record::QueryId;
use support::watch::Watch;
use support::{Options, Server, Stop, versions, wait_until};

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

/// One row of `pg_stat_activity`, as text.
#[derive(Debug, PartialEq, Eq)]
struct Truth {
    event: String,
    state: String,
    user: String,
    database: String,
    application: String,
    kind: String,
    query_id: String,
    sql: String,
}

fn truth(server: &Server) -> BTreeMap<i32, Truth> {
    let id = if server.major() >= 14 { "query_id" } else { "NULL::bigint" };
    let rows = server
        .connect()
        .query(
            &format!(
                "SELECT pid, coalesce(wait_event_type || ':' || wait_event, 'CPU*'), coalesce(state, '-'), coalesce(usename, '')::text,
                        coalesce(datname, '')::text, application_name, backend_type, coalesce({id}, 0)::text, query
                 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ),
            &[],
        )
        .unwrap();
    rows.iter()
        .map(|r| {
            let text = |i: usize| r.get::<_, String>(i);
            let truth = Truth {
                event: text(1),
                state: text(2),
                user: text(3),
                database: text(4),
                application: text(5),
                kind: text(6),
                query_id: text(7),
                sql: text(8),
            };
            (r.get::<_, i32>(0), truth)
        })
        .collect()
}

fn seen(watch: &mut Watch) -> BTreeMap<i32, Truth> {
    let rows = watch.active();
    rows.into_iter()
        .filter(|r| r.who.kind.name() == "client backend")
        .map(|r| {
            let truth = Truth {
                event: r.name,
                state: r.state.name().to_owned(),
                user: r.who.user.show().into_owned(),
                database: r.who.database.show().into_owned(),
                application: r.who.application.to_string(),
                kind: r.who.kind.name().to_owned(),
                query_id: r.sql.query.to_string(),
                sql: r.sql.text.to_string(),
            };
            (r.who.pid, truth)
        })
        .collect()
}

/// Sessions that stay in one state for as long as they are let.
struct Still {
    _clients: Vec<postgres::Client>,
    _sessions: Vec<support::Running>,
}

/// A sleep, a queue of two for one row, an idle client, one idle in a transaction, a loop on the CPU.
fn stand_still(server: &Server) -> Still {
    server.psql("CREATE TABLE queue (id int PRIMARY KEY, n int)");
    server.psql("INSERT INTO queue VALUES (1, 0)");
    server.psql("CREATE ROLE app LOGIN SUPERUSER");
    server.psql("CREATE DATABASE shop");
    let mut holder = server.try_connect("app", "postgres").unwrap();
    holder.batch_execute("BEGIN; UPDATE queue SET n = 1 WHERE id = 1").unwrap();
    let mut idle = server.try_connect("app", "shop").unwrap();
    idle.batch_execute("SELECT 'done'").unwrap();
    let mut sessions = vec![
        server.session("SELECT pg_sleep(600)"),
        server.session("DO $$ DECLARE i bigint := 0; BEGIN LOOP i := i + 1; END LOOP; END $$"),
    ];
    let mut client = server.connect();
    for n in 1..=2 {
        sessions.push(server.session("UPDATE queue SET n = 2 WHERE id = 1"));
        let queued = wait_until(SECONDS(20), || {
            client.query_one("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", &[]).unwrap().get::<_, i64>(0) == n
        });
        assert!(queued, "{n} sessions should wait for the row");
    }
    Still { _clients: vec![holder, idle], _sessions: sessions }
}

#[test]
fn every_version_shows_what_pg_stat_activity_shows() {
    for version in versions() {
        let Some(server) = Server::start(&version, &Options::new().preload("pg_stat_statements")) else { return };
        let _still = stand_still(&server);
        for reach in [Reach::Map, Reach::Readv] {
            let mut watch = Watch::new(&server, 100, reach);
            watch.run(SECONDS(1));
            let (mut expected, mut found) = (truth(&server), BTreeMap::new());
            // A tick and a query are never at the same instant: what differs must agree soon, or it is wrong.
            let agrees = wait_until(SECONDS(10), || {
                expected = truth(&server);
                watch.run(Duration::from_millis(400));
                found = seen(&mut watch);
                found.retain(|pid, _| expected.contains_key(pid));
                if server.major() < 14 {
                    // 13 has no ids: ours are of the text.
                    for truth in found.values_mut() {
                        truth.query_id = "0".into();
                    }
                }
                found == expected
            });
            assert!(agrees, "{version} {reach:?}:\nPostgreSQL {expected:#?}\nwe {found:#?}");
            let events: Vec<&str> = expected.values().map(|t| t.event.as_str()).collect();
            for event in ["Timeout:PgSleep", "Lock:transactionid", "Lock:tuple", "Client:ClientRead", "CPU*"] {
                assert!(events.contains(&event), "{version}: {event} is not among {events:?}");
            }
            assert!(expected.len() >= 6, "{version}: {expected:#?}");
        }
    }
}

/// Share of each event in the load, from polling `pg_stat_activity` for as long as `window` lasts.
fn polled_shares(server: &Server, time: Duration) -> BTreeMap<String, f64> {
    let mut client = server.connect();
    let poll = client
        .prepare(
            "SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU*'), count(*) FROM pg_stat_activity
             WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
               AND (state = 'active' OR wait_event IS NOT NULL) AND wait_event IS DISTINCT FROM 'ClientRead' GROUP BY 1",
        )
        .unwrap();
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let end = std::time::Instant::now() + time;
    while std::time::Instant::now() < end {
        for row in client.query(&poll, &[]).unwrap() {
            *counts.entry(row.get(0)).or_default() += row.get::<_, i64>(1);
        }
        // The poll's own rate, not a wait for something to happen.
        std::thread::sleep(Duration::from_millis(7));
    }
    shares(counts.into_iter().map(|(name, n)| (name, n as f64)))
}

/// The writes of TPC-B as one statement. Not pgbench's own, of 50 µs each: `pg_stat_activity` copies all states first and reads the waits
/// afterwards, so that of short statements it shows pairs that never were ("active" in ClientRead), and 2 to 3 points less CPU than there is.
const TPCB_IN_ONE: &str = "CREATE FUNCTION tpcb(a int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = a;
    PERFORM abalance FROM pgbench_accounts WHERE aid = a;
    UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1 + a % 50;
    UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1 + a % 5;
    INSERT INTO pgbench_history VALUES (1 + a % 50, 1 + a % 5, a, 1, now());
END $$";

/// A pgbench script that the server's account can read.
fn script(sql: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), sql).unwrap();
    std::fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    file
}

/// Reads of some milliseconds.
const SCANS: &str = "\\set a random(1, 400000)\nSELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :a AND :a + 50000;\n";

fn shares(weights: impl Iterator<Item = (String, f64)>) -> BTreeMap<String, f64> {
    let weights: Vec<_> = weights.collect();
    let total: f64 = weights.iter().map(|(_, w)| w).sum();
    weights.into_iter().map(|(name, w)| (name, 100.0 * w / total)).collect()
}

#[test]
fn shares_equal_those_of_polling_pg_stat_activity() {
    for version in versions().into_iter().filter(|v| v == "13" || v == "18") {
        let Some(server) = Server::start(&version, &Options::new().preload("pg_stat_statements").durable()) else { return };
        server.pgbench(&["-i", "-q", "-s", "5"]).finish();
        server.psql(TPCB_IN_ONE);
        let scripts = [("4", SCANS), ("6", "\\set a random(1, 500000)\nSELECT tpcb(:a);\n")];
        let files: Vec<_> = scripts.iter().map(|(_, sql)| script(sql)).collect();
        let _load: Vec<_> = scripts
            .iter()
            .zip(&files)
            .map(|((clients, _), file)| server.pgbench(&["-n", "-c", clients, "-T", "90", "-f", file.path().to_str().unwrap()]))
            .collect();
        let mut watch = Watch::new(&server, 100, Reach::Map);
        watch.until(SECONDS(20), "load", |t| t.0.health().backends > 12);
        // Where the machine has other work meanwhile, the poller's two readings of a row come further apart: a second look decides.
        let (mut poller, mut ours) = (BTreeMap::new(), BTreeMap::new());
        for _ in 0..2 {
            poller = std::thread::scope(|scope| {
                let polled = scope.spawn(|| polled_shares(&server, SECONDS(20)));
                watch.run(SECONDS(20));
                polled.join().unwrap()
            });
            let mut question = Question::new(Ask::Events, Window::Follow(20_000_000_000));
            question.filter = Filter::parse("app=pgbench kind=client").unwrap();
            let Body::Events { events } = watch.trace.ask(&question).unwrap().body else { panic!() };
            ours = shares(events.into_iter().filter(|e| !e.idle).map(|e| (e.name, e.time_ns as f64)));
            let far = |name: &String| (poller.get(name).unwrap_or(&0.0) - ours.get(name).unwrap_or(&0.0)).abs() > 2.0;
            if !poller.keys().chain(ours.keys()).any(far) {
                break;
            }
        }
        for (name, share) in poller.iter().chain(&ours) {
            let (theirs, own) = (poller.get(name).unwrap_or(&0.0), ours.get(name).unwrap_or(&0.0));
            assert!(
                (theirs - own).abs() <= 2.0,
                "{version}: {name} {share:.2}: polled {theirs:.2} %, sampled {own:.2} %\n{poller:#?}\n{ours:#?}"
            );
        }
        assert_same_top(&poller, &ours);
        println!("{version}: polled {poller:?}\n    sampled {ours:?}");
    }
}

/// Asserts that the five largest events are the same in the same order; neighbours within the tolerance of 2 points may swap.
fn assert_same_top(theirs: &BTreeMap<String, f64>, ours: &BTreeMap<String, f64>) {
    let ranked = |shares: &BTreeMap<String, f64>| {
        let mut names: Vec<String> = shares.keys().cloned().collect();
        names.sort_by(|a, b| shares[b].total_cmp(&shares[a]));
        names
    };
    for (a, b) in ranked(theirs).iter().zip(ranked(ours)).take(5) {
        let share = |s: &BTreeMap<String, f64>, n: &str| s.get(n).copied().unwrap_or(0.0);
        let tied = (share(theirs, a) - share(theirs, &b)).abs() < 2.0 && (share(ours, a) - share(ours, &b)).abs() < 2.0;
        assert!(*a == b || tied, "{a} against {b}:\npolled {theirs:#?}\nsampled {ours:#?}");
    }
}

/// Sum of the load of a window, in seconds.
fn db_time(watch: &mut Watch, filter: &str, window: Window) -> f64 {
    let mut question = Question::new(Ask::TimeModel, window);
    question.filter = Filter::parse(filter).unwrap();
    watch.trace.ask(&question).unwrap().db_time_ns as f64 / 1e9
}

#[test]
fn one_session_with_query_ids_does_not_make_the_others_nameless() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    let mut with = server.connect();
    with.batch_execute("SET compute_query_id = on").unwrap();
    let busy = std::thread::spawn(move || with.batch_execute("SELECT pg_sleep(30)"));
    let _without: Vec<_> = (0..3).map(|n| server.session(&format!("SELECT pg_sleep(60), {n}"))).collect();
    let mut watch = Watch::new(&server, 100, Reach::Auto);
    watch.until(SECONDS(10), "an id of the server and one of ours", |t| {
        let question = Question::new(Ask::Queries, Window::Follow(500_000_000));
        let Body::Queries { queries } = t.ask(&question).unwrap().body else { panic!() };
        let named = |source| queries.iter().filter(|q| q.sql.query != QueryId::NONE && q.sql.source == source).count();
        // The three differ in a literal only: one query of ours.
        named(TextSource::Raw) == 1 && named(TextSource::Normalised) == 1 && queries.iter().all(|q| q.sql.query != QueryId::NONE)
    });
    drop(server);
    let _ = busy.join();
}

#[test]
fn storms_show_as_load_and_a_blocked_session_has_exactly_the_windows_length() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.psql("CREATE TABLE t (id int PRIMARY KEY)");
    server.psql("INSERT INTO t VALUES (1)");
    let mut holder = server.connect();
    holder.batch_execute("BEGIN; DELETE FROM t").unwrap();
    let _blocked = server.session("DELETE FROM t");
    let _storm: Vec<_> =
        (0..6).map(|_| server.session("SELECT count(*) FROM generate_series(1, 400) a, generate_series(1, 1000000) b")).collect();
    let mut client = server.connect();
    let ready = wait_until(SECONDS(20), || {
        let active = "SELECT count(*) FILTER (WHERE wait_event_type = 'Lock'), count(*) FILTER (WHERE query LIKE 'SELECT count(*) FROM gen%' AND state = 'active') FROM pg_stat_activity";
        let row = client.query_one(active, &[]).unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1)) == (1, 6)
    });
    assert!(ready);
    let mut watch = Watch::new(&server, 100, Reach::Map);
    watch.until(SECONDS(20), "six seconds", |t| t.0.extent().is_some_and(|e| e.len() > 6_000_000_000));
    let five = Window::Fixed(watch.last(SECONDS(5)));
    let cpu = db_time(&mut watch, "class=cpu kind=client", five) / 5.0;
    let files = db_time(&mut watch, "class=io kind=client", five) / 5.0;
    assert!((cpu + files - 6.0).abs() < 0.1, "six sessions at work: {cpu} on CPU, {files} in files");
    assert!(cpu > 4.0, "{cpu}");
    assert_eq!(db_time(&mut watch, "class=lock", five), 5.0);
    let length = Window::Fixed(Span::new(watch.last(SECONDS(5)).start + 123_456_789, watch.last(SECONDS(1)).start));
    let Window::Fixed(span) = length else { unreachable!() };
    assert_eq!(db_time(&mut watch, "class=lock", length), span.len() as f64 / 1e9);
}

#[test]
fn a_crash_restart_is_survived_without_stale_memory_or_invented_cpu() {
    for version in versions() {
        let Some(server) = Server::start(&version, &Options::new()) else { return };
        server.pgbench(&["-i", "-q"]).finish();
        let mut watch = Watch::new(&server, 100, Reach::Auto);
        for round in 1..=2 {
            let mut load = server.pgbench(&["-S", "-n", "-c", "4", "-T", "60"]);
            watch.until(SECONDS(20), "load", |t| t.0.health().backends > 8);
            let before = watch.health();
            server.crash_backend();
            let crashed = watch.trace.0.extent().unwrap().end;
            assert!(wait_until(SECONDS(20), || !load.is_running()), "pgbench should have lost its connections");
            let back = wait_until(SECONDS(20), || server.try_connect("postgres", "postgres").is_ok());
            assert!(back, "{version}: the server should come back");
            watch.until(SECONDS(1), "attached again within a second of the server's return", |t| {
                let h = t.0.health();
                h.link == Link::Attached && h.attachments == before.attachments + 1 && h.ticks > before.ticks + 5
            });
            // Nobody is left over from before: no client is seen, and none has used CPU since the crash.
            watch.run(Duration::from_millis(500));
            assert!(
                watch.active().iter().all(|r| r.who.kind.name() != "client backend" || r.who.application.as_ref() != "pgbench"),
                "{version}"
            );
            let since = Window::Fixed(Span::new(crashed + 200_000_000, watch.trace.0.extent().unwrap().end));
            let cpu = db_time(&mut watch, "kind=client class=cpu app=pgbench", since);
            assert!(cpu < 0.2, "{version} round {round}: {cpu} s of CPU of sessions that are gone");
            // A small server is back within a fifth of a second: the gap is looked for from before the crash.
            let whole = Window::Fixed(Span::new(crashed, watch.trace.0.extent().unwrap().end));
            let cover = watch.ask(Ask::TimeModel, whole).coverage;
            assert!(cover.gap_ns > 0 && !cover.gaps.is_empty(), "{version}: the outage is a gap: {cover:?}");
            assert_eq!(mappings_of_shared_memory(), 1, "{version}: memory of the server before is still mapped");
        }
    }
}

/// How many shared memory segments of servers this process has mapped.
fn mappings_of_shared_memory() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|l| l.contains("/dev/zero") || l.contains("SYSV") || l.contains("anon_hugepage")).count()
}

#[test]
fn stop_and_start_is_survived_and_shows_as_a_gap() {
    let Some(mut server) = Server::start("17", &Options::new()) else { return };
    let mut watch = Watch::new(&server, 100, Reach::Auto);
    watch.run(SECONDS(1));
    server.stop(Stop::Fast);
    watch.until(SECONDS(5), "noticed", |t| matches!(&t.0.health().link, Link::Waiting { why } if why.contains("the server stopped")));
    assert_eq!(mappings_of_shared_memory(), 0);
    let stopped = watch.trace.0.extent().unwrap().end;
    server.restart();
    watch.until(SECONDS(1), "attached again within a second of the start", |t| t.0.health().link == Link::Attached);
    watch.run(SECONDS(1));
    let window = Window::Fixed(Span::new(stopped, watch.trace.0.extent().unwrap().end));
    let cover = watch.ask(Ask::TimeModel, window).coverage;
    assert_eq!(cover.gaps.len(), 1, "{cover:?}");
    assert!(watch.active().iter().any(|r| r.who.kind.name() == "checkpointer"));
}

#[test]
fn a_server_that_comes_back_slowly_is_not_waited_for() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    let postmaster = discover::choose(Some(server.pid().cast_signed()), None).unwrap();
    let mut sampler = Sampler::start(sampler::Options::new(postmaster, Some(100), Reach::Auto)).unwrap();
    let mut feed = Feed::default();
    // After a crash the postmaster waits five seconds for a session that does not end: with that one process alone nothing can be proven.
    let signal = |pid: i32, name: &str| server.account().signal(pid.cast_unsigned(), name).unwrap();
    let pids = server.psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
    let mut client = server.connect();
    signal(client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0), "STOP");
    signal(pids.parse().unwrap(), "KILL");
    let (mut waited, mut longest) = (0, Duration::ZERO);
    let end = Instant::now() + SECONDS(3);
    while Instant::now() < end {
        let began = Instant::now();
        sampler.drain(&mut feed, Duration::from_millis(50)).unwrap();
        longest = longest.max(began.elapsed());
        waited += u32::from(matches!(&sampler.health().link, Link::Waiting { why } if why.starts_with("the server is starting")));
    }
    assert!(waited > 2, "{waited} attempts were expected to find a server that is starting");
    assert!(longest < Duration::from_millis(500), "one call took {longest:?}");
    let back = wait_until(SECONDS(20), || {
        sampler.drain(&mut feed, Duration::from_millis(50)).unwrap();
        sampler.health().link == Link::Attached
    });
    assert!(back, "attached again: {:?}", sampler.health().link);
}

#[test]
fn thousands_of_connections_come_and_go_without_a_leak_or_invented_cpu() {
    for version in versions().into_iter().filter(|v| v == "13" || v == "18") {
        let Some(server) = Server::start(&version, &Options::new()) else { return };
        server.pgbench(&["-i", "-q"]).finish();
        let mut watch = Watch::new(&server, 1000, Reach::Auto);
        watch.run(SECONDS(1));
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let (before, rss) = (descriptors(), watch.health().rss_bytes);
        let churn = server.pgbench(&["-S", "-C", "-n", "-c", "8", "-j", "2", "-T", "10"]);
        watch.run(SECONDS(10));
        let said = churn.finish();
        watch.run(SECONDS(1));
        let health = watch.health();
        let window = Window::Fixed(watch.last(SECONDS(8)));
        // Nobody can use more CPU than there is one process for each of the eight clients.
        let cpu = db_time(&mut watch, "kind=client,unknown class=cpu", window) / 8.0;
        assert!(cpu < 8.0, "{version}: {cpu}");
        assert!(watch.active().iter().all(|r| r.who.application.as_ref() != "pgbench"), "{version}: somebody stayed");
        assert_eq!(descriptors(), before, "{version}: file descriptors");
        assert!(health.rss_bytes < rss + (64 << 20), "{version}: {} MB before, {} MB after", rss >> 20, health.rss_bytes >> 20);
        assert_eq!(health.invalid, 0, "{version}");
        assert_eq!(health.dropped_blocks, 0, "{version}");
        println!(
            "{version}: {}; {} sessions in memory, {} unread",
            said.lines().last().unwrap_or(""),
            watch.trace.0.catalog().sessions.len(),
            health.unread
        );
    }
}
