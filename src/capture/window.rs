//! An exact or blocking window: everything that is attached to the server, from its opening to its closing. Runs on the capture thread.
//!
//! Nothing is attached outside of windows, and all that a window attaches is gone when it is dropped, or this process dies. The sampler goes on
//! beside it. Every process of the server is followed or counted: as unarmed (no debug register left) or as missed (gone before it was seen).

mod aside;
mod followed;
mod price;
mod program;
mod reorder;
mod shared;
mod strand;

use super::Feed;
pub use super::command::Kind;
use super::sampler::Hands;
use super::sys::{self, perf::Measuring};
use crate::trace::block::{Blind, Loss};
use crate::trace::clock::{SECOND, Span, Ts};
use crate::trace::health::WindowHealth;
use crate::trace::marker;
use crate::trace::record::QueryId;
use anyhow::{Result, ensure};
pub use aside::{Opening, Prepared, Remains};
use followed::{Followed, Seats};
use program::{Programs, wire};
use reorder::Reorder;
use rustc_hash::FxHashMap;
use shared::Shared;
pub use strand::Shown;
use strand::{Sink, Strand};

/// How windows are to be.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Per cent of one core that a window may cost the server before it closes.
    pub max_overhead_pct: f64,
    /// Read no status rows: no queries, no executions, no states.
    pub lightweight: bool,
    /// Read no query ids.
    pub skip_query_id: bool,
    /// Records per CPU's ring, a power of two. `None`: as many as are useful.
    pub ring: Option<usize>,
    /// Programs that return at once: what the mechanism itself costs. For benches.
    pub empty: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { max_overhead_pct: 25.0, lightweight: false, skip_query_id: false, ring: None, empty: false }
    }
}

impl Rules {
    /// As much of what a process shows as is to be recorded.
    fn allow(&self, shown: Shown) -> Shown {
        match (self.lightweight, self.skip_query_id) {
            (true, _) => Shown::default(),
            (false, true) => Shown { query: QueryId::NONE, ..shown },
            (false, false) => shown,
        }
    }
}

/// Why a window closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Its time was up.
    TimeUp,
    /// What exact windows may be open in an hour was used up.
    Budget,
    /// It was told to.
    Told,
    /// Another window took its place.
    Replaced,
    /// It cost too much: what, in per cent of one core, times ten.
    TooDear(u64),
    /// Nobody can be followed: why not.
    Unfollowed(String),
    /// The server went away.
    ServerGone,
    /// This program ended.
    Ended,
}

impl Reason {
    /// As recordings say it.
    pub fn of_marker(&self) -> marker::Reason {
        match self {
            Self::TimeUp => marker::Reason::Expired,
            Self::Budget => marker::Reason::Budget,
            Self::Told | Self::Replaced => marker::Reason::Request,
            Self::TooDear(_) => marker::Reason::Overhead,
            Self::Unfollowed(_) => marker::Reason::Unfollowed,
            Self::ServerGone => marker::Reason::ServerGone,
            Self::Ended => marker::Reason::Shutdown,
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TimeUp => f.write_str("its time was up"),
            Self::Budget => f.write_str("the budget of this hour was used up (--escalation-budget)"),
            Self::Told => f.write_str("closed by hand"),
            Self::Replaced => f.write_str("another window took its place"),
            Self::TooDear(tenths) => {
                write!(f, "it cost the server {}.{} % of one core, above --max-overhead", tenths / 10, tenths % 10)
            }
            Self::Unfollowed(why) => write!(f, "no backend could be followed: {why}"),
            Self::ServerGone => f.write_str("the server stopped"),
            Self::Ended => f.write_str("pg_wait_tracer ended"),
        }
    }
}

