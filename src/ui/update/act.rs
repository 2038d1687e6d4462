//! What each action does.

use super::{arrange, drill, flow, jump, layers, time, toast, window};
use crate::ui::action::Action;
use crate::ui::msg::{Effect, Outcome};
use crate::ui::pages::Page;
use crate::ui::pages::with_rows;
use crate::ui::state::layer::Layer;
use crate::ui::state::{Idle, Sql, State, slot};
use crate::ui::widgets::health;

/// Longest text put into a clipboard, bytes: terminals refuse more.
const COPIED: usize = 74_000;

/// Does it.
pub(super) fn act(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    if state.layer.is_some() && over(state, action, effects) {
        return;
    }
    let screenful = state.areas().rows().max(2) as isize - 1;
    if state.place.page == Page::Health
        && let Some(by) = lines(action, screenful)
    {
        let bottom = health::bottom(state);
        if let Some(view) = state.place.view_mut() {
            view.offset = view.offset.min(bottom).saturating_add_signed(by).min(bottom);
        }
        return;
    }
    match action {
        Action::Enter if state.place.page == Page::Flow => flow::enter(state),
        Action::Enter => drill::enter(state),
        Action::Back => drill::back(state),
        Action::Close => {
            if state.drag.take().is_some() {
                return;
            }
            if state.place.words.is_empty() { drill::back(state) } else { drop_words(state) }
        }
        Action::Up => arrange::step(state, -1),
        Action::Down => arrange::step(state, 1),
        Action::PageUp => arrange::step(state, -screenful),
        Action::PageDown => arrange::step(state, screenful),
        Action::First => arrange::step(state, isize::MIN),
        Action::Last => arrange::step(state, isize::MAX),
        Action::Show(page) => show(state, page),
        Action::NextPage => show(state, state.place.page.step(1)),
        Action::PreviousPage => show(state, state.place.page.step(-1)),
        Action::Pause if state.is_paused() => time::follow(state),
        Action::Pause => time::pause(state),
        Action::Live => time::follow(state),
        Action::Left if state.has_sides() => flow::side(state, -1),
        Action::Right if state.has_sides() => flow::side(state, 1),
        Action::Left => time::step(state, -1),
        Action::Right => time::step(state, 1),
        Action::Earlier => time::shift(state, false),
        Action::Later => time::shift(state, true),
        Action::ZoomIn => time::zoom(state, state.camera.shorter()),
        Action::ZoomOut => time::zoom(state, state.camera.longer()),
        Action::LastWindow => time::last(state),
        Action::Jump => jump::prompt(state),
        Action::Escalate => window::prompt(state),
        Action::Calm => window::close(state, effects),
        Action::Weigh => flow::weigh(state),
        Action::Face => flow::face(state),
        Action::Filter => layers::prompt(state),
        Action::SortNext => arrange::sort_step(state, 1),
        Action::SortPrevious => arrange::sort_step(state, -1),
        Action::SortReverse => reverse(state),
        Action::Idle => {
            state.idle = if state.idle == Idle::Hidden { Idle::Shown } else { Idle::Hidden };
            arrange::arrange(state);
        }
        Action::Detail => {
            if let Some(subject) = state.subject() {
                drill::detail(state, subject);
            }
        }
        Action::Wrap => {
            state.sql = if state.sql == Sql::Cut { Sql::Wrapped } else { Sql::Cut };
            arrange::arrange(state);
        }
        Action::CopySql => copy_sql(state, effects),
        Action::CopyId => {
            if let Some(subject) = state.subject() {
                let id = subject.id();
                toast(state, format!("sent to the terminal's clipboard: {id}"));
                effects.push(Effect::Copy(id));
            }
        }
        Action::Help => state.layer = Some(Layer::Help(0)),
        Action::Palette => layers::palette(state),
        Action::Themes => layers::themes(state),
        Action::Redraw => effects.push(Effect::Redraw),
        Action::Suspend => effects.push(Effect::Suspend),
        Action::Quit | Action::Abort => effects.push(Effect::Leave(Outcome::Quit)),
    }
}

/// By how many lines an action scrolls a page of text.
fn lines(action: Action, screenful: isize) -> Option<isize> {
    Some(match action {
        Action::Up => -1,
        Action::Down => 1,
        Action::PageUp => -screenful,
        Action::PageDown => screenful,
        Action::First => isize::MIN,
        Action::Last => isize::MAX,
        _ => return None,
    })
}

/// An action while something lies over the page. False: it is the page's after all.
fn over(state: &mut State, action: Action, effects: &mut Vec<Effect>) -> bool {
    let screenful = state.areas().rows().max(2) as isize - 1;
    let detail = matches!(state.layer, Some(Layer::Detail(_)));
    match action {
        Action::Up => layers::step(state, -1, effects),
        Action::Down => layers::step(state, 1, effects),
        Action::PageUp => layers::step(state, -screenful, effects),
        Action::PageDown => layers::step(state, screenful, effects),
        Action::First => layers::step(state, isize::MIN, effects),
        Action::Last => layers::step(state, isize::MAX / 2, effects),
        Action::Enter => {
            layers::accept(state, effects);
            true
        }
        Action::Close | Action::Back | Action::Quit => {
            layers::close(state, effects);
            true
        }
        Action::Detail if detail => {
            layers::close(state, effects);
            true
        }
        Action::Help if matches!(state.layer, Some(Layer::Help(_))) => {
            layers::close(state, effects);
            true
        }
        // The chart stays in sight beside details, so time moves; what leads elsewhere closes them.
        Action::Show(_)
        | Action::NextPage
        | Action::PreviousPage
        | Action::Filter
        | Action::Palette
        | Action::Themes
        | Action::Help
        | Action::Jump
        | Action::Escalate => {
            layers::close(state, effects);
            false
        }
        Action::Pause
        | Action::Live
        | Action::Left
        | Action::Right
        | Action::Earlier
        | Action::Later
        | Action::ZoomIn
        | Action::ZoomOut
        | Action::LastWindow
        | Action::Calm
        | Action::CopySql
        | Action::CopyId => !detail,
        Action::Abort | Action::Suspend | Action::Redraw => false,
        _ => true,
    }
}

/// Shows a page; the filter stays.
fn show(state: &mut State, page: Page) {
    state.place.page = page;
    arrange::arrange(state);
}

fn drop_words(state: &mut State) {
    state.place.words.clear();
    arrange::arrange(state);
}

fn reverse(state: &mut State) {
    let sort = state.place.view().sort;
    let ordered = state.answer(slot::PAGE).and_then(|a| with_rows!(&a.body, rows => arrange::ordered(rows), None));
    arrange::sort_by(state, sort.column.or(ordered), !sort.reversed);
}

fn copy_sql(state: &mut State, effects: &mut Vec<Effect>) {
    let Some(text) = state.subject().and_then(|s| s.sql().map(|sql| sql.text.to_string())) else {
        return toast(state, "no SQL text is known for this row");
    };
    if text.len() > COPIED {
        return toast(state, format!("SQL of {} bytes is too long for a terminal's clipboard ({COPIED})", text.len()));
    }
    toast(state, format!("SQL sent to the terminal's clipboard, {} bytes", text.len()));
    effects.push(Effect::Copy(text));
}
