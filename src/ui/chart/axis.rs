//! The axes: round values up the side, round times of day along the bottom. Pure.

use crate::trace::clock::{Clock, SECOND, Span, Ts};
use crate::ui::format;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Steps between times of day, seconds.
const STEPS: [u64; 17] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400];

/// The next round number at or above `value`, at least 1: 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, …
pub fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 1.0 {
        return 1.0;
    }
    let unit = 10f64.powi(value.log10().floor() as i32);
    [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|m| m * unit)
        .find(|v| *v >= value * (1.0 - 1e-9))
        .unwrap_or(10.0 * unit)
}

/// Round values below `top` for a scale of `height` rows, each with its row from the top: far enough apart to read.
pub fn levels(top: f64, height: u16) -> Vec<(u16, f64)> {
    const APART: f64 = 3.0;
    let rows = f64::from(height);
    let least = top / rows * APART;
    if !least.is_finite() || least <= 0.0 {
        return Vec::new();
    }
    let unit = 10f64.powi(least.log10().floor() as i32);
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * unit).find(|s| *s >= least * (1.0 - 1e-9)).unwrap_or(10.0 * unit);
    let mut levels = Vec::new();
    let mut v = step;
    while v < top - step * 0.4 && levels.len() < usize::from(height) {
        let below = (v / top * rows).round() as u16;
        levels.push((height.saturating_sub(below), v));
        v += step;
    }
    levels
}

/// A value beside the axis: four characters at most.
pub fn value(v: f64) -> String {
    if v >= 1e5 {
        format!("{:.0}K", v / 1e3)
    } else if v >= 10.0 || v.fract().abs() < 0.05 {
        format!("{v:.0}")
    } else {
        format!("{v:.1}")
    }
}

/// A mark on the time axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Column, counted from the left edge of the chart.
    pub column: u16,
    /// Time of day.
    pub label: String,
}

/// Marks at round times of day of the zone, far enough apart for their labels.
pub fn marks(span: Span, width: u16, clock: Clock, zone: &TimeZone) -> Vec<Mark> {
    if span.is_empty() || width == 0 {
        return Vec::new();
    }
    let per_column = span.len() as f64 / f64::from(width);
    let Some(step) = STEPS.iter().map(|s| s * SECOND).find(|step| {
        let room = *step as f64 / per_column;
        room >= if *step < 60 * SECOND { 12.0 } else { 9.0 }
    }) else {
        return Vec::new();
    };
    let wall = clock.wall(span.start);
    let offset = Timestamp::from_nanosecond(i128::from(wall)).map_or(0, |at| i64::from(zone.to_offset(at).seconds())) * SECOND as i64;
    let local = wall.saturating_add(offset);
    let first = (step - (local.rem_euclid(step as i64)) as u64) % step;
    let mut marks = Vec::new();
    let mut at = span.start + first;
    while at < span.end && marks.len() < usize::from(width) {
        let column = (at.since(span.start) as f64 / per_column).round() as u16;
        marks.push(Mark { column, label: format::clock(clock.wall(at), zone, step < 60 * SECOND) });
        at = Ts(at.0.saturating_add(step));
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        for (value, top) in
            [(0.0, 1.0), (0.3, 1.0), (1.1, 1.2), (7.0, 8.0), (8.0, 8.0), (11.0, 12.0), (1_234.0, 1_500.0), (2.1, 2.5), (f64::NAN, 1.0)]
        {
            assert_eq!(round_up(value), top, "{value}");
        }
        assert_eq!((value(0.75), value(12.0), value(8.0), value(250_000.0)), ("0.8".into(), "12".into(), "8".into(), "250K".into()));
    }

    #[test]
    fn levels_are_round_and_apart() {
        assert_eq!(levels(15.0, 6), [(2, 10.0)]);
        assert_eq!(levels(12.0, 18), [(15, 2.0), (12, 4.0), (9, 6.0), (6, 8.0), (3, 10.0)]);
        assert_eq!(levels(1.0, 3), []);
        assert!(levels(0.0, 5).is_empty() && levels(5.0, 0).is_empty());
    }

    #[test]
    fn marks_are_at_round_times_of_the_zone() {
        // 2026-11-01 13:58:30 UTC
        let clock = Clock { mono: Ts(0), wall_ns: 1_793_541_510 * SECOND as i64 };
        let span = Span::new(Ts(0), Ts(300 * SECOND));
        let of = |zone: &TimeZone, width| marks(span, width, clock, zone).into_iter().map(|m| (m.column, m.label)).collect::<Vec<_>>();
        let found = of(&TimeZone::UTC, 100);
        assert_eq!(found[0], (10, "13:59".into()));
        assert_eq!(found.len(), 5);
        let kathmandu = of(&TimeZone::fixed(jiff::tz::Offset::from_seconds(20_700).unwrap()), 100);
        assert_eq!(kathmandu[0].1, "19:44");
        assert!(of(&TimeZone::UTC, 20).len() < 3, "fewer on a narrow chart");
        assert!(of(&TimeZone::UTC, 0).is_empty());
    }
}
