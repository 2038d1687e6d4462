//! What keys, answers and the mouse do to the state.

use crate::sim::{Sim, lines};
use pg_wait_tracer::trace::clock::SECOND;
use pg_wait_tracer::ui::msg::{Effect, Msg, Outcome, Signal};
use pg_wait_tracer::ui::pages::Page;
use pg_wait_tracer::ui::state::{AtEnd, Start, slot};
use pg_wait_tracer::ui::theme::color::Depth;
use ratatui::crossterm::event::{MouseButton, MouseEventKind};

fn shop() -> Sim {
    Sim::new("busy.toml", 240, (100, 30))
}

#[test]
fn the_selection_follows_what_it_is_on() {
    let mut sim = shop();
    sim.keys("3");
    while !sim.selected().starts_with("4703") {
        sim.keys("Down");
    }
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..100 {
        sim.advance(2);
        assert!(sim.selected().starts_with("4703"), "{}", sim.selected());
        places.insert(sim.state.place.view().index);
    }
    assert!(places.len() > 2, "it has moved: {places:?}");
}

#[test]
fn sorting_keeps_the_selection() {
    let mut sim = shop();
    sim.keys("3 Down Down Down");
    let pid = sim.selected()[..4].to_owned();
    for key in ["s", "s", "S", "<", "i", ">", "S"] {
        sim.keys(key);
        assert!(sim.selected().starts_with(&pid), "{key}: {}", sim.selected());
    }
}

#[test]
fn a_paused_picture_does_not_change() {
    for page in ["1", "2", "3", "4", "a"] {
        let mut sim = shop();
        sim.keys(page).keys("Space");
        let (first, rest) = (sim.picture(), |p: &str| p.lines().skip(1).map(str::to_owned).collect::<Vec<_>>());
        sim.advance(90);
        let last = sim.picture();
        assert_eq!(rest(&first), rest(&last));
        assert!(last.lines().next().unwrap().contains("paused"));
        sim.keys("G");
        assert_ne!(rest(&sim.picture()), rest(&first));
    }
}

#[test]
fn stopping_changes_nothing_but_marks() {
    let mut sim = shop();
    sim.keys("2");
    let body = |sim: &mut Sim| lines(&sim.draw()).into_iter().skip(13).take(15).collect::<Vec<_>>();
    let live = body(&mut sim);
    sim.keys("Space");
    assert_eq!(body(&mut sim), live);
}

#[test]
fn replies_to_what_is_no_longer_asked_are_dropped() {
    let mut sim = shop();
    sim.holding = true;
    sim.keys("3");
    let sessions = std::mem::take(&mut sim.held);
    sim.keys("4");
    assert!(sim.picture().contains("reading 13:"), "{}", sim.picture());
    let queries = std::mem::take(&mut sim.held);
    sim.held = sessions;
    sim.release();
    assert!(sim.state.answer(slot::PAGE).is_none() && sim.state.rows.is_empty());
    sim.held = queries;
    sim.release();
    assert!(sim.picture().contains("query id"));
    assert!(!sim.state.rows.is_empty());
}

#[test]
fn a_slow_answer_is_not_starved_by_newer_questions() {
    let mut sim = shop();
    sim.holding = true;
    sim.advance(30);
    let page = sim.held.iter().filter(|r| r.slot == slot::PAGE).count();
    assert_eq!(page, 1, "one question at a time");
    sim.release();
    sim.holding = true;
    sim.advance(2);
    assert!(sim.held.iter().any(|r| r.slot == slot::PAGE));
}

#[test]
fn typing_ahead_of_the_answers_loses_nothing() {
    let mut sim = shop();
    sim.holding = true;
    sim.keys("3 Down Down Down Up");
    sim.release();
    assert_eq!(sim.state.place.view().index, 2);
    sim.holding = true;
    sim.keys("4 End");
    sim.release();
    assert_eq!(sim.state.place.view().index, sim.state.rows.len() - 1);
}

#[test]
fn old_rows_never_stand_for_another_window() {
    let mut sim = shop();
    sim.keys("2");
    sim.holding = true;
    sim.keys("+");
    let picture = sim.picture();
    assert!(picture.contains("reading") && !picture.contains("DataFileRead"), "{picture}");
}

