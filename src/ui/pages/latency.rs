//! The distribution of wait lengths, brought to as many rows as there are. Pure.

use crate::analysis::answer::{LatencyColumn, LatencyView};

/// Neighbouring bars that share a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rung {
    /// Shortest, nanoseconds.
    pub from_ns: u64,
    /// They are shorter than this.
    pub to_ns: u64,
    /// How many.
    pub waits: u64,
    /// Share of all waits.
    pub share: f64,
    /// Share of all waits that are shorter than `to_ns`.
    pub below: f64,
    /// Share of the time of all waits.
    pub time_share: f64,
    /// The first bar in it, and the one behind its last.
    pub bars: (usize, usize),
}

/// Rows that may be too many and are joined at one end, when hardly any wait is in them.
const FEW: usize = 4;
/// Share of all waits that is hardly any.
const HARDLY: f64 = 0.01;

/// The rows: bars from the first with waits to the last, as many joined per row as it takes.
pub fn rungs(view: &LatencyView, room: usize) -> Vec<Rung> {
    let waits: f64 = view.bars.iter().map(|b| b.waits as f64).sum();
    let time: f64 = view.bars.iter().map(|b| b.time_ns as f64).sum();
    let mut below = 0.0;
    let mut rung = |bars: (usize, usize)| {
        let inside = view.bars.get(bars.0..bars.1)?;
        let count = inside.iter().fold(0u64, |sum, b| sum.saturating_add(b.waits));
        let share = count as f64 / waits.max(1.0);
        below += share;
        Some(Rung {
            from_ns: inside.first()?.from_ns,
            to_ns: inside.last()?.to_ns,
            waits: count,
            share,
            below: below.min(1.0),
            time_share: inside.iter().map(|b| b.time_ns as f64).sum::<f64>() / time.max(1.0),
            bars,
        })
    };
    groups(view, room.max(1), waits).into_iter().filter_map(&mut rung).collect()
}

/// Which bars share a row: the first of them, and the one behind the last.
fn groups(view: &LatencyView, room: usize, waits: f64) -> Vec<(usize, usize)> {
    let filled = |i: &usize| view.bars.get(*i).is_some_and(|b| b.waits > 0);
    let (Some(first), Some(last)) = ((0..view.bars.len()).find(filled), (0..view.bars.len()).rfind(filled)) else { return Vec::new() };
    for step in 1..=view.bars.len() {
        // Joined bars begin at multiples, so that they stay what they are when shorter waits come in.
        let rows = (first / step)..=(last / step);
        let mut groups: Vec<_> = rows.map(|n| (n * step, ((n + 1) * step).min(view.bars.len()))).collect();
        let over = groups.len().saturating_sub(room);
        if over == 0 {
            return groups;
        }
        let hardly = |(from, to): (usize, usize)| {
            let inside = view.bars.get(from..to).unwrap_or_default();
            inside.iter().map(|b| b.waits as f64).sum::<f64>() <= waits * HARDLY
        };
        if over > FEW || room < 2 {
            continue;
        }
        let (Some(head), Some(tail)) = (groups.first().zip(groups.get(over)), groups.get(groups.len() - over - 1).zip(groups.last()))
        else {
            continue;
        };
        let (head, tail) = ((head.0.0, head.1.1), (tail.0.0, tail.1.1));
        if hardly(head) {
            groups.splice(..=over, [head]);
            return groups;
        }
        if hardly(tail) {
            groups.truncate(groups.len() - over - 1);
            groups.push(tail);
            return groups;
        }
    }
    vec![(first, last + 1)]
}

/// Waits of a row in a column; `None` when nothing is known about the column.
pub fn cell(column: &LatencyColumn, rung: &Rung) -> Option<u64> {
    if column.observed <= 0.0 {
        return None;
    }
    let inside = column.waits.get(rung.bars.0..rung.bars.1.min(column.waits.len()).max(rung.bars.0));
    Some(inside.unwrap_or_default().iter().map(|n| u64::from(*n)).sum())
}

/// Level of a cell, 0 for none to 4 for as many as the fullest: by factors, not by differences.
pub fn level(waits: u64, most: u64) -> usize {
    if waits == 0 || most == 0 {
        return 0;
    }
    let share = (waits as f64).ln_1p() / (most as f64).ln_1p();
    ((share * 4.0).ceil() as usize).clamp(1, 4)
}

