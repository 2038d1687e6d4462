//! Moving in the flow: which column has the selection, which event is in the middle.

use super::{arrange, drill};
use crate::analysis::answer::{Body, Flow};
use crate::ui::pages::flow::{Face, neighbours, order, start};
use crate::ui::pages::{Page, RowKey};
use crate::ui::state::place::{Side, View};
use crate::ui::state::{State, slot};

/// The rows of the column with the selection.
pub(super) fn arrange(state: &mut State, flow: &Flow, words: &[String]) {
    let stream = state.place.stream;
    let known = stream.centre.filter(|c| flow.nodes.iter().any(|n| n.event == *c));
    let centre = known.or_else(|| start(flow, &state.place.crumbs));
    let side = if state.face == Face::Matrix || centre.is_none() { Side::Centre } else { stream.side };
    state.hidden = 0;
    state.rows = match (side, centre) {
        (Side::Centre, _) | (_, None) => order(flow, state.weigh),
        (side, Some(centre)) => neighbours(flow, centre, side, state.weigh).into_iter().map(|n| n.node).collect(),
    };
    if side == Side::Centre && !words.is_empty() {
        let holds = |i: &usize| flow.nodes.get(*i).is_some_and(|n| words.iter().all(|w| n.name.to_lowercase().contains(w.as_str())));
        state.rows.retain(holds);
    }
    let view = state.place.view();
    let wanted = if side == Side::Centre { centre.map(RowKey::Event) } else { view.selected };
    let place = |key: RowKey| state.rows.iter().position(|i| flow.nodes.get(*i).is_some_and(|n| RowKey::Event(n.event) == key));
    let index = wanted.and_then(place).unwrap_or(view.index);
    if side != Side::Centre {
        // What the neighbours are neighbours of.
        state.place.stream.centre = centre;
    }
    arrange::select(state, index);
}

/// The event in the middle is the one selected in the middle column.
pub(super) fn follow(state: &mut State) {
    if state.place.page == Page::Flow
        && (state.place.stream.side == Side::Centre || state.face == Face::Matrix)
        && let Some(RowKey::Event(event)) = state.place.view().selected
    {
        state.place.stream.centre = Some(event);
    }
}

/// The selection to the column on the left or the right.
pub(super) fn side(state: &mut State, by: isize) {
    let to = match (state.place.stream.side, by < 0) {
        (Side::Centre, true) => Side::Before,
        (Side::Centre, false) => Side::After,
        (Side::Before, false) | (Side::After, true) => Side::Centre,
        (side, _) => side,
    };
    select(state, to, 0);
}

fn select(state: &mut State, side: Side, index: usize) {
    let Some(Body::Flow(flow)) = state.answer(slot::PAGE).map(|a| &a.body) else { return };
    let centre = state.place.stream.centre;
    if side == state.place.stream.side || centre.is_none_or(|c| side != Side::Centre && neighbours(flow, c, side, state.weigh).is_empty()) {
        return;
    }
    state.place.stream.side = side;
    if let Some(view) = state.place.view_mut() {
        *view = View { index, ..View::default() };
    }
    arrange::arrange(state);
}

/// A row of another column was clicked.
pub(super) fn pick(state: &mut State, side: Side, index: usize) {
    select(state, side, index);
    arrange::select(state, index);
    state.clicked = state.place.view().selected.map(|key| (key, state.now));
}

/// Enter: a neighbour comes into the middle; into the event that is there; a row of the matrix as a panel.
pub(super) fn enter(state: &mut State) {
    let Some(RowKey::Event(event)) = state.place.view().selected else { return };
    if state.face == Face::Matrix {
        state.face = Face::Panel;
        state.place.stream.side = Side::Centre;
        return arrange::arrange(state);
    }
    if state.place.stream.side == Side::Centre {
        return drill::enter(state);
    }
    let mut place = state.place.clone();
    (place.stream.centre, place.stream.side) = (Some(event), Side::Centre);
    if let Some(view) = place.view_mut() {
        *view = View::default();
    }
    drill::go(state, place);
}

/// The other measure of widths.
pub(super) fn weigh(state: &mut State) {
    state.weigh = state.weigh.other();
    arrange::arrange(state);
}

/// The other face.
pub(super) fn face(state: &mut State) {
    if state.place.page == Page::Flow {
        state.face = state.face.other();
        arrange::arrange(state);
    }
}
