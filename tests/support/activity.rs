//! What a server's memory says about its processes against what `pg_stat_activity` says about them.

use std::collections::BTreeMap;
use std::time::Duration;

use pg_wait_tracer::pg::discover::{self, Postmaster};
use pg_wait_tracer::pg::memory::Reach;
use pg_wait_tracer::pg::server::{Attached, Status};
use postgres::Client;

use super::{Server, wait_until};

pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn postmaster(server: &Server) -> Postmaster {
    discover::choose(Some(server.pid().cast_signed()), None).unwrap()
}

pub fn attach(server: &Server, reach: Reach) -> Attached {
    Attached::open(&postmaster(server), reach).unwrap()
}

/// Everything both sides can say about one process, as text.
pub type Facts = BTreeMap<&'static str, String>;

pub const ASKED: [&str; 14] = [
    "kind",
    "user",
    "database",
    "application",
    "client",
    "started",
    "state",
    "sql",
    "query id",
    "leader",
    "event",
    "xact start",
    "query start",
    "state change",
];

fn micros(column: &str) -> String {
    format!(
        "coalesce(floor(extract(epoch FROM {column}))::bigint * 1000000 + extract(microseconds FROM {column})::bigint % 1000000, 0)::text"
    )
}

pub fn told(server: &Server, client: &mut Client) -> BTreeMap<i32, Facts> {
    let query_id = if server.major() >= 14 { "coalesce(query_id, 0)::text" } else { "'0'" };
    let sql = format!(
        "SELECT pid, regexp_replace(backend_type, '^logical replication (apply|parallel|tablesync) worker$', 'logical replication worker'), coalesce(usename::text, ''), coalesce(datname::text, ''), application_name,
                CASE WHEN client_port = -1 THEN '[local]' WHEN client_addr IS NULL THEN '' ELSE host(client_addr) || ':' || client_port END,
                {}, coalesce(state, '-'), query, {query_id}, coalesce(leader_pid, 0)::text, coalesce(wait_event_type || ':' || wait_event, 'CPU*'),
                {}, {}, {}
         FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
        micros("backend_start"),
        micros("xact_start"),
        micros("query_start"),
        micros("state_change"),
    );
    let rows = client.query(&sql, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), ASKED.iter().enumerate().map(|(i, name)| (*name, row.get::<_, String>(i + 1))).collect())).collect()
}

pub fn read(attached: &mut Attached) -> BTreeMap<i32, Facts> {
    attached.refresh().unwrap();
    let names = attached.names();
    let mut all = BTreeMap::new();
    for (slot, proc) in attached.live() {
        let (Status::Row(brief), Status::Row(who), Status::Row(does)) =
            (attached.brief(slot, proc.pid), attached.identity(slot, proc.pid), attached.activity(slot, proc.pid))
        else {
            continue;
        };
        assert_eq!(brief.started, who.started);
        let facts = [
            who.kind.name().to_owned(),
            who.user.show().into_owned(),
            who.database.show().into_owned(),
            who.application.to_string(),
            who.client.to_string(),
            who.started.to_string(),
            brief.state.name().to_owned(),
            does.text.to_string(),
            brief.query.to_string(),
            who.leader.unwrap_or(0).to_string(),
            names.name(proc.event),
            does.xact_start.to_string(),
            does.query_start.to_string(),
            does.state_change.to_string(),
        ];
        all.insert(proc.pid, ASKED.into_iter().zip(facts).collect());
    }
    all
}

/// Waits until both sides say the same about everyone but the process that asks. They are never asked at the same instant.
pub fn agree(server: &Server, attached: &mut Attached, what: &str) -> BTreeMap<i32, Facts> {
    let mut client = server.connect();
    let own: i32 = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
    let (mut theirs, mut ours) = (BTreeMap::new(), BTreeMap::new());
    let same = wait_until(PATIENCE, || {
        theirs = told(server, &mut client);
        ours = read(attached);
        ours.remove(&own);
        ours == theirs
    });
    if !same {
        for (pid, facts) in &theirs {
            let mine = ours.get(pid);
            for (name, value) in facts {
                let got = mine.and_then(|m| m.get(name));
                if got != Some(value) {
                    eprintln!("{what}: {pid} {name}: PostgreSQL {value:?}, we {got:?}");
                }
            }
        }
        let strangers: Vec<_> = ours.keys().filter(|pid| !theirs.contains_key(pid)).collect();
        panic!("{what}: no agreement; only we see {strangers:?}");
    }
    theirs
}
