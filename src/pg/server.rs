//! A running server that was attached to and proven: what the sampler reads.
//!
//! Lives on the capture thread. While mapped, [`Attached::proc`] and [`Attached::brief`] make no system call and allocate nothing.

use super::discover::Postmaster;
use super::layout::Layout;
use super::memory::{Reach, Segment, Standing};
use super::names;
use super::process::ProcFs;
use super::procs::Procs;
use super::proof;
use super::registered::Registered;
use super::shmem::Index;
use super::status::{StatusArray, Text, Who};
use super::titles::Titles;
use crate::trace::catalog::{Activity, BackendKind, EventNames, Named, Server, UnixMicros};
use crate::trace::health::Access;
use crate::trace::record::QueryId;
use crate::trace::wait::WaitEvent;
use anyhow::{Context, Result};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::sync::Arc;

pub use super::procs::Proc;
pub use super::status::{Brief, Doing, Mark, Status};

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
pub struct Attached {
    proc_fs: ProcFs,
    postmaster: Postmaster,
    layout: &'static Layout,
    segment: Arc<Segment>,
    index: Index,
    procs: Procs,
    status: StatusArray,
    names: EventNames,
    registered: Registered,
    titles: RefCell<Titles>,
    /// Per slot: whose title was read there, and what kind of process it names.
    titled: RefCell<FxHashMap<usize, Titled>>,
    host_pids: RefCell<FxHashMap<i32, i32>>,
}

#[derive(Debug, Clone, Copy)]
struct Titled {
    pid: i32,
    started: UnixMicros,
    kind: BackendKind,
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("postmaster", &self.postmaster).field("access", &self.access()).finish_non_exhaustive()
    }
}

/// What the proof looks at.
pub(super) struct Parts<'a> {
    pub proc_fs: &'a ProcFs,
    pub postmaster: &'a Postmaster,
    pub layout: &'static Layout,
    pub procs: &'a Procs,
    pub status: &'a StatusArray,
    pub names: &'a EventNames,
}

impl Attached {
    /// Opens the server's memory and proves the layout on it. The error is one line (with its causes) and says what was found.
    ///
    /// Waits for a server that is still starting, up to five seconds; a [`proof::Refusal::NotYet`] in the error tells that case apart.
    pub fn open(postmaster: &Postmaster, reach: Reach) -> Result<Self> {
        let mut patience = proof::Patience::default();
        loop {
            match Self::open_now(postmaster, reach) {
                Ok(this) => return Ok(this),
                Err(e) if !patience.allows(&e) => return Err(e),
                Err(_) => {}
            }
        }
    }

    /// One attempt of [`Self::open`], without waiting. Where processes come and go at that very moment it may fail on a server that is fine.
    pub fn open_now(postmaster: &Postmaster, reach: Reach) -> Result<Self> {
        let major = postmaster.major;
        let layout = Layout::of(major).with_context(|| {
            let (low, high) = Layout::known();
            format!("PostgreSQL {major} is not supported: this program knows {low} to {high}")
        })?;
        Self::attempt(postmaster, reach, layout)
    }

    /// [`Self::open_now`] with a layout of the caller's: for tests, which prove that wrong ones are refused.
    #[doc(hidden)]
    pub fn attempt(postmaster: &Postmaster, reach: Reach, layout: &'static Layout) -> Result<Self> {
        let this = Self::attach(postmaster, reach, layout)?;
        proof::prove(&this)?;
        this.learn_prefix();
        Ok(this)
    }

    /// Everything but the proof.
    fn attach(postmaster: &Postmaster, reach: Reach, layout: &'static Layout) -> Result<Self> {
        let proc_fs = ProcFs::default();
        let segment = Arc::new(Segment::open(&proc_fs, postmaster.pid, reach)?);
        let index = Index::read(&segment, layout)?;
        let procs = Procs::open(&segment, &index, layout)?;
        let status = StatusArray::open(&segment, &index, layout)?;
        let registered = Registered::open(&proc_fs, postmaster.pid, &segment, &index, layout);
        let mut names = names::event_names(layout.major).unwrap_or_default();
        registered.known().for_each(|(event, name)| names.insert(event, name));
        Ok(Self {
            proc_fs,
            postmaster: postmaster.clone(),
            layout,
            segment,
            index,
            procs,
            status,
            names,
            registered,
            titles: RefCell::new(Titles::new(layout.major)),
            titled: RefCell::default(),
            host_pids: RefCell::default(),
        })
    }

