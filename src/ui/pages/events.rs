//! Wait events.

use super::column::{Cell, Column, Parts, Tone, Width, by_part, count, part};
use super::subject::Subject;
use super::{Row, RowKey};
use crate::analysis::answer::{EventRow, Latency};
use crate::ui::format;

impl EventRow {
    fn tone(&self) -> Tone {
        if self.idle { Tone::Dim } else { Tone::Plain }
    }

    fn latency_of(&self, pick: fn(&Latency) -> u64) -> Option<u64> {
        self.latency.as_ref().map(pick)
    }
}

fn latency<'a>(row: &EventRow, pick: fn(&Latency) -> u64) -> Cell<'a> {
    row.latency_of(pick).map_or_else(|| Cell::dim(format::NONE), |ns| Cell::Text(format::duration(ns).into(), row.tone()))
}

impl Row for EventRow {
    const ORDERED: Option<&'static str> = Some("time");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::<Self>::new("event", Width::Share(26, 48, 6), 0, |r, _| Cell::Name {
            depth: 0,
            class: Some(r.class),
            text: r.name.as_str().into(),
            note: if r.idle { "idle" } else { "" },
            tone: r.tone(),
        })
        .name(|a, b| a.name.cmp(&b.name))
        .help("wait event, as the server names it"),
        Column::<Self>::new("time", Width::Fixed(8), 0, |r, _| Cell::Text(format::duration(r.time_ns).into(), r.tone()))
            .number(|a, b| a.time_ns.cmp(&b.time_ns))
            .help("time of all sessions in it"),
        Column::<Self>::new("%DB", Width::Fixed(6), 0, |r, _| Cell::Text(format::share(r.db_share).into(), r.tone()))
            .number(|a, b| a.db_share.unwrap_or(-1.0).total_cmp(&b.db_share.unwrap_or(-1.0)))
            .help("share of DB Time"),
        Column::<Self>::new("load", Width::Share(8, 24, 3), 2, |r, s| match r.db_share {
            Some(share) => Cell::Bar(share / s.top_share, Parts::One(r.class)),
            None => Cell::Empty,
        })
        .help("the same as a bar; the largest row is the full length"),
        Column::<Self>::new("AAS", Width::Fixed(6), 1, |r, _| Cell::Text(format::aas(r.aas).into(), r.tone()))
            .number(|a, b| a.aas.total_cmp(&b.aas))
            .help("average active sessions in it"),
        Column::<Self>::new("waits", Width::Fixed(8), 3, |r, _| count(r.waits))
            .number(|a, b| a.waits.cmp(&b.waits))
            .when(|s| s.exact)
            .help("number of waits; only where every one was captured"),
        Column::<Self>::new("avg", Width::Fixed(8), 4, |r, _| latency(r, |l| l.avg_ns))
            .number(|a, b| a.latency_of(|l| l.avg_ns).cmp(&b.latency_of(|l| l.avg_ns)))
            .when(|s| s.exact)
            .help("mean length; only where true lengths were captured, never from samples"),
        Column::<Self>::new("p50", Width::Fixed(8), 11, |r, _| latency(r, |l| l.p50_ns))
            .number(|a, b| a.latency_of(|l| l.p50_ns).cmp(&b.latency_of(|l| l.p50_ns)))
            .when(|s| s.exact)
            .help("median"),
        Column::<Self>::new("p95", Width::Fixed(8), 5, |r, _| latency(r, |l| l.p95_ns))
            .number(|a, b| a.latency_of(|l| l.p95_ns).cmp(&b.latency_of(|l| l.p95_ns)))
            .when(|s| s.exact)
            .help("95th percentile"),
        Column::<Self>::new("p99", Width::Fixed(8), 8, |r, _| latency(r, |l| l.p99_ns))
            .number(|a, b| a.latency_of(|l| l.p99_ns).cmp(&b.latency_of(|l| l.p99_ns)))
            .when(|s| s.exact)
            .help("99th percentile"),
        Column::<Self>::new("max", Width::Fixed(8), 7, |r, _| latency(r, |l| l.max_ns))
            .number(|a, b| a.latency_of(|l| l.max_ns).cmp(&b.latency_of(|l| l.max_ns)))
            .when(|s| s.exact)
            .help("longest"),
        Column::<Self>::new("spin%", Width::Fixed(6), 9, |r, _| part(r.measured.as_ref(), |m| m.cpu_ns))
            .number(|a, b| by_part(a.measured.as_ref(), b.measured.as_ref(), |m| m.cpu_ns))
            .when(|s| s.measured)
            .help("share of the time on the CPU: a wait that spins, or works in the kernel; only where it was measured"),
        Column::<Self>::new("runq%", Width::Fixed(6), 10, |r, _| part(r.measured.as_ref(), |m| m.runq_ns))
            .number(|a, b| by_part(a.measured.as_ref(), b.measured.as_ref(), |m| m.runq_ns))
            .when(|s| s.measured)
            .help("share of the time in the run queue: awake, without a CPU; only where it was measured"),
        Column::<Self>::new("sess", Width::Fixed(5), 6, |r, _| Cell::Text(r.sessions.to_string().into(), r.tone()))
            .number(|a, b| a.sessions.cmp(&b.sessions))
            .help("sessions that were in it"),
        Column::<Self>::new("samples", Width::Fixed(8), 13, |r, _| Cell::dim(r.samples.to_string()))
            .number(|a, b| a.samples.cmp(&b.samples))
            .help("times a sample found a session in it: how much the row is worth believing"),
        Column::<Self>::new("over time", Width::Share(9, 96, 4), 12, |r, _| Cell::Spark(&r.spark, Some(r.class)))
            .help("AAS over the window, each row to its own scale; dots were not observed"),
    ];

    fn key(&self) -> RowKey {
        RowKey::Event(self.event)
    }

    fn subject(&self) -> Subject {
        Subject::Event(self.event, self.name.clone())
    }

    fn is_idle(&self) -> bool {
        self.idle
    }

    fn texts(&self, look: &mut dyn FnMut(&str)) {
        look(&self.name);
    }

    fn group(&self) -> u8 {
        u8::from(self.idle)
    }

    fn load_ns(&self) -> u64 {
        if self.idle { 0 } else { self.time_ns }
    }

    fn share(&self) -> Option<f64> {
        self.db_share
    }
}
