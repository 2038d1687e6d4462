//! A frame over the page.

use crate::ui::text::{dot, put};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

/// A frame with a title; what is below it is gone.
#[derive(Debug)]
pub struct Popup<'a> {
    /// The title.
    pub title: &'a str,
    /// Said in the lower edge.
    pub foot: &'a str,
    /// Styles.
    pub theme: &'a Theme,
}

/// A place of about this size in the middle of `area`.
pub fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width.saturating_sub(2)), height.min(area.height.saturating_sub(2)));
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

/// The inside of a frame.
pub fn inside(area: Rect) -> Rect {
    Rect { x: area.x + 2, y: area.y + 1, width: area.width.saturating_sub(4), height: area.height.saturating_sub(2) }
}

impl Widget for &Popup<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        if area.width < 2 || area.height < 2 {
            return;
        }
        let (fill, style) = (self.theme.of(Role::Popup), self.theme.of(Role::PopupFrame));
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                if let Some(cell) = buf.cell_mut((x, y)) {
                    cell.reset();
                    cell.set_style(fill);
                }
            }
        }
        let [tl, tr, bl, br, h, v] = self.theme.glyphs().frame;
        let (right, bottom) = (area.right() - 1, area.bottom() - 1);
        for x in area.left() + 1..right {
            dot(buf, x, area.y, h, style);
            dot(buf, x, bottom, h, style);
        }
        for y in area.top() + 1..bottom {
            dot(buf, area.x, y, v, style);
            dot(buf, right, y, v, style);
        }
        for (x, y, corner) in [(area.x, area.y, tl), (right, area.y, tr), (area.x, bottom, bl), (right, bottom, br)] {
            dot(buf, x, y, corner, style);
        }
        let inner = Rect { width: area.width.saturating_sub(2), ..area };
        put(buf, inner, area.x + 2, area.y, &format!(" {} ", self.title), self.theme.of(Role::PopupTitle));
        if !self.foot.is_empty() {
            put(buf, inner, area.x + 2, bottom, &format!(" {} ", self.foot), style);
        }
    }
}
