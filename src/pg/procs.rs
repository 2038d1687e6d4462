//! The `PGPROC` array: which processes take part, and what each waits for.
//!
//! A slot counts only while its owner is the same before and after its event was read; a slot that changed hands under way shows nobody.

use super::layout::Layout;
use super::memory::{Area, Segment};
use super::shmem::Index;
use crate::trace::wait::WaitEvent;
use anyhow::{Context, Result, ensure};
use std::sync::atomic::{Ordering, fence};

/// A live process of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proc {
    /// Process id as the server knows it.
    pub pid: i32,
    /// What it reports to wait for. Not checked: see [`WaitEvent::is_plausible`].
    pub event: WaitEvent,
}

/// The array of `PGPROC`s, without those of prepared transactions.
#[derive(Debug)]
pub struct Procs {
    layout: &'static Layout,
    count: usize,
    rows: Area,
    /// Copy mode: a second copy, read after the first.
    after: Option<Area>,
}

impl Procs {
    /// Finds the array.
    pub fn open(segment: &Segment, index: &Index, layout: &'static Layout) -> Result<Self> {
        let header = index.require("Proc Header")?;
        ensure!(header.len >= layout.proc_hdr.size, "the area 'Proc Header' is smaller than PROC_HDR");
        let base = segment.u64(header.addr + layout.proc_hdr.all_procs as u64).context("PROC_HDR.allProcs cannot be read")?;
        let count =
            segment.u32(header.addr + layout.proc_hdr.all_proc_count as u64).context("PROC_HDR.allProcCount cannot be read")? as usize;
        let least = layout.proc_slots_beyond_backends;
        ensure!(count > least && count < 1 << 24, "PROC_HDR.allProcCount is {count}");
        let len = count.checked_mul(layout.proc.size).context("PROC_HDR.allProcCount")?;
        ensure!(base % 8 == 0 && segment.offset(base, len).is_some(), "PROC_HDR.allProcs points out of the shared memory");
        if let Some(area) = index.get("PGPROC structures") {
            ensure!(
                base >= area.addr && base + len as u64 <= area.addr + area.len as u64,
                "PROC_HDR.allProcs points out of the area 'PGPROC structures'"
            );
        }
        let rows = segment.area(base, len)?;
        let after = if rows.is_mapped() { None } else { Some(segment.area(base, len)?) };
        Ok(Self { layout, count, rows, after })
    }

    /// Slots in the array.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Copy mode: reads the array again, twice.
    pub fn refresh(&mut self) -> std::io::Result<()> {
        self.rows.refresh()?;
        self.after.as_mut().map_or(Ok(()), Area::refresh)
    }

    /// Who owns a slot, if anybody.
    #[inline]
    fn owner(&self, area: &Area, at: usize) -> Option<i32> {
        let proc = &self.layout.proc;
        let pid = area.i32(at + proc.pid)?;
        (pid > 0 && area.i32(at + proc.proc_latch_owner_pid)? == pid).then_some(pid)
    }

    /// Has the processor fetch what [`Self::proc`] will read of a slot that is in use, or only what tells that it is not.
    #[inline]
    pub fn prefetch(&self, slot: usize, used: bool) {
        let (at, proc) = (slot * self.layout.proc.size, &self.layout.proc);
        self.rows.prefetch(at + proc.pid);
        if used {
            self.rows.prefetch(at + proc.proc_latch_owner_pid);
            self.rows.prefetch(at + proc.wait_event_info);
        }
    }

    /// The process in a slot, if the slot is in use.
    #[inline]
    pub fn proc(&self, slot: usize) -> Option<Proc> {
        let at = slot.checked_mul(self.layout.proc.size)?;
        let pid = self.owner(&self.rows, at)?;
        fence(Ordering::Acquire);
        let event = WaitEvent(self.rows.u32(at + self.layout.proc.wait_event_info)?);
        fence(Ordering::Acquire);
        let after = self.owner(self.after.as_ref().unwrap_or(&self.rows), at)?;
        (pid == after).then_some(Proc { pid, event })
    }

    /// Address of a slot's `wait_event_info` in the server.
    pub fn word(&self, slot: usize) -> u64 {
        self.rows.addr() + (slot * self.layout.proc.size + self.layout.proc.wait_event_info) as u64
    }

    /// Whether a process owns a slot right now, whatever the copies say.
    pub fn owns_now(&self, segment: &Segment, slot: usize, pid: i32) -> bool {
        let proc = &self.layout.proc;
        let at = self.rows.addr() + (slot * proc.size) as u64;
        [proc.pid, proc.proc_latch_owner_pid].iter().all(|m| segment.u32(at + *m as u64) == Some(pid.cast_unsigned()))
    }

    /// A member of a slot's `PGPROC`.
    pub fn u32(&self, slot: usize, member: usize) -> Option<u32> {
        self.rows.u32(slot.checked_mul(self.layout.proc.size)?.checked_add(member)?)
    }

    /// Pid of the leader of the slot's lock group, unless it leads itself or is in none.
    pub fn leader(&self, slot: usize) -> Option<i32> {
        let size = self.layout.proc.size;
        let leader = self.rows.u64(slot.checked_mul(size)?.checked_add(self.layout.proc.lock_group_leader)?)?;
        let at = usize::try_from(leader.checked_sub(self.rows.addr())?).ok()?;
        if at % size != 0 || at / size == slot {
            return None;
        }
        self.owner(&self.rows, at)
    }
}
