//! Reading the memory of real servers: what is found there must be what PostgreSQL says about itself at the same moment.
#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use pg_wait_tracer::pg::discover::{self, NotFound};
use pg_wait_tracer::pg::layout::Layout;
use pg_wait_tracer::pg::memory::Reach;
use pg_wait_tracer::pg::proof::Refusal;
use pg_wait_tracer::pg::server::{Attached, Brief, Life, Mark, Status};
use pg_wait_tracer::trace::catalog::BackendKind;
use pg_wait_tracer::trace::health::Access;
use postgres::{Client, NoTls};
use support::activity::{Facts, PATIENCE, agree, attach, postmaster, read};
use support::{Options, Running, Server, Stop, versions, wait_until};

/// A client that speaks the protocol itself, for bytes that a well-behaved one would not send.
struct Raw(UnixStream);

impl Raw {
    fn connect(server: &Server, user: &str, database: &str, application: &[u8]) -> Self {
        let mut stream = UnixStream::connect(server.socket_dir().join(format!(".s.PGSQL.{}", server.port()))).unwrap();
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        let parameters: [(&str, &[u8]); 4] = [
            ("user", user.as_bytes()),
            ("database", database.as_bytes()),
            ("application_name", application),
            ("client_encoding", b"SQL_ASCII"),
        ];
        for (name, value) in parameters {
            body.extend_from_slice(name.as_bytes());
            body.push(0);
            body.extend_from_slice(value);
            body.push(0);
        }
        body.push(0);
        stream.write_all(&(body.len() as u32 + 4).to_be_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        let mut this = Self(stream);
        this.ready();
        this
    }

    fn send(&mut self, sql: &[u8]) {
        self.0.write_all(b"Q").unwrap();
        self.0.write_all(&(sql.len() as u32 + 5).to_be_bytes()).unwrap();
        self.0.write_all(sql).unwrap();
        self.0.write_all(&[0]).unwrap();
    }

    fn run(&mut self, sql: &[u8]) {
        self.send(sql);
        self.ready();
    }

    /// Reads messages up to `ReadyForQuery`.
    fn ready(&mut self) {
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).unwrap();
            let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
            self.0.read_exact(&mut body).unwrap();
            match head[0] {
                b'Z' => return,
                b'E' => panic!("{}", String::from_utf8_lossy(&body)),
                _ => {}
            }
        }
    }
}

fn tcp(server: &Server, user: &str, database: &str) -> Client {
    let mut config = postgres::Config::new();
    config.host("127.0.0.1").port(server.port()).user(user).dbname(database).application_name("over tcp").connect(NoTls).unwrap()
}

fn events(facts: &BTreeMap<i32, Facts>) -> Vec<&str> {
    facts.values().map(|f| f["event"].as_str()).collect()
}

