//! One line of text being typed, with a cursor that steps over whole characters as the user sees them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

/// Longest text that can be typed or pasted, bytes.
const LONGEST: usize = 4_096;

/// Text and cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    before: String,
    after: String,
    /// Nothing was typed yet: the first character takes the place of all.
    offered: bool,
}

impl Line {
    /// With this text, the cursor at its end.
    pub fn new(text: &str) -> Self {
        Self { before: text.into(), ..Self::default() }
    }

    /// With a text that Enter takes, and that the first character typed takes the place of.
    pub fn offering(text: &str) -> Self {
        Self { offered: true, ..Self::new(text) }
    }

    /// The text.
    pub fn text(&self) -> String {
        format!("{}{}", self.before, self.after)
    }

    /// The text before the cursor and behind it.
    pub fn halves(&self) -> (&str, &str) {
        (&self.before, &self.after)
    }

    /// Puts text in at the cursor; line breaks become spaces, other control characters are left out.
    pub fn insert(&mut self, text: &str) {
        if std::mem::take(&mut self.offered) {
            self.before.clear();
            self.after.clear();
        }
        for c in text.chars() {
            if self.before.len() + self.after.len() + c.len_utf8() > LONGEST {
                return;
            }
            match c {
                '\n' | '\t' => self.before.push(' '),
                c if c.is_control() => {}
                c => self.before.push(c),
            }
        }
    }

    /// Takes in a key. False when it is none of an editor's.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if !matches!(key.code, KeyCode::Char(_)) || control {
            self.offered = false;
        }
        match key.code {
            KeyCode::Char('a') if control => self.home(),
            KeyCode::Char('e') if control => self.end(),
            KeyCode::Char('u') if control => self.before.clear(),
            KeyCode::Char('k') if control => self.after.clear(),
            KeyCode::Char('w') if control => self.drop_word(),
            KeyCode::Char('h') if control => self.drop_left(),
            KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => self.insert(c.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace => self.drop_left(),
            KeyCode::Delete => {
                let n = self.after.graphemes(true).next().map_or(0, str::len);
                self.after.drain(..n);
            }
            KeyCode::Left => {
                let n = self.before.graphemes(true).next_back().map_or(0, str::len);
                let moved = self.before.split_off(self.before.len() - n);
                self.after.insert_str(0, &moved);
            }
            KeyCode::Right => {
                let n = self.after.graphemes(true).next().map_or(0, str::len);
                self.before.extend(self.after.drain(..n));
            }
            KeyCode::Home => self.home(),
            KeyCode::End => self.end(),
            _ => return false,
        }
        true
    }

    fn home(&mut self) {
        self.before.push_str(&self.after);
        self.after = std::mem::take(&mut self.before);
    }

    fn end(&mut self) {
        self.before.push_str(&self.after);
        self.after.clear();
    }

    fn drop_left(&mut self) {
        let n = self.before.graphemes(true).next_back().map_or(0, str::len);
        self.before.truncate(self.before.len() - n);
    }

    fn drop_word(&mut self) {
        let word = self.before.trim_end().char_indices().rev().find(|(_, c)| c.is_whitespace());
        let kept = word.map_or(0, |(i, c)| i + c.len_utf8());
        self.before.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[(KeyCode, KeyModifiers)]) -> Line {
        let mut line = Line::new("größe 👩‍👩‍👧x");
        for (code, modifiers) in keys {
            line.key(KeyEvent::new(*code, *modifiers));
        }
        line
    }

    #[test]
    fn the_cursor_steps_over_whole_characters() {
        let none = KeyModifiers::NONE;
        assert_eq!(typed(&[(KeyCode::Left, none), (KeyCode::Backspace, none)]).halves(), ("größe ", "x"));
        assert_eq!(typed(&[(KeyCode::Char('w'), KeyModifiers::CONTROL)]).text(), "größe ");
        assert_eq!(typed(&[(KeyCode::Home, none), (KeyCode::Delete, none)]).text(), "röße 👩‍👩‍👧x");
    }

    #[test]
    fn pasted_text_stays_one_line_and_bounded() {
        let mut line = Line::default();
        line.insert("a\nb\u{1b}[31mc");
        assert_eq!(line.text(), "a b[31mc");
        line.insert(&"x".repeat(10_000));
        assert_eq!(line.text().len(), LONGEST);
    }
}
