//! Going into rows and back. Each step adds a condition and leads to what is still open: class, event, session, query; when nothing is open,
//! to the detail panel.

use super::arrange;
use crate::ui::pages::Page;
use crate::ui::pages::subject::Subject;
use crate::ui::state::layer::{Detail, Layer};
use crate::ui::state::place::Crumb;
use crate::ui::state::place::Dimension::{self, Event, Query, Session};
use crate::ui::state::{Idle, State};

/// Into the selected row.
pub(super) fn enter(state: &mut State) {
    let Some(subject) = state.subject() else { return };
    let mut place = state.place.clone();
    if let Some(term) = subject.term() {
        let crumb = Crumb::named(term, subject.label());
        if !place.crumbs.iter().any(|c| c.clause == crumb.clause) {
            place.crumbs.push(crumb);
        }
    }
    let open = |order: [Dimension; 2]| order.into_iter().find(|d| !place.fixes(*d)).map(Dimension::page);
    let page = match &subject {
        Subject::Everything | Subject::Idle => Some(Page::Events),
        Subject::Class(..) if !place.fixes(Event) => Some(Page::Events),
        Subject::Class(..) | Subject::Event(..) => open([Session, Query]),
        Subject::Session(..) => open([Query, Event]),
        Subject::Query(_) => open([Event, Session]),
    };
    // A session without load has nothing to list further in.
    let idle = matches!(subject, Subject::Session(..)) && state.selected_load() == 0;
    let Some(page) = page.filter(|_| !idle) else { return detail(state, subject) };
    if subject == Subject::Idle {
        state.idle = Idle::Shown;
    }
    place.page = page;
    place.words.clear();
    place.reset_selection();
    go(state, place);
}

/// To a place, remembering the present one.
pub(super) fn go(state: &mut State, place: crate::ui::state::place::Place) {
    let before = std::mem::replace(&mut state.place, place);
    state.history.push(before);
    arrange::arrange(state);
}

/// Opens the detail panel.
pub(super) fn detail(state: &mut State, subject: Subject) {
    state.layer = Some(Layer::Detail(Detail { subject, offset: 0 }));
}

/// Back to where the last row was entered; without a way back, one condition less.
pub(super) fn back(state: &mut State) {
    if let Some(place) = state.history.pop() {
        state.place = place;
    } else if !state.place.words.is_empty() {
        state.place.words.clear();
    } else if state.place.crumbs.pop().is_some() {
        state.place.reset_selection();
    }
    arrange::arrange(state);
}

/// Back to the breadcrumb's first `kept` steps.
pub(super) fn back_to(state: &mut State, kept: usize) {
    if kept >= state.place.crumbs.len() && state.place.words.is_empty() {
        return;
    }
    // The place where just these conditions held, when the user was there.
    let wanted = state.place.crumbs.get(..kept).unwrap_or_default().to_vec();
    if let Some(at) = state.history.iter().position(|p| p.crumbs == wanted && p.words.is_empty()) {
        state.history.truncate(at + 1);
        return back(state);
    }
    let mut place = state.place.clone();
    place.crumbs = wanted;
    place.words.clear();
    place.reset_selection();
    go(state, place);
}
