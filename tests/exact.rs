//! The exact and the blocking tier against real servers: what they say must be what PostgreSQL and the kernel say about the same time.
//! Each test prints its figures.
#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "exact/stock.rs"]
mod stock;
mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use pg_wait_tracer::capture::sys;
use pg_wait_tracer::capture::window::{Kind, Rules};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::clock::{Span, Ts};
use pg_wait_tracer::trace::record::SessionId;
use pg_wait_tracer::trace::wait::{WaitClass, WaitEvent};
use support::watch::{Captured, Watch};
use support::{Options, Server, wait_until};

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

/// Tests see to it that windows stay open whatever the traps of this machine cost.
fn free() -> Rules {
    Rules { max_overhead_pct: 100_000.0, ..Rules::default() }
}

fn event(watch: &Watch, name: &str) -> WaitEvent {
    watch.trace.0.catalog().events.find(name).unwrap_or_else(|| panic!("no event {name}"))
}

/// A whole interval, its pieces put together.
#[derive(Debug, Clone, Copy)]
struct Whole {
    session: SessionId,
    event: WaitEvent,
    query: i64,
    start: u64,
    ns: u64,
    cpu_ns: u64,
    runq_ns: u64,
}

/// Whole intervals, without those that were still going on at the end.
fn wholes(captured: &Captured) -> Vec<Whole> {
    let mut all = Vec::new();
    for rows in captured.by_session().into_values() {
        let mut open: Option<Whole> = None;
        for r in rows {
            let d = r.detail.unwrap();
            let mut whole = open.take().filter(|_| d.lead_ns > 0).unwrap_or(Whole {
                session: r.session,
                event: r.event,
                query: r.query.0,
                start: r.span.start.0 - d.lead_ns,
                ns: d.lead_ns,
                cpu_ns: 0,
                runq_ns: 0,
            });
            whole.ns += r.span.len();
            whole.cpu_ns += d.cpu_ns;
            whole.runq_ns += d.runq_ns;
            assert_eq!(whole.ns, r.length(), "{r:?} after {whole:?}");
            if d.open {
                open = Some(whole);
            } else {
                all.push(whole);
            }
        }
    }
    all
}

/// Whole waits for an event.
fn waits(captured: &Captured, event: WaitEvent) -> Vec<Whole> {
    wholes(captured).into_iter().filter(|w| w.event == event).collect()
}

/// Session of a pid.
fn session(watch: &Watch, pid: i32) -> SessionId {
    let sessions = &watch.trace.0.catalog().sessions;
    *sessions.iter().find(|(_, s)| s.pid == pid).unwrap_or_else(|| panic!("no session of {pid}")).0
}

/// Asserts that the rows of each session lie one behind the other, and returns the largest share of a session's time that no row tells.
fn assert_tiled(captured: &Captured) -> f64 {
    let whole = captured.span();
    let mut worst: f64 = 0.0;
    for (session, rows) in captured.by_session() {
        let mut missing = 0;
        for pair in rows.windows(2) {
            assert!(pair[1].span.start >= pair[0].span.end, "session {session}: {:#?} overlaps {:#?}", pair[0], pair[1]);
            missing += pair[1].span.start.since(pair[0].span.end);
        }
        for row in &rows {
            let d = row.detail.unwrap();
            assert!(!row.span.is_empty(), "{row:?}");
            assert!(d.cpu_ns + d.runq_ns <= row.span.len() + 2, "{row:?}");
        }
        let (first, last) = (rows[0].span.start, rows.last().unwrap().span.end);
        let gone = watch_gone(last, whole);
        missing += first.since(whole.start) * u64::from(first.since(whole.start) < 1_000_000) + gone;
        if std::env::var_os("PGWT_SHOW_GAPS").is_some() && missing > 1_000_000 {
            for pair in rows.windows(2).filter(|p| p[1].span.start > p[0].span.end).take(6) {
                println!("gap: {:?}\n     {:?}", pair[0], pair[1]);
            }
        }
        worst = worst.max(missing as f64 / last.since(first).max(1) as f64);
    }
    worst
}

/// Nanoseconds between a session's last row and the end, unless it ended long before.
fn watch_gone(last: Ts, whole: Span) -> u64 {
    let short = whole.end.since(last);
    if short < 300_000_000 { short } else { 0 }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn extremes(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)))
}

