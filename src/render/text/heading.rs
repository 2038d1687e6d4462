//! The heading of a view, and the lines that say what its figures lack.

use crate::analysis::answer::Answer;
use crate::analysis::filter::{Clause, Term};
use crate::render::{Options, Scope, View, precise_ns};
use crate::show::{self, percent};
use crate::trace::health::{Link, WindowHealth};
use crate::trace::record::Fidelity;
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
        View::Histogram => "Wait Histogram",
        View::Flow => "Event Flow",
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
    let fidelity = answer.coverage.fidelity.name();
    writeln!(
        out,
        "{rule}\npg_wait_tracer — {title}{cumulative}    Backends: {}    {of}    AAS: {aas}    Fidelity: {fidelity}\n{range}{rule}",
        answer.sessions
    )
}

/// Intervals are a little longer than asked for: to the tenth of a second.
fn round(ns: u64) -> u64 {
    (ns + 50_000_000) / 100_000_000 * 100_000_000
}

/// Window lengths as given on the command line.
pub fn labels(windows: &[u64]) -> Vec<String> {
    windows.iter().map(|ns| show::length(*ns)).collect()
}

/// What is selected, what was not seen, what was lost, whether the server is there, and what the recording does to it. Then an empty line.
/// `more` is said with what the figures lack.
pub fn notes(out: &mut impl Write, options: &Options, answer: &Answer, more: &[String]) -> io::Result<()> {
    let lines = selected(options).into_iter().chain(lacks(options, answer)).chain(more.iter().cloned()).chain(standing(answer));
    for line in lines {
        writeln!(out, "{line}")?;
    }
    writeln!(out)
}

/// The notes that are of no window: what is selected, and how the recording is doing. Then an empty line.
pub fn common_notes(out: &mut impl Write, options: &Options, answer: &Answer) -> io::Result<()> {
    for line in selected(options).into_iter().chain(standing(answer)) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)
}

fn selected(options: &Options) -> Option<String> {
    let mut selected: Vec<String> = Some(options.filter.to_string()).filter(|f| !f.is_empty()).into_iter().collect();
    let has = |term: Term| options.filter.clauses.contains(&Clause { exclude: false, any: vec![term] });
    if let Some(event) = options.event.as_ref().filter(|e| !has(Term::EventNamed((*e).clone()))) {
        selected.push(format!("event={event}"));
    }
    if let Some(query) = options.query.filter(|q| options.view == View::QueryEvent && !has(Term::Query(*q))) {
        selected.push(format!("query={query}"));
    }
    (!selected.is_empty()).then(|| format!("Filter: {}", show::safe(&selected.join(" "))))
}

/// Whether the server is there, what did not reach this program, and what a window does.
fn standing(answer: &Answer) -> Vec<String> {
    let h = &answer.health;
    let mut lines = Vec::new();
    match &h.link {
        Link::Waiting { why } => lines.push(format!("Waiting for the server: {}", show::safe(why))),
        Link::Ended { why } if !why.is_empty() => lines.push(format!("Recording ended: {}", show::safe(why))),
        Link::Ended { .. } | Link::Starting | Link::Attached => {}
    }
    if h.dropped_records > 0 || h.dropped_blocks > 0 {
        let (records, blocks) = (h.dropped_records, h.dropped_blocks);
        lines.push(format!("Lost since the start: {records} records in {blocks} blocks (this program did not keep up)"));
    }
    if let Some(why) = &h.window_error {
        lines.push(format!("No window: {}; sampling goes on.", show::safe(why)));
    }
    lines.extend(h.window.as_ref().map(of_window));
    if let Some(r) = &h.recording {
        lines.extend(r.error.iter().map(|why| format!("Not recording: {}.", show::safe(why))));
        if r.lost_records > 0 {
            lines.push(format!("Not in the recording: {} records.", r.lost_records));
        }
        lines.extend(r.notes.iter().map(|note| format!("{}.", show::safe(note))));
    }
    lines
}

