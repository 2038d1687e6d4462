//! The sampled tier against real servers: what it says must be what PostgreSQL says about itself at the same moment.
#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use pg_wait_tracer::pg::memory::Reach;
use support::watch::Watch;
use support::{Options, Server, versions, wait_until};

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
    let mut sessions =
        vec![server.session("SELECT pg_sleep(600)"), server.session("DO $$ DECLARE i bigint := 0; BEGIN LOOP i := i + 1; END LOOP; END $$")];
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
                    found.values_mut().for_each(|t| t.query_id = "0".into());
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
