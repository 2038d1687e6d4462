//! Pictures: a scenario, a size, keys, and what is then on the screen. In process, without a terminal, without sleeping.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[path = "screens/behaviour.rs"]
mod behaviour;
#[path = "screens/health.rs"]
mod health;
#[path = "screens/precise.rs"]
mod precise;
#[path = "screens/random.rs"]
mod random;
#[path = "screens/recordings.rs"]
mod recordings;
#[path = "screens/sim.rs"]
mod sim;

use pg_wait_tracer::ui::state::Start;
use pg_wait_tracer::ui::theme::color::Depth;
use ratatui::buffer::Buffer;
use sim::Sim;

const SMALL: (u16, u16) = (80, 24);
const MIDDLE: (u16, u16) = (140, 40);

/// Compares with the picture in `tests/screens`.
fn same(name: &str, picture: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("screens");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, picture));
}

/// The screen of the shop after seven minutes.
fn shop(size: (u16, u16)) -> Sim {
    Sim::new("busy.toml", 420, size)
}

#[test]
fn every_page_at_every_size() {
    for (page, name) in [("1", "time"), ("2", "events"), ("3", "sessions"), ("4", "queries"), ("a", "active")] {
        same(&format!("{name}_80x24"), &shop(SMALL).keys(page).picture());
        same(&format!("{name}_140x40"), &shop(MIDDLE).keys(page).picture());
    }
    same("time_200x60", &shop((200, 60)).picture());
    same("queries_60x15", &shop((60, 15)).keys("4").picture());
}

#[test]
fn too_small_says_what_is_needed() {
    same("too_small_40x10", &shop((40, 10)).picture());
}

#[test]
fn drilling_down_three_levels_and_back() {
    let mut sim = shop(SMALL);
    let row = |sim: &mut Sim, text: &str| {
        for _ in 0..40 {
            if sim.selected().starts_with(text) {
                return;
            }
            sim.keys("Down");
        }
        panic!("no row {text}");
    };
    row(&mut sim, "■ Lock");
    sim.keys("Enter");
    same("drill_1_class", &sim.picture());
    row(&mut sim, "■ Lock:transactionid");
    sim.keys("Enter");
    same("drill_2_event", &sim.picture());
    sim.keys("Down Enter");
    same("drill_3_session", &sim.picture());
    sim.keys("Enter");
    same("drill_4_detail", &sim.picture());
    sim.keys("Esc Backspace");
    assert!(sim.selected().starts_with("5302"), "{}", sim.selected());
    sim.keys("Backspace");
    assert!(sim.selected().starts_with("■ Lock:transactionid"), "{}", sim.selected());
    sim.keys("Backspace");
    assert!(sim.selected().starts_with("■ Lock"), "{}", sim.selected());
    assert!(sim.state.history.is_empty() && sim.state.place.is_whole());
}

#[test]
fn details() {
    same("detail_session_140x40", &shop(MIDDLE).keys("a d").picture());
    same("detail_query_140x40", &shop(MIDDLE).keys("4 Down d").picture());
    same("detail_class_80x24", &shop(SMALL).keys("Down Down d").picture());
}

#[test]
fn idle_sessions_are_hidden_until_asked_for() {
    same("active_idle_80x24", &shop(SMALL).keys("a i").picture());
    same("time_idle_140x40", &shop(MIDDLE).keys("i End").picture());
}

#[test]
fn filters() {
    same("filter_prompt_80x24", &shop(SMALL).keys("3 / 'user=app war'").picture());
    same("filter_error_80x24", &shop(SMALL).keys("3 / 'usr=app' Enter").picture());
    same("filter_applied_80x24", &shop(SMALL).keys("3 / 'user=app !CPU' Enter").picture());
    same("filter_words_80x24", &shop(SMALL).keys("4 / 'accounts' Enter").picture());
    same("filter_no_such_event_80x24", &shop(SMALL).keys("/ 'event=Lock:nonsense' Enter").picture());
    same("filter_nothing_80x24", &shop(SMALL).keys("2 / 'db=nowhere' Enter").picture());
    same("filter_no_row_80x24", &shop(SMALL).keys("4 / 'nowhere' Enter").picture());
}

#[test]
fn paused_and_moved() {
    same("paused_80x24", &shop(SMALL).keys("Space").picture());
    same("cursor_140x40", &shop(MIDDLE).keys("Left Left Left Left Left Left Left Left Left Left Left Left").picture());
    same("zoomed_80x24", &shop(SMALL).keys("{ Left Left Left + +").picture());
    same("live_1m_80x24", &shop(SMALL).keys("+ +").picture());
    same("live_1h_80x24", &shop(SMALL).keys("- - -").picture());
}

#[test]
fn sorted() {
    same("sorted_80x24", &shop(SMALL).keys("3 < S").picture());
    same("sorted_active_80x24", &shop(SMALL).keys("a s s").picture());
}

