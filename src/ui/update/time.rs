//! Moving in time: stopping, following, the cursor, zooming, the chart's scale.

use super::{ask, toast};
use crate::analysis::answer::Body;
use crate::trace::clock::{Span, Ts};
use crate::ui::chart::axis::round_up;
use crate::ui::format;
use crate::ui::state::camera::SHORTEST;
use crate::ui::state::{Scale, State, slot};
use std::time::Duration;

/// The scale shrinks after a lower one would have done for so long.
const SHRINK_AFTER: Duration = Duration::from_secs(10);

/// Stops the picture as it is.
pub(super) fn pause(state: &mut State) {
    let Some(span) = state.answer(slot::CHART).map(|a| a.window).or_else(|| state.span()) else { return };
    if state.is_paused() {
        return;
    }
    state.camera.still(span);
    ask::freeze(state, span);
    state.cursor = Some(newest(state, span));
}

/// The last bucket with data.
fn newest(state: &State, span: Span) -> Ts {
    let end = state.pulse.extent().map_or(span.end, |e| e.end).min(span.end);
    snap(state, span, end - 1)
}

/// The start of the bucket that holds `at`.
fn snap(state: &State, span: Span, at: Ts) -> Ts {
    let buckets = u64::from(state.buckets());
    let length = span.len().max(1);
    let i = (u128::from(at.max(span.start).since(span.start)) * u128::from(buckets) / u128::from(length)) as u64;
    let i = i.min(buckets - 1);
    span.start + (u128::from(length) * u128::from(i)).div_ceil(u128::from(buckets)) as u64
}

/// Follows time.
pub(super) fn follow(state: &mut State) {
    state.camera.follow();
    state.cursor = None;
    state.drag = None;
}

/// Moves the cursor by buckets; the window comes along at its edges.
pub(super) fn step(state: &mut State, by: i64) {
    if !state.has_data() {
        return;
    }
    if !state.is_paused() {
        return pause(state);
    }
    let Some(span) = state.camera.held() else { return };
    let bucket = (span.len() / u64::from(state.buckets())).max(1);
    let at = snap(state, span, state.cursor.unwrap_or(span.end - 1));
    // The middle of the bucket: rounding cannot lead back to where it was.
    let middle = at + bucket / 2;
    let next = if by < 0 { middle - bucket } else { middle + bucket };
    if next < span.start || next >= span.end {
        let extent = reach(state, span);
        state.camera.shift(if by < 0 { -(bucket as i64) } else { bucket as i64 }, extent);
    }
    if let Some(span) = state.camera.held() {
        state.cursor = Some(snap(state, span, next.min(span.end - 1)));
    }
}

/// What can be looked at: all that was recorded, and up to now.
fn reach(state: &State, span: Span) -> Span {
    let extent = state.pulse.extent().unwrap_or(span);
    Span::new(extent.start, state.pulse.present().unwrap_or(extent.end))
}

/// Moves half a window.
pub(super) fn shift(state: &mut State, forward: bool) {
    if !state.has_data() {
        return;
    }
    pause(state);
    let Some(span) = state.camera.held() else { return };
    let half = (span.len() / 2) as i64;
    let reach = reach(state, span);
    state.camera.shift(if forward { half } else { -half }, reach);
    match state.camera.held() {
        Some(now) if now != span => state.cursor = state.cursor.map(|c| snap(state, now, c)),
        _ => toast(state, if forward { "this is the newest data; G follows it" } else { "the recording does not reach further back" }),
    }
}

/// A shorter or longer window.
pub(super) fn zoom(state: &mut State, length: Option<u64>) {
    let Some(length) = length else { return };
    let end = state.pulse.present().unwrap_or_default();
    state.camera.zoom(length, state.cursor, end);
    if let (Some(span), Some(cursor)) = (state.camera.held(), state.cursor) {
        state.cursor = Some(snap(state, span, cursor));
    }
}

/// The window before.
pub(super) fn last(state: &mut State) {
    if state.camera.last() {
        state.cursor = state.camera.held().map(|span| state.cursor.map_or_else(|| newest(state, span), |c| snap(state, span, c)));
    }
}

/// The cursor to an instant.
pub(super) fn point(state: &mut State, at: Ts) {
    pause(state);
    if let Some(span) = state.camera.held() {
        state.cursor = Some(snap(state, span, at));
    }
}

/// Zooms into a stretch that was dragged over.
pub(super) fn zoom_to(state: &mut State, a: Ts, b: Ts) {
    let span = Span::new(a.min(b), a.max(b));
    if span.len() < SHORTEST {
        return toast(state, format!("too short to zoom into: {} is the least", format::duration(SHORTEST)));
    }
    state.camera.hold(span);
    state.cursor = Some(newest(state, span));
}

/// Fits the chart's scale to its answer: the CPU line is inside unless the load is far below it.
pub(super) fn rescale(state: &mut State) {
    let Some(Body::Load(load)) = state.answer(slot::CHART).map(|a| &a.body) else { return };
    let peak = load.max_aas * 1.02;
    let cpus = f64::from(state.pulse.answer().map_or(0, |a| a.server.cpus));
    let wanted = round_up(if cpus <= 4.0 * peak { peak.max(cpus * 1.02) } else { peak });
    let Scale { top, low_since } = state.scale;
    state.scale = match low_since {
        _ if wanted >= top => Scale { top: wanted, low_since: None },
        Some(since) if state.now.saturating_sub(since) >= SHRINK_AFTER => Scale { top: wanted, low_since: None },
        None if wanted <= top * 0.6 => Scale { top, low_since: Some(state.now) },
        _ if wanted > top * 0.6 => Scale { top, low_since: None },
        since => Scale { top, low_since: since },
    };
}
