//! What takes long about a window (programs into the kernel, programs and watchpoints out of it) on threads of their own: the capture thread never waits
//! for it, and ticks go on. Everything is joined.

use super::program::{Programs, Setup};
use super::shared::{Shared, Sizes};
use super::{FIRST_PID_NAMESPACE, Kind, Rules, price, ring_records};
use crate::capture::sys;
use crate::pg::layout::Layout;
use crate::pg::server::Attached;
use crate::trace::health::Access;
use anyhow::{Context, Result, anyhow, ensure};
use crossbeam_channel::{Receiver, TryRecvError, bounded};
use std::fs;
use std::thread::{Builder, JoinHandle};

/// What must be known of the server.
#[derive(Debug, Clone, Copy)]
struct Site {
    postmaster: i32,
    layout: &'static Layout,
    slots: usize,
    mapped: bool,
}

impl Site {
    fn of(memory: &Attached) -> Self {
        Self { postmaster: memory.postmaster(), layout: memory.layout(), slots: memory.slots(), mapped: memory.access() == Access::Mapped }
    }
}

/// Programs that run and memory shared with them; nobody is followed yet.
#[derive(Debug)]
pub struct Prepared {
    pub(super) programs: Programs,
    pub(super) shared: Shared,
    pub(super) kind: Kind,
    pub(super) price_ns: u64,
    postmaster: i32,
    slots: usize,
}

impl Prepared {
    /// Loads and attaches the programs and tries the mechanism. An error says in one line why not.
    fn new(kind: Kind, rules: &Rules, site: Site) -> Result<Self> {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        ensure!(
            namespace.as_os_str().is_empty() || namespace.as_os_str() == FIRST_PID_NAMESPACE,
            "exact and blocking windows take the host's pid namespace: run this program outside of the container"
        );
        ensure!(site.mapped, "exact and blocking windows need the server's memory mapped (--access map)");
        let cpus = libbpf_rs::num_possible_cpus()?;
        let ring = rules.ring.unwrap_or_else(|| ring_records(cpus)).next_power_of_two().max(16);
        let pids = fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|t| t.trim().parse().ok()).unwrap_or(1 << 22);
        // Twice the slots: those who leave are followed to their end while others already have their slots. Index 0 and the highest are not for them.
        let tracks = (2 * site.slots + 64).min(usize::from(u16::MAX));
        let sizes = Sizes { pids, tracks, cpus, ring };
        let setup = Setup {
            kind,
            postmaster: site.postmaster,
            layout: site.layout,
            read_row: !rules.lightweight,
            read_query: !rules.skip_query_id,
            sizes,
            empty: rules.empty,
        };
        if kind == Kind::Exact {
            sys::perf::allow_files(2 * site.slots as u64 + 256);
        }
        let mut programs = Programs::load(&setup)?;
        let shared = programs.share(sizes)?;
        let price_ns = if kind == Kind::Exact && !rules.empty { price::of_a_write(&programs, &shared)? } else { price::of_a_sleep(kind) };
        programs.attach(&setup)?;
        Ok(Self { programs, shared, kind, price_ns, postmaster: site.postmaster, slots: site.slots })
    }

    /// Whether it is for this server as it is now.
    pub(super) fn fits(&self, memory: &Attached) -> bool {
        self.postmaster == memory.postmaster() && self.slots == memory.slots()
    }
}

/// A window on its way. Dropping it waits for its thread.
#[derive(Debug)]
pub struct Opening {
    ready: Receiver<Result<Prepared>>,
    thread: Option<JoinHandle<()>>,
}

impl Opening {
    /// Begins; what is left of the window before is taken away first.
    pub fn begin(kind: Kind, rules: &Rules, memory: &Attached, before: Option<Remains>) -> Self {
        let (site, rules) = (Site::of(memory), rules.clone());
        let (tell, ready) = bounded(1);
        let failed = tell.clone();
        let work = move || {
            drop(before);
            // Nobody waits any more: the program ends.
            let _ = tell.send(Prepared::new(kind, &rules, site));
        };
        let thread = match Builder::new().name("window".into()).spawn(work).context("cannot start the thread that opens windows") {
            Ok(thread) => Some(thread),
            Err(error) => {
                // There is room for one.
                let _ = failed.send(Err(error));
                None
            }
        };
        Self { ready, thread }
    }

    /// What came of it, once.
    pub fn poll(&self) -> Option<Result<Prepared>> {
        match self.ready.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(anyhow!("the thread that opens windows broke"))),
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a window that was closed leaves attached for a moment. Dropping it waits until all is gone.
#[derive(Debug)]
pub struct Remains(Option<JoinHandle<()>>);

impl Remains {
    /// Takes away, in the order of the members: watchpoints, programs, memory.
    pub(super) fn of(left: impl Send + 'static) -> Self {
        // Without a thread it is dropped at once, here.
        Self(Builder::new().name("window".into()).spawn(move || drop(left)).ok())
    }

    /// Whether all is gone.
    pub fn is_gone(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}
