//! The list of themes; the one selected is already in use.

use super::popup::{Popup, centred, inside};
use crate::ui::draw::hits::{Hits, Target};
use crate::ui::state::layer::Themes;
use crate::ui::text::{put, row};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{StatefulWidget, Widget};

/// The list on the screen.
#[derive(Debug)]
pub struct Picker<'a> {
    /// What is selected.
    pub themes: &'a Themes,
    /// Styles.
    pub theme: &'a Theme,
}

impl StatefulWidget for &Picker<'_> {
    type State = Hits;

    fn render(self, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
        let names = Theme::names();
        let frame = centred(area, 70, u16::try_from(names.len()).unwrap_or(0) + 2);
        hits.add(frame, Target::Popup);
        (&Popup { title: "Theme", foot: "enter takes it, esc keeps the one before", theme: self.theme }).render(frame, buf);
        let inner = inside(frame);
        for (n, (i, (name, about))) in (0u16..).zip(names.into_iter().enumerate()) {
            let area = row(inner, n);
            hits.add(area, Target::Item(i));
            let selected = i == self.themes.index;
            let style = self.theme.of(if selected { Role::PopupSelected } else { Role::Popup });
            buf.set_style(area.intersection(buf.area), style);
            put(buf, area, area.x, area.y, if selected { self.theme.glyphs().selected } else { " " }, style);
            put(buf, area, area.x + 2, area.y, name, style);
            put(buf, area, area.x + 18, area.y, &about, style);
        }
    }
}
