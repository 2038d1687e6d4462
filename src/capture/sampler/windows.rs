//! The windows of a sampler: who may open them, which one is open or on its way, and when it must close. Runs on the capture thread, which never waits here.

use super::Hands;
use crate::capture::anomaly::Capacity;
use crate::capture::command::{Command, Done, Kind, Order, Outcome};
use crate::capture::escalation::{Counts, End, Escalation, Settings, Step, lasted};
use crate::capture::window::{Opening, Prepared, Reason, Remains, Rules, Window};
use crate::capture::{Feed, capacity, sys};
use crate::pg::server::Attached;
use crate::trace::clock::{SECOND, Ts};
use crate::trace::health::Health;
use crate::trace::learned::Learned;
use crate::trace::marker::{self, Marker};
use anyhow::Result;
use crossbeam_channel::{Receiver, Sender};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Who may open windows.
#[derive(Debug, Clone, Default)]
pub enum Policy {
    /// Nobody: nothing is attached, ever.
    Never,
    /// Whoever asks, for as long as they want.
    #[default]
    ByHand,
    /// Rules, and whoever asks; exact ones within a budget.
    Auto {
        /// Budget and rules.
        settings: Box<Settings>,
        /// What an earlier run had learned and spent.
        learned: Option<Box<Learned>>,
    },
}

/// How windows are opened.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) rules: Rules,
    pub(super) policy: Policy,
    /// One that is open all the time.
    pub(super) standing: Option<Kind>,
    pub(super) orders: Option<Receiver<Order>>,
}

/// Who wanted a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Somebody, without a budget.
    Hand,
    /// It is to be open all the time.
    Standing,
    /// Somebody or a rule, within the budget.
    Budget,
}

impl By {
    fn reason(self) -> marker::Reason {
        if self == Self::Standing { marker::Reason::Standing } else { marker::Reason::Manual }
    }
}

/// A window on its way.
#[derive(Debug)]
struct Wanted {
    opening: Opening,
    by: By,
    kind: Kind,
    seconds: Option<u64>,
    reply: Option<Sender<Outcome>>,
}

/// How often a standing window is tried again.
const REOPEN_EVERY: u64 = 10 * SECOND;
/// How often it is looked whether a window on its way is ready.
const LOOK_EVERY: u64 = 1_000_000;
/// How often it is looked how much CPU the server can have.
const CAPACITY_EVERY: u64 = SECOND;
/// How often what was learned is handed on.
const LEARNED_EVERY: u64 = 5 * SECOND;
/// The same while a window is open.
const SPENT_EVERY: u64 = SECOND / 2;
/// Why nothing is opened in this mode.
const NEVER: &str = "--mode sampled attaches nothing to the server: start with --mode tiered to open windows";

/// What a sampler knows of windows.
#[derive(Debug)]
pub(super) struct Windows {
    terms: Terms,
    escalation: Option<Box<Escalation>>,
    open: Option<(Box<Window>, By)>,
    wanted: Option<Wanted>,
    remains: Option<Remains>,
    /// Orders that wait until the window on its way is there.
    orders: VecDeque<Order>,
    /// A standing window that could not be opened, or was closed, is tried again then.
    reopen: Ts,
    capacity: (Ts, Option<Capacity>),
    server: String,
    handed_on: Ts,
}

impl Windows {
    pub(super) fn new(terms: Terms, hz: u32) -> Self {
        let escalation = match &terms.policy {
            Policy::Auto { settings, learned } => {
                let mut machine = Box::new(Escalation::new(**settings, hz));
                if let Some(learned) = learned {
                    machine.remember(sys::now(), learned);
                }
                Some(machine)
            }
            Policy::Never | Policy::ByHand => None,
        };
        Self {
            terms,
            escalation,
            open: None,
            wanted: None,
            remains: None,
            orders: VecDeque::new(),
            reopen: Ts(0),
            capacity: (Ts(0), None),
            server: String::new(),
            handed_on: Ts(0),
        }
    }

    /// Attached to a server, maybe another one than before.
    pub(super) fn attached(&mut self, hz: u32, server: String) {
        (self.reopen, self.capacity.0, self.server) = (Ts(0), Ts(0), server);
        if let Some(machine) = &mut self.escalation {
            machine.at_rate(hz);
        }
    }

    /// Until when the thread may sleep that would sleep until `limit`.
    pub(super) fn next(&self, limit: Ts) -> Ts {
        let open = self.open.as_ref().map_or(limit, |(w, _)| w.next());
        let look = self.wanted.as_ref().map_or(limit, |_| sys::now() + LOOK_EVERY);
        limit.min(open).min(look)
    }

