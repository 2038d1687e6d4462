//! The processes a window follows, and the slots of the process array they sit in.
//!
//! A process is known by its track, not by its slot: it keeps the track until its end is told, while another may have its slot already. The order
//! of arming is: watchpoint without effect, read, enable, read again; a value that changed in between is repaired, not guessed.

use super::program::{Programs, wire};
use super::shared::Shared;
use super::strand::{Shown, Sink, Strand};
use super::{shown_of, strand_of};
use crate::capture::sampler::{Hands, Seen};
use crate::capture::sys::{self, perf::Watchpoint};
use crate::pg::layout::unix_micros;
use crate::trace::block::{Blind, Intervals};
use crate::trace::catalog::{BackendKind, News, UnixMicros};
use crate::trace::clock::{Span, Ts};
use crate::trace::record::{QueryId, SessionId};
use crate::trace::wait::WaitEvent;
use anyhow::{Context, Result, bail};

/// A process that is followed.
#[derive(Debug)]
pub struct Followed {
    slot: usize,
    pid: i32,
    host: i32,
    index: u16,
    watch: Option<Watchpoint>,
    /// On its `st_state`, where commands begin and end.
    states: Option<Watchpoint>,
    /// That could not be had.
    no_states: bool,
    kind: BackendKind,
    seen: Seen,
    began: Ts,
    /// Has a status row that the programs know of.
    has_row: bool,
    /// Its slot is another's, or nobody's.
    left: bool,
    /// The value found differs from the value recorded: since how many records, and which.
    doubt: Option<(u32, WaitEvent)>,
    repaired: u32,
    told: QueryId,
    /// The command whose query was found by its text, last: its beginning and the query.
    by_text: (UnixMicros, QueryId),
    /// Text of the statement that began then, where the programs kept it.
    text: (UnixMicros, Option<String>),
    /// Its time.
    pub strand: Strand,
}

