//! What lies over the page: typing into it, moving in it, closing it.

use super::{act, arrange, drill, filter, jump, window};
use crate::ui::action::Action;
use crate::ui::keymap::Key;
use crate::ui::msg::{Effect, Outcome};
use crate::ui::state::State;
use crate::ui::state::layer::{Layer, Palette, Prompt, Themes};
use crate::ui::state::line::Line;
use crate::ui::theme::Theme;
use crate::ui::widgets::{detail, help};
use ratatui::crossterm::event::{KeyCode, KeyEvent};

/// Opens the filter prompt with the filter there is.
pub(super) fn prompt(state: &mut State) {
    let mut text = filter::text(&state.place);
    if !text.is_empty() {
        text.push(' ');
    }
    state.layer = Some(Layer::Prompt(Prompt { line: Line::new(&text), error: None, words: state.place.words.clone() }));
}

/// Opens the palette.
pub(super) fn palette(state: &mut State) {
    state.layer = Some(Layer::Palette(Palette::default()));
}

/// Opens the list of themes.
pub(super) fn themes(state: &mut State) {
    let index = Theme::names().iter().position(|(name, _)| *name == state.theme).unwrap_or(0);
    state.layer = Some(Layer::Themes(Themes { index, before: state.theme.clone() }));
}

/// Closes what is open, undoing what was only tried.
pub(super) fn close(state: &mut State, effects: &mut Vec<Effect>) {
    match state.layer.take() {
        Some(Layer::Prompt(prompt)) => {
            state.place.words = prompt.words;
            arrange::arrange(state);
        }
        Some(Layer::Themes(themes)) => wear(state, themes.before, effects),
        _ => {}
    }
}

fn wear(state: &mut State, theme: String, effects: &mut Vec<Effect>) {
    if state.theme != theme {
        state.theme.clone_from(&theme);
        effects.push(Effect::Theme(theme));
    }
}

/// Text pasted: into the line being typed, else nowhere.
pub(super) fn paste(state: &mut State, text: &str) {
    match &mut state.layer {
        Some(Layer::Prompt(prompt)) => prompt.line.insert(text),
        Some(Layer::Palette(palette)) => palette.line.insert(text),
        Some(Layer::Window(asking)) => asking.line.insert(text),
        Some(Layer::Jump(jump)) => jump.line.insert(text),
        _ => return,
    }
    edited(state);
}

/// A key while something is being typed into. False: it is none of the editor's.
pub(super) fn typed(state: &mut State, key: KeyEvent, effects: &mut Vec<Effect>) -> bool {
    if !state.layer.as_ref().is_some_and(Layer::is_typing) {
        return false;
    }
    if state.keymap.action(Key::from(key)) == Some(Action::Abort) {
        effects.push(Effect::Leave(Outcome::Quit));
        return true;
    }
    match key.code {
        KeyCode::Esc => close(state, effects),
        KeyCode::Enter => accept(state, effects),
        KeyCode::Up | KeyCode::Down => {
            step(state, if key.code == KeyCode::Up { -1 } else { 1 }, effects);
        }
        _ => {
            let took = match &mut state.layer {
                Some(Layer::Prompt(prompt)) => prompt.line.key(key),
                Some(Layer::Palette(palette)) => palette.line.key(key),
                Some(Layer::Window(asking)) => asking.line.key(key),
                Some(Layer::Jump(jump)) => jump.line.key(key),
                _ => false,
            };
            if took {
                edited(state);
            }
        }
    }
    true
}

/// The typed line changed: rows are narrowed at once, conditions wait for Enter.
fn edited(state: &mut State) {
    match &mut state.layer {
        Some(Layer::Prompt(prompt)) => {
            prompt.error = None;
            let typed = filter::read(&prompt.line.text(), &state.place);
            state.place.words = typed.words;
            arrange::arrange(state);
        }
        Some(Layer::Palette(palette)) => palette.index = 0,
        Some(Layer::Window(asking)) => asking.error = None,
        Some(Layer::Jump(jump)) => jump.error = None,
        _ => {}
    }
}

/// Enter: take what was typed or selected.
pub(super) fn accept(state: &mut State, effects: &mut Vec<Effect>) {
    match &mut state.layer {
        Some(Layer::Prompt(prompt)) => {
            let typed = filter::read(&prompt.line.text(), &state.place);
            if typed.error.is_some() {
                prompt.error = typed.error;
                return;
            }
            let before = prompt.words.clone();
            state.layer = None;
            state.place.words = before;
            let mut place = state.place.clone();
            (place.crumbs, place.words) = (typed.crumbs, typed.words);
            if place.crumbs != state.place.crumbs {
                place.reset_selection();
            }
            if place != state.place {
                drill::go(state, place);
            }
        }
        Some(Layer::Palette(palette)) => {
            let action = palette.found().get(palette.index).copied();
            state.layer = None;
            if let Some(action) = action {
                act::act(state, action, effects);
            }
        }
        Some(Layer::Window(_)) => window::accept(state, effects),
        Some(Layer::Jump(_)) => jump::accept(state),
        Some(Layer::Themes(_)) => state.layer = None,
        _ => {}
    }
}

/// Moves in what lies over the page. False when nothing does.
pub(super) fn step(state: &mut State, by: isize, effects: &mut Vec<Effect>) -> bool {
    match &mut state.layer {
        Some(Layer::Help(offset)) => *offset = offset.saturating_add_signed(by),
        Some(Layer::Detail(detail)) => detail.offset = detail.offset.saturating_add_signed(by),
        Some(Layer::Palette(palette)) => {
            let last = palette.found().len().saturating_sub(1);
            palette.index = palette.index.saturating_add_signed(by).min(last);
        }
        Some(Layer::Themes(themes)) => {
            let names = Theme::names();
            themes.index = themes.index.saturating_add_signed(by).min(names.len() - 1);
            if let Some((name, _)) = names.get(themes.index) {
                wear(state, (*name).to_owned(), effects);
            }
        }
        Some(Layer::Prompt(_) | Layer::Window(_) | Layer::Jump(_)) => {}
        None => return false,
    }
    keep_inside(state);
    true
}

/// A line of a list was clicked: select it and take it.
pub(super) fn pick(state: &mut State, index: usize, effects: &mut Vec<Effect>) {
    match &mut state.layer {
        Some(Layer::Palette(palette)) => palette.index = index,
        Some(Layer::Themes(themes)) => {
            themes.index = index;
            step(state, 0, effects);
        }
        _ => return,
    }
    accept(state, effects);
}

/// Scroll positions stay inside what there is to scroll.
pub(super) fn keep_inside(state: &mut State) {
    let bottom = match &state.layer {
        Some(Layer::Help(_)) => help::bottom(state),
        Some(Layer::Detail(detail)) => detail::bottom(detail, state),
        _ => return,
    };
    match &mut state.layer {
        Some(Layer::Help(offset)) => *offset = (*offset).min(bottom),
        Some(Layer::Detail(detail)) => detail.offset = detail.offset.min(bottom),
        _ => {}
    }
}