#[test]
fn sleeps_are_counted_exactly_and_every_session_is_tiled() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.psql("CREATE TABLE said (pid int, ms float8)");
    for kind in [Kind::Exact, Kind::Blocking] {
        server.psql("TRUNCATE said");
        let mut watch = Watch::windows(&server, free());
        watch.run(Duration::from_millis(300));
        watch.open(kind, None);
        let loops = "DO $$ DECLARE b timestamptz; BEGIN FOR i IN 1..20 LOOP b := clock_timestamp(); PERFORM pg_sleep(0.1);
                     INSERT INTO said VALUES (pg_backend_pid(), extract(epoch FROM clock_timestamp() - b) * 1000); END LOOP; END $$";
        let sessions: Vec<_> = (0..3).map(|_| server.session(loops)).collect();
        for running in sessions {
            running.finish();
        }
        watch.run(Duration::from_millis(500));
        let health = watch.close();
        let captured = watch.captured(kind);
        let mut sleeps = waits(&captured, event(&watch, "Timeout:PgSleep"));
        // A latch that is still set from before, or a timer that is early, makes PostgreSQL wait once more for the rest: exact rows show that too.
        sleeps.retain(|w| w.ns > 50_000_000);
        let lengths: Vec<f64> = sleeps.iter().map(|w| w.ns as f64 / 1e6).collect();
        let missing = assert_tiled(&captured);
        println!("{kind:?}: {} sleeps of {:?} ms; untold {:.5} %; {health:?}", sleeps.len(), extremes(&lengths), missing * 100.0);
        assert_eq!(sleeps.len(), 60);
        // How long each was by the session's own clock: the wait and a few statements, never less. A timer may be late, and then both are.
        let mut more = Vec::new();
        for row in server.connect().query("SELECT pid, array_agg(ms ORDER BY ctid) FROM said GROUP BY pid", &[]).unwrap() {
            let who = session(&watch, row.get(0));
            let mine = sleeps.iter().filter(|w| w.session == who).map(|w| w.ns as f64 / 1e6);
            let said: Vec<f64> = row.get(1);
            assert_eq!(said.len(), 20);
            more.extend(said.iter().zip(mine).map(|(sql, ours)| sql - ours));
        }
        let right = more.iter().filter(|ms| (-0.1..1.0).contains(*ms)).count();
        println!("{kind:?}: SQL - ours {:?} ms, median {:.3}; {right} of 60 within 1 ms", extremes(&more), median(&more));
        assert!(more.len() == 60 && median(&lengths) > 99.9 && extremes(&more).0 > -0.1 && right >= 54, "{more:?}");
        assert!(missing < 0.001, "{missing}");
        assert_eq!(health.lost_records, 0);
    }
}

/// Events of the IO class that `pg_stat_io` counts, summed over all backends: (data reads, writes, extends, wal writes and syncs).
fn io_counts(server: &Server, reader: &mut postgres::Client, pids: &[i32]) -> BTreeMap<String, i64> {
    let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
    let wal = if server.major() >= 18 { "object" } else { "'relation'" };
    let rows = reader
        .query(
            &format!(
                "SELECT {wal} = 'wal', coalesce(sum(reads), 0)::bigint, coalesce(sum(writes), 0)::bigint, coalesce(sum(extends), 0)::bigint,
                        coalesce(sum(fsyncs), 0)::bigint
                 FROM {} GROUP BY 1",
                if server.major() >= 18 {
                    format!("(SELECT (pg_stat_get_backend_io(pid)).* FROM unnest(ARRAY[{}]) AS pid) AS io WHERE object <> 'wal' OR context = 'normal'", pids.join(","))
                } else {
                    "pg_stat_io".to_owned()
                }
            ),
            &[],
        )
        .unwrap();
    let mut counts = BTreeMap::new();
    for row in rows {
        let wal: bool = row.get(0);
        let names =
            if wal { ["-", "IO:WalWrite", "-", "IO:WalSync"] } else { ["IO:DataFileRead", "IO:DataFileWrite", "IO:DataFileExtend", "-"] };
        for (i, name) in names.into_iter().enumerate().filter(|(_, n)| *n != "-") {
            *counts.entry(name.to_owned()).or_default() += row.get::<_, i64>(i + 1);
        }
    }
    counts
}

#[test]
fn io_waits_are_as_many_as_pg_stat_io_counts() {
    for version in support::versions().into_iter().filter(|v| ["16", "17", "18"].contains(&v.as_str())) {
        let mut options = Options::new()
            .conf("shared_buffers = 2MB")
            .conf("autovacuum = off")
            .conf("bgwriter_lru_maxpages = 0")
            .conf("max_parallel_workers_per_gather = 0")
            .durable();
        if version == "18" {
            // Else the reads are those of workers.
            options = options.conf("io_method = sync");
        }
        let Some(server) = Server::start(&version, &options) else { return };
        server.psql("CREATE TABLE t (id int, pad text); ALTER TABLE t ALTER pad SET STORAGE plain");
        let mut watch = Watch::windows(&server, free());
        watch.run(Duration::from_millis(300));
        // It is there from before: what a session reads at its start is counted, too.
        let mut reader = server.connect();
        io_counts(&server, &mut reader, &[0]);
        reader.batch_execute("SELECT pg_stat_force_next_flush()").unwrap_or_default();
        let mut client = server.connect();
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
        client.batch_execute("SELECT pg_stat_force_next_flush()").unwrap_or_default();
        watch.run(Duration::from_millis(300));
        if version != "18" {
            // In the session itself: what another one read at its start would be counted when it ends.
            for _ in 0..3 {
                client.batch_execute("SELECT pg_stat_force_next_flush()").unwrap();
                client.batch_execute("SELECT pg_stat_reset_shared('io')").unwrap();
            }
        }
        watch.open(Kind::Exact, None);
        let before = if version == "18" { io_counts(&server, &mut reader, &[pid]) } else { BTreeMap::new() };
        client.batch_execute("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) i").unwrap();
        client.batch_execute("UPDATE t SET id = id + 1 WHERE id % 7 = 0").unwrap();
        client.batch_execute("SELECT count(*) FROM t").unwrap();
        client.batch_execute("SELECT pg_stat_force_next_flush()").unwrap_or_default();
        watch.run(Duration::from_millis(500));
        let health = watch.close();
        let who = session(&watch, pid);
        let mut after = if version == "18" {
            io_counts(&server, &mut reader, &[pid])
        } else {
            drop(client);
            std::thread::sleep(Duration::from_millis(500));
            io_counts(&server, &mut reader, &[pid])
        };
        for (name, n) in &mut after {
            *n -= before.get(name).copied().unwrap_or(0);
        }
        let captured = watch.captured(Kind::Exact);
        assert_tiled(&captured);
        let all = wholes(&captured);
        for (name, n) in &after {
            let raw = event(&watch, name);
            let mine = all.iter().filter(|w| w.event == raw && w.session == who).count() as i64;
            println!("{version}: {name}: pg_stat_io {n}, exact {mine}");
        }
        for (name, n) in &after {
            let raw = event(&watch, name);
            let mine = all.iter().filter(|w| w.event == raw && w.session == who).count() as i64;
            assert_eq!(mine, *n, "{version} {name} {health:?}");
        }
    }
}

