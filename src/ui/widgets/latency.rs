//! The page Latency: figures, the distribution of wait lengths, and where there is room its course over time.
//!
//! ```text
//!  12.4K waits  avg 1.21 ms  p50 820 µs …
//!  length      waits  %  cum%  %time  distribution    over time
//!  1 – 2 µs       12  …               ███             ░░▒▓ ░
//! ```

use super::precise;
use crate::analysis::answer::{Answer, Latency, LatencyView};
use crate::trace::clock::Ts;
use crate::ui::chart::axis;
use crate::ui::draw::layout::{Areas, Heat, ladder};
use crate::ui::format;
use crate::ui::pages::latency::{Rung, bound, cell, least, level, rungs};
use crate::ui::state::State;
use crate::ui::text::{dot, fit, put, put_right, row, width};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

/// Right edges of the columns of numbers: waits, their share, the share up to there, their share of time.
const COLUMNS: [(&str, u16); 4] = [("waits", 26), ("%", 33), ("cum%", 40), ("%time", 47)];
/// Where bars begin.
const BARS: u16 = 49;

/// The page.
#[derive(Debug)]
pub struct Distribution<'a> {
    /// What it shows.
    pub view: &'a LatencyView,
    /// The answer that is of.
    pub answer: &'a Answer,
    /// Where things are and what is looked at.
    pub state: &'a State,
    /// Styles.
    pub theme: &'a Theme,
}

impl Widget for &Distribution<'_> {
    fn render(self, _: Rect, buf: &mut Buffer) {
        let areas = self.state.areas();
        self.figures(areas.note, buf);
        let table = areas.table;
        if table.height < 2 {
            return;
        }
        match areas.heat() {
            Heat::Nowhere => self.ladder(table, &rungs(self.view, usize::from(table.height) - 1), buf),
            Heat::Beside(columns) => {
                let rungs = rungs(self.view, usize::from(table.height) - 2);
                self.ladder(Rect { width: ladder(table.width), ..table }, &rungs, buf);
                let heat = Rect { x: table.right() - columns - 1, width: columns, ..table };
                self.heat(heat, &rungs, buf);
            }
            Heat::Below(_) => self.below(table, &areas, buf),
        }
    }
}

