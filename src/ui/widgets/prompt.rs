//! Prompts: the line being typed, and below or above it what is wrong with it or what could be typed.

use crate::trace::health::{Escalation, WindowHealth};
use crate::ui::state::layer::{Jump, Prompt};
use crate::ui::state::line::Line;
use crate::ui::state::window::{Asking, name};
use crate::ui::text::{put, row, width, wrap};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::widgets::Widget;

/// The prompt at the bottom of the screen: the last line, and above it as many as its message needs.
#[derive(Debug)]
pub struct Bottom<'a> {
    /// What is typed.
    pub prompt: &'a Prompt,
    /// Rows that pass while typing.
    pub rows: usize,
    /// Styles.
    pub theme: &'a Theme,
}

impl Widget for &Bottom<'_> {
    fn render(self, screen: Rect, buf: &mut Buffer) {
        let (message, role) = if let Some(error) = &self.prompt.error {
            (crate::ui::format::safe(error).into_owned(), Role::PromptError)
        } else {
            let rows = if self.rows == 1 { "1 row".to_owned() } else { format!("{} rows", self.rows) };
            let examples = "class=Lock,IO event=IO:WalSync pid=4711 query=-42 db=shop user!=app kind=client";
            (format!("words narrow the rows ({rows} now); or {examples}"), Role::Prompt)
        };
        bottom(&message, role, (" /", &self.prompt.line), screen, buf, self.theme);
    }
}

/// The prompt for an exact or blocking window.
#[derive(Debug)]
pub struct Window<'a> {
    /// What is typed.
    pub asking: &'a Asking,
    /// The last window, for what it cost.
    pub last: Option<&'a WindowHealth>,
    /// The budget of exact windows.
    pub budget: Option<&'a Escalation>,
    /// Styles.
    pub theme: &'a Theme,
}

impl Widget for &Window<'_> {
    fn render(self, screen: Rect, buf: &mut Buffer) {
        let (message, role) = if let Some(error) = &self.asking.error {
            (crate::ui::format::safe(error).into_owned(), Role::PromptError)
        } else {
            let tier = name(self.asking.kind);
            let other = if tier == "exact" { "blocking" } else { "exact" };
            let cost = self.last.filter(|w| w.price_ns > 0).map_or_else(String::new, |w| {
                format!(
                    " The last one: {} per {}, {:.1} % of a core.",
                    crate::ui::format::duration(w.price_ns),
                    super::status::unit(w),
                    w.overhead_pct
                )
            });
            let budget = self.budget.map_or_else(String::new, |e| format!(" Budget of exact windows: {}.", super::health::budget(e)));
            (
                format!(
                    "{tier} window: how many seconds? Also 2m, or 10 {other}. It slows the server down while it is open.{budget}{cost}"
                ),
                Role::Prompt,
            )
        };
        bottom(&message, role, (" seconds: ", &self.asking.line), screen, buf, self.theme);
    }
}

/// The prompt for a moment.
#[derive(Debug)]
pub struct Moment<'a> {
    /// What is typed.
    pub jump: &'a Jump,
    /// What is recorded, in words.
    pub recorded: &'a str,
    /// Styles.
    pub theme: &'a Theme,
}

impl Widget for &Moment<'_> {
    fn render(self, screen: Rect, buf: &mut Buffer) {
        let (message, role) = match &self.jump.error {
            Some(error) => (crate::ui::format::safe(error).into_owned(), Role::PromptError),
            None => (format!("go to a time: {}. Recorded: {}", crate::when::FORMS, self.recorded), Role::Prompt),
        };
        bottom(&message, role, (" time: ", &self.jump.line), screen, buf, self.theme);
    }
}

/// A line being typed at the bottom of the screen, with a message above it.
fn bottom(message: &str, role: Role, (sign, typed): (&str, &Line), screen: Rect, buf: &mut Buffer, theme: &Theme) {
    let lines = wrap(message, usize::from(screen.width.saturating_sub(2)));
    let height = u16::try_from(lines.len()).unwrap_or(1).min(3) + 1;
    let area = Rect { y: screen.bottom().saturating_sub(height), height: height.min(screen.height), ..screen };
    blank(area, buf, theme);
    for (n, text) in (0..height - 1).zip(lines) {
        let place = row(area, n);
        put(buf, place, place.x + 1, place.y, text, theme.of(role));
    }
    line(typed, sign, row(area, height - 1), buf, theme);
}

fn blank(area: Rect, buf: &mut Buffer, theme: &Theme) {
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            if let Some(cell) = buf.cell_mut((x, y)) {
                cell.reset();
                cell.set_style(theme.of(Role::Prompt));
            }
        }
    }
}

/// A line being typed, with its cursor always in sight.
pub fn line(line: &Line, sign: &str, area: Rect, buf: &mut Buffer, theme: &Theme) {
    let style = theme.of(Role::Prompt);
    blank(area, buf, theme);
    let start = put(buf, area, area.x, area.y, sign, style);
    let (before, after) = line.halves();
    let (before, after) = (crate::ui::format::safe(before), crate::ui::format::safe(after));
    // When the text before the cursor is too long, its end is shown.
    let room = usize::from(area.right().saturating_sub(start)).saturating_sub(2);
    let mut from = 0;
    let mut over = width(&before).saturating_sub(room);
    for c in before.chars() {
        if over == 0 {
            break;
        }
        from += c.len_utf8();
        over = over.saturating_sub(width(c.encode_utf8(&mut [0; 4])).max(1));
    }
    let x = put(buf, area, start, area.y, before.get(from..).unwrap_or_default(), style);
    put(buf, area, x, area.y, if after.is_empty() { " " } else { &after }, style);
    if let Some(cell) = buf.cell_mut((x, area.y)).filter(|_| x < area.right()) {
        cell.set_style(style.add_modifier(Modifier::REVERSED));
    }
}
