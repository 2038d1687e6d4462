//! A row per session seen in the window, most load first. Pure.

use super::answer::{SessionRow, Share, Who};
use super::meaning::Meaning;
use super::observed::Observed;
use super::tally::{Row, Sum, Tally, add, top};
use crate::trace::catalog::Catalog;
use crate::trace::record::{QueryId, SessionId};
use crate::trace::wait::{WaitClass, WaitEvent};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// What is known of a session; of one the catalog does not know, only its id.
pub fn who(catalog: &Catalog, session: SessionId) -> Who {
    let Some(s) = catalog.sessions.get(&session) else { return Who { session, ..Who::default() } };
    Who {
        session,
        pid: s.pid,
        server_pid: s.server_pid,
        started: s.started,
        kind: s.kind,
        leader: s.leader,
        user: s.user.clone(),
        database: s.database.clone(),
        application: s.application.clone(),
        client: s.client.clone(),
        gone: s.gone,
    }
}

/// The rows, at most `limit` (0 = all), and how many there were.
pub fn sessions(tally: &Tally, seen: &Observed, catalog: &Catalog, limit: usize) -> (Vec<SessionRow>, usize) {
    // The tally is sorted by session, so that a session's rows are neighbours.
    let mut groups: Vec<(u64, i32, SessionId, &[Row])> = tally
        .rows
        .chunk_by(|a, b| a.key.session == b.key.session)
        .filter_map(|rows| {
            let session = rows.first()?.key.session;
            let load = rows.iter().filter(|r| r.key.meaning == Meaning::Load).map(|r| r.sum.ns).sum();
            Some((load, catalog.sessions.get(&session).map_or(0, |s| s.pid), session, rows))
        })
        .collect();
    groups.sort_unstable_by_key(|(load, pid, session, _)| (Reverse(*load), *pid, *session));
    let total = groups.len();
    groups.truncate(if limit == 0 { total } else { limit });
    let mut queries: FxHashMap<SessionId, Vec<(QueryId, u64)>> = FxHashMap::default();
    for ((session, query), ns) in &tally.runs {
        queries.entry(*session).or_default().push((*query, *ns));
    }
    let share = |top: Option<(WaitEvent, u64)>| top.map(|(event, time_ns)| Share { event, name: catalog.events.name(event), time_ns });
    let rows = groups.into_iter().map(|(load, _, session, rows)| {
        let mut events: FxHashMap<WaitEvent, u64> = FxHashMap::default();
        let mut classes = [0; WaitClass::ALL.len()];
        let (mut idle_ns, mut line) = (0, None);
        let (mut whole, mut waits) = (Sum::default(), 0);
        for row in rows {
            match row.key.meaning {
                Meaning::Load => {
                    whole.add(&row.sum);
                    waits += if row.key.event == WaitEvent::CPU { 0 } else { row.sum.waits };
                    *events.entry(row.key.event).or_default() += row.sum.ns;
                    add(&mut classes, row.key.event.class().index(), row.sum.ns);
                    line = Some(tally.line(row));
                }
                Meaning::Idle => idle_ns += row.sum.ns,
                Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => {}
            }
        }
        let cpu = events.get(&WaitEvent::CPU).copied().unwrap_or_default();
        let off = events.get(&WaitEvent::OFF_CPU).copied().unwrap_or_default();
        let of_load = |ns: u64| (load > 0).then(|| ns as f64 / load as f64);
        SessionRow {
            who: who(catalog, session),
            time_ns: load,
            idle_ns,
            cpu_share: of_load(cpu),
            wait_share: of_load(load - cpu - off),
            db_share: tally.share(load),
            aas: seen.aas(load),
            top_wait: share(top(events.iter().filter(|(e, _)| ![WaitEvent::CPU, WaitEvent::OFF_CPU].contains(e)).map(|(e, ns)| (*e, *ns)))),
            top: share(top(events)),
            classes,
            waits: whole.precise.then_some(waits),
            measured: whole.measured(),
            query: queries.remove(&session).and_then(top).map_or(QueryId::NONE, |(query, _)| query),
            spark: line.map_or_else(|| seen.nothing(), |line| seen.spark(line)),
        }
    });
    (rows.collect(), total)
}
