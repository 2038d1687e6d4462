//! Theme files: TOML with a palette, roles and classes. A file may inherit another and then holds only what differs.
//!
//! Every mistake is one line that names the file, the mistake and what would be right.

use super::color::Paint;
use super::role::Role;
use crate::trace::wait::WaitClass;
use anyhow::{Context, Result, anyhow, bail};
use ratatui::style::Modifier;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The themes that are part of the program: name, text.
pub const BUILT_IN: [(&str, &str); 5] = [
    ("dark", include_str!("../../../themes/dark.toml")),
    ("light", include_str!("../../../themes/light.toml")),
    ("high-contrast", include_str!("../../../themes/high-contrast.toml")),
    ("ansi16", include_str!("../../../themes/ansi16.toml")),
    ("mono", include_str!("../../../themes/mono.toml")),
];

/// Themes that may inherit one another, at most.
const DEEPEST: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// One line for the theme list.
    #[serde(default)]
    about: String,
    inherits: Option<String>,
    #[serde(default)]
    palette: BTreeMap<String, String>,
    #[serde(default)]
    roles: BTreeMap<String, Look>,
    #[serde(default)]
    classes: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Look {
    Foreground(String),
    Whole(Whole),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Whole {
    fg: Option<String>,
    bg: Option<String>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    reverse: bool,
}

/// A style before the terminal's depth is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ink {
    /// Foreground; `None`: whatever is there.
    pub fg: Option<Paint>,
    /// Background; `None`: whatever is there.
    pub bg: Option<Paint>,
    /// Bold, dim and the like.
    pub modifier: Modifier,
}

/// A theme before the terminal's depth is known.
#[derive(Debug, Clone, Default)]
pub struct Sheet {
    /// One line about it.
    pub about: String,
    roles: Vec<(Role, Ink)>,
    classes: Vec<(WaitClass, Paint)>,
}

impl Sheet {
    /// Loads a built-in theme by name, or a file by path.
    pub fn load(name: &str) -> Result<Self> {
        load(name, 0)
    }

    /// The style of a role: its own, or its parent's.
    pub fn ink(&self, role: Role) -> Ink {
        let own = self.roles.iter().rev().find(|(r, _)| *r == role).map(|(_, ink)| *ink);
        own.or_else(|| role.parent().map(|p| self.ink(p))).unwrap_or_default()
    }

    /// The colour of a class; InjectionPoint and Unknown share one.
    pub fn class(&self, class: WaitClass) -> Paint {
        let find = |class| self.classes.iter().rev().find(|(c, _)| *c == class).map(|(_, paint)| *paint);
        find(class).or_else(|| find(WaitClass::Unknown)).unwrap_or_default()
    }

    fn read(text: &str, origin: &str, depth: usize) -> Result<Self> {
        let file: File = toml::from_str(text).map_err(|e| anyhow!("theme {origin}: {}", one_line(text, &e)))?;
        let mut sheet = match &file.inherits {
            Some(parent) => load(parent, depth + 1).with_context(|| format!("theme {origin} inherits {parent}"))?,
            None => Self::default(),
        };
        sheet.about = file.about;
        let paint = |text: &str| -> Result<Paint> {
            let text = file.palette.get(text).map_or(text, String::as_str);
            Paint::parse(text).map_err(|e| anyhow!("theme {origin}: {e}"))
        };
        for (name, look) in &file.roles {
            let role =
                Role::find(name).ok_or_else(|| anyhow!("theme {origin}: {}", unknown("role", name, Role::ALL.iter().map(|r| r.name()))))?;
            let whole = match look {
                Look::Foreground(fg) => Whole { fg: Some(fg.clone()), ..Whole::default() },
                Look::Whole(whole) => whole.clone(),
            };
            let flags = [
                (whole.bold, Modifier::BOLD),
                (whole.dim, Modifier::DIM),
                (whole.italic, Modifier::ITALIC),
                (whole.underline, Modifier::UNDERLINED),
                (whole.reverse, Modifier::REVERSED),
            ];
            let modifier = flags.into_iter().filter(|(on, _)| *on).fold(Modifier::empty(), |all, (_, m)| all | m);
            let ink = Ink { fg: whole.fg.as_deref().map(paint).transpose()?, bg: whole.bg.as_deref().map(paint).transpose()?, modifier };
            sheet.roles.push((role, ink));
        }
        for (name, color) in &file.classes {
            let class = WaitClass::parse(name).ok_or_else(|| {
                anyhow!("theme {origin}: {}", unknown("wait class", name, WaitClass::ALL.iter().map(|c| c.name().trim_end_matches('*'))))
            })?;
            sheet.classes.push((class, paint(color)?));
        }
        Ok(sheet)
    }
}