    /// What is known about the server.
    pub fn facts(&self) -> Server {
        let p = &self.postmaster;
        Server {
            major: p.major,
            version: p.version.clone(),
            cluster: self.titles.borrow().cluster().or_else(|| p.cluster.clone()).unwrap_or_default(),
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
        let news = self.registered.look(&self.segment);
        for (event, name) in &news {
            self.names.insert(*event, Arc::clone(name));
        }
        news
    }

    /// How the memory is reached.
    pub fn access(&self) -> Access {
        self.segment.access()
    }

    pub(super) fn parts(&self) -> Parts<'_> {
        Parts {
            proc_fs: &self.proc_fs,
            postmaster: &self.postmaster,
            layout: self.layout,
            procs: &self.procs,
            status: &self.status,
            names: &self.names,
        }
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

    /// Has the processor fetch what the next look at a slot will read, given the status row seen there before. Memory is far when it was last read a
    /// hundredth of a second ago, and one such look waits for several places of it in turn.
    #[inline]
    pub fn prefetch(&self, slot: usize, before: Option<&Mark>) {
        self.procs.prefetch(slot, before.is_some());
        if let Some(mark) = before {
            self.status.prefetch(mark);
        }
    }

    /// Where the process in a slot keeps its `wait_event_info`: the same address in all processes of the server.
    pub fn word(&self, slot: usize) -> u64 {
        self.procs.word(slot)
    }

    /// Where the process in a slot keeps its status row, once it has one.
    pub fn status_address(&self, slot: usize, pid: i32) -> Option<u64> {
        let row = self.row_of(slot, pid)?;
        if self.status.names(row, pid) { self.status.address(row) } else { None }
    }

    /// Where things are in the server's structures.
    pub fn layout(&self) -> &'static Layout {
        self.layout
    }

    /// Whether a process of the host lives (a zombie does not).
    pub fn lives(&self, host: i32) -> bool {
        self.proc_fs.is_running(host, None)
    }

    /// CPUs the server may run on; 0 when unknown.
    pub fn cpus(&self) -> usize {
        self.proc_fs.status(self.postmaster.pid).map_or(0, |s| s.cpus as usize)
    }

    /// Host pid of the postmaster.
    pub fn postmaster(&self) -> i32 {
        self.postmaster.pid
    }

    /// Index of the status row of the process in a slot. From 17 on, that of the slot. Before, backends have a number of their own, and the rows
    /// of auxiliary processes follow behind; the startup process of a standby has such a number and its row behind nevertheless.
    #[inline]
    pub(super) fn row_of(&self, slot: usize, pid: i32) -> Option<usize> {
        let Some(member) = self.layout.proc.backend_id else { return Some(slot) };
        let id = self.procs.u32(slot, member)?.cast_signed();
        if id > 0 && self.status.names(id as usize - 1, pid) {
            return Some(id as usize - 1);
        }
        (self.status.max_backends()..self.status.slots()).find(|row| self.status.names(*row, pid))
    }

    /// The short part of a process's status row.
    #[inline]
    pub fn brief(&self, slot: usize, pid: i32) -> Status<Brief> {
        self.row_of(slot, pid).map_or(Status::Missing, |row| self.status.brief(row, pid))
    }

    /// The short part of a process's status row, and what tells later that it has not changed.
    #[inline]
    pub fn marked(&self, slot: usize, pid: i32) -> Status<(Brief, Mark)> {
        self.row_of(slot, pid).map_or(Status::Missing, |row| self.status.marked(row, pid))
    }

    /// Whether a status row is still what was read when it was marked.
    #[inline]
    pub fn unchanged(&self, mark: &Mark) -> bool {
        self.status.unchanged(mark)
    }

    /// Who the process in a slot is. Reads its title at the first time, and again while a name is missing: not for every tick.
    pub fn identity(&self, slot: usize, pid: i32) -> Status<Identity> {
        let Some(row) = self.row_of(slot, pid) else { return Status::Missing };
        self.status.who(row, pid).map(|who| self.named(slot, pid, &who))
    }

