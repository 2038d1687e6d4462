//! The filter prompt: the line being typed, and below or above it what is wrong with it or what could be typed.

use crate::ui::state::layer::Prompt;
use crate::ui::state::line::Line;
use crate::ui::text::{put, row, width};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::widgets::Widget;

/// The prompt at the bottom of the screen, two lines.
#[derive(Debug)]
pub struct Bottom<'a> {
    /// What is typed.
    pub prompt: &'a Prompt,
    /// Rows that pass while typing.
    pub rows: usize,
    /// Styles.
    pub theme: &'a Theme,
}

impl Widget for &Bottom<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let (hint, role) = match &self.prompt.error {
            Some(error) => (crate::ui::format::line(error).into_owned(), Role::PromptError),
            None => (
                format!(
                    "words narrow the rows ({} now); class=Lock event=IO:DataFileRead pid=4711 query=-42 db=shop user=app kind=client",
                    self.rows
                ),
                Role::Prompt,
            ),
        };
        let above = row(area, 0);
        buf.set_style(area.intersection(buf.area), self.theme.of(Role::Prompt));
        put(
            buf,
            above,
            above.x + 1,
            above.y,
            &super::super::text::fit(&hint, usize::from(area.width.saturating_sub(2)), self.theme.glyphs().ellipsis),
            self.theme.of(role),
        );
        line(&self.prompt.line, " /", row(area, 1), buf, self.theme);
    }
}

/// A line being typed, with its cursor always in sight.
pub fn line(line: &Line, sign: &str, area: Rect, buf: &mut Buffer, theme: &Theme) {
    let style = theme.of(Role::Prompt);
    buf.set_style(area.intersection(buf.area), style);
    let start = put(buf, area, area.x, area.y, sign, style);
    let (before, after) = line.halves();
    let (before, after) = (crate::ui::format::line(before), crate::ui::format::line(after));
    // When the text before the cursor is too long, its end is shown.
    let room = usize::from(area.right().saturating_sub(start)).saturating_sub(2);
    let mut from = 0;
    let mut over = width(&before).saturating_sub(room);
    for c in before.chars() {
        if over == 0 {
            break;
        }
        from += c.len_utf8();
        over = over.saturating_sub(width(c.encode_utf8(&mut [0; 4])).max(1));
    }
    let x = put(buf, area, start, area.y, before.get(from..).unwrap_or_default(), style);
    put(buf, area, x, area.y, if after.is_empty() { " " } else { &after }, style);
    if let Some(cell) = buf.cell_mut((x, area.y)).filter(|_| x < area.right()) {
        cell.set_style(style.add_modifier(Modifier::REVERSED));
    }
}
