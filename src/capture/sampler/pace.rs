//! When to tick, and how much time a tick stands for. Pure; the clock is the caller's.
//!
//! The period is spread by ±10 % so that ticks do not fall in step with the workload. A tick weighs the time measured since the tick before,
//! whatever the period was meant to be, so late ticks do not lower the load. Too long a pause is a gap: nobody knows what happened in it.

use crate::trace::clock::{SECOND, Ts};

/// The schedule of ticks.
#[derive(Debug)]
pub struct Pace {
    period: u64,
    next: Ts,
    last: Option<Ts>,
    random: fastrand::Rng,
}

/// What a tick is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Nanoseconds before the tick it stands for.
    pub weight: u64,
    /// Later than half a period.
    pub late: bool,
    /// So late that the time before it counts as not observed.
    pub gap: bool,
}

impl Pace {
    /// `rate_hz` ticks per second; the first is due at once.
    pub fn new(rate_hz: u32) -> Self {
        Self { period: SECOND / u64::from(rate_hz.max(1)), next: Ts(0), last: None, random: fastrand::Rng::new() }
    }

    /// When the next tick is due.
    pub fn next(&self) -> Ts {
        self.next
    }

    /// Longest pause a tick still stands for: ten periods, at least a second.
    pub fn longest(&self) -> u64 {
        (10 * self.period).max(SECOND)
    }

    /// A tick is taken at `now`.
    pub fn ticked(&mut self, now: Ts) -> Step {
        let late = self.last.is_some() && now.since(self.next) > self.period / 2;
        let elapsed = self.last.map(|last| now.since(last));
        let gap = elapsed.is_some_and(|e| e > self.longest());
        let weight = elapsed.filter(|_| !gap).unwrap_or(0);
        self.last = Some(now);
        let spread = self.period / 10;
        let step = self.period - spread + self.random.u64(0..=2 * spread);
        // From the schedule, so that small delays do not add up; from now, when it cannot be kept.
        let kept = self.next + step;
        self.next = if kept > now { kept } else { now + step };
        Step { weight, late, gap }
    }

    /// Ticks were not possible for a while: the next one stands for no time, and comes at once.
    pub fn interrupted(&mut self) {
        self.last = None;
        self.next = Ts(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(rate: u32, delays: impl Iterator<Item = u64>) -> (u64, u64, Vec<u64>) {
        let mut pace = Pace::new(rate);
        let mut now = Ts(5 * SECOND);
        let (mut total, mut gaps, mut steps) = (0, 0, Vec::new());
        pace.ticked(now);
        let first = now;
        for delay in delays {
            let before = now;
            now = pace.next().max(now) + delay;
            steps.push(now.since(before));
            let step = pace.ticked(now);
            total += step.weight;
            gaps += u64::from(step.gap);
        }
        (total, now.since(first) - total, steps.into_iter().chain([gaps]).collect())
    }

    #[test]
    fn weights_add_up_to_the_time_that_passed_however_late_ticks_are() {
        let mut random = fastrand::Rng::with_seed(7);
        let (total, missing, _) = play(100, (0..2_000).map(|_| random.u64(0..40_000_000)));
        assert_eq!(missing, 0);
        assert!(total > 0);
    }

    #[test]
    fn the_rate_is_kept_and_the_phase_wanders() {
        let (_, _, steps) = play(100, (0..10_000).map(|_| 100_000));
        let steps = &steps[..steps.len() - 1];
        let mean = steps.iter().sum::<u64>() as f64 / steps.len() as f64;
        assert!((mean - 10e6).abs() < 0.1e6, "{mean}");
        assert!(steps.iter().any(|s| *s < 9_500_000) && steps.iter().any(|s| *s > 10_500_000));
    }

    #[test]
    fn a_long_pause_is_a_gap_not_load() {
        let mut pace = Pace::new(100);
        pace.ticked(Ts(SECOND));
        let step = pace.ticked(Ts(4 * SECOND));
        assert_eq!((step.weight, step.gap), (0, true));
        assert!(pace.next() > Ts(4 * SECOND));
        let late = pace.ticked(Ts(4 * SECOND + SECOND / 2));
        assert_eq!((late.weight, late.late, late.gap), (SECOND / 2, true, false));
    }

    #[test]
    fn after_an_interruption_the_next_tick_stands_for_nothing() {
        let mut pace = Pace::new(10);
        pace.ticked(Ts(SECOND));
        pace.interrupted();
        assert_eq!(pace.next(), Ts(0));
        assert_eq!(pace.ticked(Ts(SECOND + 1)).weight, 0);
    }
}
