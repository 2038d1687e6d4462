//! Who is in which slot of the process array: gives each process lifetime (pid, start time) its session, and notices who came and who left.

use crate::pg::server::{Attached, Brief, Doing, Identity, Mark, Proc, Status};
use crate::trace::catalog::{BackendKind, EventNames, News, Session, UnixMicros};
use crate::trace::record::{SessionId, State};
use crate::trace::wait::WaitEvent;

/// How many slots ahead memory is fetched.
const AHEAD: usize = 8;

/// Who was in one slot at the last tick, and what that process showed. Each tick goes over all of these: apart from the rest, and
/// in one cache line each.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Place {
    pid: i32,
    /// The newest event with a known name.
    event: WaitEvent,
    /// The tick that saw it last.
    tick: u32,
    seen: Seen,
    /// The status row as last read, while there is nothing to do about it but to count.
    row: Option<(Doing, Mark)>,
}

/// What else is known of the process in one slot.
#[derive(Debug, Clone, Default)]
struct Seat {
    /// 0 while the process has no status row.
    started: UnixMicros,
    /// The identity was read while the process was still starting: read it again.
    raw: bool,
    /// Something may have changed since the last refresh: `state_change` and `query_start` then.
    seen: (UnixMicros, UnixMicros),
    told: (UnixMicros, UnixMicros),
    known: Session,
}

/// A session as the sampler sees it at a tick.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Its id in the trace.
    pub session: SessionId,
    /// Its database's oid.
    pub database: u32,
    /// Its user's oid.
    pub user: u32,
}

/// The sessions of one attachment. Ids go on growing over attachments.
#[derive(Debug, Default)]
pub struct Roster {
    places: Vec<Place>,
    /// As long as `places`.
    seats: Vec<Seat>,
    /// What kind of process is in each slot; as long, too.
    kinds: Vec<BackendKind>,
    tick: u32,
    next: u32,
    present: usize,
}

impl Roster {
    /// A tick begins.
    pub fn begin(&mut self, slots: usize) {
        self.tick = self.tick.wrapping_add(1);
        self.room(slots);
    }

    /// There are so many slots.
    pub fn room(&mut self, slots: usize) {
        if self.seats.len() != slots {
            self.seats.resize_with(slots, Seat::default);
            self.places.resize_with(slots, Place::default);
            self.kinds.resize(slots, BackendKind::Unknown);
        }
    }

    /// `slot` is looked at: has the processor fetch what a look at a later one will read.
    #[inline]
    pub fn prefetch(&self, memory: &Attached, slot: usize) {
        if let Some(place) = self.places.get(slot + AHEAD) {
            memory.prefetch(slot + AHEAD, place.row.as_ref().map(|(_, mark)| mark));
        }
    }

    /// A process was found in a slot, and its status row has not changed since it was last read: who it is, and the row.
    #[inline]
    pub fn again(&mut self, memory: &Attached, slot: usize, pid: i32) -> Option<(Seen, Doing)> {
        let place = self.places.get_mut(slot)?;
        let (doing, _) = place.row.as_ref().filter(|(_, mark)| mark.pid() == pid && place.pid == pid && memory.unchanged(mark))?;
        place.tick = self.tick;
        Some((place.seen, *doing))
    }

    /// A process was found in a slot, with its status row if it has one.
    pub fn see(&mut self, memory: &Attached, slot: usize, pid: i32, brief: Option<&Brief>, news: &mut Vec<News>) -> Seen {
        let (Some(place), Some(seat)) = (self.places.get_mut(slot), self.seats.get_mut(slot)) else { return Seen::default() };
        let same = place.pid == pid && brief.is_none_or(|b| seat.started == 0 || seat.started == b.started);
        if !same {
            leave(place, seat, news);
            self.next += 1;
            place.pid = pid;
            place.seen.session = SessionId(self.next);
        }
        place.row = None;
        match brief {
            Some(brief) => {
                if !same || seat.started == 0 || seat.raw {
                    identify(place, seat, memory, slot, brief, news);
                }
                seat.seen = (brief.state_change, brief.activity_start);
            }
            // Without a status row the process is starting or ending; what was known of it stays.
            None if !same => {
                seat.known = Session { pid: memory.host_pid(pid), server_pid: pid, ..Session::default() };
                news.push(News::Session(place.seen.session, Box::new(seat.known.clone())));
            }
            None => {}
        }
        if let Some(kind) = self.kinds.get_mut(slot) {
            *kind = seat.known.kind;
        }
        place.tick = self.tick;
        place.seen
    }

    /// The row of the process just seen in a slot: until it changes, [`Self::again`] knows it.
    pub fn remember(&mut self, slot: usize, doing: Doing, mark: Mark) {
        if let (Some(place), Some(seat)) = (self.places.get_mut(slot), self.seats.get(slot)) {
            place.row = (!seat.raw).then_some((doing, mark));
        }
    }