fn load(name: &str, depth: usize) -> Result<Sheet> {
    if depth > DEEPEST {
        bail!("theme {name}: themes inherit each other in a circle");
    }
    if let Some((_, text)) = BUILT_IN.iter().find(|(n, _)| *n == name) {
        return Sheet::read(text, name, depth);
    }
    if !name.contains('/') && Path::new(name).extension().is_none() {
        bail!("{}; or the path of a theme file", unknown("theme", name, BUILT_IN.iter().map(|(n, _)| *n).chain(["auto"])));
    }
    let text = std::fs::read_to_string(Path::new(name)).with_context(|| format!("cannot read theme file {name}"))?;
    Sheet::read(&text, name, depth)
}

/// `unknown role 'tabel': did you mean 'table.header'? There are: …`
fn unknown<'a>(what: &str, name: &str, valid: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = valid.clone().max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name))).unwrap_or_default();
    let all: Vec<&str> = valid.collect();
    format!("unknown {what} '{}': did you mean '{near}'? There are: {}", name.escape_debug(), all.join(", "))
}

/// A TOML error on one line, with the line it is on.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', " ");
    match error.span() {
        Some(span) => format!("line {}: {message}", text.get(..span.start).unwrap_or_default().matches('\n').count() + 1),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        format!("{:#}", Sheet::read(text, "x.toml", 0).unwrap_err())
    }

    #[test]
    fn built_in_themes_load() {
        for (name, _) in BUILT_IN {
            let sheet = Sheet::load(name).unwrap();
            assert!(!sheet.about.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_file_holds_only_what_differs() {
        let sheet = Sheet::read("inherits = 'dark'\n[palette]\nmine = '#010203 4 red'\n[roles]\n'table.header' = 'mine'", "x", 0).unwrap();
        let mine = Paint::parse("#010203 4 red").unwrap();
        assert_eq!(sheet.ink(Role::Header).fg, Some(mine));
        assert_eq!(sheet.class(WaitClass::Cpu), Sheet::load("dark").unwrap().class(WaitClass::Cpu));
        assert_eq!(Sheet::read("[roles]\ntext = '#010203 4 red'", "x", 0).unwrap().ink(Role::HeaderSorted).fg, Some(mine));
    }

    #[test]
    fn mistakes_are_one_line_that_says_what_would_be_right() {
        let cases = [
            ("[roles]\n'tabel.header' = 'red'", "did you mean 'table.header'?"),
            ("[roles]\ntext = 'mauve'", "'mauve' is not a colour"),
            ("[classes]\nlok = 'red'", "did you mean 'Lock'?"),
            ("\nnonsense = 1", "line 2: unknown field `nonsense`"),
            ("inherits = 'nobody'", "unknown theme 'nobody'"),
            ("[roles]\ntext = {", "line 2:"),
        ];
        for (text, part) in cases {
            let message = error(text);
            assert!(message.contains(part) && message.contains("x.toml") && !message.contains('\n'), "{message}");
        }
        let unknown = format!("{:#}", Sheet::load("drak").unwrap_err());
        assert!(unknown.contains("did you mean 'dark'?") && unknown.contains("high-contrast"), "{unknown}");
        assert!(format!("{:#}", Sheet::load("/nowhere/x.toml").unwrap_err()).contains("cannot read theme file /nowhere/x.toml"));
    }
}
