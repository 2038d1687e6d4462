//! What lies over the page: help, palette, prompts, theme list, detail panel. At most one at a time.

use super::line::Line;
use super::window::Asking;
use crate::ui::action::{Action, TABLE};
use crate::ui::pages::subject::Subject;

/// What lies over the page.
#[derive(Debug, Clone, PartialEq)]
pub enum Layer {
    /// Help, scrolled down so many lines.
    Help(usize),
    /// All actions.
    Palette(Palette),
    /// The filter, being edited.
    Prompt(Prompt),
    /// An exact or blocking window, being asked for.
    Window(Asking),
    /// A moment to go to, being typed.
    Jump(Jump),
    /// The list of themes.
    Themes(Themes),
    /// Everything about one thing.
    Detail(Detail),
}

impl Layer {
    /// Whether it stands in place of the page.
    pub fn is_detail(&self) -> bool {
        matches!(self, Self::Detail(_))
    }

    /// Whether it takes typed characters.
    pub fn is_typing(&self) -> bool {
        matches!(self, Self::Palette(_) | Self::Prompt(_) | Self::Window(_) | Self::Jump(_))
    }
}

/// The list of actions, narrowed by what is typed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Palette {
    /// What is typed.
    pub line: Line,
    /// Which of [`Self::found`] is selected.
    pub index: usize,
}

impl Palette {
    /// Actions whose title or name holds the typed characters in order, best first.
    pub fn found(&self) -> Vec<Action> {
        let typed = self.line.text().to_lowercase();
        let mut found: Vec<(usize, Action)> =
            TABLE.iter().filter_map(|e| Some((fuzzy(&typed, e.title).or_else(|| fuzzy(&typed, e.name))?, e.action))).collect();
        found.sort_by_key(|(distance, _)| *distance);
        found.into_iter().map(|(_, action)| action).collect()
    }
}

/// How far `typed` is spread over `text`; `None` when it is not in it. 0 is best.
fn fuzzy(typed: &str, text: &str) -> Option<usize> {
    let text = text.to_lowercase();
    if let Some(at) = text.find(typed) {
        return Some(at);
    }
    let mut rest = text.char_indices();
    let (mut first, mut last) = (None, 0);
    for c in typed.chars().filter(|c| !c.is_whitespace()) {
        let (at, _) = rest.find(|(_, t)| *t == c)?;
        first.get_or_insert(at);
        last = at;
    }
    Some(1_000 + last - first.unwrap_or(0))
}

/// The filter, being edited.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prompt {
    /// What is typed.
    pub line: Line,
    /// What is wrong with it.
    pub error: Option<String>,
    /// The words before editing began, restored when it is given up.
    pub words: Vec<String>,
}

/// A moment to go to, being typed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Jump {
    /// What is typed.
    pub line: Line,
    /// What is wrong with it.
    pub error: Option<String>,
}

/// The list of themes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Themes {
    /// Which is selected.
    pub index: usize,
    /// The theme before, restored when nothing is chosen.
    pub before: String,
}

/// The detail panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    /// What it is about.
    pub subject: Subject,
    /// First line shown.
    pub offset: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_palette_finds_letters_in_order_and_prefers_whole_words() {
        let find = |text: &str| Palette { line: Line::new(text), index: 0 }.found();
        assert_eq!(find("theme").first(), Some(&Action::Themes));
        assert_eq!(find("qt at once").first(), Some(&Action::Abort));
        assert!(find("zzzz").is_empty());
        assert_eq!(find("").len(), TABLE.len());
    }
}
