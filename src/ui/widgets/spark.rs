//! A line of points in one row, scaled to its own largest. Zero is blank; a point that was not observed has a mark of its own.

use crate::trace::wait::WaitClass;
use crate::ui::text::dot;
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

/// A line of points.
#[derive(Debug)]
pub struct Spark<'a> {
    /// Oldest first; `None` was not observed.
    pub points: &'a [Option<f32>],
    /// Whose colour.
    pub class: Option<WaitClass>,
    /// Styles.
    pub theme: &'a Theme,
}

impl Widget for &Spark<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let n = self.points.len().min(usize::from(area.width));
        if n == 0 {
            return;
        }
        let shown: Vec<Option<f32>> = (0..n).map(|i| self.joined(i, n)).collect();
        let top = shown.iter().flatten().copied().fold(0.0f32, f32::max);
        let style = self.class.map_or_else(|| self.theme.of(Role::Text), |c| Style::new().fg(self.theme.class(c)));
        for (x, point) in (area.left()..).zip(shown) {
            match point {
                None => dot(buf, x, area.y, self.theme.glyphs().spark_gap, self.theme.of(Role::RowGap)),
                Some(v) if v > 0.0 && top > 0.0 => {
                    let level = ((v / top * 7.0).ceil() as usize).clamp(1, 7) - 1;
                    dot(buf, x, area.y, self.theme.glyphs().spark.get(level).unwrap_or(&" "), style);
                }
                Some(_) => {}
            }
        }
    }
}

impl Spark<'_> {
    /// Point `i` of `n`: the mean of those it stands for, a gap only when none was observed.
    fn joined(&self, i: usize, n: usize) -> Option<f32> {
        let (from, to) = (i * self.points.len() / n, (i + 1) * self.points.len() / n);
        let seen: Vec<f32> = self.points.get(from..to.max(from + 1))?.iter().flatten().copied().filter(|v| v.is_finite()).collect();
        (!seen.is_empty()).then(|| seen.iter().sum::<f32>() / seen.len() as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::theme::color::{Depth, Environment};

    fn drawn(points: &[Option<f32>], width: u16) -> String {
        let theme = Theme::load("mono", Depth::Mono, false, &Environment::default()).unwrap();
        let mut buf = Buffer::empty(Rect::new(0, 0, width, 1));
        (&Spark { points, class: None, theme: &theme }).render(buf.area, &mut buf);
        buf.content.iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn gaps_are_not_zeros() {
        assert_eq!(drawn(&[Some(0.0), None, Some(4.0), Some(2.0), Some(0.01)], 6), " ┈▇▄▁ ");
        assert_eq!(drawn(&[Some(1.0), Some(3.0), None, None], 2), "▇┈");
        assert_eq!(drawn(&[None, Some(3.0)], 1), "▇");
        assert_eq!(drawn(&[], 3), "   ");
        assert_eq!(drawn(&[Some(f32::NAN)], 1), "┈");
    }
}
