//! What stands where rows would be when there are none: why, and what to do. Also the page for a terminal that is too small.

use crate::ui::text::{put, width, wrap};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

/// A few centred lines.
#[derive(Debug)]
pub struct Notice<'a> {
    /// The first line.
    pub headline: String,
    /// How it stands out.
    pub role: Role,
    /// Lines below it.
    pub more: Vec<String>,
    /// Styles.
    pub theme: &'a Theme,
}

impl Widget for &Notice<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let room = usize::from(area.width.saturating_sub(4)).max(2);
        let mut lines: Vec<(&str, Role)> = wrap(&self.headline, room).into_iter().map(|l| (l, self.role)).collect();
        lines.extend(self.more.iter().flat_map(|t| wrap(t, room)).map(|l| (l, Role::Dim)));
        let above = usize::from(area.height).saturating_sub(lines.len()) / 3;
        for (y, (line, role)) in (area.top()..area.bottom()).skip(above).zip(lines) {
            let w = u16::try_from(width(line)).unwrap_or(area.width);
            put(buf, area, area.x + area.width.saturating_sub(w) / 2, y, line, self.theme.of(role));
        }
    }
}