/// Pause between two looks at the process array.
const LEVEL_EVERY: u64 = 1_000_000;
/// Looking at slots goes on so long at most before ticks and rings have their turn.
const SLICE: u64 = 2_000_000;
/// A program that runs has put its record after this.
const LAST_RECORD: u64 = 100_000;
/// Pause between two readings of the rings.
const DRAIN_EVERY: u64 = 5_000_000;
/// Memory for all rings together.
const RING_BYTES: usize = 32 << 20;
/// Records per ring at most.
const RING_MOST: usize = 1 << 15;
/// Inode of the first pid namespace: the only one whose ids BPF programs see.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// An open window. Dropping it detaches everything.
#[derive(Debug)]
pub struct Window {
    // Watchpoints go first, then what is attached, then the memory.
    seats: Seats,
    programs: Programs,
    shared: Shared,
    kind: Kind,
    rules: Rules,
    reorder: Reorder,
    batch: Vec<wire::record>,
    opened: Ts,
    /// When it must close, and why then.
    until: Option<(Ts, Reason)>,
    /// Up to here rows and coverage have been told.
    watched: Ts,
    level_at: Ts,
    /// The slot that is looked at next.
    next_slot: usize,
    /// When the last look at all slots began, and when the one under way did.
    rounds: [Ts; 2],
    /// All slots were looked at once.
    whole: bool,
    drain_at: Ts,
    second: Ts,
    /// Host pids that were born and not followed yet.
    newborn: FxHashMap<u32, Ts>,
    counted: u64,
    over: u32,
    /// Rings fill faster than they are read: what can be left out is left out.
    behind: bool,
    computes_ids: bool,
    /// Blocking, in the first second: what the programs take is being measured.
    measuring: Option<Measuring>,
    health: WindowHealth,
}

impl Window {
    /// Begins to follow everybody there is; until a process has been armed it is told as not followed. An error says in one line why not.
    pub fn open(prepared: Prepared, rules: &Rules, hands: &mut Hands<'_>, feed: &mut Feed) -> Result<Self> {
        ensure!(prepared.fits(hands.memory), "the server restarted while the window was being opened");
        let Prepared { programs, shared, kind, price_ns, .. } = prepared;
        let sizes = shared.sizes();
        let now = sys::now();
        let mut this = Self {
            seats: Seats::new(hands.memory.slots(), sizes.tracks),
            programs,
            kind,
            rules: rules.clone(),
            reorder: Reorder::default(),
            batch: Vec::new(),
            opened: now,
            until: None,
            watched: now,
            level_at: now,
            next_slot: 0,
            rounds: [now; 2],
            whole: false,
            drain_at: now,
            second: now,
            newborn: FxHashMap::default(),
            counted: if kind == Kind::Exact { shared.tally().writes } else { 0 },
            over: 0,
            behind: false,
            computes_ids: true,
            measuring: if kind == Kind::Blocking { Measuring::begin().ok() } else { None },
            health: WindowHealth {
                tier: kind.fidelity(),
                open: true,
                price_ns,
                max_overhead_pct: rules.max_overhead_pct,
                ..WindowHealth::default()
            },
            shared,
        };
        // What is in the rings is of our own trial.
        for cpu in 0..sizes.cpus {
            this.shared.drain(cpu, &mut this.batch);
        }
        this.batch.clear();
        feed.intervals.begin(kind.fidelity());
        for (slot, process) in hands.memory.live() {
            let (session, ..) = hands.meet(slot, process.pid, &mut feed.news);
            this.seats.wait(slot, process.pid, session, now);
        }
        Ok(this)
    }

    /// Its tier.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Since when it is open.
    pub fn opened(&self) -> Ts {
        self.opened
    }

    /// Up to where what everybody did has been told.
    pub fn watched(&self) -> Ts {
        self.watched
    }

    /// Another end, and why then; or none.
    pub fn end_at(&mut self, end: Option<(Ts, Reason)>) {
        self.until = end;
    }

    /// Who wanted it, and the rule in words.
    pub fn because(&mut self, cause: &str, detail: &str) {
        cause.clone_into(&mut self.health.cause);
        detail.clone_into(&mut self.health.cause_detail);
    }

    /// When it wants to be called next.
    pub fn next(&self) -> Ts {
        self.until.as_ref().map_or(self.level_at, |(until, _)| self.level_at.min(*until))
    }

    /// Takes in who is new and what was recorded. A reason: it must be closed.
    pub fn work(&mut self, hands: &mut Hands<'_>, feed: &mut Feed) -> Option<Reason> {
        let now = sys::now();
        if now >= self.level_at {
            self.level_at = if self.level(hands, feed) { now + LEVEL_EVERY } else { now };
        }
        if now >= self.drain_at {
            self.drain(hands, feed);
            self.drain_at = now + DRAIN_EVERY;
        }
        if now.since(self.second) >= SECOND {
            self.each_second(now, hands, feed);
            let (armed, unarmed, _) = self.seats.counts();
            if self.kind == Kind::Exact && armed == 0 && unarmed > 0 {
                return Some(Reason::Unfollowed(self.seats.refusal().unwrap_or_default().to_owned()));
            }
        }
        if let Some((_, reason)) = self.until.take_if(|(until, _)| now >= *until) {
            return Some(reason);
        }
        (self.over >= 2).then_some(Reason::TooDear((self.health.overhead_pct * 10.0) as u64))
    }

