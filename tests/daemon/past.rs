//! What every session was doing at a past instant, against `pg_stat_activity` asked then.

use crate::binary::{now, objects};
use crate::support::{Options, Server};
use crate::{recorded_after, watch};
use postgres::SimpleQueryMessage;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// Microseconds since 1970, as the server tells them; empty: none.
fn micros(text: Option<&str>) -> i64 {
    text.map_or(0, |t| t.parse().unwrap())
}

#[test]
fn a_past_instant_is_what_pg_stat_activity_said_then() {
    let Some(server) = Server::start("18", &Options::new()) else { return };
    server.pgbench(&["-i", "-q", "-s", "1"]).finish();
    let dir = TempDir::new().unwrap();
    let mut daemon = watch(&server, dir.path(), &["--mode", "sampled"]);
    daemon.says("recording into");
    let load = server.pgbench(&["-n", "-c", "3", "-T", "3600"]);
    // One waits in a transaction, one runs for long, one does something each 300 ms.
    let mut waits = server.connect();
    waits.batch_execute("BEGIN; SELECT 'waits'").unwrap();
    let mut sleeps = server.connect();
    let slow = std::thread::spawn(move || sleeps.batch_execute("BEGIN; SELECT 'before'; SELECT pg_sleep(9), 'slow'; COMMIT").unwrap());
    let mut asks = server.connect();
    let mut instants = Vec::new();
    for n in 0..24 {
        if n == 11 {
            waits.batch_execute("COMMIT; BEGIN; SELECT 'again'").unwrap();
        }
        let rows = asks
            .simple_query(
                "SELECT pid, (extract(epoch FROM query_start) * 1000000)::bigint, (extract(epoch FROM xact_start) * 1000000)::bigint,
                        (extract(epoch FROM state_change) * 1000000)::bigint, state, query, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                   FROM pg_stat_activity WHERE backend_type = 'client backend'",
            )
            .unwrap();
        let mut at = 0;
        let mut truth: BTreeMap<i64, ([i64; 3], String, String)> = BTreeMap::new();
        for row in rows {
            let SimpleQueryMessage::Row(row) = row else { continue };
            at = micros(row.get(6));
            let times = [micros(row.get(1)), micros(row.get(2)), micros(row.get(3))];
            truth.insert(micros(row.get(0)), (times, row.get(4).unwrap_or_default().to_owned(), row.get(5).unwrap_or_default().to_owned()));
        }
        instants.push((at, truth));
        sleep(Duration::from_millis(300));
    }
    recorded_after(dir.path(), now());
    drop(load);
    daemon.stop();
    let (mut told, mut stood) = (0, 0);
    for (at, truth) in &instants {
        let to = jiff::Timestamp::from_microsecond(*at).unwrap().to_string();
        let flags = ["--replay", "-T", dir.path().to_str().unwrap(), "--view", "active", "--format", "json", "--to", &to];
        let seen = objects(&flags).remove(0);
        for row in seen["rows"].as_array().unwrap() {
            let Some((times, state, query)) = truth.get(&row["pid"].as_i64().unwrap()) else { continue };
            let shown = ["query_start", "xact_start", "state_change"]
                .map(|f| row[f].as_str().map_or(0, |t| t.parse::<jiff::Timestamp>().unwrap().as_microsecond()));
            // The row is of a tick, up to 10 ms before, often later when the machine is busy: what changed near the instant may be of either side.
            let quiet = at - times.iter().max().unwrap() > 2_000_000;
            for (n, (shown, then)) in shown.into_iter().zip(*times).enumerate() {
                let later = instants.iter().find(|(t, _)| t > at).and_then(|(_, then)| Some(then.get(&row["pid"].as_i64()?)?.0));
                let stays = quiet && later == Some(*times);
                if stays {
                    stood += 1;
                    assert_eq!(shown, then, "time {n} of {state} {query} at {at}");
                }
                assert!(shown <= *at, "time {n} of {query} at {at} is of later: {shown}");
                told += usize::from(shown == then && then != 0);
            }
            if quiet && state != "idle" {
                assert_eq!(row["text"].as_str(), Some(query.as_str()), "{row}");
                assert_eq!(row["state"].as_str(), Some(state.as_str()), "{row}");
            }
        }
    }
    slow.join().unwrap();
    assert!(stood > 40 && told > 60, "{stood} times stood, {told} were told");
}
