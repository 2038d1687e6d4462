//! The sampler on a server, in this process: what tests ask instead of looking at a screen.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use pg_wait_tracer::analysis::answer::{ActiveRow, Answer, Body, EventRow};
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::analysis::{Local, Source};
use pg_wait_tracer::capture::engine::Engine;
use pg_wait_tracer::capture::sampler::{Command, Options, Order, Outcome, Policy, Sampler};
use pg_wait_tracer::capture::window::{Kind, Rules};
use pg_wait_tracer::pg::discover;
use pg_wait_tracer::pg::memory::Reach;
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::{Blind, Loss, Mark};
use pg_wait_tracer::trace::clock::{Span, Ts, Window};
use pg_wait_tracer::trace::health::{Health, Link, WindowHealth};
use pg_wait_tracer::trace::recent::{Batch, Recent};
use pg_wait_tracer::trace::record::{Fidelity, Record};

use super::Server;

/// A sampler at work and what it has seen.
pub struct Watch {
    pub trace: Local<Recent>,
    batches: Receiver<Batch>,
    commands: Sender<Order>,
    _engine: Engine,
}

/// All that a window told.
#[derive(Debug, Default)]
pub struct Captured {
    pub rows: Vec<Record>,
    pub watched: Vec<Span>,
    pub losses: Vec<Loss>,
    pub blind: Vec<Blind>,
    pub marks: Vec<Mark>,
}

impl Captured {
    /// From the first watched moment to the last.
    pub fn span(&self) -> Span {
        let start = self.watched.iter().map(|s| s.start).min().unwrap();
        Span::new(start, self.watched.iter().map(|s| s.end).max().unwrap())
    }

    /// Rows by session, in order.
    pub fn by_session(&self) -> std::collections::BTreeMap<u32, Vec<Record>> {
        let mut all: std::collections::BTreeMap<u32, Vec<Record>> = std::collections::BTreeMap::new();
        for row in &self.rows {
            all.entry(row.session.0).or_default().push(*row);
        }
        for rows in all.values_mut() {
            rows.sort_by_key(|r| r.span.start);
        }
        all
    }
}

impl Watch {
    /// Watches a server at `hz`, mapped or by system calls.
    pub fn new(server: &Server, hz: u32, reach: Reach) -> Self {
        Self::with(server, Reach::Auto, |o| (o.rate_hz, o.reach) = (Some(hz), reach))
    }

    /// Watches a server, with windows as `rules` say.
    pub fn windows(server: &Server, rules: Rules) -> Self {
        Self::with(server, Reach::Auto, |o| o.rules = rules)
    }

    /// Watches a server whose windows are opened by who may.
    pub fn policy(server: &Server, policy: Policy) -> Self {
        Self::with(server, Reach::Auto, |o| {
            o.policy = policy;
            o.rules = Rules { max_overhead_pct: 1e9, ..Rules::default() };
        })
    }

    /// Wants something, and waits for what comes of it.
    pub fn order(&mut self, command: Command) -> Outcome {
        let (reply, outcome) = bounded(1);
        self.commands.send(Order { command, reply: Some(reply) }).unwrap();
        let outcome = outcome.recv_timeout(Duration::from_secs(20)).unwrap();
        self.run(Duration::from_millis(600));
        outcome
    }

    fn with(server: &Server, reach: Reach, set: impl FnOnce(&mut Options)) -> Self {
        let postmaster = discover::choose(Some(server.pid() as i32), None).unwrap();
        let mut options = Options::new(postmaster, Some(100), reach);
        set(&mut options);
        let (commands, inbox) = unbounded();
        options.commands = Some(inbox);
        let (engine, batches) = Engine::start(move || Sampler::start(options)).unwrap();
        Self { trace: Local(Recent::new(1 << 30)), batches, commands, _engine: engine }
    }

    /// Opens a window and waits for its first coverage.
    pub fn open(&mut self, kind: Kind, seconds: Option<u64>) {
        self.commands.send(Command::Open { kind, seconds }.into()).unwrap();
        let began = Instant::now();
        loop {
            let health = self.health();
            if let Some(error) = health.window_error {
                panic!("no window: {error}");
            }
            if health.window.is_some_and(|w| w.open && w.tier == kind.fidelity()) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "no window");
            self.run(Duration::from_millis(50));
        }
    }

    /// Closes the window and waits for all that it tells.
    pub fn close(&mut self) -> WindowHealth {
        self.commands.send(Command::Close.into()).unwrap();
        self.closed(Duration::from_secs(20))
    }

    /// Waits until the window is closed.
    pub fn closed(&mut self, limit: Duration) -> WindowHealth {
        self.until(limit, "window closed", |t| t.0.health().window.as_ref().is_some_and(|w| !w.open));
        self.run(Duration::from_millis(400));
        self.health().window.unwrap()
    }

    /// What windows of a kind told so far.
    pub fn captured(&self, kind: Kind) -> Captured {
        let mut all = Captured::default();
        self.trace.0.scan(Span { start: Ts(0), end: Ts(u64::MAX) }, &mut |block| {
            if block.fidelity() == kind.fidelity() && block.fidelity() != Fidelity::Sampled {
                all.rows.extend(block.records());
                all.watched.extend_from_slice(block.watched());
                all.losses.extend_from_slice(block.losses());
                all.blind.extend_from_slice(block.blind());
                all.marks.extend_from_slice(block.marks());
            }
        });
        all
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
