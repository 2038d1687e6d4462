//! What the user wants: command line over configuration file over defaults, checked. An error here is wrong usage.

use super::Usage;
use crate::analysis::filter::{Filter, Term};
use crate::capture::escalation::Settings;
use crate::cli::escalation::Escalation;
use crate::cli::{Color, Format, Live, MAX_OVERHEAD, Mode, View, WindowTier};
use crate::config::Config;
use crate::trace::clock::SECOND;
use crate::trace::record::QueryId;
use crate::ui::theme::Theme;
use anyhow::{Context, Result};
use jiff::tz::TimeZone;
use std::path::Path;

/// Seconds per interval unless said otherwise.
const INTERVAL: u32 = 5;
/// Windows that fit side by side.
const MOST_WINDOWS: usize = 3;

/// A checked wish.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The flags, for what needs no checking.
    pub flags: Live,
    /// Text, json, csv or full screen.
    pub format: Format,
    /// Nanoseconds per interval.
    pub interval_ns: u64,
    /// Lengths of the windows side by side, nanoseconds; empty for the plain interval.
    pub windows: Vec<u64>,
    /// Rows wanted.
    pub filter: Filter,
    /// The same, but of all backends.
    pub without_pid: Filter,
    /// Samples per second, if said.
    #[cfg_attr(not(feature = "capture"), allow(dead_code))]
    pub rate_hz: Option<u32>,
    /// Theme, if said.
    pub theme: Option<String>,
    /// When to use colour.
    pub color: Color,
    /// Zone of what is shown.
    pub zone: TimeZone,
    /// ASCII only.
    pub ascii: bool,
    /// Whether the mouse is used.
    pub mouse: bool,
    /// Whether the trace directory is looked at rather than recorded into.
    pub looks: bool,
    /// Budget and rules of windows that open by themselves.
    #[cfg_attr(not(feature = "capture"), allow(dead_code))]
    pub rules: Settings,
}

impl Wish {
    /// Checks the flags, and takes from the configuration file what they leave open.
    pub fn new(flags: &Live, format: Format, looks: bool) -> Result<Self> {
        let config = Config::load()?;
        let looks = recordings(flags, format, looks)?;
        let windows = flags.window.as_deref().map(windows).transpose()?.unwrap_or_default();
        let interval_ns = interval(flags.interval, config.interval, &windows)?;
        let zone = zone(flags.tz.as_ref().or(config.tz.as_ref()))?;
        modes(flags)?;
        let rules = super::escalation::settings(&flags.escalation)?;
        if !windows.is_empty() && matches!(flags.view(), View::SessionEvent | View::Active) && format != Format::Tui {
            return Err(Usage("--window goes with the views time_model, system_event, query_event, histogram and flow".into()).into());
        }
        let theme = flags.theme.clone().or(config.theme);
        if let Some(name) = &theme {
            Theme::check(name).map_err(|e| Usage(format!("{e:#}")))?;
        }
        Ok(Self {
            format,
            interval_ns,
            windows,
            filter: filter(flags, flags.pid_filter)?,
            without_pid: filter(flags, None)?,
            rate_hz: flags.sample_rate.or(config.sample_rate),
            theme,
            color: flags.color.or(config.color).unwrap_or(Color::Auto),
            zone,
            ascii: flags.ascii || config.ascii,
            mouse: !flags.no_mouse && config.mouse.unwrap_or(true),
            flags: flags.clone(),
            looks,
            rules,
        })
    }

    /// The recording to look at.
    pub fn recorded(&self) -> Option<&Path> {
        self.flags.recording.trace_dir.as_deref().filter(|_| self.looks)
    }

    /// The stretch of it, as typed.
    pub fn range(&self) -> (Option<&str>, Option<&str>) {
        (self.flags.recording.from.as_deref(), self.flags.recording.to.as_deref())
    }
}

/// Refuses what does not go together about recordings. True: one is looked at.
fn recordings(flags: &Live, format: Format, tui: bool) -> Result<bool> {
    let r = &flags.recording;
    let looks = r.replay || (tui && r.trace_dir.is_some());
    let text = if r.daemon && (tui || format == Format::Tui) {
        "--daemon has no screen: leave it out to record with one, or leave out tui"
    } else if !looks && (r.from.is_some() || r.to.is_some()) {
        "--from and --to choose what of a recording is looked at: they go with --replay and with tui -T DIR"
    } else if looks && flags.mode.is_some() {
        "--mode says how waits are captured, and a recording is captured already: leave it out"
    } else if looks && flags.escalation != Escalation::default() {
        "budget and rules are of capture, and a recording is captured already: leave them out"
    } else if looks && (flags.sample_rate.is_some() || flags.target.pid.is_some() || flags.script.is_some()) {
        "a recording is looked at, no server: leave out --pid, --sample-rate and --script"
    } else if looks && flags.metrics_listen.is_some() {
        "--metrics-listen serves metrics of a capture, and a recording is looked at: leave it out"
    } else {
        return Ok(looks);
    };
    Err(Usage(text.into()).into())
}

/// A zone by its name, else the machine's.
pub fn zone(name: Option<&String>) -> Result<TimeZone> {
    match name {
        Some(name) => {
            TimeZone::get(name).map_err(|_| Usage(format!("unknown time zone '{name}': use a name such as Europe/Berlin or UTC")).into())
        }
        None => Ok(TimeZone::system()),
    }
}