    fn named(&self, slot: usize, pid: i32, who: &Who) -> Identity {
        let kind = self.titled_kind(slot, pid, who);
        let titles = self.titles.borrow();
        Identity {
            started: who.started,
            kind,
            leader: self.procs.leader(slot).map(|leader| self.host_pid(leader)),
            database: Named { oid: who.database, name: titles.database(who.database) },
            user: Named { oid: who.user, name: titles.user(who.user) },
            application: String::from_utf8_lossy(&who.application).into(),
            client: who.peer.to_string().into(),
        }
    }

    /// The kind of a process, and on the way the names its title tells.
    fn titled_kind(&self, slot: usize, pid: i32, who: &Who) -> BackendKind {
        let before = self.titled.borrow().get(&slot).copied().filter(|t| (t.pid, t.started) == (pid, who.started));
        let nameless = {
            let titles = self.titles.borrow();
            (who.user != 0 && titles.user(who.user).is_none()) || (who.database != 0 && titles.database(who.database).is_none())
        };
        if let Some(titled) = before.filter(|_| !nameless) {
            return titled.kind;
        }
        if !self.titles.borrow().knows_prefix() {
            self.learn_prefix();
        }
        let title = self.proc_fs.title(self.host_pid(pid)).unwrap_or_default();
        let mut titles = self.titles.borrow_mut();
        titles.learn(who, &title);
        let kind = titles.refine(who.kind, &title);
        if titles.knows_prefix() && !title.is_empty() {
            self.titled.borrow_mut().insert(slot, Titled { pid, started: who.started, kind });
        }
        kind
    }

    /// Titles of processes of a known kind tell how the titles of this server begin.
    fn learn_prefix(&self) {
        for (slot, proc) in self.live() {
            if let Status::Row(brief) = self.brief(slot, proc.pid)
                && !matches!(brief.kind, BackendKind::Client | BackendKind::BackgroundWorker)
            {
                let title = self.proc_fs.title(self.host_pid(proc.pid)).unwrap_or_default();
                self.titles.borrow_mut().learn_prefix(brief.kind, &title);
            }
        }
    }

    /// Slots in use, with their processes.
    pub fn live(&self) -> impl Iterator<Item = (usize, Proc)> + '_ {
        (0..self.slots()).filter_map(|slot| Some((slot, self.proc(slot)?)))
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

    /// Whether the server is still the same. About 50 µs: a few times a second.
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
        let ranked = self.live().filter_map(|(slot, proc)| Some((rank(self.brief(slot, proc.pid).row()?.kind)?, proc.pid)));
        ranked.min().map(|(_, pid)| self.host_pid(pid))
    }
}

/// Makes text valid UTF-8. What the server's cut left of a last character is dropped rather than shown as a bad byte.
fn readable(raw: &[u8], truncated: bool) -> String {
    let whole = if truncated { raw.len() - cut_character(raw) } else { raw.len() };
    String::from_utf8_lossy(raw.get(..whole).unwrap_or(raw)).into_owned()
}

/// Bytes at the end that begin a UTF-8 character and do not finish it.
fn cut_character(raw: &[u8]) -> usize {
    let tail = raw.iter().rev().take(3).take_while(|b| **b & 0xc0 == 0x80).count();
    let needs = match raw.len().checked_sub(tail + 1).and_then(|at| raw.get(at)) {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 0,
    };
    if tail + 1 < needs { tail + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_made_readable() {
        assert_eq!(readable(b"select 1", false), "select 1");
        assert_eq!(readable(b"x\xf8\xe7\x84y", false), "x\u{fffd}\u{fffd}y");
        assert_eq!(readable(b"\xf8x\xe7\x84", true), "\u{fffd}x");
        assert_eq!(readable(b"\x84\x84\x84\x84", true), "\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
        for cut in 1..4 {
            assert_eq!(readable("ab\u{1f600}".as_bytes().get(..2 + cut).unwrap(), true), "ab");
        }
        assert_eq!(readable("ab\u{1f600}".as_bytes(), true), "ab\u{1f600}");
        assert_eq!(readable("ab\u{20ac}".as_bytes().get(..4).unwrap(), true), "ab");
        assert_eq!(readable("ab\u{20ac}".as_bytes().get(..4).unwrap(), false), "ab\u{fffd}");
        assert_eq!(readable(b"", true), "");
    }
}
