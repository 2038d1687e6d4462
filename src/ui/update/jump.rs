//! Going to a moment that is typed.

use crate::trace::clock::{Span, Ts};
use crate::ui::state::State;
use crate::ui::state::layer::{Jump, Layer};
use crate::when;

/// Opens the prompt.
pub(super) fn prompt(state: &mut State) {
    if state.has_data() {
        state.layer = Some(Layer::Jump(Jump::default()));
    }
}

/// Enter in the prompt: the window keeps its length and has the moment in its middle, as far as there is something recorded on both sides.
pub(super) fn accept(state: &mut State) {
    let Some(Layer::Jump(jump)) = &state.layer else { return };
    let text = jump.line.text();
    match moment(state, &text) {
        Err(why) => {
            if let Some(Layer::Jump(jump)) = &mut state.layer {
                jump.error = Some(why);
            }
        }
        Ok((at, extent)) => {
            state.layer = None;
            let half = state.camera.length / 2;
            let end = (at + half).min(extent.end).max(at);
            state.camera.hold(Span::new(end - state.camera.length, end));
            state.cursor = Some(at.min(end - 1));
            state.moment = Some(at);
        }
    }
}

fn moment(state: &State, text: &str) -> Result<(Ts, Span), String> {
    let answer = state.pulse.answer().ok_or("nothing is recorded yet")?;
    let extent = answer.extent.ok_or("nothing is recorded yet")?;
    let end = state.pulse.present().unwrap_or(extent.end);
    let wall = when::read(text, answer.clock.wall(end), &state.start.zone)?;
    let at = answer.clock.ts(wall);
    let show = |ts| crate::show::moment(answer.clock.wall(ts), &state.start.zone);
    if at < extent.start {
        return Err(format!("{} is before what is recorded, which begins at {}", show(at), show(extent.start)));
    }
    if at > end {
        return Err(format!("{} is still to come: the newest is {}", show(at), show(end)));
    }
    Ok((at, Span::new(extent.start, end)))
}
