//! `PgBackendStatus`: the rows behind `pg_stat_activity`, read under PostgreSQL's own change-count protocol.
//!
//! A row is taken only when its change count was even and the same before and after, and when it belongs to the process asked for.

use super::layout::{self, Layout};
use super::memory::{Area, Segment};
use super::shmem::{Index, Named};
use crate::trace::catalog::{BackendKind, UnixMicros};
use crate::trace::record::State;
use anyhow::{Result, ensure};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Attempts before a row counts as unreadable. A writer is done in well under a microsecond unless it loses its CPU in the middle.
const ATTEMPTS: usize = 200;
/// Length of `st_appname` and `st_clienthostname` (`NAMEDATALEN`).
const NAME: usize = 64;

/// What a row gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status<T> {
    /// The row.
    Row(T),
    /// The process has no row: it is starting or ending, or is of a kind that has none.
    Missing,
    /// The change count never settled, or the row holds what this version cannot hold.
    Unreadable,
}

impl<T> Status<T> {
    /// The row, if there is one.
    pub fn row(self) -> Option<T> {
        match self {
            Self::Row(row) => Some(row),
            Self::Missing | Self::Unreadable => None,
        }
    }

    /// Changes what was found.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Status<U> {
        match self {
            Self::Row(row) => Status::Row(f(row)),
            Self::Missing => Status::Missing,
            Self::Unreadable => Status::Unreadable,
        }
    }
}

/// The part of a row that is read at every tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brief {
    /// `backend_start`.
    pub started: UnixMicros,
    /// As the row has it: a background worker is not told apart further.
    pub kind: BackendKind,
    /// `state`.
    pub state: State,
    /// `query_id`; 0 on 13, which has none.
    pub query: i64,
    /// Plan id, 18 and later; 0 unless an extension sets it.
    pub plan: i64,
    /// `query_start`.
    pub activity_start: UnixMicros,
    /// `xact_start`.
    pub xact_start: UnixMicros,
    /// `state_change`.
    pub state_change: UnixMicros,
}

/// What of a row tells the query: its own small part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doing {
    /// `state`.
    pub state: State,
    /// `query_id`, as in [`Brief`].
    pub query: i64,
    /// `query_start`.
    pub activity_start: UnixMicros,
}

impl Brief {
    /// The part that tells the query.
    pub fn doing(&self) -> Doing {
        Doing { state: self.state, query: self.query, activity_start: self.activity_start }
    }
}

/// A row as it was once read: which one, whose, and its change count then. The count only grows, and PostgreSQL writes to a row nowhere but between
/// two increments (`PGSTAT_BEGIN_WRITE_ACTIVITY` and its end), so with the same count a row is still what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    index: u32,
    pid: i32,
    count: u32,
}

impl Mark {
    /// The process whose row it was.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

/// Where a client comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A background process.
    None,
    /// A unix socket.
    Local,
    /// TCP.
    Remote(IpAddr, u16),
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Local => f.write_str("[local]"),
            Self::Remote(IpAddr::V6(ip), port) => write!(f, "[{ip}]:{port}"),
            Self::Remote(ip, port) => write!(f, "{ip}:{port}"),
        }
    }
}

/// The part of a row that stays (nearly) the same.
#[derive(Debug, Clone)]
pub struct Who {
    /// `backend_start`.
    pub started: UnixMicros,
    /// As the row has it.
    pub kind: BackendKind,
    /// Database, 0 for none.
    pub database: u32,
    /// User, 0 for none.
    pub user: u32,
    /// Where the client comes from.
    pub peer: Peer,
    /// `client_hostname`, empty unless `log_hostname` is on.
    pub hostname: Vec<u8>,
    /// `application_name`, raw.
    pub application: Vec<u8>,
}

/// SQL text and its times.
#[derive(Debug, Clone)]
pub struct Text {
    /// Raw bytes as the server holds them.
    pub raw: Vec<u8>,
    /// The same moment's short part.
    pub brief: Brief,
}

/// The status array and the buffers its strings lie in.
#[derive(Debug)]
pub struct StatusArray {
    segment: Arc<Segment>,
    layout: &'static Layout,
    slots: usize,
    rows: Area,
    /// Copy mode: copies read before and after `rows`, for their change counts.
    bracket: Option<(Area, Area)>,
    appnames: Named,
    hostnames: Named,
    activity: Named,
    activity_size: usize,
}