/// On-CPU nanoseconds of a process by the kernel's account.
fn schedstat(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// The kernel's account of some processes, read again and again beside a test.
struct Accounts(BTreeMap<i32, Vec<(Ts, u64)>>);

/// The thread that reads it.
struct Following {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: std::thread::JoinHandle<Accounts>,
}

impl Accounts {
    fn follow(pids: &[i32]) -> Following {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (pids, stopped) = (pids.to_vec(), stop.clone());
        let thread = std::thread::spawn(move || {
            // There are more runnable processes than CPUs: this one is to have its turn every few milliseconds.
            let me = std::fs::read_link("/proc/thread-self").unwrap();
            let id = me.file_name().unwrap();
            assert!(std::process::Command::new("chrt").args(["-f", "-p", "1"]).arg(id).status().unwrap().success());
            let mut seen = BTreeMap::<i32, Vec<(Ts, u64)>>::new();
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                for pid in &pids {
                    let (before, ran, after) = (sys::now(), schedstat(*pid), sys::now());
                    // Else this thread was off the CPU between the reading and the clock.
                    if after.since(before) < 300_000 {
                        seen.entry(*pid).or_default().push((after, ran));
                    }
                }
                std::thread::sleep(Duration::from_millis(3));
            }
            Accounts(seen)
        });
        Following { stop, thread }
    }

    /// What a process had run at an instant, nanoseconds, and how much it may be off by; `None` where no two readings close together enclose it.
    fn at(&self, pid: i32, at: Ts) -> Option<(f64, f64)> {
        let seen = &self.0[&pid];
        let next = seen.partition_point(|(ts, _)| *ts < at);
        let ((from, a), (to, b)) = (*seen.get(next.checked_sub(1)?)?, *seen.get(next)?);
        let part = at.since(from) as f64 / to.since(from).max(1) as f64;
        (to.since(from) < 30_000_000).then(|| (a as f64 + part * (b - a) as f64, to.since(from) as f64 / 2.0))
    }
}

impl Following {
    fn finish(self) -> Accounts {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
fn cpu_time_is_the_kernels() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.pgbench(&["-i", "-q"]).finish();
    for kind in [Kind::Exact, Kind::Blocking] {
        let mut watch = Watch::windows(&server, free());
        let _spin: Vec<_> =
            (0..3).map(|_| server.session("DO $$ DECLARE i bigint := 0; BEGIN LOOP i := i + 1; END LOOP; END $$")).collect();
        let _load = server.pgbench(&["-S", "-n", "-c", "3", "-R", "500", "-T", "60"]);
        let mut client = server.connect();
        let mut pids = Vec::new();
        assert!(wait_until(SECONDS(20), || {
            let rows = client
                .query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()", &[])
                .unwrap();
            pids = rows.iter().map(|r| r.get::<_, i32>(0)).collect();
            pids.len() == 6
        }));
        watch.run(Duration::from_millis(300));
        watch.open(kind, None);
        let accounts = Accounts::follow(&pids);
        // The rows of a loop are seconds long.
        watch.run(SECONDS(17));
        let accounts = accounts.finish();
        watch.run(Duration::from_millis(600));
        let health = watch.close();
        let captured = watch.captured(kind);
        let untold = assert_tiled(&captured);
        let by_session = captured.by_session();
        for pid in &pids {
            let rows = &by_session[&session(&watch, *pid).0];
            // Over ten seconds, from one end of a row to another: what a row has on the CPU is not evenly spread over it.
            let known: Vec<(Ts, (f64, f64))> = rows.iter().filter_map(|r| Some((r.span.end, accounts.at(*pid, r.span.end)?))).collect();
            let ((from, (first, off)), (to, (last, off_too))) = (*known.first().unwrap(), *known.last().unwrap());
            assert!(to.since(from) > 9_000_000_000, "{kind:?} pid {pid}: {known:?}");
            let kernel = (last - first) / 1e6;
            let inside = rows.iter().filter(|r| r.span.start >= from && r.span.end <= to);
            let ours: f64 = inside.map(|r| r.detail.unwrap().cpu_ns as f64 / 1e6).sum();
            println!("{kind:?} pid {pid}: kernel {kernel:.1} ms, ours {ours:.1} ms, {:+.2} %", 100.0 * (ours / kernel - 1.0));
            // A tick's worth at either end: the kernel updates a running process's account at ticks. Readings apart from each other enclose more.
            let slack = 5.0 + (off - 2e6).max(0.0) / 1e6 + (off_too - 2e6).max(0.0) / 1e6;
            assert!((ours - kernel).abs() < 0.01 * kernel + slack, "{kind:?}: kernel {kernel} ms, ours {ours} ms");
        }
        println!("untold {:.4} %, {health:?}", untold * 100.0);
        assert!(untold < 0.001, "{untold}");
        // A loop does not notice that its client is gone.
        client
            .batch_execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
            )
            .unwrap();
    }
}

