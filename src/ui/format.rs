//! Numbers, times and server text as the screen shows them. Pure.

use crate::trace::clock::SECOND;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::borrow::Cow;

/// Server text made safe for one line: line breaks and tabs become spaces, other control characters and those that change the direction of
/// text become visible.
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' | '\r' => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c => visible(c, &mut out),
        }
    }
    Cow::Owned(out)
}

/// Server text made safe for several lines: line breaks stay.
pub fn block(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            c => visible(c, &mut out),
        }
    }
    out
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn visible(c: char, out: &mut String) {
    match u32::from(c) {
        code @ 0..0x20 => out.extend(char::from_u32(0x2400 + code)),
        0x7f => out.push('\u{2421}'),
        _ if is_unsafe(c) => out.push('\u{fffd}'),
        _ => out.push(c),
    }
}

/// Three significant digits with ns, µs, ms, s; then `4m 05s`, `3h 12m`, `32d 23h`.
pub fn duration(ns: u64) -> String {
    let seconds = ns / SECOND;
    match ns {
        0 => "0".into(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", digits(ns as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", digits(ns as f64 / 1e6)),
        _ if seconds < 60 => format!("{} s", digits(ns as f64 / 1e9)),
        _ if seconds < 3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ if seconds < 86_400 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

fn digits(value: f64) -> String {
    // Cut, not rounded: 999.96 ms is not 1000 ms.
    let cut = |places: i32| (value * 10f64.powi(places)).floor() / 10f64.powi(places);
    if value >= 100.0 {
        format!("{:.0}", cut(0))
    } else if value >= 10.0 {
        format!("{:.1}", cut(1))
    } else {
        format!("{:.2}", cut(2))
    }
}

/// A window's length: `10s`, `5m`, `1h`, or `47s`, `1m30s` when it is none of the usual.
pub fn length(ns: u64) -> String {
    let s = (ns + SECOND / 2) / SECOND;
    match s {
        0..60 => format!("{s}s"),
        _ if s % 3_600 == 0 => format!("{}h", s / 3_600),
        _ if s % 60 == 0 => format!("{}m", s / 60),
        60..3_600 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3_600, s / 60 % 60),
    }
}

/// One decimal below 100, none above; never 0 when there is something.
pub fn aas(value: f64) -> String {
    match value {
        v if v <= 0.0 || !v.is_finite() => "0".into(),
        v if v < 0.1 => "<0.1".into(),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// A share as percent with one decimal; a dash when there is none; never above 100.
pub fn share(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(v) if v <= 0.0 || !v.is_finite() => "0.0".into(),
        Some(v) if v < 0.001 => "<0.1".into(),
        Some(v) if v > 0.999_5 => "100".into(),
        Some(v) => format!("{:.1}", v * 100.0),
    }
}

/// Whole percent for the coverage: 100 only when nothing is missing.
pub fn whole_percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => "-".into(),
        (0, _) => "0 %".into(),
        _ if part >= whole => "100 %".into(),
        _ => match (part as f64 / whole as f64 * 100.0).round() as u64 {
            0 => "<1 %".into(),
            100.. => ">99 %".into(),
            n => format!("{n} %"),
        },
    }
}

/// Time of day in a zone: `14:03:22`, or `14:03` when seconds do not matter.
pub fn clock(wall_ns: i64, zone: &TimeZone, seconds: bool) -> String {
    let Ok(at) = Timestamp::from_nanosecond(i128::from(wall_ns)) else { return "-".into() };
    let t = zone.to_datetime(at).time();
    if seconds { format!("{:02}:{:02}:{:02}", t.hour(), t.minute(), t.second()) } else { format!("{:02}:{:02}", t.hour(), t.minute()) }
}

/// Day and time in a zone.
pub fn moment(wall_ns: i64, zone: &TimeZone) -> String {
    let Ok(at) = Timestamp::from_nanosecond(i128::from(wall_ns)) else { return "-".into() };
    let d = zone.to_datetime(at);
    format!("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", d.year(), d.month(), d.day(), d.hour(), d.minute(), d.second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_visible_and_harmless() {
        assert_eq!(line("select\n\t 1"), "select  1");
        assert_eq!(line("a\u{1b}[2Jb\u{7}\u{7f}"), "a␛[2Jb␇␡");
        assert_eq!(line("x\u{202e}y\u{9b}z"), "x\u{fffd}y\u{fffd}z");
        assert_eq!(block("a\r\nb\tc"), "a\nb    c");
        assert!(matches!(line("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn durations_have_three_digits() {
        for (ns, text) in [
            (0, "0"),
            (999, "999 ns"),
            (1_500, "1.50 µs"),
            (12_345_678, "12.3 ms"),
            (999_999_999, "999 ms"),
            (1_000_000_000, "1.00 s"),
            (59_999_000_000, "59.9 s"),
            (245_000_000_000, "4m 05s"),
            (11_520_000_000_000, "3h 12m"),
            (2_847_600_000_000_000, "32d 23h"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn small_is_not_nothing_and_nothing_is_not_small() {
        assert_eq!((aas(0.0), aas(0.01), aas(4.25), aas(123.4)), ("0".into(), "<0.1".into(), "4.2".into(), "123".into()));
        assert_eq!((share(None), share(Some(0.0)), share(Some(0.000_1))), ("-".into(), "0.0".into(), "<0.1".into()));
        assert_eq!((share(Some(0.123_4)), share(Some(1.0))), ("12.3".into(), "100".into()));
        assert_eq!(whole_percent(999, 1000), ">99 %");
        assert_eq!(whole_percent(1, 1000), "<1 %");
        assert_eq!((whole_percent(5, 5), whole_percent(62, 100), whole_percent(1, 0)), ("100 %".into(), "62 %".into(), "-".into()));
    }

    #[test]
    fn lengths_are_short() {
        for (s, text) in [(10, "10s"), (47, "47s"), (300, "5m"), (90, "1m30s"), (3_600, "1h"), (86_400, "24h")] {
            assert_eq!(length(s * SECOND), text);
        }
    }
}
