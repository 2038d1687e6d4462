//! The tab bar: every page with its key.

use crate::ui::action::Action;
use crate::ui::draw::hits::{Hits, Target};
use crate::ui::pages::Page;
use crate::ui::text::put;
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::StatefulWidget;

/// The tab bar.
#[derive(Debug)]
pub struct Tabs<'a> {
    /// The page shown.
    pub page: Page,
    /// Styles.
    pub theme: &'a Theme,
}

impl StatefulWidget for &Tabs<'_> {
    type State = Hits;

    fn render(self, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
        let mut x = area.x;
        // Where not all titles fit, those of other pages are cut.
        let whole: usize = Page::ALL.iter().map(|p| p.title().len() + 4).sum();
        let room = if whole > usize::from(area.width) { 4 } else { usize::MAX };
        for page in Page::ALL {
            let start = x;
            let active = page == self.page;
            let key = self.theme.of(if active { Role::TabActive } else { Role::TabKey });
            let text = self.theme.of(if active { Role::TabActive } else { Role::Tab });
            x = put(buf, area, x, area.y, &format!(" {} ", Action::Show(page).key()), key);
            x = put(buf, area, x, area.y, &format!("{} ", page.title().get(..room).filter(|_| !active).unwrap_or(page.title())), text);
            hits.add(Rect { x: start, width: x - start, ..area }, Target::Tab(page));
        }
    }
}