/// What the exact or blocking window does to the server, or why it was closed.
fn of_window(w: &WindowHealth) -> String {
    let tier = if w.tier == Fidelity::Blocking { "Blocking" } else { "Exact" };
    if !w.open {
        return format!("{tier} window closed: {}.", show::safe(&w.reason));
    }
    let what = if w.tier == Fidelity::Blocking { "switches" } else { "transitions" };
    let price = show::duration(w.price_ns);
    let cost = format!("{tier} window: {} {what}/s at {price} cost the server about {:.1} % of one core", w.events_per_s, w.overhead_pct);
    let backends = |n: u32| if n == 1 { "1 backend".to_owned() } else { format!("{n} backends") };
    let inferred = match w.inferred {
        0 => String::new(),
        n => format!(" Commands of {} are inferred: no second debug register is free there.", backends(n)),
    };
    match w.unarmed {
        0 => format!("{cost}.{inferred}"),
        n => format!("{cost}; {} cannot be followed: {}.{inferred}", backends(n), show::safe(&w.unarmed_why)),
    }
}

/// What the figures lack, a line each: what was not observed, which part they know waits of, what was lost there.
pub fn lacks(options: &Options, answer: &Answer) -> Vec<String> {
    let c = &answer.coverage;
    let mut lines: Vec<String> = unseen(answer).into_iter().chain(precise(options, answer)).collect();
    if c.blocking_ns > 0 {
        lines.push("Blocking capture sees the waits that leave the CPU; the time of others is in CPU*.".into());
    }
    if options.lightweight && precise_ns(c) > 0 {
        lines.push("Lightweight capture records no states: CPU time of client backends is not known there, and is in no figure.".into());
    }
    if c.lost_records > 0 {
        lines.push(format!("{} records of waits were lost in this time: this program did not keep up.", c.lost_records));
    }
    if c.unfollowed_ns > 0 {
        let time = show::duration(c.unfollowed_ns);
        lines.push(format!("Some sessions were not followed for {time}, added up over them: samples stand in for that."));
    }
    lines
}

/// Which part of the window is exact or blocking, when it is not all of it and of one kind.
fn precise(options: &Options, answer: &Answer) -> Option<String> {
    let c = &answer.coverage;
    let share = |ns: u64| percent(Some(ns as f64 / answer.window.len().max(1) as f64)).replace('%', " %");
    let tiers = [("exact", c.exact_ns), ("blocking", c.blocking_ns)];
    let parts: Vec<String> = tiers.iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| format!("{name} for {}", share(*ns))).collect();
    let whole = precise_ns(c) >= answer.window.len();
    if parts.is_empty() || whole && parts.len() == 1 {
        return None;
    }
    let at = |ts| show::time_of_day(answer.clock.wall(ts), &options.zone);
    let when = match c.precise.as_slice() {
        _ if whole => String::new(),
        [] => String::new(),
        [one] => format!(" ({} to {})", at(one.span.start), at(one.span.end)),
        [first, .., last] => format!(" ({} stretches, {} to {})", c.precise.len(), at(first.span.start), at(last.span.end)),
    };
    let rest = if c.sampled_ns > 0 { format!(", sampled for {}", share(c.sampled_ns)) } else { String::new() };
    let of = if parts.len() > 1 {
        "the exact and blocking parts"
    } else if c.exact_ns > 0 {
        "the exact part"
    } else {
        "the blocking part"
    };
    let figures = match options.view {
        _ if whole || c.sampled_ns == 0 => String::new(),
        View::SystemEvent => format!(" Waits, their lengths, spin and run queue are of {of}."),
        View::SessionEvent => format!(" Waits, OnCPU% and RunQ% are of {of}."),
        View::QueryEvent => format!(" Waits, their lengths and executions are of {of}."),
        View::TimeModel => format!(" Off-CPU* is of {of}; in the rest it is in CPU*."),
        View::Histogram | View::Flow => format!(" The figures are of {of}."),
        View::Active => String::new(),
    };
    let mut text = format!("{}{when}{rest}.{figures}", parts.join(", "));
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Some(text)
}

/// What part of the window was not observed, in words; `None` when all of it was.
fn unseen(answer: &Answer) -> Option<String> {
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