#[test]
fn lock_waits_are_as_long_as_the_waiter_measured() {
    let Some(server) = Server::start("18", &Options::new().preload("pg_stat_statements")) else { return };
    server.psql("CREATE EXTENSION pg_stat_statements; CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)");
    for kind in [Kind::Exact, Kind::Blocking] {
        let mut watch = Watch::windows(&server, free());
        watch.run(Duration::from_millis(200));
        watch.open(kind, None);
        let mut expected = Vec::new();
        let (mut waiter, mut looker) = (server.connect(), server.connect());
        let pid: i32 = waiter.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
        waiter.batch_execute("CREATE TEMP TABLE said (ms float8)").unwrap();
        for round in 0..24 {
            let mut holder = server.connect();
            holder.batch_execute("BEGIN; UPDATE t SET n = 1 WHERE id = 1").unwrap();
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    waiter
                        .batch_execute(
                            "DO $$ DECLARE b timestamptz := clock_timestamp(); BEGIN UPDATE t SET n = 2 WHERE id = 1;
                             INSERT INTO said VALUES (extract(epoch FROM clock_timestamp() - b) * 1000); END $$",
                        )
                        .unwrap();
                });
                let blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = $1";
                assert!(wait_until(SECONDS(20), || looker.query_one(blocked, &[&pid]).unwrap().get::<_, i64>(0) > 0));
                // How long it is to wait on.
                std::thread::sleep(Duration::from_millis(if round == 23 { 1300 } else { 10 + round * 3 }));
                holder.batch_execute("COMMIT").unwrap();
                waiting.join().unwrap();
            });
            expected.push(waiter.query_one("SELECT ms FROM said ORDER BY ctid DESC LIMIT 1", &[]).unwrap().get::<_, f64>(0));
        }
        watch.run(Duration::from_millis(400));
        watch.close();
        let captured = watch.captured(kind);
        assert_tiled(&captured);
        let raw = event(&watch, "Lock:transactionid");
        let who = session(&watch, pid);
        let found: Vec<Whole> = waits(&captured, raw).into_iter().filter(|w| w.session == who).collect();
        // Whenever its latch is set for another reason, PostgreSQL looks and waits on: another wait by its own account.
        let mut ours: Vec<f64> = Vec::new();
        let mut end = 0;
        for w in &found {
            let ms = w.ns as f64 / 1e6;
            match ours.last_mut() {
                Some(last) if w.start - end < 5_000_000 => *last += ms,
                _ => ours.push(ms),
            }
            end = w.start + w.ns;
        }
        println!("{kind:?}: {} waits; SQL {expected:.2?} ms, ours {ours:.2?} ms", found.len());
        assert_eq!(ours.len(), 24, "{ours:?}");
        // What SQL measured is the wait and the work around it, so never less; on a quiet machine a fraction of a millisecond more.
        let mut more: Vec<f64> = expected.iter().zip(&ours).take(23).map(|(e, o)| e - o).collect();
        more.sort_by(f64::total_cmp);
        println!("{kind:?}: SQL - ours: least {:.3}, median {:.3}, most {:.3} ms", more[0], more[11], more[22]);
        assert!(more[0] > -0.1 && more[11] < 1.0, "{more:?}");
        assert!((expected[23] - ours[23]).abs() < 20.0, "{} {}", expected[23], ours[23]);
        assert!(found.iter().all(|w| w.query != 0), "{found:?}");
    }
}

#[test]
fn blocking_and_exact_agree() {
    let Some(server) = Server::start("18", &Options::new().durable()) else { return };
    server.pgbench(&["-i", "-q", "-s", "2"]).finish();
    let mut exact = Watch::windows(&server, free());
    let mut blocking = Watch::windows(&server, free());
    let _sleeper = server.session("DO $$ BEGIN LOOP PERFORM pg_sleep(0.05); END LOOP; END $$");
    let load = server.pgbench(&["-n", "-c", "6", "-j", "2", "-T", "9"]);
    exact.run(SECONDS(1));
    exact.open(Kind::Exact, None);
    blocking.open(Kind::Blocking, None);
    std::thread::scope(|scope| {
        scope.spawn(|| exact.run(SECONDS(6)));
        blocking.run(SECONDS(6));
    });
    let (theirs_health, ours_health) = (blocking.close(), exact.close());
    drop(load);
    let (ours, theirs) = (exact.captured(Kind::Exact), blocking.captured(Kind::Blocking));
    println!("exact {ours_health:?}\nblocking {theirs_health:?}");
    let common = theirs.span().clip(ours.span());
    // All, and those that certainly slept: exact rows show waits that were over before the process left the CPU, too.
    let count = |watch: &Watch, captured: &Captured| {
        let mut counts: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
        for w in wholes(captured)
            .iter()
            .filter(|w| w.start >= common.start.0 && w.start + w.ns < common.end.0 && w.event.class() != WaitClass::Cpu)
        {
            let c = counts.entry(watch.trace.0.catalog().events.name(w.event)).or_default();
            c.0 += 1;
            // What the hypervisor takes looks like sleep, a little at a time.
            c.1 += u64::from(w.ns > w.cpu_ns + w.runq_ns + 20_000);
            c.2 += w.ns;
        }
        counts
    };
    let (traps, sleeps) = (count(&exact, &ours), count(&blocking, &theirs));
    for (name, (n, slept, ns)) in &traps {
        let (m, _, ms) = sleeps.get(name).copied().unwrap_or_default();
        println!("{name:<26} exact {n:>7} ({slept:>7} slept) {:>9.1} ms   blocking {m:>7} {:>9.1} ms", *ns as f64 / 1e6, ms as f64 / 1e6);
    }
    println!("untold: exact {:.5} %, blocking {:.5} %", 100.0 * assert_tiled(&ours), 100.0 * assert_tiled(&theirs));
    assert_eq!((ours_health.lost_records, theirs_health.lost_records), (0, 0));
    for name in ["Client:ClientRead", "Timeout:PgSleep", "Lock:transactionid", "Lock:tuple", "LWLock:WALWrite", "IO:WalSync"] {
        let Some((all, slept, _)) = traps.get(name).copied() else { continue };
        let found = sleeps.get(name).map_or(0, |c| c.0) as f64;
        // The two windows do not begin at one moment.
        let slack = (all as f64 * 0.001).max(5.0);
        assert!(
            found <= all as f64 + slack && found >= slept as f64 - slack,
            "{name}: exact {all}, of them {slept} slept; blocking {found}"
        );
    }
}