#[test]
fn a_storm_of_sizes_ends_at_the_last_with_the_same_selection() {
    let mut sim = shop();
    sim.keys("3 Down Down");
    let before = sim.state.place.view().selected;
    for i in 0..200u16 {
        sim.resize(1 + i * 37 % 300, 1 + i * 13 % 120);
    }
    sim.resize(100, 30);
    assert_eq!(sim.state.place.view().selected, before);
    assert_eq!(sim.picture().lines().count(), 30);
}

#[test]
fn very_large_terminals_draw() {
    for (width, height) in [(1_000, 500), (4_000, 16), (61, 600)] {
        let mut sim = Sim::new("busy.toml", 240, (width, height));
        for keys in ["1", "2", "3", "4", "a", "?", "Esc d", "Esc w"] {
            sim.keys(keys);
        }
        assert!(sim.picture().contains("pg18"));
    }
}

#[test]
fn every_row_of_every_page_can_be_entered_and_left() {
    for page in ["1", "2", "3", "4", "a"] {
        let mut sim = shop();
        sim.keys("i").keys(page);
        let rows = sim.state.rows.len();
        assert!(rows > 4);
        for n in 0..rows {
            let place = sim.state.place.clone();
            sim.keys("Enter");
            assert!(sim.state.place != place || sim.state.layer.is_some(), "row {n} of page {page} leads nowhere");
            assert!(sim.state.answer(slot::PAGE).is_some(), "{:?}", sim.state.pane(slot::PAGE).unwrap().error);
            for _ in 0..6 {
                sim.keys("Enter");
            }
            assert!(sim.state.layer.is_some(), "in the end there are details");
            for _ in 0..10 {
                sim.keys("Backspace");
            }
            assert_eq!(sim.state.place, place, "and the way back leads here");
            sim.keys("Down");
        }
    }
}

#[test]
fn live_again_after_a_drag_over_the_chart() {
    let mut sim = shop();
    sim.mouse(MouseEventKind::Down(MouseButton::Left), 40, 4);
    sim.mouse(MouseEventKind::Drag(MouseButton::Left), 60, 4);
    assert!(!sim.state.is_paused());
    sim.mouse(MouseEventKind::Up(MouseButton::Left), 60, 4);
    let span = sim.state.camera.held().unwrap();
    assert!((span.len() as f64 / SECOND as f64 - 300.0 * 20.0 / 93.0).abs() < 2.0, "{}", span.len());
    sim.keys("z");
    assert!(!sim.state.is_paused());
    assert_eq!(sim.state.camera.length, 300 * SECOND);
    sim.click(50, 5);
    assert!(sim.state.cursor.is_some() && sim.state.is_paused());
    sim.keys("G");
    assert_eq!((sim.state.cursor, sim.state.is_paused(), sim.state.camera.length), (None, false, 300 * SECOND));
}

#[test]
fn the_mouse_selects_enters_sorts_and_goes_back() {
    let mut sim = shop();
    let tabs = sim.row_of("1 Time");
    sim.click(22, tabs);
    assert_eq!(sim.state.place.page, Page::Sessions);
    let row = sim.row_of("4704");
    sim.click(10, row);
    assert!(sim.selected().starts_with("4704"));
    assert_eq!(sim.state.place.page, Page::Sessions, "once selects");
    sim.click(10, row);
    assert_eq!(sim.state.place.page, Page::Queries, "twice enters");
    let crumbs = sim.row_of("db ›");
    sim.click(1, crumbs);
    assert_eq!((sim.state.place.page, sim.state.place.crumbs.len()), (Page::Sessions, 0));
    let titles = sim.row_of("top wait");
    sim.click(3, titles);
    assert_eq!(sim.state.place.view().sort.column, Some("pid"));
    sim.mouse(MouseEventKind::ScrollDown, 10, row);
    assert!(sim.state.place.view().offset > 0 || sim.state.rows.len() < 16);
}