    /// Looks at every slot of the process array: takes in who is new. A level is compared, not an edge: nobody is overlooked for good. Thousands are not
    /// armed at once: false when there are more to be looked at.
    fn level(&mut self, hands: &mut Hands<'_>, feed: &mut Feed) -> bool {
        let began = sys::now();
        if self.next_slot == 0 {
            let [_, before] = self.rounds;
            self.rounds = [before, began];
        }
        while self.next_slot < hands.memory.slots() {
            if sys::now().since(began) > SLICE {
                if !self.whole {
                    self.programs.look();
                }
                return false;
            }
            let slot = self.next_slot;
            self.next_slot += 1;
            let process = hands.memory.proc(slot);
            let pid = process.map_or(0, |p| p.pid);
            let waited = self.seats.waits(slot, pid);
            if waited || self.seats.pid(slot) != pid {
                let now = sys::now();
                if let Some(blind) = self.seats.leave(slot, now) {
                    feed.intervals.blind(blind);
                }
                if pid != 0 {
                    // Who is new may have come right behind the look at its slot before.
                    let [before, _] = self.rounds;
                    let since = if waited { now } else { before };
                    self.take_in(slot, pid, since, hands, feed);
                }
            }
            if let (Some(process), Some(followed)) = (process, self.seats.at(slot)) {
                followed.settle_in(process.event, hands, &self.shared, feed);
                if self.kind == Kind::Exact && !self.rules.lightweight {
                    followed.watch_states(hands, &self.programs);
                }
            }
        }
        self.next_slot = 0;
        if !std::mem::replace(&mut self.whole, true) {
            self.programs.look();
        }
        true
    }

    fn take_in(&mut self, slot: usize, pid: i32, since: Ts, hands: &mut Hands<'_>, feed: &mut Feed) {
        let host = hands.memory.host_pid(pid);
        self.newborn.remove(&(host as u32));
        let (session, shown, _) = hands.meet(slot, pid, &mut feed.news);
        let shown = self.rules.allow(shown);
        let program = if self.kind == Kind::Exact { Some(&self.programs) } else { None };
        match Followed::new(slot, pid, host, session, shown, hands, program, &self.shared, &mut self.seats) {
            Ok(followed) => {
                feed.intervals.blind(Blind { session, span: Span::new(since, followed.began()) });
                self.seats.sit(slot, pid, followed);
            }
            Err(error) => {
                self.seats.stand(slot, pid, session, since, &error);
            }
        }
    }

    /// Reads all rings and makes rows of what is certain.
    fn drain(&mut self, hands: &mut Hands<'_>, feed: &mut Feed) {
        let began = sys::now();
        let unfinished = self.read_rings(feed);
        let mut ready = Vec::new();
        self.reorder.pass(&mut self.batch, began, unfinished, &mut ready);
        self.weave(&ready, hands, feed);
    }

    fn read_rings(&mut self, feed: &mut Feed) -> bool {
        let mut unfinished = false;
        let sizes = self.shared.sizes();
        self.behind = false;
        for cpu in 0..sizes.cpus {
            let pass = self.shared.drain(cpu, &mut self.batch);
            unfinished |= pass.unfinished;
            self.behind |= 4 * pass.waiting > sizes.ring;
            self.health.ring_fill_pct = self.health.ring_fill_pct.max(100.0 * pass.waiting as f64 / sizes.ring as f64);
            if let Some((first, last, records)) = pass.lost {
                self.health.lost_records += records;
                feed.intervals.lost(Loss { span: Span::new(Ts(first), Ts(last) + 1), session: None, records });
            }
        }
        unfinished
    }

