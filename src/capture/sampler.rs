//! The sampled tier: at each tick, looks once at every backend in the server's shared memory. Runs on the capture thread.
//!
//! Nothing is attached to PostgreSQL. New and ended backends are noticed by the next tick, since the process array is in the same memory. A
//! crash restart or a restart of the server unmaps at once, leaves a gap, and is followed by a new attachment when the server is back.
//! What cannot be trusted is a hole in coverage, never CPU.

mod hands;
mod pace;
mod queries;
mod roster;
mod windows;

pub use hands::Hands;
pub use roster::Seen;
pub use windows::Policy;

pub use super::command::{Command, Done, Kind, Order, Outcome};
use super::window::{Reason, Rules};
use super::{Capture, Feed, Progress, sys};
use crate::pg::discover::{self, Postmaster};
use crate::pg::memory::Reach;
use crate::pg::server::{Attached, Life, Status};
use crate::trace::catalog::{EventNames, News, Server};
use crate::trace::clock::{Clock, Ts};
use crate::trace::health::{Health, Link};
use crate::trace::meaning::Meaning;
use crate::trace::record::{Fidelity, QueryId, State};
use crate::trace::wait::{WaitClass, WaitEvent};
use crossbeam_channel::Receiver;
use pace::Pace;
pub use queries::PARSED_BY;
use queries::Queries;
use roster::Roster;
use std::sync::Arc;
use std::time::Duration;
use windows::{Terms, Windows};

/// What to sample, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server to begin with.
    pub postmaster: Postmaster,
    /// Ticks per second, 1 to 10,000. `None`: 100 when memory is mapped, 10 otherwise.
    pub rate_hz: Option<u32>,
    /// How to reach its memory.
    pub reach: Reach,
    /// How exact and blocking windows are to be.
    pub rules: Rules,
    /// Who may open them.
    pub policy: Policy,
    /// A window that is open all the time.
    pub standing: Option<Kind>,
    /// Where the user's wishes come from.
    pub commands: Option<Receiver<Order>>,
    /// Why this machine gives no exact window, where that is known from the beginning.
    pub no_window: Option<String>,
}

impl Options {
    /// Sampling alone.
    pub fn new(postmaster: Postmaster, rate_hz: Option<u32>, reach: Reach) -> Self {
        Self {
            postmaster,
            rate_hz,
            reach,
            rules: Rules::default(),
            policy: Policy::default(),
            standing: None,
            commands: None,
            no_window: None,
        }
    }
}

/// Ticks per second when memory is mapped and nothing else was asked for.
pub const MAPPED_HZ: u32 = 100;
/// Ticks per second when memory is read by system calls and nothing else was asked for.
pub const READV_HZ: u32 = 10;
/// How often the mapping is compared with the server's; a dying server is noticed sooner, by its processes.
const CHECK_EVERY: u64 = 250_000_000;
/// How often to try again while the server is away.
const RETRY_EVERY: u64 = 100_000_000;
/// How often names registered by extensions are looked for.
const NAMES_EVERY: u64 = 5_000_000_000;
/// Why nothing is read, when the server is gone.
const STOPPED: &str = "the server stopped";

/// The sampler.
#[derive(Debug)]
pub struct Sampler {
    options: Options,
    phase: Phase,
    /// Attempts to attach since the server went away.
    away: u32,
    pace: Pace,
    roster: Roster,
    queries: Queries,
    server: Server,
    health: Health,
    /// Names of the attached server's wait events.
    names: EventNames,
    /// Names that were found while attaching and are to go out with the next drain.
    pending: Vec<News>,
    windows: Windows,
}

#[derive(Debug)]
enum Phase {
    Attached(Box<Attachment>),
    Away { retry: Ts },
}

#[derive(Debug)]
struct Attachment {
    memory: Attached,
    watch: sys::Watch,
    checked: Ts,
    named: Ts,
}

impl Attachment {
    fn of(memory: Attached, postmaster: &Postmaster) -> anyhow::Result<Self> {
        let watch = sys::Watch::on(std::iter::once(postmaster.pid).chain(memory.checkpointer()))?;
        let now = sys::now();
        Ok(Self { memory, watch, checked: now, named: now })
    }

    /// Why its memory must not be read any more, if so.
    fn lost(&mut self, now: Ts) -> Option<String> {
        if now.since(self.checked) < CHECK_EVERY {
            return None;
        }
        self.checked = now;
        match self.memory.still() {
            Life::Alive => None,
            Life::Replaced => Some("the server restarted after a crash".into()),
            Life::Gone => Some(STOPPED.into()),
        }
    }
}