#[test]
fn wrapped_sql() {
    same("wrap_80x24", &shop(SMALL).keys("4 w Down").picture());
}

#[test]
fn help_palette_and_themes() {
    same("help_80x24", &shop(SMALL).keys("?").picture());
    same("help_active_140x40", &shop(MIDDLE).keys("a ?").picture());
    same("help_end_80x24", &shop(SMALL).keys("? End").picture());
    same("palette_80x24", &shop(SMALL).keys(":").picture());
    same("palette_found_80x24", &shop(SMALL).keys(": 'win'").picture());
    same("themes_80x24", &shop(SMALL).keys("T Down").picture());
}

#[test]
fn nothing_to_show_says_why() {
    same("starting_80x24", &Sim::new("busy.toml", 0, SMALL).picture());
    for (page, name) in [("1", "time"), ("2", "events"), ("3", "sessions"), ("4", "queries"), ("a", "active")] {
        same(&format!("quiet_{name}_80x24"), &Sim::new("quiet.toml", 60, SMALL).keys(page).picture());
    }
    same("alone_active_80x24", &Sim::new("alone.toml", 60, SMALL).keys("a").picture());
    same("alone_time_80x24", &Sim::new("alone.toml", 60, SMALL).picture());
}

#[test]
fn gaps_are_gaps() {
    same("gap_80x24", &Sim::new("gap.toml", 360, SMALL).keys("-").picture());
    same("gap_events_140x40", &Sim::new("gap.toml", 360, MIDDLE).keys("2").picture());
    let mut sim = Sim::new("gap.toml", 360, SMALL);
    sim.keys("+ + Space { { { { {");
    same("gap_only_80x24", &sim.picture());
}

#[test]
fn a_server_that_is_away_is_said_so() {
    let mut sim = Sim::new("away.toml", 60, SMALL);
    same("away_80x24", &sim.advance(20).picture());
    same("ended_80x24", &Sim::new("ended.toml", 30, SMALL).picture());
}

#[test]
fn hostile_text_stays_in_its_place() {
    same("hostile_active_140x40", &Sim::new("hostile.toml", 30, MIDDLE).keys("a w").picture());
    same("hostile_sessions_140x40", &Sim::new("hostile.toml", 30, MIDDLE).keys("3").picture());
    same("hostile_queries_80x24", &Sim::new("hostile.toml", 30, SMALL).keys("4").picture());
    same("hostile_detail_80x24", &Sim::new("hostile.toml", 30, SMALL).keys("4 Down d").picture());
}

#[test]
fn without_colour_and_without_unicode_classes_differ() {
    let start = |ascii| Start { ascii, ..Start::default() };
    same("mono_80x24", &Sim::with("busy.toml", 420, SMALL, start(false), "mono", Depth::Mono).picture());
    let mut ascii = Sim::with("busy.toml", 420, SMALL, start(true), "dark", Depth::Ansi16);
    same("ascii_sessions_80x24", &ascii.keys("3").picture());
    assert!(ascii.picture().is_ascii(), "{}", ascii.picture());
    for keys in ["1 ?", "Esc :", "Esc a i", "d", "Esc 4 w", "Space Left", "T", "Esc / 'x"] {
        let picture = ascii.keys(keys).picture();
        assert!(picture.is_ascii(), "{keys}:\n{picture}");
    }
}

/// The letter of a style.
fn letter(i: usize) -> char {
    ('a'..='z').chain('A'..='Z').chain('0'..='9').nth(i).unwrap_or('?')
}

/// Which style each cell has: a letter per style, and what the letters mean.
fn styles(buffer: &Buffer) -> String {
    let mut seen: Vec<String> = Vec::new();
    let mut out = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width)) {
        for cell in row {
            let style = format!("fg {:?} bg {:?} {:?}", cell.fg, cell.bg, cell.modifier);
            let i = seen.iter().position(|s| *s == style).unwrap_or_else(|| {
                seen.push(style);
                seen.len() - 1
            });
            out.push(letter(i));
        }
        out.push('\n');
    }
    for (i, style) in seen.iter().enumerate() {
        out.extend([letter(i).to_string().as_str(), " ", style.as_str(), "\n"]);
    }
    out
}

#[test]
fn themes_differ_in_style_only() {
    let text = shop(SMALL).keys("3 Down").picture();
    for (theme, depth) in [("dark", Depth::True), ("light", Depth::True), ("high-contrast", Depth::Ansi256), ("ansi16", Depth::Ansi16)] {
        let mut sim = Sim::with("busy.toml", 420, SMALL, Start::default(), theme, depth);
        sim.keys("3 Down");
        assert_eq!(sim.picture(), text, "{theme}");
        same(&format!("style_{theme}"), &styles(&sim.draw()));
    }
}