impl Followed {
    /// Arms it. An error: it cannot be followed.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        slot: usize,
        pid: i32,
        host: i32,
        session: SessionId,
        shown: Shown,
        hands: &Hands<'_>,
        programs: Option<&Programs>,
        shared: &Shared,
        seats: &mut Seats,
    ) -> Result<Self> {
        let word = hands.memory.word(slot);
        let watch = match programs {
            Some(programs) => {
                let watch = Watchpoint::new(host, word).context("perf_event_open")?;
                programs.with_write(|program| watch.run(program))?.context("PERF_EVENT_IOC_SET_BPF")?;
                Some(watch)
            }
            None => None,
        };
        let index = seats.take_track().context("more processes than there can be")?;
        let status = hands.memory.status_address(slot, pid);
        let Some(event) = hands.memory.proc(slot).filter(|p| p.pid == pid).map(|p| p.event) else {
            seats.free.push(index);
            bail!("it has just ended");
        };
        let began = sys::now();
        shared.put_track(
            index,
            wire::track {
                word,
                status: status.unwrap_or(0),
                since0: began.0,
                pid: host as u32,
                event0: event.0,
                at: began.0,
                event: event.0,
                ..wire::track::default()
            },
        );
        shared.follow(host as u32, index);
        if let Some(watch) = &watch
            && let Err(error) = watch.enable()
        {
            shared.follow(host as u32, 0);
            seats.free.push(index);
            return Err(error).context("PERF_EVENT_IOC_ENABLE");
        }
        let now = hands.memory.proc(slot).filter(|p| p.pid == pid).map(|p| p.event);
        let doubt = now.filter(|now| watch.is_some() && *now != event).map(|now| (0, now));
        Ok(Self {
            slot,
            pid,
            host,
            index,
            watch,
            states: None,
            no_states: false,
            kind: hands.kind(slot, pid),
            seen: Seen { session, database: 0, user: 0 },
            began,
            has_row: status.is_some(),
            left: false,
            doubt,
            repaired: 0,
            told: QueryId::NONE,
            by_text: (0, QueryId::NONE),
            text: (0, None),
            strand: strand_of(session, began, event, shown),
        })
    }

    /// When it began to be followed.
    pub fn began(&self) -> Ts {
        self.began
    }

    /// Its pid on the host.
    pub fn host(&self) -> i32 {
        self.host
    }

    /// Watches its state as well, once its status row is known: commands that follow each other without a wait are seen by nothing else. A process
    /// that has no debug register left for it goes without; its commands are inferred.
    pub fn watch_states(&mut self, hands: &Hands<'_>, programs: &Programs) {
        if self.states.is_some() || self.watch.is_none() || self.left || self.no_states {
            return;
        }
        let Some(row) = hands.memory.status_address(self.slot, self.pid) else { return };
        let armed = Watchpoint::new(self.host, row + hands.memory.layout().status.st_state as u64).and_then(|watch| {
            programs.with_write(|program| watch.run(program)).map_err(std::io::Error::other)??;
            watch.enable()?;
            Ok(watch)
        });
        match armed {
            Ok(watch) => {
                self.states = Some(watch);
                self.strand.watch_states(hands.shown(self.slot, self.pid));
            }
            Err(_) => self.no_states = true,
        }
    }

    /// At every look: its status row, once it has one, and doubts about its state.
    pub fn settle_in(&mut self, word: WaitEvent, hands: &mut Hands<'_>, shared: &Shared, feed: &mut crate::capture::Feed) {
        if !self.has_row
            && let Some(addr) = hands.memory.status_address(self.slot, self.pid)
        {
            shared.set_status(self.index, addr);
            self.has_row = true;
        }
        if self.has_row && (self.kind == BackendKind::Unknown || self.seen.user == 0) {
            let (_, _, seen) = hands.meet(self.slot, self.pid, &mut feed.news);
            self.seen = seen;
            self.kind = hands.kind(self.slot, self.pid);
            if self.kind != BackendKind::Client && self.kind != BackendKind::Unknown {
                // Not every process has a user.
                self.seen.user = self.seen.user.max(1);
            }
        }
        let Some((turn, event)) = self.doubt else { return };
        let Some(track) = shared.track(self.index) else { return };
        self.doubt = None;
        if track.turn == turn && self.strand.turn() == turn && word == event {
            let at = sys::now();
            let cpu = track.cpu + if track.on == 0 { 0 } else { at.since(Ts(track.on)) };
            let mut sink = Sink { to: &mut feed.intervals, clock: sys::clock(), ids: true };
            self.strand.repair(at, event, cpu, track.runq, &mut sink);
            self.repaired += 1;
        }
    }

    /// Compares what is recorded with what is there. A difference is looked at again.
    pub fn compare(&mut self, hands: &Hands<'_>, shared: &Shared) {
        if self.left || self.doubt.is_some() {
            return;
        }
        let (Some(track), Some(process)) = (shared.track(self.index), hands.memory.proc(self.slot)) else { return };
        if process.pid == self.pid && track.event != process.event.0 && self.strand.turn() == track.turn && self.repaired == 0 {
            self.doubt = Some((track.turn, process.event));
        }
    }

    /// Whether the process is gone.
    pub fn is_over(&self, hands: &Hands<'_>) -> bool {
        self.left && !hands.lives(self.host)
    }

    /// What a row that the programs read showed; nothing for a process so young that they did not know its row yet.
    pub fn shown(&self, row: &wire::row, hands: &Hands<'_>) -> Shown {
        shown_of(row, hands.memory.layout(), self.kind)
    }

    /// What it shows now.
    pub fn fresh(&self, hands: &Hands<'_>) -> Shown {
        if self.left { Shown::default() } else { hands.shown(self.slot, self.pid) }
    }

    /// Tells the text of a query that is new.
    pub fn tell_query(&mut self, shown: Shown, hands: &mut Hands<'_>, news: &mut Vec<News>) {
        if shown.query == self.told || shown.query == QueryId::NONE || self.left {
            return;
        }
        hands.tell_query(self.slot, self.pid, shown.query, self.seen, news);
        self.told = shown.query;
    }

    /// A record came with the text of the command it shows.
    pub fn take_text(&mut self, r: &wire::record, shared: &Shared) {
        if r.text != 0
            && let Some(text) = shared.text(r.text, r.pid, r.row.activity_start)
        {
            self.text = (unix_micros(r.row.activity_start), Some(text));
        }
    }

    /// Keeps the text of the command whose rows wait for a query, while it can be read: it may end without another record.
    pub fn keep_text(&mut self, hands: &Hands<'_>) {
        if let Some(began) = self.strand.wants_query()
            && self.text.0 != began
            && self.by_text.0 != began
            && !self.left
        {
            self.text = hands.text(self.slot, self.pid, began).map_or((0, None), |text| (began, Some(text)));
        }
    }

    /// Rows of a command that still has no id: by its text.
    pub fn settle_query(&mut self, hands: &mut Hands<'_>, sink: &mut Sink<'_>, news: &mut Vec<News>) {
        let Some(began) = self.strand.wants_query() else { return };
        if self.by_text.0 == began {
            self.strand.settle(self.by_text.1, sink);
        } else if let Some(text) = self.text.1.take_if(|_| self.text.0 == began) {
            let query = hands.query_of_text(&text, self.seen, news);
            self.by_text = (began, query);
            self.strand.settle(query, sink);
        } else if self.left {
            self.strand.settle(QueryId::NONE, sink);
        } else if let Some(query) = hands.query_by_text(self.slot, self.pid, began, self.seen, news) {
            if query != QueryId::NONE {
                self.by_text = (began, query);
            }
            self.strand.settle(query, sink);
        }
    }
}

