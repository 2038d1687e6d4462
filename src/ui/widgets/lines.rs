//! Text of many lines in several styles that can be scrolled: help and details are made of it. How many lines there are depends on the width
//! only, so scrolling can be kept inside without drawing.

use crate::trace::wait::WaitClass;
use crate::ui::text::{put, width, wrap};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text in the style of a role.
    Text(Role, String),
    /// The swatch of a class.
    Swatch(WaitClass),
}

/// A line.
pub type Line = Vec<Piece>;

/// Lines being put together.
#[derive(Debug, Clone)]
pub struct Lines {
    /// So far.
    pub lines: Vec<Line>,
    /// Cells a line may have.
    room: usize,
    plain: Role,
    title: Role,
}

impl Lines {
    /// Lines for this width, with the roles of their text and of their headings.
    pub fn new(width: u16, plain: Role, title: Role) -> Self {
        Self { lines: Vec::new(), room: usize::from(width).max(10), plain, title }
    }

    /// An empty line.
    pub fn blank(&mut self) {
        self.lines.push(Vec::new());
    }

    /// A heading, apart from what is above.
    pub fn heading(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.blank();
        }
        self.lines.push(vec![Piece::Text(self.title, text.into())]);
    }

    /// A line as it is.
    pub fn line(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Text, wrapped.
    pub fn text(&mut self, role: Role, text: &str) {
        self.lines.extend(wrap(text, self.room).into_iter().map(|l| vec![Piece::Text(role, l.into())]));
    }

    /// Names with their values, two on a line where both fit.
    pub fn facts(&mut self, facts: &[(&str, String)], column: usize) {
        let (room, half) = (self.room, self.room / 2);
        let fits = |value: &str| room >= 100 && width(value) + column + 4 <= half;
        let mut rest = facts.iter().filter(|(_, value)| !value.is_empty()).peekable();
        while let Some((name, value)) = rest.next() {
            let pair = rest.next_if(|(_, second)| fits(value) && fits(second));
            let Some((second, other)) = pair else {
                self.entry(Role::Dim, name, column, None, value);
                continue;
            };
            let pad = half - column - 2 - width(value);
            self.lines.push(vec![
                Piece::Text(Role::Dim, format!("{name:column$}  ")),
                Piece::Text(self.plain, format!("{value}{}", " ".repeat(pad))),
                Piece::Text(Role::Dim, format!("{second:column$}  ")),
                Piece::Text(self.plain, other.clone()),
            ]);
        }
    }

    /// A term in a column of `column` cells and its explanation beside it, wrapped.
    pub fn entry(&mut self, role: Role, term: &str, column: usize, swatch: Option<WaitClass>, text: &str) {
        let pad = column.saturating_sub(width(term) + if swatch.is_some() { 2 } else { 0 });
        for (i, part) in wrap(text, self.room.saturating_sub(column + 2)).into_iter().enumerate() {
            let mut line = Vec::new();
            if i == 0 {
                if let Some(class) = swatch {
                    line.extend([Piece::Swatch(class), Piece::Text(role, " ".into())]);
                }
                line.push(Piece::Text(role, format!("{term}{}  ", " ".repeat(pad))));
            } else {
                line.push(Piece::Text(role, " ".repeat(column + 2)));
            }
            line.push(Piece::Text(self.plain, part.into()));
            self.lines.push(line);
        }
    }
}

/// Lines on the screen.
#[derive(Debug)]
pub struct Scrolled<'a> {
    /// All of them.
    pub lines: &'a [Line],
    /// The first shown.
    pub offset: usize,
    /// What lies below the pieces' own styles.
    pub base: Style,
    /// Styles.
    pub theme: &'a Theme,
}

impl Widget for &Scrolled<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        for (y, line) in (area.top()..area.bottom()).zip(self.lines.iter().skip(self.offset)) {
            let mut x = area.x;
            for piece in line {
                x = match piece {
                    Piece::Text(role, text) => put(buf, area, x, y, text, self.base.patch(self.theme.of(*role))),
                    Piece::Swatch(class) => {
                        let (glyph, style) = self.theme.swatch(*class);
                        put(buf, area, x, y, glyph, self.base.patch(style))
                    }
                };
            }
        }
    }
}
