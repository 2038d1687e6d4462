//! The page Flow as a panel: what came before the event in the middle, and what came after, joined to it by lines.
//!
//! ```text
//!  before                       event                      after
//!  ■ Client:ClientRead 20 ▐█─╮  ■ CPU*              ╭─███▌ 80 ■ IO:DataFileRead
//! ```

use super::latency::{bar, note_right};
use crate::analysis::answer::{Answer, Flow};
use crate::trace::wait::WaitClass;
use crate::ui::draw::hits::{Hits, Target};
use crate::ui::draw::layout::percent;
use crate::ui::format;
use crate::ui::pages::flow::{Face, Neighbour, Weigh, neighbours, order};
use crate::ui::state::State;
use crate::ui::state::place::Side;
use crate::ui::text::{dot, fit, put, put_right, row};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::widgets::StatefulWidget;

/// Cells of the lines between columns.
const LINES: u16 = 2;

/// The panel.
#[derive(Debug)]
pub struct Panel<'a> {
    /// What it shows.
    pub flow: &'a Flow,
    /// The answer that is of.
    pub answer: &'a Answer,
    /// Where things are and what is selected.
    pub state: &'a State,
    /// Styles.
    pub theme: &'a Theme,
}

/// Columns inside a side, from its outer edge: name, count, mean, percent, bar; 0 is not there.
struct Widths {
    name: u16,
    count: u16,
    mean: u16,
    bar: u16,
}

impl Widths {
    /// Mark, swatch and percent take 10.
    fn of(side: u16) -> Self {
        let count = if side >= 44 { 7 } else { 0 };
        let mean = if side >= 62 { 9 } else { 0 };
        let left = side.saturating_sub(10 + count + mean);
        let name = (left / 5 * 3).clamp(left.min(15), 30);
        Self { name, count, mean, bar: left - name }
    }
}

impl StatefulWidget for &Panel<'_> {
    type State = Hits;

    fn render(self, _: Rect, buf: &mut Buffer, hits: &mut Hits) {
        let areas = self.state.areas();
        note(self.flow, self.answer, self.state, self.theme, areas.note, buf);
        let table = areas.table;
        let Some(centre) = self.state.place.stream.centre.filter(|_| table.height > 1) else { return };
        let middle = percent(table.width, 22).clamp(18, 40);
        let side = (table.width - middle - 2 * LINES) / 2;
        let left = Rect { width: side, ..table };
        let lines = Rect { x: left.right(), width: LINES, ..table };
        let centred = Rect { x: lines.right(), width: table.width - 2 * (side + LINES), ..table };
        let lines_after = Rect { x: centred.right(), ..lines };
        let right = Rect { x: lines_after.right(), width: side, ..table };
        let at = self.middle(centred, centre, buf, hits);
        let before = neighbours(self.flow, centre, Side::Before, self.state.weigh);
        let after = neighbours(self.flow, centre, Side::After, self.state.weigh);
        let top = before.iter().chain(&after).map(|n| n.share).fold(0.0, f64::max);
        for (area, lines, side, list) in [(left, lines, Side::Before, &before), (right, lines_after, Side::After, &after)] {
            let shown = self.side(area, side, list, top, buf, hits);
            self.join(lines, side, shown, at, buf);
        }
    }
}

