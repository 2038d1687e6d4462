//! Reading the memory of servers that are set up in less common ways: standbys, subscribers, containers, other kinds of shared memory, without root.
#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pg_wait_tracer::pg::discover::{self, NotFound};
use pg_wait_tracer::pg::memory::Reach;
use pg_wait_tracer::pg::server::{Attached, Life};
use pg_wait_tracer::trace::health::Access;
use support::activity::{Facts, PATIENCE, agree, attach, read};
use support::huge::HugePages;
use support::{Options, Server, Stop, versions, wait_until};

fn of_kind<'a>(facts: &'a BTreeMap<i32, Facts>, kind: &str) -> Option<&'a Facts> {
    facts.values().find(|f| f["kind"] == kind)
}

#[test]
fn both_ends_of_a_replication_are_described() {
    for version in versions() {
        let Some(mut primary) = Server::start(&version, &Options::new()) else { return };
        let Some(mut standby) = Server::start(&version, &Options::new()) else { return };
        primary.psql("CREATE ROLE \"rep user\" LOGIN REPLICATION");
        primary.stop(Stop::Fast);
        standby.stop(Stop::Fast);
        fs::remove_dir_all(standby.pgdata()).unwrap();
        let copied = standby.account().command("cp").arg("-a").arg(primary.pgdata()).arg(standby.pgdata()).status().unwrap();
        assert!(copied.success());
        let mut conf = fs::OpenOptions::new().append(true).open(standby.pgdata().join("postgresql.conf")).unwrap();
        writeln!(conf, "port = {}\nunix_socket_directories = '{}'", standby.port(), standby.socket_dir().display()).unwrap();
        let from = primary.socket_dir().display();
        writeln!(conf, "primary_conninfo = 'host={from} port={} user=''rep user'' application_name=follower'", primary.port()).unwrap();
        fs::write(standby.pgdata().join("standby.signal"), "").unwrap();
        primary.restart();
        standby.restart();
        let follows = wait_until(PATIENCE, || primary.psql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1");
        assert!(follows, "{version}: the standby does not follow: {}", standby.log());
        for reach in [Reach::Map, Reach::Readv] {
            let found = agree(&primary, &mut attach(&primary, reach), &format!("primary {version} {reach:?}"));
            let sender = of_kind(&found, "walsender").expect("a walsender");
            assert_eq!((&*sender["user"], &*sender["application"], &*sender["client"]), ("rep user", "follower", "[local]"), "{version}");
            let found = agree(&standby, &mut attach(&standby, reach), &format!("standby {version} {reach:?}"));
            for kind in ["startup", "walreceiver", "checkpointer", "background writer"] {
                assert!(of_kind(&found, kind).is_some(), "{version}: no {kind} among {found:#?}");
            }
        }
    }
}

#[test]
fn workers_are_told_apart() {
    for version in versions() {
        let options = Options::new()
            .conf("wal_level = logical")
            .conf("autovacuum_naptime = '1s'")
            .conf("autovacuum_vacuum_cost_delay = '100ms'")
            .conf("autovacuum_vacuum_cost_limit = 1")
            .conf("archive_mode = on")
            .conf("archive_command = 'true'");
        let Some(server) = Server::start(&version, &options) else { return };
        for database in ["source", "target", "dusty"] {
            server.psql(&format!("CREATE DATABASE {database}"));
        }
        let run = |database: &str, sql: &str| server.try_connect("postgres", database).unwrap().batch_execute(sql).unwrap();
        run("source", "CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t");
        run("source", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
        run("target", "CREATE TABLE t (id int PRIMARY KEY)");
        let source = format!("host={} port={} user=postgres dbname=source", server.socket_dir().display(), server.port());
        run("target", &format!("CREATE SUBSCRIPTION s CONNECTION '{source}' PUBLICATION p WITH (create_slot = false, slot_name = 's')"));
        run("dusty", "CREATE TABLE d AS SELECT n, repeat('x', 500) AS x FROM generate_series(1, 20000) n; DELETE FROM d WHERE n % 2 = 0");
        // Up to 15 a walsender's title does not name its database, and a subscriber's worker never does: other sessions do.
        let _clients = ["source", "target"].map(|database| server.try_connect("postgres", database).unwrap());
        let mut attached = attach(&server, Reach::Map);
        let mut found = BTreeMap::new();
        let there = wait_until(PATIENCE * 2, || {
            found = read(&mut attached);
            ["autovacuum worker", "logical replication worker", "walsender"].iter().all(|kind| of_kind(&found, kind).is_some())
                && of_kind(&found, "autovacuum worker").is_some_and(|f| f["sql"].contains("public.d"))
        });
        assert!(there, "{version}: {found:#?}");
        let found = agree(&server, &mut attached, &version);
        let vacuum =
            found.values().find(|f| f["kind"] == "autovacuum worker" && f["sql"].contains("public.d")).expect("an autovacuum worker");
        assert_eq!((&*vacuum["database"], &*vacuum["user"]), ("dusty", ""), "{version}");
        assert_eq!(of_kind(&found, "walsender").unwrap()["database"], "source", "{version}");
        assert_eq!(of_kind(&found, "logical replication worker").unwrap()["database"], "target", "{version}");
        assert!(of_kind(&found, "archiver").is_some() || server.major() == 13, "{version}: no archiver");
    }
}

#[test]
fn system_v_memory_is_found_as_well() {
    for version in ["13", "18"] {
        let Some(server) = Server::start(version, &Options::new().conf("shared_memory_type = sysv")) else { return };
        for reach in [Reach::Map, Reach::Readv] {
            let mut attached = attach(&server, reach);
            agree(&server, &mut attached, version);
            assert_eq!(attached.still(), Life::Alive);
        }
    }
}

#[test]
fn huge_pages_are_mapped_as_well() {
    // A server as shipped takes 72 to 75 pages of 2 MB (`shared_memory_size_in_huge_pages`).
    let Some(_pages) = HugePages::reserve(120) else { return };
    for version in versions() {
        let Some(server) = Server::start(&version, &Options::new().conf("huge_pages = on")) else { return };
        let maps = fs::read_to_string(format!("/proc/{}/maps", server.pid())).unwrap();
        assert!(maps.contains("/anon_hugepage"), "{version}: no huge pages in {maps}");
        for reach in [Reach::Map, Reach::Readv] {
            let mut attached = attach(&server, reach);
            agree(&server, &mut attached, &format!("{version} {reach:?} huge pages"));
            assert_eq!(attached.access(), if reach == Reach::Map { Access::Mapped } else { Access::Readv });
            assert_eq!(attached.still(), Life::Alive);
        }
    }
}

#[test]
fn huge_pages_are_given_back_after_a_panic_too() {
    let pages = || fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap();
    let before = pages();
    let panicked = std::panic::catch_unwind(|| {
        let Some(_pages) = HugePages::reserve(2) else { return };
        assert_eq!(pages(), before, "as intended");
    });
    assert!(panicked.is_err() || std::env::var_os("PGWT_REQUIRE_LIVE").is_none());
    assert_eq!(pages(), before);
}

/// Ends with its child.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_in_a_container_is_known_by_both_its_pids() {
    for version in ["13", "18"] {
        let Some(mut server) = Server::start(version, &Options::new()) else { return };
        let binary = fs::read_link(format!("/proc/{}/exe", server.pid())).unwrap();
        server.stop(Stop::Fast);
        // A pid namespace of its own, as a container has it; the postmaster is process 1 there.
        let (uid, gid) = server.account().ids().expect("root, to make a namespace");
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child=QUIT", "setpriv"]);
        command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".into()]);
        command.arg(binary).arg("-D").arg(server.pgdata()).env("LC_ALL", "C").stdout(Stdio::null()).stderr(Stdio::null());
        let _ends = Ends(command.spawn().unwrap());
        assert!(wait_until(PATIENCE, || server.try_connect("postgres", "postgres").is_ok()), "the server does not start");
        let mut client = server.connect();
        let inside: i32 = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
        let postmaster = discover::choose(None, Some(&server.pgdata())).unwrap();
        assert!(postmaster.container && postmaster.namespace_pid == 1 && postmaster.pid > 1, "{postmaster:?}");
        for reach in [Reach::Map, Reach::Readv] {
            let mut attached = Attached::open(&postmaster, reach).unwrap();
            agree(&server, &mut attached, "container");
            let outside = attached.host_pid(inside);
            assert_ne!(outside, inside);
            let status = fs::read_to_string(format!("/proc/{outside}/status")).unwrap();
            let both = status.lines().find_map(|l| l.strip_prefix("NSpid:")).unwrap();
            assert_eq!(both.split_whitespace().collect::<Vec<_>>(), [outside.to_string(), inside.to_string()]);
            assert!(fs::read_link(format!("/proc/{}/exe", attached.checkpointer().unwrap())).unwrap().ends_with("postgres"));
        }
    }
}

/// Runs one of the tests below as another user. This program lies where that user may not look: a copy does not.
fn as_user(server: &Server, (uid, gid): (u32, u32), test: &str) -> Output {
    let dir = tempfile::Builder::new().prefix("pgwt-user").tempdir_in("/tmp").unwrap();
    let mut command = Command::new(copied(&std::env::current_exe().unwrap(), dir.path()));
    command.args(["--exact", test, "--ignored", "--nocapture"]).env("PGWT_TEST_PID", server.pid().to_string());
    command.current_dir("/").uid(uid).gid(gid).output().unwrap()
}

fn copied(program: &Path, dir: &Path) -> PathBuf {
    let copy = dir.join("program");
    fs::copy(program, &copy).unwrap();
    fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    copy
}

fn named_pid() -> i32 {
    std::env::var("PGWT_TEST_PID").expect("run by another test").parse().unwrap()
}

#[test]
fn without_root_memory_is_copied_or_the_reason_given() {
    for version in ["13", "18"] {
        let Some(server) = Server::start(version, &Options::new()) else { return };
        let Some(own) = server.account().ids() else { return };
        for (who, test) in [(own, "inside_as_the_servers_user"), ((65534, 65534), "inside_as_somebody_else")] {
            let output = as_user(&server, who, test);
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// What is left of root when it gives up all rights but a few. With the first alone the data directory may not be entered, nor memory mapped.
#[test]
fn a_few_capabilities_are_enough() {
    for version in ["13", "18"] {
        let Some(server) = Server::start(version, &Options::new()) else { return };
        let dir = tempfile::Builder::new().prefix("pgwt-user").tempdir_in("/tmp").unwrap();
        let copy = copied(&std::env::current_exe().unwrap(), dir.path());
        for caps in ["+sys_ptrace", "+sys_ptrace,+checkpoint_restore,+dac_read_search"] {
            let mut command = with_capabilities(caps, &copy);
            command
                .args(["--exact", "inside_with_capabilities", "--ignored", "--nocapture"])
                .env("PGWT_TEST_PID", server.pid().to_string());
            let output = command.env("PGWT_TEST_CAPS", caps).current_dir("/").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

fn with_capabilities(caps: &str, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps", caps, "--ambient-caps", caps]).arg(program);
    command
}

#[test]
fn the_rights_that_doctor_names_are_enough_to_map_and_none_is_too_many() {
    for version in ["13", "18"] {
        let Some(server) = Server::start(version, &Options::new()) else { return };
        let dir = tempfile::Builder::new().prefix("pgwt-user").tempdir_in("/tmp").unwrap();
        let program = copied(Path::new(env!("CARGO_BIN_EXE_pg_wait_tracer")), dir.path());
        let doctor = |caps: &str| {
            let output = with_capabilities(caps, &program).args(["doctor", "--pid", &server.pid().to_string()]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let found = |said: &str, what: &str| {
            let (_, rest) = said.split_once(&format!(" {what} ")).unwrap_or_else(|| panic!("no '{what}': {said}"));
            rest.trim_start().to_owned()
        };
        // Reading is allowed, mapping is not: told what is lacking.
        let said = doctor("+sys_ptrace");
        let hint = found(&said, "shared memory, mapped").lines().nth(1).unwrap().to_owned();
        let named: Vec<String> = hint
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter_map(|word| word.strip_prefix("CAP_").map(|cap| format!("+{}", cap.to_lowercase())))
            .collect();
        assert_eq!(named.len(), 3, "{said}");
        assert!(found(&said, "rights").lines().nth(1).unwrap().contains(hint.trim()), "{said}");
        let said = doctor(&named.join(","));
        assert!(found(&said, "shared memory, mapped").starts_with("works"), "{version}: {said}");
        assert!(said.lines().any(|l| l.starts_with("  ok") && l.contains(" rights ")), "{version}: {said}");
        for left_out in &named {
            let fewer: Vec<&str> = named.iter().filter(|n| *n != left_out).map(String::as_str).collect();
            let said = doctor(&fewer.join(","));
            let maps = said.contains("shared memory, mapped") && found(&said, "shared memory, mapped").starts_with("works");
            assert!(!maps && said.contains(hint.trim()), "{version} without {left_out}: {said}");
        }
    }
}

#[test]
#[ignore = "run by another test with capabilities"]
fn inside_with_capabilities() {
    let all = std::env::var("PGWT_TEST_CAPS").unwrap().contains("dac_read_search");
    let postmaster = discover::choose(Some(named_pid()), None).unwrap();
    assert!(postmaster.started > 0 && postmaster.major >= 13 && !postmaster.version.is_empty(), "{postmaster:?}");
    assert_eq!(postmaster.port != 0, all, "the port stands in a file of the data directory");
    let mut attached = Attached::open(&postmaster, Reach::Auto).unwrap();
    assert_eq!(attached.access(), if all { Access::Mapped } else { Access::Readv });
    assert!(read(&mut attached).len() >= 5);
    assert!(attached.checkpointer().is_some() && attached.still() == Life::Alive);
}

#[test]
#[ignore = "run by another test as the server's user"]
fn inside_as_the_servers_user() {
    let postmaster = discover::choose(Some(named_pid()), None).unwrap();
    let mut attached = Attached::open(&postmaster, Reach::Auto).unwrap();
    assert_eq!(attached.access(), Access::Readv);
    assert!(read(&mut attached).len() >= 5);
    assert_eq!(attached.still(), Life::Alive);
    let why = format!("{:#}", Attached::open(&postmaster, Reach::Map).unwrap_err());
    assert!(why.contains("needs root") && !why.contains('\n'), "{why}");
}

#[test]
#[ignore = "run by another test as a user without rights"]
fn inside_as_somebody_else() {
    let pid = named_pid();
    let refused = discover::choose(Some(pid), None).unwrap_err();
    assert!(matches!(refused, NotFound::NotAllowed { .. }), "{refused:?}");
    assert!(refused.to_string().contains("sudo") && !refused.to_string().contains('\n'), "{refused}");
    let mut postmaster = discover::Postmaster { pid, namespace_pid: pid, major: 18, ..Default::default() };
    postmaster.version = "18.4".into();
    let why = format!("{:#}", Attached::open(&postmaster, Reach::Auto).unwrap_err());
    assert!(why.contains("not allowed") && !why.contains('\n'), "{why}");
}
