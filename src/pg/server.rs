//! A running server that was attached to and proven: what the sampler reads.
//!
//! Lives on the capture thread. While mapped, [`Attached::proc`] and [`Attached::brief`] make no system call and allocate nothing.

use super::discover::Postmaster;
use super::layout::Layout;
use super::memory::{Reach, Segment, Standing};
use super::names;
use super::process::ProcFs;
use super::procs::Procs;
use super::shmem::Index;
use super::status::{StatusArray, Text, Who};
use crate::trace::catalog::{Activity, BackendKind, EventNames, Named, Server, UnixMicros};
use crate::trace::health::Access;
use crate::trace::record::QueryId;
use crate::trace::wait::WaitEvent;
use anyhow::{Context, Result};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fs;
use std::sync::Arc;

pub use super::procs::Proc;
pub use super::status::{Brief, Status};

/// Whether the server is still the one that was attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Yes.
    Alive,
    /// It restarted after a crash: drop the [`Attached`] at once (it pins dead memory) and open again.
    Replaced,
    /// It is gone.
    Gone,
}

/// Who a session is.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// `backend_start`.
    pub started: UnixMicros,
    /// What it is, background workers told apart by their title.
    pub kind: BackendKind,
    /// Host pid of the leader of the parallel group, unless it leads itself.
    pub leader: Option<i32>,
    /// Database.
    pub database: Named,
    /// User.
    pub user: Named,
    /// `application_name`.
    pub application: Arc<str>,
    /// Client as `host:port`, `[local]`, or empty.
    pub client: Arc<str>,
}

/// A server whose memory is read.
#[derive(Debug)]
pub struct Attached {
    proc_fs: ProcFs,
    postmaster: Postmaster,
    layout: &'static Layout,
    segment: Arc<Segment>,
    index: Index,
    procs: Procs,
    status: StatusArray,
    names: EventNames,
    host_pids: RefCell<FxHashMap<i32, i32>>,
}

impl Attached {
    /// Opens the server's memory and proves the layout on it.
    pub fn open(postmaster: &Postmaster, reach: Reach) -> Result<Self> {
        Self::open_at(&ProcFs::default(), postmaster, reach)
    }

    fn open_at(proc_fs: &ProcFs, postmaster: &Postmaster, reach: Reach) -> Result<Self> {
        let major = postmaster.major;
        let layout = Layout::of(major).with_context(|| {
            let (low, high) = Layout::known();
            format!("PostgreSQL {major} is not known: this program reads {low} to {high}")
        })?;
        let segment = Arc::new(Segment::open(proc_fs, postmaster.pid, reach)?);
        let index = Index::read(&segment, layout)?;
        let procs = Procs::open(&segment, &index, layout)?;
        let status = StatusArray::open(&segment, &index, layout)?;
        let names = names::event_names(major).unwrap_or_default();
        Ok(Self {
            proc_fs: proc_fs.clone(),
            postmaster: postmaster.clone(),
            layout,
            segment,
            index,
            procs,
            status,
            names,
            host_pids: RefCell::default(),
        })
    }

    /// What is known about the server.
    pub fn facts(&self) -> Server {
        let p = &self.postmaster;
        Server {
            major: p.major,
            version: p.version.clone(),
            cluster: p.cluster.clone().unwrap_or_default(),
            host: fs::read_to_string(self.proc_fs.global("sys/kernel/hostname")).map(|h| h.trim().to_owned()).unwrap_or_default(),
            pgdata: p.pgdata.to_string_lossy().into_owned(),
            port: p.port,
            postmaster: p.pid,
            started: p.started,
            cpus: self.proc_fs.status(p.pid).map(|s| s.cpus).unwrap_or_default(),
            activity_size: u32::try_from(self.status.activity_size()).unwrap_or_default(),
            query_ids: self.layout.status.st_query_id.is_none().then_some(false),
        }
    }

    /// Names of all wait events known for this server.
    pub fn names(&self) -> EventNames {
        self.names.clone()
    }

    /// Names that extensions registered since the last call.
    pub fn new_names(&mut self) -> Vec<(WaitEvent, Arc<str>)> {
        Vec::new()
    }

    /// How the memory is reached.
    pub fn access(&self) -> Access {
        self.segment.access()
    }

    /// The named areas of the shared memory, and the segment to read them from.
    pub fn memory(&self) -> (&Segment, &Index) {
        (&self.segment, &self.index)
    }

    /// Copy mode: reads the arrays again; call before each tick. Mapped: nothing to do.
    pub fn refresh(&mut self) -> Result<()> {
        self.procs.refresh().and_then(|()| self.status.refresh()).context("the server's memory cannot be read any more")
    }

    /// Slots of the `PGPROC` array.
    pub fn slots(&self) -> usize {
        self.procs.count()
    }

