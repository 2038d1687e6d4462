//! A row per session seen in the window, most load first. Pure.

use super::answer::{SessionRow, Share, Who};
use super::events::per;
use super::meaning::Meaning;
use super::spark::sparks;
use super::tally::{Tally, top};
use super::walk::Walk;
use crate::trace::Trace;
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
pub fn sessions<T: Trace>(walk: &Walk<'_, T>, tally: &Tally, observed: u64, limit: usize, points: u16) -> (Vec<SessionRow>, usize) {
    let catalog = walk.trace.catalog();
    // The tally is sorted by session, so that a session's rows are neighbours.
    let mut groups: Vec<(u64, i32, SessionId, &[_])> = tally
        .rows
        .chunk_by(|a, b| a.0.session == b.0.session)
        .filter_map(|rows| {
            let session = rows.first()?.0.session;
            let load = rows.iter().filter(|(k, _)| k.meaning == Meaning::Load).map(|(_, s)| s.ns).sum();
            Some((load, catalog.sessions.get(&session).map_or(0, |s| s.pid), session, rows))
        })
        .collect();
    groups.sort_unstable_by_key(|(load, pid, session, _)| (Reverse(*load), *pid, *session));
    let total = groups.len();
    groups.truncate(if limit == 0 { total } else { limit });
    let places: FxHashMap<SessionId, usize> = groups.iter().enumerate().map(|(i, g)| (g.2, i)).collect();
    let lines = sparks(walk, points, groups.len(), |p| match p.meaning {
        Meaning::Load => [places.get(&p.record.session).copied(), None, None],
        _ => [None; 3],
    });
    let rows = groups.into_iter().zip(lines).map(|((load, _, session, rows), spark)| {
        let mut events: FxHashMap<WaitEvent, u64> = FxHashMap::default();
        let mut queries: FxHashMap<QueryId, u64> = FxHashMap::default();
        let mut classes = [0; WaitClass::ALL.len()];
        let mut idle_ns = 0;
        for (key, sum) in rows {
            match key.meaning {
                Meaning::Load => {
                    *events.entry(key.event).or_default() += sum.ns;
                    *queries.entry(key.query).or_default() += sum.ns;
                    super::spark::add(&mut classes, key.event.class().index(), sum.ns);
                }
                Meaning::Idle => idle_ns += sum.ns,
                Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => {}
            }
        }
        let cpu = events.get(&WaitEvent::CPU).copied().unwrap_or_default();
        let share = |top: Option<(WaitEvent, u64)>| top.map(|(event, time_ns)| Share { event, name: catalog.events.name(event), time_ns });
        let of_load = |ns: u64| (load > 0).then(|| ns as f64 / load as f64);
        SessionRow {
            who: who(catalog, session),
            time_ns: load,
            idle_ns,
            cpu_share: of_load(cpu),
            wait_share: of_load(load - cpu),
            db_share: tally.share(load),
            aas: per(load, observed),
            top_wait: share(top(events.iter().filter(|(e, _)| **e != WaitEvent::CPU).map(|(e, ns)| (*e, *ns)))),
            top: share(top(events)),
            classes,
            query: top(queries).map_or(QueryId::NONE, |(query, _)| query),
            spark,
        }
    });
    (rows.collect(), total)
}
