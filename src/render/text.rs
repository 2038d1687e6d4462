//! Tables for people: the original's columns and headings, a heading that says what the figures are of, and a line for whatever they lack.

mod heading;
mod tables;
mod windows;

use super::{Options, View};
use crate::analysis::answer::{Answer, Body};
use std::io::{self, Write};

/// Prints one view of one interval.
pub fn write(out: &mut impl Write, options: &Options, answers: &[Answer]) -> io::Result<()> {
    let Some(first) = answers.first() else { return Ok(()) };
    heading::write(out, options, first)?;
    if !options.windows.is_empty() {
        return windows::write(out, options, answers);
    }
    heading::notes(out, options, first)?;
    match &first.body {
        Body::TimeModel(model) => tables::time_model(out, first, model)?,
        Body::Events { events } => tables::events(out, first, events, tables::Max::Shown)?,
        Body::Sessions { sessions } => tables::sessions(out, first, sessions)?,
        Body::QueryEvents { pairs } => tables::pairs(out, first, pairs, tables::Max::Shown)?,
        Body::Active { active, .. } => tables::active(out, first, active)?,
        Body::Load(_) | Body::Queries { .. } | Body::Latency(_) | Body::Flow(_) => {}
    }
    if let (View::SessionEvent, Some(pid), Some(detail)) = (options.view, options.pid, answers.get(1)) {
        writeln!(out, "\nEvents of PID {pid}:\n")?;
        if let Body::Events { events } = &detail.body {
            tables::events(out, detail, events, tables::Max::Shown)?;
        }
    }
    Ok(())
}
