//! Time. A [`Ts`] is nanoseconds of `CLOCK_MONOTONIC` of the machine that recorded; [`Clock`] ties it to the wall clock.

use serde::{Deserialize, Serialize};
use std::ops::{Add, Sub};

/// One second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
/// One millisecond in nanoseconds.
pub const MILLI: u64 = 1_000_000;

/// An instant on the trace clock, in nanoseconds (`CLOCK_MONOTONIC` of the recording machine).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Ts(pub u64);

impl Ts {
    /// Nanoseconds from `earlier` to `self`; 0 when `earlier` is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Ts {
    type Output = Self;
    fn add(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl Sub<u64> for Ts {
    type Output = Self;
    fn sub(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

/// A half-open stretch of time `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Span {
    /// First instant inside.
    pub start: Ts,
    /// First instant behind.
    pub end: Ts,
}

impl Span {
    /// `[start, end)`; an end before the start gives an empty span at `start`.
    pub fn new(start: Ts, end: Ts) -> Self {
        Self { start, end: end.max(start) }
    }
    /// Length in nanoseconds.
    pub fn len(self) -> u64 {
        self.end.since(self.start)
    }
    /// Whether nothing is inside.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }
    #[must_use]
    /// The part of `self` inside `other`; empty when they do not meet.
    pub fn clip(self, other: Self) -> Self {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }
    /// Whether the two share at least one nanosecond.
    pub fn meets(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
    /// Whether something in `self` can belong to a window `(start, end]`: a block of one weightless tick has an empty span, but its tick counts.
    pub fn touches(self, window: Self) -> bool {
        self.start <= window.end && self.end > window.start
    }
}

/// What part of time a question looks at: the whole difference between live, paused and replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// The last `n` nanoseconds up to the newest tick.
    Follow(u64),
    /// A fixed stretch.
    Fixed(Span),
}

impl Window {
    /// The span meant, given what the trace holds. Without data, an empty span at 0 or the fixed span itself.
    pub fn resolve(self, extent: Option<Span>) -> Span {
        match self {
            Self::Fixed(span) => span,
            Self::Follow(length) => extent.map_or(Span::default(), |e| Span::new(e.end - length, e.end)),
        }
    }
}

/// One moment read on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Clock {
    /// The moment on the trace clock.
    pub mono: Ts,
    /// The same moment as nanoseconds since 1970-01-01 UTC.
    pub wall_ns: i64,
}

impl Clock {
    /// Wall-clock nanoseconds since 1970-01-01 UTC of a trace instant.
    pub fn wall(self, ts: Ts) -> i64 {
        self.wall_ns.saturating_add((i128::from(ts.0) - i128::from(self.mono.0)) as i64)
    }
    /// The trace instant of wall-clock nanoseconds since 1970-01-01 UTC; 0 for moments before the trace clock began.
    pub fn ts(self, wall_ns: i64) -> Ts {
        let t = i128::from(self.mono.0) + i128::from(wall_ns) - i128::from(self.wall_ns);
        Ts(u64::try_from(t.max(0)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_and_meet_are_half_open() {
        let s = |a, b| Span::new(Ts(a), Ts(b));
        assert_eq!(s(0, 10).clip(s(5, 20)), s(5, 10));
        assert!(s(0, 10).clip(s(10, 20)).is_empty());
        assert!(!s(0, 10).meets(s(10, 20)));
        assert!(s(0, 10).meets(s(9, 20)));
        assert!(Span::new(Ts(7), Ts(3)).is_empty());
    }

    #[test]
    fn clock_goes_both_ways() {
        let c = Clock { mono: Ts(1_000), wall_ns: 5_000 };
        assert_eq!(c.wall(Ts(1_500)), 5_500);
        assert_eq!(c.wall(Ts(500)), 4_500);
        assert_eq!(c.ts(5_500), Ts(1_500));
        assert_eq!(c.ts(0), Ts(0));
    }

    #[test]
    fn follow_ends_at_the_newest_tick() {
        let extent = Some(Span::new(Ts(100), Ts(1_000)));
        assert_eq!(Window::Follow(300).resolve(extent), Span::new(Ts(700), Ts(1_000)));
        assert_eq!(Window::Follow(300).resolve(None), Span::default());
    }
}
