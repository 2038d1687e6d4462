//! What is printed: every view in every format, from scenarios, as snapshots.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use insta::assert_snapshot;
use pg_wait_tracer::analysis;
use pg_wait_tracer::analysis::answer::Body;
use pg_wait_tracer::analysis::filter::Filter;
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::capture::script::scenario::Scenario;
use pg_wait_tracer::capture::script::{START, START_WALL, Script};
use pg_wait_tracer::render::{Format, Options, Renderer, Scope, Sort, View};
use pg_wait_tracer::trace::clock::{SECOND, Span, Window};
use pg_wait_tracer::trace::recent::Recent;
use pg_wait_tracer::trace::record::QueryId;

#[path = "render/made.rs"]
mod made;

use made::Seen;

const VIEWS: [View; 7] =
    [View::TimeModel, View::SystemEvent, View::SessionEvent, View::QueryEvent, View::Active, View::Histogram, View::Flow];

const SHOP: &str = include_str!("render/shop.toml");

fn shop() -> Recent {
    Script::trace(Scenario::parse(SHOP).unwrap()).unwrap()
}

/// Seconds of the scenario.
fn between(from: u64, to: u64) -> Window {
    Window::Fixed(Span::new(START + from * SECOND, START + to * SECOND))
}

fn print(trace: &Recent, options: Options, window: Window) -> String {
    let mut renderer = Renderer::new(options);
    let answers: Vec<_> = renderer.questions(window).iter().map(|q| analysis::answer(trace, q).unwrap()).collect();
    let mut out = Vec::new();
    renderer.write(&mut out, &answers).unwrap();
    String::from_utf8(out).unwrap()
}

fn text(view: View) -> String {
    print(&shop(), Options::new(view), between(25, 30))
}

#[test]
fn text_time_model() {
    assert_snapshot!(text(View::TimeModel));
}

#[test]
fn text_system_event() {
    let options = Options { scope: Scope::Cumulative, ..Options::new(View::SystemEvent) };
    assert_snapshot!(print(&shop(), options, between(0, 30)));
}

#[test]
fn text_session_event() {
    assert_snapshot!(text(View::SessionEvent));
}

#[test]
fn text_session_event_of_one_pid() {
    let options = Options { pid: Some(4711), ..Options::new(View::SessionEvent) };
    assert_snapshot!(print(&shop(), options, between(0, 30)));
}

#[test]
fn text_query_event_all() {
    assert_snapshot!(text(View::QueryEvent));
}

#[test]
fn text_query_event_of_one_event() {
    let options = Options { event: Some("IO:DataFileRead".into()), ..Options::new(View::QueryEvent) };
    assert_snapshot!(print(&shop(), options, between(0, 30)));
}

#[test]
fn text_query_event_of_one_query() {
    let options = Options { query: Some(QueryId(-4_185_925_123_159_566_327)), ..Options::new(View::QueryEvent) };
    assert_snapshot!(print(&shop(), options, between(0, 30)));
}

#[test]
fn text_active() {
    assert_snapshot!(text(View::Active));
}

