//! The table of a page: titles, rows, selection. Columns that do not fit are left out by rank; what is never cut has a fixed width.

use super::bar::Bar;
use super::spark::Spark;
use crate::ui::draw::hits::{Hits, Target};
use crate::ui::pages::Row;
use crate::ui::pages::column::{Align, Cell, Column, Scene, Tone, Width};
use crate::ui::state::place::View;
use crate::ui::text::{dot, fit, put, row, width};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{StatefulWidget, Widget};

/// Share of what is left that long text takes.
const TEXT_WEIGHT: u16 = 9;
/// Rows that are measured for columns as wide as their content.
const MEASURED: usize = 200;

/// A table.
#[derive(Debug)]
pub struct Table<'a, R> {
    /// Rows as answered.
    pub rows: &'a [R],
    /// Which are shown, in order.
    pub order: &'a [usize],
    /// Order, selection, scroll position.
    pub view: View,
    /// What cells depend on.
    pub scene: Scene<'a>,
    /// Styles.
    pub theme: &'a Theme,
}

/// A column in its place.
struct Placed<R: 'static> {
    column: &'static Column<R>,
    x: u16,
    width: u16,
}

impl<R: Row> StatefulWidget for &Table<'_, R> {
    type State = Hits;

    fn render(self, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
        if area.is_empty() {
            return;
        }
        let placed = place(self.rows, self.order, &self.scene, area);
        self.titles(&placed, row(area, 0), buf, hits);
        let shown = self.order.iter().enumerate().skip(self.view.offset).take(usize::from(area.height - 1));
        for (line, (place, index)) in (1u16..).zip(shown) {
            let Some(data) = self.rows.get(*index) else { continue };
            let place_area = row(area, line);
            hits.add(place_area, Target::Row(place));
            let selected = place == self.view.index;
            if selected {
                buf.set_style(place_area, self.theme.of(Role::Selected));
                dot(buf, area.x, place_area.y, self.theme.glyphs().selected, self.theme.of(Role::Selected));
            }
            for p in &placed {
                let cell = Rect { x: p.x, width: p.width, ..place_area };
                self.cell(&(p.column.cell)(data, &self.scene), p.column.align, selected, cell, buf);
            }
        }
        self.edges(area, buf);
    }
}

