//! Tables for people: the original's columns and headings, a heading that says what the figures are of, and a line for whatever they lack.

mod flow;
mod heading;
mod histogram;
mod tables;
mod windows;

use super::{Options, Part, View};
use crate::analysis::answer::Body;
use std::io::{self, Write};
use tables::Max;

/// Prints one view of one interval.
pub fn write(out: &mut impl Write, options: &Options, parts: &[Part]) -> io::Result<()> {
    let Some(first) = parts.first() else { return Ok(()) };
    heading::write(out, options, first.answer)?;
    if !options.windows.is_empty() {
        return windows::write(out, options, parts);
    }
    heading::notes(out, options, first.answer, &[])?;
    table(out, options, first, Max::Shown)
}

/// The table of one window, and what stands below it.
fn table(out: &mut impl Write, options: &Options, part: &Part, max: Max) -> io::Result<()> {
    let answer = part.answer;
    if let Some(why) = super::unavailable(options, answer) {
        return writeln!(out, "  {why}");
    }
    match &answer.body {
        Body::TimeModel(model) => tables::time_model(out, answer, model)?,
        Body::Events { events } => tables::events(out, answer, events, max)?,
        Body::Sessions { sessions } => tables::sessions(out, answer, sessions)?,
        Body::QueryEvents { pairs } => tables::pairs(out, answer, pairs, max)?,
        Body::Active { active, .. } => tables::active(out, answer, active)?,
        Body::Latency(view) => histogram::write(out, view)?,
        Body::Flow(view) => flow::write(out, view)?,
        Body::Load(_) | Body::Queries { .. } => {}
    }
    match (options.pid, part.beside.map(|b| (b, &b.body))) {
        (Some(pid), Some((detail, Body::Events { events }))) if options.view == View::SessionEvent => {
            writeln!(out, "\nEvents of PID {pid}:\n")?;
            tables::events(out, detail, events, max)
        }
        (_, Some((_, Body::Queries { queries }))) => tables::executions(out, queries, max),
        _ => Ok(()),
    }
}
