//! How ticks keep time while a window on hundreds of backends opens and closes.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use crate::support::watch::Watch;
use crate::support::{Options, Server};
use pg_wait_tracer::capture::window::{Kind, Rules};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::clock::{Span, Ts};
use pg_wait_tracer::trace::health::WindowHealth;
use pg_wait_tracer::trace::record::SessionId;
use postgres::Client;
use std::collections::BTreeMap;
use std::time::Duration;

/// A server with room for many.
pub fn options() -> Options {
    Options::new().conf("max_connections = 600")
}

pub fn connect(server: &Server, n: usize) -> Vec<Client> {
    (0..n).map(|_| server.connect()).collect()
}

/// What was measured.
#[derive(Debug)]
pub struct Run {
    /// By how much each tick came later than the period allows after the one before, nanoseconds, sorted.
    pub late: Vec<u64>,
    /// The longest a session was there and not followed, nanoseconds.
    pub blind_ns: u64,
    /// The most of a client's time in the window that neither a row tells nor the account of who was not followed, nanoseconds.
    pub untold_ns: u64,
    pub window: WindowHealth,
}

impl Run {
    /// Share of ticks at most so late.
    pub fn within(&self, ns: u64) -> f64 {
        self.late.partition_point(|l| *l <= ns) as f64 / self.late.len() as f64
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |share: f64| self.late[((self.late.len() - 1) as f64 * share) as usize] as f64 / 1e6;
        write!(
            f,
            "{} armed, {} ticks, late by median {:.2} p90 {:.2} p99 {:.2} max {:.2} ms; within 20 ms {:.2} %; longest not followed {:.1} ms, untold {:.3} ms",
            self.window.armed,
            self.late.len(),
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0),
            100.0 * self.within(20_000_000),
            self.blind_ns as f64 / 1e6,
            self.untold_ns as f64 / 1e6
        )
    }
}

/// The period at 100 Hz with the most it may wander, nanoseconds.
const PERIOD: u64 = 11_000_000;

/// Opens a window, keeps it for a while, closes it; ticks from half a second before to half a second behind.
pub fn open_and_close(server: &Server, kind: Kind, length: Duration) -> Run {
    let mut watch = Watch::windows(server, Rules { max_overhead_pct: 1e9, ..Rules::default() });
    watch.run(Duration::from_millis(700));
    watch.open(kind, None);
    watch.run(length);
    let armed = watch.health().window.unwrap();
    watch.close();
    watch.run(Duration::from_millis(500));
    let mut ticks: Vec<Ts> = Vec::new();
    watch.trace.0.scan(Span { start: Ts(0), end: Ts(u64::MAX) }, &mut |b| ticks.extend(b.ticks().iter().map(|t| t.at)));
    ticks.sort_unstable();
    let mut late: Vec<u64> = ticks.windows(2).map(|t| t[1].since(t[0]).saturating_sub(PERIOD)).collect();
    late.sort_unstable();
    let captured = watch.captured(kind);
    let blind_ns = captured.blind.iter().map(|b| b.span.len()).max().unwrap_or(0);
    let mut told: BTreeMap<SessionId, u64> = BTreeMap::new();
    let spans = captured.rows.iter().map(|r| (r.session, r.span)).chain(captured.blind.iter().map(|b| (b.session, b.span)));
    spans.for_each(|(session, span)| *told.entry(session).or_default() += span.len());
    let watched: u64 = captured.watched.iter().map(|s| s.len()).sum();
    let clients = watch.trace.0.catalog().sessions.iter().filter(|(_, s)| &*s.application == "pgwt-test").map(|(id, _)| *id);
    let untold_ns = clients.map(|id| watched.abs_diff(told.get(&id).copied().unwrap_or(0))).max().unwrap_or(u64::MAX);
    Run { late, blind_ns, untold_ns, window: armed }
}
