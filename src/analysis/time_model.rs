//! DB Time by class and event, then idle time by event. Pure.

use super::answer::{ModelKey, ModelRow, TimeModel};
use super::meaning::Meaning;
use super::spark::sparks;
use super::tally::Tally;
use super::walk::Walk;
use crate::trace::Trace;
use crate::trace::catalog::EventNames;
use crate::trace::wait::{WaitClass, WaitEvent};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// The time model of a tally. `observed` nanoseconds were seen; `whole` says that no filter hides part of what the I/O workers did.
pub fn time_model<T: Trace>(walk: &Walk<'_, T>, tally: &Tally, observed: u64, points: u16, whole: bool) -> TimeModel {
    let names = &walk.trace.catalog().events;
    let mut rows = rows(tally, names);
    let places: FxHashMap<ModelKey, usize> = rows.iter().enumerate().map(|(i, r)| (r.key, i)).collect();
    let at = |key| places.get(&key).copied();
    let lines = sparks(walk, points, rows.len(), |p| match p.meaning {
        Meaning::Load => [at(ModelKey::DbTime), at(ModelKey::Class(p.record.event.class())), at(ModelKey::Event(p.record.event))],
        Meaning::Idle => [at(ModelKey::Idle), at(ModelKey::IdleEvent(p.record.event)), None],
        Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => [None; 3],
    });
    for (row, spark) in rows.iter_mut().zip(lines) {
        row.spark = spark;
        row.aas = if observed > 0 { row.time_ns as f64 / observed as f64 } else { 0.0 };
    }
    let worked = tally.io_busy_ns + tally.io_idle_ns;
    let io_worker_busy = (whole && worked > 0).then(|| tally.io_busy_ns as f64 / worked as f64);
    TimeModel { rows, io_worker_busy, io_workers: if whole { tally.io_workers } else { 0 } }
}

fn rows(tally: &Tally, names: &EventNames) -> Vec<ModelRow> {
    let mut classes: FxHashMap<WaitClass, u64> = FxHashMap::default();
    let mut events: FxHashMap<WaitEvent, u64> = FxHashMap::default();
    let mut idle: FxHashMap<WaitEvent, u64> = FxHashMap::default();
    for (key, sum) in &tally.rows {
        match key.meaning {
            Meaning::Load => {
                *classes.entry(key.event.class()).or_default() += sum.ns;
                *events.entry(key.event).or_default() += sum.ns;
            }
            Meaning::Idle => *idle.entry(key.event).or_default() += sum.ns,
            Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => {}
        }
    }
    let row = |key, name: String, depth, time_ns, db_share| ModelRow { key, name, depth, time_ns, db_share, aas: 0.0, spark: Vec::new() };
    let mut rows = vec![row(ModelKey::DbTime, "DB Time".into(), 0, tally.load_ns, tally.share(tally.load_ns))];
    let events = descending(events);
    for (class, ns) in descending(classes) {
        rows.push(row(ModelKey::Class(class), names.class(class).into(), 1, ns, tally.share(ns)));
        if class != WaitClass::Cpu {
            let inside = events.iter().filter(|(e, _)| e.class() == class);
            rows.extend(inside.map(|(e, ns)| row(ModelKey::Event(*e), names.name(*e), 2, *ns, tally.share(*ns))));
        }
    }
    rows.push(row(ModelKey::Idle, "Idle".into(), 0, tally.idle_ns, None));
    rows.extend(descending(idle).into_iter().map(|(e, ns)| row(ModelKey::IdleEvent(e), names.name(e), 1, ns, None)));
    rows
}

/// What has time, most first; of equals the smaller key first.
fn descending<K: Ord + Copy>(times: FxHashMap<K, u64>) -> Vec<(K, u64)> {
    let mut rows: Vec<(K, u64)> = times.into_iter().filter(|(_, ns)| *ns > 0).collect();
    rows.sort_unstable_by_key(|(key, ns)| (Reverse(*ns), *key));
    rows
}
