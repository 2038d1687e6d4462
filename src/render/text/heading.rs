//! The heading of a view, and the lines that say what its figures lack.

use crate::analysis::answer::Answer;
use crate::render::{Options, Scope, View};
use crate::show::{self, percent};
use crate::trace::health::Link;
use std::io::{self, Write};

const RULE: usize = 80;

/// When, what, how many, over which time.
pub fn write(out: &mut impl Write, options: &Options, answer: &Answer) -> io::Result<()> {
    let wall = |at| show::moment(answer.clock.wall(at), &options.zone);
    writeln!(out, "\n--- {} ---", wall(answer.window.end))?;
    let rule = "═".repeat(RULE);
    let title = match options.view {
        View::TimeModel => "Time Model",
        View::SystemEvent => "System Events",
        View::SessionEvent => "Session Summary",
        View::QueryEvent => "Query Events",
        View::Active => "Active Sessions",
    };
    let length = answer.window.len();
    let (cumulative, of) = match options.scope {
        _ if !options.windows.is_empty() => ("", format!("Windows: {}", labels(&options.windows).join(", "))),
        Scope::Interval => ("", format!("Interval: {}", show::length(round(length)))),
        Scope::Cumulative => (" (cumulative)", format!("Tracing for: {}", show::duration(length))),
        Scope::Range => ("", format!("Length: {}", show::duration(length))),
    };
    let range = format!("From {} to {}\n", wall(answer.window.start), wall(answer.window.end));
    let range = if options.scope == Scope::Range && options.windows.is_empty() { range.as_str() } else { "" };
    let aas = answer.aas().map_or_else(|| show::NONE.to_owned(), show::aas);
    writeln!(out, "{rule}\npg_wait_tracer — {title}{cumulative}    Backends: {}    {of}    AAS: {aas}\n{range}{rule}", answer.sessions)
}

/// Intervals are a little longer than asked for: to the tenth of a second.
fn round(ns: u64) -> u64 {
    (ns + 50_000_000) / 100_000_000 * 100_000_000
}

/// Window lengths as given on the command line.
pub fn labels(windows: &[u64]) -> Vec<String> {
    windows.iter().map(|ns| show::length(*ns)).collect()
}

/// What is selected, what was not seen, what was lost, and whether the server is there. Then an empty line.
pub fn notes(out: &mut impl Write, options: &Options, answer: &Answer) -> io::Result<()> {
    let selected: Vec<String> = options.event.iter().map(|e| format!("event={e}")).collect();
    let query = options.query.filter(|_| options.view == View::QueryEvent).map(|q| format!("query={q}"));
    let filter = Some(options.filter.to_string()).filter(|f| !f.is_empty());
    let selected: Vec<String> = filter.into_iter().chain(selected).chain(query).collect();
    if !selected.is_empty() {
        writeln!(out, "Filter: {}", show::safe(&selected.join(" ")))?;
    }
    if let Some(text) = unseen(answer) {
        writeln!(out, "{text}")?;
    }
    let h = &answer.health;
    match &h.link {
        Link::Waiting { why } => writeln!(out, "Waiting for the server: {}", show::safe(why))?,
        Link::Ended { why } if !why.is_empty() => writeln!(out, "Recording ended: {}", show::safe(why))?,
        Link::Ended { .. } | Link::Starting | Link::Attached => {}
    }
    if h.dropped_records > 0 || h.dropped_blocks > 0 {
        writeln!(out, "Lost since the start: {} records in {} blocks (this program did not keep up)", h.dropped_records, h.dropped_blocks)?;
    }
    writeln!(out)
}

/// What part of the window was not observed, in words; `None` when all of it was.
pub fn unseen(answer: &Answer) -> Option<String> {
    let c = &answer.coverage;
    let mut text = String::new();
    if c.gap_ns > 0 {
        let gaps = match c.gaps.as_slice() {
            [one] => format!("1 gap of {}", show::duration(one.len())),
            gaps => format!(
                "{}{} gaps, together {}",
                gaps.len(),
                if gaps.len() >= crate::analysis::answer::MAX_GAPS { "+" } else { "" },
                show::duration(c.gap_ns)
            ),
        };
        let observed = c.observed_ns() as f64 / answer.window.len().max(1) as f64;
        // All but a sliver is not all.
        let share = if observed > 0.999_4 { ">99.9 %".into() } else { percent(Some(observed)).replace('%', " %") };
        text = format!("Observed {share} of the interval; {gaps}.");
    }
    if c.unread > 0 {
        let unread = format!("{} readings of single backends were refused: their time is missing.", c.unread);
        text = if text.is_empty() { unread } else { format!("{text} {unread}") };
    }
    (!text.is_empty()).then_some(text)
}

/// Why a table is empty.
pub fn why_empty(answer: &Answer) -> &'static str {
    let c = &answer.coverage;
    if answer.extent.is_none() {
        "(no data yet — waiting for events)"
    } else if c.observed_ns() == 0 && c.ticks == 0 {
        "(nothing was observed in this time)"
    } else if answer.sessions == 0 {
        "(no session matches, or none was there)"
    } else {
        "(no active sessions)"
    }
}
