//! Numbers, times and server text as the screen shows them: what [`crate::show`] has for every output, and what only the screen needs.
//! Pure.

pub use crate::show::{NONE, aas, moment, safe};

use crate::show;
use crate::trace::clock::SECOND;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Server text made safe for several lines: line breaks stay, tabs become spaces.
pub fn block(text: &str) -> String {
    show::visible(&text.replace("\r\n", "\n")).replace('\t', "    ")
}

/// Three digits and a unit; nothing is `0`.
pub fn duration(ns: u64) -> String {
    if ns == 0 { "0".into() } else { show::duration(ns) }
}

/// A number of things in at most six characters: `412`, `9,876`, `12.4K`, `3.2M`.
pub fn count(n: u64) -> String {
    let short = |unit: u64, letter| {
        let tenths = n / (unit / 10);
        if tenths >= 1_000 { format!("{}{letter}", tenths / 10) } else { format!("{}.{}{letter}", tenths / 10, tenths % 10) }
    };
    match n {
        0..1_000 => n.to_string(),
        1_000..10_000 => format!("{},{:03}", n / 1_000, n % 1_000),
        10_000..1_000_000 => short(1_000, 'K'),
        1_000_000..1_000_000_000 => short(1_000_000, 'M'),
        1_000_000_000..1_000_000_000_000 => short(1_000_000_000, 'G'),
        _ => short(1_000_000_000_000, 'T'),
    }
}

/// A window's length: `10s`, `5m`, `1h`, or `47s`, `1m30s` when it is none of the usual.
pub fn length(ns: u64) -> String {
    let s = (ns + SECOND / 2) / SECOND;
    match s {
        0..60 => format!("{s}s"),
        _ if s.is_multiple_of(3_600) => format!("{}h", s / 3_600),
        _ if s.is_multiple_of(60) => format!("{}m", s / 60),
        60..3_600 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3_600, s / 60 % 60),
    }
}

/// A share as percent without its sign, for columns whose title has it.
pub fn share(value: Option<f64>) -> String {
    show::percent(value.filter(|v| v.is_finite())).trim_end_matches('%').to_owned()
}

/// Whole percent for the coverage: 100 only when nothing is missing.
pub fn whole_percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => NONE.into(),
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
    let Ok(at) = Timestamp::from_nanosecond(i128::from(wall_ns)) else { return NONE.into() };
    let t = zone.to_datetime(at).time();
    if seconds { format!("{:02}:{:02}:{:02}", t.hour(), t.minute(), t.second()) } else { format!("{:02}:{:02}", t.hour(), t.minute()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_lines_stay_several_lines() {
        assert_eq!(block("a\r\nb\tc\u{1b}"), "a\nb    c␛");
    }

    #[test]
    fn shares_have_no_sign_and_coverage_no_decimals() {
        assert_eq!((share(None), share(Some(f64::NAN)), share(Some(0.123_4))), (NONE.into(), NONE.into(), "12.3".into()));
        assert_eq!(whole_percent(999, 1000), ">99 %");
        assert_eq!(whole_percent(1, 1000), "<1 %");
        assert_eq!((whole_percent(5, 5), whole_percent(62, 100), whole_percent(1, 0)), ("100 %".into(), "62 %".into(), NONE.into()));
    }

    #[test]
    fn counts_are_short_and_never_rounded_up() {
        let all =
            [(0, "0"), (999, "999"), (9_876, "9,876"), (12_499, "12.4K"), (999_999, "999K"), (3_250_000, "3.2M"), (u64::MAX, "18446744T")];
        for (n, text) in all {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn lengths_are_short() {
        for (s, text) in [(10, "10s"), (47, "47s"), (300, "5m"), (90, "1m30s"), (3_600, "1h"), (86_400, "24h"), (5_430, "1h30m")] {
            assert_eq!(length(s * SECOND), text);
        }
    }
}