impl StatusArray {
    /// Finds the array and its buffers.
    pub fn open(segment: &Arc<Segment>, index: &Index, layout: &'static Layout) -> Result<Self> {
        let array = index.require("Backend Status Array")?;
        let appnames = index.require("Backend Application Name Buffer")?;
        let hostnames = index.require("Backend Client Host Name Buffer")?;
        let activity = index.require("Backend Activity Buffer")?;
        let size = layout.status.size;
        ensure!(
            array.len >= size && array.len % size == 0,
            "the area 'Backend Status Array' of {} bytes does not hold whole rows of {size}",
            array.len
        );
        let slots = array.len / size;
        ensure!(slots > layout.status_slots_beyond_backends, "the area 'Backend Status Array' has only {slots} rows");
        ensure!(
            appnames.len == slots * NAME && hostnames.len == slots * NAME && activity.len % slots == 0 && activity.len / slots >= 100,
            "the string buffers do not belong to {slots} status rows"
        );
        let rows = segment.area(array.addr, array.len)?;
        let bracket =
            if rows.is_mapped() { None } else { Some((segment.area(array.addr, array.len)?, segment.area(array.addr, array.len)?)) };
        let activity_size = activity.len / slots;
        Ok(Self { segment: Arc::clone(segment), layout, slots, rows, bracket, appnames, hostnames, activity, activity_size })
    }

    /// Rows in the array.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Rows that belong to backends (`MaxBackends`); 13 to 16 keep those of auxiliary processes behind them.
    pub fn max_backends(&self) -> usize {
        self.slots - self.layout.status_slots_beyond_backends
    }

    /// `track_activity_query_size`.
    pub fn activity_size(&self) -> usize {
        self.activity_size
    }

    /// Copy mode: reads the array three times, so that each row lies between two readings of its change count.
    pub fn refresh(&mut self) -> std::io::Result<()> {
        let Some((before, after)) = &mut self.bracket else { return Ok(()) };
        before.refresh()?;
        self.rows.refresh()?;
        after.refresh()
    }

    /// Address of a row in the server.
    pub fn address(&self, index: usize) -> Option<u64> {
        (index < self.slots).then(|| self.rows.addr() + (index * self.layout.status.size) as u64)
    }

    /// Whether a row names this process, without the protocol: to search.
    #[inline]
    pub fn names(&self, index: usize, pid: i32) -> bool {
        index < self.slots && self.rows.i32(index * self.layout.status.size + self.layout.status.st_procpid) == Some(pid)
    }

    /// The hot part of a row. No allocation; no system call when mapped.
    #[inline]
    pub fn brief(&self, index: usize, pid: i32) -> Status<Brief> {
        self.marked(index, pid).map(|(brief, _)| brief)
    }

    /// The hot part of a row, and what tells later that it has not changed.
    #[inline]
    pub fn marked(&self, index: usize, pid: i32) -> Status<(Brief, Mark)> {
        if index >= self.slots {
            return Status::Missing;
        }
        let (found, count) = match self.even(index) {
            Some(count) if self.bracket.is_some() => (self.row(&self.rows, index * self.layout.status.size).of(pid, short), count),
            _ => self.settled(index, pid, short),
        };
        found.map(|brief| (brief, Mark { index: index as u32, pid, count }))
    }

    /// Whether a row is still what was read: one look at its change count. In copy mode as of the last [`Self::refresh`].
    #[inline]
    pub fn unchanged(&self, mark: &Mark) -> bool {
        self.names(mark.index as usize, mark.pid) && self.even(mark.index as usize) == Some(mark.count)
    }

    /// Has the processor fetch what [`Self::unchanged`] will read.
    #[inline]
    pub fn prefetch(&self, mark: &Mark) {
        self.rows.prefetch(mark.index as usize * self.layout.status.size + self.layout.status.st_changecount);
    }

    /// A row's change count, when nobody is writing. Copy mode: when nobody was, from the first of the three copies to the last.
    #[inline]
    fn even(&self, index: usize) -> Option<u32> {
        let at = index * self.layout.status.size + self.layout.status.st_changecount;
        let (before, after) = match &self.bracket {
            None => (self.rows.u32(at)?, None),
            Some((before, after)) => (before.u32(at)?, Some(after.u32(at)?)),
        };
        (before % 2 == 0 && after.is_none_or(|a| a == before)).then_some(before)
    }

    /// Who a row belongs to.
    pub fn who(&self, index: usize, pid: i32) -> Status<Who> {
        self.settle(index, pid, |row| {
            let (started, kind) = (row.time(self.layout.status.st_proc_start_timestamp)?, row.kind()?);
            Some(Who {
                started,
                kind,
                database: row.u32(self.layout.status.st_databaseid)?,
                user: row.u32(self.layout.status.st_userid)?,
                peer: row.peer()?,
                hostname: self.segment.c_string(self.hostnames.addr + (index * NAME) as u64, NAME)?,
                application: self.segment.c_string(self.appnames.addr + (index * NAME) as u64, NAME)?,
            })
        })
    }

    /// What a row's process runs now or ran last.
    pub fn text(&self, index: usize, pid: i32) -> Status<Text> {
        self.settle(index, pid, |row| {
            let raw = self.segment.c_string(self.activity.addr + (index * self.activity_size) as u64, self.activity_size)?;
            Some(Text { raw, brief: short(row)? })
        })
    }

