//! The sampled tier: at each tick, looks once at every backend in the server's shared memory. Runs on the capture thread.
//!
//! Nothing is attached to PostgreSQL. New and ended backends are noticed by the next tick, since the process array is in the same memory. A
//! crash restart or a restart of the server unmaps at once, leaves a gap, and is followed by a new attachment when the server is back.
//! What cannot be trusted is a hole in coverage, never CPU.

mod hands;
mod pace;
mod queries;
mod roster;

pub use hands::Hands;
pub use roster::Seen;

pub use super::command::{Command, Done, Kind, Order, Outcome};
use super::window::{Reason, Rules, Window};
use super::{Capture, Feed, Progress, sys};
use crate::pg::discover::{self, Postmaster};
use crate::pg::memory::Reach;
use crate::pg::server::{Attached, Life, Status};
use crate::trace::catalog::{EventNames, News, Server};
use crate::trace::clock::{Clock, Ts};
use crate::trace::health::{Health, Link};
use crate::trace::record::{Fidelity, QueryId, State};
use crossbeam_channel::Receiver;
use pace::Pace;
use queries::Queries;
use roster::Roster;
use std::sync::Arc;
use std::time::Duration;

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
    /// A window that is open all the time.
    pub standing: Option<Kind>,
    /// Where the user's wishes come from.
    pub commands: Option<Receiver<Order>>,
}

impl Options {
    /// Sampling alone.
    pub fn new(postmaster: Postmaster, rate_hz: Option<u32>, reach: Reach) -> Self {
        Self { postmaster, rate_hz, reach, rules: Rules::default(), standing: None, commands: None }
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
/// How often a standing window is tried again.
const REOPEN_EVERY: u64 = 10_000_000_000;

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
    window: Option<Box<Window>>,
    /// A standing window that could not be opened, or was closed, is tried again then.
    reopen: Ts,
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
        let mut this = Self {
            away: 0,
            pace: Pace::new(MAPPED_HZ),
            roster: Roster::default(),
            queries: Queries::default(),
            server: Server::default(),
            health: Health::default(),
            names: EventNames::default(),
            pending: Vec::new(),
            window: None,
            reopen: Ts(0),
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
        self.reopen = Ts(0);
        self.away = 0;
        self.server = attachment.memory.facts();
        self.queries.attached(&attachment.memory, self.server.major);
        self.server.query_ids = self.queries.server_computes();
        self.pending.push(News::Server(self.server.clone()));
        self.names = attachment.memory.names();
        self.pending.push(News::Events(self.names.clone()));
        self.phase = Phase::Attached(Box::new(attachment));
    }

    /// Does what the user wants, and keeps a standing window open.
    fn obey(&mut self, feed: &mut Feed) {
        let orders: Vec<Order> = self.options.commands.iter().flat_map(Receiver::try_iter).collect();
        for Order { command, reply } in orders {
            let outcome = self.carry_out(command, feed);
            if let Some(reply) = reply {
                // Whoever asked may be gone.
                let _ = reply.try_send(outcome);
            }
        }
        if let Some(kind) = self.options.standing
            && self.window.is_none()
            && sys::now() >= self.reopen
        {
            self.reopen = sys::now() + REOPEN_EVERY;
            let _ = self.open(kind, None, feed);
        }
    }

    fn carry_out(&mut self, command: Command, feed: &mut Feed) -> Outcome {
        match command {
            Command::Open { kind, seconds } => match self.open(kind, seconds, feed) {
                Ok(()) => Ok(Done { granted_s: seconds, remaining_s: self.window.as_ref().and_then(|w| w.health().remaining_s) }),
                // Also in the account of health.
                Err(error) => Err(format!("{error:#}")),
            },
            Command::Close => {
                self.close(&Reason::Told, feed);
                Ok(Done::default())
            }
        }
    }

    /// Opens a window, or gives an open one of its kind another end.
    pub fn open(&mut self, kind: Kind, seconds: Option<u64>, feed: &mut Feed) -> anyhow::Result<()> {
        if let Some(window) = self.window.as_mut().filter(|w| w.kind() == kind) {
            window.extend(seconds);
            return Ok(());
        }
        self.close(&Reason::Told, feed);
        let Phase::Attached(attachment) = &self.phase else { anyhow::bail!("the server is away") };
        let mut hands = Hands { memory: &attachment.memory, roster: &mut self.roster, queries: &mut self.queries };
        match Window::open(kind, seconds, &self.options.rules, &mut hands, feed) {
            Ok(window) => {
                self.health.window_error = None;
                self.window = Some(Box::new(window));
                Ok(())
            }
            Err(error) => {
                self.health.window_error = Some(format!("{error:#}"));
                Err(error)
            }
        }
    }

    fn close(&mut self, reason: &Reason, feed: &mut Feed) {
        let Some(window) = self.window.take() else { return };
        self.reopen = sys::now() + if matches!(reason, Reason::TooDear(_)) { 6 * REOPEN_EVERY } else { REOPEN_EVERY };
        let account = match &self.phase {
            Phase::Attached(attachment) if *reason != Reason::ServerGone => {
                let mut hands = Hands { memory: &attachment.memory, roster: &mut self.roster, queries: &mut self.queries };
                window.close(reason, Some(&mut hands), feed)
            }
            _ => window.close(reason, None, feed),
        };
        self.health.window = Some(account);
    }

    /// Lets the window work. Closes it when it is time.
    fn work(&mut self, feed: &mut Feed) {
        let (Some(window), Phase::Attached(attachment)) = (&mut self.window, &self.phase) else { return };
        let mut hands = Hands { memory: &attachment.memory, roster: &mut self.roster, queries: &mut self.queries };
        if let Some(reason) = window.work(&mut hands, feed) {
            self.close(&reason, feed);
        }
    }

    /// Unmaps the server's memory at once and begins to wait for it.
    fn lose(&mut self, why: String, feed: &mut Feed) {
        self.close(&Reason::ServerGone, feed);
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
        for slot in 0..memory.slots() {
            self.roster.prefetch(memory, slot);
            let Some(process) = memory.proc(slot) else { continue };
            if !process.event.is_plausible() {
                self.health.invalid += 1;
                self.health.unread += 1;
                feed.builder.unread();
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
    }
}

fn waiting(why: &str) -> Link {
    Link::Waiting { why: format!("{why}; waiting for it to come back") }
}

impl Capture for Sampler {
    fn drain(&mut self, feed: &mut Feed, patience: Duration) -> anyhow::Result<Progress> {
        feed.news.append(&mut self.pending);
        self.obey(feed);
        let limit = sys::now() + patience.as_nanos() as u64;
        let next = match self.phase {
            Phase::Attached(_) => self.pace.next(),
            Phase::Away { retry } => retry,
        };
        let awake = self.window.as_ref().map_or(limit, |w| w.next().min(limit)).min(next);
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
        self.work(feed);
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
        if let Phase::Attached(attachment) = &self.phase {
            if let Some(window) = &mut self.window {
                let mut hands = Hands { memory: &attachment.memory, roster: &mut self.roster, queries: &mut self.queries };
                window.checkpoint(&mut hands, feed);
                self.health.window = Some(window.health());
            }
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
        self.close(&Reason::Ended, feed);
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