/// Titles of the columns on the screen that rows can be ordered by.
pub fn sortable<R: Row>(rows: &[R], order: &[usize], scene: &Scene<'_>, area: Rect) -> Vec<&'static str> {
    place(rows, order, scene, area).into_iter().map(|p| p.column).filter(|c| c.order.is_some()).map(|c| c.title).collect()
}

/// Chooses columns and their widths.
fn place<R: Row>(rows: &[R], order: &[usize], scene: &Scene<'_>, area: Rect) -> Vec<Placed<R>> {
    let gap: u16 = if area.width >= 120 { 2 } else { 1 };
    let room = area.width.saturating_sub(2);
    let mut columns: Vec<(&'static Column<R>, u16, u16)> = R::COLUMNS
        .iter()
        .filter(|c| (c.shown)(scene))
        .map(|c| match c.width {
            Width::Fixed(n) => (c, n, 0),
            Width::Fit(least, most) => (c, content(c, rows, order, scene).clamp(least, most), 0),
            Width::Share(least, _, weight) => (c, least, weight),
            Width::Text(least, percent) => (c, least.max((u32::from(room) * u32::from(percent) / 100) as u16), TEXT_WEIGHT),
        })
        .collect();
    let need = |columns: &[(&Column<R>, u16, u16)]| columns.iter().fold(0u16, |sum, (_, w, _)| sum.saturating_add(w + gap));
    while need(&columns) > room.saturating_add(gap) {
        let Some((i, _)) = columns.iter().enumerate().filter(|(_, (c, _, _))| c.rank > 0).max_by_key(|(i, (c, _, _))| (c.rank, *i)) else {
            break;
        };
        columns.remove(i);
    }
    let mut left = room.saturating_add(gap).saturating_sub(need(&columns));
    // What a column at its most does not take goes to the others.
    loop {
        let most = |width| match width {
            Width::Share(_, most, _) => most,
            Width::Text(..) => u16::MAX,
            Width::Fixed(_) | Width::Fit(..) => 0,
        };
        let open = |(c, w, _): &(&Column<R>, u16, u16)| *w < most(c.width);
        let weights: u32 = columns.iter().filter(|c| open(c)).map(|(_, _, weight)| u32::from(*weight)).sum();
        if left == 0 || weights == 0 {
            break;
        }
        let pool = left;
        for entry in columns.iter_mut().filter(|c| open(c)) {
            let part = (u32::from(pool) * u32::from(entry.2) / weights).max(1) as u16;
            let part = part.min(most(entry.0.width) - entry.1).min(left);
            entry.1 += part;
            left -= part;
        }
    }
    let mut x = area.x + 1;
    let place = |(column, width, _)| {
        let placed = Placed { column, x, width };
        x = x.saturating_add(width + gap);
        placed
    };
    columns.into_iter().map(place).filter(|p| p.x < area.right()).collect()
}

/// Width of a column's widest content.
fn content<R: Row>(column: &Column<R>, rows: &[R], order: &[usize], scene: &Scene<'_>) -> u16 {
    let measured = order.iter().take(MEASURED).filter_map(|i| rows.get(*i));
    let widest = measured.map(|r| match (column.cell)(r, scene) {
        Cell::Text(text, _) => width(&text),
        _ => 0,
    });
    let title = width(column.title) + usize::from(column.order.is_some());
    u16::try_from(widest.max().unwrap_or(0).max(title)).unwrap_or(u16::MAX)
}

impl<R: Row> Table<'_, R> {
    fn titles(&self, placed: &[Placed<R>], area: Rect, buf: &mut Buffer, hits: &mut Hits) {
        buf.set_style(area, self.theme.of(Role::Header));
        for p in placed {
            let cell = Rect { x: p.x, width: p.width.min(area.right().saturating_sub(p.x)), ..area };
            let sorted = self.view.sort.column.or(R::ORDERED) == Some(p.column.title);
            let descending = (p.column.first == crate::ui::pages::column::First::Largest) != self.view.sort.reversed;
            let arrow = if descending { self.theme.glyphs().descending } else { self.theme.glyphs().ascending };
            let title = if sorted { format!("{}{arrow}", p.column.title) } else { p.column.title.to_owned() };
            let style = self.theme.of(if sorted { Role::HeaderSorted } else { Role::Header });
            put_aligned(buf, cell, &title, p.column.align, style, "");
            if p.column.order.is_some() {
                hits.add(cell, Target::Column(p.column.title));
            }
        }
    }

    fn tone(&self, tone: Tone, selected: bool) -> Style {
        let own = self.theme.of(match tone {
            Tone::Plain => Role::Text,
            Tone::Dim => Role::Dim,
            Tone::Strong => Role::Strong,
        });
        if selected { own.patch(self.theme.of(Role::Selected)) } else { own }
    }

    fn cell(&self, cell: &Cell<'_>, align: Align, selected: bool, area: Rect, buf: &mut Buffer) {
        match cell {
            Cell::Empty => {}
            Cell::Text(text, tone) => put_aligned(buf, area, text, align, self.tone(*tone, selected), self.theme.glyphs().ellipsis),
            Cell::Name { depth, class, text, note, tone } => {
                let mut x = area.x + [0, 1, 4].get(usize::from(*depth)).copied().unwrap_or(4);
                if let Some(class) = class {
                    let (glyph, style) = self.theme.swatch(*class);
                    x = put(buf, area, x, area.y, glyph, style) + 1;
                }
                let room = usize::from(area.right().saturating_sub(x));
                x = put(buf, area, x, area.y, &fit(text, room, self.theme.glyphs().ellipsis), self.tone(*tone, selected));
                if usize::from(area.right().saturating_sub(x)) > width(note) + 1 {
                    put(buf, area, x + 2, area.y, note, self.tone(Tone::Dim, selected));
                }
            }
            Cell::Bar(share, parts) => (&Bar { share: *share, parts: *parts, theme: self.theme }).render(area.intersection(buf.area), buf),
            Cell::Spark(points, class) => (&Spark { points, class: *class, theme: self.theme }).render(area.intersection(buf.area), buf),
        }
    }

    /// Marks at the right edge where rows go on.
    fn edges(&self, area: Rect, buf: &mut Buffer) {
        let style = self.theme.of(Role::Dim);
        let rows = usize::from(area.height - 1);
        let x = area.right().saturating_sub(1);
        if self.view.offset > 0 && rows > 0 {
            dot(buf, x, area.y + 1, self.theme.glyphs().ascending, style);
        }
        if self.order.len() > self.view.offset + rows && rows > 1 {
            dot(buf, x, area.bottom() - 1, self.theme.glyphs().descending, style);
        }
    }
}

fn put_aligned(buf: &mut Buffer, area: Rect, text: &str, align: Align, style: Style, ellipsis: &str) {
    let text = fit(text, usize::from(area.width), ellipsis);
    let pad = match align {
        Align::Left => 0,
        Align::Right => area.width.saturating_sub(u16::try_from(width(&text)).unwrap_or(0)),
    };
    put(buf, area, area.x.saturating_add(pad), area.y, &text, style);
}