#[test]
fn what_is_tried_in_a_prompt_is_undone_by_esc() {
    let mut sim = shop();
    sim.keys("4 / 'accounts'");
    let narrowed = sim.state.rows.len();
    sim.keys("Esc");
    assert!(sim.state.rows.len() > narrowed && sim.state.place.words.is_empty());
    sim.keys("/ 'class=Lock' Enter");
    assert_eq!(sim.state.place.crumbs[0].label, "Lock");
    sim.keys("/ 'nonsense=1' Enter");
    assert!(sim.picture().contains("unknown key"), "{}", sim.picture());
    sim.keys("Esc Backspace");
    assert!(sim.state.place.is_whole());
}

#[test]
fn copying_says_so_and_copies_the_text_as_it_is() {
    let mut sim = shop();
    sim.keys("4 / 'balance' Enter");
    sim.keys("y Y");
    let copied: Vec<_> = sim.effects.iter().filter_map(|e| if let Effect::Copy(text) = e { Some(text.as_str()) } else { None }).collect();
    assert_eq!(copied.len(), 2);
    assert!(copied[0].starts_with("UPDATE accounts") && copied[0].contains('\n'), "{}", copied[0]);
    assert!(["912", "-77123"].contains(&copied[1]));
    assert!(sim.picture().contains("clipboard"));
}

#[test]
fn themes_are_tried_on_and_given_back() {
    let mut sim = shop();
    sim.keys("T Down Down");
    sim.keys("Esc");
    let worn: Vec<_> = sim.effects.iter().filter_map(|e| if let Effect::Theme(name) = e { Some(name.as_str()) } else { None }).collect();
    assert_eq!(worn, ["light", "high-contrast", "dark"]);
}

#[test]
fn quitting_signals_and_stops_are_effects() {
    let mut sim = shop();
    sim.keys("? q");
    assert!(sim.effects.is_empty() && sim.state.layer.is_none(), "q closes help first");
    sim.keys("q");
    assert!(matches!(sim.effects.pop(), Some(Effect::Leave(Outcome::Quit))));
    sim.keys("/ 'q' Ctrl-c");
    assert!(matches!(sim.effects.pop(), Some(Effect::Leave(Outcome::Quit))));
    sim.send(Msg::Signal(Signal::Terminate(15)));
    assert!(matches!(sim.effects.pop(), Some(Effect::Leave(Outcome::Signal(15)))));
    sim.keys("Esc Ctrl-z");
    assert!(matches!(sim.effects.pop(), Some(Effect::Suspend)));
    sim.send(Msg::Broken("thread session: panicked".into()));
    assert!(matches!(sim.effects.pop(), Some(Effect::Leave(Outcome::Broken(_)))));
}

#[test]
fn a_terminal_that_is_too_small_still_quits() {
    let mut sim = Sim::new("busy.toml", 60, (40, 10));
    sim.keys("q");
    assert!(matches!(sim.effects.pop(), Some(Effect::Leave(Outcome::Quit))));
}

#[test]
fn the_end_of_a_recording_leaves_only_when_asked_to() {
    let start = |at_end| Start { at_end, ..Start::default() };
    let stay = Sim::with("ended.toml", 30, (80, 24), start(AtEnd::Stay), "dark", Depth::True);
    assert!(stay.effects.is_empty());
    let leave = Sim::with("ended.toml", 30, (80, 24), start(AtEnd::Leave), "dark", Depth::True);
    assert!(matches!(leave.effects.first(), Some(Effect::Leave(Outcome::Ended(why))) if why.contains("run with sudo")));
}

#[test]
fn hints_only_name_keys_that_act() {
    let mut sim = shop();
    let footer = |sim: &mut Sim| sim.picture().lines().last().unwrap().to_owned();
    assert!(!footer(&mut sim).contains("live") && !footer(&mut sim).contains("bksp") && !footer(&mut sim).contains("sort"));
    sim.keys("3 Enter Space");
    for hint in ["G live", "bksp back", "s sort"] {
        assert!(footer(&mut sim).contains(hint), "{hint}: {}", footer(&mut sim));
    }
    let mut empty = Sim::new("busy.toml", 0, (100, 30));
    assert!(!footer(&mut empty).contains("pause"), "{}", footer(&mut empty));
}