/// The least number of waits a level stands for.
pub fn least(level: usize, most: u64) -> u64 {
    let below = ((most as f64).ln_1p() * (level.max(1) - 1) as f64 / 4.0).exp_m1();
    (below as u64 + 1).min(most.max(1))
}

/// A bound of a row: two digits and a unit.
pub fn bound(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        1_000_000_000..60_000_000_000 => (ns as f64 / 1e9, "s"),
        60_000_000_000..3_600_000_000_000 => (ns as f64 / 60e9, "min"),
        _ => (ns as f64 / 3_600e9, "h"),
    };
    if value >= 10.0 || unit == "µs" { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::answer::LatencyBar;

    fn view(waits: &[u64]) -> LatencyView {
        let bar = |(i, waits): (usize, &u64)| {
            let from_ns = if i == 0 { 0 } else { 1_000 << (i - 1) };
            LatencyBar { from_ns, to_ns: 1_000 << i, waits: *waits, time_ns: waits * (1_000 << i) }
        };
        LatencyView { bars: waits.iter().enumerate().map(bar).collect(), ..LatencyView::default() }
    }

    #[test]
    fn empty_ends_are_left_out_and_the_sum_is_one() {
        let rungs = rungs(&view(&[0, 0, 5, 0, 15, 0, 0]), 10);
        assert_eq!(rungs.iter().map(|r| r.waits).collect::<Vec<_>>(), [5, 0, 15]);
        assert_eq!(rungs.iter().map(|r| r.below).collect::<Vec<_>>(), [0.25, 0.25, 1.0]);
        assert_eq!((rungs[0].from_ns, rungs[0].to_ns), (2_000, 4_000));
        assert!(super::rungs(&view(&[0, 0]), 10).is_empty() && super::rungs(&LatencyView::default(), 0).is_empty());
    }

    #[test]
    fn bars_are_joined_when_there_is_no_room_and_none_is_lost() {
        let all: Vec<u64> = (1..=27).collect();
        for room in 0..30 {
            let rungs = rungs(&view(&all), room);
            assert!(rungs.len() <= room.max(1));
            assert_eq!(rungs.iter().map(|r| r.waits).sum::<u64>(), all.iter().sum::<u64>());
            assert!(rungs.windows(2).all(|w| w[0].to_ns == w[1].from_ns));
        }
        assert_eq!(super::rungs(&view(&all), 14).len(), 14);
    }

    #[test]
    fn an_end_with_hardly_a_wait_is_joined_before_the_middle_is() {
        let spans = |waits: &[u64], room| rungs(&view(waits), room).iter().map(|r| r.bars).collect::<Vec<_>>();
        assert_eq!(spans(&[1, 1, 500, 500, 500], 4), [(0, 2), (2, 3), (3, 4), (4, 5)]);
        assert_eq!(spans(&[500, 500, 500, 1, 1], 4), [(0, 1), (1, 2), (2, 3), (3, 5)]);
        assert_eq!(spans(&[500, 500, 500, 500, 500], 4), [(0, 2), (2, 4), (4, 5)]);
    }

    #[test]
    fn cells_are_darker_by_factors_and_unknown_is_not_none() {
        let rung = rungs(&view(&[1, 2, 3]), 1)[0];
        let column = |observed, waits: &[u32]| LatencyColumn { observed, waits: waits.to_vec() };
        assert_eq!(cell(&column(0.0, &[]), &rung), None);
        assert_eq!(cell(&column(1.0, &[]), &rung), Some(0));
        assert_eq!(cell(&column(1.0, &[1, 2, 3]), &rung), Some(6));
        assert_eq!([0, 1, 10, 100, 1_000].map(|n| level(n, 1_000)), [0, 1, 2, 3, 4]);
        assert_eq!((level(1, 1), least(4, 1_000), least(1, 5)), (4, 177, 1));
    }

    #[test]
    fn bounds_have_two_digits() {
        for (ns, text) in [(1_000, "1 µs"), (512_000, "512 µs"), (1_024_000, "1.0 ms"), (16_384_000, "16 ms"), (2_097_152_000, "2.1 s")] {
            assert_eq!(bound(ns), text);
        }
    }
}
