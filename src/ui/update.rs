//! The one place where the state changes. Pure: a state and a message give a state and effects, on any machine, without a terminal.

pub mod act;
pub mod arrange;
pub mod ask;
pub mod drill;
pub mod filter;
pub mod flow;
pub mod jump;
pub mod layers;
pub mod pointer;
pub mod time;
pub mod window;

use super::keymap::Key;
use super::msg::{Effect, Msg, Outcome, Signal};
use super::state::{AtEnd, State, Toast, slot};
use crate::session::Reply;
use crate::trace::health::Link;
use ratatui::crossterm::event::{Event, KeyEvent, KeyEventKind};
use std::time::Duration;

/// How long a word to the user stays.
const TOAST: Duration = Duration::from_secs(3);

/// Takes in one message.
pub fn update(state: &mut State, msg: Msg) -> Vec<Effect> {
    let mut effects = Vec::new();
    match msg {
        Msg::Tick(now) => tick(state, now),
        Msg::Input(event) => input(state, event, &mut effects),
        Msg::Pointer(p) => {
            state.revision += 1;
            pointer::point(state, p, &mut effects);
        }
        Msg::Reply(r) => reply(state, r, &mut effects),
        Msg::Unheard => {
            state.revision += 1;
            window::unheard(state, "the capture has ended");
        }
        Msg::Refused(why) => {
            state.revision += 1;
            window::unheard(state, &why);
        }
        Msg::Signal(Signal::Stop) => effects.push(Effect::Suspend),
        Msg::Signal(Signal::Continue) => effects.push(Effect::Redraw),
        Msg::Signal(Signal::Terminate(n)) => effects.push(Effect::Leave(Outcome::Signal(n))),
        Msg::Broken(why) => effects.push(Effect::Leave(Outcome::Broken(why))),
    }
    ask::ask(state, &mut effects);
    effects
}

/// Says something to the user for a moment.
pub(super) fn toast(state: &mut State, text: impl Into<String>) {
    toast_for(state, text, TOAST);
}

/// Says something to the user for so long.
pub(super) fn toast_for(state: &mut State, text: impl Into<String>, long: Duration) {
    state.toast = Some(Toast { text: text.into(), until: state.now + long });
}

fn tick(state: &mut State, now: Duration) {
    let trouble = state.trouble();
    state.now = now;
    state.pulse.tick(now);
    if state.toast.as_ref().is_some_and(|t| t.until <= now) {
        state.toast = None;
        state.revision += 1;
    }
    if state.trouble() != trouble {
        state.revision += 1;
    }
}

fn input(state: &mut State, event: Event, effects: &mut Vec<Effect>) {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => press(state, key, effects),
        Event::Paste(text) => layers::paste(state, &text),
        Event::Resize(width, height) => {
            state.size = (width, height);
            arrange::arrange(state);
        }
        _ => return,
    }
    state.revision += 1;
}

fn press(state: &mut State, key: KeyEvent, effects: &mut Vec<Effect>) {
    if layers::typed(state, key, effects) {
        return;
    }
    if let Some(action) = state.keymap.action(Key::from(key)) {
        state.toast = None;
        act::act(state, action, effects);
    }
}

fn reply(state: &mut State, reply: Reply, effects: &mut Vec<Effect>) {
    let slot = reply.slot;
    if !state.pane_mut(slot).is_some_and(|pane| pane.hear(reply)) {
        return;
    }
    state.revision += 1;
    match slot {
        slot::STATUS => {
            let Some(answer) = state.pane(slot).and_then(|p| p.answer.clone()) else { return };
            let before = state.pulse.answer().map(|a| a.health.clone());
            state.pulse.hear(answer);
            window::hear(state, before.as_ref());
            if let (Link::Ended { why }, AtEnd::Leave) = (state.pulse.link(), state.start.at_end) {
                effects.push(Effect::Leave(Outcome::Ended(why.clone())));
            }
        }
        slot::CHART => time::rescale(state),
        slot::PAGE => arrange::arrange(state),
        _ => {}
    }
    layers::keep_inside(state);
}