    fn weave(&mut self, records: &[wire::record], hands: &mut Hands<'_>, feed: &mut Feed) {
        self.health.records += records.len() as u64;
        let clock = sys::clock();
        let ids = self.ids();
        self.computes_ids = hands.server_computes_ids();
        for r in records {
            let mut sink = Sink { to: &mut feed.intervals, clock, ids };
            match r.kind {
                wire::kind::BORN => {
                    self.health.born += 1;
                    if !self.seats.follows(r.pid) {
                        self.newborn.insert(r.pid, Ts(r.at));
                    }
                }
                wire::kind::DIED if r.track == 0 => {
                    self.health.missed += u64::from(self.newborn.remove(&r.pid).is_some());
                }
                kind => {
                    let Some(followed) = self.seats.track(r.track).filter(|f| f.host() as u32 == r.pid) else { continue };
                    let after = self.rules.allow(followed.shown(&r.row, hands));
                    // What waits for the query of the command before gets it now or never.
                    if ids && followed.strand.wants_query().is_some_and(|began| began != after.activity_start) {
                        followed.settle_query(hands, &mut sink, &mut feed.news);
                    }
                    // To read a statement takes longer than all the rest of a record.
                    if !self.behind {
                        followed.take_text(r, &self.shared);
                    }
                    match kind {
                        wire::kind::WRITE => followed.strand.written(r, after, &mut sink),
                        wire::kind::SLEPT => followed.strand.slept(r, after, &mut sink),
                        _ => {
                            followed.strand.died(r, self.kind == Kind::Blocking, &mut sink);
                            self.seats.bury(r.track);
                            continue;
                        }
                    }
                    followed.tell_query(after, hands, &mut feed.news);
                    let decided = !self.computes_ids || !after.state.in_command() || after.is_parsed(clock);
                    if ids && decided && followed.strand.wants_query().is_some() {
                        // Texts are there until the next command: not for long.
                        followed.settle_query(hands, &mut sink, &mut feed.news);
                    }
                }
            }
        }
    }

    fn ids(&self) -> bool {
        !self.rules.lightweight && !self.rules.skip_query_id
    }

    /// Before a block is sealed: tells what everybody is in, so that rows cover everything up to one moment.
    pub fn checkpoint(&mut self, hands: &mut Hands<'_>, feed: &mut Feed) {
        self.drain(hands, feed);
        self.tell_open(self.reorder.horizon(), false, hands, feed);
    }

    fn tell_open(&mut self, until: Ts, last: bool, hands: &mut Hands<'_>, feed: &mut Feed) {
        if until <= self.watched {
            return;
        }
        let (clock, ids) = (sys::clock(), self.ids());
        for (index, followed) in self.seats.everyone() {
            let Some(track) = self.shared.track(index) else { continue };
            let read_at = sys::now();
            // Asleep since a switch that the programs saw: what it showed then. Else what it shows now.
            let asleep = track.out != 0 && track.asleep != 0 && track.row.seen != 0;
            let fresh = if asleep { followed.shown(&track.row, hands) } else { followed.fresh(hands) };
            let fresh = self.rules.allow(fresh);
            let mut sink = Sink { to: &mut feed.intervals, clock, ids };
            if followed.strand.wants_query().is_some_and(|began| began != fresh.activity_start) {
                followed.settle_query(hands, &mut sink, &mut feed.news);
            }
            followed.strand.tell(until, &track, read_at, fresh, self.kind == Kind::Blocking, last, &mut sink);
            followed.keep_text(hands);
            let decided = last || !self.computes_ids || !fresh.state.in_command() || fresh.is_parsed(clock);
            if ids && decided {
                followed.settle_query(hands, &mut sink, &mut feed.news);
            }
        }
        self.seats.tell_blind(until, &mut feed.intervals);
        feed.intervals.watched(Span::new(self.watched, until));
        self.watched = until;
    }

