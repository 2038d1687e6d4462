//! Columns and cells: what a table needs to know about a row. Knows no terminal.

use crate::analysis::answer::{Answer, Measured, TimeModel};
use crate::trace::wait::WaitClass;
use crate::ui::format;
use std::borrow::Cow;
use std::cmp::Ordering;

/// How wide a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Always so wide.
    Fixed(u16),
    /// As wide as its widest content, between these.
    Fit(u16, u16),
    /// At least the first, at most the second, sharing what is left by the weight.
    Share(u16, u16, u16),
    /// Long text: at least so many cells and so many percent of the table, and most of what is left.
    Text(u16, u16),
}

/// To which side cells lean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// How a text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Not at all.
    Plain,
    /// Less than others.
    Dim,
    /// More than others.
    Strong,
}

/// Whose colours a bar has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Parts<'a> {
    /// One class.
    One(WaitClass),
    /// All classes, by these nanoseconds.
    Many(&'a [u64; WaitClass::ALL.len()]),
}

/// What stands in a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// Nothing.
    Empty,
    /// Text.
    Text(Cow<'a, str>, Tone),
    /// Text behind a swatch of a class, indented.
    Name {
        /// Steps of indentation.
        depth: u8,
        /// The swatch.
        class: Option<WaitClass>,
        /// The text.
        text: Cow<'a, str>,
        /// Said in dim letters behind it, where there is room.
        note: &'static str,
        /// How it stands out.
        tone: Tone,
    },
    /// A bar of this share of the column, 0 to 1.
    Bar(f64, Parts<'a>),
    /// A line of points, scaled to its own largest; `None` points are gaps.
    Spark(&'a [Option<f32>], Option<WaitClass>),
}

impl<'a> Cell<'a> {
    /// Plain text.
    pub fn plain(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into(), Tone::Plain)
    }

    /// Dim text.
    pub fn dim(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into(), Tone::Dim)
    }
}

/// The time model of a shorter window; `None` when nothing of it was observed.
pub type Glance<'a> = Option<&'a TimeModel>;

/// What cells depend on besides their row.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The answer the rows are of.
    pub answer: &'a Answer,
    /// The last seconds.
    pub short: Option<Glance<'a>>,
    /// The last minute.
    pub medium: Option<Glance<'a>>,
    /// Largest share of DB Time of any row: the full length of a bar.
    pub top_share: f64,
    /// End of the window, microseconds since 1970 UTC.
    pub wall: i64,
    /// Whether any row has counts or true lengths of waits.
    pub exact: bool,
    /// Whether any row has on-CPU and run-queue time.
    pub measured: bool,
    /// Whether any row has executions.
    pub executions: bool,
}

/// Which rows come first when a column is chosen for sorting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// The largest: numbers.
    Largest,
    /// The smallest: names.
    Smallest,
}

/// A column.
#[derive(Debug)]
pub struct Column<R: 'static> {
    /// Its title, and what it is remembered by.
    pub title: &'static str,
    /// What it means, for the help page.
    pub help: &'static str,
    /// Its width.
    pub width: Width,
    /// Columns with the highest rank are left out first when there is no room; 0 always stays.
    pub rank: u8,
    /// To which side its cells lean.
    pub align: Align,
    /// How rows are ordered by it, smallest first; `None`: they cannot be.
    pub order: Option<fn(&R, &R) -> Ordering>,
    /// Which rows come first.
    pub first: First,
    /// Whether it is there at all.
    pub shown: fn(&Scene<'_>) -> bool,
    /// The cell.
    pub cell: for<'a> fn(&'a R, &Scene<'a>) -> Cell<'a>,
}

impl<R> Column<R> {
    /// A column that leans left and cannot be sorted by.
    pub const fn new(title: &'static str, width: Width, rank: u8, cell: for<'a> fn(&'a R, &Scene<'a>) -> Cell<'a>) -> Self {
        Self { title, help: "", width, rank, align: Align::Left, order: None, first: First::Largest, shown: |_| true, cell }
    }

    /// With its meaning.
    #[must_use]
    pub const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// A number: leans right, largest first.
    #[must_use]
    pub const fn number(mut self, order: fn(&R, &R) -> Ordering) -> Self {
        self.align = Align::Right;
        self.order = Some(order);
        self
    }

    /// A name: smallest first.
    #[must_use]
    pub const fn name(mut self, order: fn(&R, &R) -> Ordering) -> Self {
        self.order = Some(order);
        self.first = First::Smallest;
        self
    }

    /// Leans right.
    #[must_use]
    pub const fn right(mut self) -> Self {
        self.align = Align::Right;
        self
    }

    /// There only when this holds.
    #[must_use]
    pub const fn when(mut self, shown: fn(&Scene<'_>) -> bool) -> Self {
        self.shown = shown;
        self
    }
}

/// The cell of a count; a dash where it is not known.
pub(super) fn count<'a>(n: Option<u64>) -> Cell<'a> {
    n.map_or_else(|| Cell::dim(format::NONE), |n| Cell::plain(format::count(n)))
}

fn share_of(measured: Option<&Measured>, pick: fn(&Measured) -> u64) -> Option<f64> {
    measured.filter(|m| m.time_ns > 0).map(|m| (pick(m) as f64 / m.time_ns as f64).min(1.0))
}

/// The cell of a part of measured time, in percent; a dash where it was not measured.
pub(super) fn part<'a>(measured: Option<&Measured>, pick: fn(&Measured) -> u64) -> Cell<'a> {
    share_of(measured, pick).map_or_else(|| Cell::dim(format::NONE), |share| Cell::plain(format::share(Some(share))))
}

/// The order by such a part.
pub(super) fn by_part(a: Option<&Measured>, b: Option<&Measured>, pick: fn(&Measured) -> u64) -> Ordering {
    share_of(a, pick).unwrap_or(-1.0).total_cmp(&share_of(b, pick).unwrap_or(-1.0))
}