#[test]
fn nothing_is_lost_at_full_rate_and_a_tiny_ring_says_what_it_lost() {
    let Some(server) = Server::start("18", &Options::new().preload("pg_stat_statements")) else { return };
    server.pgbench(&["-i", "-q", "-s", "5"]).finish();
    let load = server.pgbench(&["-S", "-n", "-c", "8", "-j", "2", "-T", "60"]);
    for ring in [None, Some(16)] {
        let mut watch = Watch::windows(&server, Rules { ring, ..free() });
        watch.run(SECONDS(1));
        watch.open(Kind::Exact, Some(if ring.is_some() { 2 } else { 10 }));
        let health = watch.closed(SECONDS(30));
        let captured = watch.captured(Kind::Exact);
        let untold = assert_tiled(&captured);
        let holes: u64 = captured.losses.iter().filter(|l| l.session.is_some()).map(|l| l.records).sum();
        let counted: u64 = captured.losses.iter().filter(|l| l.session.is_none()).map(|l| l.records).sum();
        println!(
            "ring {ring:?}: {} rows, untold {:.4} %, {holes} in holes, {counted} counted; {health:?}",
            captured.rows.len(),
            untold * 100.0
        );
        let cpu = |open: bool| -> u64 {
            let mine = captured.rows.iter().filter(|r| r.event == WaitEvent::CPU && r.state.in_command() == open);
            mine.map(|r| r.detail.unwrap().cpu_ns).sum()
        };
        println!("on the CPU: {:.1} ms in commands, {:.1} ms between", cpu(true) as f64 / 1e6, cpu(false) as f64 / 1e6);
        assert_eq!(health.lost_records, counted);
        if ring.is_none() {
            assert_eq!((counted, holes), (0, 0));
        } else {
            assert!(counted > 1_000, "{counted}");
            // Each lost record shows as a hole of its session, but those behind a session's last one.
            assert!(holes as f64 > 0.98 * counted as f64 && holes <= counted, "{holes} {counted}");
            let placed =
                captured.losses.iter().filter(|l| !l.span.is_empty() && l.span.clip(captured.span()).len() == l.span.len()).count();
            assert!(placed as f64 > 0.98 * captured.losses.len() as f64, "{placed} of {}", captured.losses.len());
            assert!(captured.losses.iter().all(|l| l.session.is_none() || l.span.len() < 2_000_000_000));
        }
    }
    drop(load);
}

#[test]
fn short_connections_are_all_seen_or_counted() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.pgbench(&["-i", "-q"]).finish();
    let mut watch = Watch::windows(&server, free());
    watch.run(SECONDS(1));
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let closed = descriptors();
    watch.open(Kind::Exact, None);
    watch.run(SECONDS(1));
    // Memory beside the rows themselves.
    let memory = |watch: &Watch| watch.health().rss_bytes.saturating_sub(watch.trace.0.bytes() as u64);
    let (before, rss) = (descriptors(), memory(&watch));
    let mut client = server.connect();
    let sessions = |c: &mut postgres::Client| -> i64 {
        c.query_one("SELECT sessions FROM pg_stat_database WHERE datname = 'postgres'", &[]).unwrap().get(0)
    };
    let started = sessions(&mut client);
    drop(client);
    let churn = server.pgbench(&["-S", "-C", "-n", "-c", "8", "-j", "2", "-T", "30"]);
    watch.run(SECONDS(30));
    let said = churn.finish();
    watch.run(SECONDS(2));
    let during = descriptors();
    let after_rss = memory(&watch);
    let health = watch.close();
    let mut client = server.connect();
    let connected = sessions(&mut client) - started;
    let captured = watch.captured(Kind::Exact);
    let untold = assert_tiled(&captured);
    println!(
        "{}\n{connected} connections by pg_stat_database, {} born, {} missed, {} sessions with rows, untold {:.4} %, rss {} MB to {} MB, {health:?}",
        said.lines().last().unwrap_or(""),
        health.born,
        health.missed,
        captured.by_session().len(),
        untold * 100.0,
        rss >> 20,
        after_rss >> 20
    );
    assert!(during <= before + 1, "{before} descriptors before, {during} after");
    assert!(after_rss < rss + (32 << 20), "{} MB before, {} MB after", rss >> 20, after_rss >> 20);
    assert!(health.born as i64 >= connected, "{} born, {connected} connections", health.born);
    let seen = captured.by_session().len() as u64;
    assert!(
        seen + health.missed >= health.born && health.missed * 50 <= health.born,
        "{seen} seen, {} missed, {} born",
        health.missed,
        health.born
    );
    drop(client);
    assert_eq!(descriptors(), closed, "after closing");
}

