//! A bar of one row, divided by wait class, to an eighth of a cell.

use crate::trace::wait::WaitClass;
use crate::ui::chart::stack::{Fill, stack};
use crate::ui::pages::column::Parts;
use crate::ui::text::dot;
use crate::ui::theme::Theme;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

/// A bar.
#[derive(Debug)]
pub struct Bar<'a> {
    /// Share of the width, 0 to 1.
    pub share: f64,
    /// Whose colours.
    pub parts: Parts<'a>,
    /// Styles.
    pub theme: &'a Theme,
}

impl Widget for &Bar<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        if area.is_empty() || self.share <= 0.0 || !self.share.is_finite() {
            return;
        }
        let mut values = [0.0; WaitClass::ALL.len()];
        match self.parts {
            Parts::One(class) => values.iter_mut().skip(class.index()).take(1).for_each(|v| *v = 1.0),
            Parts::Many(ns) => values.iter_mut().zip(ns).for_each(|(v, ns)| *v = *ns as f64),
        }
        let whole = values.iter().sum::<f64>() / self.share.min(1.0);
        for (x, fill) in (area.left()..area.right()).zip(stack(&values, whole, usize::from(area.width))) {
            let growing = |n: usize| self.theme.glyphs().growing.get(n).copied().unwrap_or(" ");
            match fill {
                Fill::Empty => {}
                _ if !self.theme.blends() => {
                    if let Some(class) = fill.main().filter(|_| fill.eighths() >= 4 || x == area.left()) {
                        dot(buf, x, area.y, self.theme.fill(class), Style::new().fg(self.theme.class(class)));
                    }
                }
                Fill::Part(class, n) => dot(buf, x, area.y, growing(n), Style::new().fg(self.theme.class(class))),
                Fill::Two(left, n, right) => {
                    dot(buf, x, area.y, growing(n), Style::new().fg(self.theme.class(left)).bg(self.theme.class(right)));
                }
            }
        }
    }
}
