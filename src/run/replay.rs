//! Views of a recording as text, JSON and CSV: one of the whole stretch, or one after the other per interval, on into the present while it grows.

use super::text::{answers, options};
use super::wish::Wish;
use super::{Usage, text};
use crate::cli::View;
use crate::pg::names::event_names;
use crate::render::{Renderer, Scope};
use crate::session::recorded::Recorded;
use crate::trace::clock::{SECOND, Span, Ts};
use crate::when;
use anyhow::{Context, Result, bail};
use jiff::tz::TimeZone;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a growing recording is looked at.
const POLL: Duration = Duration::from_millis(200);

/// A stretch of a recording.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// From when to when.
    pub span: Span,
    /// Whether a beginning was asked for.
    pub begun: bool,
    /// Whether any end of it was asked for.
    pub chosen: bool,
    /// Whether it ends at a moment that was asked for.
    pub closed: bool,
}

/// The stretch that `--from` and `--to` mean, by default all.
pub fn range((from, to): (Option<&str>, Option<&str>), zone: &TimeZone, recorded: &Recorded) -> Result<Range> {
    let extent = recorded.extent();
    let newest = i64::try_from(extent.end.0).unwrap_or(i64::MAX);
    let read = |flag: &str, text: &str| {
        let at = when::read(text, newest, zone).map_err(|why| Usage(format!("{flag}: {why}")))?;
        Ok::<Ts, anyhow::Error>(Ts(u64::try_from(at).unwrap_or(0)))
    };
    let start = from.map(|text| read("--from", text)).transpose()?;
    let end = to.map(|text| read("--to", text)).transpose()?;
    let span = Span { start: start.unwrap_or(extent.start), end: end.unwrap_or(extent.end) };
    if from.or(to).is_none() && span.is_empty() {
        bail!("the recording holds one moment so far and no stretch of time: try again in a second");
    }
    if span.end <= span.start {
        let at = |ts: Ts| crate::show::moment(i64::try_from(ts.0).unwrap_or(i64::MAX), zone);
        let why = match (from, to) {
            (Some(_), Some(_)) => "--from is not before --to".to_owned(),
            (Some(_), None) => format!("--from is {}, but the recording ends at {}", at(span.start), at(span.end)),
            _ => format!("--to is {}, but the recording begins at {}", at(span.end), at(span.start)),
        };
        return Err(Usage(why).into());
    }
    Ok(Range { span, begun: from.is_some(), chosen: from.or(to).is_some(), closed: to.is_some() })
}

/// Prints what was asked for.
pub fn run(wish: &Wish, dir: &Path) -> Result<ExitCode> {
    let mut recorded = Recorded::open(dir, event_names)?;
    let range = range(wish.range(), &wish.zone, &recorded)?;
    let flags = &wish.flags;
    let by_interval = flags.interval.is_some() || !wish.windows.is_empty() || flags.count.is_some() || flags.duration.is_some();
    if by_interval {
        return intervals(wish, recorded, range);
    }
    let mut options = options(wish);
    options.scope = Scope::Range;
    let mut span = range.span;
    if flags.view() == View::Active && !range.begun {
        // What everybody was doing at one moment; DB Time is of the interval before it.
        span.start = span.start.max(span.end - wish.interval_ns);
    }
    let mut renderer = Renderer::new(options);
    let answers = answers(&mut recorded, &renderer, span)?;
    renderer.write(&mut std::io::stdout().lock(), &answers).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// One view after the other. Without an end that was asked for, on and on while the recording grows.
fn intervals(wish: &Wish, mut recorded: Recorded, range: Range) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut renderer = Renderer::new(options(wish));
    let most = wish.flags.duration.map_or(u64::MAX, |d| u64::from(d) * SECOND);
    for n in 1..=text::last_interval(wish) {
        let start = range.span.start + (n - 1) * wish.interval_ns;
        let end = range.span.start + most.min(n * wish.interval_ns);
        let end = if range.closed { end.min(range.span.end) } else { end };
        while recorded.extent().end < end && recorded.grows() && !range.closed && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(POLL);
            recorded.refresh();
        }
        let end = if range.closed { end } else { end.min(recorded.extent().end) };
        if end <= start || stop.load(Ordering::Relaxed) {
            break;
        }
        let answers = answers(&mut recorded, &renderer, Span::new(start, end))?;
        renderer.write(&mut std::io::stdout().lock(), &answers).context("cannot write to standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}
