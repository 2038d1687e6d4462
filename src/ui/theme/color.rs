//! A colour as a theme names it, and what becomes of it on a terminal of a given depth. Pure.

use ratatui::style::Color;

/// How many colours the terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// None.
    Mono,
    /// The sixteen of the terminal's own palette.
    Ansi16,
    /// 256.
    Ansi256,
    /// 24 bits.
    True,
}

/// What the environment says about the terminal.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `TERM`.
    pub term: String,
    /// `COLORTERM`.
    pub colorterm: String,
    /// Whether `TMUX` or `STY` is set: another program draws on the real terminal.
    pub multiplexed: bool,
    /// Whether `NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// `COLORFGBG`.
    pub colorfgbg: String,
    /// Whether the terminal itself says that its background is light.
    pub light: Option<bool>,
}

impl Environment {
    /// Reads the process's environment.
    pub fn read() -> Self {
        let get = |name| std::env::var(name).unwrap_or_default();
        let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        Self {
            term: get("TERM"),
            colorterm: get("COLORTERM"),
            multiplexed: set("TMUX") || set("STY"),
            no_color: set("NO_COLOR"),
            colorfgbg: get("COLORFGBG"),
            light: None,
        }
    }

    /// The depth to draw with. Inside a multiplexer `COLORTERM` may be left over from another terminal, so only `TERM` is believed.
    pub fn depth(&self) -> Depth {
        let term = self.term.as_str();
        if self.no_color || term.is_empty() || term == "dumb" || term.starts_with("vt") {
            return Depth::Mono;
        }
        let promised =
            ["kitty", "ghostty", "alacritty", "foot", "wezterm", "contour"].iter().any(|t| term.contains(t)) || term.contains("direct");
        let claimed = !self.multiplexed && matches!(self.colorterm.as_str(), "truecolor" | "24bit");
        if promised || claimed {
            Depth::True
        } else if term.contains("256") {
            Depth::Ansi256
        } else {
            Depth::Ansi16
        }
    }

    /// Whether the background is light: by what the terminal says, else by `COLORFGBG`.
    pub fn is_light(&self) -> bool {
        self.light.unwrap_or_else(|| self.is_light_by_name())
    }

    fn is_light_by_name(&self) -> bool {
        self.colorfgbg.rsplit(';').next().and_then(|bg| bg.parse::<u8>().ok()).is_some_and(|bg| bg == 7 || (9..=15).contains(&bg))
    }
}

/// A colour with hand-picked stand-ins for smaller palettes: `"#208854 82 green"`, or `"green"`, or `"82"`, or `"default"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Paint {
    /// 24 bits.
    pub rgb: Option<(u8, u8, u8)>,
    /// Index into the 256.
    pub indexed: Option<u8>,
    /// One of the sixteen, 0 to 15.
    pub ansi: Option<u8>,
}

const ANSI: [(&str, Color, (u8, u8, u8)); 16] = [
    ("black", Color::Black, (0, 0, 0)),
    ("red", Color::Red, (205, 0, 0)),
    ("green", Color::Green, (0, 205, 0)),
    ("yellow", Color::Yellow, (205, 205, 0)),
    ("blue", Color::Blue, (0, 0, 238)),
    ("magenta", Color::Magenta, (205, 0, 205)),
    ("cyan", Color::Cyan, (0, 205, 205)),
    ("white", Color::Gray, (229, 229, 229)),
    ("bright-black", Color::DarkGray, (127, 127, 127)),
    ("bright-red", Color::LightRed, (255, 0, 0)),
    ("bright-green", Color::LightGreen, (0, 255, 0)),
    ("bright-yellow", Color::LightYellow, (255, 255, 0)),
    ("bright-blue", Color::LightBlue, (92, 92, 255)),
    ("bright-magenta", Color::LightMagenta, (255, 0, 255)),
    ("bright-cyan", Color::LightCyan, (0, 255, 255)),
    ("bright-white", Color::White, (255, 255, 255)),
];