/// Refuses what does not go together about capture tiers.
fn modes(flags: &Live) -> Result<()> {
    let text = match flags.mode() {
        Mode::Coop => {
            "--mode coop needs a patched server, which this program never asks for: use --mode tiered (windows on demand), full or blocking"
                .into()
        }
        Mode::Full | Mode::Blocking if flags.script.is_some() => {
            "a scenario says itself how its waits were seen: leave out --mode, or --script".into()
        }
        Mode::Sampled if flags.lightweight || flags.skip_query_id || flags.max_overhead.to_bits() != MAX_OVERHEAD.to_bits() => {
            let flag = match (flags.lightweight, flags.skip_query_id) {
                (true, _) => "--lightweight",
                (false, true) => "--skip-query-id",
                (false, false) => "--max-overhead",
            };
            format!("{flag} is about exact and blocking windows: it goes with --mode full, blocking or tiered")
        }
        Mode::Sampled | Mode::Full | Mode::Blocking if flags.window_tier != WindowTier::Exact => {
            "--window-tier goes with --mode tiered: it chooses what a window opened on demand is".into()
        }
        Mode::Sampled | Mode::Full | Mode::Blocking if flags.escalation != Escalation::default() => {
            "budget and rules (--escalation-…, --anomaly-…) are of windows that open by themselves: they go with --mode tiered".into()
        }
        Mode::Sampled | Mode::Tiered | Mode::Full | Mode::Blocking => return queries(flags),
    };
    Err(Usage(text).into())
}

/// Refuses to show queries of windows that record none.
fn queries(flags: &Live) -> Result<()> {
    let without = match (flags.lightweight, flags.skip_query_id) {
        (true, _) => "--lightweight",
        (false, true) => "--skip-query-id",
        (false, false) => return Ok(()),
    };
    if flags.view() == View::QueryEvent {
        return Err(Usage(format!("{without} records no queries, and --view query_event shows nothing else: leave out one of them")).into());
    }
    if flags.query_id.is_some() {
        return Err(Usage(format!("{without} records no queries, so --query-id would find none: leave out one of them")).into());
    }
    Ok(())
}

fn interval(flag: Option<u32>, config: Option<u32>, windows: &[u64]) -> Result<u64> {
    let seconds = |s: u32| u64::from(s) * SECOND;
    match (flag, windows.first()) {
        (Some(i), Some(first)) if seconds(i) != *first => Err(Usage(format!(
            "the first window is {} s, but the interval is {i} s: make them equal, or leave out --interval",
            *first / SECOND
        ))
        .into()),
        (_, Some(first)) => Ok(*first),
        (flag, None) => Ok(seconds(flag.or(config).unwrap_or(INTERVAL))),
    }
}

/// Reads `5s,1m,5m`.
fn windows(text: &str) -> Result<Vec<u64>> {
    let lengths = text
        .split(',')
        .map(|w| length(w.trim()).with_context(|| format!("'{w}'")))
        .collect::<Result<Vec<u64>>>()
        .map_err(|e| Usage(format!("--window {text}: {e:#} is not a length such as 5s, 1m or 2h")))?;
    if lengths.len() > MOST_WINDOWS {
        return Err(Usage(format!("--window {text}: {} windows, but at most {MOST_WINDOWS} fit", lengths.len())).into());
    }
    if lengths.windows(2).any(|w| matches!(w, [a, b] if a >= b)) {
        return Err(Usage(format!("--window {text}: each window must be longer than the one before, as in 5s,1m,5m")).into());
    }
    Ok(lengths)
}

/// Reads one length; `None` unless it is a whole number above 0 with an optional unit s, m or h.
fn length(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['s', 'm', 'h']);
    let unit = match text.strip_prefix(digits)? {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return None,
    };
    digits.parse::<u64>().ok().filter(|n| *n > 0)?.checked_mul(unit)?.checked_mul(SECOND)
}

fn filter(flags: &Live, pid: Option<i32>) -> Result<Filter> {
    let mut filter = match &flags.filter {
        Some(text) => Filter::parse(text).map_err(|e| Usage(format!("--filter: {e}")))?,
        None => Filter::default(),
    };
    if let Some(event) = &flags.event {
        filter = filter.and(Term::EventNamed(event.clone()));
    }
    if let Some(pid) = pid {
        filter = filter.and(Term::Pid(pid));
    }
    if let Some(text) = &flags.query_id {
        let id =
            QueryId::parse(text).ok_or_else(|| Usage(format!("--query-id {text}: not a query id (signed, unsigned or 0x hexadecimal)")))?;
        filter = filter.and(Term::Query(id));
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_read_and_are_checked() {
        assert_eq!(windows("5s,1m,5m").unwrap(), [5 * SECOND, 60 * SECOND, 300 * SECOND]);
        assert_eq!(windows("7").unwrap(), [7 * SECOND]);
        for (bad, says) in [
            ("5s,5s", "longer"),
            ("1m,5s", "longer"),
            ("5x", "length"),
            ("0s", "length"),
            ("", "length"),
            ("1s,2s,3s,4s", "at most 3"),
            ("5sm", "length"),
        ] {
            let error = windows(bad).unwrap_err();
            assert!(error.to_string().contains(says) && error.downcast_ref::<Usage>().is_some(), "{bad}: {error}");
        }
    }

    #[test]
    fn the_first_window_is_the_interval() {
        assert_eq!(interval(None, Some(9), &[5 * SECOND]).unwrap(), 5 * SECOND);
        assert_eq!(interval(Some(5), None, &[5 * SECOND]).unwrap(), 5 * SECOND);
        assert!(interval(Some(1), None, &[5 * SECOND]).unwrap_err().to_string().contains("make them equal"));
        assert_eq!(interval(None, Some(9), &[]).unwrap(), 9 * SECOND);
        assert_eq!(interval(None, None, &[]).unwrap(), 5 * SECOND);
    }
}
