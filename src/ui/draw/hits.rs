//! What is where in the last picture, so that the mouse needs no geometry of its own. Made by drawing, read by the loop.

use crate::trace::clock::{Span, Ts};
use crate::ui::action::Action;
use crate::ui::pages::Page;
use crate::ui::state::place::Side;
use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

/// Something the mouse can be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A row of the table, by its place among the rows shown.
    Row(usize),
    /// A row of a column of the flow that has not the selection.
    Side(Side, usize),
    /// A column title.
    Column(&'static str),
    /// A tab.
    Tab(Page),
    /// A step of the breadcrumb: how many steps stay. 0 is everything.
    Crumb(usize),
    /// A hint.
    Hint(Action),
    /// The chart.
    Chart,
    /// A line of the list that lies over the page.
    Item(usize),
    /// What lies over the page.
    Popup,
}

/// Areas, later ones over earlier ones.
#[derive(Debug, Clone, Default)]
pub struct Hits {
    areas: Vec<(Rect, Target)>,
    plot: Option<(Rect, Span)>,
}

impl Hits {
    /// Something is here.
    pub fn add(&mut self, area: Rect, target: Target) {
        self.areas.push((area, target));
    }

    /// The chart shows this stretch here.
    pub fn chart(&mut self, area: Rect, span: Span) {
        self.add(area, Target::Chart);
        self.plot = Some((area, span));
    }

    /// What is at a place.
    pub fn at(&self, x: u16, y: u16) -> Option<Target> {
        self.areas.iter().rev().find(|(area, _)| area.contains(Position { x, y })).map(|(_, target)| *target)
    }

    /// The instant a column of the chart stands for; columns beside the chart stand for its ends.
    pub fn instant(&self, x: u16) -> Option<Ts> {
        let (area, span) = self.plot?;
        let width = u64::from(area.width.max(1));
        let column = u64::from(x.saturating_sub(area.x)).min(width);
        Some(span.start + (u128::from(span.len()) * u128::from(column) / u128::from(width)) as u64)
    }

    /// What a mouse event means.
    pub fn pointer(&self, event: MouseEvent) -> Option<Pointer> {
        let gesture = match event.kind {
            MouseEventKind::Down(MouseButton::Left) => Gesture::Press,
            MouseEventKind::Drag(MouseButton::Left) => Gesture::Drag,
            MouseEventKind::Up(MouseButton::Left) => Gesture::Release,
            MouseEventKind::ScrollUp => Gesture::Up,
            MouseEventKind::ScrollDown => Gesture::Down,
            _ => return None,
        };
        Some(Pointer { gesture, target: self.at(event.column, event.row), instant: self.instant(event.column) })
    }
}

/// What the mouse does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gesture {
    /// The left button goes down.
    Press,
    /// The mouse moves with the left button held.
    Drag,
    /// The left button goes up.
    Release,
    /// The wheel, away from the user.
    Up,
    /// The wheel, towards the user.
    Down,
}

/// A mouse event with what it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointer {
    /// What the mouse does.
    pub gesture: Gesture,
    /// What it is over.
    pub target: Option<Target>,
    /// The instant on the chart of its column.
    pub instant: Option<Ts>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_areas_lie_over_earlier_ones_and_columns_stand_for_instants() {
        let mut hits = Hits::default();
        hits.chart(Rect::new(10, 0, 100, 10), Span::new(Ts(1_000), Ts(2_000)));
        hits.add(Rect::new(20, 2, 10, 2), Target::Popup);
        assert_eq!(hits.at(25, 3), Some(Target::Popup));
        assert_eq!(hits.at(11, 3), Some(Target::Chart));
        assert_eq!(hits.at(0, 0), None);
        assert_eq!(
            (hits.instant(10), hits.instant(60), hits.instant(300), hits.instant(0)),
            (Some(Ts(1_000)), Some(Ts(1_500)), Some(Ts(2_000)), Some(Ts(1_000)))
        );
    }
}
