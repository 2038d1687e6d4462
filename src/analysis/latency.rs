//! How long waits were: percentiles, the distribution, and its course over the window. Pure.

use super::answer::{Latency, LatencyBar, LatencyColumn, LatencyView};
use super::grid::Grid;
use super::matcher::Matcher;
use super::meaning::Meaning;
use super::tally::add;
use super::walk::{Ended, Piece, Walk};
use crate::trace::Trace;
use crate::trace::lengths::Lengths;
use crate::trace::wait::WaitClass;

/// The figures of lengths; `None` when there are none. Percentiles are of the nearest rank, within half a per cent.
pub fn figures(lengths: &Lengths) -> Option<Latency> {
    let count = u128::from(lengths.count());
    if count == 0 {
        return None;
    }
    let at = |percent: u128| lengths.rank((count * percent).div_ceil(100) as u64);
    let avg_ns = (lengths.sum() / count) as u64;
    Some(Latency { avg_ns, p50_ns: at(50), p95_ns: at(95), p99_ns: at(99), max_ns: lengths.max() })
}

/// Fewest bars: from under 1 µs to 16 ms and over.
const BARS: usize = 16;

/// Which bar a length belongs to: 0 below 1 µs, then one for each power of two.
fn bar(ns: u64) -> usize {
    (u64::BITS - (ns / 1_000).leading_zeros()) as usize
}

/// Which bar an octave of [`crate::trace::lengths`] belongs to: it lies in one of them.
fn bar_of(octave: usize) -> usize {
    octave.saturating_sub(3)
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
    let counts = |p: &Piece<'_>| match p.meaning {
        Meaning::Load => chosen || p.event.class() != WaitClass::Cpu,
        Meaning::Idle => chosen && p.event.class() != WaitClass::Activity,
        Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => false,
    };
    let sessions = walk.pieces(true, |p| {
        match p.meaning {
            Meaning::Load => load_ns += p.ns,
            Meaning::Idle => idle_ns += p.ns,
            Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => {}
        }
        if !counts(p) {
            return;
        }
        // What a digest counted ended about the middle of its stretch, which is far shorter than a column.
        let at = if let Ended::Many(..) = p.ended { p.span.start + p.span.len().div_ceil(2) } else { p.span.end };
        let mut count = |place: usize, waits: u64, time_ns: u64| {
            bars.resize(bars.len().max(place + 1).max(BARS), LatencyBar::default());
            if let Some(bar) = bars.get_mut(place) {
                bar.waits += waits;
                bar.time_ns += time_ns;
            }
            if let Some(column) = cells.get_mut(grid.bucket_ending(at)) {
                column.resize(column.len().max(place + 1), 0);
                if let Some(cell) = column.get_mut(place) {
                    *cell += waits as u32;
                }
            }
        };
        match p.ended {
            Ended::Nothing => {}
            Ended::One(ns) => {
                lengths.add(ns);
                count(bar(ns), 1, ns);
            }
            Ended::Many(_, many) => {
                lengths.take(many);
                many.octaves().for_each(|(octave, waits, ns)| count(bar_of(octave), waits, ns));
            }
        }
    });
    for (i, bar) in bars.iter_mut().enumerate() {
        bar.from_ns = if i == 0 { 0 } else { 1_000 << (i - 1) };
        bar.to_ns = 1_000 << i;
    }
    let mut seen = vec![0u64; n];
    walk.stretches().iter().for_each(|s| grid.split(s.span, |i, ns| add(&mut seen, i, ns)));
    let columns = cells.into_iter().zip(seen).enumerate().map(|(i, (mut waits, seen))| {
        if !waits.is_empty() {
            waits.resize(bars.len(), 0);
        }
        LatencyColumn { observed: seen as f64 / grid.length(i).max(1) as f64, waits }
    });
    let view = LatencyView {
        waits: lengths.count(),
        time_ns: u64::try_from(lengths.sum()).unwrap_or(u64::MAX),
        latency: figures(&lengths),
        column_ns: walk.window.len() as f64 / n as f64,
        columns: columns.collect(),
        bars,
    };
    (view, load_ns, idle_ns, sessions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::lengths::bucket;
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
            let got = figures(&lengths).unwrap();
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
        let got = figures(&lengths).unwrap();
        assert_eq!((got.p50_ns, got.p99_ns, got.max_ns, got.avg_ns), (10_000_000, 10_000_000, 10_000_000, 10_000_000));
        lengths.add(u64::MAX);
        assert_eq!(figures(&lengths).unwrap().max_ns, u64::MAX);
    }

    #[test]
    fn an_octave_lies_in_one_bar() {
        for ns in (0..5_000u64).chain((13..40).map(|i| 1 << i)).chain((0..20).flat_map(|i| [(1_000 << i) - 1, 1_000 << i])) {
            assert_eq!(bar_of(bucket(ns).0), bar(ns), "{ns}");
        }
        assert_eq!([0, 999, 1_000, 1_999, 2_000, 16_384_000].map(bar), [0, 0, 1, 1, 2, 15]);
    }
}