impl Sampler {
    /// Attaches, proves the layout, and is ready to sample. An error is one clear line.
    pub fn start(options: Options) -> anyhow::Result<Self> {
        let attachment = Attachment::of(Attached::open(&options.postmaster, options.reach)?, &options.postmaster)?;
        sys::wake_precisely();
        let terms = Terms {
            rules: options.rules.clone(),
            policy: options.policy.clone(),
            standing: options.standing,
            orders: options.commands.clone(),
        };
        let mut this = Self {
            away: 0,
            pace: Pace::new(MAPPED_HZ),
            roster: Roster::default(),
            queries: Queries::default(),
            server: Server::default(),
            health: Health { window_error: options.no_window.clone(), ..Health::default() },
            names: EventNames::default(),
            pending: Vec::new(),
            windows: Windows::new(terms, MAPPED_HZ),
            phase: Phase::Away { retry: Ts(0) },
            options,
        };
        this.attach(attachment);
        Ok(this)
    }

    fn attach(&mut self, attachment: Attachment) {
        use crate::trace::health::Access;
        let access = attachment.memory.access();
        let rate = self.options.rate_hz.unwrap_or(if access == Access::Mapped { MAPPED_HZ } else { READV_HZ });
        self.pace = Pace::new(rate);
        self.health.rate_hz = rate;
        self.health.access = access;
        self.health.link = Link::Attached;
        self.health.attachments += 1;
        self.away = 0;
        self.windows.attached(rate, self.options.postmaster.identity());
        self.server = attachment.memory.facts();
        self.queries.attached(&attachment.memory, self.server.major);
        self.server.query_ids = self.queries.server_computes();
        self.pending.push(News::Server(self.server.clone()));
        self.names = attachment.memory.names();
        self.pending.push(News::Events(self.names.clone()));
        self.phase = Phase::Attached(Box::new(attachment));
    }

    /// Unmaps the server's memory at once and begins to wait for it.
    fn lose(&mut self, why: String, feed: &mut Feed) {
        self.windows.close(&Reason::ServerGone, None, feed, &mut self.health);
        self.health.gaps += 1;
        self.health.backends = 0;
        self.health.link = waiting(&why);
        self.phase = Phase::Away { retry: sys::now() + RETRY_EVERY };
        self.pace.interrupted();
        self.roster.everyone_left(&mut feed.news);
    }

    fn try_again(&mut self, now: Ts) {
        let old = &self.options.postmaster;
        let found = discover::choose(Some(old.pid), None)
            .ok()
            .filter(|p| p.started == old.started)
            .or_else(|| discover::servers().into_iter().find(|p| p.pgdata == old.pgdata && p.container == old.container));
        let why = match found {
            // Without waiting: the thread has more to do, and the next attempt is near.
            Some(postmaster) => match Attached::open_now(&postmaster, self.options.reach).and_then(|m| Attachment::of(m, &postmaster)) {
                Ok(attachment) => {
                    self.options.postmaster = postmaster;
                    return self.attach(attachment);
                }
                Err(_) => "the server is starting",
            },
            None => STOPPED,
        };
        self.health.link = waiting(why);
        self.away += 1;
        // The search looks at every process of the machine: less often when the server stays away.
        self.phase = Phase::Away {
            retry: now
                + match self.away {
                    0..50 => RETRY_EVERY,
                    50..100 => 5 * RETRY_EVERY,
                    _ => 20 * RETRY_EVERY,
                },
        };
    }