#[test]
fn every_version_has_both_tiers_from_a_stripped_binary_too() {
    let mut versions = support::versions();
    if versions.iter().any(|v| v == "18") {
        versions.push("18-stripped".into());
    }
    for version in versions {
        let Some(server) = Server::start(&version, &Options::new().preload("pg_stat_statements")) else { return };
        for kind in [Kind::Exact, Kind::Blocking] {
            let mut watch = Watch::windows(&server, free());
            watch.run(Duration::from_millis(200));
            watch.open(kind, None);
            server.psql("SELECT pg_sleep(0.05); SELECT pg_sleep(0.05); SELECT pg_sleep(0.05)");
            watch.run(Duration::from_millis(600));
            let health = watch.close();
            let captured = watch.captured(kind);
            let mut sleeps = waits(&captured, event(&watch, "Timeout:PgSleep"));
            sleeps.retain(|w| w.ns > 1_000_000);
            let untold = assert_tiled(&captured);
            println!(
                "{version} {kind:?}: {} sleeps, query {:?}, untold {:.4} %, armed {}",
                sleeps.len(),
                sleeps.first().map(|s| s.query),
                untold * 100.0,
                health.armed
            );
            assert_eq!(sleeps.len(), 3, "{version} {kind:?}");
            assert!(sleeps.iter().all(|s| s.query != 0 && s.query == sleeps[0].query), "{version} {kind:?}: {sleeps:?}");
            assert!(untold < 0.001);
        }
    }
}

/// A child that writes nothing we know of and goes on when we are killed: pgbench's pace before, and after the tool was killed inside a window.
#[test]
fn a_killed_tracer_leaves_the_server_at_full_speed() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.pgbench(&["-i", "-q"]).finish();
    let mut load = server.pgbench(&["-S", "-n", "-c", "2", "-P", "1", "-T", "60"]);
    let mut client = server.connect();
    for mode in ["full", "blocking"] {
        let mut tracer = std::process::Command::new(env!("CARGO_BIN_EXE_pg_wait_tracer"))
            .args(["--pid", &server.pid().to_string(), "--mode", mode, "--max-overhead", "100000", "--format", "json", "--interval", "1"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let programs = || {
            std::fs::read_dir(format!("/proc/{}/fd", tracer.id())).map_or(0, |d| {
                d.filter_map(|e| std::fs::read_link(e.ok()?.path()).ok()).filter(|l| l.to_string_lossy().contains("bpf")).count()
            })
        };
        assert!(wait_until(SECONDS(20), || programs() > 4), "{mode}: no BPF programs");
        std::thread::sleep(SECONDS(1));
        tracer.kill().unwrap();
        tracer.wait().unwrap();
        assert!(load.is_running());
        client.batch_execute("SELECT pg_sleep(0.01)").unwrap();
    }
    std::thread::sleep(SECONDS(3));
    let said = load.said();
    let pace: Vec<f64> = said.lines().filter_map(|l| l.split(", ").nth(1)?.strip_suffix(" tps")?.parse().ok()).collect();
    println!("pgbench's pace second by second: {pace:?}");
    // Once the program is gone nothing is left: a debug register that was would show in a backend of this very load.
    let pids: Vec<i32> = client
        .query("SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench'", &[])
        .unwrap()
        .iter()
        .map(|r| r.get(0))
        .collect();
    for pid in pids {
        // All four debug registers are free again.
        let word = 0x1000_u64;
        let four: Vec<_> = (0..4).map(|i| pg_wait_tracer::capture::sys::perf::Watchpoint::new(pid, word + i * 8)).collect();
        assert!(four.iter().all(Result::is_ok), "{four:?}");
        drop(four);
    }
    assert!(load.is_running() && server.log().lines().all(|l| !l.contains("terminated by signal")));
}

#[test]
fn a_backend_whose_debug_registers_are_taken_is_shown_and_the_rest_goes_on() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    let mut client = server.connect();
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
    let mut taken: Vec<_> = (0..4).map(|i| pg_wait_tracer::capture::sys::perf::Watchpoint::new(pid, 0x1000 + i * 8).unwrap()).collect();
    let mut watch = Watch::windows(&server, free());
    watch.run(Duration::from_millis(300));
    watch.open(Kind::Exact, None);
    client.batch_execute("SELECT pg_sleep(0.3)").unwrap();
    watch.run(Duration::from_millis(600));
    let health = watch.close();
    let captured = watch.captured(Kind::Exact);
    let who = session(&watch, pid);
    // In the next window they are given back, and it is followed from then on.
    watch.open(Kind::Exact, None);
    watch.until(SECONDS(5), "refused", |t| t.0.health().window.as_ref().is_some_and(|w| w.unarmed == 1));
    // One is enough for its waits; its commands are inferred then, which is said.
    assert!(taken.pop().is_some());
    watch.until(SECONDS(10), "inferred", |t| t.0.health().window.as_ref().is_some_and(|w| w.unarmed == 0 && w.inferred == 1));
    drop(taken);
    watch.until(SECONDS(10), "followed", |t| t.0.health().window.as_ref().is_some_and(|w| w.unarmed == 0 && w.armed > health.armed));
    client.batch_execute("SELECT pg_sleep(0.1)").unwrap();
    watch.run(Duration::from_millis(600));
    watch.close();
    assert!(watch.captured(Kind::Exact).rows.iter().any(|r| r.session == who && r.span.len() > 50_000_000));
    let blind: u64 = captured.blind.iter().filter(|b| b.session == who).map(|b| b.span.len()).sum();
    println!("{health:?}; blind to {who:?} for {:.1} ms of {:.1} ms", blind as f64 / 1e6, captured.span().len() as f64 / 1e6);
    assert!(health.unarmed == 1 && health.armed >= 4 && health.unarmed_why.contains("debug registers"));
    assert!(captured.rows.iter().all(|r| r.session != who) && captured.by_session().len() >= 4);
    assert!(blind as f64 > 0.95 * captured.span().len() as f64);
}

