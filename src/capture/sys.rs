//! The system calls capture makes, by way of rustix: clocks, sleeping, knowing whether a process lives. Any thread.

pub mod perf;

use crate::trace::clock::{Clock, Ts};
use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
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
    /// All of them behind one descriptor, so that a sleep has one to look at. `None` before Linux 5.3.
    queue: Option<OwnedFd>,
    _fds: Vec<OwnedFd>,
}

impl Watch {
    /// Watches these processes. Fails when one of them is gone already.
    pub fn on(pids: impl IntoIterator<Item = i32>) -> anyhow::Result<Self> {
        let queue = epoll::create(epoll::CreateFlags::CLOEXEC).context("cannot watch processes")?;
        let mut fds = Vec::new();
        for pid in pids {
            let handle = Pid::from_raw(pid).with_context(|| format!("{pid} is no process id"))?;
            let watched = match pidfd_open(handle, PidfdFlags::empty()) {
                Ok(fd) => fd,
                // The slower check of the mapping still notices.
                Err(Errno::NOSYS) => return Ok(Self::default()),
                Err(e) => return Err(e).with_context(|| format!("cannot watch process {pid}")),
            };
            let data = epoll::EventData::new_u64(pid as u64);
            epoll::add(&queue, &watched, data, epoll::EventFlags::IN).with_context(|| format!("cannot watch process {pid}"))?;
            fds.push(watched);
        }
        Ok(Self { queue: Some(queue), _fds: fds })
    }

    /// Sleeps until `until` on the trace clock, or until a watched process ends: which one. Looks without waiting when `until` is past. A signal
    /// may end it early.
    pub fn sleep_until(&self, until: Ts) -> Option<i32> {
        let Some(queue) = &self.queue else {
            sleep_until(until);
            return None;
        };
        let left = until.since(now());
        let wait = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
        // Not `epoll_wait`, which counts in milliseconds. An interrupted sleep only makes the caller look at the clock once more.
        if poll(&mut [PollFd::new(queue, PollFlags::IN)], Some(&wait)).ok()? == 0 {
            return None;
        }
        let mut ended = Vec::with_capacity(1);
        epoll::wait(queue, spare_capacity(&mut ended), Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
        ended.first().map(|event| event.data.u64() as i32)
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
        let began = now();
        assert_eq!(watch.sleep_until(began + 2_000_000), None);
        assert!(now().since(began) >= 2_000_000);
        assert_eq!(watch.sleep_until(Ts(0)), None);
        child.kill().unwrap();
        let began = now();
        assert_eq!(watch.sleep_until(began + 20_000_000_000), Some(child.id() as i32));
        assert!(now().since(began) < 10_000_000_000, "woken by its end");
        assert_eq!(watch.sleep_until(Ts(0)), Some(child.id() as i32));
        child.wait().unwrap();
        assert!(Watch::on([child.id() as i32]).is_err());
    }
}
