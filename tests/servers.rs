//! The test kit itself, on every version: servers start, survive a crash, and leave nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use support::{Options, Server, Stop, process_exists, versions, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

/// One server from its start to its end.
fn life_of(version: &str, options: &Options) {
    let Some(mut server) = Server::start(version, options) else { return };
    let major = |server: &Server| -> i32 {
        let number: String = server.connect().query_one("SHOW server_version_num", &[]).unwrap().get(0);
        number.parse::<i32>().unwrap() / 10_000
    };
    if let Ok(expected) = version.trim_end_matches("-stripped").parse::<i32>() {
        assert_eq!(major(&server), expected);
    }
    assert!(server.socket_dir().as_os_str().len() < 100);

    let (before, dir) = (server.pid(), server.socket_dir().to_owned());
    server.psql("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7); CHECKPOINT");
    server.crash_backend();
    assert_eq!(server.pid(), before, "a crash of a backend leaves the postmaster");
    assert_eq!(server.psql("SELECT n FROM kept"), "7");

    server.restart();
    assert_ne!(server.pid(), before);
    assert!(!process_exists(before));
    assert_eq!(server.psql("SELECT n FROM kept"), "7");

    let mut session = server.session("SELECT pg_sleep(600)");
    let sleeps = || server.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1";
    assert!(wait_until(PATIENCE, sleeps), "no session sleeps: {}", session.said());

    let pids: Vec<u32> = server.psql("SELECT pid FROM pg_stat_activity").lines().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.len() > 4, "{pids:?}");
    let after = server.pid();
    drop(server);
    assert!(!process_exists(after), "the postmaster is gone");
    assert!(wait_until(PATIENCE, || !pids.iter().any(|pid| process_exists(*pid))), "its backends are gone");
    assert!(!dir.exists(), "its folder is gone");
    assert!(wait_until(PATIENCE, || !session.is_running()), "its clients end");
}

macro_rules! each_version {
    ($($name:ident $stripped:ident $version:literal),*) => {$(
        #[test]
        fn $name() {
            if versions().iter().any(|version| version == $version) {
                life_of($version, &Options::new());
            }
        }

        #[test]
        fn $stripped() {
            if versions().iter().any(|version| version == $version) {
                life_of(concat!($version, "-stripped"), &Options::new());
            }
        }
    )*};
}

each_version!(pg13 pg13_stripped "13", pg14 pg14_stripped "14", pg15 pg15_stripped "15", pg16 pg16_stripped "16", pg17 pg17_stripped "17",
    pg18 pg18_stripped "18");

#[test]
fn the_server_of_the_system() {
    life_of("system", &Options::new());
}

#[test]
fn options_reach_the_server() {
    let options = Options::new().preload("pg_stat_statements").conf("max_connections = 37").durable();
    let version = versions().pop().unwrap();
    let Some(mut server) = Server::start(&version, &options) else { return };
    assert_eq!(server.psql("SHOW shared_preload_libraries"), "pg_stat_statements");
    assert_eq!(server.psql("SHOW max_connections"), "37");
    assert_eq!(server.psql("SHOW fsync"), "on");
    assert_eq!(server.psql("CREATE EXTENSION pg_stat_statements; SELECT count(*) > 0 FROM pg_stat_statements"), "t");
    server.pgbench(&["-i", "-q", "-s", "1"]).finish();
    let said = server.pgbench(&["-S", "-c", "2", "-t", "50"]).finish();
    assert!(said.contains("number of transactions actually processed: 100/100"), "{said}");
    server.stop(Stop::Immediate);
    assert!(server.try_connect("postgres", "postgres").is_err());
}

#[test]
fn two_servers_live_side_by_side() {
    let version = versions().pop().unwrap();
    let (Some(one), Some(other)) = (Server::start(&version, &Options::new()), Server::start(&version, &Options::new())) else { return };
    assert_ne!(one.port(), other.port());
    one.psql("CREATE TABLE mine ()");
    assert_eq!(other.psql("SELECT count(*) FROM pg_class WHERE relname = 'mine'"), "0");
}

/// A panic is no reason to leave a server behind.
#[test]
fn a_failing_test_leaves_nothing() {
    let version = versions().pop().unwrap();
    let Some(server) = Server::start(&version, &Options::new()) else { return };
    let (pid, dir) = (server.pid(), server.socket_dir().to_owned());
    let failed = thread::spawn(move || {
        let _server = server;
        panic!("on purpose");
    });
    assert!(failed.join().is_err());
    assert!(!process_exists(pid) && !dir.exists());
}

/// Nor is SIGKILL: this test runs itself once more, kills that, and looks.
#[test]
fn a_killed_program_leaves_nothing() {
    const HOLD: &str = "PGWT_TEST_HOLD_A_SERVER";
    let version = versions().pop().unwrap();
    if std::env::var_os(HOLD).is_some() {
        let Some(server) = Server::start(&version, &Options::new()) else { return };
        let _session = server.session("SELECT pg_sleep(600)");
        println!("\nholding {} {}", server.pid(), server.socket_dir().display());
        thread::sleep(Duration::from_secs(600));
        return;
    }
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "a_killed_program_leaves_nothing", "--nocapture"]).env(HOLD, "1");
    let mut program = program.stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(program.stdout.take().unwrap()).lines().map_while(Result::ok).find(|line| line.starts_with("holding"));
    let Some(said) = said else {
        assert!(program.wait().unwrap().success(), "it could not hold a server");
        return;
    };
    program.kill().unwrap();
    program.wait().unwrap();
    let mut words = said.split(' ').skip(1);
    let pid: u32 = words.next().unwrap().parse().unwrap();
    let dir = PathBuf::from(words.next().unwrap());
    assert!(wait_until(PATIENCE, || !process_exists(pid)), "the postmaster is gone");
    assert!(wait_until(PATIENCE, || !dir.exists()), "its folder is gone");
}