#[test]
fn every_process_is_described_as_pg_stat_activity_describes_it() {
    for version in versions() {
        // The first name is one that only a known other end makes readable: there are two more spaces than one.
        let options =
            Options::new().preload("pg_stat_statements").conf("cluster_name = 'the: odd (one)'").conf("autovacuum_naptime = '1h'");
        let Some(server) = Server::start(&version, &options) else { return };
        server.psql("CREATE TABLE queue (id int PRIMARY KEY, n int); INSERT INTO queue VALUES (1, 0)");
        server.psql("CREATE ROLE app LOGIN SUPERUSER");
        server.psql("CREATE ROLE \"my app\" LOGIN SUPERUSER");
        server.psql("CREATE DATABASE shop");
        server.psql("CREATE DATABASE \"the old shop\"");
        let mut holder = server.try_connect("app", "postgres").unwrap();
        holder.batch_execute("BEGIN; UPDATE queue SET n = 1 WHERE id = 1").unwrap();
        let mut idle = tcp(&server, "app", "shop");
        idle.batch_execute("SELECT 'done'").unwrap();
        let mut failed = server.try_connect("my app", "shop").unwrap();
        failed.batch_execute("BEGIN").unwrap();
        failed.batch_execute("SELECT 1/0").unwrap_err();
        let mut spaces = tcp(&server, "app", "the old shop");
        spaces.batch_execute("SELECT 2").unwrap();
        let mut both = server.try_connect("my app", "the old shop").unwrap();
        both.batch_execute("BEGIN; SELECT 3").unwrap();
        let mut odd = Raw::connect(&server, "postgres", "postgres", b"app\x01\x1b[31m \xff");
        odd.run(b"SELECT 'caf\xc3\xa9', E'\\n\t'");
        let _sleep = server.session("SELECT pg_sleep(600)");
        let _waits = server.session("UPDATE queue SET n = 2 WHERE id = 1");
        for reach in [Reach::Map, Reach::Readv] {
            let mut attached = attach(&server, reach);
            assert_eq!(attached.access(), if reach == Reach::Map { Access::Mapped } else { Access::Readv });
            let found = agree(&server, &mut attached, &format!("{version} {reach:?}"));
            for event in ["Timeout:PgSleep", "Lock:transactionid", "Client:ClientRead"] {
                assert!(events(&found).contains(&event), "{version}: {event} is not among {:?}", events(&found));
            }
            for kind in ["checkpointer", "background writer", "walwriter", "autovacuum launcher", "logical replication launcher"] {
                assert!(found.values().any(|f| f["kind"] == kind), "{version}: no {kind}");
            }
            let ids = found.values().filter(|f| f["query id"] != "0").count();
            assert!(if server.major() >= 14 { ids > 3 } else { ids == 0 }, "{version}: {ids} query ids");
            let facts = attached.facts();
            assert_eq!(facts.cluster, "the: odd (one)");
            assert_eq!((u32::from(facts.major), facts.port, facts.postmaster), (server.major(), server.port(), server.pid().cast_signed()));
            assert_eq!((facts.activity_size, Path::new(&facts.pgdata)), (1024, &*server.pgdata()));
            assert!(facts.version.starts_with(&format!("{}.", server.major())), "{}", facts.version);
            assert!(facts.cpus > 0 && facts.started > 0);
        }
    }
}

#[test]
fn parallel_workers_name_their_leader() {
    for version in versions() {
        let Some(server) = Server::start(&version, &Options::new()) else { return };
        server.psql("CREATE TABLE big AS SELECT generate_series(1, 200000) AS n");
        server.psql(
            "CREATE FUNCTION slow(int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN PERFORM pg_sleep(0.005); RETURN $1; END'",
        );
        let _query = server.session(
            "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
             SET max_parallel_workers_per_gather = 2; SELECT count(slow(n)) FROM big",
        );
        let mut client = server.connect();
        let running = wait_until(PATIENCE, || {
            client.query_one("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'", &[]).unwrap().get::<_, i64>(0)
                == 2
        });
        assert!(running, "{version}: no parallel workers");
        for reach in [Reach::Map, Reach::Readv] {
            let mut attached = attach(&server, reach);
            let found = read(&mut attached);
            let leader = found.iter().find(|(_, f)| f["sql"].starts_with("SET parallel") && f["kind"] == "client backend").unwrap();
            let workers: Vec<&Facts> = found.values().filter(|f| f["kind"] == "parallel worker").collect();
            assert_eq!(workers.len(), 2, "{version}");
            for worker in workers {
                assert_eq!(
                    (&worker["leader"], &worker["sql"], &worker["user"]),
                    (&leader.0.to_string(), &leader.1["sql"], &leader.1["user"])
                );
            }
            assert_eq!(leader.1["leader"], "0");
        }
    }
}

