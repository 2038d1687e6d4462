//! The page Flow as a matrix: the row's event was followed by the column's in so many percent.

use super::flow::note;
use crate::analysis::answer::{Answer, Flow};
use crate::ui::draw::hits::{Hits, Target};
use crate::ui::draw::layout::percent;
use crate::ui::format;
use crate::ui::pages::flow::{Weigh, matrix, order};
use crate::ui::state::State;
use crate::ui::text::{dot, fit, put, put_right, row};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::StatefulWidget;

/// Cells of a column.
const COLUMN: u16 = 5;
/// Events that have a letter.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

/// The matrix.
#[derive(Debug)]
pub struct Matrix<'a> {
    /// What it shows.
    pub flow: &'a Flow,
    /// The answer that is of.
    pub answer: &'a Answer,
    /// Where things are and what is selected.
    pub state: &'a State,
    /// Styles.
    pub theme: &'a Theme,
}

fn letter(i: usize) -> &'static str {
    LETTERS.get(i..=i).unwrap_or(" ")
}

impl StatefulWidget for &Matrix<'_> {
    type State = Hits;

    fn render(self, _: Rect, buf: &mut Buffer, hits: &mut Hits) {
        let areas = self.state.areas();
        note(self.flow, self.answer, self.state, self.theme, areas.note, buf);
        let area = areas.table;
        if area.height < 2 {
            return;
        }
        // Letters follow the whole order, so that narrowing the rows does not rename them.
        let all = order(self.flow, self.state.weigh);
        let names = percent(area.width, 28).clamp(24, 40);
        let count = usize::from(area.width.saturating_sub(names + 10) / COLUMN).min(LETTERS.len()).min(all.len());
        let columns = all.get(..count).unwrap_or_default();
        let title = row(area, 0);
        let header = self.theme.of(Role::Header);
        buf.set_style(title.intersection(buf.area), header);
        put(buf, title, title.x + 1, title.y, "followed by, %", header);
        let start = area.x + names + 9;
        put_right(buf, Rect { width: names + 8, ..title }, if self.state.weigh == Weigh::Count { "count" } else { "time" }, header);
        for (x, i) in (0..).map(|n| start + n * COLUMN).zip(0..count) {
            put_right(buf, Rect { x, width: COLUMN, ..title }, letter(i), header);
        }
        let view = self.state.place.view();
        let room = usize::from(area.height - 1);
        let rows: Vec<usize> = self.state.rows.iter().copied().skip(view.offset).take(room).collect();
        let values = matrix(self.flow, &rows, columns, self.state.weigh);
        for (n, (place, (node, values))) in (1..area.height).zip((view.offset..).zip(rows.iter().zip(values))) {
            let line = row(area, n);
            hits.add(line, Target::Row(place));
            let selected = place == view.index;
            if selected {
                buf.set_style(line.intersection(buf.area), self.theme.of(Role::Selected));
                dot(buf, line.x, line.y, self.theme.glyphs().selected, self.theme.of(Role::Selected));
            }
            self.line(line, *node, all.iter().position(|i| i == node).unwrap_or(usize::MAX), selected, (names, start), &values, buf);
        }
        if self.state.rows.len() > view.offset + room {
            dot(buf, area.right() - 1, area.bottom() - 1, self.theme.glyphs().descending, self.theme.of(Role::Dim));
        }
    }
}

impl Matrix<'_> {
    #[allow(clippy::too_many_arguments)]
    fn line(
        &self,
        line: Rect,
        node: usize,
        at: usize,
        selected: bool,
        (names, start): (u16, u16),
        values: &[Option<f64>],
        buf: &mut Buffer,
    ) {
        let Some(node) = self.flow.nodes.get(node) else { return };
        let tone = |role: Role| {
            let own = self.theme.of(role);
            if selected { own.patch(self.theme.of(Role::Selected)) } else { own }
        };
        let glyphs = self.theme.glyphs();
        put(buf, line, line.x + 1, line.y, letter(at), tone(Role::Dim));
        let (glyph, style) = self.theme.swatch(node.class);
        put(buf, line, line.x + 3, line.y, glyph, style);
        let name = format::safe(&node.name);
        put(buf, line, line.x + 5, line.y, &fit(&name, usize::from(names.saturating_sub(5)), glyphs.ellipsis), tone(Role::Text));
        let weight = if self.state.weigh == Weigh::Count { format::count(node.count) } else { format::duration(node.time_ns) };
        put_right(buf, Rect { width: names + 8, ..line }, &weight, tone(Role::Text));
        for (x, value) in (0..).map(|n| start + n * COLUMN).zip(values) {
            let (text, role) = match value {
                None => (glyphs.dot.to_owned(), Role::Dim),
                Some(v) if *v < 0.005 => ("<1".to_owned(), Role::Dim),
                Some(v) if *v >= 0.5 => (format!("{:.0}", v * 100.0), Role::Strong),
                Some(v) => (format!("{:.0}", v * 100.0), Role::Text),
            };
            put_right(buf, Rect { x, width: COLUMN, ..line }, &text, tone(role));
        }
    }
}