    /// Does what the user wants, and keeps a standing window open. `hands`: of the server, unless it is away.
    pub(super) fn obey(&mut self, mut hands: Option<Hands<'_>>, feed: &mut Feed, health: &mut Health) {
        self.orders.extend(self.terms.orders.iter().flat_map(Receiver::try_iter));
        while self.wanted.is_none()
            && let Some(order) = self.orders.pop_front()
        {
            let Order { command, reply } = order;
            let outcome = match command {
                Command::Close => {
                    self.close(&Reason::Told, hands.as_mut(), feed, health);
                    Some(Ok(Done::default()))
                }
                Command::Open { kind, seconds } => self.ask(kind, seconds, reply.as_ref(), hands.as_mut(), feed, health),
            };
            if let (Some(reply), Some(outcome)) = (reply, outcome) {
                // Whoever asked may be gone.
                let _ = reply.try_send(outcome);
            }
        }
        if let (Some(kind), None, None, Some(hands)) = (self.terms.standing, &self.open, &self.wanted, &mut hands)
            && sys::now() >= self.reopen
        {
            self.reopen = sys::now() + REOPEN_EVERY;
            self.begin(kind, By::Standing, None, None, hands.memory);
        }
    }

    /// Somebody wants a window. `None`: what comes of it is told when it is open.
    fn ask(
        &mut self,
        kind: Kind,
        seconds: Option<u64>,
        reply: Option<&Sender<Outcome>>,
        mut hands: Option<&mut Hands<'_>>,
        feed: &mut Feed,
        health: &mut Health,
    ) -> Option<Outcome> {
        if matches!(self.terms.policy, Policy::Never) {
            return Some(Err(NEVER.into()));
        }
        let Some(memory) = hands.as_ref().map(|h| h.memory) else { return Some(Err("the server is away".into())) };
        if kind == Kind::Exact && self.escalation.is_some() {
            if self.open.as_ref().is_some_and(|(w, by)| w.kind() != kind || *by != By::Budget) {
                self.close(&Reason::Replaced, hands.as_deref_mut(), feed, health);
            }
            let now = sys::now();
            return match self.escalation.as_mut()?.ask(now, seconds.map(|s| s.saturating_mul(SECOND))) {
                Err(denied) => {
                    health.window_error = Some(denied.to_string());
                    Some(Err(denied.to_string()))
                }
                Ok(Step::Extend(end)) => {
                    self.extend(end);
                    let granted_s = end.at.map(|at| at.since(now).div_ceil(SECOND));
                    Some(Ok(Done { granted_s: granted_s.map(|g| g.min(seconds.unwrap_or(g))), remaining_s: granted_s }))
                }
                Ok(Step::Open) => {
                    self.begin(kind, By::Budget, seconds, reply.cloned(), memory);
                    None
                }
                Ok(Step::Nothing) => Some(Ok(Done::default())),
            };
        }
        if let Some((window, _)) = self.open.as_mut().filter(|(w, _)| w.kind() == kind) {
            window.end_at(seconds.map(|s| (sys::now() + s.saturating_mul(SECOND), Reason::TimeUp)));
            return Some(Ok(Done { granted_s: seconds, remaining_s: seconds }));
        }
        self.close(&Reason::Replaced, hands, feed, health);
        self.begin(kind, By::Hand, seconds, reply.cloned(), memory);
        None
    }

    fn begin(&mut self, kind: Kind, by: By, seconds: Option<u64>, reply: Option<Sender<Outcome>>, memory: &Attached) {
        let opening = Opening::begin(kind, &self.terms.rules, memory, self.remains.take());
        self.wanted = Some(Wanted { opening, by, kind, seconds, reply });
    }

    fn extend(&mut self, end: End) {
        let cause = self.escalation.as_ref().and_then(|m| m.cause()).map(|(reason, detail)| (reason.name(), detail.to_owned()));
        if let (Some((window, _)), Some((cause, detail))) = (&mut self.open, cause) {
            window.end_at(end_of(end));
            window.because(cause, &detail);
        }
    }

