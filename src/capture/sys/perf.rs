//! Hardware watchpoints (`perf_event_open`), the kernel's account of BPF programs, and the limit of open files. A watchpoint is gone when its value is dropped, or this process dies.
#![allow(unsafe_code)]

use perf_event_open_sys::bindings::{HW_BREAKPOINT_LEN_4, HW_BREAKPOINT_W, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_BREAKPOINT, perf_event_attr};
use perf_event_open_sys::ioctls;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// A watch on the writes of one thread to four bytes of its memory.
#[derive(Debug)]
pub struct Watchpoint(OwnedFd);

impl Watchpoint {
    /// Takes a debug register of thread `tid` (0: the calling thread). Does nothing until enabled. `ENOSPC`: all four are in use.
    pub fn new(tid: i32, addr: u64) -> io::Result<Self> {
        let mut attr = perf_event_attr { type_: PERF_TYPE_BREAKPOINT, size: size_of::<perf_event_attr>() as u32, ..Default::default() };
        attr.bp_type = HW_BREAKPOINT_W;
        attr.__bindgen_anon_1.sample_period = 1;
        attr.__bindgen_anon_3.bp_addr = addr;
        attr.__bindgen_anon_4.bp_len = u64::from(HW_BREAKPOINT_LEN_4);
        attr.set_disabled(1);
        attr.set_exclude_kernel(1);
        attr.set_exclude_hv(1);
        // SAFETY: `attr` is a whole structure that says its own size and lives through the call; a new descriptor or -1 comes back.
        let fd = unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, tid, -1, -1, u64::from(PERF_FLAG_FD_CLOEXEC)) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Runs a BPF program at every write.
    pub fn run(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: both descriptors are open while they are borrowed; the argument is a plain number.
        check(unsafe { ioctls::SET_BPF(self.0.as_raw_fd(), program.as_raw_fd() as u32) })
    }

    /// Begins to watch.
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open; the argument is a plain number.
        check(unsafe { ioctls::ENABLE(self.0.as_raw_fd(), 0) })
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the kernel measure how long BPF programs run, for as long as the value lives. `fdinfo` of a program tells.
#[derive(Debug)]
pub struct Measuring(#[allow(dead_code)] OwnedFd);

impl Measuring {
    /// Begins. Needs root.
    pub fn begin() -> io::Result<Self> {
        // SAFETY: takes a plain number; a new descriptor or a negative number comes back.
        let fd = unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

/// Raises the limit of open files so that `more` fit beside what is open, as far as that is allowed. The limit then.
pub fn allow_files(more: u64) -> u64 {
    let wanted = more + 512;
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|c| *c < wanted) else { return limit.current.unwrap_or(u64::MAX) };
    for maximum in [limit.maximum.map(|m| m.max(wanted)), limit.maximum] {
        let next = Rlimit { current: Some(maximum.map_or(wanted, |m| m.min(wanted))), maximum };
        if setrlimit(Resource::Nofile, next).is_ok() {
            return getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        }
    }
    current
}