/// A slot as the window saw it last.
#[derive(Debug, Clone, Copy, Default)]
struct Seat {
    pid: i32,
    /// 0: nobody is followed here.
    track: u16,
    /// Who is there and not followed, since when.
    blind: Option<(SessionId, Ts)>,
    /// It is only not armed yet.
    waits: bool,
}

/// Slots and tracks.
#[derive(Debug)]
pub struct Seats {
    slots: Vec<Seat>,
    tracks: Vec<Option<Box<Followed>>>,
    free: Vec<u16>,
    repaired: u64,
    /// Why somebody could not be armed, last.
    refusal: Option<String>,
}

impl Seats {
    /// Nobody yet.
    pub fn new(slots: usize, tracks: usize) -> Self {
        let mut all = Vec::new();
        all.resize_with(tracks, || None);
        // The highest is for our own trial.
        Self { slots: vec![Seat::default(); slots], tracks: all, free: (1..tracks as u16 - 1).rev().collect(), repaired: 0, refusal: None }
    }

    fn take_track(&mut self) -> Option<u16> {
        self.free.pop()
    }

    /// Who was in a slot; 0: nobody.
    pub fn pid(&self, slot: usize) -> i32 {
        self.slots.get(slot).map_or(0, |s| s.pid)
    }

    /// Who is followed in a slot.
    pub fn at(&mut self, slot: usize) -> Option<&mut Followed> {
        let track = self.slots.get(slot)?.track;
        if track == 0 { None } else { self.track(track) }
    }

    /// Who has a track.
    pub fn track(&mut self, index: u16) -> Option<&mut Followed> {
        self.tracks.get_mut(usize::from(index))?.as_deref_mut()
    }

    /// Whether a process is followed.
    pub fn follows(&self, host: u32) -> bool {
        self.tracks.iter().flatten().any(|f| f.host as u32 == host)
    }

    /// Somebody is in a slot and will be armed.
    pub fn wait(&mut self, slot: usize, pid: i32, session: SessionId, since: Ts) {
        if let Some(seat) = self.slots.get_mut(slot) {
            *seat = Seat { pid, track: 0, blind: Some((session, since)), waits: true };
        }
    }

