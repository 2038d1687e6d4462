//! Adds up DB Time by class and event, second by second, by asking the analysis: so exact rows win over samples, and semantics are the same as everywhere.
//!
//! Its own thread. Holds the last seconds of blocks and drops what it has counted. A second is counted when it has settled: rows of windows come late.

use super::board::Board;
use crate::analysis::answer::{Answer, Body};
use crate::analysis::question::{Ask, Question};
use crate::analysis::{Local, Source};
use crate::trace::Trace;
use crate::trace::clock::{MILLI, SECOND, Span, Ts, Window};
use crate::trace::recent::{Batch, Recent};
use crate::trace::wait::{WaitClass, WaitEvent};
use crossbeam_channel::{Receiver, select};
use std::collections::BTreeMap;

/// Time of one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventTotal {
    /// Load, nanoseconds.
    pub ns: u64,
    /// Waits that ended, of exact and blocking windows.
    pub waits: u64,
}

/// What was added up since the start. Counters only ever grow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Load by class, in the order of [`WaitClass::ALL`], nanoseconds. Their sum is DB Time.
    pub classes: [u64; WaitClass::ALL.len()],
    /// Load by class and event name, at most [`NAMED`] by their own, the rest of each class as [`OTHER`].
    pub events: BTreeMap<(&'static str, String), EventTotal>,
    /// Idle time, nanoseconds.
    pub idle_ns: u64,
    /// Observed by exact capture, nanoseconds.
    pub exact_ns: u64,
    /// Observed by blocking capture, nanoseconds.
    pub blocking_ns: u64,
    /// Observed by samples alone, nanoseconds.
    pub sampled_ns: u64,
    /// Not observed, nanoseconds.
    pub gap_ns: u64,
    /// Measured on the CPU outside of waits, nanoseconds.
    pub cpu_ns: u64,
    /// Measured off the CPU outside of waits, nanoseconds.
    pub off_cpu_ns: u64,
    /// Measured on the CPU inside waits, nanoseconds.
    pub wait_cpu_ns: u64,
    /// Average active sessions by class over the newest stretch that was counted.
    pub aas: [f64; WaitClass::ALL.len()],
    /// Share of the I/O workers' time that was busy in that stretch; `None`: there are none.
    pub io_worker_busy: Option<f64>,
    /// Length of that stretch as far as observed, nanoseconds.
    pub last_ns: u64,
    /// Observations of processes in that stretch.
    pub last_samples: u64,
    /// Up to here it was counted.
    pub until: Ts,
}

/// Events with a name of their own; the first ones seen, since a counter must not go back.
pub const NAMED: usize = 50;
/// What the others of a class are called.
pub const OTHER: &str = "other";

/// Blocks kept, bytes: a bound, hardly ever reached.
const MEMORY: usize = 32 << 20;
/// So much is counted early.
const FULL: usize = 8 << 20;
/// Counted so often, by trace time.
const EVERY: u64 = SECOND;
/// So long it takes until a stretch has settled.
const SETTLES: u64 = 2 * SECOND;
/// The same when there is much.
const SETTLES_EARLY: u64 = 600 * MILLI;

/// Counts until the capture ends or it is told to stop.
pub fn run(batches: &Receiver<Batch>, stop: &Receiver<()>, board: &Board) {
    let mut meter = Meter::default();
    loop {
        select! {
            recv(batches) -> batch => match batch {
                Ok(batch) => {
                    if meter.absorb(batch) {
                        board.publish(meter.totals.clone());
                    }
                }
                Err(_) => return,
            },
            recv(stop) -> _ => return,
        }
    }
}

/// Blocks not counted yet, and what was counted.
#[derive(Debug)]
pub struct Meter {
    trace: Local<Recent>,
    counted: Option<Ts>,
    named: usize,
    totals: Totals,
}

impl Default for Meter {
    fn default() -> Self {
        Self { trace: Local(Recent::new(MEMORY)), counted: None, named: 0, totals: Totals::default() }
    }
}

impl Meter {
    /// Takes in a batch, and counts what has settled. True: something was.
    pub fn absorb(&mut self, batch: Batch) -> bool {
        self.trace.0.absorb(batch);
        let Some(extent) = self.trace.0.extent() else { return false };
        let full = self.trace.0.bytes() > FULL;
        let settled = extent.end - if full { SETTLES_EARLY } else { SETTLES };
        let from = *self.counted.get_or_insert(extent.start);
        if settled.since(from) < if full { EVERY / 4 } else { EVERY } {
            return false;
        }
        self.count(Span::new(from, settled));
        true
    }

    /// What was counted.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    fn count(&mut self, window: Span) {
        self.counted = Some(window.end);
        let ask = |ask| Question::new(ask, Window::Fixed(window));
        let answers = (self.trace.ask(&ask(Ask::Events)), self.trace.ask(&ask(Ask::TimeModel)));
        self.trace.0.forget(window.end);
        // The one error is a filter, and there is none.
        let (Ok(events), Ok(model)) = answers else { return };
        self.add_coverage(&events);
        self.add_events(&events);
        if let Body::TimeModel(model) = &model.body {
            self.totals.wait_cpu_ns += model.waits.map_or(0, |m| m.cpu_ns);
            self.totals.io_worker_busy = model.io_worker_busy;
        }
        self.totals.until = window.end;
    }

    fn add_coverage(&mut self, answer: &Answer) {
        let (t, c) = (&mut self.totals, &answer.coverage);
        t.exact_ns += c.exact_ns;
        t.blocking_ns += c.blocking_ns;
        t.sampled_ns += c.sampled_ns;
        t.gap_ns += c.gap_ns;
        t.idle_ns += answer.idle_ns;
        t.last_ns = c.observed_ns();
    }

    fn add_events(&mut self, answer: &Answer) {
        let t = &mut self.totals;
        t.aas = [0.0; WaitClass::ALL.len()];
        t.last_samples = 0;
        let Body::Events { events } = &answer.body else { return };
        for row in events {
            let waits = row.waits.unwrap_or(0);
            t.last_samples += row.samples;
            if row.idle {
                continue;
            }
            if let (Some(ns), Some(aas)) = (t.classes.get_mut(row.class.index()), t.aas.get_mut(row.class.index())) {
                *ns += row.time_ns;
                *aas += row.aas;
            }
            match row.event {
                WaitEvent::CPU => t.cpu_ns += row.measured.map_or(0, |m| m.cpu_ns),
                WaitEvent::OFF_CPU => t.off_cpu_ns += row.time_ns,
                _ => {}
            }
            let class = row.class.name();
            let name = row.name.split_once(':').map_or(row.name.as_str(), |(_, name)| name);
            let mut key = (class, name.to_owned());
            if !t.events.contains_key(&key) {
                if self.named < NAMED {
                    self.named += 1;
                } else {
                    OTHER.clone_into(&mut key.1);
                }
            }
            let total = t.events.entry(key).or_default();
            total.ns += row.time_ns;
            total.waits += waits;
        }
    }
}