    /// A tick was taken: asks the rules.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn ticked(
        &mut self,
        at: Ts,
        weight: u64,
        counts: Counts,
        complete: bool,
        hands: &mut Hands<'_>,
        feed: &mut Feed,
        health: &mut Health,
    ) {
        let Some(machine) = &mut self.escalation else { return };
        if at.since(self.capacity.0) >= CAPACITY_EVERY || self.capacity.0 == Ts(0) {
            self.capacity = (at, capacity::capacity(Path::new("/"), hands.memory.postmaster(), hands.memory.cpus()));
        }
        match machine.tick(at, weight, counts, complete, self.capacity.1) {
            Step::Nothing => {}
            Step::Extend(end) => self.extend(end),
            Step::Open if self.wanted.is_some() => machine.failed("another window was being opened"),
            Step::Open => {
                // One by hand that is not exact makes place.
                self.close(&Reason::Replaced, Some(hands), feed, health);
                self.begin(Kind::Exact, By::Budget, None, None, hands.memory);
            }
        }
        self.tell(feed);
    }

    /// Lets the window work, closes it when it is time, and takes over the one that is ready.
    pub(super) fn work(&mut self, mut hands: Option<Hands<'_>>, feed: &mut Feed, health: &mut Health) {
        if let Some(outcome) = self.wanted.as_ref().and_then(|w| w.opening.poll())
            && let Some(wanted) = self.wanted.take()
        {
            self.take_over(wanted, outcome, hands.as_mut(), feed, health);
        }
        if let (Some((window, _)), Some(hands)) = (&mut self.open, &mut hands)
            && let Some(reason) = window.work(hands, feed)
        {
            self.close(&reason, Some(hands), feed, health);
        }
        if self.remains.as_ref().is_some_and(Remains::is_gone) {
            self.remains = None;
        }
    }

    fn take_over(
        &mut self,
        wanted: Wanted,
        outcome: Result<Prepared>,
        hands: Option<&mut Hands<'_>>,
        feed: &mut Feed,
        health: &mut Health,
    ) {
        let opened = outcome.and_then(|prepared| match hands {
            Some(hands) => Window::open(prepared, &self.terms.rules, hands, feed),
            None => anyhow::bail!("the server is away"),
        });
        let outcome = match opened {
            Ok(mut window) => {
                health.window_error = None;
                let at = window.opened();
                let mut granted_s = wanted.seconds;
                if let (By::Budget, Some(machine)) = (wanted.by, &mut self.escalation) {
                    granted_s = machine.granted_s();
                    window.end_at(end_of(machine.opened(at)));
                    if let Some((reason, detail)) = machine.cause() {
                        window.because(reason.name(), detail);
                    }
                } else {
                    window.end_at(wanted.seconds.map(|s| (at + s.saturating_mul(SECOND), Reason::TimeUp)));
                    let reason = wanted.by.reason();
                    window.because(reason.name(), "");
                    feed.markers.push(Marker {
                        at,
                        kind: marker::Kind::Opened,
                        reason,
                        tier: wanted.kind.fidelity(),
                        detail: String::new(),
                        granted: true,
                        seconds: wanted.seconds,
                    });
                }
                let account = window.health();
                let done = Done { granted_s, remaining_s: account.remaining_s };
                health.window = Some(account);
                self.open = Some((Box::new(window), wanted.by));
                Ok(done)
            }
            Err(error) => {
                let why = format!("{error:#}");
                if let (By::Budget, Some(machine)) = (wanted.by, &mut self.escalation) {
                    machine.failed(&why);
                }
                health.window_error = Some(why.clone());
                Err(why)
            }
        };
        self.tell(feed);
        if let Some(reply) = wanted.reply {
            // Whoever asked may be gone.
            let _ = reply.try_send(outcome);
        }
    }

    /// Closes what is open.
    pub(super) fn close(&mut self, reason: &Reason, hands: Option<&mut Hands<'_>>, feed: &mut Feed, health: &mut Health) {
        let Some((window, by)) = self.open.take() else { return };
        self.reopen = sys::now() + if matches!(reason, Reason::TooDear(_)) { 6 * REOPEN_EVERY } else { REOPEN_EVERY };
        let (opened, kind) = (window.opened(), window.kind());
        let (account, watched, remains) = window.close(reason, hands, feed);
        let said = reason.of_marker();
        if let (By::Budget, Some(machine)) = (by, &mut self.escalation) {
            machine.closed(watched, said, &account.reason);
        } else {
            feed.markers.push(Marker {
                at: watched,
                kind: marker::Kind::Closed,
                reason: said,
                tier: kind.fidelity(),
                detail: account.reason.clone(),
                granted: true,
                seconds: Some(lasted(watched.since(opened))),
            });
        }
        health.window = Some(account);
        self.remains = Some(remains);
        self.tell(feed);
    }

    /// Ends everything; waits until nothing is attached any more.
    pub(super) fn finish(&mut self, hands: Option<Hands<'_>>, feed: &mut Feed, health: &mut Health) {
        let mut hands = hands;
        self.wanted = None;
        self.close(&Reason::Ended, hands.as_mut(), feed, health);
        self.remains = None;
        self.hand_on(sys::now(), feed);
    }

    /// Before a block is sealed.
    pub(super) fn refresh(&mut self, hands: Option<Hands<'_>>, feed: &mut Feed, health: &mut Health) {
        if let (Some((window, _)), Some(mut hands)) = (&mut self.open, hands) {
            window.checkpoint(&mut hands, feed);
            health.window = Some(window.health());
        }
        let now = sys::now();
        health.escalation = self.escalation.as_ref().map(|machine| machine.account(now));
        // What an open window has spent must not be forgotten when this program is killed.
        let every = if self.open.is_some() { SPENT_EVERY } else { LEARNED_EVERY };
        if now.since(self.handed_on) >= every {
            self.hand_on(now, feed);
        }
    }

    fn hand_on(&mut self, now: Ts, feed: &mut Feed) {
        self.handed_on = now;
        feed.learned = self.escalation.as_ref().map(|machine| Arc::new(machine.learned(now, &self.server))).or(feed.learned.take());
    }

    fn tell(&mut self, feed: &mut Feed) {
        feed.markers.extend(self.escalation.iter_mut().flat_map(|machine| machine.take_markers()));
    }
}

fn end_of(end: End) -> Option<(Ts, Reason)> {
    end.at.map(|at| (at, if end.by_budget { Reason::Budget } else { Reason::TimeUp }))
}
