//! The palette: every action, narrowed by what is typed.

use super::popup::{Popup, centred, inside};
use crate::ui::action::{Action, short_key};
use crate::ui::draw::hits::{Hits, Target};
use crate::ui::state::State;
use crate::ui::state::layer::Palette;
use crate::ui::text::{put, put_right, row};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{StatefulWidget, Widget};

/// The palette on the screen.
#[derive(Debug)]
pub struct List<'a> {
    /// What is typed and selected.
    pub palette: &'a Palette,
    /// What acts now.
    pub state: &'a State,
    /// Styles.
    pub theme: &'a Theme,
}

impl StatefulWidget for &List<'_> {
    type State = Hits;

    fn render(self, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
        let frame = centred(area, 70, 20);
        hits.add(frame, Target::Popup);
        (&Popup { title: "Actions", foot: "type to find, enter does it, esc closes", theme: self.theme }).render(frame, buf);
        let inner = inside(frame);
        super::prompt::line(&self.palette.line, ":", row(inner, 0), buf, self.theme);
        let found = self.palette.found();
        let room = usize::from(inner.height.saturating_sub(1));
        let first = self.palette.index.saturating_sub(room.saturating_sub(1));
        for (n, (i, action)) in (1u16..inner.height).zip(found.into_iter().enumerate().skip(first)) {
            self.item(i, action, row(inner, n), buf, hits);
        }
    }
}

impl List<'_> {
    fn item(&self, i: usize, action: Action, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
        let Some(entry) = action.entry() else { return };
        hits.add(area, Target::Item(i));
        let selected = i == self.palette.index;
        let base = if selected { self.theme.of(Role::PopupSelected) } else { self.theme.of(Role::Popup) };
        buf.set_style(area.intersection(buf.area), base);
        let acts = (entry.acts)(self.state);
        let style = if acts || selected { base } else { base.patch(self.theme.of(Role::Dim)) };
        put(buf, area, area.x, area.y, if selected { self.theme.glyphs().selected } else { " " }, base);
        put(buf, area, area.x + 2, area.y, entry.title, style);
        let keys: Vec<_> = entry.keys.iter().map(|k| short_key(k, self.state.start.ascii)).collect();
        let key_style = if selected { base } else { self.theme.of(Role::PopupKey) };
        put_right(buf, area, &format!("  {}", keys.join(" ")), key_style);
    }
}
