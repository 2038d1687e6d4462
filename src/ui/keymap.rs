//! Keys as written (`Ctrl-c`, `PgUp`, `a`) and the lookup from a key press to an [`Action`]. Nobody else matches on key codes, except
//! text prompts.

use super::action::{Action, TABLE};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rustc_hash::FxHashMap;
use std::fmt;
use std::str::FromStr;

/// A key with its modifiers, in one normal form: characters carry no Shift, and Ctrl-H is Backspace (terminals cannot tell them apart).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    code: KeyCode,
    modifiers: KeyModifiers,
}

/// Names of keys that are not characters.
const NAMES: [(&str, KeyCode); 17] = [
    ("Enter", KeyCode::Enter),
    ("Backspace", KeyCode::Backspace),
    ("Esc", KeyCode::Esc),
    ("Space", KeyCode::Char(' ')),
    ("Tab", KeyCode::Tab),
    ("BackTab", KeyCode::BackTab),
    ("Up", KeyCode::Up),
    ("Down", KeyCode::Down),
    ("Left", KeyCode::Left),
    ("Right", KeyCode::Right),
    ("PgUp", KeyCode::PageUp),
    ("PgDn", KeyCode::PageDown),
    ("Home", KeyCode::Home),
    ("End", KeyCode::End),
    ("Delete", KeyCode::Delete),
    ("Insert", KeyCode::Insert),
    ("F1", KeyCode::F(1)),
];

/// Characters that terminals use themselves or cannot tell from other keys when Ctrl is held.
const TAKEN: [char; 6] = ['s', 'q', 'h', 'i', 'm', '['];

impl Key {
    /// Whether a default binding on it would do harm: flow control, or another key in disguise.
    pub fn is_taken(self) -> bool {
        self.modifiers.contains(KeyModifiers::CONTROL) && matches!(self.code, KeyCode::Char(c) if TAKEN.contains(&c.to_ascii_lowercase()))
    }

    /// Whether it can be typed without a modifier that some terminals do not send.
    pub fn is_plain(self) -> bool {
        self.modifiers.is_empty()
    }
}

impl From<KeyEvent> for Key {
    fn from(event: KeyEvent) -> Self {
        let mut modifiers = event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        let mut code = event.code;
        if let KeyCode::Char(c) = code {
            modifiers.remove(KeyModifiers::SHIFT);
            if modifiers.contains(KeyModifiers::CONTROL) {
                code = KeyCode::Char(c.to_ascii_lowercase());
            }
            if code == KeyCode::Char('h') && modifiers == KeyModifiers::CONTROL {
                return Self { code: KeyCode::Backspace, modifiers: KeyModifiers::NONE };
            }
        } else {
            modifiers.remove(KeyModifiers::SHIFT);
        }
        Self { code, modifiers }
    }
}

impl From<Key> for KeyEvent {
    fn from(key: Key) -> Self {
        Self::new(key.code, key.modifiers)
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (modifiers, name) = match text.strip_prefix("Ctrl-") {
            Some(rest) => (KeyModifiers::CONTROL, rest),
            None => match text.strip_prefix("Alt-") {
                Some(rest) => (KeyModifiers::ALT, rest),
                None => (KeyModifiers::NONE, text),
            },
        };
        if let Some((_, code)) = NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)) {
            return Ok(Self { code: *code, modifiers });
        }
        let mut chars = name.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) if !c.is_control() => Ok(Self { code: KeyCode::Char(c), modifiers }),
            _ => Err(format!("'{text}' is not a key: use one character, Ctrl- or Alt- and a character, or a name such as Enter, PgUp, F1")),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.modifiers.contains(KeyModifiers::CONTROL) {
            f.write_str("Ctrl-")?;
        }
        if self.modifiers.contains(KeyModifiers::ALT) {
            f.write_str("Alt-")?;
        }
        match (NAMES.iter().find(|(_, c)| *c == self.code), self.code) {
            (Some((name, _)), _) => f.write_str(name),
            (None, KeyCode::Char(c)) => write!(f, "{c}"),
            (None, KeyCode::F(n)) => write!(f, "F{n}"),
            (None, other) => write!(f, "{other:?}"),
        }
    }
}

/// Which key does what.
#[derive(Debug, Clone)]
pub struct Keymap {
    bindings: FxHashMap<Key, Action>,
}

impl Default for Keymap {
    fn default() -> Self {
        let keys = TABLE.iter().flat_map(|entry| entry.keys.iter().filter_map(|k| Some((k.parse().ok()?, entry.action))));
        Self { bindings: keys.collect() }
    }
}

impl Keymap {
    /// What this key does.
    pub fn action(&self, key: Key) -> Option<Action> {
        self.bindings.get(&key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(code: KeyCode, modifiers: KeyModifiers) -> Key {
        KeyEvent::new(code, modifiers).into()
    }

    #[test]
    fn every_binding_parses_is_unique_and_leaves_the_terminals_own_keys_alone() {
        let mut seen: FxHashMap<Key, Action> = FxHashMap::default();
        for entry in TABLE {
            assert!(!entry.keys.is_empty(), "{} has no key", entry.name);
            for text in entry.keys {
                let key: Key = text.parse().unwrap();
                assert_eq!(key.to_string(), *text, "keys are written one way");
                assert!(!key.is_taken(), "{text} belongs to the terminal");
                assert_eq!(seen.insert(key, entry.action), None, "{text} is bound twice");
            }
        }
    }

    #[test]
    fn every_action_can_be_reached_without_modifiers_unless_the_shell_expects_one() {
        for entry in TABLE {
            let plain = entry.keys.iter().any(|k| k.parse::<Key>().unwrap().is_plain());
            let customary = matches!(entry.action, Action::Abort | Action::Suspend | Action::Redraw);
            assert!(plain || customary, "{} needs a modifier", entry.name);
        }
    }

    #[test]
    fn shifted_characters_and_disguised_backspace_are_normal() {
        assert_eq!(press(KeyCode::Char('G'), KeyModifiers::SHIFT), "G".parse().unwrap());
        assert_eq!(press(KeyCode::Char('h'), KeyModifiers::CONTROL), "Backspace".parse().unwrap());
        assert_eq!(press(KeyCode::Char('C'), KeyModifiers::CONTROL | KeyModifiers::SHIFT), "Ctrl-c".parse().unwrap());
        assert!("Ctrl-".parse::<Key>().is_err());
        assert!("Hyper-x".parse::<Key>().is_err());
    }
}