impl Distribution<'_> {
    fn below(&self, table: Rect, areas: &Areas, buf: &mut Buffer) {
        // Two lines of titles and one of times.
        let each = (table.height - 3) / 2;
        let rungs = rungs(self.view, usize::from(each));
        let n = u16::try_from(rungs.len()).unwrap_or(each).min(each);
        self.ladder(Rect { height: n + 1, ..table }, &rungs, buf);
        let plot = areas.plot();
        let heat = Rect { x: plot.x, width: plot.width, y: table.y + n + 1, height: n + 2 };
        self.heat(heat, &rungs, buf);
        for (y, rung) in (heat.y + 1..heat.bottom() - 1).zip(&rungs) {
            // Five cells: what the row begins with.
            let text = bound(rung.from_ns).replace(' ', "").replace(".0", "");
            put_right(buf, Rect { x: table.x, y, width: plot.x - 1, height: 1 }, &text, self.theme.of(Role::Axis));
        }
    }

    fn figures(&self, area: Rect, buf: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let mut x = area.x + 1;
        let waits = format!("{} {}", format::count(self.view.waits), if self.view.waits == 1 { "wait" } else { "waits" });
        x = put(buf, area, x, area.y, &waits, self.theme.of(Role::Strong));
        let Latency { avg_ns, p50_ns, p95_ns, p99_ns, max_ns } = self.view.latency.unwrap_or_default();
        for (name, ns) in [("avg", avg_ns), ("p50", p50_ns), ("p95", p95_ns), ("p99", p99_ns), ("max", max_ns)] {
            x = put(buf, area, x + 2, area.y, name, self.theme.of(Role::Dim));
            x = put(buf, area, x + 1, area.y, &format::duration(ns), self.theme.of(Role::Text));
        }
        note_right(self.answer, self.state, self.theme, area, x, buf);
    }

    fn ladder(&self, area: Rect, rungs: &[Rung], buf: &mut Buffer) {
        let title = row(area, 0);
        buf.set_style(title.intersection(buf.area), self.theme.of(Role::Header));
        let header = self.theme.of(Role::Header);
        put(buf, title, title.x + 1, title.y, "length", header);
        let at = |line: Rect, right: u16| Rect { width: right.min(line.width), ..line };
        for (text, right) in COLUMNS {
            put_right(buf, at(title, right), text, header);
        }
        put(buf, title, title.x + BARS, title.y, "share", header);
        let most = rungs.iter().map(|r| r.waits).max().unwrap_or(0);
        let room = area.width.saturating_sub(BARS + 1);
        for (n, rung) in (1..area.height).zip(rungs) {
            let line = row(area, n);
            let (plain, dim) = (self.theme.of(Role::Text), self.theme.of(Role::Dim));
            let style = if rung.waits == 0 { dim } else { plain };
            put(buf, line, line.x + 1, line.y, &length(rung, self.state.start.ascii), style);
            let percent = |share: f64| if rung.waits == 0 { String::new() } else { format::share(Some(share)) };
            let cells = [format::count(rung.waits), percent(rung.share), format::share(Some(rung.below)), percent(rung.time_share)];
            for ((_, right), text) in COLUMNS.into_iter().zip(cells) {
                put_right(buf, at(line, right), &text, style);
            }
            let place = Rect { x: line.x + BARS, width: room, ..line };
            let share = rung.waits as f64 / most.max(1) as f64;
            let end = bar(buf, place, share, self.ink(), self.theme);
            self.percentiles(rung, place, end, buf);
        }
    }

    /// Says behind a bar which percentiles are in it.
    fn percentiles(&self, rung: &Rung, area: Rect, end: u16, buf: &mut Buffer) {
        let Some(latency) = self.view.latency else { return };
        let inside = |ns: u64| rung.waits > 0 && ns >= rung.from_ns && ns < rung.to_ns;
        let found = [("p50", latency.p50_ns), ("p95", latency.p95_ns), ("p99", latency.p99_ns), ("max", latency.max_ns)];
        let names: Vec<&str> = found.into_iter().filter(|(_, ns)| inside(*ns)).map(|(name, _)| name).collect();
        // Only what is whole: the bar is worth more than a word.
        let room = usize::from(area.right().saturating_sub(end + 1));
        let mut text = names.join(" ");
        while width(&text) > room {
            let Some((head, _)) = text.rsplit_once(' ') else { return };
            text = head.to_owned();
        }
        put(buf, area, end + 1, area.y, &text, self.theme.of(Role::Dim));
    }

    fn ink(&self) -> Style {
        self.state.place.class().map_or_else(|| self.theme.of(Role::Heat), |class| Style::new().fg(self.theme.class(class)))
    }

    /// Title, a row per rung, times.
    fn heat(&self, area: Rect, rungs: &[Rung], buf: &mut Buffer) {
        let cells = |rung| self.view.columns.iter().filter_map(move |c| cell(c, rung));
        let most = rungs.iter().flat_map(cells).max().unwrap_or(0);
        self.heat_title(row(area, 0), most, buf);
        let (columns, glyphs) = (self.view.columns.len(), self.theme.glyphs());
        for (n, rung) in (1..area.height.saturating_sub(1)).zip(rungs) {
            for x in 0..area.width {
                let i = usize::from(x) * columns / usize::from(area.width.max(1));
                let Some(column) = self.view.columns.get(i) else { continue };
                let (x, y) = (area.x + x, area.y + n);
                match cell(column, rung) {
                    None if self.is_future(i) => {}
                    None if n == 1 || usize::from(n) == rungs.len() => dot(buf, x, y, glyphs.spark_gap, self.theme.of(Role::RowGap)),
                    None | Some(0) => {}
                    Some(waits) => dot(buf, x, y, glyphs.shades.get(level(waits, most)).unwrap_or(&" "), self.ink()),
                }
            }
        }
        let rows = u16::try_from(rungs.len()).unwrap_or(0).min(area.height.saturating_sub(2));
        self.unknown(Rect { y: area.y + 1, height: rows, ..area }, buf);
        self.times(Rect { y: area.y + 1 + rows, height: 1, ..area }, buf);
    }

    /// Says in the middle of what is not known that it is not known.
    fn unknown(&self, area: Rect, buf: &mut Buffer) {
        const WORDS: &str = " not measured ";
        let columns = self.view.columns.len();
        let blank = |x: u16| {
            let i = usize::from(x) * columns / usize::from(area.width.max(1));
            self.view.columns.get(i).is_some_and(|c| c.observed <= 0.0) && !self.is_future(i)
        };
        let mut from = 0;
        for x in 0..=area.width {
            if x < area.width && blank(x) {
                continue;
            }
            let (run, words) = (x - from, u16::try_from(WORDS.len()).unwrap_or(u16::MAX));
            if run >= words && area.height > 2 {
                let y = area.y + area.height / 2;
                put(buf, area, area.x + from + (run - words) / 2, y, WORDS, self.theme.of(Role::Dim));
            }
            from = x + 1;
        }
    }

    /// Whether a column has not begun yet, as far as is recorded.
    fn is_future(&self, i: usize) -> bool {
        let start = self.answer.window.start + (self.view.column_ns * i as f64) as u64;
        self.answer.extent.is_none_or(|e| start >= e.end || start + (self.view.column_ns as u64) <= e.start)
    }

    fn heat_title(&self, area: Rect, most: u64, buf: &mut Buffer) {
        buf.set_style(area.intersection(buf.area), self.theme.of(Role::Header));
        let header = self.theme.of(Role::Header);
        let mut x = put(buf, area, area.x, area.y, "over time, waits per cell", header) + 1;
        let mut before = 0;
        for n in 1..=4 {
            let from = least(n, most);
            if most == 0 || from == before || level(from, most) != n {
                continue;
            }
            before = from;
            let text = format!("{from}{}", if n == 4 || from >= most { "" } else { "+" });
            let text = if n == 4 { format!("{text}+") } else { text };
            if usize::from(area.right().saturating_sub(x)) < width(&text) + 4 {
                break;
            }
            dot(buf, x + 1, area.y, self.theme.glyphs().shades.get(n).unwrap_or(&" "), header.patch(self.ink()));
            x = put(buf, area, x + 3, area.y, &text, header);
        }
    }

    fn times(&self, area: Rect, buf: &mut Buffer) {
        let style = self.theme.of(Role::Axis);
        let zone = &self.state.start.zone;
        for mark in axis::marks(self.answer.window, area.width, self.answer.clock, zone) {
            let text = format!("{}{}", self.theme.glyphs().mark, mark.label);
            let x = area.x + mark.column;
            if usize::from(area.right().saturating_sub(x)) >= width(&text) {
                put(buf, area, x, area.y, &text, style);
            }
        }
        if let Some(x) = self.state.cursor.and_then(|at| column(at, self.answer, area)) {
            dot(buf, x, area.y, self.theme.glyphs().up, self.theme.of(Role::Cursor));
        }
    }
}