    fn each_second(&mut self, now: Ts, hands: &mut Hands<'_>, feed: &mut Feed) {
        let elapsed = now.since(self.second).max(1);
        self.second = now;
        let tally = self.shared.tally();
        let count = if self.kind == Kind::Exact { tally.writes } else { tally.switches };
        let rate = (count - self.counted) as f64 * SECOND as f64 / elapsed as f64;
        if self.measuring.take().is_some() && count - self.counted > 100 {
            // Of every switch of the machine, told as a price of those that count.
            self.health.price_ns = self.programs.run_time() / (count - self.counted);
        }
        self.counted = count;
        self.health.faults = tally.faults;
        self.health.odd_switches = tally.odd;
        self.health.events_per_s = rate as u64;
        self.health.overhead_pct = rate * self.health.price_ns as f64 / 1e7;
        self.over = if self.health.overhead_pct > self.rules.max_overhead_pct { self.over + 1 } else { 0 };
        self.programs.look();
        // Whose birth was seen and who is neither followed nor reported dead: not a process with a slot (the log collector).
        self.newborn.retain(|_, born| now.since(*born) < 60 * SECOND);
        // What refused may be over: a debugger went away, another tracer closed its window.
        for (slot, pid) in self.seats.refused() {
            if let Some(blind) = self.seats.leave(slot, now) {
                feed.intervals.blind(blind);
            }
            self.take_in(slot, pid, now, hands, feed);
        }
        let (clock, ids) = (sys::clock(), self.ids());
        for index in self.seats.indices() {
            let Some(followed) = self.seats.track(index) else { continue };
            if followed.is_over(hands) {
                // Its end was not told: the record was lost.
                let mut sink = Sink { to: &mut feed.intervals, clock, ids };
                followed.strand.give_up(&mut sink);
                self.shared.follow(followed.host() as u32, 0);
                self.seats.bury(index);
            } else if self.kind == Kind::Exact {
                followed.compare(hands, &self.shared);
            }
        }
    }

    /// Follows nobody any more, takes in the rest, and tells what everybody was in at the end: as something that went on. What is attached goes on a
    /// thread of its own. With its account comes the moment up to which it tells.
    pub fn close(mut self, reason: &Reason, hands: Option<&mut Hands<'_>>, feed: &mut Feed) -> (WindowHealth, Ts, Remains) {
        for (_, followed) in self.seats.everyone() {
            self.shared.follow(followed.host() as u32, 0);
        }
        // Programs that had found their process before have put their record by then.
        sys::sleep_until(sys::now() + LAST_RECORD);
        let end = sys::now();
        self.health.open = false;
        self.health.reason = reason.to_string();
        if let Some(hands) = hands {
            self.read_rings(feed);
            let mut ready = Vec::new();
            let mut batch = std::mem::take(&mut self.batch);
            self.reorder.pass(&mut batch, end, false, &mut ready);
            self.reorder.finish(end, &mut ready);
            self.weave(&ready, hands, feed);
            self.tell_open(end, true, hands, feed);
        }
        let (clock, ids) = (sys::clock(), self.ids());
        for (_, followed) in self.seats.everyone() {
            followed.strand.give_up(&mut Sink { to: &mut feed.intervals, clock, ids });
        }
        let health = WindowHealth { remaining_s: None, ..self.health() };
        (health, self.watched, Remains::of((self.seats, self.programs, self.shared)))
    }

    /// Its account.
    pub fn health(&self) -> WindowHealth {
        let mut health = self.health.clone();
        health.remaining_s = self.until.as_ref().map(|(until, _)| until.since(sys::now()).div_ceil(SECOND));
        (health.armed, health.unarmed, health.repaired) = self.seats.counts();
        health.inferred = self.seats.inferred();
        self.seats.refusal().unwrap_or_default().clone_into(&mut health.unarmed_why);
        health
    }
}

/// Records per CPU for a machine of this size.
fn ring_records(cpus: usize) -> usize {
    let fit = RING_BYTES / size_of::<wire::record>() / cpus.max(1);
    // A power of two, rounded down.
    (1 << fit.max(1).ilog2()).clamp(1 << 9, RING_MOST)
}

/// What a status row showed, in the terms of the trace.
fn shown_of(row: &wire::row, layout: &crate::pg::layout::Layout, kind: crate::trace::catalog::BackendKind) -> Shown {
    use crate::pg::layout::unix_micros;
    if row.seen == 0 {
        return Shown::default();
    }
    let Some(state) = layout.state(row.state, kind) else { return Shown::default() };
    Shown {
        seen: true,
        state,
        query: QueryId(row.query),
        activity_start: unix_micros(row.activity_start),
        state_start: unix_micros(row.state_start),
    }
}

/// A strand for a process found now.
fn strand_of(session: crate::trace::record::SessionId, at: Ts, event: crate::trace::wait::WaitEvent, shown: Shown) -> Strand {
    Strand::new(session, at, event, shown)
}
