//! The status line: which server, how it is seen, how it stands, what was lost, and whether the picture moves. Parts that do not fit are
//! left out, the least important first.

use crate::analysis::answer::Answer;
use crate::trace::health::{Access, Escalation, Health, Link, WindowHealth};
use crate::trace::record::Fidelity;
use crate::ui::format;
use crate::ui::state::State;
use crate::ui::state::camera::Hold;
use crate::ui::state::window::Windows;
use crate::ui::text::{put, put_right, width};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use std::fmt::Write as _;

/// The status line.
#[derive(Debug)]
pub struct Status<'a> {
    /// What it shows.
    pub state: &'a State,
    /// Styles.
    pub theme: &'a Theme,
}

struct Part {
    /// Parts with the highest rank are left out first; 0 stays.
    rank: u8,
    role: Role,
    text: String,
}

impl Widget for &Status<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        buf.set_style(area, self.theme.of(Role::Status));
        let (role, mode) = self.mode();
        let end = put_right(buf, area, &mode, self.theme.of(role));
        let room = Rect { width: end.saturating_sub(area.x), ..area };
        let mut parts = self.parts();
        let bar = format!(" {} ", self.theme.glyphs().bar);
        let need = |parts: &[Part]| parts.iter().map(|p| width(&p.text) + 3).sum::<usize>();
        while need(&parts) > usize::from(room.width) {
            let Some((i, _)) = parts.iter().enumerate().filter(|(_, p)| p.rank > 0).max_by_key(|(i, p)| (p.rank, *i)) else { break };
            parts.remove(i);
        }
        let mut x = room.x + 1;
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                x = put(buf, room, x, area.y, &bar, self.theme.of(Role::Status));
            }
            x = put(buf, room, x, area.y, &part.text, self.theme.of(part.role));
        }
    }
}

impl Status<'_> {
    fn mode(&self) -> (Role, String) {
        let glyphs = self.theme.glyphs();
        let length = format::length(self.state.camera.length);
        match (self.state.camera.hold, self.state.pulse.link()) {
            (Hold::Paused(span), _) => {
                let clock = self.state.pulse.answer().map(|a| a.clock).unwrap_or_default();
                let at = |ts| format::clock(clock.wall(ts), &self.state.start.zone, true);
                (Role::StatusPaused, format!(" {} paused {}{}{} ", glyphs.paused, at(span.start), glyphs.until, at(span.end)))
            }
            (Hold::Live, Link::Ended { .. }) => (Role::StatusPaused, format!(" {} ended, last {length} ", glyphs.ended)),
            (Hold::Live, _) => (Role::StatusLive, format!(" {} live {length} ", glyphs.live)),
        }
    }

    fn parts(&self) -> Vec<Part> {
        let part = |rank, role, text: String| Part { rank, role, text };
        let Some(answer) = self.state.pulse.answer() else {
            return vec![part(0, Role::StatusServer, self.title())];
        };
        let mut parts = vec![part(0, Role::StatusServer, self.server(answer))];
        let health = &answer.health;
        let open = health.window.as_ref().filter(|w| w.open);
        if let Some(window) = open {
            parts.extend(window_parts(window).map(|(rank, text)| part(rank, Role::StatusWindow, text)));
        } else if let Some(tier) = tier(answer) {
            parts.push(part(2, Role::Status, tier));
        }
        if let Some(left) = health.escalation.as_ref().and_then(budget) {
            parts.push(part(4, Role::Status, left));
        }
        let cpus = answer.server.cpus;
        // While nothing comes in, the last figures are not the present ones.
        let current = self.state.trouble().is_none();
        let load = answer.aas().filter(|_| current).map_or_else(|| format::NONE.into(), format::aas);
        // It is on the chart as well: what a window costs is more urgent.
        let rank = if open.is_some() { 2 } else { 1 };
        parts.push(part(rank, Role::Status, if cpus > 0 { format!("AAS {load} / {cpus} cpu") } else { format!("AAS {load}") }));
        if health.backends > 0 && current {
            parts.push(part(5, Role::Status, format!("{} backends", health.backends)));
        }
        if let Some(recording) = &health.recording {
            parts.push(match (&recording.error, &self.state.start.windows) {
                (Some(_), _) => part(0, Role::StatusWarn, "NOT RECORDING".into()),
                (None, Windows::Never(_)) => part(2, Role::Status, format!("recording {}", format::safe(&recording.dir))),
                (None, Windows::Of { .. }) => part(4, Role::Status, format!("recording to {}", format::safe(&recording.dir))),
            });
            if !recording.notes.is_empty() {
                parts.push(part(3, Role::StatusWarn, format!("damaged {}", recording.notes.len())));
            }
        }
        parts.extend(losses(health).map(|text| part(3, Role::StatusWarn, text)));
        if health.late_ticks > 0 {
            parts.push(part(6, Role::Status, format!("late {}", health.late_ticks)));
        }
        if answer.server.started > 0 && current {
            let up = answer.clock.wall(answer.window.end).saturating_sub(answer.server.started.saturating_mul(1_000));
            parts.push(part(7, Role::Status, format!("up {}", format::duration(u64::try_from(up).unwrap_or(0)))));
        }
        parts
    }

    fn title(&self) -> String {
        if self.state.start.title.is_empty() { "pg_wait_tracer".into() } else { self.state.start.title.clone() }
    }

    /// `pg18 main :5432`, as far as known.
    fn server(&self, answer: &Answer) -> String {
        let server = &answer.server;
        if server.major == 0 {
            return self.title();
        }
        let mut text = format!("pg{}", server.major);
        if !server.cluster.is_empty() {
            text.push(' ');
            text.push_str(&format::safe(&server.cluster));
        }
        if server.port > 0 {
            let _ = write!(text, " :{}", server.port);
        }
        text
    }
}

