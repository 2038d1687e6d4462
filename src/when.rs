//! Instants as people type them: `now`, `14:02:03.5`, `2026-11-29 14:02`, `2026-11-29T14:02:03Z`, `10m`, `1h30m` (that long ago). Pure.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// What can be typed, for messages.
pub const FORMS: &str = "14:02, 14:02:03.5, 2026-11-29 14:02:03, an offset or Z behind it, 10m or 1h30m ago, or now";

/// Reads an instant as nanoseconds since 1970. `latest` is what `now` is and what lengths count back from, Unix ns; a time without a date is the last such
/// time at or before it. The error is one line: what is wrong with it.
pub fn read(text: &str, latest: i64, zone: &TimeZone) -> Result<i64, String> {
    let text = text.trim();
    let wrong = || format!("'{text}' is not a time: use {FORMS}");
    if text.eq_ignore_ascii_case("now") {
        return Ok(latest);
    }
    if let Some(ago) = length(text) {
        return Ok(latest.saturating_sub(ago));
    }
    // With an offset, there is nothing to decide.
    if let Ok(at) = text.parse::<Timestamp>() {
        return nanoseconds(at).ok_or_else(wrong);
    }
    // Dates first: of a date with a time, the time alone can be read, too.
    if let Ok(at) = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(Date::into)) {
        return local(at, zone);
    }
    last_such(text.parse().map_err(|_| wrong())?, latest, zone).ok_or_else(wrong)
}

/// A length such as `90s`, `10m`, `1h30m`, `2d` in nanoseconds.
fn length(text: &str) -> Option<i64> {
    let mut total: Option<i64> = None;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = rest.split_at_checked(digits)?;
        let seconds = match unit.chars().next()? {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        let ns = number.parse::<i64>().ok()?.checked_mul(seconds)?.checked_mul(1_000_000_000)?;
        total = Some(total.unwrap_or(0).checked_add(ns)?);
        rest = unit.get(1..)?;
    }
    total
}

fn nanoseconds(at: Timestamp) -> Option<i64> {
    i64::try_from(at.as_nanosecond()).ok()
}

/// The last moment at or before `latest` at which clocks showed `time`.
fn last_such(time: Time, latest: i64, zone: &TimeZone) -> Option<i64> {
    let now = zone.to_datetime(Timestamp::from_nanosecond(latest.into()).ok()?);
    let mut date = now.date();
    for _ in 0..3 {
        let at = zone.to_ambiguous_timestamp(date.to_datetime(time));
        // Of a time that came twice the later one, unless that is still to come; one that never came is on another day.
        let candidates = match at.offset() {
            AmbiguousOffset::Unambiguous { .. } => vec![at.compatible().ok()?],
            AmbiguousOffset::Fold { .. } => vec![at.later().ok()?, at.earlier().ok()?],
            AmbiguousOffset::Gap { .. } => Vec::new(),
        };
        if let Some(found) = candidates.into_iter().filter_map(nanoseconds).find(|ns| *ns <= latest) {
            return Some(found);
        }
        date = date.checked_sub(SignedDuration::from_hours(24)).ok()?;
    }
    None
}

fn local(at: DateTime, zone: &TimeZone) -> Result<i64, String> {
    let found = zone.to_ambiguous_timestamp(at);
    let name = zone.iana_name().unwrap_or("this time zone");
    match found.offset() {
        AmbiguousOffset::Fold { before, after } => {
            Err(format!("{at} came twice in {name}: say which, as {at}{} or {at}{}", offset(before), offset(after)))
        }
        AmbiguousOffset::Gap { .. } => Err(format!("{at} never came in {name}: clocks were put forward over it")),
        AmbiguousOffset::Unambiguous { .. } => found.compatible().ok().and_then(nanoseconds).ok_or_else(|| format!("{at} is too far away")),
    }
}

/// As RFC 3339 has it.
fn offset(offset: jiff::tz::Offset) -> String {
    let minutes = offset.seconds() / 60;
    format!("{}{:02}:{:02}", if minutes < 0 { '-' } else { '+' }, minutes.abs() / 60, minutes.abs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn unix(text: &str) -> i64 {
        nanoseconds(text.parse::<Timestamp>().unwrap()).unwrap()
    }

    fn berlin() -> TimeZone {
        TimeZone::get("Europe/Berlin").unwrap()
    }

    #[test]
    fn dates_times_lengths_and_offsets() {
        let latest = unix("2026-11-29T12:00:00Z");
        let at = |text: &str| read(text, latest, &berlin()).unwrap();
        assert_eq!(at("now"), latest);
        assert_eq!(at("10m"), latest - 600 * SECOND);
        assert_eq!(at("1h30m"), latest - 5_400 * SECOND);
        assert_eq!(at("2d"), latest - 172_800 * SECOND);
        assert_eq!(at("2026-11-29 12:59:30"), unix("2026-11-29T11:59:30Z"));
        assert_eq!(at("2026-11-29T12:59:30.123"), unix("2026-11-29T11:59:30.123Z"));
        assert_eq!(at("2026-11-29 12:59"), unix("2026-11-29T11:59:00Z"));
        assert_eq!(at("2026-11-29"), unix("2026-11-28T23:00:00Z"));
        // Not the last such time: the day is said.
        assert_eq!(at("2026-11-27 12:59:30"), unix("2026-11-27T11:59:30Z"));
        assert_eq!(at("2026-11-30 12:59"), unix("2026-11-30T11:59:00Z"));
        assert_eq!(at("2026-11-29T12:59:30Z"), unix("2026-11-29T12:59:30Z"));
        assert_eq!(at("2026-11-29T12:59:30+05:00"), unix("2026-11-29T07:59:30Z"));
        // Without a date: today, or yesterday when it is still to come.
        assert_eq!(at("12:30:01.5"), unix("2026-11-29T11:30:01.5Z"));
        assert_eq!(at("13:00"), latest);
        assert_eq!(at("14:02"), unix("2026-11-28T13:02:00Z"));
        for bad in ["", "yesterday", "10x", "h", "25:00", "2026-13-01", "-5m"] {
            assert!(read(bad, latest, &berlin()).unwrap_err().contains("is not a time"), "{bad}");
        }
    }

    #[test]
    fn an_hour_that_comes_twice_or_never() {
        let latest = unix("2026-10-25T12:00:00Z");
        let at = |text: &str| read(text, latest, &berlin());
        let twice = at("2026-10-25 02:30:00").unwrap_err();
        assert!(twice.contains("came twice") && twice.contains("2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00"), "{twice}");
        assert_eq!(at("2026-10-25T02:30:00+02:00").unwrap(), unix("2026-10-25T00:30:00Z"));
        // Of a time alone the last one.
        assert_eq!(at("02:30").unwrap(), unix("2026-10-25T01:30:00Z"));
        assert_eq!(read("02:30", unix("2026-10-25T01:00:00Z"), &berlin()).unwrap(), unix("2026-10-25T00:30:00Z"));
        assert!(at("2026-03-29 02:30").unwrap_err().contains("never came"));
        assert_eq!(read("02:30", unix("2026-03-29T10:00:00Z"), &berlin()).unwrap(), unix("2026-03-28T01:30:00Z"));
    }
}