impl Paint {
    /// Reads a colour; an error is one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut paint = Self::default();
        for word in text.split_whitespace() {
            if word == "default" {
                continue;
            }
            if let Some(hex) = word.strip_prefix('#') {
                let value = u32::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 6);
                let [_, r, g, b] = value.ok_or_else(|| format!("'{word}' is not a colour: #rrggbb"))?.to_be_bytes();
                paint.rgb = Some((r, g, b));
            } else if let Ok(index) = word.parse() {
                paint.indexed = Some(index);
            } else if let Some(i) = ANSI.iter().position(|(name, _, _)| *name == word) {
                paint.ansi = u8::try_from(i).ok();
            } else {
                let names: Vec<_> = ANSI.iter().map(|(n, _, _)| *n).collect();
                return Err(format!(
                    "'{word}' is not a colour: use #rrggbb, 0 to 255, default, a name from [palette], or {}",
                    names.join(", ")
                ));
            }
        }
        Ok(paint)
    }

    /// The colour to draw with; [`Color::Reset`] is the terminal's own.
    pub fn at(self, depth: Depth) -> Color {
        let ansi = |i: u8| ANSI.get(usize::from(i)).map_or(Color::Reset, |(_, c, _)| *c);
        let exact = self.rgb.map(|(r, g, b)| Color::Rgb(r, g, b));
        let indexed = self.indexed.map(Color::Indexed);
        match depth {
            Depth::Mono => None,
            Depth::True => exact.or(indexed).or(self.ansi.map(ansi)),
            Depth::Ansi256 => indexed.or(self.rgb.map(|c| Color::Indexed(nearest_indexed(c)))).or(self.ansi.map(ansi)),
            Depth::Ansi16 => self.ansi.map(ansi).or(self.rgb().map(nearest_ansi)),
        }
        .unwrap_or(Color::Reset)
    }

    /// Its value in 24 bits, when it has one that does not depend on the terminal.
    pub fn rgb(self) -> Option<(u8, u8, u8)> {
        self.rgb.or(self.indexed.map(indexed_rgb))
    }
}

fn distance(a: (u8, u8, u8), b: (u8, u8, u8)) -> u32 {
    let d = |x: u8, y: u8| u32::from(x.abs_diff(y)).pow(2);
    2 * d(a.0, b.0) + 4 * d(a.1, b.1) + 3 * d(a.2, b.2)
}

fn indexed_rgb(index: u8) -> (u8, u8, u8) {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let step = |i: u8| STEPS.get(usize::from(i % 6)).copied().unwrap_or(0);
    match index {
        0..16 => ANSI.get(usize::from(index)).map_or((0, 0, 0), |(_, _, c)| *c),
        16..232 => (step((index - 16) / 36), step((index - 16) / 6), step(index - 16)),
        232.. => {
            let grey = 8 + 10 * (index - 232);
            (grey, grey, grey)
        }
    }
}

fn nearest_indexed(rgb: (u8, u8, u8)) -> u8 {
    (16..=255).min_by_key(|i| distance(rgb, indexed_rgb(*i))).unwrap_or(16)
}

fn nearest_ansi(rgb: (u8, u8, u8)) -> Color {
    ANSI.iter().min_by_key(|(_, _, c)| distance(rgb, *c)).map_or(Color::Reset, |(_, color, _)| *color)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(term: &str, colorterm: &str, multiplexed: bool, no_color: bool) -> Depth {
        let (term, colorterm) = (term.into(), colorterm.into());
        Environment { term, colorterm, multiplexed, no_color, ..Environment::default() }.depth()
    }

    #[test]
    fn depth_follows_the_environment() {
        assert_eq!(depth("xterm-256color", "truecolor", false, false), Depth::True);
        assert_eq!(depth("xterm-256color", "", false, false), Depth::Ansi256);
        assert_eq!(depth("screen-256color", "truecolor", true, false), Depth::Ansi256);
        assert_eq!(depth("tmux-direct", "", true, false), Depth::True);
        assert_eq!(depth("xterm", "", false, false), Depth::Ansi16);
        assert_eq!(depth("linux", "", false, false), Depth::Ansi16);
        assert_eq!(depth("xterm-kitty", "", false, false), Depth::True);
        assert_eq!(depth("dumb", "truecolor", false, false), Depth::Mono);
        assert_eq!(depth("vt100", "", false, false), Depth::Mono);
        assert_eq!(depth("xterm-256color", "truecolor", false, true), Depth::Mono);
    }

    #[test]
    fn light_backgrounds_are_recognised() {
        let light = |text: &str| Environment { colorfgbg: text.into(), ..Environment::default() }.is_light();
        assert!(light("0;15") && light("0;default;15") && light("0;7"));
        assert!(!light("15;0") && !light("") && !light("7;8"));
        assert!(
            !Environment { colorfgbg: "0;15".into(), light: Some(false), ..Environment::default() }.is_light(),
            "the terminal knows best"
        );
    }

    #[test]
    fn colours_come_down_to_what_the_terminal_has() {
        let paint = Paint::parse("#208854 82 green").unwrap();
        assert_eq!(paint.at(Depth::True), Color::Rgb(0x20, 0x88, 0x54));
        assert_eq!(paint.at(Depth::Ansi256), Color::Indexed(82));
        assert_eq!(paint.at(Depth::Ansi16), Color::Green);
        assert_eq!(paint.at(Depth::Mono), Color::Reset);
        let plain = Paint::parse("#ff0000").unwrap();
        assert_eq!((plain.at(Depth::Ansi256), plain.at(Depth::Ansi16)), (Color::Indexed(196), Color::LightRed));
        assert_eq!(Paint::parse("default").unwrap().at(Depth::True), Color::Reset);
        assert!(Paint::parse("#12").is_err());
        assert!(Paint::parse("mauve").unwrap_err().contains("bright-cyan"));
    }
}