    /// Where the strings of a row must point: `st_appname`, `st_clienthostname`, `st_activity_raw`. And where they do.
    pub fn pointers(&self, index: usize, pid: i32) -> Status<[(u64, u64); 3]> {
        let s = &self.layout.status;
        self.settle(index, pid, |row| {
            Some([
                (row.u64(s.st_appname)?, self.appnames.addr + (index * NAME) as u64),
                (row.u64(s.st_clienthostname)?, self.hostnames.addr + (index * NAME) as u64),
                (row.u64(s.st_activity_raw)?, self.activity.addr + (index * self.activity_size) as u64),
            ])
        })
    }

    fn row<'a>(&'a self, area: &'a Area, at: usize) -> Row<'a> {
        Row { area, at, layout: self.layout }
    }

    fn settle<T>(&self, index: usize, pid: i32, take: impl Fn(&Row<'_>) -> Option<T>) -> Status<T> {
        self.settled(index, pid, take).0
    }

    /// The protocol: count, row, count; again while a writer was at work. With the count.
    fn settled<T>(&self, index: usize, pid: i32, take: impl Fn(&Row<'_>) -> Option<T>) -> (Status<T>, u32) {
        if index >= self.slots {
            return (Status::Missing, 0);
        }
        let size = self.layout.status.size;
        let addr = self.rows.addr() + (index * size) as u64;
        let count = || self.segment.u32(addr + self.layout.status.st_changecount as u64);
        for _ in 0..ATTEMPTS {
            let Some(before) = count() else { break };
            if before % 2 == 0 {
                fence(Ordering::Acquire);
                let found = if self.bracket.is_none() {
                    self.row(&self.rows, index * size).of(pid, &take)
                } else {
                    let Ok(copy) = self.segment.area(addr, size) else { break };
                    self.row(&copy, 0).of(pid, &take)
                };
                fence(Ordering::Acquire);
                if count() == Some(before) {
                    return (found, before);
                }
            }
            std::hint::spin_loop();
        }
        (Status::Unreadable, 0)
    }
}

/// One row, live or copied.
struct Row<'a> {
    area: &'a Area,
    at: usize,
    layout: &'static Layout,
}

impl Row<'_> {
    fn u32(&self, member: usize) -> Option<u32> {
        self.area.u32(self.at + member)
    }

    fn u64(&self, member: usize) -> Option<u64> {
        self.area.u64(self.at + member)
    }

    fn time(&self, member: usize) -> Option<UnixMicros> {
        self.area.i64(self.at + member).map(layout::unix_micros)
    }

    fn of<T>(&self, pid: i32, take: impl Fn(&Self) -> Option<T>) -> Status<T> {
        match self.area.i32(self.at + self.layout.status.st_procpid) {
            Some(found) if found == pid => take(self).map_or(Status::Unreadable, Status::Row),
            Some(_) => Status::Missing,
            None => Status::Unreadable,
        }
    }

    fn kind(&self) -> Option<BackendKind> {
        self.layout.backend_kind(self.u32(self.layout.status.st_backend_type)?)
    }

    /// `struct sockaddr_storage`: family in the machine's byte order, port and address in the network's.
    fn peer(&self) -> Option<Peer> {
        let mut raw = [0_u8; 24];
        self.area.copy(self.at + self.layout.status.st_clientaddr, &mut raw)?;
        let family = u16::from_ne_bytes(*raw.first_chunk()?);
        let port = u16::from_be_bytes(*raw.get(2..)?.first_chunk()?);
        Some(match i32::from(family) {
            libc::AF_UNIX => Peer::Local,
            libc::AF_INET => Peer::Remote(Ipv4Addr::from(*raw.get(4..)?.first_chunk::<4>()?).into(), port),
            libc::AF_INET6 => Peer::Remote(Ipv6Addr::from(*raw.get(8..)?.first_chunk::<16>()?).into(), port),
            _ => Peer::None,
        })
    }
}

/// The hot part of a row.
fn short(row: &Row<'_>) -> Option<Brief> {
    let s = &row.layout.status;
    let kind = row.kind()?;
    let optional = |member: Option<usize>| member.map_or(Some(0), |m| row.area.i64(row.at + m));
    Some(Brief {
        started: row.time(s.st_proc_start_timestamp)?,
        kind,
        state: row.layout.state(row.u32(s.st_state)?, kind)?,
        query: optional(s.st_query_id)?,
        plan: optional(s.st_plan_id)?,
        activity_start: row.time(s.st_activity_start_timestamp)?,
        xact_start: row.time(s.st_xact_start_timestamp)?,
        state_change: row.time(s.st_state_start_timestamp)?,
    })
}