    /// Whether a process in a slot has not been armed yet.
    pub fn waits(&self, slot: usize, pid: i32) -> bool {
        self.slots.get(slot).is_some_and(|s| s.waits && s.pid == pid)
    }

    /// Somebody is followed in a slot from now on.
    pub fn sit(&mut self, slot: usize, pid: i32, followed: Followed) {
        if let Some(seat) = self.slots.get_mut(slot) {
            *seat = Seat { pid, track: followed.index, blind: None, waits: false };
        }
        let index = usize::from(followed.index);
        if let Some(track) = self.tracks.get_mut(index) {
            *track = Some(Box::new(followed));
        }
    }

    /// Somebody is in a slot and cannot be followed.
    pub fn stand(&mut self, slot: usize, pid: i32, session: SessionId, now: Ts, why: &anyhow::Error) {
        if let Some(seat) = self.slots.get_mut(slot) {
            *seat = Seat { pid, track: 0, blind: Some((session, now)), waits: false };
        }
        let errno = why.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        self.refusal = Some(match errno {
            Some(libc::ENOSPC) => "its debug registers are in use by another tracer or debugger".to_owned(),
            Some(libc::EMFILE | libc::ENFILE) => {
                let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or_default();
                format!("no file descriptors are left ({} processes followed, limit {limit}): raise it with ulimit -n", self.counts().0)
            }
            _ => format!("{why:#}"),
        });
    }

    /// A slot is empty, or another's. Who was there and not followed: until now.
    pub fn leave(&mut self, slot: usize, now: Ts) -> Option<Blind> {
        let seat = std::mem::take(self.slots.get_mut(slot)?);
        if let Some(followed) = self.track(seat.track).filter(|_| seat.track != 0) {
            followed.left = true;
        }
        seat.blind.map(|(session, since)| Blind { session, span: Span::new(since, now) })
    }

    /// Tells who was not followed up to now.
    pub fn tell_blind(&mut self, until: Ts, to: &mut Intervals) {
        for (session, since) in self.slots.iter_mut().filter_map(|s| s.blind.as_mut()) {
            to.blind(Blind { session: *session, span: Span::new(*since, until) });
            *since = until.max(*since);
        }
    }

    /// A process has ended: its track is free, its watchpoint gone.
    pub fn bury(&mut self, index: u16) {
        if let Some(followed) = self.tracks.get_mut(usize::from(index)).and_then(Option::take) {
            self.repaired += u64::from(followed.repaired);
            if let Some(seat) = self.slots.get_mut(followed.slot).filter(|s| s.track == index) {
                // The slot may show it a moment longer: it is not to be taken in again.
                seat.track = 0;
            }
            self.free.push(index);
        }
    }

    /// Everybody who is followed.
    pub fn everyone(&mut self) -> impl Iterator<Item = (u16, &mut Followed)> {
        self.tracks.iter_mut().enumerate().filter_map(|(i, f)| Some((i as u16, f.as_deref_mut()?)))
    }

    /// Tracks in use.
    pub fn indices(&self) -> Vec<u16> {
        self.tracks.iter().flatten().map(|f| f.index).collect()
    }

    /// Slots whose process is there and not followed, with its pid.
    pub fn refused(&self) -> Vec<(usize, i32)> {
        self.slots.iter().enumerate().filter(|(_, s)| s.blind.is_some() && !s.waits).map(|(slot, s)| (slot, s.pid)).collect()
    }

    /// Why somebody could not be followed, last.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Those followed without a watchpoint on their state.
    pub fn inferred(&self) -> u32 {
        self.tracks.iter().flatten().filter(|f| f.no_states && !f.left).count() as u32
    }

    /// Followed, not followed, repaired.
    pub fn counts(&self) -> (u32, u32, u64) {
        let followed = self.tracks.iter().flatten();
        let repaired = self.repaired + followed.clone().map(|f| u64::from(f.repaired)).sum::<u64>();
        (followed.count() as u32, self.slots.iter().filter(|s| s.blind.is_some() && !s.waits).count() as u32, repaired)
    }
}
