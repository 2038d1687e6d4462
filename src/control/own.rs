//! What this process itself uses, as the kernel counts it.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of all threads so far, nanoseconds.
pub fn cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Resident memory, bytes; `None` where the kernel does not say.
pub fn rss_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