#[test]
fn flags_leave_out_what_they_say() {
    let Some(server) = Server::start("18", &Options::new().preload("pg_stat_statements")) else { return };
    for (lightweight, skip_query_id) in [(true, false), (false, true)] {
        let mut watch = Watch::windows(&server, Rules { lightweight, skip_query_id, ..free() });
        watch.run(Duration::from_millis(200));
        watch.open(Kind::Exact, None);
        server.psql("SELECT pg_sleep(0.05)");
        watch.run(Duration::from_millis(600));
        watch.close();
        let captured = watch.captured(Kind::Exact);
        assert!(assert_tiled(&captured) < 0.001);
        assert!(!waits(&captured, event(&watch, "Timeout:PgSleep")).is_empty());
        assert!(captured.rows.iter().all(|r| r.query.0 == 0), "{lightweight} {skip_query_id}");
        assert_eq!(captured.rows.iter().any(|r| r.state.in_command()), !lightweight);
    }
}

#[test]
fn a_window_that_costs_too_much_closes_and_says_so() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.pgbench(&["-i", "-q"]).finish();
    let _load = server.pgbench(&["-S", "-n", "-c", "4", "-T", "60"]);
    let mut watch = Watch::windows(&server, Rules { max_overhead_pct: 0.01, ..Rules::default() });
    watch.run(Duration::from_millis(300));
    watch.open(Kind::Exact, Some(30));
    let health = watch.closed(SECONDS(10));
    println!("{health:?}");
    assert!(health.reason.contains("--max-overhead"), "{health:?}");
}

