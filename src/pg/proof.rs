//! The proof: before anything is shown, the layout is compared with the running server, and refused where it does not fit.
//!
//! Every fact has a witness outside of the memory that is read: pids are children of the postmaster, start times are those of `/proc`, titles
//! name the kind of process, strings lie where the array index says. Zero never proves anything.

use super::layout::SHMEM_MAGIC;
use super::server::{Attached, Status};
use crate::trace::catalog::{BackendKind, UnixMicros};
use crate::trace::wait::WaitEvent;
use anyhow::Error;
use rustc_hash::FxHashMap;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

/// Processes that must agree: one could be chance.
const WITNESSES: usize = 2;
/// `/proc` counts start times in hundredths of a second, the pid file in seconds.
const START_TOLERANCE: i64 = 2_000_000;

/// Why a server is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is not enough to compare with: the server is starting, or stopping.
    NotYet(String),
    /// The server's memory is not what the layout says.
    Mismatch(String),
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYet(what) => write!(f, "the server is not ready to be read: {what}; it may be starting or stopping, try again"),
            Self::Mismatch(what) => {
                write!(f, "the memory of this server is not laid out as expected ({what}): refusing to show numbers that may be wrong")
            }
        }
    }
}

/// How long an attempt is repeated. Processes come and go while they are compared, so one disagreement is no verdict.
#[derive(Debug)]
pub(super) struct Patience {
    begun: Instant,
    refused: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { begun: Instant::now(), refused: 0 }
    }
}

impl Patience {
    /// Whether to try again after this error. Waits a moment if so.
    pub(super) fn allows(&mut self, error: &Error) -> bool {
        self.refused += 1;
        let again = match error.downcast_ref::<Refusal>() {
            Some(Refusal::NotYet(_)) => self.begun.elapsed() < Duration::from_secs(5),
            None if is_final(error) => false,
            // Structures may be half built while the server starts.
            Some(Refusal::Mismatch(_)) | None => self.refused < 8,
        };
        if again {
            std::thread::sleep(Duration::from_millis(100));
        }
        again
    }
}

/// Not allowed to look, or nothing there to look at: that does not change by waiting.
fn is_final(error: &Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    let mut kinds = io.map(|e| (e.kind(), e.raw_os_error()));
    kinds.any(|(kind, raw)| matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound) || raw == Some(libc::ESRCH))
}

/// Compares the layout with the server.
pub(super) fn prove(attached: &Attached) -> Result<(), Refusal> {
    header(attached)?;
    slots(attached)?;
    let children = Children::of(attached);
    let mut seen = Seen::default();
    for (slot, proc) in attached.live() {
        let Some(child) = children.get(attached, proc.pid) else {
            if !attached.parts().procs.owns_now(attached.memory().0, slot, proc.pid) {
                continue;
            }
            return mismatch(format!("PGPROC {slot} names process {}, which is not one of the server's", proc.pid));
        };
        event(attached, slot, proc.event, &mut seen)?;
        row(attached, slot, proc.pid, &child, &children, &mut seen)?;
    }
    seen.verdict()
}

fn mismatch<T>(what: String) -> Result<T, Refusal> {
    Err(Refusal::Mismatch(what))
}

/// What the live processes had to say.
#[derive(Default)]
struct Seen {
    processes: usize,
    events: usize,
    rows: usize,
    starts: usize,
    early: Option<String>,
}

impl Seen {
    fn verdict(self) -> Result<(), Refusal> {
        let short = |what: &str, n: usize| Err(Refusal::NotYet(format!("only {n} of its processes {what}")));
        match self {
            Self { processes, .. } if processes < WITNESSES => short("are in shared memory", processes),
            Self { rows, .. } if rows < WITNESSES => short("have a status row", rows),
            Self { starts: 0, early: Some(what), .. } => mismatch(what),
            Self { events, .. } if events < WITNESSES => short("report a wait", events),
            _ => Ok(()),
        }
    }
}

/// The segment is this postmaster's.
fn header(attached: &Attached) -> Result<(), Refusal> {
    let (segment, _) = attached.memory();
    let parts = attached.parts();
    let h = &parts.layout.header;
    let word = |member: usize| segment.u32(segment.start() + member as u64);
    if word(h.magic) != Some(SHMEM_MAGIC) {
        return mismatch("the shared memory does not begin with PostgreSQL's magic number".into());
    }
    if word(h.creator_pid) != Some(parts.postmaster.namespace_pid.cast_unsigned()) {
        return mismatch(format!("the shared memory was not made by process {}", parts.postmaster.namespace_pid));
    }
    match segment.u64(segment.start() + h.totalsize as u64) {
        Some(size) if size <= segment.len() && size >= segment.len() / 2 => Ok(()),
        size => mismatch(format!("the shared memory of {} bytes says it has {}", segment.len(), size.unwrap_or_default())),
    }
}

