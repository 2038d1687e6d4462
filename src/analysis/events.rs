//! A row per wait event: load first, then idle time, the `Activity` class last; each by time. Pure.

use super::answer::EventRow;
use super::meaning::Meaning;
use super::spark::sparks;
use super::tally::Tally;
use super::walk::Walk;
use crate::trace::Trace;
use crate::trace::record::SessionId;
use crate::trace::wait::{WaitClass, WaitEvent};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

#[derive(Default)]
struct Entry {
    ns: u64,
    samples: u64,
    sessions: FxHashSet<SessionId>,
}

/// The rows, at most `limit` (0 = all), and how many there were.
pub fn events<T: Trace>(walk: &Walk<'_, T>, tally: &Tally, observed: u64, limit: usize, points: u16) -> (Vec<EventRow>, usize) {
    let names = &walk.trace.catalog().events;
    let mut entries: FxHashMap<(WaitEvent, bool), Entry> = FxHashMap::default();
    for (key, sum) in &tally.rows {
        let idle = match key.meaning {
            Meaning::Load => false,
            Meaning::Idle => true,
            Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => continue,
        };
        let entry = entries.entry((key.event, idle)).or_default();
        entry.ns += sum.ns;
        entry.samples += sum.samples;
        entry.sessions.insert(key.session);
    }
    let mut order: Vec<((WaitEvent, bool), Entry)> = entries.into_iter().filter(|(_, e)| e.ns > 0).collect();
    order.sort_unstable_by_key(|((event, idle), e)| (*idle, event.class() == WaitClass::Activity, Reverse(e.ns), *event));
    let total = order.len();
    order.truncate(if limit == 0 { total } else { limit });
    let places: FxHashMap<(WaitEvent, bool), usize> = order.iter().enumerate().map(|(i, (key, _))| (*key, i)).collect();
    let lines = sparks(walk, points, order.len(), |p| {
        let idle = match p.meaning {
            Meaning::Load => false,
            Meaning::Idle => true,
            Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => return [None; 3],
        };
        [places.get(&(p.record.event, idle)).copied(), None, None]
    });
    let rows = order.into_iter().zip(lines).map(|(((event, idle), e), spark)| EventRow {
        event,
        name: names.name(event),
        class: event.class(),
        idle,
        waits: None,
        samples: e.samples,
        time_ns: e.ns,
        latency: None,
        db_share: if idle { None } else { tally.share(e.ns) },
        aas: per(e.ns, observed),
        sessions: e.sessions.len() as u32,
        spark,
    });
    (rows.collect(), total)
}

/// Time over observed time: average active sessions. 0 when nothing was observed.
pub fn per(ns: u64, observed: u64) -> f64 {
    if observed > 0 { ns as f64 / observed as f64 } else { 0.0 }
}
