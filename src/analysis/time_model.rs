//! DB Time by class and event, then idle time by event. Pure.

use super::answer::{ModelKey, ModelRow, TimeModel};
use super::meaning::Meaning;
use super::observed::Observed;
use super::tally::{Row, Sum, Tally};
use crate::trace::catalog::EventNames;
use crate::trace::wait::{WaitClass, WaitEvent};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Time with its course.
#[derive(Default)]
struct Total {
    ns: u64,
    line: Vec<u64>,
}

impl Total {
    fn take(&mut self, tally: &Tally, row: &Row) {
        self.ns += row.sum.ns;
        let line = tally.line(row);
        self.line.resize(line.len(), 0);
        self.line.iter_mut().zip(line).for_each(|(total, ns)| *total += ns);
    }
}

/// The time model of a tally. `whole` says that no filter hides part of what the I/O workers did.
pub fn time_model(tally: &Tally, seen: &Observed, names: &EventNames, whole: bool) -> TimeModel {
    let (mut all, mut none) = (Total::default(), Total::default());
    let mut classes: BTreeMap<WaitClass, Total> = BTreeMap::new();
    let mut events: BTreeMap<WaitEvent, Total> = BTreeMap::new();
    let mut idle: BTreeMap<WaitEvent, Total> = BTreeMap::new();
    for row in &tally.rows {
        match row.key.meaning {
            Meaning::Load => {
                all.take(tally, row);
                classes.entry(row.key.event.class()).or_default().take(tally, row);
                events.entry(row.key.event).or_default().take(tally, row);
            }
            Meaning::Idle => {
                none.take(tally, row);
                idle.entry(row.key.event).or_default().take(tally, row);
            }
            Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => {}
        }
    }
    let row = |key, name: &str, depth, total: &Total| {
        let load = matches!(key, ModelKey::DbTime | ModelKey::Class(_) | ModelKey::Event(_));
        let db_share = tally.share(total.ns).filter(|_| load);
        let spark = if total.line.is_empty() { seen.nothing() } else { seen.spark(&total.line) };
        ModelRow { key, name: name.into(), depth, time_ns: total.ns, db_share, aas: seen.aas(total.ns), spark }
    };
    let events = descending(events);
    let mut rows = vec![row(ModelKey::DbTime, "DB Time", 0, &all)];
    let off = classes.remove(&WaitClass::OffCpu).filter(|total| total.ns > 0);
    let on = classes.remove(&WaitClass::Cpu).filter(|total| total.ns > 0);
    // What was not on the CPU stands right behind what was.
    let both = on.as_ref().map_or(0, |t| t.ns).max(u64::from(off.is_some()));
    let mut classes: Vec<(WaitClass, Total)> = descending(classes);
    let place = classes.partition_point(|(_, total)| total.ns > both);
    classes.splice(place..place, [(WaitClass::Cpu, on), (WaitClass::OffCpu, off)].into_iter().filter_map(|(c, t)| Some((c, t?))));
    for (class, total) in classes {
        rows.push(row(ModelKey::Class(class), names.class(class), 1, &total));
        if !matches!(class, WaitClass::Cpu | WaitClass::OffCpu) {
            let inside = events.iter().filter(|(e, _)| e.class() == class);
            rows.extend(inside.map(|(e, total)| row(ModelKey::Event(*e), &names.name(*e), 2, total)));
        }
    }
    rows.push(row(ModelKey::Idle, "Idle", 0, &none));
    rows.extend(descending(idle).iter().map(|(e, total)| row(ModelKey::IdleEvent(*e), &names.name(*e), 1, total)));
    let worked = tally.io_busy_ns + tally.io_idle_ns;
    let io_worker_busy = (whole && worked > 0).then(|| tally.io_busy_ns as f64 / worked as f64);
    let mut waits = Sum::default();
    tally.load().filter(|row| !matches!(row.key.event.class(), WaitClass::Cpu | WaitClass::OffCpu)).for_each(|row| waits.add(&row.sum));
    TimeModel { rows, waits: waits.measured(), io_worker_busy, io_workers: if whole { tally.io_workers } else { 0 } }
}

/// What has time, most first; of equals the smaller key first.
fn descending<K: Ord + Copy>(totals: BTreeMap<K, Total>) -> Vec<(K, Total)> {
    let mut rows: Vec<(K, Total)> = totals.into_iter().filter(|(_, total)| total.ns > 0).collect();
    rows.sort_by_key(|(_, total)| Reverse(total.ns));
    rows
}
