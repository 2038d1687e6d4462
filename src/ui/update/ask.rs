//! Which questions are open: decided anew after every message from what the screen shows. A question goes out when it is about something new,
//! or when the picture follows time and its last answer has aged.

use crate::analysis::filter::{Filter, Term};
use crate::analysis::question::{Ask, Question};
use crate::session::Slot;
use crate::trace::clock::{SECOND, Span, Window};
use crate::ui::msg::Effect;
use crate::ui::pages::Page;
use crate::ui::pages::subject::Subject;
use crate::ui::state::layer::Layer;
use crate::ui::state::pane::{Topic, When};
use crate::ui::state::{Scale, State, slot};
use crate::ui::widgets::detail::LISTED;
use std::time::Duration;

/// Rows asked for at most.
pub const LIMIT: usize = 1_000;
/// Window of the status line's figures.
const STATUS: u64 = 5 * SECOND;
/// Window of the first extra column of the time model.
const SHORT: u64 = 5 * SECOND;
/// Window of the second.
const MEDIUM: u64 = 60 * SECOND;
/// While no server was seen, how often is asked.
const SOON: Duration = Duration::from_millis(250);

/// A question that should be open.
struct Want {
    slot: Slot,
    topic: Topic,
    question: Question,
    period: Duration,
}

/// Sends the questions that are due.
pub(super) fn ask(state: &mut State, effects: &mut Vec<Effect>) {
    let wants = wants(state);
    for slot in (0u8..).take(slot::COUNT) {
        if !wants.iter().any(|w| w.slot == slot)
            && let Some(pane) = state.pane_mut(slot)
        {
            pane.clear();
        }
    }
    let now = state.now;
    for want in wants {
        if !state.pane(want.slot).is_some_and(|p| p.is_due(&want.topic, now, want.period)) {
            continue;
        }
        state.seq += 1;
        let seq = state.seq;
        let Some(pane) = state.pane_mut(want.slot) else { continue };
        effects.push(Effect::Ask(pane.ask(want.slot, seq, want.topic, want.question, now)));
        if pane.answer.is_some() {
            continue;
        }
        match want.slot {
            slot::CHART => state.scale = Scale::default(),
            slot::PAGE => {
                state.rows.clear();
                state.hidden = 0;
            }
            _ => {}
        }
    }
}

/// The picture stops on `span`: answers at hand become answers for it.
pub(super) fn freeze(state: &mut State, span: Span) {
    for slot in (0u8..).take(slot::COUNT).filter(|s| *s != slot::STATUS) {
        let when = match slot {
            slot::SHORT => last(span, SHORT),
            slot::MEDIUM => last(span, MEDIUM),
            _ => span,
        };
        if let Some(pane) = state.pane_mut(slot) {
            pane.freeze(when);
        }
    }
}

fn last(span: Span, length: u64) -> Span {
    Span::new(span.end - length, span.end)
}

fn wants(state: &State) -> Vec<Want> {
    let mut wants = Vec::with_capacity(slot::COUNT);
    let (status, follow) = (Ask::Load { buckets: 1 }, Window::Follow(STATUS));
    wants.push(Want {
        slot: slot::STATUS,
        topic: Topic { ask: status, filter: Filter::default(), when: When::Last(STATUS) },
        question: Question::new(status, follow),
        period: if state.has_data() { Duration::from_secs(1) } else { SOON },
    });
    let Some(span) = state.span() else { return wants };
    let held = state.camera.held();
    // A bucket of an hour's window is half a minute: no need to ask every second.
    let period = Duration::from_nanos((state.bucket() / 4).clamp(SECOND, 5 * SECOND));
    let mut want = |slot, ask, filter: &Filter, span: Span, length: u64, limit, spark| {
        let when = held.map_or(When::Last(length), |_| When::At(span));
        wants.push(Want {
            slot,
            topic: Topic { ask, filter: filter.clone(), when },
            question: Question { ask, window: Window::Fixed(span), filter: filter.clone(), limit, spark },
            period,
        });
    };
    let filter = state.place.filter();
    let page = state.place.page;
    let length = state.camera.length;
    want(slot::CHART, Ask::Load { buckets: state.buckets() }, &filter, span, length, 0, 0);
    let limit = if matches!(page, Page::Time | Page::Active | Page::Flow | Page::Latency | Page::Health) { 0 } else { LIMIT };
    // What every session was doing at the cursor, or at the moment gone to.
    let seen = match (page, held, state.instant()) {
        (Page::Active, Some(_), Some(at)) => Span::new(span.start, at),
        _ => span,
    };
    want(slot::PAGE, state.ask(), &filter, seen, length, limit, spark(state));
    if page == Page::Time {
        let end = held.map_or_else(|| state.pulse.present().unwrap_or(span.end), |h| h.end);
        for (slot, length) in [(slot::SHORT, SHORT), (slot::MEDIUM, MEDIUM)].into_iter().filter(|(_, l)| *l < state.camera.length / 2) {
            want(slot, Ask::TimeModel, &filter, Span::new(end - length, end), length, 0, 0);
        }
    }
    if let Some(Layer::Detail(detail)) = &state.layer {
        let inside = detail.subject.term().into_iter().fold(filter, Filter::and);
        want(slot::DETAIL_EVENTS, Ask::Events, &inside, span, length, LISTED, 0);
        match &detail.subject {
            Subject::Query(_) => {}
            Subject::Session(who, _) => {
                want(slot::DETAIL_QUERIES, Ask::Queries, &inside, span, length, LISTED, 0);
                want(slot::DETAIL_NOW, Ask::Active, &Filter::default().and(Term::Session(who.session)), span, length, 1, 0);
            }
            _ => want(slot::DETAIL_QUERIES, Ask::Queries, &inside, span, length, LISTED, 0),
        }
    }
    wants
}

/// Points of sparklines: about as many as there will be cells for.
fn spark(state: &State) -> u16 {
    match (state.place.page, state.size.0) {
        (Page::Active | Page::Latency | Page::Flow | Page::Health, _) => 0,
        (_, ..100) => 12,
        (_, 100..150) => 24,
        (_, 150..200) => 48,
        _ => 96,
    }
}
