//! Whatever is pressed, whatever size the terminal has and whatever is answered: a picture comes out.

use crate::sim::Sim;
use pg_wait_tracer::analysis::answer::Answer;
use pg_wait_tracer::analysis::question::Question;
use pg_wait_tracer::session::Reply;
use pg_wait_tracer::ui::action::TABLE;
use pg_wait_tracer::ui::keymap::Key;
use pg_wait_tracer::ui::msg::Msg;
use proptest::prelude::*;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use serde_json::Value;

#[derive(Debug, Clone)]
enum Step {
    Action(usize),
    Char(char),
    Key(KeyCode),
    Paste(String),
    Size(u16, u16),
    Time(usize),
    Mouse(u8, u16, u16),
    /// The next answer arrives with some of its numbers replaced.
    Odd(u8, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..TABLE.iter().map(|e| e.keys.len()).sum::<usize>()).prop_map(Step::Action),
        3 => prop_oneof![any::<char>(), prop::char::range(' ', '~')].prop_map(Step::Char),
        2 => prop_oneof![Just(KeyCode::Esc), Just(KeyCode::Enter), Just(KeyCode::Backspace), Just(KeyCode::Delete), Just(KeyCode::F(5))].prop_map(Step::Key),
        1 => ".{0,40}".prop_map(Step::Paste),
        1 => (0u16..260, 0u16..90).prop_map(|(w, h)| Step::Size(w, h)),
        2 => (0usize..8).prop_map(Step::Time),
        2 => (0u8..5, 0u16..260, 0u16..90).prop_map(|(k, x, y)| Step::Mouse(k, x, y)),
        1 => (any::<u8>(), any::<u64>()).prop_map(|(a, b)| Step::Odd(a, b)),
    ];
    prop::collection::vec(step, 1..50)
}

/// Replaces every number whose turn it is by an extreme one.
fn twist(value: &mut Value, turn: &mut u64, choice: u8) {
    match value {
        Value::Number(n) => {
            *turn = turn.rotate_left(1);
            if *turn & 1 == 1 {
                let whole = [0u64, 1, 1 << 20, 1 << 40, 1 << 60][usize::from(choice) % 5];
                *value =
                    if n.is_f64() { Value::from(whole as f64 * [1.0, -1.0, 1e200][usize::from(choice) % 3]) } else { Value::from(whole) };
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|v| twist(v, turn, choice)),
        Value::Object(members) => members.values_mut().for_each(|v| twist(v, turn, choice)),
        _ => {}
    }
}

fn run(scenario: &str, touch: fn(&Question, &mut Answer), steps: Vec<Step>) {
    let keys: Vec<&str> = TABLE.iter().flat_map(|e| e.keys.iter().copied()).collect();
    let mut sim = Sim::new(scenario, 20, (100, 30));
    sim.touch = touch;
    for step in steps {
        match step {
            Step::Action(i) => sim.key(keys[i].parse::<Key>().unwrap().into()),
            Step::Char(c) => sim.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)),
            Step::Key(code) => sim.key(KeyEvent::new(code, KeyModifiers::NONE)),
            Step::Paste(text) => sim.send(Msg::Input(Event::Paste(text))),
            Step::Size(w, h) => {
                sim.resize(w, h);
            }
            Step::Time(seconds) => {
                sim.advance(seconds);
            }
            Step::Mouse(kind, x, y) => {
                let left = MouseButton::Left;
                let kinds = [
                    MouseEventKind::Down(left),
                    MouseEventKind::Drag(left),
                    MouseEventKind::Up(left),
                    MouseEventKind::ScrollUp,
                    MouseEventKind::ScrollDown,
                ];
                sim.mouse(kinds[usize::from(kind)], x, y);
            }
            Step::Odd(choice, turn) => {
                sim.holding = true;
                sim.advance(2);
                sim.holding = false;
                for request in std::mem::take(&mut sim.held) {
                    use pg_wait_tracer::analysis::Source;
                    let Ok(mut answer) = sim.source.ask(&request.question) else { continue };
                    touch(&request.question, &mut answer);
                    let mut json = serde_json::to_value(&answer).unwrap();
                    twist(&mut json, &mut turn.clone(), choice);
                    let answer = serde_json::from_value(json).map_err(|e| e.to_string()).map(Box::new);
                    sim.send(Msg::Reply(Reply { slot: request.slot, seq: request.seq, answer }));
                }
            }
        }
        sim.draw();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_on_a_busy_server(steps in steps()) {
        run("busy.toml", |_, _| {}, steps);
    }

    #[test]
    fn nothing_panics_on_hostile_text(steps in steps()) {
        run("hostile.toml", |_, _| {}, steps);
    }

    #[test]
    fn nothing_panics_on_exact_data(steps in steps()) {
        run("busy.toml", |q, a| crate::precise::exact(q, a, false), steps);
    }
}
