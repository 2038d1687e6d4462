//! Page Health: how the recorder itself is doing, what windows cost, what their budget and rules are at, and what happened in the window shown.

use super::lines::{Line, Lines, Piece, Scrolled};
use super::status::unit;
use crate::analysis::answer::{Answer, Body};
use crate::show::marked;
use crate::trace::health::{Access, Escalation, Health, Link, WindowHealth};
use crate::trace::marker::{Kind, Marker};
use crate::ui::format;
use crate::ui::state::{State, slot};
use crate::ui::text::dot;
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

/// Cells of the column of names.
const NAMES: usize = 14;

/// The page.
#[derive(Debug)]
pub struct Panel<'a> {
    /// What it shows.
    pub state: &'a State,
    /// Styles.
    pub theme: &'a Theme,
}

/// The last line that may be the first shown.
pub fn bottom(state: &State) -> usize {
    let area = state.areas().table;
    lines(state, area.width.saturating_sub(2)).len().saturating_sub(usize::from(area.height))
}

impl Widget for &Panel<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
        let lines = lines(self.state, inner.width);
        let offset = self.state.place.view().offset.min(bottom(self.state));
        (&Scrolled { lines: &lines, offset, base: self.theme.of(Role::Text), theme: self.theme }).render(inner, buf);
        let x = area.right().saturating_sub(1);
        if offset > 0 {
            dot(buf, x, inner.y, self.theme.glyphs().ascending, self.theme.of(Role::Dim));
        }
        if lines.len() > offset + usize::from(inner.height) {
            dot(buf, x, inner.bottom() - 1, self.theme.glyphs().descending, self.theme.of(Role::Dim));
        }
    }
}

fn lines(state: &State, width: u16) -> Vec<Line> {
    let mut out = Lines::new(width, Role::Text, Role::Strong);
    let Some(answer) = state.pulse.answer() else { return out.lines };
    let health = &answer.health;
    out.heading("What happened in the window shown");
    happened(&mut out, state);
    out.heading("Exact and blocking windows, now");
    match &health.window {
        Some(window) => windows(&mut out, window),
        None => out.text(Role::Dim, "none was opened"),
    }
    if let Some(error) = &health.window_error {
        out.text(Role::Warn, &format!("the last one asked for could not be opened: {}", format::safe(error)));
    }
    out.heading("Budget and rules, now");
    match &health.escalation {
        Some(e) => rules(&mut out, e),
        None => out.text(Role::Dim, "no window opens by itself here: that is --mode tiered, on a live server"),
    }
    out.heading("The recorder, now");
    recorder(&mut out, health, answer);
    if let Some(recording) = &health.recording {
        out.heading("The recording");
        let lost = if recording.lost_records > 0 { format::count(recording.lost_records) } else { String::new() };
        out.facts(&[("directory", format::safe(&recording.dir).into_owned()), ("not written", lost)], NAMES);
        if let Some(error) = &recording.error {
            out.text(Role::Bad, &format!("NOT RECORDING: {}", format::safe(error)));
        }
        recording.notes.iter().for_each(|note| out.text(Role::Warn, &format::safe(note)));
    }
    out.lines
}

/// Markers, newest first.
fn happened(out: &mut Lines, state: &State) {
    let answer = state.answer(slot::CHART);
    let markers =
        answer.and_then(|a| if let Body::Load(load) = &a.body { Some(load.markers.as_slice()) } else { None }).unwrap_or_default();
    if markers.is_empty() {
        return out.text(Role::Dim, "no window was opened or closed, and no rule came near asking for one");
    }
    let clock = answer.map(|a| a.clock).unwrap_or_default();
    for marker in markers.iter().rev() {
        let at = format::clock(clock.wall(marker.at), &state.start.zone, true);
        out.entry(role(marker), &at, NAMES, None, &marked(marker));
    }
}

/// How a marker stands out.
pub fn role(marker: &Marker) -> Role {
    match (marker.kind, marker.granted) {
        (Kind::Fire, true) => Role::Bad,
        (Kind::Fire, false) => Role::Warn,
        (Kind::Opened, _) => Role::Exact,
        (Kind::Closed | Kind::Near, _) => Role::Dim,
    }
}

