//! What a trap costs here, and whether there is one at all: measured on a word of our own that we write in a loop.

use super::Kind;
use super::program::{Programs, wire};
use super::shared::Shared;
use crate::capture::sys::{self, perf::Watchpoint};
use crate::trace::clock::Ts;
use anyhow::{Context, Result, ensure};
use std::sync::atomic::{AtomicU32, Ordering};

/// Writes per measurement.
const WRITES: u32 = 200;
/// Measurements; the median counts, since anything may come in between.
const ROUNDS: usize = 5;
/// The track used for it: the highest, which no backend gets.
pub const OWN_TRACK: fn(usize) -> u16 = |tracks| (tracks - 1) as u16;

/// Watches a word of our own. `Err`: no exact window here. Else nanoseconds per write.
pub fn of_a_write(programs: &Programs, shared: &Shared) -> Result<u64> {
    let word = AtomicU32::new(0);
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    let watch = Watchpoint::new(0, word.as_ptr() as u64).context("this machine gives no hardware watchpoint")?;
    programs.with_write(|program| watch.run(program))?.context("a BPF program cannot be run by a hardware watchpoint here")?;
    let own = OWN_TRACK(shared.sizes().tracks);
    let now = sys::now().0;
    shared.put_track(own, wire::track { word: word.as_ptr() as u64, pid: tid as u32, since0: now, at: now, ..wire::track::default() });
    let before = shared.tally().writes;
    shared.follow(tid as u32, own);
    let plain = median((0..ROUNDS).map(|_| time(&word)));
    watch.enable().context("a hardware watchpoint cannot be enabled here")?;
    let trapped = median((0..ROUNDS).map(|_| time(&word)));
    drop(watch);
    shared.follow(tid as u32, 0);
    let fired = shared.tally().writes - before;
    let expected = u64::from(WRITES) * ROUNDS as u64;
    ensure!(fired == expected, "hardware watchpoints do not work on this machine: of {expected} writes {fired} were noticed");
    Ok(trapped.saturating_sub(plain) / u64::from(WRITES))
}

fn time(word: &AtomicU32) -> u64 {
    let start: Ts = sys::now();
    for i in 0..WRITES {
        word.store(i, Ordering::SeqCst);
    }
    sys::now().since(start)
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// What is taken for a switch until it is measured, nanoseconds: the programs at `sched_switch` and `sched_waking` of one sleep.
pub fn of_a_sleep(kind: Kind) -> u64 {
    if kind == Kind::Blocking { 600 } else { 0 }
}
