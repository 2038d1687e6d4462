//! Puts the records of all CPUs in the order of their stamps.
//!
//! Invariant: a record is released only when no record with an earlier stamp can still come. A producer takes its place in the ring before it
//! reads the clock; so what was not yet in the rings when they were read is stamped later than the moment just before they were read. A place
//! that was taken and not filled may hold any stamp since the last pass: then nothing newer than that pass is released.

use super::program::wire::record;
use crate::trace::clock::Ts;

/// `CLOCK_MONOTONIC` as a BPF program reads it (without a lock) may differ from ours by a little while it is being set.
const SLACK: u64 = 20_000;

/// Records on their way.
#[derive(Debug, Default)]
pub struct Reorder {
    waiting: Vec<record>,
    horizon: Ts,
}

impl Reorder {
    /// Records were read at a pass that began at `began`. Those that are certain to be next, in order, go to `out`.
    pub fn pass(&mut self, records: &mut Vec<record>, began: Ts, unfinished: bool, out: &mut Vec<record>) {
        self.waiting.append(records);
        if unfinished {
            // What is in the way was taken after the pass before, so it is not older than the horizon.
        } else {
            self.horizon = self.horizon.max(began - SLACK);
        }
        self.waiting.sort_by_key(|r| r.stamp);
        let ready = self.waiting.partition_point(|r| r.stamp <= self.horizon.0);
        out.extend(self.waiting.drain(..ready));
    }

    /// Everything up to here has been released.
    pub fn horizon(&self) -> Ts {
        self.horizon
    }

    /// Nothing more will come after `end`: releases the rest.
    pub fn finish(&mut self, end: Ts, out: &mut Vec<record>) {
        self.horizon = self.horizon.max(end);
        self.waiting.sort_by_key(|r| r.stamp);
        out.append(&mut self.waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(stamps: &[u64]) -> Vec<record> {
        stamps.iter().map(|s| record { stamp: *s, ..record::default() }).collect()
    }

    fn pass(r: &mut Reorder, stamps: &[u64], began: u64, unfinished: bool) -> Vec<u64> {
        let mut out = Vec::new();
        r.pass(&mut records(stamps), Ts(began), unfinished, &mut out);
        out.iter().map(|r| r.stamp).collect()
    }

    #[test]
    fn only_what_is_certain_is_released_in_order() {
        let mut r = Reorder::default();
        let k = SLACK;
        assert_eq!(pass(&mut r, &[5 * k, 3 * k, 9 * k], 7 * k, false), [3 * k, 5 * k]);
        assert_eq!(pass(&mut r, &[8 * k], 10 * k, false), [8 * k, 9 * k]);
    }

    #[test]
    fn an_unfinished_place_holds_everything_back() {
        let mut r = Reorder::default();
        let k = SLACK;
        assert_eq!(pass(&mut r, &[k], 3 * k, false), [k]);
        assert_eq!(pass(&mut r, &[5 * k], 9 * k, true), [0_u64; 0]);
        assert_eq!(r.horizon(), Ts(2 * k));
        assert_eq!(pass(&mut r, &[4 * k], 11 * k, false), [4 * k, 5 * k]);
        let mut out = Vec::new();
        pass(&mut r, &[20 * k], 12 * k, false);
        r.finish(Ts(30 * k), &mut out);
        assert_eq!(out.len(), 1);
    }

    #[test]
    fn random_arrivals_come_out_sorted() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut r = Reorder::default();
        let (mut now, mut flying, mut released) = (SLACK * 2, Vec::new(), Vec::new());
        for _ in 0..2_000 {
            now += random.u64(1..SLACK);
            flying.push(now);
            if random.u8(..) < 60 {
                // All that was stamped before the pass began is there: in any order.
                random.shuffle(&mut flying);
                released.extend(pass(&mut r, &std::mem::take(&mut flying), now + 1, false));
            }
        }
        assert!(released.is_sorted() && released.len() > 1_500);
    }
}
