//! The system calls capture makes, by way of rustix: clocks, sleeping, knowing whether a process lives. Any thread.

use crate::trace::clock::{Clock, Ts};
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, clock_gettime};

fn nanos(t: Timespec) -> u64 {
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// Now, on the trace clock.
pub fn now() -> Ts {
    Ts(nanos(clock_gettime(ClockId::Monotonic)))
}

/// Now, on both clocks.
pub fn clock() -> Clock {
    Clock { mono: now(), wall_ns: nanos(clock_gettime(ClockId::Realtime)) as i64 }
}

/// CPU time the calling thread has used, nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// Sleeps until `until` on the trace clock; returns at once when it is past. A signal may end it early.
pub fn sleep_until(until: Ts) {
    let t = Timespec { tv_sec: (until.0 / 1_000_000_000) as i64, tv_nsec: (until.0 % 1_000_000_000) as i64 };
    // An interrupted sleep only makes the caller look at the clock once more.
    let _ = clock_nanosleep_absolute(rustix::thread::ClockId::Monotonic, &t);
}

/// Asks the kernel to wake the calling thread on time rather than up to 50 µs late, as it may for power saving.
pub fn wake_precisely() {
    // Best effort: without it ticks are a little late, which their weights account for.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
}

/// Resident memory of this process in bytes; 0 when it cannot be read.
pub fn resident_bytes() -> u64 {
    let Ok(text) = std::fs::read_to_string("/proc/self/statm") else { return 0 };
    let pages = text.split_whitespace().nth(1).and_then(|p| p.parse::<u64>().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Handles on processes whose end is to be noticed at once, without a signal to us and without a race on reused pids.
#[derive(Debug, Default)]
pub struct Watch {
    fds: Vec<(i32, OwnedFd)>,
}

impl Watch {
    /// Watches these processes. Fails when one of them is gone already.
    pub fn on(pids: impl IntoIterator<Item = i32>) -> anyhow::Result<Self> {
        let mut fds = Vec::new();
        for pid in pids {
            let handle = Pid::from_raw(pid).with_context(|| format!("{pid} is no process id"))?;
            match pidfd_open(handle, PidfdFlags::empty()) {
                Ok(fd) => fds.push((pid, fd)),
                // Kernels before 5.3: the slower check of the mapping still notices.
                Err(Errno::NOSYS) => return Ok(Self::default()),
                Err(e) => return Err(e).with_context(|| format!("cannot watch process {pid}")),
            }
        }
        Ok(Self { fds })
    }

    /// A watched process that has ended. One system call, no waiting.
    pub fn ended(&self) -> Option<i32> {
        if self.fds.is_empty() {
            return None;
        }
        let mut polled: Vec<PollFd<'_>> = self.fds.iter().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)).collect();
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
        self.fds.iter().zip(&polled).find(|(_, p)| !p.revents().is_empty()).map(|((pid, _), _)| *pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_run_and_sleep_reaches_its_instant() {
        let start = now();
        sleep_until(start + 2_000_000);
        assert!(now().since(start) >= 2_000_000);
        assert!(clock().wall_ns > 1_700_000_000_000_000_000);
        assert!(thread_cpu_ns() > 0);
        assert!(resident_bytes() > 100_000);
    }

    #[test]
    fn a_watch_notices_the_end_of_a_process() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let watch = Watch::on([child.id() as i32]).unwrap();
        assert_eq!(watch.ended(), None);
        child.kill().unwrap();
        let began = now();
        while watch.ended().is_none() && now().since(began) < 5_000_000_000 {
            sleep_until(now() + 1_000_000);
        }
        assert_eq!(watch.ended(), Some(child.id() as i32));
        child.wait().unwrap();
        assert!(Watch::on([child.id() as i32]).is_err());
    }
}
