//! Styles by role, resolved for one terminal. Made once when the screen opens or the theme changes; drawing only looks up.

pub mod background;
pub mod color;
pub mod file;
pub mod role;

use super::glyphs::{ASCII, Glyphs, UNICODE};
use crate::trace::wait::WaitClass;
use anyhow::Result;
use color::{Depth, Environment};
use file::{Ink, Sheet};
use ratatui::style::{Color, Style};
use role::Role;

/// When colour is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorMode {
    /// As the environment says.
    Auto,
    /// At least sixteen, whatever `NO_COLOR` says.
    Always,
    /// Never.
    Never,
    /// With this depth.
    Depth(Depth),
}

impl ColorMode {
    /// The depth to draw with.
    pub fn depth(self, environment: &Environment) -> Depth {
        match self {
            Self::Auto => environment.depth(),
            Self::Always => Environment { no_color: false, ..environment.clone() }.depth().max(Depth::Ansi16),
            Self::Never => Depth::Mono,
            Self::Depth(depth) => depth,
        }
    }
}

/// Styles and characters.
#[derive(Debug, Clone)]
pub struct Theme {
    styles: Vec<Style>,
    classes: [Color; WaitClass::ALL.len()],
    depth: Depth,
    glyphs: &'static Glyphs,
}

impl Theme {
    /// The theme a name means: `auto` is dark or light, as the environment says.
    pub fn meant<'a>(name: &'a str, environment: &Environment) -> &'a str {
        match (name, environment.is_light()) {
            ("auto", true) => "light",
            ("auto", false) => "dark",
            (name, _) => name,
        }
    }

    /// Loads a theme by name or path for a terminal. Without colour there is one theme only.
    pub fn load(name: &str, depth: Depth, ascii: bool, environment: &Environment) -> Result<Self> {
        let name = Self::meant(name, environment);
        let sheet = Sheet::load(name)?;
        let sheet = if depth == Depth::Mono { Sheet::load("mono")? } else { sheet };
        Ok(Self::new(&sheet, if name == "mono" { Depth::Mono } else { depth }, ascii))
    }

    /// Whether there is such a theme; the error names those that are.
    pub fn check(name: &str) -> Result<()> {
        if name == "auto" { Ok(()) } else { Sheet::load(name).map(drop) }
    }

    /// Resolves a sheet.
    pub fn new(sheet: &Sheet, depth: Depth, ascii: bool) -> Self {
        Self {
            styles: Role::ALL.iter().map(|r| style(sheet.ink(*r), depth)).collect(),
            classes: WaitClass::ALL.map(|c| sheet.class(c).at(depth)),
            depth,
            glyphs: if ascii { &ASCII } else { &UNICODE },
        }
    }

    /// Names of the themes that are part of the program, with a line about each.
    pub fn names() -> Vec<(&'static str, String)> {
        file::BUILT_IN.iter().map(|(name, _)| (*name, Sheet::load(name).map(|s| s.about).unwrap_or_default())).collect()
    }

    /// The style of a role.
    pub fn of(&self, role: Role) -> Style {
        self.styles.get(role as usize).copied().unwrap_or_default()
    }

    /// The colour of a class; the terminal's own without colour.
    pub fn class(&self, class: WaitClass) -> Color {
        self.classes.get(class.index()).copied().unwrap_or(Color::Reset)
    }

    /// The characters to draw with.
    pub fn glyphs(&self) -> &'static Glyphs {
        self.glyphs
    }

    /// Whether classes can be told apart by colour and cells can be filled in part; otherwise each class has its own character.
    pub fn blends(&self) -> bool {
        self.depth != Depth::Mono && self.glyphs != &ASCII
    }

    /// What stands before a class's name, and what fills its bars where colours do not blend.
    pub fn swatch(&self, class: WaitClass) -> (&'static str, Style) {
        let glyph = if self.blends() { self.glyphs.swatch } else { self.fill(class) };
        (glyph, Style::new().fg(self.class(class)))
    }

    /// The character of a class.
    pub fn fill(&self, class: WaitClass) -> &'static str {
        self.glyphs.classes.get(class.index()).copied().unwrap_or("?")
    }
}

