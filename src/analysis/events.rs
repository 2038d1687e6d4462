//! A row per wait event: load first, then idle time, the `Activity` class last; each by time. Pure.

use super::answer::EventRow;
use super::meaning::Meaning;
use super::observed::Observed;
use super::tally::{Row, Sum, Tally};
use crate::trace::catalog::EventNames;
use crate::trace::wait::{WaitClass, WaitEvent};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

#[derive(Default)]
struct Entry<'a> {
    sum: Sum,
    /// The tally has a row per session and event, so that each row is another session.
    sessions: u32,
    line: &'a [u64],
    row: Option<&'a Row>,
}

/// The rows, at most `limit` (0 = all), and how many there were.
pub fn events(tally: &Tally, seen: &Observed, names: &EventNames, limit: usize) -> (Vec<EventRow>, usize) {
    let mut entries: FxHashMap<(WaitEvent, bool), Entry> = FxHashMap::default();
    for row in &tally.rows {
        let idle = match row.key.meaning {
            Meaning::Load => false,
            Meaning::Idle => true,
            Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => continue,
        };
        let entry = entries.entry((row.key.event, idle)).or_default();
        entry.sum.add(&row.sum);
        entry.sessions += 1;
        entry.line = tally.line(row);
        entry.row = Some(row);
    }
    let mut order: Vec<((WaitEvent, bool), Entry)> = entries.into_iter().filter(|(_, e)| e.sum.ns > 0 || e.sum.waits > 0).collect();
    order.sort_unstable_by_key(|((event, idle), e)| (*idle, event.class() == WaitClass::Activity, Reverse(e.sum.ns), *event));
    let total = order.len();
    order.truncate(if limit == 0 { total } else { limit });
    let rows = order.into_iter().map(|((event, idle), e)| EventRow {
        event,
        name: names.name(event),
        class: event.class(),
        idle,
        waits: e.sum.waits().filter(|_| event != WaitEvent::OFF_CPU),
        samples: e.sum.samples,
        time_ns: e.sum.ns,
        latency: e.row.and_then(|row| tally.latency(row)),
        measured: e.sum.measured(),
        db_share: if idle { None } else { tally.share(e.sum.ns) },
        aas: seen.aas(e.sum.ns),
        sessions: e.sessions,
        spark: seen.spark(e.line),
    });
    (rows.collect(), total)
}
