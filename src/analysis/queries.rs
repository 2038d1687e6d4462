//! A row per query, and a row per query and event; load only, most first. Load without a known query is a row like any other. Pure.

use super::answer::{PairRow, QueryRow, Share, Sql};
use super::observed::Observed;
use super::tally::{Row, Sum, Tally, add, top};
use crate::trace::catalog::{Catalog, Named};
use crate::trace::record::{QueryId, SessionId};
use crate::trace::wait::{WaitClass, WaitEvent};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// What is known of a query.
pub fn sql(catalog: &Catalog, query: QueryId) -> Sql {
    let Some(q) = catalog.queries.get(&query) else { return Sql { query, ..Sql::default() } };
    Sql { query, text: q.text.clone(), truncated: q.truncated, source: q.source }
}

/// A row per query, at most `limit` (0 = all), and how many there were.
pub fn queries(tally: &Tally, seen: &Observed, catalog: &Catalog, limit: usize) -> (Vec<QueryRow>, usize) {
    let load: Vec<&Row> = tally.load().collect();
    // Sorted by query, so that a query's rows are neighbours.
    let mut groups: Vec<(Sum, QueryId, &[&Row])> = load
        .chunk_by(|a, b| a.key.query == b.key.query)
        .filter_map(|rows| {
            let sum = rows.iter().fold(Sum::default(), |s, r| Sum { ns: s.ns + r.sum.ns, samples: s.samples + r.sum.samples });
            Some((sum, rows.first()?.key.query, rows))
        })
        .filter(|(sum, _, _)| sum.ns > 0)
        .collect();
    groups.sort_unstable_by_key(|(sum, query, _)| (Reverse(sum.ns), *query));
    let total = groups.len();
    groups.truncate(if limit == 0 { total } else { limit });
    let mut sessions: FxHashMap<QueryId, Vec<(SessionId, u64)>> = FxHashMap::default();
    for ((session, query), ns) in &tally.runs {
        sessions.entry(*query).or_default().push((*session, *ns));
    }
    let rows = groups.into_iter().map(|(sum, query, rows)| {
        let mut classes = [0; WaitClass::ALL.len()];
        for row in rows {
            add(&mut classes, row.key.event.class().index(), row.sum.ns);
        }
        let ran = sessions.remove(&query).unwrap_or_default();
        let count = ran.len() as u32;
        let session = top(ran).and_then(|(session, _)| catalog.sessions.get(&session));
        let event = top(rows.iter().map(|r| (r.key.event, r.sum.ns)));
        QueryRow {
            sql: sql(catalog, query),
            time_ns: sum.ns,
            db_share: tally.share(sum.ns),
            aas: seen.aas(sum.ns),
            samples: sum.samples,
            sessions: count,
            waits: None,
            executions: None,
            database: session.map_or_else(Named::default, |s| s.database.clone()),
            user: session.map_or_else(Named::default, |s| s.user.clone()),
            classes,
            top: event.map(|(event, time_ns)| Share { event, name: catalog.events.name(event), time_ns }),
            spark: seen.spark(rows.first().map(|row| tally.line(row)).unwrap_or_default()),
        }
    });
    (rows.collect(), total)
}

/// A row per query and event, at most `limit` (0 = all), and how many there were.
pub fn pairs(tally: &Tally, catalog: &Catalog, limit: usize) -> (Vec<PairRow>, usize) {
    let mut order: Vec<(QueryId, WaitEvent, Sum)> =
        tally.load().filter(|r| r.sum.ns > 0).map(|r| (r.key.query, r.key.event, r.sum)).collect();
    order.sort_unstable_by_key(|(query, event, sum)| (Reverse(sum.ns), *query, *event));
    let total = order.len();
    order.truncate(if limit == 0 { total } else { limit });
    let rows = order.into_iter().map(|(query, event, sum)| PairRow {
        sql: sql(catalog, query),
        event,
        name: catalog.events.name(event),
        waits: None,
        samples: sum.samples,
        time_ns: sum.ns,
        latency: None,
        db_share: tally.share(sum.ns),
    });
    (rows.collect(), total)
}