fn windows(out: &mut Lines, w: &WindowHealth) {
    let tier = w.tier.name();
    let stands = match (w.open, w.remaining_s) {
        (true, Some(s)) => format!("{tier}, {s} s left"),
        (true, None) => format!("{tier}, until it is closed"),
        (false, _) => format!("none is open; the last was {tier}, closed: {}", format::safe(&w.reason)),
    };
    let some = |n: u64| if n > 0 { format::count(n) } else { String::new() };
    let cause = if w.cause_detail.is_empty() { w.cause.clone() } else { format!("{}: {}", w.cause, w.cause_detail) };
    out.facts(&[("window", stands), ("opened by", format::safe(&cause).into_owned())], NAMES);
    if !w.unarmed_why.is_empty() {
        out.text(Role::Warn, &format!("not followed: {}", format::safe(&w.unarmed_why)));
    }
    out.facts(
        &[
            ("price", format!("{} per {}", format::duration(w.price_ns), unit(w))),
            ("overhead", format!("{:.1} % of a core, at most {:.0} %", w.overhead_pct, w.max_overhead_pct)),
            ("records", format!("{}, {} per second", format::count(w.records), format::count(w.events_per_s))),
            ("fullest ring", format!("{:.0} %", w.ring_fill_pct)),
            ("followed", format!("{} backends", w.armed)),
            ("not followed", some(w.unarmed.into())),
            ("inferred", some(w.inferred.into())),
            ("new processes", some(w.born)),
            ("missed", some(w.missed)),
            ("records lost", some(w.lost_records)),
            ("repaired", some(w.repaired)),
            ("faults", some(w.faults)),
            ("odd switches", some(w.odd_switches)),
        ],
        NAMES,
    );
}

/// `245 of 300 s left this hour`.
pub fn budget(e: &Escalation) -> String {
    match (e.budget_s, e.remaining_s) {
        (Some(0.0), _) => "none: --escalation-budget 0".into(),
        (Some(all), Some(left)) => format!("{left:.0} of {all:.0} s left this hour"),
        _ => "no limit".into(),
    }
}

fn rules(out: &mut Lines, e: &Escalation) {
    let warming = if e.warming_s > 0.0 { format!(", still learning for {:.0} s", e.warming_s.ceil()) } else { String::new() };
    let cores = e.capacity_cores.map_or_else(|| "not known".into(), |c| format!("{c:.2} cores ({})", e.capacity_source));
    let evidence = e.cpu_evidence.map_or_else(|| "the rule is off".into(), |v| format!("{v:.2} s, fires at {:.2} s", e.cpu_threshold));
    let cooldown = if e.cooldown_s > 0.0 { format!("{:.0} s until rules may fire again", e.cooldown_s.ceil()) } else { String::new() };
    let windows = format!("{} opened, {} closed by the budget, {} denied", e.windows, e.budget_closed, e.denied);
    let fires = format!("{}, of them by CPU {}; denied {}, in the pause {}", e.fires, e.cpu_fires, e.dropped_budget, e.dropped_cooldown);
    out.facts(
        &[
            ("budget", budget(e)),
            ("windows", windows),
            ("fires", fires),
            ("near", format::count(e.near)),
            ("usual load", format!("AAS {}{warming}", format::aas(e.baseline_aas))),
            ("CPU capacity", cores),
            ("CPU evidence", evidence),
            ("pause", cooldown),
        ],
        NAMES,
    );
    if !e.near_now.is_empty() {
        out.text(Role::Warn, &format!("near a fire now: {}", format::safe(&e.near_now)));
    }
}

fn recorder(out: &mut Lines, h: &Health, answer: &Answer) {
    let link = match &h.link {
        Link::Starting => "not yet connected".into(),
        Link::Attached => String::new(),
        Link::Waiting { why } => format!("waiting: {}", format::safe(why)),
        Link::Ended { why } if why.is_empty() => "ended".into(),
        Link::Ended { why } => format!("ended: {}", format::safe(why)),
    };
    if !link.is_empty() {
        out.line(vec![Piece::Text(Role::Warn, link)]);
    }
    let access = match h.access {
        Access::None => "",
        Access::Mapped => "mapped, read-only",
        Access::Readv => "read by system calls",
    };
    let some = |n: u64| if n > 0 { format::count(n) } else { String::new() };
    // What ticks stand for is how long it has run.
    let ran = if h.rate_hz > 0 { h.ticks as f64 / f64::from(h.rate_hz) } else { 0.0 };
    let share = if ran >= 1.0 { format!(", {:.2} % of a core", h.cpu_ns as f64 / 1e7 / ran) } else { String::new() };
    let cpu = if h.cpu_ns > 0 { format!("{}{share}", format::duration(h.cpu_ns)) } else { String::new() };
    let memory = if h.rss_bytes > 0 { format!("{:.1} MiB", h.rss_bytes as f64 / f64::from(1 << 20)) } else { String::new() };
    let late = if h.late_ticks > 0 { format!(", {} late", format::count(h.late_ticks)) } else { String::new() };
    out.facts(
        &[
            ("server memory", access.into()),
            ("samples", format!("{} Hz, {} ticks{late}", h.rate_hz, format::count(h.ticks))),
            ("backends", some(h.backends.into())),
            ("attachments", some(h.attachments)),
            ("own CPU", cpu),
            ("own memory", memory),
            ("gaps", some(h.gaps)),
            ("unread", some(h.unread)),
            ("invalid", some(h.invalid)),
            ("drops", some(h.dropped_records.max(h.dropped_blocks))),
            ("forgotten SQL", some(h.evicted_queries)),
            (
                "server",
                if answer.server.major > 0 { format!("PostgreSQL {}", format::safe(&answer.server.version)) } else { String::new() },
            ),
        ],
        NAMES,
    );
}
