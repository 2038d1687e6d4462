//! The mouse.

use super::{act, arrange, drill, flow, layers, time};
use crate::ui::action::Action;
use crate::ui::draw::hits::{Gesture, Pointer, Target};
use crate::ui::msg::Effect;
use crate::ui::state::State;
use std::time::Duration;

/// Two clicks within this are one double click.
const DOUBLE: Duration = Duration::from_millis(500);
/// Rows per notch of the wheel.
const NOTCH: isize = 3;

/// Takes in a mouse event.
pub(super) fn point(state: &mut State, pointer: Pointer, effects: &mut Vec<Effect>) {
    match pointer.gesture {
        Gesture::Press => press(state, pointer, effects),
        Gesture::Drag => {
            if let (Some((from, _)), Some(at)) = (state.drag, pointer.instant) {
                state.drag = Some((from, at));
            }
        }
        Gesture::Release => release(state, pointer),
        Gesture::Up => wheel(state, -NOTCH, effects),
        Gesture::Down => wheel(state, NOTCH, effects),
    }
}

fn press(state: &mut State, pointer: Pointer, effects: &mut Vec<Effect>) {
    state.toast = None;
    match pointer.target {
        Some(Target::Item(index)) => layers::pick(state, index, effects),
        Some(Target::Popup) => {}
        // A click beside what lies over the page closes it, and does nothing else.
        _ if state.layer.as_ref().is_some_and(|l| !matches!(l, crate::ui::state::layer::Layer::Detail(_))) => layers::close(state, effects),
        Some(Target::Row(place)) => row(state, place, effects),
        Some(Target::Side(side, place)) => flow::pick(state, side, place),
        Some(Target::Column(title)) => {
            let sort = state.place.view().sort;
            let again = sort.column == Some(title);
            arrange::sort_by(state, Some(title), again && !sort.reversed);
        }
        Some(Target::Tab(page)) => act::act(state, Action::Show(page), effects),
        Some(Target::Crumb(kept)) => drill::back_to(state, kept),
        Some(Target::Hint(action)) => act::act(state, action, effects),
        Some(Target::Chart) if state.has_data() => state.drag = pointer.instant.map(|at| (at, at)),
        Some(Target::Chart) | None => {}
    }
}

fn row(state: &mut State, place: usize, effects: &mut Vec<Effect>) {
    arrange::select(state, place);
    let Some(key) = state.place.view().selected else { return };
    let twice = state.clicked.is_some_and(|(last, at)| last == key && state.now.saturating_sub(at) <= DOUBLE);
    state.clicked = (!twice).then_some((key, state.now));
    if twice {
        act::act(state, Action::Enter, effects);
    }
}

fn release(state: &mut State, pointer: Pointer) {
    let Some((from, last)) = state.drag.take() else { return };
    let to = pointer.instant.unwrap_or(last);
    // Less than two columns is a click with a trembling hand.
    if from.since(to).max(to.since(from)) < 2 * state.bucket() { time::point(state, from) } else { time::zoom_to(state, from, to) }
}

fn wheel(state: &mut State, by: isize, effects: &mut Vec<Effect>) {
    if !layers::step(state, by, effects) {
        arrange::scroll(state, by);
    }
}