#[test]
fn mapped_and_copied_memory_say_the_same() {
    for version in versions() {
        let Some(server) = Server::start(&version, &Options::new()) else { return };
        let _idle: Vec<Client> = (0..20).map(|_| server.connect()).collect();
        let (mut mapped, mut copied) = (attach(&server, Reach::Map), attach(&server, Reach::Readv));
        let mut both = (BTreeMap::new(), BTreeMap::new());
        let same = wait_until(PATIENCE, || {
            both = (read(&mut mapped), read(&mut copied));
            both.0 == both.1
        });
        assert!(same, "{version}: {both:#?}");
        assert!(both.0.len() >= 25, "{version}");
        assert_eq!(mapped.checkpointer(), copied.checkpointer());
        assert_eq!(mapped.checkpointer(), both.0.iter().find(|(_, f)| f["kind"] == "checkpointer").map(|(pid, _)| *pid));
    }
}

#[test]
fn the_index_is_what_pg_shmem_allocations_shows() {
    for version in versions() {
        let Some(server) = Server::start(&version, &Options::new().preload("pg_stat_statements")) else { return };
        for reach in [Reach::Map, Reach::Readv] {
            let attached = attach(&server, reach);
            let (segment, index) = attached.memory();
            let ours: BTreeMap<String, (i64, i64)> =
                index.iter().map(|(name, area)| (name.to_owned(), ((area.addr - segment.start()) as i64, area.len as i64))).collect();
            let rows = server.connect().query("SELECT name, off, size FROM pg_shmem_allocations WHERE name <> '<anonymous>'", &[]).unwrap();
            let theirs: BTreeMap<String, (i64, i64)> = rows.iter().map(|r| (r.get(0), (r.get(1), r.get(2)))).collect();
            assert_eq!(ours, theirs, "{version}");
            assert!(ours.len() > 40);
        }
    }
}

#[test]
fn stripped_and_packaged_servers_need_no_symbols() {
    for version in ["18-stripped", "13-stripped", "system"] {
        let Some(server) = Server::start(version, &Options::new().preload("pg_stat_statements")) else { return };
        let mut attached = attach(&server, Reach::Map);
        agree(&server, &mut attached, version);
        assert!(attached.names().all().any(|(_, name)| name == "LWLock:pg_stat_statements"), "{version}");
    }
}

/// A layout with one member moved.
fn moved(major: u16, change: impl FnOnce(&mut Layout)) -> &'static Layout {
    let mut layout = Layout::of(major).unwrap().clone();
    change(&mut layout);
    Box::leak(Box::new(layout))
}