#[test]
fn active_is_sorted_as_asked() {
    let pids = |sort| {
        let text = print(&shop(), Options { sort, ..Options::new(View::Active) }, between(25, 30));
        let pids = text.lines().filter_map(|l| l.strip_prefix("  ")?.split(' ').next()?.parse::<i32>().ok());
        pids.map(|p| p.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(pids(Sort::WaitTime), "4711 4900 1003 1004 4802 1001 4801 1002 4712 4800");
    assert_eq!(pids(Sort::DbTime), "4711 4900 1001 4802 4801 4800 1003 1004 1002 4712");
    assert_eq!(pids(Sort::Pid), "1001 1002 1003 1004 4711 4712 4800 4801 4802 4900");
    assert_eq!(pids(Sort::Event), "1002 1001 4801 4712 4800 4900 1003 1004 4802 4711");
}

fn windows(view: View) -> String {
    let options = Options { windows: vec![5 * SECOND, 20 * SECOND, 60 * SECOND], ..Options::new(view) };
    print(&shop(), options, Window::Follow(5 * SECOND))
}

#[test]
fn windows_time_model() {
    assert_snapshot!(windows(View::TimeModel));
}

#[test]
fn windows_system_event() {
    assert_snapshot!(windows(View::SystemEvent));
}

#[test]
fn windows_query_event() {
    assert_snapshot!(windows(View::QueryEvent));
}

#[test]
fn what_the_figures_lack_is_said() {
    let filter = Filter::parse("class=Lock db=shop").unwrap();
    let options = Options { filter, scope: Scope::Range, ..Options::new(View::SystemEvent) };
    assert_snapshot!(print(&shop(), options, between(10, 20)));
}

#[test]
fn empty_tables_say_why() {
    let why = |trace: &Recent, filter: &str, window| {
        let options = Options { filter: Filter::parse(filter).unwrap(), ..Options::new(View::SystemEvent) };
        print(trace, options, window).lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(why(&Recent::new(0), "", between(0, 5)), "  (no data yet — waiting for events)");
    assert_eq!(why(&shop(), "", between(13, 14)), "  (nothing was observed in this time)");
    assert_eq!(why(&shop(), "pid=1", between(0, 5)), "  (no session matches, or none was there)");
    assert_eq!(why(&shop(), "kind=walwriter", between(0, 5)), "  (no active sessions)");
}

fn machine(format: Format, view: View) -> String {
    let mut text = print(&shop(), Options { format, pid: Some(4711), ..Options::new(view) }, between(28, 30));
    if format == Format::Json {
        // Every line must be one object; shown over several lines, in which a change can be read.
        text = text
            .lines()
            .map(|l| serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(l).unwrap()).unwrap() + "\n")
            .collect();
    }
    text
}

#[test]
fn json() {
    for view in [View::TimeModel, View::SystemEvent, View::SessionEvent, View::QueryEvent, View::Active] {
        assert_snapshot!(format!("json_{}", view.name()), machine(Format::Json, view));
    }
}

#[test]
fn csv() {
    for view in [View::TimeModel, View::SystemEvent, View::SessionEvent, View::QueryEvent, View::Active] {
        assert_snapshot!(format!("csv_{}", view.name()), machine(Format::Csv, view));
    }
}

#[test]
fn a_csv_header_is_printed_once() {
    let trace = shop();
    let mut renderer = Renderer::new(Options { format: Format::Csv, ..Options::new(View::TimeModel) });
    let mut out = Vec::new();
    for window in [between(0, 5), between(5, 10)] {
        let answers: Vec<_> = renderer.questions(window).iter().map(|q| analysis::answer(&trace, q).unwrap()).collect();
        renderer.write(&mut out, &answers).unwrap();
    }
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.matches("fidelity").count(), 1);
    let mut rows = ::csv::Reader::from_reader(text.as_bytes());
    assert!(rows.records().map(Result::unwrap).count() > 4);
}

#[test]
fn nothing_from_the_server_can_move_the_cursor() {
    for format in [Format::Text, Format::Csv, Format::Json] {
        for view in VIEWS {
            let text = print(&shop(), Options { format, ..Options::new(view) }, between(0, 30));
            let bad = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'));
            assert_eq!(bad, None, "{format:?} {view:?}");
        }
    }
}

#[test]
fn a_closed_pipe_is_an_error_and_no_panic() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let trace = shop();
    for format in [Format::Text, Format::Csv, Format::Json] {
        let mut renderer = Renderer::new(Options { format, ..Options::new(View::TimeModel) });
        let answers: Vec<_> = renderer.questions(between(0, 5)).iter().map(|q| analysis::answer(&trace, q).unwrap()).collect();
        let error = renderer.write(&mut Closed, &answers).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{format:?}");
    }
}

#[test]
fn csv_has_a_row_for_a_window_that_was_not_observed() {
    let gap = Script::trace(Scenario::parse(include_str!("scenarios/gap.toml")).unwrap()).unwrap();
    for view in [View::TimeModel, View::SystemEvent, View::SessionEvent, View::QueryEvent, View::Active] {
        let csv = |window| print(&gap, Options { format: Format::Csv, ..Options::new(view) }, window);
        let unseen = csv(between(25, 30));
        let row = unseen.lines().nth(1).unwrap_or_else(|| panic!("{view:?}: no row in {unseen:?}"));
        assert!(row.contains(",none,0.000000,"), "{view:?}: {row}");
        // Nobody there, but observed: that is no gap.
        assert!(!csv(between(65, 70)).contains(",none,"), "{view:?}");
    }
}

/// Hand-made answers, printed. With several windows, one kind for each of them.
fn made(seen: &[Seen], options: Options, window: Window) -> String {
    let mut renderer = Renderer::new(options);
    let questions = renderer.questions(window);
    let answers: Vec<_> = questions.iter().enumerate().map(|(i, q)| made::answer(seen[i % seen.len()], q)).collect();
    let mut out = Vec::new();
    renderer.write(&mut out, &answers).unwrap();
    String::from_utf8(out).unwrap()
}

fn all_views(seen: Seen, format: Format) -> String {
    let print = |view| {
        let text = made(&[seen], Options { format, pid: Some(4_711), ..Options::new(view) }, Window::Follow(5 * SECOND));
        let pretty = |l: &str| serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(l).unwrap()).unwrap() + "\n";
        if format == Format::Json { text.lines().map(pretty).collect() } else { text }
    };
    VIEWS.map(print).join("\n")
}

#[test]
fn precise_text() {
    for seen in [Seen::Exact, Seen::Mixed, Seen::Blocking] {
        assert_snapshot!(format!("precise_text_{seen:?}").to_lowercase(), all_views(seen, Format::Text));
    }
}

#[test]
fn precise_csv() {
    for seen in [Seen::Exact, Seen::Mixed, Seen::Blocking] {
        assert_snapshot!(format!("precise_csv_{seen:?}").to_lowercase(), all_views(seen, Format::Csv));
    }
}