impl Panel<'_> {
    fn is_at(&self, side: Side) -> bool {
        self.state.place.stream.side == side && self.state.face == Face::Panel
    }

    fn title(&self, area: Rect, text: &str, side: Side, buf: &mut Buffer) {
        buf.set_style(area.intersection(buf.area), self.theme.of(Role::Header));
        let role = if self.is_at(side) { Role::HeaderSorted } else { Role::Header };
        put(
            buf,
            area,
            area.x + 1,
            area.y,
            &fit(text, usize::from(area.width.saturating_sub(1)), self.theme.glyphs().ellipsis),
            self.theme.of(role),
        );
    }

    /// Events, the one in the middle in sight. Its line.
    fn middle(&self, area: Rect, centre: crate::trace::wait::WaitEvent, buf: &mut Buffer, hits: &mut Hits) -> u16 {
        let here = self.is_at(Side::Centre);
        let all = if here { self.state.rows.clone() } else { order(self.flow, self.state.weigh) };
        let room = usize::from(area.height - 1);
        let index = all.iter().position(|i| self.flow.nodes.get(*i).is_some_and(|n| n.event == centre)).unwrap_or(0);
        let offset = index.saturating_sub(room / 2).min(all.len().saturating_sub(room));
        self.title(row(area, 0), &format!("event {} of {}", index + 1, all.len()), Side::Centre, buf);
        for (n, (place, i)) in (1..area.height).zip(all.iter().enumerate().skip(offset)) {
            let Some(node) = self.flow.nodes.get(*i) else { continue };
            let line = row(area, n);
            hits.add(line, if here { Target::Row(place) } else { Target::Side(Side::Centre, place) });
            let chosen = place == index;
            if chosen {
                self.mark(line, here, buf);
            }
            let share = self.weight(node.count, node.time_ns);
            let wide = area.width >= 30;
            let room = if wide { line.width - 9 } else { line.width - 1 };
            self.name(Rect { x: line.x + 1, width: room, ..line }, node.class, &node.name, (chosen && here, chosen), buf);
            if wide {
                let style = self.tone(chosen && here, Role::Dim);
                put_right(buf, Rect { width: line.width - 1, ..line }, &share, style);
            }
        }
        if offset > 0 {
            dot(buf, area.right() - 1, area.y + 1, self.theme.glyphs().ascending, self.theme.of(Role::Dim));
        }
        if all.len() > offset + room {
            dot(buf, area.right() - 1, area.bottom() - 1, self.theme.glyphs().descending, self.theme.of(Role::Dim));
        }
        u16::try_from(index - offset).unwrap_or(0)
    }

    fn weight(&self, count: u64, time_ns: u64) -> String {
        if self.state.weigh == Weigh::Count { format::count(count) } else { format::duration(time_ns) }
    }

    fn tone(&self, selected: bool, role: Role) -> Style {
        let own = self.theme.of(role);
        if selected { own.patch(self.theme.of(Role::Selected)) } else { own }
    }

    fn mark(&self, line: Rect, selected: bool, buf: &mut Buffer) {
        if selected {
            buf.set_style(line.intersection(buf.area), self.theme.of(Role::Selected));
            dot(buf, line.x, line.y, self.theme.glyphs().selected, self.theme.of(Role::Selected));
        }
    }

    fn name(&self, area: Rect, class: WaitClass, name: &str, (selected, strong): (bool, bool), buf: &mut Buffer) {
        let (glyph, style) = self.theme.swatch(class);
        put(buf, area, area.x, area.y, glyph, style);
        let text = format::safe(name);
        let text = fit(&text, usize::from(area.width.saturating_sub(2)), self.theme.glyphs().ellipsis);
        put(buf, area, area.x + 2, area.y, &text, self.tone(selected, if strong { Role::Strong } else { Role::Text }));
    }

    /// A column of neighbours. How many are shown.
    fn side(&self, area: Rect, side: Side, list: &[Neighbour], top: f64, buf: &mut Buffer, hits: &mut Hits) -> u16 {
        let here = self.is_at(side);
        let (title, word) = if side == Side::Before { ("before", "nothing came before") } else { ("after", "nothing came after") };
        let widths = Widths::of(area.width);
        self.titles(row(area, 0), side, title, &widths, buf);
        if list.is_empty() {
            put(buf, row(area, 1), area.x + 1, area.y + 1, word, self.theme.of(Role::Dim));
        }
        let view = self.state.place.view();
        let offset = if here { view.offset.min(list.len().saturating_sub(1)) } else { 0 };
        let mut shown = 0;
        for (n, (place, neighbour)) in (1..area.height).zip(list.iter().enumerate().skip(offset)) {
            let Some(node) = self.flow.nodes.get(neighbour.node) else { continue };
            let line = row(area, n);
            hits.add(line, if here { Target::Row(place) } else { Target::Side(side, place) });
            let selected = here && place == view.index;
            self.mark(line, selected, buf);
            let [name, count, mean, percent, bars] = cells(line, side, &widths);
            self.name(name, node.class, &node.name, (selected, false), buf);
            let plain = self.tone(selected, Role::Text);
            put_right(buf, percent, &format::share(Some(neighbour.share)), plain);
            if widths.count > 0 {
                put_right(buf, count, &format::count(neighbour.count), plain);
            }
            if widths.mean > 0 {
                put_right(buf, mean, &format::duration(neighbour.time_ns / neighbour.count.max(1)), self.tone(selected, Role::Dim));
            }
            let share = if top > 0.0 { neighbour.share / top } else { 0.0 };
            self.bar(bars, side, share, node.class, buf);
            shown = n;
        }
        if list.len() > offset + usize::from(shown) {
            let x = if side == Side::Before { area.x } else { area.right() - 1 };
            dot(buf, x, area.bottom() - 1, self.theme.glyphs().descending, self.theme.of(Role::Dim));
        }
        shown
    }

    fn titles(&self, area: Rect, side: Side, title: &str, widths: &Widths, buf: &mut Buffer) {
        buf.set_style(area.intersection(buf.area), self.theme.of(Role::Header));
        let [name, count, mean, percent, _] = cells(area, side, widths);
        let header = self.theme.of(Role::Header);
        put(buf, name, name.x, name.y, title, self.theme.of(if self.is_at(side) { Role::HeaderSorted } else { Role::Header }));
        put_right(buf, percent, if self.state.weigh == Weigh::Count { "%" } else { "%time" }, header);
        if widths.count > 0 {
            put_right(buf, count, "count", header);
        }
        if widths.mean > 0 {
            // Before the step the session was in the event on the left.
            put_right(buf, mean, "avg stay", header);
        }
    }

    /// A bar that touches the lines: on the left it grows to the left.
    fn bar(&self, area: Rect, side: Side, share: f64, class: WaitClass, buf: &mut Buffer) {
        let style = Style::new().fg(self.theme.class(class));
        if !self.theme.blends() {
            let cells = ((share * f64::from(area.width)).round() as u16).clamp(u16::from(share > 0.0), area.width);
            let from = if side == Side::Before { area.right() - cells } else { area.x };
            (from..from + cells).for_each(|x| dot(buf, x, area.y, self.theme.fill(class), style));
        } else if side == Side::After {
            bar(buf, area, share, style, self.theme);
        } else {
            let eighths = ((share.clamp(0.0, 1.0) * f64::from(area.width) * 8.0).round() as u16).max(u16::from(share > 0.0));
            let (full, part) = (eighths / 8, eighths % 8);
            (area.right() - full..area.right()).for_each(|x| dot(buf, x, area.y, self.theme.glyphs().growing[8], style));
            if part > 0 && full < area.width {
                // The blocks only grow from the left: the rest of the cell is drawn, reversed.
                let rest = self.theme.glyphs().growing.get(usize::from(8 - part)).unwrap_or(&" ");
                dot(buf, area.right() - full - 1, area.y, rest, style.add_modifier(Modifier::REVERSED));
            }
        }
    }

    /// Lines from the neighbours to the event in the middle.
    fn join(&self, area: Rect, side: Side, shown: u16, at: u16, buf: &mut Buffer) {
        buf.set_style(row(area, 0).intersection(buf.area), self.theme.of(Role::Header));
        if shown == 0 {
            return;
        }
        let last = at.max(shown - 1);
        let style = self.theme.of(Role::Axis);
        // Sides a cell reaches: up 1, down 2, left 4, right 8.
        let (out, inward) = if side == Side::Before { (4, 8) } else { (8, 4) };
        let (outer, knot) = if side == Side::Before { (area.x, area.x + 1) } else { (area.x + 1, area.x) };
        for n in 0..=last {
            let y = area.y + 1 + n;
            let mut reach = usize::from(n > 0) + 2 * usize::from(n < last);
            if n < shown {
                reach |= out;
                dot(buf, outer, y, self.theme.glyphs().lines[12], style);
            }
            if n == at {
                reach |= inward;
            }
            dot(buf, knot, y, self.theme.glyphs().lines.get(reach).unwrap_or(&" "), style);
        }
    }
}

