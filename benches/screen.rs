//! How long a picture takes: a shop at work, every page, at 80x24, 200x60 and 400x120.
//! `cargo bench --bench screen`; prints milliseconds, the median of several runs.

#![allow(missing_docs, clippy::unwrap_used)]

use pg_wait_tracer::analysis::{Local, Source};
use pg_wait_tracer::capture::script::Script;
use pg_wait_tracer::capture::script::scenario::Scenario;
use pg_wait_tracer::session::Reply;
use pg_wait_tracer::trace::recent::Recent;
use pg_wait_tracer::ui::draw::draw;
use pg_wait_tracer::ui::keymap::Key;
use pg_wait_tracer::ui::msg::{Effect, Msg};
use pg_wait_tracer::ui::state::{Start, State};
use pg_wait_tracer::ui::theme::Theme;
use pg_wait_tracer::ui::theme::color::{Depth, Environment};
use pg_wait_tracer::ui::update::update;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::Event;
use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

const RUNS: usize = 200;

fn send(state: &mut State, source: &mut Local<Recent>, msg: Msg) {
    let mut messages = VecDeque::from([msg]);
    while let Some(msg) = messages.pop_front() {
        for effect in update(state, msg) {
            if let Effect::Ask(r) = effect {
                let answer = source.ask(&r.question).map(Box::new).map_err(|e| e.to_string());
                messages.push_back(Msg::Reply(Reply { slot: r.slot, seq: r.seq, answer }));
            }
        }
    }
}

fn main() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens/busy.toml");
    let mut source = Local(Script::trace(Scenario::load(&path).unwrap()).unwrap());
    let theme = Theme::load("dark", Depth::True, false, &Environment::default()).unwrap();
    for size in [(80, 24), (200, 60), (400, 120)] {
        let mut state = State::new(Start::default(), size);
        send(&mut state, &mut source, Msg::Tick(Duration::ZERO));
        for page in ["1", "2", "3", "4", "a"] {
            send(&mut state, &mut source, Msg::Input(Event::Key(page.parse::<Key>().unwrap().into())));
            let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
            let mut times: Vec<Duration> = (0..RUNS)
                .map(|_| {
                    let begin = Instant::now();
                    terminal.draw(|frame| drop(draw(frame, &state, &theme))).unwrap();
                    begin.elapsed()
                })
                .collect();
            times.sort_unstable();
            let ms = |d: Option<&Duration>| d.map_or(0.0, Duration::as_secs_f64) * 1e3;
            println!("{:>4}x{:<4} page {page}  {:6.3} ms, worst {:6.3} ms", size.0, size.1, ms(times.get(RUNS / 2)), ms(times.last()));
        }
    }
}
