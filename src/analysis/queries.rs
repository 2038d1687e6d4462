//! A row per query, and a row per query and event; load only, most first. Load without a known query is a row like any other. Pure.

use super::answer::{PairRow, QueryRow, Share, Sql};
use super::events::per;
use super::meaning::Meaning;
use super::spark::{add, sparks};
use super::tally::{Sum, Tally, top};
use super::walk::Walk;
use crate::trace::Trace;
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

#[derive(Default)]
struct Entry {
    sum: Sum,
    sessions: FxHashMap<SessionId, u64>,
    events: FxHashMap<WaitEvent, u64>,
}

/// A row per query, at most `limit` (0 = all), and how many there were.
pub fn queries<T: Trace>(walk: &Walk<'_, T>, tally: &Tally, observed: u64, limit: usize, points: u16) -> (Vec<QueryRow>, usize) {
    let catalog = walk.trace.catalog();
    let mut entries: FxHashMap<QueryId, Entry> = FxHashMap::default();
    for (key, sum) in tally.load() {
        let entry = entries.entry(key.query).or_default();
        entry.sum.ns += sum.ns;
        entry.sum.samples += sum.samples;
        *entry.sessions.entry(key.session).or_default() += sum.ns;
        *entry.events.entry(key.event).or_default() += sum.ns;
    }
    let mut order: Vec<(QueryId, Entry)> = entries.into_iter().filter(|(_, e)| e.sum.ns > 0).collect();
    order.sort_unstable_by_key(|(query, e)| (Reverse(e.sum.ns), *query));
    let total = order.len();
    order.truncate(if limit == 0 { total } else { limit });
    let places: FxHashMap<QueryId, usize> = order.iter().enumerate().map(|(i, (q, _))| (*q, i)).collect();
    let lines = sparks(walk, points, order.len(), |p| match p.meaning {
        Meaning::Load => [places.get(&p.record.query).copied(), None, None],
        _ => [None; 3],
    });
    let rows = order.into_iter().zip(lines).map(|((query, e), spark)| {
        let mut classes = [0; WaitClass::ALL.len()];
        for (event, ns) in &e.events {
            add(&mut classes, event.class().index(), *ns);
        }
        let sessions = e.sessions.len() as u32;
        let session = top(e.sessions).and_then(|(session, _)| catalog.sessions.get(&session));
        QueryRow {
            sql: sql(catalog, query),
            time_ns: e.sum.ns,
            db_share: tally.share(e.sum.ns),
            aas: per(e.sum.ns, observed),
            samples: e.sum.samples,
            sessions,
            database: session.map_or_else(Named::default, |s| s.database.clone()),
            user: session.map_or_else(Named::default, |s| s.user.clone()),
            classes,
            top: top(e.events).map(|(event, time_ns)| Share { event, name: catalog.events.name(event), time_ns }),
            spark,
        }
    });
    (rows.collect(), total)
}

/// A row per query and event, at most `limit` (0 = all), and how many there were.
pub fn pairs(catalog: &Catalog, tally: &Tally, limit: usize) -> (Vec<PairRow>, usize) {
    let mut sums: FxHashMap<(QueryId, WaitEvent), Sum> = FxHashMap::default();
    for (key, sum) in tally.load() {
        let entry = sums.entry((key.query, key.event)).or_default();
        entry.ns += sum.ns;
        entry.samples += sum.samples;
    }
    let mut order: Vec<((QueryId, WaitEvent), Sum)> = sums.into_iter().filter(|(_, s)| s.ns > 0).collect();
    order.sort_unstable_by_key(|(key, s)| (Reverse(s.ns), *key));
    let total = order.len();
    order.truncate(if limit == 0 { total } else { limit });
    let rows = order.into_iter().map(|((query, event), s)| PairRow {
        sql: sql(catalog, query),
        event,
        name: catalog.events.name(event),
        waits: None,
        samples: s.samples,
        time_ns: s.ns,
        latency: None,
        db_share: tally.share(s.ns),
    });
    (rows.collect(), total)
}