    /// The process in a slot, if the slot is in use.
    #[inline]
    pub fn proc(&self, slot: usize) -> Option<Proc> {
        self.procs.proc(slot)
    }

    /// Index of the status row of the process in a slot.
    #[inline]
    fn row_of(&self, slot: usize, pid: i32) -> Option<usize> {
        let Some(member) = self.layout.proc.backend_id else { return Some(slot) };
        match self.procs.u32(slot, member)?.cast_signed() {
            id if id > 0 => Some(id as usize - 1),
            _ => (self.status.max_backends()..self.status.slots()).find(|row| self.status.names(*row, pid)),
        }
    }

    /// The short part of a process's status row.
    #[inline]
    pub fn brief(&self, slot: usize, pid: i32) -> Status<Brief> {
        self.row_of(slot, pid).map_or(Status::Missing, |row| self.status.brief(row, pid))
    }

    /// Who the process in a slot is. Not for every tick.
    pub fn identity(&self, slot: usize, pid: i32) -> Status<Identity> {
        let Some(row) = self.row_of(slot, pid) else { return Status::Missing };
        self.status.who(row, pid).map(|who: Who| Identity {
            started: who.started,
            kind: who.kind,
            leader: self.procs.leader(slot).map(|leader| self.host_pid(leader)),
            database: Named { oid: who.database, name: None },
            user: Named { oid: who.user, name: None },
            application: String::from_utf8_lossy(&who.application).into(),
            client: who.peer.to_string().into(),
        })
    }

    /// What the process in a slot runs, or ran last. Not for every tick.
    pub fn activity(&self, slot: usize, pid: i32) -> Status<Activity> {
        let Some(row) = self.row_of(slot, pid) else { return Status::Missing };
        self.status.text(row, pid).map(|Text { raw, brief }| {
            let truncated = raw.len() + 1 >= self.status.activity_size();
            Activity {
                text: readable(&raw, truncated).into(),
                truncated,
                query_start: brief.activity_start,
                xact_start: brief.xact_start,
                state_change: brief.state_change,
                query: QueryId(brief.query),
            }
        })
    }

    /// Whether the server is still the same. About 100 µs: a few times a second.
    pub fn still(&self) -> Life {
        match self.segment.still_current() {
            Standing::Current => Life::Alive,
            Standing::Replaced => Life::Replaced,
            Standing::Gone => Life::Gone,
        }
    }

    /// The pid, in our own pid namespace, of a process the server calls `server_pid`. The same number where it is not known.
    pub fn host_pid(&self, server_pid: i32) -> i32 {
        if self.postmaster.pid == self.postmaster.namespace_pid {
            return server_pid;
        }
        if let Some(pid) = self.host_pids.borrow().get(&server_pid) {
            return *pid;
        }
        let mut known = self.host_pids.borrow_mut();
        known.clear();
        for pid in self.proc_fs.children(self.postmaster.pid).unwrap_or_default() {
            if let Some(own) = self.proc_fs.status(pid).ok().and_then(|s| s.own_pid()) {
                known.insert(own, pid);
            }
        }
        known.get(&server_pid).copied().unwrap_or(server_pid)
    }

    /// Host pid of a process that ends whenever shared memory is replaced: the checkpointer, else another process of the server's own.
    pub fn checkpointer(&self) -> Option<i32> {
        use BackendKind::{BackgroundWriter, Checkpointer, Startup, WalReceiver, WalWriter};
        let rank = |kind| [Checkpointer, BackgroundWriter, WalWriter, Startup, WalReceiver].iter().position(|k| *k == kind);
        (0..self.slots())
            .filter_map(|slot| {
                let proc = self.proc(slot)?;
                Some((rank(self.brief(slot, proc.pid).row()?.kind)?, proc.pid))
            })
            .min()
            .map(|(_, pid)| self.host_pid(pid))
    }
}

/// Makes text valid UTF-8. What the server's cut left of a last character is dropped rather than shown as a bad byte.
fn readable(raw: &[u8], truncated: bool) -> String {
    let raw = match std::str::from_utf8(raw) {
        Err(e) if truncated && e.error_len().is_none() => raw.get(..e.valid_up_to()).unwrap_or(raw),
        _ => raw,
    };
    String::from_utf8_lossy(raw).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_made_readable() {
        assert_eq!(readable(b"select 1", false), "select 1");
        assert_eq!(readable(b"x\xf8\xe7\x84y", false), "x\u{fffd}\u{fffd}\u{fffd}y");
        assert_eq!(readable("ab\u{20ac}".as_bytes().get(..4).unwrap(), true), "ab");
        assert_eq!(readable("ab\u{20ac}".as_bytes().get(..4).unwrap(), false), "ab\u{fffd}");
        assert_eq!(readable(b"", true), "");
    }
}
