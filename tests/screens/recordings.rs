//! Going to a moment, and what the screen says about a recording.

use crate::sim::Sim;
use crate::{SMALL, same};
use pg_wait_tracer::analysis::answer::{Answer, Body};
use pg_wait_tracer::analysis::question::Question;
use pg_wait_tracer::session::Kind;
use pg_wait_tracer::trace::clock::{SECOND, Span};
use pg_wait_tracer::trace::health::Recording;
use pg_wait_tracer::ui::state::layer::Layer;
use pg_wait_tracer::ui::state::window::Windows;
use pg_wait_tracer::ui::state::{Start, slot};
use pg_wait_tracer::ui::theme::color::Depth;

fn shop() -> Sim {
    Sim::new("busy.toml", 420, SMALL)
}

fn error(sim: &Sim) -> Option<String> {
    match &sim.state.layer {
        Some(Layer::Jump(jump)) => jump.error.clone(),
        _ => None,
    }
}

#[test]
fn going_to_a_moment() {
    let mut sim = shop();
    same("jump_prompt_80x24", &sim.keys("t").picture());
    sim.keys("'soon' Enter");
    assert!(error(&sim).unwrap().contains("'soon' is not a time"), "{:?}", error(&sim));
    sim.keys("Esc t '3h' Enter");
    assert!(error(&sim).unwrap().contains("before what is recorded"), "{:?}", error(&sim));
    sim.keys("Esc t '2200-01-01' Enter");
    assert!(error(&sim).unwrap().contains("still to come"), "{:?}", error(&sim));
    sim.keys("Esc t '3m' Enter");
    assert!(sim.state.layer.is_none());
    let held = sim.state.camera.held().unwrap();
    let at = sim.state.instant().unwrap();
    assert_eq!(held.len(), sim.state.camera.length);
    assert!(sim.state.pulse.present().unwrap().since(at).abs_diff(180 * SECOND) < SECOND, "{at:?}");
    assert!(at > held.start && at <= held.end);
    // The end of what is recorded stays the end of the window.
    sim.keys("t 'now' Enter");
    assert_eq!(sim.state.camera.held().unwrap().end, sim.state.instant().unwrap());
    // z leads back to the window before.
    sim.keys("z");
    assert_eq!(sim.state.camera.held(), Some(held));
}

#[test]
fn the_active_page_shows_the_instant_under_the_cursor() {
    let mut sim = shop();
    sim.keys("a t '90s' Enter");
    let seen = |sim: &Sim| {
        let answer = sim.state.answer(slot::PAGE).unwrap();
        let Body::Active { at, .. } = &answer.body else { panic!() };
        (answer.window, at.unwrap())
    };
    let (window, tick) = seen(&sim);
    let at = sim.state.instant().unwrap();
    assert_eq!(window.end, at);
    assert!(at.since(tick) < SECOND && tick <= at);
    assert!(sim.picture().contains("as of "), "{}", sim.picture());
    // Where the cursor goes, it goes.
    sim.keys("Left Left Left");
    let (moved, earlier) = seen(&sim);
    assert!(moved.end < window.end && earlier < tick);
    let bucket = sim.state.camera.held().unwrap().len() / u64::from(sim.state.buckets());
    assert_eq!(moved.end, sim.state.cursor.unwrap() + bucket);
    // Other pages keep the whole window.
    sim.keys("1");
    assert_eq!(sim.state.answer(slot::PAGE).unwrap().window, sim.state.camera.held().unwrap());
}

fn recorded(_: &Question, answer: &mut Answer) {
    let notes = vec!["2026-03-01_09.trace.lz4 is not read: it is no trace file".into()];
    answer.health.recording = Some(Recording { dir: "/var/lib/pgwt/main".into(), notes, ..Recording::default() });
}

fn failing(_: &Question, answer: &mut Answer) {
    let error = Some("records were not written to /var/lib/pgwt/main: No space left on device".into());
    answer.health.recording = Some(Recording { dir: "/var/lib/pgwt/main".into(), error, lost_records: 1_234, ..Recording::default() });
}

#[test]
fn a_recording_says_where_it_is_and_what_is_wrong_with_it() {
    let end = shop().state.pulse.extent().unwrap().end;
    let start = Start {
        windows: Windows::Never("this is a recording; its recorder opens them".into()),
        span: Some(Span::new(end - 200 * SECOND, end - 100 * SECOND)),
        ..Start::default()
    };
    let mut sim = Sim::with("busy.toml", 420, (140, 40), start, "dark", Depth::True);
    sim.touch = recorded;
    sim.advance(2);
    let line = sim.picture().lines().next().unwrap().to_owned();
    assert!(line.contains("recording /var/lib/pgwt/main") && line.contains("damaged 1") && line.contains("paused"), "{line}");
    assert_eq!(sim.state.camera.held().unwrap().len(), 100 * SECOND);
    sim.keys("e");
    assert!(sim.picture().contains("this is a recording"), "{}", sim.picture());

    let start = Start { windows: Windows::Of { kind: Kind::Exact, standing: None }, ..Start::default() };
    let mut sim = Sim::with("busy.toml", 60, (140, 40), start, "dark", Depth::True);
    sim.touch = failing;
    sim.advance(2);
    let picture = sim.picture();
    assert!(picture.lines().next().unwrap().contains("NOT RECORDING"), "{picture}");
    assert!(picture.contains("No space left on device") && picture.contains("not written 1234"), "{picture}");
    sim.touch = recorded;
    sim.advance(2);
    let picture = sim.picture();
    assert!(picture.contains("recording again") && picture.contains("recording to /var/lib/pgwt/main"), "{picture}");
}
