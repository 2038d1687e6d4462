//! The breadcrumb, which is the filter, and the coverage: how much of the window was seen, and how.

use crate::analysis::answer::{Answer, Body};
use crate::trace::clock::{Span, Ts};
use crate::ui::draw::hits::{Hits, Target};
use crate::ui::format;
use crate::ui::state::{State, slot};
use crate::ui::text::{fit, put, put_right, width};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::StatefulWidget;
use std::fmt::Write as _;

/// The breadcrumb line.
#[derive(Debug)]
pub struct Crumbs<'a> {
    /// What it shows.
    pub state: &'a State,
    /// Styles.
    pub theme: &'a Theme,
}

impl StatefulWidget for &Crumbs<'_> {
    type State = Hits;

    fn render(self, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
        let end = self.right(area, buf);
        let room = Rect { width: end.saturating_sub(area.x), ..area };
        let place = &self.state.place;
        let separator = format!(" {} ", self.theme.glyphs().crumb);
        let mut steps: Vec<(String, Role, Option<usize>)> = vec![("db".into(), Role::Crumb, Some(0))];
        steps.extend(place.crumbs.iter().enumerate().map(|(i, c)| (format::safe(&c.label).into_owned(), Role::Crumb, Some(i + 1))));
        if !place.words.is_empty() {
            let words: Vec<_> = place.words.iter().map(|w| format!("\"{}\"", format::safe(w))).collect();
            steps.push((words.join(" "), Role::CrumbWords, None));
        } else if let Some(last) = steps.last_mut() {
            last.1 = Role::CrumbLast;
        }
        // The last steps say most: when there is no room, the first are left out.
        let need = |steps: &[(String, Role, Option<usize>)]| steps.iter().map(|s| width(&s.0) + 3).sum::<usize>();
        let mut cut = false;
        while need(&steps) + 2 > usize::from(room.width) && steps.len() > 1 {
            steps.remove(0);
            cut = true;
        }
        let mut x = room.x + 1;
        if cut {
            x = put(buf, room, x, area.y, self.theme.glyphs().ellipsis, self.theme.of(Role::Crumb));
            x = put(buf, room, x, area.y, &separator, self.theme.of(Role::Dim));
        }
        for (i, (text, role, target)) in steps.iter().enumerate() {
            if i > 0 {
                x = put(buf, room, x, area.y, &separator, self.theme.of(Role::Dim));
            }
            let start = x;
            let left = usize::from(room.right().saturating_sub(x + 1));
            x = put(buf, room, x, area.y, &fit(text, left, self.theme.glyphs().ellipsis), self.theme.of(*role));
            if let Some(target) = target {
                hits.add(Rect { x: start, width: x - start, ..area }, Target::Crumb(*target));
            }
        }
    }
}

/// Cells kept for the breadcrumb.
const STEP: usize = 6;

impl Crumbs<'_> {
    /// Counts and coverage, from the right edge. The column they begin at.
    fn right(&self, area: Rect, buf: &mut Buffer) -> u16 {
        let Some(answer) = self.state.answer(slot::PAGE) else { return area.right() };
        let mut area = Rect { width: area.width.saturating_sub(1), ..area };
        let (text, whole) = coverage(answer, self.state);
        let x = put_right(buf, area, &text, self.theme.of(if whole { Role::Dim } else { Role::Warn }));
        area.width = x.saturating_sub(area.x);
        let mut notes = Vec::new();
        if self.state.hidden > 0 {
            notes.push(format!("{} idle hidden", self.state.hidden));
        }
        let listed = self.state.rows.len() + self.state.hidden;
        if answer.total_rows > listed && self.state.place.words.is_empty() && listed >= crate::ui::update::ask::LIMIT {
            notes.push(format!("first {listed} of {}", answer.total_rows));
        }
        if let (Body::Active { at: Some(tick), .. }, Some(_)) = (&answer.body, self.state.camera.held()) {
            notes.push(format!("as of {}", crate::show::time_of_day(answer.clock.wall(*tick), &self.state.start.zone)));
        }
        let dot = format!(" {} ", self.theme.glyphs().dot);
        // Room for a step of the breadcrumb stays: what is left out first says least.
        while !notes.is_empty() && width(&notes.join(&dot)) + width(&dot) + STEP > usize::from(area.width) {
            notes.remove(0);
        }
        if notes.is_empty() {
            return x.saturating_sub(1);
        }
        put_right(buf, area, &format!("{}{dot}", notes.join(&dot)), self.theme.of(Role::Dim)).saturating_sub(1)
    }
}

/// `sampled 100 %`, `sampled 62 %, gap 38 %`, `sampled 100 % since 14:02:11`; and whether nothing is missing.
pub fn coverage(answer: &Answer, state: &State) -> (String, bool) {
    let seen = &answer.coverage;
    // While data should be coming and does not, the time up to now is a gap too.
    let end = |end| if state.trouble().is_some() { state.pulse.present().unwrap_or(end) } else { end };
    let recorded = answer.extent.map(|e| answer.window.clip(Span::new(e.start, end(e.end))));
    let Some(recorded) = recorded.filter(|r| !r.is_empty() && seen.observed_ns() > 0) else {
        return ("nothing observed".into(), false);
    };
    // Ticks reach back over the time since the tick before, so what was seen can be a little more than what was recorded.
    let whole = recorded.len().max(seen.observed_ns());
    let gap = whole - seen.observed_ns();
    // Less than a thousandth is the jitter of the last tick.
    let gap = if gap < whole / 1_000 { 0 } else { gap };
    let kinds = [("sampled", seen.sampled_ns), ("exact", seen.exact_ns), ("blocking", seen.blocking_ns), ("gap", gap)];
    let one = gap == 0 && kinds.iter().filter(|(_, ns)| *ns > 0).count() == 1;
    let parts: Vec<String> = kinds
        .iter()
        .filter(|(_, ns)| *ns > 0)
        .map(|(kind, ns)| format!("{kind} {}", if one { "100 %".into() } else { format::whole_percent(*ns, whole) }))
        .collect();
    let mut text = parts.join(", ");
    let late = recorded.start.since(answer.window.start);
    if late > answer.window.len() / 100 && late > 0 {
        let _ = write!(text, " since {}", at(recorded.start, answer, state));
    }
    if seen.unread > 0 {
        let _ = write!(text, ", {} unread", seen.unread);
    }
    (text, gap == 0 && seen.unread == 0)
}

fn at(ts: Ts, answer: &Answer, state: &State) -> String {
    format::clock(answer.clock.wall(ts), &state.start.zone, true)
}