#[test]
fn a_layout_that_does_not_fit_is_refused() {
    type Member = (&'static str, fn(&mut Layout) -> &mut usize);
    let members: [Member; 14] = [
        ("PGPROC.pid", |l| &mut l.proc.pid),
        ("PGPROC.procLatch.owner_pid", |l| &mut l.proc.proc_latch_owner_pid),
        ("PGPROC.wait_event_info", |l| &mut l.proc.wait_event_info),
        ("sizeof PGPROC", |l| &mut l.proc.size),
        ("PROC_HDR.allProcs", |l| &mut l.proc_hdr.all_procs),
        ("PROC_HDR.allProcCount", |l| &mut l.proc_hdr.all_proc_count),
        ("st_procpid", |l| &mut l.status.st_procpid),
        ("st_changecount", |l| &mut l.status.st_changecount),
        ("st_backendType", |l| &mut l.status.st_backend_type),
        ("st_proc_start_timestamp", |l| &mut l.status.st_proc_start_timestamp),
        ("st_appname", |l| &mut l.status.st_appname),
        ("st_activity_raw", |l| &mut l.status.st_activity_raw),
        ("sizeof PgBackendStatus", |l| &mut l.status.size),
        ("ShmemIndexEnt.location", |l| &mut l.index_ent.location),
    ];
    for version in versions() {
        let Some(server) = Server::start(&version, &Options::new()) else { return };
        let _idle: Vec<Client> = (0..3).map(|_| server.connect()).collect();
        let (postmaster, major) = (postmaster(&server), u16::try_from(server.major()).unwrap());
        Attached::attempt(&postmaster, Reach::Map, Layout::of(major).unwrap()).unwrap();
        for (name, member) in members {
            for by in [-8_isize, -4, 4, 8] {
                let mut possible = true;
                let layout = moved(major, |l| {
                    let offset = member(l);
                    possible = offset.checked_add_signed(by).is_some();
                    *offset = offset.wrapping_add_signed(by);
                });
                if possible {
                    let refused =
                        Attached::attempt(&postmaster, Reach::Map, layout).expect_err(&format!("{version}: {name} moved by {by}"));
                    let line = format!("{refused:#}");
                    assert!(!line.contains('\n') && line.len() > 20, "{line}");
                }
            }
        }
        // Another version's layout, whole.
        for other in (13..=18).filter(|o| *o != major) {
            if (14..=16).contains(&major) && (14..=16).contains(&other) {
                continue;
            }
            let layout = Layout::of(other).unwrap();
            Attached::attempt(&postmaster, Reach::Map, layout).expect_err(&format!("the layout of {other} on {version}"));
        }
    }
}

#[test]
fn memory_of_a_crashed_server_is_left_at_once() {
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap();
    for version in versions() {
        let Some(mut server) = Server::start(&version, &Options::new()) else { return };
        let postmaster = postmaster(&server);
        let attached = Attached::open(&postmaster, Reach::Map).unwrap();
        let checkpointer = attached.checkpointer().unwrap().cast_unsigned();
        let segment = attached.memory().0;
        let inode = format!(" {} ", segment.inode());
        let mapped = |inode: &str| maps().lines().any(|l| l.contains("/dev/zero") && l.contains(inode));
        assert!(mapped(&inode) && attached.still() == Life::Alive);
        server.crash_backend();
        assert!(!support::process_exists(checkpointer), "{version}: the checkpointer survived");
        assert_eq!(attached.still(), Life::Replaced, "{version}");
        drop(attached);
        assert!(!mapped(&inode), "{version}: dead memory is still mapped");
        let mut again = Attached::open(&postmaster, Reach::Map).unwrap();
        agree(&server, &mut again, &version);
        let by_call = Attached::open(&postmaster, Reach::Readv).unwrap();
        server.stop(Stop::Fast);
        assert_eq!((again.still(), by_call.still()), (Life::Gone, Life::Gone));
    }
}

#[test]
fn bytes_that_are_no_text_are_shown_all_the_same() {
    for version in versions() {
        let Some(server) = Server::start(&version, &Options::new().conf("track_activity_query_size = 100")) else { return };
        server.psql("CREATE DATABASE raw ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
        let mut bad = Raw::connect(&server, "postgres", "raw", b"bad");
        bad.run(b"SELECT '\xf8\xe7\x84', '\x7f'");
        // 99 bytes are kept: the last character is cut in the middle.
        let mut cut = Raw::connect(&server, "postgres", "postgres", b"cut");
        cut.run(format!("SELECT '{}'", "\u{20ac}".repeat(40)).as_bytes());
        let mut whole = Raw::connect(&server, "postgres", "postgres", b"whole");
        whole.run(format!("SELECT '{}'", "x".repeat(98 - 9)).as_bytes());
        let mut limit = Raw::connect(&server, "postgres", "postgres", b"limit");
        limit.run(format!("SELECT '{}'", "x".repeat(99 - 9)).as_bytes());
        for reach in [Reach::Map, Reach::Readv] {
            let attached = attach(&server, reach);
            assert_eq!(attached.facts().activity_size, 100);
            let of = |application: &str| {
                let (slot, proc) = attached
                    .live()
                    .find(|(slot, proc)| attached.identity(*slot, proc.pid).row().is_some_and(|who| &*who.application == application))
                    .unwrap();
                let activity = attached.activity(slot, proc.pid).row().unwrap();
                (activity.text.to_string(), activity.truncated)
            };
            assert_eq!(of("bad"), ("SELECT '\u{fffd}\u{fffd}', '\x7f'".to_owned(), false), "{version}");
            assert_eq!(of("cut"), (format!("SELECT '{}", "\u{20ac}".repeat(30)), true), "{version}");
            assert!(!of("whole").1, "{version}");
            assert!(of("limit").1, "{version}");
        }
    }
}

#[test]
fn names_that_extensions_register_are_found() {
    for version in versions() {
        let Some(server) = Server::start(&version, &Options::new().preload("pg_stat_statements")) else { return };
        for reach in [Reach::Map, Reach::Readv] {
            let attached = attach(&server, reach);
            let tranche = attached.names().find("LWLock:pg_stat_statements").expect("the tranche of pg_stat_statements");
            assert!(tranche.0 & 0xffff >= Layout::of(attached.facts().major).unwrap().first_user_tranche, "{version}");
        }
        if server.major() < 17 {
            continue;
        }
        let mut attached = attach(&server, Reach::Map);
        assert!(attached.new_names().is_empty());
        server.psql(&format!(
            "CREATE EXTENSION dblink; SELECT dblink_connect('host={} port={} user=postgres dbname=postgres')",
            server.socket_dir().display(),
            server.port()
        ));
        let news: Vec<String> = attached.new_names().into_iter().map(|(event, name)| format!("{:#x} {name}", event.0 >> 24)).collect();
        assert!(news.contains(&"0x7 DblinkConnect".to_owned()), "{version}: {news:?}");
        assert!(attached.new_names().is_empty());
        let known = |names: pg_wait_tracer::trace::catalog::EventNames| names.find("Extension:DblinkConnect").is_some();
        assert!(known(attached.names()) && known(attach(&server, Reach::Readv).names()));
        // What the server itself lists, built in or not, carries the same names here.
        let rows = server.connect().query("SELECT type || ':' || name FROM pg_wait_events", &[]).unwrap();
        let names = attached.names();
        let unknown: Vec<String> = rows.iter().map(|r| r.get::<_, String>(0)).filter(|n| names.find(n).is_none()).collect();
        assert!(unknown.is_empty(), "{version}: {unknown:?}");
    }
}

#[test]
fn readings_hold_under_reconnecting_clients() {
    for version in versions() {
        let Some(server) = Server::start(&version, &Options::new()) else { return };
        server.pgbench(&["-i", "-s", "1", "-q"]).finish();
        let load = server.pgbench(&["-C", "-S", "-c", "4", "-T", "60"]);
        // Processes that end while they are compared are no reason to refuse the server.
        let postmaster = postmaster(&server);
        for _ in 0..20 {
            let opened = Attached::open_now(&postmaster, Reach::Map);
            assert!(opened.is_ok(), "{version}: {:#}", opened.unwrap_err());
        }
        for reach in [Reach::Map, Reach::Readv] {
            let mut attached = attach(&server, reach);
            let (mut rows, mut missing, mut unreadable, mut seen) = (0_u32, 0_u32, 0_u32, std::collections::BTreeSet::new());
            let end = Instant::now() + Duration::from_secs(2);
            while Instant::now() < end {
                attached.refresh().unwrap();
                for (slot, proc) in attached.live() {
                    assert!(proc.event.is_plausible(), "{version}: {proc:?}");
                    match attached.brief(slot, proc.pid) {
                        Status::Row(brief) => {
                            rows += 1;
                            assert_ne!(brief.kind, BackendKind::Unknown);
                            assert!(brief.state_change == 0 || brief.state_change >= brief.started, "{version}: {brief:?}");
                            seen.insert((proc.pid, brief.started));
                        }
                        Status::Missing => missing += 1,
                        Status::Unreadable => unreadable += 1,
                    }
                }
            }
            let pids: std::collections::BTreeSet<i32> = seen.iter().map(|(pid, _)| *pid).collect();
            assert!(seen.len() > 20, "{version} {reach:?}: only {} sessions in {rows} rows", seen.len());
            assert_eq!(pids.len(), seen.len(), "{version} {reach:?}: one process with two start times");
            eprintln!("{version} {reach:?}: {} sessions, {rows} rows read, {missing} missing, {unreadable} unreadable", seen.len());
            assert!(unreadable * 50 <= rows, "{version} {reach:?}: {unreadable} unreadable, {missing} missing, {rows} read");
        }
        drop(load);
    }
}

/// The sampler reads a row anew only when its change count has moved: so it must move with all that is read.
#[test]
fn a_row_whose_change_count_has_not_moved_is_the_same_row() {
    for version in versions() {
        let Some(server) = Server::start(&version, &Options::new().preload("pg_stat_statements")) else { return };
        server.pgbench(&["-i", "-q"]).finish();
        for reach in [Reach::Map, Reach::Readv] {
            let mut attached = attach(&server, reach);
            let mut client = server.connect();
            let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
            attached.refresh().unwrap();
            let slot = attached.live().find(|(_, p)| p.pid == pid).unwrap().0;
            let (mut brief, mut mark) = attached.marked(slot, pid).row().unwrap();
            for sql in ["BEGIN", "SELECT 1", "SET application_name = 'other'", "ROLLBACK"] {
                attached.refresh().unwrap();
                assert!(attached.unchanged(&mark) && attached.brief(slot, pid) == Status::Row(brief), "{version} {reach:?}: before {sql}");
                client.batch_execute(sql).unwrap();
                attached.refresh().unwrap();
                assert!(!attached.unchanged(&mark), "{version} {reach:?}: {sql} is not noticed");
                (brief, mark) = attached.marked(slot, pid).row().unwrap();
            }
            let mut loads = [&["-n", "-c", "4", "-T", "2"][..], &["-n", "-S", "-C", "-c", "4", "-T", "2"]].map(|a| server.pgbench(a));
            let (mut marks, mut same, mut other) = (BTreeMap::new(), 0, 0);
            while loads.iter_mut().any(Running::is_running) {
                attached.refresh().unwrap();
                for (slot, process) in attached.live() {
                    if let Some((before, mark)) = marks.get(&slot).filter(|(_, mark): &&(Brief, Mark)| mark.pid() == process.pid)
                        && attached.unchanged(mark)
                    {
                        let now = attached.brief(slot, process.pid);
                        // It may have changed since; then nothing is claimed.
                        if attached.unchanged(mark) {
                            assert_eq!(now, Status::Row(*before), "{version} {reach:?}: {mark:?}");
                            same += 1;
                        }
                    } else if let Status::Row(row) = attached.marked(slot, process.pid) {
                        marks.insert(slot, row);
                        other += 1;
                    }
                }
            }
            assert!(same > 1_000 && other > 100, "{version} {reach:?}: {same} rows were the same, {other} were not");
        }
    }
}

#[test]
fn a_server_is_found_by_pid_and_by_directory() {
    let Some(mut server) = Server::start("18", &Options::new()) else { return };
    let pid = server.pid().cast_signed();
    let by_dir = discover::choose(None, Some(&server.pgdata())).unwrap();
    assert_eq!((by_dir.pid, by_dir.namespace_pid, by_dir.port, by_dir.major), (pid, pid, server.port(), 18));
    assert_eq!(by_dir, postmaster(&server));
    assert!(!by_dir.container && by_dir.started > 0 && by_dir.exe.ends_with("postgres"));
    let backend: i32 =
        server.connect().query_one("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'", &[]).unwrap().get(0);
    assert_eq!(discover::choose(Some(backend), None), Err(NotFound::Backend { pid: backend, postmaster: pid }));
    assert_eq!(discover::choose(Some(1), None), Err(NotFound::NotPostgres(1)));
    let dir = server.pgdata();
    server.stop(Stop::Fast);
    assert_eq!(discover::choose(None, Some(&dir)), Err(NotFound::NotRunning(dir)));
    let error = Attached::open(&by_dir, Reach::Auto).unwrap_err();
    assert!(error.downcast_ref::<Refusal>().is_none(), "{error:#}");
}
