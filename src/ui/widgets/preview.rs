//! The SQL of the selected row in full, below the table.

use crate::analysis::answer::Sql;
use crate::ui::format;
use crate::ui::text::{dot, put, row, wrap};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

/// Wrapped SQL under a rule.
#[derive(Debug)]
pub struct Preview<'a> {
    /// The text.
    pub sql: &'a Sql,
    /// Styles.
    pub theme: &'a Theme,
}

impl Widget for &Preview<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        for x in area.left()..area.right() {
            dot(buf, x, area.y, self.theme.glyphs().rule, self.theme.of(Role::Rule));
        }
        put(
            buf,
            area,
            area.x + 2,
            area.y,
            &format!(" SQL{} ", if self.sql.truncated { ", cut by the server" } else { "" }),
            self.theme.of(Role::Dim),
        );
        let text = format::block(&self.sql.text);
        let lines = wrap(&text, usize::from(area.width.saturating_sub(2)));
        for (n, line) in (1..area.height).zip(&lines) {
            let place = row(area, n);
            let last = n + 1 == area.height && lines.len() > usize::from(area.height - 1);
            let x = put(buf, place, area.x + 1, place.y, line.trim_end(), self.theme.of(Role::Text));
            if last {
                put(buf, place, x.min(area.right().saturating_sub(2)), place.y, self.theme.glyphs().ellipsis, self.theme.of(Role::Dim));
            }
        }
    }
}