    fn tick(&mut self, now: Ts, feed: &mut Feed) {
        let Phase::Attached(attachment) = &mut self.phase else { return };
        if let Some(why) = attachment.lost(now) {
            self.lose(why, feed);
            return;
        }
        let memory = &mut attachment.memory;
        if let Err(error) = memory.refresh() {
            self.lose(format!("cannot read the server's memory ({error:#})"), feed);
            return;
        }
        let step = self.pace.ticked(now);
        self.health.ticks += 1;
        self.health.late_ticks += u64::from(step.late);
        self.health.gaps += u64::from(step.gap);
        feed.builder.tick(now, step.weight);
        self.roster.begin(memory.slots());
        let mut unknown_name = false;
        let (mut load, mut lock, mut cpu, mut complete) = (0, 0, 0, true);
        for slot in 0..memory.slots() {
            self.roster.prefetch(memory, slot);
            let Some(process) = memory.proc(slot) else { continue };
            if !process.event.is_plausible() {
                self.health.invalid += 1;
                self.health.unread += 1;
                feed.builder.unread();
                complete = false;
                continue;
            }
            let (seen, status) = if let Some((seen, doing)) = self.roster.again(memory, slot, process.pid) {
                (seen, Some(doing))
            } else {
                let read = match memory.marked(slot, process.pid) {
                    Status::Unreadable => {
                        self.health.unread += 1;
                        feed.builder.unread();
                        self.roster.keep(slot, process.pid);
                        complete = false;
                        continue;
                    }
                    Status::Missing => None,
                    Status::Row(read) => Some(read),
                };
                let brief = read.map(|(brief, _)| brief);
                let seen = self.roster.see(memory, slot, process.pid, brief.as_ref(), &mut feed.news);
                if let Some((brief, mark)) = read {
                    self.roster.remember(slot, brief.doing(), mark);
                }
                (seen, brief.map(|b| b.doing()))
            };
            let (query, state) = match &status {
                Some(brief) => (self.queries.of(memory, slot, process.pid, brief, seen, &mut feed.news), brief.state),
                None => (QueryId::NONE, State::Starting),
            };
            unknown_name |= !self.roster.named(slot, process, &self.names);
            feed.builder.sample(seen.session, process.event, query, state);
            if Meaning::of(self.roster.kind(slot), state, process.event, &self.names) == Meaning::Load {
                load += 1;
                lock += u32::from(process.event.class() == WaitClass::Lock);
                cpu += u32::from(process.event == WaitEvent::CPU);
            }
        }
        self.roster.end(&mut feed.news);
        self.health.backends = self.roster.len() as u32;
        if unknown_name && now.since(attachment.named) > NAMES_EVERY / 5 || now.since(attachment.named) > NAMES_EVERY {
            attachment.named = now;
            for (event, name) in attachment.memory.new_names() {
                self.names.insert(event, Arc::clone(&name));
                feed.news.push(News::Event(event, name));
            }
        }
        let mut hands = Hands { memory: &attachment.memory, roster: &mut self.roster, queries: &mut self.queries };
        self.windows.ticked(now, step.weight, (load, lock, cpu), complete, &mut hands, feed, &mut self.health);
    }
}

/// The server in the hands of its windows, unless it is away. Of the fields apart, so that the rest stays free.
macro_rules! hands {
    ($of:ident) => {
        match &$of.phase {
            Phase::Attached(a) => Some(Hands { memory: &a.memory, roster: &mut $of.roster, queries: &mut $of.queries }),
            Phase::Away { .. } => None,
        }
    };
}

fn waiting(why: &str) -> Link {
    Link::Waiting { why: format!("{why}; waiting for it to come back") }
}

impl Capture for Sampler {
    fn drain(&mut self, feed: &mut Feed, patience: Duration) -> anyhow::Result<Progress> {
        feed.news.append(&mut self.pending);
        self.windows.obey(hands!(self), feed, &mut self.health);
        let limit = sys::now() + patience.as_nanos() as u64;
        let next = match self.phase {
            Phase::Attached(_) => self.pace.next(),
            Phase::Away { retry } => retry,
        };
        let awake = self.windows.next(limit).min(next);
        match &mut self.phase {
            // Also wakes at the end of the server.
            Phase::Attached(attachment) => {
                if let Some(pid) = attachment.watch.sleep_until(awake) {
                    let what =
                        if pid == self.options.postmaster.pid { STOPPED } else { "the server is restarting after a crash or stopping" };
                    self.lose(what.into(), feed);
                    return Ok(Progress::More);
                }
            }
            Phase::Away { .. } => sys::sleep_until(awake),
        }
        self.windows.work(hands!(self), feed, &mut self.health);
        let now = sys::now();
        if now < next {
            return Ok(Progress::More);
        }
        match self.phase {
            Phase::Attached(_) => self.tick(now, feed),
            Phase::Away { .. } => self.try_again(now),
        }
        Ok(Progress::More)
    }

    fn refresh(&mut self, feed: &mut Feed) {
        self.windows.refresh(hands!(self), feed, &mut self.health);
        if let Phase::Attached(attachment) = &self.phase {
            self.roster.refresh(&attachment.memory, &mut feed.news);
        }
        if self.queries.server_computes() != self.server.query_ids {
            self.server.query_ids = self.queries.server_computes();
            feed.news.push(News::Server(self.server.clone()));
        }
        self.health.cpu_ns = sys::thread_cpu_ns();
        self.health.rss_bytes = sys::resident_bytes();
    }

    fn finish(&mut self, feed: &mut Feed) {
        self.windows.finish(hands!(self), feed, &mut self.health);
    }

    fn fidelity(&self) -> Fidelity {
        Fidelity::Sampled
    }

    fn health(&self) -> Health {
        self.health.clone()
    }

    fn clock(&self) -> Clock {
        sys::clock()
    }
}