/// `SAMPLED 100 Hz mapped`.
fn tier(answer: &Answer) -> Option<String> {
    let health = &answer.health;
    let mut text = answer.coverage.fidelity.name().to_uppercase();
    if answer.coverage.observed_ns() == 0 {
        return None;
    }
    if health.rate_hz > 0 {
        let _ = write!(text, " {} Hz", health.rate_hz);
    }
    match health.access {
        Access::None => {}
        Access::Mapped => text.push_str(" mapped"),
        Access::Readv => text.push_str(" readv"),
    }
    Some(text)
}

/// `budget 245/300 s`; nothing where there is no limit.
fn budget(e: &Escalation) -> Option<String> {
    Some(format!("budget {:.0}/{:.0} s", e.remaining_s?, e.budget_s?))
}

/// `EXACT 7 s left`, `by anomaly`, `412 ns each`, `3.1 % of a core`.
fn window_parts(window: &WindowHealth) -> impl Iterator<Item = (u8, String)> {
    let tier = window.tier.name().to_uppercase();
    let left = window.remaining_s.map_or_else(|| format!("{tier} until closed"), |s| format!("{tier} {s} s left"));
    let share = format!("{:.1} % of a core", window.overhead_pct);
    let price = (window.price_ns > 0).then(|| (2, format!("{} each", format::duration(window.price_ns))));
    let by_rule = !matches!(window.cause.as_str(), "" | "manual" | "standing");
    let cause = by_rule.then(|| (2, format!("by {}", window.cause.replace('_', " "))));
    [(0, left)].into_iter().chain(cause).chain(price).chain([(1, share)])
}

/// What a window's price is the price of.
pub fn unit(window: &WindowHealth) -> &'static str {
    if window.tier == Fidelity::Blocking { "switch" } else { "transition" }
}

/// What was lost, when anything was.
fn losses(health: &Health) -> impl Iterator<Item = String> {
    [
        ("drops", health.dropped_records.max(health.dropped_blocks)),
        ("gaps", health.gaps),
        ("unread", health.unread),
        ("invalid", health.invalid),
        ("not written", health.recording.as_ref().map_or(0, |r| r.lost_records)),
        ("lost", health.window.as_ref().map_or(0, |w| w.lost_records)),
        ("not followed", health.window.as_ref().filter(|w| w.open).map_or(0, |w| w.unarmed.into())),
        ("inferred", health.window.as_ref().filter(|w| w.open).map_or(0, |w| w.inferred.into())),
    ]
    .into_iter()
    .filter(|(_, n)| *n > 0)
    .map(|(what, n)| format!("{what} {n}"))
}