#[test]
fn precise_json() {
    for seen in [Seen::Exact, Seen::Mixed, Seen::Blocking] {
        assert_snapshot!(format!("precise_json_{seen:?}").to_lowercase(), all_views(seen, Format::Json));
    }
}

#[test]
fn precise_windows() {
    let print = |view| {
        let options = Options { windows: vec![5 * SECOND, 20 * SECOND, 300 * SECOND], ..Options::new(view) };
        made(&[Seen::Exact, Seen::Patches, Seen::Sampled], options, Window::Follow(5 * SECOND))
    };
    let views = [View::TimeModel, View::SystemEvent, View::QueryEvent, View::Histogram, View::Flow];
    assert_snapshot!(views.map(print).join("\n"));
}

#[test]
fn what_samples_cannot_tell_is_unavailable_and_says_how_to_get_it() {
    for view in [View::Histogram, View::Flow] {
        let print = |format, windows| made(&[Seen::Sampled], Options { format, windows, ..Options::new(view) }, Window::Follow(5 * SECOND));
        let windows = || vec![5 * SECOND, 20 * SECOND];
        for text in [print(Format::Text, vec![]), print(Format::Text, windows()), print(Format::Json, vec![])] {
            for word in ["unavailable", "samples", "--mode full", "--mode blocking", "--mode tiered"] {
                assert!(text.contains(word), "{view:?}: no '{word}' in {text}");
            }
        }
        let csv = print(Format::Csv, vec![]);
        let row = csv.lines().nth(1).unwrap();
        assert!(row.contains(",sampled,1.000000,0.000000,0.000000,,,"), "{view:?}: {row}");
        // Nothing observed is another reason.
        let gap = Script::trace(Scenario::parse(include_str!("scenarios/gap.toml")).unwrap()).unwrap();
        assert!(print_view(&gap, view, between(25, 30)).contains("nothing was observed"), "{view:?}");
    }
}

fn print_view(trace: &Recent, view: View, window: Window) -> String {
    print(trace, Options::new(view), window)
}

#[test]
fn exact_windows_without_waits_are_no_holes() {
    let mut renderer = Renderer::new(Options::new(View::Histogram));
    let mut answers: Vec<_> = renderer.questions(Window::Follow(5 * SECOND)).iter().map(|q| made::answer(Seen::Exact, q)).collect();
    answers[0].body = Body::Latency(analysis::answer::LatencyView::default());
    let mut out = Vec::new();
    renderer.write(&mut out, &answers).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("(no wait ended in this time)") && !text.contains("unavailable"), "{text}");
}

#[test]
fn load_over_time_has_off_cpu_as_a_class_of_its_own() {
    let question = Question::new(Ask::Load { buckets: 1 }, Window::Follow(5 * SECOND));
    let line = pg_wait_tracer::render::json::object("load", &made::answer(Seen::Exact, &question));
    let marker = &line["markers"][0];
    assert_eq!((&marker["kind"], &marker["reason"], &marker["tier"]), (&"opened".into(), &"anomaly".into(), &"exact".into()));
    assert_eq!((&marker["seconds"], &marker["granted"], &marker["detail"]), (&60.into(), &true.into(), &"load 10.0, usually 2.0".into()));
    assert_eq!(marker["t_ns"], (START_WALL + 30 * SECOND as i64).to_string());
    assert_eq!((line["buckets"][0]["offcpu"].as_f64(), line["buckets"][0]["cpu"].as_f64()), (Some(0.1), Some(0.8)));
}

#[test]
fn lightweight_capture_says_what_it_does_not_know() {
    let print = |seen| made(&[seen], Options { lightweight: true, ..Options::new(View::TimeModel) }, Window::Follow(5 * SECOND));
    assert!(print(Seen::Mixed).contains("CPU time of client backends is not known there"));
    assert!(!print(Seen::Sampled).contains("Lightweight"));
}

#[test]
fn an_event_chosen_is_named_once() {
    let filter = Filter::parse("event=IO:DataFileRead").unwrap();
    let options = Options { event: Some("IO:DataFileRead".into()), filter, ..Options::new(View::Histogram) };
    let text = made(&[Seen::Exact], options, Window::Follow(5 * SECOND));
    assert_eq!(text.matches("IO:DataFileRead").count(), 1, "{text}");
}

#[test]
fn windows_say_how_the_recording_is_doing() {
    for view in [View::TimeModel, View::SystemEvent, View::Flow] {
        let options = Options { windows: vec![5 * SECOND, 20 * SECOND], ..Options::new(view) };
        let mut renderer = Renderer::new(options);
        let mut answers: Vec<_> = renderer.questions(Window::Follow(5 * SECOND)).iter().map(|q| made::answer(Seen::Exact, q)).collect();
        answers[0].health.window_error = Some("no BTF\u{1b}[2J".into());
        let mut out = Vec::new();
        renderer.write(&mut out, &answers).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("No window: no BTF␛[2J; sampling goes on.").count(), 1, "{view:?}: {text}");
        assert_eq!(text.matches("transitions/s").count(), 1, "{view:?}: {text}");
    }
}