/// The column of an instant.
fn column(at: Ts, answer: &Answer, area: Rect) -> Option<u16> {
    let window = answer.window;
    if at < window.start || at >= window.end {
        return None;
    }
    let share = at.since(window.start) as f64 / window.len().max(1) as f64;
    Some(area.x + ((share * f64::from(area.width) + 0.01) as u16).min(area.width.saturating_sub(1)))
}

/// `  1 – 2 µs`, the dash always in the same place.
fn length(rung: &Rung, ascii: bool) -> String {
    if rung.from_ns == 0 {
        return format!("{:>18}", format!("under {}", bound(rung.to_ns)));
    }
    format!("{:>7} {} {:>7}", bound(rung.from_ns), if ascii { "-" } else { "–" }, bound(rung.to_ns))
}

/// A bar from the left, of this share of the area; something is never nothing. The column behind it.
pub fn bar(buf: &mut Buffer, area: Rect, share: f64, style: Style, theme: &Theme) -> u16 {
    if area.is_empty() || share <= 0.0 || !share.is_finite() {
        return area.x;
    }
    let growing = &theme.glyphs().growing;
    let eighths = ((share.min(1.0) * f64::from(area.width) * 8.0).round() as u16).max(if theme.blends() { 1 } else { 4 });
    let (full, part) = (eighths / 8, usize::from(eighths % 8));
    for x in area.x..(area.x + full).min(area.right()) {
        dot(buf, x, area.y, growing[8], style);
    }
    if part > 0 && full < area.width {
        dot(buf, area.x + full, area.y, growing.get(part).unwrap_or(&" "), style);
    }
    area.x + full + u16::from(part > 0)
}

/// What part of the window a drawing is about, and what is missing from it: at the right of the note's first line, or on its second.
pub fn note_right(answer: &Answer, state: &State, theme: &Theme, area: Rect, used: u16, buf: &mut Buffer) {
    let missing = precise::missing(answer);
    let role = if missing.is_some() { Role::Warn } else { Role::Dim };
    let parts: Vec<String> = precise::described(answer, state).into_iter().chain(missing).collect();
    if parts.is_empty() {
        return;
    }
    let text = parts.join(&format!(" {} ", theme.glyphs().dot));
    if area.height > 1 {
        put(buf, row(area, 1), area.x + 1, area.y + 1, &text, theme.of(role));
        return;
    }
    let room = Rect { x: used + 2, width: area.right().saturating_sub(used + 3), ..area };
    put_right(buf, room, &fit(&text, usize::from(room.width), theme.glyphs().ellipsis), theme.of(role));
}
