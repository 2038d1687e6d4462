//! How values look: server text made harmless, text measured and cut by what the eye sees, durations, shares, averages, instants. Pure.
//!
//! Nothing from the server reaches a terminal without [`safe`] or [`visible`].

use crate::trace::clock::SECOND;
use crate::trace::marker::{Kind, Marker};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::borrow::Cow;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// What stands for "no value": not known, or it does not apply. Never zero.
pub const NONE: &str = "—";

/// Server text for one line: line breaks and tabs, with the indentation behind them, become one space, other control characters and those that turn the direction of text are
/// made visible.
pub fn safe(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut broken = false;
    for c in text.chars() {
        match c {
            '\n' | '\t' | '\r' => broken = true,
            // The indentation of the next line belongs to the break.
            ' ' if broken => {}
            c => {
                if std::mem::take(&mut broken) && !out.is_empty() && !out.ends_with(' ') {
                    out.push(' ');
                }
                out.push(picture(c));
            }
        }
    }
    Cow::Owned(out)
}

/// Server text for several lines: line breaks and tabs stay, the rest is made visible as by [`safe`].
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_unsafe(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if matches!(c, '\n' | '\t') { c } else { picture(c) }).collect())
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// A visible character in the place of an unsafe one: `␛` for escape, U+FFFD where there is no picture.
fn picture(c: char) -> char {
    match u32::from(c) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        0x7f => '\u{2421}',
        _ if is_unsafe(c) => '\u{fffd}',
        _ => c,
    }
}

/// Cells a terminal needs for a text.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(UnicodeWidthStr::width).sum() }
}

/// The text in at most `room` cells, `…` at its end when it was cut. Characters are never cut apart.
pub fn cut(text: &str, room: usize) -> Cow<'_, str> {
    let (mut used, mut keep) = (0, 0);
    for (i, cluster) in text.grapheme_indices(true) {
        used += cluster.width();
        if used > room {
            let head = text.get(..keep).unwrap_or_default();
            return if room == 0 { Cow::Borrowed("") } else { Cow::Owned(format!("{head}…")) };
        }
        if used < room {
            keep = i + cluster.len();
        }
    }
    Cow::Borrowed(text)
}

/// Server text made safe, cut, and filled with spaces to exactly `room` cells.
pub fn left(text: &str, room: usize) -> String {
    let safe = safe(text);
    let cut = cut(&safe, room);
    format!("{cut}{:1$}", "", room - width(&cut).min(room))
}

/// Text moved to the right end of `room` cells; never cut, numbers must not lose digits.
pub fn right(text: &str, room: usize) -> String {
    format!("{:1$}{text}", "", room.saturating_sub(width(text)))
}

