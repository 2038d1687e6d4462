//! `dump DIR`: a recording at a glance. Time model, top events, sessions and queries of all of it, or of a stretch.

use super::Usage;
use super::replay::range;
use super::text::answers;
use super::wish::zone;
use crate::analysis::Source;
use crate::analysis::answer::{Answer, Body};
use crate::analysis::filter::Filter;
use crate::analysis::question::{Ask, Question};
use crate::cli::{Dump, Format};
use crate::config::Config;
use crate::pg::names::event_names;
use crate::render::{self, Options, Renderer, Scope, View};
use crate::session::recorded::Recorded;
use crate::show;
use crate::trace::clock::{Span, Window};
use crate::trace::marker::{Kind, Marker};
use anyhow::{Context, Result};
use jiff::tz::TimeZone;
use std::io::Write as _;
use std::process::ExitCode;

/// Rows of each table.
const TOP: usize = 15;
/// Moments of windows listed.
const WINDOWS: usize = 20;

/// Prints it.
pub fn run(flags: &Dump) -> Result<ExitCode> {
    let config = Config::load()?;
    let zone = zone(flags.tz.as_ref().or(config.tz.as_ref()))?;
    let format = match flags.format.unwrap_or(Format::Text) {
        Format::Text => render::Format::Text,
        Format::Json => render::Format::Json,
        Format::Csv | Format::Tui => {
            let why = "dump prints several tables, as text or json: for one of them as csv use --replay -T DIR --view X --format csv, for the screen tui -T DIR";
            return Err(Usage(why.into()).into());
        }
    };
    let filter = match &flags.filter {
        Some(text) => Filter::parse(text).map_err(|e| Usage(format!("--filter: {e}")))?,
        None => Filter::default(),
    };
    let mut recorded = Recorded::open(&flags.dir, event_names)?;
    let span = range((flags.from.as_deref(), flags.to.as_deref()), &zone, &recorded)?.span;
    let mut out = std::io::stdout().lock();
    if format == render::Format::Text {
        let mut about = Question::new(Ask::Load { buckets: 1 }, Window::Fixed(span));
        about.filter = filter.clone();
        let answer = recorded.ask(&about)?;
        out.write_all(heading(flags, &recorded, &answer, &zone).as_bytes()).context("cannot write to standard output")?;
    }
    for view in [View::TimeModel, View::SystemEvent, View::SessionEvent, View::QueryEvent] {
        let limit = if view == View::TimeModel { 0 } else { TOP };
        let options = Options { format, filter: filter.clone(), scope: Scope::Range, zone: zone.clone(), limit, ..Options::new(view) };
        let mut renderer = Renderer::new(options);
        let answers = answers(&mut recorded, &renderer, span)?;
        renderer.write(&mut out, &answers).context("cannot write to standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What recording this is, and how much of its time was seen how.
fn heading(flags: &Dump, recorded: &Recorded, answer: &Answer, zone: &TimeZone) -> String {
    let at = |ts| show::moment(answer.clock.wall(ts), zone);
    let (files, bytes) = recorded.size();
    let extent = recorded.extent();
    let server = &answer.server;
    let row = |name: &str, what: String| format!("{name:<14} {what}\n");
    let growing = if recorded.grows() { ", being recorded" } else { "" };
    let mut text = row("Directory", format!("{}: {files} files, {:.1} MiB{growing}", flags.dir.display(), bytes as f64 / 1_048_576.0));
    let version = if server.version.is_empty() { server.major.to_string() } else { server.version.clone() };
    let port = if server.port > 0 { format!(", port {}", server.port) } else { String::new() };
    text += &row("PostgreSQL", format!("{}{port}", show::safe(&version)));
    let stretch = |s: Span| format!("{} to {} ({})", at(s.start), at(s.end), show::duration(s.len()));
    text += &row("Recorded", stretch(extent));
    if answer.window != extent {
        text += &row("Looked at", stretch(answer.window));
    }
    let c = &answer.coverage;
    let parts = [("exact", c.exact_ns), ("blocking", c.blocking_ns), ("sampled", c.sampled_ns), ("not observed", c.gap_ns)];
    let seen: Vec<String> = parts.iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| format!("{name} {}", show::duration(*ns))).collect();
    text += &row("Seen", seen.join(", "));
    let markers = if let Body::Load(load) = &answer.body { load.markers.as_slice() } else { &[] };
    // What only came near is for the screen.
    let told: Vec<&Marker> = markers.iter().filter(|m| m.kind != Kind::Near).collect();
    let (first, more) = (told.len().saturating_sub(WINDOWS), if told.len() > WINDOWS { " (the newest)" } else { "" });
    for (n, marker) in told.iter().skip(first).enumerate() {
        text += &row(
            if n == 0 { "Windows" } else { "" },
            format!("{} {}{}", at(marker.at), show::marked(marker), if n == 0 { more } else { "" }),
        );
    }
    text
}
