//! A window cut into equal buckets: the points of a chart or of a sparkline. Boundaries are whole nanoseconds, and the last one is the
//! window's end, so the parts of a span over the buckets add up to the span exactly. Pure.

use crate::trace::clock::{Span, Ts};

/// Buckets over a window.
#[derive(Debug, Clone)]
pub struct Grid {
    window: Span,
    /// Start of each bucket, and the window's end.
    edges: Vec<Ts>,
    /// Buckets per nanosecond.
    density: f64,
}

impl Grid {
    /// Cuts `window` into `n` buckets, at least one.
    pub fn new(window: Span, n: u16) -> Self {
        let n = u64::from(n.max(1));
        let edge = |i| window.start + (u128::from(window.len()) * u128::from(i) / u128::from(n)) as u64;
        Self { window, edges: (0..=n).map(edge).collect(), density: n as f64 / window.len().max(1) as f64 }
    }

    /// Number of buckets.
    pub fn len(&self) -> usize {
        self.edges.len() - 1
    }

    /// Length of bucket `i`, nanoseconds.
    pub fn length(&self, i: usize) -> u64 {
        self.edge(i + 1).since(self.edge(i))
    }

    /// Start of bucket `i`; behind the last, the window's end.
    fn edge(&self, i: usize) -> Ts {
        self.edges.get(i).copied().unwrap_or(self.window.end)
    }

    /// The bucket that holds an instant inside the window: the last one that starts at or before it.
    fn bucket(&self, at: Ts) -> usize {
        let guess = ((at.since(self.window.start) as f64 * self.density) as usize).min(self.len() - 1);
        let mut i = guess;
        while i > 0 && self.edge(i) > at {
            i -= 1;
        }
        while i + 1 < self.len() && self.edge(i + 1) <= at {
            i += 1;
        }
        i
    }

    /// The bucket that something which ends at `at` belongs to; what ends where a bucket ends is in that one.
    pub fn bucket_ending(&self, at: Ts) -> usize {
        self.bucket(Ts(at.0.saturating_sub(1)).max(self.window.start))
    }

    /// Tells how many nanoseconds of `span` lie in which bucket.
    pub fn split(&self, span: Span, mut part: impl FnMut(usize, u64)) {
        let span = span.clip(self.window);
        if span.is_empty() {
            return;
        }
        let mut i = self.bucket(span.start);
        let mut from = span.start;
        while from < span.end {
            let to = self.edge(i + 1).min(span.end);
            if to > from {
                part(i, to.since(from));
            }
            from = from.max(to);
            i += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_add_up_and_stay_in_their_buckets(start in 0u64..1 << 50, len in 0u64..1 << 45, n in 1u16..500, a in 0u64..1 << 46, b in 0u64..1 << 46) {
            let window = Span::new(Ts(start), Ts(start + len));
            let grid = Grid::new(window, n);
            let span = Span::new(Ts(start + a.min(b)), Ts(start + a.max(b)));
            let mut total = 0;
            let mut last = None;
            grid.split(span, |i, ns| {
                assert!(i < grid.len() && Some(i) > last);
                assert!(ns <= grid.length(i));
                last = Some(i);
                total += ns;
            });
            prop_assert_eq!(total, span.clip(window).len());
            prop_assert_eq!(grid.edge(usize::from(n)), window.end);
        }
    }

    #[test]
    fn even_buckets_are_even() {
        let grid = Grid::new(Span::new(Ts(100), Ts(200)), 10);
        let mut parts = Vec::new();
        grid.split(Span::new(Ts(95), Ts(125)), |i, ns| parts.push((i, ns)));
        assert_eq!(parts, [(0, 10), (1, 10), (2, 5)]);
    }
}
