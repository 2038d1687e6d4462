//! The sampler on a server, in this process: what tests ask instead of looking at a screen.

use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use pg_wait_tracer::analysis::answer::{ActiveRow, Answer, Body, EventRow};
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::analysis::{Local, Source};
use pg_wait_tracer::capture::engine::Engine;
use pg_wait_tracer::capture::sampler::{Options, Sampler};
use pg_wait_tracer::pg::discover;
use pg_wait_tracer::pg::memory::Reach;
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::clock::{Span, Window};
use pg_wait_tracer::trace::health::{Health, Link};
use pg_wait_tracer::trace::recent::{Batch, Recent};

use super::Server;

/// A sampler at work and what it has seen.
pub struct Watch {
    pub trace: Local<Recent>,
    batches: Receiver<Batch>,
    _engine: Engine,
}

impl Watch {
    /// Watches a server at `hz`, mapped or by system calls.
    pub fn new(server: &Server, hz: u32, reach: Reach) -> Self {
        let postmaster = discover::choose(Some(server.pid() as i32), None).unwrap();
        let options = Options { postmaster, rate_hz: Some(hz), reach };
        let (engine, batches) = Engine::start(move || Sampler::start(options)).unwrap();
        Self { trace: Local(Recent::new(256 << 20)), batches, _engine: engine }
    }

    /// Takes in what was captured, until the time is up.
    pub fn run(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Ok(batch) = self.batches.recv_deadline(end) {
            self.trace.0.absorb(batch);
        }
    }

    /// Takes in what was captured until a condition on the trace holds.
    pub fn until(&mut self, limit: Duration, what: &str, mut holds: impl FnMut(&mut Local<Recent>) -> bool) {
        let end = Instant::now() + limit;
        loop {
            if holds(&mut self.trace) {
                return;
            }
            let batch = self.batches.recv_deadline(end).unwrap_or_else(|_| panic!("{what}: not within {limit:?}"));
            self.trace.0.absorb(batch);
        }
    }

    pub fn ask(&mut self, ask: Ask, window: Window) -> Answer {
        self.trace.ask(&Question::new(ask, window)).unwrap()
    }

    pub fn health(&self) -> Health {
        self.trace.0.health().clone()
    }

    pub fn attached(&self) -> bool {
        self.trace.0.health().link == Link::Attached
    }

    /// The span from the newest tick, `length` back.
    pub fn last(&self, length: Duration) -> Span {
        Window::Follow(length.as_nanos() as u64).resolve(self.trace.0.extent())
    }

    /// Everybody at the newest tick.
    pub fn active(&mut self) -> Vec<ActiveRow> {
        match self.ask(Ask::Active, Window::Follow(1_000_000_000)).body {
            Body::Active { active, .. } => active,
            other => panic!("{other:?}"),
        }
    }

    /// Events of a window.
    pub fn events(&mut self, window: Window) -> Vec<EventRow> {
        match self.ask(Ask::Events, window).body {
            Body::Events { events } => events,
            other => panic!("{other:?}"),
        }
    }
}