/// Milliseconds with one decimal; `<0.1` when there is less but not nothing.
pub fn ms(ns: u64) -> String {
    if (1..50_000).contains(&ns) {
        return "<0.1".into();
    }
    let tenths = (ns + 50_000) / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Microseconds with one decimal.
pub fn us(ns: u64) -> String {
    format!("{}.{}", ns / 1_000, ns % 1_000 / 100)
}

/// A share of one as percent with one decimal; a dash when it does not apply, never above 100, never 0 when there is something.
pub fn percent(share: Option<f64>) -> String {
    match share {
        None => NONE.into(),
        Some(s) if s > 0.0 && s < 0.000_5 => "<0.1%".into(),
        Some(s) => format!("{:.1}%", s.clamp(0.0, 1.0) * 100.0),
    }
}

/// Average active sessions: one decimal below 100, none above, `<0.1` when there is less but not nothing.
pub fn aas(value: f64) -> String {
    match value {
        v if v > 0.0 && v < 0.05 => "<0.1".into(),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// Three digits with ns, µs, ms or s; then `4m 05s`, `3h 12m`, `32d 23h`.
pub fn duration(ns: u64) -> String {
    // Cut, not rounded: 999.96 ms is not 1000 ms.
    let digits = |unit: u64| {
        let whole = ns / unit;
        match whole {
            100.. => format!("{whole}"),
            10.. => format!("{whole}.{}", ns % unit * 10 / unit),
            _ => format!("{whole}.{:02}", ns % unit * 100 / unit),
        }
    };
    let s = ns / SECOND;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", digits(1_000)),
        1_000_000..SECOND => format!("{} ms", digits(1_000_000)),
        _ if s < 60 => format!("{} s", digits(SECOND)),
        _ if s < 3_600 => format!("{}m {:02}s", s / 60, s % 60),
        _ if s < 86_400 => format!("{}h {:02}m", s / 3_600, s / 60 % 60),
        _ => format!("{}d {:02}h", s / 86_400, s / 3_600 % 24),
    }
}

/// A length as a user gives it: `5s`, `1m`, `1m30s`, `2h`; with decimals below a second.
pub fn length(ns: u64) -> String {
    if !ns.is_multiple_of(SECOND) && ns < 60 * SECOND {
        return format!("{}s", ns as f64 / SECOND as f64);
    }
    let s = ns / SECOND;
    let parts = [(s / 3_600, "h"), (s / 60 % 60, "m"), (s % 60, "s")];
    let parts: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if parts.is_empty() { "0s".into() } else { parts.concat() }
}

/// Day, time and zone, for people.
pub fn moment(wall_ns: i64, zone: &TimeZone) -> String {
    match Timestamp::from_nanosecond(i128::from(wall_ns)) {
        Ok(at) => at.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
        Err(_) => NONE.into(),
    }
}

/// Time of day to the millisecond, for people who know the day and the zone.
pub fn time_of_day(wall_ns: i64, zone: &TimeZone) -> String {
    match Timestamp::from_nanosecond(i128::from(wall_ns)) {
        Ok(at) => at.to_zoned_datetime(zone.clone()).strftime("%H:%M:%S%.3f").to_string(),
        Err(_) => NONE.into(),
    }
}

/// RFC 3339 in UTC, for machines; empty when there is no such instant.
pub fn rfc3339(wall_ns: i64) -> String {
    Timestamp::from_nanosecond(i128::from(wall_ns)).map(|at| at.to_string()).unwrap_or_default()
}

/// What happened to a window, or what asked for one, in words.
pub fn marked(marker: &Marker) -> String {
    let tier = marker.tier.name();
    let reason = marker.reason.name().replace('_', " ");
    let seconds = marker.seconds.map(|s| format!(", {s} s")).unwrap_or_default();
    let detail = if marker.detail.is_empty() { String::new() } else { format!(": {}", safe(&marker.detail)) };
    match (marker.kind, marker.granted) {
        (Kind::Opened, _) => format!("{tier} window opened ({reason}{seconds}){detail}"),
        (Kind::Closed, _) => format!("{tier} window closed ({reason}{seconds}){detail}"),
        (Kind::Fire, true) => format!("{reason}{seconds}{detail}"),
        (Kind::Fire, false) => format!("{reason}, no window{detail}"),
        (Kind::Near, _) => format!("near: {reason}{detail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hostile_text_is_visible_and_harmless() {
        assert_eq!(safe("select\n\t 1"), "select 1");
        assert_eq!(safe("\n  select  1 \n  from t\n"), "select  1 from t");
        assert_eq!(safe("a\u{1b}[2Jb\u{7}\u{7f}\u{9b}"), "a␛[2Jb␇␡\u{fffd}");
        assert_eq!(safe("x\u{202e}y"), "x\u{fffd}y");
        assert_eq!(visible("a\n\tb\u{1b}c"), "a\n\tb␛c");
        assert!(matches!(safe("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("数据库", 4), "数…");
        assert_eq!(cut("数据库", 6), "数据库");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcdef", 1), "…");
        assert_eq!(cut("abcdef", 0), "");
        assert_eq!(left("数据库", 5), "数据…");
        assert_eq!(left("ab", 4), "ab  ");
        assert_eq!(right("12345", 3), "12345");
    }

    proptest! {
        #[test]
        fn cells_are_filled_exactly(text in any::<String>(), room in 0usize..40) {
            prop_assert!(width(&cut(&safe(&text), room)) <= room);
            prop_assert_eq!(width(&left(&text, room)), room);
        }
    }

    #[test]
    fn small_is_not_nothing() {
        assert_eq!((ms(0), ms(1), ms(50_000), ms(25_088_640_000)), ("0.0".into(), "<0.1".into(), "0.1".into(), "25088.6".into()));
        assert_eq!((percent(None), percent(Some(0.0)), percent(Some(1e-9))), ("—".into(), "0.0%".into(), "<0.1%".into()));
        assert_eq!((percent(Some(0.219)), percent(Some(1.0)), percent(Some(1.41))), ("21.9%".into(), "100.0%".into(), "100.0%".into()));
        assert_eq!((aas(0.0), aas(0.01), aas(4.25), aas(99.96)), ("0.0".into(), "<0.1".into(), "4.2".into(), "100".into()));
    }

    #[test]
    fn durations_have_three_digits() {
        let table = [
            (999, "999 ns"),
            (1_500, "1.50 µs"),
            (12_345_678, "12.3 ms"),
            (999_999_999, "999 ms"),
            (1_900_000_000, "1.90 s"),
            (245_000_000_000, "4m 05s"),
            (11_520_000_000_000, "3h 12m"),
            (2_847_600_000_000_000, "32d 23h"),
        ];
        for (ns, text) in table {
            assert_eq!(duration(ns), text);
        }
        for (s, text) in [(0, "0s"), (5, "5s"), (60, "1m"), (90, "1m30s"), (300, "5m"), (7_200, "2h")] {
            assert_eq!(length(s * SECOND), text);
        }
        assert_eq!(length(SECOND / 2), "0.5s");
    }

    #[test]
    fn instants() {
        let at = 1_767_323_045_000_000_000;
        assert_eq!(rfc3339(at), "2026-01-02T03:04:05Z");
        assert_eq!(moment(at, &TimeZone::UTC), "2026-01-02 03:04:05 UTC");
        assert_eq!(time_of_day(at + 20_999_999, &TimeZone::UTC), "03:04:05.020");
    }
}
