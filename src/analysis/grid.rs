//! A window cut into equal buckets: the points of a chart or of a sparkline. Boundaries are whole nanoseconds, and the last one is the
//! window's end, so the parts of a span over the buckets add up to the span exactly. Pure.

use crate::trace::clock::{Span, Ts};

/// `n` buckets over a window.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    window: Span,
    n: u64,
}

impl Grid {
    /// Cuts `window` into `n` buckets, at least one.
    pub fn new(window: Span, n: u16) -> Self {
        Self { window, n: u64::from(n.max(1)) }
    }

    /// Number of buckets.
    pub fn len(self) -> usize {
        self.n as usize
    }

    /// Length of bucket `i`, nanoseconds.
    pub fn length(self, i: u64) -> u64 {
        self.edge(i + 1).since(self.edge(i))
    }

    /// Start of bucket `i`; for `i` = number of buckets, the window's end.
    fn edge(self, i: u64) -> Ts {
        self.window.start + scale(self.window.len(), i, self.n)
    }

    /// The bucket that holds an instant inside the window: the last one that starts at or before it.
    fn bucket(self, at: Ts) -> u64 {
        let len = self.window.len().max(1);
        let offset = at.since(self.window.start);
        // edge(i) <= offset  <=>  floor(len * i / n) < offset + 1  <=>  i < (offset + 1) * n / len
        let numerator = u128::from(offset + 1) * u128::from(self.n) - 1;
        let i = u64::try_from(numerator).map_or_else(|_| (numerator / u128::from(len)) as u64, |x| x / len);
        i.min(self.n - 1)
    }

    /// Tells how many nanoseconds of `span` lie in which bucket.
    pub fn split(self, span: Span, mut part: impl FnMut(usize, u64)) {
        let span = span.clip(self.window);
        if span.is_empty() {
            return;
        }
        let mut i = self.bucket(span.start);
        let mut from = span.start;
        while from < span.end {
            let to = self.edge(i + 1).min(span.end);
            if to > from {
                part(i as usize, to.since(from));
            }
            from = from.max(to);
            i += 1;
        }
    }
}

/// `a * b / c`, exact.
fn scale(a: u64, b: u64, c: u64) -> u64 {
    a.checked_mul(b).map_or_else(|| (u128::from(a) * u128::from(b) / u128::from(c)) as u64, |x| x / c)
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
                assert!(ns <= grid.edge(i as u64 + 1).since(grid.edge(i as u64)));
                last = Some(i);
                total += ns;
            });
            prop_assert_eq!(total, span.clip(window).len());
            prop_assert_eq!(grid.edge(u64::from(n)), window.end);
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
