//! How long waits were: percentiles, the distribution, and its course over the window. Pure.

use super::answer::{Latency, LatencyBar, LatencyColumn, LatencyView};
use super::grid::Grid;
use super::matcher::Matcher;
use super::meaning::Meaning;
use super::tally::add;
use super::walk::{Piece, Walk};
use crate::trace::Trace;
use crate::trace::wait::WaitClass;

/// Buckets of one power of two: 128, so that a bucket is less than 1 % wide.
const FINE: usize = 128;

/// Lengths, counted in log-linear buckets.
#[derive(Debug, Clone, Default)]
pub struct Lengths {
    octaves: Vec<Option<Box<[u32; FINE]>>>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// Which bucket of which power of two a length belongs to. Up to 127 ns each length has its own.
fn bucket(ns: u64) -> (usize, usize) {
    let shift = (u64::BITS - (ns | (FINE as u64 - 1)).leading_zeros()) - FINE.trailing_zeros();
    if shift == 0 { (0, ns as usize) } else { (shift as usize, (ns >> (shift - 1)) as usize & (FINE - 1)) }
}

/// The middle of a bucket.
fn middle(octave: usize, fine: usize) -> u64 {
    if octave == 0 {
        return fine as u64;
    }
    let (low, width) = (((FINE + fine) as u64) << (octave - 1), 1u64 << (octave - 1));
    low + width / 2
}

impl Lengths {
    /// Counts one.
    pub fn add(&mut self, ns: u64) {
        let (octave, fine) = bucket(ns);
        if self.octaves.len() <= octave {
            self.octaves.resize(octave + 1, None);
        }
        if let Some(place) = self.octaves.get_mut(octave) {
            let cells = place.get_or_insert_with(|| Box::new([0; FINE]));
            if let Some(cell) = cells.get_mut(fine) {
                *cell += 1;
            }
        }
        self.min = if self.count == 0 { ns } else { self.min.min(ns) };
        self.max = self.max.max(ns);
        self.count += 1;
        self.sum += u128::from(ns);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum_ns(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    /// The figures; `None` when nothing was counted. Percentiles are of the nearest rank, within half a per cent.
    pub fn latency(&self) -> Option<Latency> {
        if self.count == 0 {
            return None;
        }
        let at = |percent: u64| self.rank((u128::from(self.count) * u128::from(percent)).div_ceil(100) as u64);
        Some(Latency {
            avg_ns: (self.sum / u128::from(self.count)) as u64,
            p50_ns: at(50),
            p95_ns: at(95),
            p99_ns: at(99),
            max_ns: self.max,
        })
    }

    /// The length of the `rank`-th shortest, counted from 1.
    fn rank(&self, rank: u64) -> u64 {
        if rank >= self.count {
            return self.max;
        }
        let mut seen = 0;
        for (octave, cells) in self.octaves.iter().enumerate() {
            for (fine, n) in cells.iter().flat_map(|c| c.iter()).enumerate() {
                seen += u64::from(*n);
                if *n > 0 && seen >= rank {
                    return middle(octave, fine).clamp(self.min, self.max);
                }
            }
        }
        self.max
    }
}

/// Fewest bars: from under 1 µs to 16 ms and over.
const BARS: usize = 16;

/// Which bar a length belongs to: 0 below 1 µs, then one for each power of two.
fn bar(ns: u64) -> usize {
    (u64::BITS - (ns / 1_000).leading_zeros()) as usize
}

/// The waits of a walk that ended in its window. Without a choice of events in the filter: those that are load, CPU left out.
pub fn view<T: Trace>(walk: &Walk<'_, T>, matcher: &Matcher, columns: u16) -> (LatencyView, u64, u64, u32) {
    let grid = Grid::new(walk.window, columns);
    let n = grid.len();
    let chosen = matcher.chooses_events();
    let mut lengths = Lengths::default();
    let mut bars: Vec<LatencyBar> = Vec::new();
    let mut cells: Vec<Vec<u32>> = vec![Vec::new(); n];
    let (mut load_ns, mut idle_ns) = (0, 0);
    let counts = |p: &Piece| match p.meaning {
        Meaning::Load => chosen || p.event.class() != WaitClass::Cpu,
        Meaning::Idle => chosen && p.event.class() != WaitClass::Activity,
        Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => false,
    };
    let sessions = walk.pieces(|p| {
        match p.meaning {
            Meaning::Load => load_ns += p.ns,
            Meaning::Idle => idle_ns += p.ns,
            Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => {}
        }
        if !p.ended || !counts(p) {
            return;
        }
        let ns = p.record.length();
        lengths.add(ns);
        let place = bar(ns);
        bars.resize(bars.len().max(place + 1).max(BARS), LatencyBar::default());
        if let Some(bar) = bars.get_mut(place) {
            bar.waits += 1;
            bar.time_ns += ns;
        }
        if let Some(column) = cells.get_mut(grid.bucket_ending(p.record.span.end)) {
            column.resize(column.len().max(place + 1), 0);
            if let Some(cell) = column.get_mut(place) {
                *cell += 1;
            }
        }
    });
    for (i, bar) in bars.iter_mut().enumerate() {
        bar.from_ns = if i == 0 { 0 } else { 1_000 << (i - 1) };
        bar.to_ns = 1_000 << i;
    }
    let mut seen = vec![0u64; n];
    walk.precise().stretches().iter().for_each(|s| grid.split(s.span, |i, ns| add(&mut seen, i, ns)));
    let columns = cells.into_iter().zip(seen).enumerate().map(|(i, (mut waits, seen))| {
        if !waits.is_empty() {
            waits.resize(bars.len(), 0);
        }
        LatencyColumn { observed: seen as f64 / grid.length(i).max(1) as f64, waits }
    });
    let view = LatencyView {
        waits: lengths.count(),
        time_ns: lengths.sum_ns(),
        latency: lengths.latency(),
        column_ns: walk.window.len() as f64 / n as f64,
        columns: columns.collect(),
        bars,
    };
    (view, load_ns, idle_ns, sessions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_the_nearest_ranks_within_one_per_cent(values in prop::collection::vec(prop_oneof![0u64..200, 0u64..1 << 20, 0u64..1 << 45], 1..300)) {
            let mut lengths = Lengths::default();
            for v in &values {
                lengths.add(*v);
            }
            let mut sorted = values;
            sorted.sort_unstable();
            let truth = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100) - 1] as f64;
            let got = lengths.latency().unwrap();
            for (percent, value) in [(50, got.p50_ns), (95, got.p95_ns), (99, got.p99_ns)] {
                let truth = truth(percent);
                prop_assert!((value as f64 - truth).abs() <= truth * 0.01, "p{percent}: {value} for {truth}");
            }
            prop_assert_eq!(got.max_ns, *sorted.last().unwrap());
            prop_assert_eq!(got.avg_ns, sorted.iter().sum::<u64>() / sorted.len() as u64);
        }
    }

    #[test]
    fn a_single_long_wait_is_what_it_is() {
        let mut lengths = Lengths::default();
        lengths.add(10_000_000);
        let got = lengths.latency().unwrap();
        assert_eq!((got.p50_ns, got.p99_ns, got.max_ns, got.avg_ns), (10_000_000, 10_000_000, 10_000_000, 10_000_000));
        lengths.add(u64::MAX);
        assert_eq!(lengths.latency().unwrap().max_ns, u64::MAX);
    }

    #[test]
    fn buckets_adjoin() {
        let mut last = (0, 0);
        for ns in (0..5_000u64).chain((13..40).map(|i| 1 << i)) {
            let (octave, fine) = bucket(ns);
            assert!((octave, fine) >= last, "{ns}");
            last = (octave, fine);
            let middle = middle(octave, fine);
            assert!(middle.abs_diff(ns) as f64 <= ns as f64 / 128.0, "{ns}: {middle}");
        }
        assert_eq!([0, 999, 1_000, 1_999, 2_000, 16_384_000].map(bar), [0, 0, 1, 1, 2, 15]);
    }
}
