//! A row per query, and a row per query and event; load only, most first. Load without a known query is a row like any other. Pure.

use super::answer::{Executions, PairRow, QueryRow, Share, Sql};
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
pub fn queries(
    tally: &Tally,
    seen: &Observed,
    catalog: &Catalog,
    mut executions: FxHashMap<QueryId, Executions>,
    limit: usize,
) -> (Vec<QueryRow>, usize) {
    let load: Vec<&Row> = tally.load().collect();
    // Sorted by query, so that a query's rows are neighbours.
    let mut groups: Vec<(Sum, QueryId, &[&Row])> = load
        .chunk_by(|a, b| a.key.query == b.key.query)
        .filter_map(|rows| {
            let sum = rows.iter().fold(Sum::default(), |mut s, r| {
                s.add(&r.sum);
                s
            });
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
            waits: sum.precise.then(|| rows.iter().filter(|r| r.key.event.class() != WaitClass::Cpu).map(|r| r.sum.waits).sum()),
            executions: executions.remove(&query),
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
    let mut order: Vec<&Row> = tally.load().filter(|r| r.sum.ns > 0 || r.sum.waits > 0).collect();
    order.sort_unstable_by_key(|r| (Reverse(r.sum.ns), r.key.query, r.key.event));
    let total = order.len();
    order.truncate(if limit == 0 { total } else { limit });
    let rows = order.into_iter().map(|r| PairRow {
        sql: sql(catalog, r.key.query),
        event: r.key.event,
        name: catalog.events.name(r.key.event),
        waits: r.sum.waits().filter(|_| r.key.event != WaitEvent::OFF_CPU),
        samples: r.sum.samples,
        time_ns: r.sum.ns,
        latency: tally.latency(r),
        db_share: tally.share(r.sum.ns),
    });
    (rows.collect(), total)
}