/// Both arrays are sized from the same `MaxBackends`.
fn slots(attached: &Attached) -> Result<(), Refusal> {
    let parts = attached.parts();
    let by_procs = parts.procs.count() - parts.layout.proc_slots_beyond_backends;
    let by_rows = parts.status.max_backends();
    if parts.layout.proc.pid == parts.layout.proc.proc_latch_owner_pid {
        return mismatch("the pid and the latch's owner cannot be the same member".into());
    }
    if by_procs == by_rows {
        return Ok(());
    }
    mismatch(format!("the process array has room for {by_procs} backends, the status array for {by_rows}"))
}

fn event(attached: &Attached, slot: usize, event: WaitEvent, seen: &mut Seen) -> Result<(), Refusal> {
    seen.processes += 1;
    if !event.is_plausible() {
        return mismatch(format!("PGPROC {slot} holds {:#010x} where a wait event should be", event.0));
    }
    if event != WaitEvent::CPU && attached.parts().names.name(event).find(":0x").is_none() {
        seen.events += 1;
    }
    Ok(())
}

fn row(attached: &Attached, slot: usize, pid: i32, child: &Child, children: &Children, seen: &mut Seen) -> Result<(), Refusal> {
    let parts = attached.parts();
    let brief = match attached.brief(slot, pid) {
        Status::Row(brief) => brief,
        Status::Missing => return Ok(()),
        Status::Unreadable => {
            return mismatch(format!("the status row of process {pid} never settles, or holds values this version does not have"));
        }
    };
    let Some(index) = attached.row_of(slot, pid) else { return Ok(()) };
    match parts.status.pointers(index, pid) {
        Status::Row(pointers) => {
            if let Some((found, wanted)) = pointers.into_iter().find(|(found, wanted)| found != wanted) {
                return mismatch(format!("a string of status row {index} lies at {found:#x}, not at {wanted:#x}"));
            }
        }
        Status::Missing => return Ok(()),
        Status::Unreadable => return mismatch(format!("the status row of process {pid} never settles")),
    }
    if brief.kind == BackendKind::Unknown {
        return mismatch(format!("the status row of process {pid} names no kind of process"));
    }
    let own_title = [BackendKind::Checkpointer, BackendKind::BackgroundWriter, BackendKind::WalWriter].contains(&brief.kind);
    let title = String::from_utf8_lossy(&child.title);
    if own_title && title.starts_with("postgres: ") && !title.contains(brief.kind.name()) {
        return mismatch(format!("process {pid} is called '{}' but its status row says {}", title.escape_debug(), brief.kind.name()));
    }
    let near = |a: UnixMicros, b: UnixMicros| (a - b).abs() <= START_TOLERANCE;
    if near(brief.started, child.started) || near(brief.started, child.started + children.clock_step) {
        seen.starts += 1;
    } else {
        let off = brief.started.saturating_sub(child.started) / 1_000_000;
        seen.early = Some(format!("the status row of process {pid} says it started {off} s away from when it did"));
    }
    seen.rows += 1;
    Ok(())
}

/// A process of the server, as `/proc` knows it.
struct Child {
    title: Vec<u8>,
    started: UnixMicros,
}

struct Children {
    by_server_pid: FxHashMap<i32, i32>,
    boot: UnixMicros,
    /// By how much the clock was set since the server started, as far as its own pid file shows.
    clock_step: i64,
}

impl Children {
    fn of(attached: &Attached) -> Self {
        let parts = attached.parts();
        let by_server_pid = Self::list(attached);
        let boot = parts.proc_fs.boot().unwrap_or_default();
        let own = parts.proc_fs.stat(parts.postmaster.pid).map(|s| s.started(boot)).unwrap_or_default();
        let clock_step = if parts.postmaster.started == 0 { 0 } else { parts.postmaster.started - own };
        Self { by_server_pid, boot, clock_step }
    }

    fn list(attached: &Attached) -> FxHashMap<i32, i32> {
        let parts = attached.parts();
        let own = |pid: i32| Some((parts.proc_fs.status(pid).ok()?.own_pid().unwrap_or(pid), pid));
        parts.proc_fs.children(parts.postmaster.pid).unwrap_or_default().into_iter().filter_map(own).collect()
    }

    /// A child by the pid the server knows. A process newer than the list is looked for again.
    fn get(&self, attached: &Attached, server_pid: i32) -> Option<Child> {
        let proc_fs = attached.parts().proc_fs;
        let pid = self.by_server_pid.get(&server_pid).copied().or_else(|| Self::list(attached).get(&server_pid).copied())?;
        let stat = proc_fs.stat(pid).ok()?;
        Some(Child { title: proc_fs.title(pid).unwrap_or_default(), started: stat.started(self.boot) })
    }
}