#[test]
fn queries_get_their_time_and_a_wait_without_end_is_seen_while_it_lasts() {
    let Some(server) = Server::start("18", &Options::new().preload("pg_stat_statements")) else { return };
    server.psql("CREATE EXTENSION pg_stat_statements; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
    server.pgbench(&["-i", "-q"]).finish();
    let mut holder = server.connect();
    holder.batch_execute("BEGIN; DELETE FROM t").unwrap();
    let _blocked = server.session("DELETE FROM t");
    let mut stuck = 0;
    let mut looker = server.connect();
    assert!(wait_until(SECONDS(20), || {
        let rows = looker.query("SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'", &[]).unwrap();
        stuck = rows.first().map_or(0, |r| r.get(0));
        stuck != 0
    }));
    let mut watch = Watch::windows(&server, free());
    watch.run(Duration::from_millis(500));
    watch.open(Kind::Exact, None);
    let load = server.pgbench(&["-n", "-c", "2", "-T", "5"]);
    watch.run(SECONDS(3));
    // Still blocked, and told.
    let captured = watch.captured(Kind::Exact);
    let lock = event(&watch, "Lock:transactionid");
    let victim = session(&watch, stuck);
    let blocked: u64 = captured.rows.iter().filter(|r| r.event == lock && r.session == victim).map(|r| r.span.len()).sum();
    println!("blocked for {:.2} s of {:.2} s", blocked as f64 / 1e9, captured.span().len() as f64 / 1e9);
    assert!(blocked as f64 > 0.99 * captured.span().len() as f64);
    drop(load.finish());
    watch.run(Duration::from_millis(500));
    watch.close();
    let captured = watch.captured(Kind::Exact);
    let mut client = server.connect();
    let known: BTreeMap<i64, (String, i64)> = client
        .query("SELECT queryid, query, calls FROM pg_stat_statements", &[])
        .unwrap()
        .iter()
        .map(|r| (r.get(0), (r.get::<_, String>(1), r.get(2))))
        .collect();
    let sessions = &watch.trace.0.catalog().sessions;
    let (mut load, mut attributed) = (0_u64, 0_u64);
    let mut times: BTreeMap<i64, u64> = BTreeMap::new();
    for r in &captured.rows {
        let pgbench = sessions.get(&r.session).is_some_and(|s| s.application.as_ref() == "pgbench");
        if !pgbench || watch.trace.0.catalog().events.is_idle(r.event) || r.event == WaitEvent::CPU && !r.state.in_command() {
            continue;
        }
        load += r.span.len();
        *times.entry(r.query.0).or_default() += r.span.len();
        attributed += if known.contains_key(&r.query.0) { r.span.len() } else { 0 };
    }
    for (id, ns) in &times {
        println!("{:>10.2} ms {id:>21} {:?}", *ns as f64 / 1e6, known.get(id).map(|(q, n)| (&q[..q.len().min(50)], n)));
    }
    let begins = captured.marks.iter().filter(|m| m.edge == pg_wait_tracer::trace::block::Edge::Begin).count();
    let calls: i64 = known.values().filter(|(q, _)| q.contains("pgbench_") || q == "BEGIN" || q == "END").map(|(_, n)| n).sum();
    println!(
        "attributed {:.3} % of {:.2} s; {begins} beginnings, {calls} calls",
        100.0 * attributed as f64 / load as f64,
        load as f64 / 1e9
    );
    assert!(attributed as f64 > 0.999 * load as f64, "{attributed} of {load}");
}

#[test]
fn statements_without_ids_are_told_apart_by_their_text() {
    for version in ["13", "18"] {
        for kind in [Kind::Exact, Kind::Blocking] {
            let Some(server) = Server::start(version, &Options::new()) else { return };
            server.pgbench(&["-i", "-q"]).finish();
            let mut watch = Watch::windows(&server, free());
            let load = server.pgbench(&["-n", "-c", "3", "-T", "3"]);
            watch.run(Duration::from_millis(500));
            watch.open(kind, None);
            watch.run(SECONDS(2));
            watch.close();
            drop(load.finish());
            let captured = watch.captured(kind);
            let catalog = watch.trace.0.catalog();
            let (mut all, mut named) = (0, 0);
            let mut times: BTreeMap<&str, u64> = BTreeMap::new();
            for (session, rows) in captured.by_session() {
                if catalog.sessions.get(&SessionId(session)).is_none_or(|s| s.application.as_ref() != "pgbench") {
                    continue;
                }
                for (i, r) in rows.iter().enumerate() {
                    if catalog.events.is_idle(r.event) || r.event == WaitEvent::CPU && !r.state.in_command() {
                        continue;
                    }
                    all += r.span.len();
                    let text = catalog.queries.get(&r.query).map_or("", |q| q.text.as_ref());
                    *times.entry(text).or_default() += r.span.len();
                    named += if text.contains("pgbench_") || text == "begin;" || text == "end;" { r.span.len() } else { 0 };
                    if text.is_empty() && std::env::var_os("PGWT_SHOW_GAPS").is_some() {
                        for r in &rows[i.saturating_sub(2)..(i + 3).min(rows.len())] {
                            println!(
                                "   {session} {} {:?} {:#x} {:?} {} {:?}",
                                r.span.start.0,
                                r.span.len(),
                                r.event.0,
                                r.state,
                                r.query,
                                r.detail
                            );
                        }
                        println!();
                    }
                }
            }
            for (text, ns) in &times {
                println!("{:>10.2} ms {text}", *ns as f64 / 1e6);
            }
            println!("{version} {kind:?}: {:.3} % of {:.2} s", 100.0 * named as f64 / all as f64, all as f64 / 1e9);
            // Blocking capture looks only where a process sleeps: commands that never do are known when they were running at a checkpoint.
            let least = if kind == Kind::Exact { 0.998 } else { 0.85 };
            assert!(named as f64 > least * all as f64, "{version} {kind:?}: {named} of {all}");
        }
    }
}

#[test]
fn commands_that_follow_each_other_at_once_are_all_seen() {
    use pg_wait_tracer::trace::block::Edge;
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.pgbench(&["-i", "-q"]).finish();
    for protocol in ["simple", "extended", "prepared"] {
        let mut watch = Watch::windows(&server, free());
        watch.run(Duration::from_millis(300));
        watch.open(Kind::Exact, None);
        let load = server.pgbench(&["-S", "-n", "-M", protocol, "-c", "1", "-T", "3"]);
        watch.run(SECONDS(3));
        let said = load.finish();
        watch.run(Duration::from_millis(500));
        let health = watch.close();
        let line = said.lines().find(|l| l.starts_with("number of transactions actually processed")).unwrap();
        let ran: f64 = line.split([':', '/']).nth(1).unwrap().trim().parse().unwrap();
        let captured = watch.captured(Kind::Exact);
        assert_tiled(&captured);
        let catalog = watch.trace.0.catalog();
        let is_ours = |id: SessionId| catalog.sessions.get(&id).is_some_and(|s| s.application.as_ref() == "pgbench");
        let ended = captured.marks.iter().filter(|m| m.edge == Edge::End && is_ours(m.session)).count() as f64;
        let mine = |f: &dyn Fn(&&pg_wait_tracer::trace::record::Record) -> bool| -> f64 {
            captured.rows.iter().filter(|r| is_ours(r.session)).filter(f).map(|r| r.span.len() as f64 / 1e9).sum()
        };
        println!(
            "{protocol}: {ran} transactions, {ended} ends; {:.2} s in commands, {:.2} s waiting for the client, {:.2} s between; {} ns a trap",
            mine(&|r| r.state.in_command()),
            mine(&|r| r.event == WaitEvent::CLIENT_READ),
            mine(&|r| r.event == WaitEvent::CPU && !r.state.in_command()),
            health.price_ns
        );
        // pgbench asks for the server's version and the like before it begins.
        assert!(ended >= ran && ended <= ran + 20.0, "{protocol}: {ran} transactions, {ended} ends of commands");
    }
}
