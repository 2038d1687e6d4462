//! Opening and closing exact and blocking windows, and saying what came of it.

use super::toast_for;
use crate::session::{Command, Kind};
use crate::trace::health::{Health, Link, WindowHealth};
use crate::ui::format;
use crate::ui::msg::Effect;
use crate::ui::state::State;
use crate::ui::state::layer::Layer;
use crate::ui::state::line::Line;
use crate::ui::state::window::{Asking, Awaited, SECONDS, Windows, name, read};
use std::fmt::Write as _;
use std::time::Duration;

/// How long what came of a window is said.
const NOTICE: Duration = Duration::from_secs(10);
/// A window that was asked for is open, or refused, in this time.
const SOON: Duration = Duration::from_secs(2);

fn say(state: &mut State, text: impl Into<String>) {
    toast_for(state, text, NOTICE);
}

/// Why no window can be opened now.
fn hindrance(state: &State) -> Option<String> {
    match (&state.start.windows, state.pulse.link()) {
        (Windows::Never(why), _) => Some(why.clone()),
        (_, Link::Ended { .. }) => Some("the recording has ended".into()),
        (_, Link::Waiting { .. } | Link::Starting) => Some("the server is away".into()),
        (Windows::Of { .. }, Link::Attached) => None,
    }
}

/// Opens the prompt, or says why not.
pub(super) fn prompt(state: &mut State) {
    if let Some(why) = hindrance(state) {
        return say(state, format!("no window can be opened: {why}"));
    }
    let Windows::Of { kind, .. } = state.start.windows else { return };
    state.layer = Some(Layer::Window(Asking { line: Line::offering(&SECONDS.to_string()), error: None, kind }));
}

/// Enter in the prompt.
pub(super) fn accept(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(Layer::Window(asking)) = &mut state.layer else { return };
    match read(&asking.line.text(), asking.kind) {
        Err(error) => asking.error = Some(error),
        Ok((kind, seconds)) => {
            state.layer = None;
            open(state, kind, seconds, effects);
        }
    }
}

fn open(state: &mut State, kind: Kind, seconds: u64, effects: &mut Vec<Effect>) {
    let tier = name(kind);
    if let Some(why) = hindrance(state) {
        return say(state, format!("no {tier} window: {why}"));
    }
    if state.window().is_some_and(|w| w.open && w.tier == kind.fidelity() && w.remaining_s.is_none()) {
        return say(state, format!("{tier} capture is on already, and without an end; E closes it"));
    }
    let error = state.pulse.answer().and_then(|a| a.health.window_error.clone());
    state.awaited = Some(Awaited { error, until: state.now + SOON });
    say(state, format!("asked for an {tier} window of {seconds} s").replace("an blocking", "a blocking"));
    effects.push(Effect::Command(Command::Open { kind, seconds: Some(seconds) }));
}

/// Closes the window, or says that there is none.
pub(super) fn close(state: &mut State, effects: &mut Vec<Effect>) {
    if let Windows::Never(why) = &state.start.windows {
        let text = format!("no window can be closed: {why}");
        return say(state, text);
    }
    if state.window().is_some_and(|w| w.open) || state.awaited.is_some() {
        effects.push(Effect::Command(Command::Close));
    } else {
        say(state, "no window is open");
    }
}

/// Nobody listens any more, or who does refuses.
pub(super) fn unheard(state: &mut State, why: &str) {
    state.awaited = None;
    say(state, format!("no window: {}", format::safe(why)));
}

/// Compares how things stood with how they stand.
pub(super) fn hear(state: &mut State, before: Option<&Health>) {
    let Some(now) = state.pulse.answer().map(|a| a.health.clone()) else { return };
    recording(state, before, &now);
    let was = before.and_then(|h| h.window.as_ref());
    let before_error = before.and_then(|h| h.window_error.as_ref());
    let failed = now.window_error.as_ref().filter(|e| {
        let awaited = state.awaited.as_ref();
        Some(*e) != before_error || awaited.is_some_and(|a| a.until <= state.now && a.error.as_ref() == Some(*e) && !is_open(&now))
    });
    if let Some(error) = failed {
        state.awaited = None;
        return say(state, format!("no window: {}", format::safe(error)));
    }
    if let Some(text) = by_itself(before, &now) {
        state.awaited = None;
        return say(state, text);
    }
    if is_open(&now) || state.awaited.as_ref().is_some_and(|a| a.until <= state.now) {
        state.awaited = None;
    }
    if let Some(window) = now.window.as_ref().filter(|w| !w.open && was.is_some_and(|b| b.open)) {
        let text = closed(window, &state.start.windows);
        say(state, text);
    }
}

/// Says when recording fails, and when it goes on.
fn recording(state: &mut State, before: Option<&Health>, now: &Health) {
    let error = |h: &Health| h.recording.as_ref().and_then(|r| r.error.clone());
    match (before.and_then(error), error(now)) {
        (None, Some(why)) => say(state, format!("not recording: {}; it goes on by itself when that is mended", format::safe(&why))),
        (Some(_), None) => say(state, "recording again"),
        _ => {}
    }
}

/// What a rule did: it opened a window, or was denied one.
fn by_itself(before: Option<&Health>, now: &Health) -> Option<String> {
    let fires = |h: Option<&Health>| h.and_then(|h| h.escalation.as_ref()).map_or((0, 0), |e| (e.fires, e.dropped_budget));
    let ((fired, denied), (fires, drops)) = (fires(before), fires(Some(now)));
    // With the first account nothing is news.
    before?.escalation.as_ref()?;
    if let Some(window) = now.window.as_ref().filter(|w| w.open && fires > fired) {
        let detail = if window.cause_detail.is_empty() { &window.cause } else { &window.cause_detail };
        let left = window.remaining_s.map_or_else(String::new, |s| format!(" for {s} s"));
        return Some(format!("{} window opened by itself{left}: {}", window.tier.name(), format::safe(detail)));
    }
    (drops > denied).then(|| "a rule asked for an exact window, and this hour's budget is used up".into())
}

fn is_open(health: &Health) -> bool {
    health.window.as_ref().is_some_and(|w| w.open)
}

/// `exact window closed: its time was up; 12,345 records, 3 backends not followed`.
fn closed(window: &WindowHealth, windows: &Windows) -> String {
    let reason = if window.reason.is_empty() { "no reason given".into() } else { format::safe(&window.reason) };
    let mut text = format!("{} window closed: {reason}; {} records", window.tier.name(), format::count(window.records));
    for (n, what) in [
        (window.lost_records, "lost"),
        (u64::from(window.unarmed), "backends not followed"),
        (u64::from(window.inferred), "with inferred commands"),
        (window.missed, "backends missed"),
    ] {
        if n > 0 {
            let _ = write!(text, ", {} {what}", format::count(n));
        }
    }
    if matches!(windows, Windows::Of { standing: Some(kind), .. } if kind.fidelity() == window.tier) {
        text.push_str("; it is opened again soon, as --mode says");
    }
    text
}
