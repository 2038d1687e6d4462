//! Who is in which slot of the process array: gives each process lifetime (pid, start time) its session, and notices who came and who left.

use crate::pg::server::{Attached, Brief, Identity, Status};
use crate::trace::catalog::{News, Session, UnixMicros};
use crate::trace::record::{SessionId, State};

/// What one slot held at the last tick.
#[derive(Debug, Clone, Default)]
struct Seat {
    pid: i32,
    /// 0 while the process has no status row.
    started: UnixMicros,
    session: SessionId,
    /// The tick that saw it last.
    tick: u64,
    /// The identity was read while the process was still starting: read it again.
    raw: bool,
    /// Something may have changed since the last refresh: `state_change` and `query_start` then.
    seen: (UnixMicros, UnixMicros),
    told: (UnixMicros, UnixMicros),
    known: Session,
}

/// A session as the sampler sees it at a tick.
#[derive(Debug, Clone, Copy)]
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
    seats: Vec<Seat>,
    tick: u64,
    next: u32,
    present: usize,
}

impl Roster {
    /// A tick begins.
    pub fn begin(&mut self, slots: usize) {
        self.tick += 1;
        if self.seats.len() != slots {
            self.seats.resize_with(slots, Seat::default);
        }
    }

    /// A process was found in a slot, with its status row if it has one.
    pub fn see(&mut self, memory: &Attached, slot: usize, pid: i32, brief: Option<&Brief>, news: &mut Vec<News>) -> Seen {
        let tick = self.tick;
        let Some(seat) = self.seats.get_mut(slot) else {
            return Seen { session: SessionId(0), database: 0, user: 0 };
        };
        let same = seat.pid == pid && brief.is_none_or(|b| seat.started == 0 || seat.started == b.started);
        if !same {
            leave(seat, news);
            self.next += 1;
            *seat = Seat { pid, session: SessionId(self.next), ..Seat::default() };
        }
        match brief {
            Some(brief) => {
                if !same || seat.started == 0 || seat.raw {
                    identify(seat, memory, slot, brief, news);
                }
                seat.seen = (brief.state_change, brief.activity_start);
            }
            // Without a status row the process is starting or ending; what was known of it stays.
            None if !same => {
                seat.known = Session { pid: memory.host_pid(pid), server_pid: pid, ..Session::default() };
                news.push(News::Session(seat.session, Box::new(seat.known.clone())));
            }
            None => {}
        }
        seat.tick = tick;
        Seen { session: seat.session, database: seat.known.database.oid, user: seat.known.user.oid }
    }

    /// A process is there, but could not be read: it has not left.
    pub fn keep(&mut self, slot: usize, pid: i32) {
        let tick = self.tick;
        if let Some(seat) = self.seats.get_mut(slot).filter(|s| s.pid == pid) {
            seat.tick = tick;
        }
    }

    /// The tick is over: whoever was not seen has left.
    pub fn end(&mut self, news: &mut Vec<News>) {
        self.present = 0;
        for seat in &mut self.seats {
            if seat.pid != 0 && seat.tick != self.tick {
                leave(seat, news);
            }
            self.present += usize::from(seat.pid != 0);
        }
    }

    /// The server is gone, and everyone with it.
    pub fn everyone_left(&mut self, news: &mut Vec<News>) {
        for seat in &mut self.seats {
            leave(seat, news);
        }
        self.seats.clear();
        self.present = 0;
    }

    /// Sessions present at the last tick.
    pub fn len(&self) -> usize {
        self.present
    }

    /// Tells what sessions do now, and what changed about them, for those that did something since the last refresh.
    pub fn refresh(&mut self, memory: &Attached, news: &mut Vec<News>) {
        for (slot, seat) in self.seats.iter_mut().enumerate() {
            if seat.pid == 0 || seat.started == 0 || seat.seen == seat.told {
                continue;
            }
            let Status::Row(identity) = memory.identity(slot, seat.pid) else { continue };
            if identity.started != seat.started {
                continue;
            }
            let Status::Row(activity) = memory.activity(slot, seat.pid) else { continue };
            seat.told = seat.seen;
            let mut known = session_of(identity, memory.host_pid(seat.pid), seat.pid);
            known.activity = activity;
            if differs(&known, &seat.known) {
                news.push(News::Session(seat.session, Box::new(known.clone())));
            } else if known.activity != seat.known.activity {
                news.push(News::Activity(seat.session, known.activity.clone()));
            }
            seat.known = known;
        }
    }
}

/// Whether anything but the activity differs.
fn differs(a: &Session, b: &Session) -> bool {
    (a.kind, a.leader, &a.database, &a.user, &a.application, &a.client)
        != (b.kind, b.leader, &b.database, &b.user, &b.application, &b.client)
}

fn identify(seat: &mut Seat, memory: &Attached, slot: usize, brief: &Brief, news: &mut Vec<News>) {
    let Status::Row(identity) = memory.identity(slot, seat.pid) else {
        seat.raw = true;
        return;
    };
    seat.raw = brief.state == State::Starting || identity.started != brief.started;
    seat.started = brief.started;
    let mut known = session_of(identity, memory.host_pid(seat.pid), seat.pid);
    known.activity = std::mem::take(&mut seat.known.activity);
    if seat.known.started == 0 || differs(&known, &seat.known) {
        news.push(News::Session(seat.session, Box::new(known.clone())));
    }
    seat.known = known;
}

fn session_of(identity: Identity, pid: i32, server_pid: i32) -> Session {
    let Identity { started, kind, leader, database, user, application, client } = identity;
    Session { pid, server_pid, started, kind, leader, database, user, application, client, ..Session::default() }
}

fn leave(seat: &mut Seat, news: &mut Vec<News>) {
    if seat.pid != 0 {
        news.push(News::Gone(seat.session));
        *seat = Seat::default();
    }
}
