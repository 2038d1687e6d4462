//! Which rows are listed and in what order, and where the selection is afterwards: on what it was on before, wherever that has moved.

use crate::analysis::answer::Body;
use crate::ui::pages::column::First;
use crate::ui::pages::with_rows;
use crate::ui::pages::{self, Page, Row, RowKey};
use crate::ui::state::place::{Sort, View};
use crate::ui::state::{Idle, State, slot};

/// Orders the rows of the page's answer and finds the selection again.
pub(super) fn arrange(state: &mut State) {
    let (ask, filter) = (state.ask(), state.place.filter());
    let pane = state.pane(slot::PAGE).filter(|p| p.is_about(ask, &filter));
    let Some(answer) = pane.and_then(|p| p.answer.clone()) else {
        // The selection waits for the answer that is about to be asked for.
        state.rows.clear();
        state.hidden = 0;
        return;
    };
    let view = state.place.view();
    let words: Vec<String> = state.place.words.iter().map(|w| w.to_lowercase()).collect();
    let idle = state.idle;
    if let Body::Flow(flow) = &answer.body {
        return super::flow::arrange(state, flow, &words);
    }
    let (rows, hidden) = with_rows!(&answer.body, rows => order(rows, view.sort, idle, &words), (Vec::new(), 0));
    let find = |key: RowKey| rows.iter().position(|i| pages::key(&answer, *i) == Some(key));
    let index = view.selected.and_then(find).unwrap_or(view.index);
    state.rows = rows;
    state.hidden = hidden;
    select(state, index);
}

/// Selects the row at a place, or the last one, and scrolls it into sight.
pub(super) fn select(state: &mut State, index: usize) {
    let index = index.min(state.rows.len().saturating_sub(1));
    let selected = state.rows.get(index).and_then(|row| pages::key(state.answer(slot::PAGE)?, *row));
    let room = state.areas().rows().max(1);
    let last = state.rows.len().saturating_sub(room);
    let View { sort, offset, .. } = state.place.view();
    let offset = offset.clamp((index + 1).saturating_sub(room), index).min(last);
    if let Some(view) = state.place.view_mut() {
        *view = View { sort, selected, index, offset };
    }
    super::flow::follow(state);
}

/// Moves the selection. While the rows are still on their way, moves add up.
pub(super) fn step(state: &mut State, by: isize) {
    let index = state.place.view().index.saturating_add_signed(by);
    let coming = state.pane(slot::PAGE).is_none_or(|p| p.answer.is_none() && p.error.is_none());
    match state.place.view_mut().filter(|_| coming) {
        Some(view) => (view.index, view.selected) = (index, None),
        None => select(state, index),
    }
}

/// Scrolls; the selection comes along when it would leave the screen.
pub(super) fn scroll(state: &mut State, by: isize) {
    let room = state.areas().rows().max(1);
    let last = state.rows.len().saturating_sub(room);
    let Some(view) = state.place.view_mut() else { return };
    view.offset = view.offset.saturating_add_signed(by).min(last);
    let index = view.index.clamp(view.offset, view.offset + room - 1);
    select(state, index);
}

/// Orders by the next or the previous column on the screen.
pub(super) fn sort_step(state: &mut State, by: isize) {
    let titles = crate::ui::draw::sortable(state);
    let ordered = state.answer(slot::PAGE).and_then(|a| with_rows!(&a.body, rows => ordered(rows), None));
    // A page whose answer has an order of its own offers that as well.
    let mut choices: Vec<Option<&'static str>> = titles.into_iter().map(Some).collect();
    if ordered.is_none() {
        choices.insert(0, None);
    }
    if choices.is_empty() {
        return;
    }
    let now = state.place.view().sort.column.or(ordered);
    let at = choices.iter().position(|c| *c == now).unwrap_or(0) as isize;
    let next = (at + by).rem_euclid(choices.len() as isize) as usize;
    sort_by(state, choices.get(next).copied().flatten(), false);
}

/// Orders by a column.
pub(super) fn sort_by(state: &mut State, column: Option<&'static str>, reversed: bool) {
    if matches!(state.place.page, Page::Time | Page::Latency | Page::Flow) {
        return;
    }
    if let Some(view) = state.place.view_mut() {
        view.sort = Sort { column, reversed };
    }
    arrange(state);
}

/// The column that answers are ordered by.
pub(super) fn ordered<R: Row>(_: &[R]) -> Option<&'static str> {
    R::ORDERED
}

fn order<R: Row>(rows: &[R], sort: Sort, idle: Idle, words: &[String]) -> (Vec<usize>, usize) {
    let listed = |row: &R| !row.is_redundant() && contains(row, words);
    let hides = |row: &R| idle == Idle::Hidden && row.is_idle();
    let mut hidden = 0;
    let mut order: Vec<usize> = Vec::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate().filter(|(_, row)| listed(row)) {
        if hides(row) {
            hidden += 1;
        } else {
            order.push(i);
        }
    }
    let column = sort.column.and_then(|title| R::COLUMNS.iter().find(|c| c.title == title));
    let compare = column.and_then(|c| c.order);
    let largest_first = column.is_some_and(|c| c.first == First::Largest);
    order.sort_by(|a, b| {
        let (Some(x), Some(y)) = (rows.get(*a), rows.get(*b)) else { return a.cmp(b) };
        let inside = match compare {
            Some(compare) if largest_first != sort.reversed => compare(y, x),
            Some(compare) => compare(x, y),
            None if sort.reversed => b.cmp(a),
            None => a.cmp(b),
        };
        x.group().cmp(&y.group()).then(inside).then(a.cmp(b))
    });
    (order, hidden)
}

/// Whether every word is in one of the row's texts.
fn contains<R: Row>(row: &R, words: &[String]) -> bool {
    words.iter().all(|word| {
        let mut found = false;
        row.texts(&mut |text| found = found || text.to_lowercase().contains(word.as_str()));
        found
    })
}