/// Where things are on a line of a side: name, count, mean, percent, bar. The right side is the left one's mirror image.
fn cells(line: Rect, side: Side, widths: &Widths) -> [Rect; 5] {
    let cell = |x: u16, width: u16| Rect { x, width, ..line };
    let Widths { name, count, mean, bar } = *widths;
    if side == Side::Before {
        let x = line.x + 1;
        let numbers = x + 2 + name;
        [
            cell(x, name + 2),
            cell(numbers, count),
            cell(numbers + count, mean),
            cell(numbers + count + mean, 6),
            cell(line.right().saturating_sub(bar), bar),
        ]
    } else {
        let numbers = line.x + bar;
        let x = numbers + 6 + count + mean + 1;
        [cell(x, name + 2), cell(numbers + 6, count), cell(numbers + 6 + count, mean), cell(numbers, 6), cell(line.x, bar)]
    }
}

/// What the drawing is of.
pub fn note(flow: &Flow, answer: &Answer, state: &State, theme: &Theme, area: Rect, buf: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let n = flow.transitions;
    let text = format!("{} {}", format::count(n), if n == 1 { "transition" } else { "transitions" });
    let mut x = put(buf, area, area.x + 1, area.y, &text, theme.of(Role::Strong));
    let measure = if state.weigh == Weigh::Count { "by count" } else { "by time" };
    x = put(buf, area, x + 1, area.y, measure, theme.of(Role::Dim));
    note_right(answer, state, theme, area, x, buf);
}
