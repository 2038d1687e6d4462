//! The footer: keys that act now, or a word to the user.

use crate::ui::action::{Hint, TABLE, short_key};
use crate::ui::draw::hits::{Hits, Target};
use crate::ui::state::State;
use crate::ui::text::{put, width};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::StatefulWidget;

/// The footer.
#[derive(Debug)]
pub struct Footer<'a> {
    /// What acts now.
    pub state: &'a State,
    /// Styles.
    pub theme: &'a Theme,
}

impl StatefulWidget for &Footer<'_> {
    type State = Hits;

    fn render(self, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
        if let Some(toast) = &self.state.toast {
            put(buf, area, area.x, area.y, &format!(" {} ", toast.text), self.theme.of(Role::Toast));
            return;
        }
        let ascii = self.state.start.ascii;
        let mut hints: Vec<_> = TABLE.iter().filter_map(|e| Some((e, e.hint?))).filter(|(e, _)| (e.acts)(self.state)).collect();
        hints.sort_by_key(|(_, h)| h.order);
        let keys = |e: &'static crate::ui::action::Entry, h: Hint| {
            let first = short_key(e.action.key(), ascii);
            h.with.map_or_else(|| first.to_owned(), |other| format!("{first}{}", short_key(other.key(), ascii)))
        };
        // On a page of columns, the cursor's keys lead from one to the next.
        let label = |e: &crate::ui::action::Entry, h: Hint| {
            if e.action == crate::ui::action::Action::Left && self.state.has_sides() { "column" } else { h.label }
        };
        let mut room = usize::from(area.width) + 1;
        // Help and quit always fit; of the others, those that come first.
        let kept: Vec<_> = {
            let size = |(e, h): &(&'static crate::ui::action::Entry, Hint)| width(&keys(e, *h)) + 1 + label(e, *h).len() + 2;
            let last: Vec<_> = hints.iter().rev().take(2).rev().copied().collect();
            room = room.saturating_sub(last.iter().map(size).sum());
            let n = hints.len().saturating_sub(2);
            let first = hints.into_iter().take(n).filter(|h| {
                let fits = size(h) <= room;
                room -= if fits { size(h) } else { 0 };
                fits
            });
            first.collect::<Vec<_>>().into_iter().chain(last).collect()
        };
        let mut x = area.x + 1;
        for (entry, hint) in kept {
            let start = x;
            x = put(buf, area, x, area.y, &keys(entry, hint), self.theme.of(Role::HintKey));
            x = put(buf, area, x + 1, area.y, label(entry, hint), self.theme.of(Role::Hint));
            hits.add(Rect { x: start, width: x - start, ..area }, Target::Hint(entry.action));
            x += 2;
        }
    }
}