    /// What kind of process is in a slot.
    #[inline]
    pub fn kind(&self, slot: usize) -> BackendKind {
        self.kinds.get(slot).copied().unwrap_or_default()
    }

    /// Whether the event of the process in a slot has a name.
    #[inline]
    pub fn named(&mut self, slot: usize, process: Proc, names: &EventNames) -> bool {
        let Some(place) = self.places.get_mut(slot) else { return true };
        if place.event == process.event {
            return true;
        }
        let known = names.knows(process.event);
        if known {
            place.event = process.event;
        }
        known
    }

    /// A process is there, but could not be read: it has not left.
    pub fn keep(&mut self, slot: usize, pid: i32) {
        let tick = self.tick;
        if let Some(place) = self.places.get_mut(slot).filter(|p| p.pid == pid) {
            place.tick = tick;
        }
    }

    /// The tick is over: whoever was not seen has left.
    pub fn end(&mut self, news: &mut Vec<News>) {
        self.present = 0;
        for (slot, place) in self.places.iter_mut().enumerate() {
            if place.pid != 0
                && place.tick != self.tick
                && let Some(seat) = self.seats.get_mut(slot)
            {
                leave(place, seat, news);
            }
            self.present += usize::from(place.pid != 0);
        }
    }

    /// The server is gone, and everyone with it.
    pub fn everyone_left(&mut self, news: &mut Vec<News>) {
        for (place, seat) in self.places.iter_mut().zip(&mut self.seats) {
            leave(place, seat, news);
        }
        self.places.clear();
        self.kinds.clear();
        self.seats.clear();
        self.present = 0;
    }

    /// Sessions present at the last tick.
    pub fn len(&self) -> usize {
        self.present
    }

    /// Tells what sessions do now, and what changed about them, for those that did something since the last refresh.
    pub fn refresh(&mut self, memory: &Attached, news: &mut Vec<News>) {
        for (slot, (place, seat)) in self.places.iter_mut().zip(&mut self.seats).enumerate() {
            if place.pid == 0 || seat.started == 0 || seat.seen == seat.told {
                continue;
            }
            let Status::Row(identity) = memory.identity(slot, place.pid) else { continue };
            if identity.started != seat.started {
                continue;
            }
            let Status::Row(activity) = memory.activity(slot, place.pid) else { continue };
            seat.told = seat.seen;
            let mut known = session_of(identity, memory.host_pid(place.pid), place.pid);
            known.activity = activity;
            if differs(&known, &seat.known) {
                news.push(News::Session(place.seen.session, Box::new(known.clone())));
            } else if known.activity != seat.known.activity {
                news.push(News::Activity(place.seen.session, known.activity.clone()));
            }
            place.knows(&known);
            if let Some(kind) = self.kinds.get_mut(slot) {
                *kind = known.kind;
            }
            seat.known = known;
        }
    }
}

impl Place {
    fn knows(&mut self, session: &Session) {
        (self.seen.database, self.seen.user) = (session.database.oid, session.user.oid);
    }
}

/// Whether anything but the activity differs.
fn differs(a: &Session, b: &Session) -> bool {
    (a.kind, a.leader, &a.database, &a.user, &a.application, &a.client)
        != (b.kind, b.leader, &b.database, &b.user, &b.application, &b.client)
}

fn identify(place: &mut Place, seat: &mut Seat, memory: &Attached, slot: usize, brief: &Brief, news: &mut Vec<News>) {
    let Status::Row(identity) = memory.identity(slot, place.pid) else {
        seat.raw = true;
        return;
    };
    seat.raw = brief.state == State::Starting || identity.started != brief.started;
    seat.started = brief.started;
    let mut known = session_of(identity, memory.host_pid(place.pid), place.pid);
    known.activity = std::mem::take(&mut seat.known.activity);
    if seat.known.started == 0 || differs(&known, &seat.known) {
        news.push(News::Session(place.seen.session, Box::new(known.clone())));
    }
    place.knows(&known);
    seat.known = known;
}

fn session_of(identity: Identity, pid: i32, server_pid: i32) -> Session {
    let Identity { started, kind, leader, database, user, application, client } = identity;
    Session { pid, server_pid, started, kind, leader, database, user, application, client, ..Session::default() }
}

fn leave(place: &mut Place, seat: &mut Seat, news: &mut Vec<News>) {
    if place.pid != 0 {
        news.push(News::Gone(place.seen.session));
        (*place, *seat) = (Place::default(), Seat::default());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_place_fills_one_cache_line() {
        assert_eq!(size_of::<super::Place>(), 64);
    }
}