fn style(ink: Ink, depth: Depth) -> Style {
    let mut style = Style::new().add_modifier(ink.modifier);
    style.fg = ink.fg.map(|p| p.at(depth));
    style.bg = ink.bg.map(|p| p.at(depth));
    style
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG contrast.
    fn contrast(a: (u8, u8, u8), b: (u8, u8, u8)) -> f64 {
        let channel = |v: u8| {
            let v = f64::from(v) / 255.0;
            if v <= 0.040_45 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
        };
        let luminance = |(r, g, b)| 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
        let (x, y) = (luminance(a), luminance(b));
        (x.max(y) + 0.05) / (x.min(y) + 0.05)
    }

    /// Roles that carry no text.
    const LINES: [Role; 4] = [Role::Rule, Role::RowGap, Role::Gap, Role::PopupFrame];

    fn check(theme: &str, backgrounds: [(u8, u8, u8); 2]) {
        let sheet = Sheet::load(theme).unwrap();
        for role in Role::ALL {
            let ink = sheet.ink(*role);
            let bg: Vec<_> = ink.bg.and_then(color::Paint::rgb).map_or(backgrounds.to_vec(), |own| vec![own]);
            let Some(fg) = ink.fg.and_then(color::Paint::rgb) else { continue };
            let wanted = if LINES.contains(role) { 1.5 } else { 4.5 };
            for bg in bg {
                let got = contrast(fg, bg);
                assert!(got >= wanted, "{theme}: {} has {got:.2} on {bg:?}", role.name());
            }
        }
        for class in WaitClass::ALL {
            for bg in backgrounds {
                let got = contrast(sheet.class(class).rgb().unwrap(), bg);
                assert!(got >= 2.99, "{theme}: {} has {got:.2} on {bg:?}", class.name());
            }
        }
    }

    #[test]
    fn text_can_be_read_on_the_backgrounds_a_theme_is_for() {
        check("dark", [(0, 0, 0), (0x1e, 0x1e, 0x1e)]);
        check("high-contrast", [(0, 0, 0), (0x1e, 0x1e, 0x1e)]);
        check("light", [(0xff, 0xff, 0xff), (0xfd, 0xf6, 0xe3)]);
    }

    #[test]
    fn a_role_with_a_background_says_its_foreground_too() {
        for (name, _) in file::BUILT_IN {
            let sheet = Sheet::load(name).unwrap();
            for role in Role::ALL {
                let ink = sheet.ink(*role);
                assert!(ink.bg.is_none() || ink.fg.is_some(), "{name}: {}", role.name());
            }
        }
    }

    #[test]
    fn without_colour_no_style_has_one() {
        let environment = Environment::default();
        let theme = Theme::load("dark", Depth::Mono, false, &environment).unwrap();
        for role in Role::ALL {
            let style = theme.of(*role);
            assert!(style.fg.is_none_or(|c| c == Color::Reset) && style.bg.is_none_or(|c| c == Color::Reset), "{}", role.name());
        }
        assert!(!theme.blends());
        assert_ne!(theme.swatch(WaitClass::Io).0, theme.swatch(WaitClass::Lock).0);
        assert!(Theme::load("nonsense", Depth::Mono, false, &environment).is_err(), "checked even when not used");
    }

    #[test]
    fn selection_and_pause_show_in_every_theme() {
        for (name, _) in file::BUILT_IN {
            for depth in [Depth::Mono, Depth::Ansi16, Depth::Ansi256, Depth::True] {
                let theme = Theme::load(name, depth, false, &Environment::default()).unwrap();
                for role in [Role::Selected, Role::TabActive, Role::StatusPaused, Role::PopupSelected, Role::Banner] {
                    assert_ne!(theme.of(role), theme.of(Role::Text), "{name} {depth:?} {}", role.name());
                }
            }
        }
    }
}
