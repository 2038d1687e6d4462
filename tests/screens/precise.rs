//! Pages and marks that need exact or blocking data, from hand-made answers; opening and closing windows.

use crate::sim::Sim;
use crate::{MIDDLE, SMALL, same};
use pg_wait_tracer::analysis::answer::{
    Answer, Body, Executions, Flow, FlowLink, FlowNode, Latency, LatencyBar, LatencyColumn, LatencyView, Measured, Stretch,
};
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::session::{Command, Kind};
use pg_wait_tracer::trace::clock::{SECOND, Span};
use pg_wait_tracer::trace::health::WindowHealth;
use pg_wait_tracer::trace::record::Fidelity;
use pg_wait_tracer::trace::wait::WaitEvent;
use pg_wait_tracer::ui::msg::{Effect, Msg};
use pg_wait_tracer::ui::pages::Page;
use pg_wait_tracer::ui::state::Start;
use pg_wait_tracer::ui::state::window::Windows;
use pg_wait_tracer::ui::theme::color::Depth;

const LARGE: (u16, u16) = (200, 60);
const TALL: (u16, u16) = (100, 50);

/// Waits per bar: reads from memory, reads from disk, a few very long ones.
const BARS: [u64; 22] = [0, 3, 40, 310, 1_450, 2_210, 980, 260, 120, 420, 1_320, 1_870, 640, 150, 41, 12, 9, 0, 4, 1, 0, 2];

fn bar(i: usize, waits: u64) -> LatencyBar {
    let from_ns = if i == 0 { 0 } else { 1_000 << (i - 1) };
    let to_ns = 1_000 << i;
    LatencyBar { from_ns, to_ns, waits, time_ns: waits * (from_ns + to_ns) / 2 }
}

/// Where of the window exact capture was: from two to four fifths; the whole when `whole`.
fn inside(window: Span, whole: bool) -> Span {
    let fifth = window.len() / 5;
    if whole { window } else { Span::new(window.start + 2 * fifth, window.start + 3 * fifth) }
}

fn latency(question: &Question, answer: &Answer, seen: Span) -> LatencyView {
    let Ask::Latency { buckets } = question.ask else { panic!("{question:?}") };
    let column_ns = answer.window.len() as f64 / f64::from(buckets);
    let column = |n: u16| {
        let start = answer.window.start + (column_ns * f64::from(n)) as u64;
        if !seen.meets(Span::new(start, start + column_ns as u64)) {
            return LatencyColumn::default();
        }
        // In the middle third the disk is slow.
        let slow = (start.since(seen.start) * 3 / seen.len().max(1)) == 1;
        let waits = |(i, w): (usize, &u64)| {
            let shifted = if slow && (8..18).contains(&i) { BARS[i - 2] } else { *w };
            u32::try_from(shifted * (3 + (u64::from(n) * 7 + i as u64 * 5) % 5) / 200).unwrap()
        };
        LatencyColumn { observed: 1.0, waits: BARS.iter().enumerate().map(waits).collect() }
    };
    LatencyView {
        waits: BARS.iter().sum(),
        time_ns: BARS.iter().enumerate().map(|(i, w)| bar(i, *w).time_ns).sum(),
        latency: Some(Latency { avg_ns: 1_213_400, p50_ns: 118_000, p95_ns: 2_410_000, p99_ns: 7_900_000, max_ns: 1_731_000_000 }),
        bars: BARS.iter().enumerate().map(|(i, w)| bar(i, *w)).collect(),
        column_ns,
        columns: (0..buckets).map(column).collect(),
    }
}

fn flow() -> Flow {
    let events: [(u32, &str, u64, u64); 9] = [
        (0x0600_0000, "Client:ClientRead", 2_410, 61_000),
        (0x0a00_0015, "IO:DataFileRead", 5_210, 14_300),
        (0, "CPU*", 12_804, 9_800),
        (0x0a00_004c, "IO:WalSync", 1_190, 4_100),
        (0x0300_0004, "Lock:transactionid", 31, 3_900),
        (0x0100_0007, "LWLock:WALWrite", 1_502, 900),
        (0x0100_0030, "LWLock:BufferMapping", 412, 40),
        (0x00ff_ffff, "Off-CPU*", 2_214, 310),
        (0x0900_0003, "Timeout:SpinDelay", 88, 12),
    ];
    let node = |(event, name, count, ms): (u32, &str, u64, u64)| {
        let event = WaitEvent(event);
        FlowNode { event, name: name.into(), class: event.class(), count, time_ns: ms * 1_000_000 }
    };
    let nodes: Vec<FlowNode> = events.map(node).into();
    let link = |from: usize, to: usize, count: u64| FlowLink {
        from: nodes[from].event,
        to: nodes[to].event,
        count,
        time_ns: nodes[from].time_ns / nodes[from].count * count,
    };
    let links = vec![
        link(2, 1, 5_180),
        link(1, 2, 5_098),
        link(2, 0, 2_402),
        link(0, 2, 2_395),
        link(2, 7, 2_214),
        link(7, 2, 2_180),
        link(2, 5, 1_502),
        link(5, 3, 1_102),
        link(3, 2, 1_190),
        link(5, 2, 400),
        link(2, 6, 412),
        link(6, 2, 398),
        link(2, 8, 88),
        link(8, 2, 88),
        link(2, 4, 31),
        link(4, 2, 31),
        link(2, 3, 88),
        link(7, 1, 34),
        link(0, 7, 15),
        link(1, 1, 112),
    ];
    Flow { transitions: 25_861, nodes, links }
}

/// What the analysis would answer with exact data in a part of the window, or in all of it.
pub fn exact(question: &Question, answer: &mut Answer, whole: bool) {
    let seen = inside(answer.window, whole);
    let c = &mut answer.coverage;
    c.exact_ns = if whole { c.sampled_ns } else { seen.len() };
    c.sampled_ns = c.sampled_ns.saturating_sub(c.exact_ns);
    c.fidelity = Fidelity::Mixed;
    c.precise = vec![Stretch { span: seen, fidelity: Fidelity::Exact }];
    let numbers = Latency { avg_ns: 412_000, p50_ns: 118_000, p95_ns: 2_410_000, p99_ns: 7_900_000, max_ns: 31_000_000 };
    let measured = Some(Measured { time_ns: 1_000, cpu_ns: 123, runq_ns: 45 });
    match question.ask {
        Ask::Latency { .. } => answer.body = Body::Latency(latency(question, answer, seen)),
        Ask::Flow => answer.body = Body::Flow(flow()),
        _ => {}
    }
    match &mut answer.body {
        Body::Events { events } => events.iter_mut().enumerate().filter(|(i, _)| i % 3 != 2).for_each(|(i, e)| {
            (e.waits, e.latency, e.measured) = (Some(1_200 + 17 * i as u64), Some(numbers), measured);
        }),
        Body::Sessions { sessions } => sessions.iter_mut().for_each(|s| (s.waits, s.measured) = (Some(731), measured)),
        Body::Queries { queries } => queries.iter_mut().for_each(|q| {
            q.waits = Some(99);
            q.executions = Some(Executions { count: 12_400, whole: 12_390, latency: Some(numbers), inferred: 3 });
        }),
        _ => {}
    }
}

fn with(size: (u16, u16), touch: fn(&Question, &mut Answer)) -> Sim {
    let mut sim = Sim::new("busy.toml", 417, size);
    sim.touch = touch;
    sim.advance(3);
    sim
}

/// The shop, with a minute of exact data inside its five.
fn part(size: (u16, u16)) -> Sim {
    with(size, |q, a| exact(q, a, false))
}

fn whole(size: (u16, u16)) -> Sim {
    with(size, |q, a| exact(q, a, true))
}

#[test]
fn latency_at_every_size() {
    for (size, name) in [(SMALL, "80x24"), (MIDDLE, "140x40"), (LARGE, "200x60"), (TALL, "100x50")] {
        same(&format!("latency_{name}"), &part(size).keys("5").picture());
    }
    same("latency_whole_80x24", &whole(SMALL).keys("5").picture());
    same("latency_whole_140x40", &whole(MIDDLE).keys("5 Left Left Left").picture());
    same("latency_event_80x24", &part(SMALL).keys("2 Down Enter 5").picture());
}

#[test]
fn flow_at_every_size() {
    for (size, name) in [(SMALL, "80x24"), (MIDDLE, "140x40"), (LARGE, "200x60")] {
        same(&format!("flow_{name}"), &part(size).keys("6").picture());
        same(&format!("flow_matrix_{name}"), &part(size).keys("6 v m").picture());
    }
    same("flow_after_80x24", &whole(SMALL).keys("6 m Right Down").picture());
    same("flow_small_60x15", &part((60, 15)).keys("6").picture());
}

#[test]
fn without_exact_data_both_pages_say_so() {
    for (page, name) in [("5", "latency"), ("6", "flow")] {
        for (size, at) in [(SMALL, "80x24"), (MIDDLE, "140x40"), (LARGE, "200x60")] {
            same(&format!("{name}_empty_{at}"), &Sim::new("busy.toml", 420, size).keys(page).picture());
        }
        let picture = Sim::with("busy.toml", 420, SMALL, open_to(Kind::Blocking, None), "dark", Depth::True).keys(page).picture();
        assert!(picture.contains("No exact data in this window") && picture.contains("e opens a blocking window"), "{picture}");
    }
    let nothing = |q: &Question, a: &mut Answer| {
        exact(q, a, false);
        match &mut a.body {
            Body::Flow(flow) => *flow = Flow::default(),
            Body::Latency(view) => *view = LatencyView::default(),
            _ => {}
        }
    };
    let picture = with(SMALL, nothing).keys("5 / 'db=shop' Enter").picture();
    assert!(picture.contains("no wait ended") && picture.contains("with the filter db shop"), "{picture}");
    assert!(with(SMALL, nothing).keys("6").picture().contains("no session went from one event to another"));
}

#[test]
fn without_colour_and_without_unicode() {
    let sim = |ascii: bool, keys: &str| {
        let start = Start { ascii, ..Start::default() };
        let (theme, depth) = if ascii { ("dark", Depth::Ansi16) } else { ("mono", Depth::Mono) };
        let mut sim = Sim::with("busy.toml", 417, SMALL, start, theme, depth);
        sim.touch = |q, a| exact(q, a, false);
        sim.advance(3).keys(keys).picture()
    };
    same("mono_latency_80x24", &sim(false, "5"));
    same("mono_flow_80x24", &sim(false, "6"));
    same("ascii_latency_80x24", &sim(true, "5"));
    same("ascii_flow_80x24", &sim(true, "6"));
    for keys in ["5", "6", "6 v", "5 ?", "6 Left m"] {
        let picture = sim(true, keys);
        assert!(picture.is_ascii(), "{keys}:\n{picture}");
    }
}

#[test]
fn columns_of_what_was_measured() {
    for (page, name) in [("2", "events"), ("3", "sessions"), ("4", "queries")] {
        same(&format!("{name}_exact_80x24"), &part(SMALL).keys(page).picture());
        same(&format!("{name}_exact_200x60"), &part(LARGE).keys(page).picture());
    }
}

#[test]
fn moving_in_the_flow() {
    let mut sim = whole(MIDDLE);
    sim.keys("6");
    assert_eq!(sim.state.place.stream.centre, Some(WaitEvent(0x0a00_0015)), "busy before idle");
    let centre = |sim: &Sim| sim.state.place.stream.centre.unwrap();
    let read = centre(&sim);
    sim.keys("Right Enter");
    assert_eq!(centre(&sim), WaitEvent::CPU, "the neighbour is in the middle");
    assert!(sim.state.place.is_whole() && sim.state.place.page == Page::Flow);
    sim.keys("Backspace");
    assert_eq!(centre(&sim), read, "and back");
    sim.keys("Left").keys("Left Up Down Down End");
    assert_eq!(centre(&sim), read, "moving among neighbours leaves the middle");
    sim.advance(5);
    assert_eq!(centre(&sim), read);
    sim.keys("Right Right Enter m Left Enter");
    assert_eq!(centre(&sim), WaitEvent::CLIENT_READ, "by time, most was spent with the client before");
    sim.keys("v Down Enter");
    let chosen = centre(&sim);
    assert_ne!(chosen, WaitEvent::CLIENT_READ, "a row of the matrix becomes the middle");
    sim.keys("Enter");
    assert_eq!(sim.state.place.page, Page::Sessions, "into the event");
    assert_eq!(sim.state.place.crumbs.len(), 1);
    sim.keys("6");
    assert_eq!(centre(&sim), chosen, "the filter's event is in the middle");
    sim.keys("Backspace Backspace");
    assert!(sim.state.place.is_whole());
}

#[test]
fn a_click_on_a_neighbour_selects_it_and_two_bring_it_to_the_middle() {
    let mut sim = whole(MIDDLE);
    sim.keys("6");
    let row = sim.row_of("IO:DataFileRead   ");
    sim.click(135, row).click(135, row);
    assert_eq!(sim.state.place.stream.centre, Some(WaitEvent(0x0a00_0015)));
}

#[test]
fn exact_and_blocking_stretches_are_on_the_time_axis() {
    let mut sim = with(SMALL, |q, a| {
        exact(q, a, false);
        let tenth = a.window.len() / 10;
        let blocking = Span::new(a.window.start + 7 * tenth, a.window.start + 8 * tenth);
        a.coverage.precise.push(Stretch { span: blocking, fidelity: Fidelity::Blocking });
        a.coverage.blocking_ns = tenth;
        a.coverage.sampled_ns = a.coverage.sampled_ns.saturating_sub(tenth);
    });
    same("stretches_80x24", &sim.picture());
    same("stretches_latency_80x24", &sim.keys("5").picture());
}

fn open_to(kind: Kind, standing: Option<Kind>) -> Start {
    Start { windows: Windows::Of { kind, standing }, ..Start::default() }
}

fn tracer(start: Start) -> Sim {
    let mut sim = Sim::with("busy.toml", 240, SMALL, start, "dark", Depth::True);
    sim.advance(1);
    sim
}

fn commands(sim: &mut Sim) -> Vec<Command> {
    sim.effects.drain(..).filter_map(|e| if let Effect::Command(c) = e { Some(c) } else { None }).collect()
}

/// The status line.
fn status(sim: &mut Sim) -> String {
    sim.picture().lines().next().unwrap().to_owned()
}

fn footer(sim: &mut Sim) -> String {
    sim.picture().lines().last().unwrap().to_owned()
}

#[test]
fn a_window_is_asked_for() {
    let mut sim = tracer(open_to(Kind::Exact, None));
    same("window_prompt_80x24", &sim.keys("e").picture());
    sim.keys("Enter");
    assert_eq!(commands(&mut sim), [Command::Open { kind: Kind::Exact, seconds: Some(10) }]);
    assert!(footer(&mut sim).contains("asked for an exact window of 10 s"), "{}", footer(&mut sim));
    sim.keys("e Backspace Backspace '30 blocking' Enter");
    assert_eq!(commands(&mut sim), [Command::Open { kind: Kind::Blocking, seconds: Some(30) }]);
    sim.keys("e Esc");
    assert!(commands(&mut sim).is_empty() && sim.state.layer.is_none());
    let mut sim = tracer(open_to(Kind::Blocking, None));
    sim.keys("e Enter");
    assert_eq!(commands(&mut sim), [Command::Open { kind: Kind::Blocking, seconds: Some(10) }]);
    sim.keys(": 'exact or blocking' Enter Enter");
    assert_eq!(commands(&mut sim).len(), 1, "the palette leads there too");
}

#[test]
fn what_is_no_length_is_said_in_the_prompt() {
    let mut sim = tracer(open_to(Kind::Exact, None));
    same("window_error_80x24", &sim.keys("e 'x' Enter").picture());
    assert!(commands(&mut sim).is_empty());
    sim.keys("Backspace Backspace Backspace '5' Enter");
    assert_eq!(commands(&mut sim), [Command::Open { kind: Kind::Exact, seconds: Some(5) }]);
}

#[test]
fn where_nobody_listens_it_is_said() {
    let mut sim = Sim::new("busy.toml", 240, SMALL);
    for key in ["e", "E"] {
        sim.keys(key);
        assert!(footer(&mut sim).contains("nothing is being captured here"), "{}", sim.picture());
    }
    assert!(sim.state.layer.is_none() && commands(&mut sim).is_empty());
    let mut sim = tracer(open_to(Kind::Exact, None));
    sim.keys("e Enter");
    sim.send(Msg::Unheard);
    assert!(footer(&mut sim).contains("no window: the capture has ended"));
    let mut sim = Sim::with("ended.toml", 30, SMALL, open_to(Kind::Exact, None), "dark", Depth::True);
    assert!(footer(sim.keys("e")).contains("the recording has ended"));
    let mut sim = Sim::with("away.toml", 60, SMALL, open_to(Kind::Exact, None), "dark", Depth::True);
    assert!(footer(sim.advance(20).keys("e")).contains("the server is away"));
}

fn health(remaining_s: Option<u64>, open: bool) -> WindowHealth {
    WindowHealth {
        tier: Fidelity::Exact,
        open,
        reason: if open { String::new() } else { "its time was up".into() },
        remaining_s,
        price_ns: 412,
        events_per_s: 75_000,
        overhead_pct: 3.1,
        max_overhead_pct: 25.0,
        records: 750_123,
        ..WindowHealth::default()
    }
}

#[test]
fn an_open_window_is_in_the_status_line_and_its_end_is_said() {
    let mut sim = tracer(open_to(Kind::Exact, None));
    sim.touch = |_, a| a.health.window = Some(health(Some(7), true));
    sim.advance(2);
    same("window_open_80x24", &sim.picture());
    assert!(status(&mut sim).contains("EXACT 7 s left") && status(&mut sim).contains("3.1 % of a core"));
    assert!(status(sim.resize(140, 40)).contains("412 ns each"));
    sim.resize(80, 24);
    sim.keys("E");
    assert_eq!(commands(&mut sim), [Command::Close]);
    sim.touch = |_, a| a.health.window = Some(health(None, false));
    sim.advance(2);
    assert!(footer(&mut sim).contains("exact window closed: its time was up; 750K records"), "{}", footer(&mut sim));
    assert!(status(&mut sim).contains("SAMPLED"));
    sim.advance(15);
    assert!(!footer(&mut sim).contains("closed"), "once");
    sim.keys("E");
    assert!(footer(&mut sim).contains("no window is open") && commands(&mut sim).is_empty());
}

#[test]
fn a_window_that_could_not_be_opened_says_why_each_time() {
    let mut sim = tracer(open_to(Kind::Exact, None));
    sim.keys("e Enter");
    sim.touch = |_, a| a.health.window_error = Some("this machine has no free debug register".into());
    sim.advance(2);
    assert!(footer(&mut sim).contains("no window: this machine has no free debug register"), "{}", footer(&mut sim));
    sim.advance(15);
    assert!(!footer(&mut sim).contains("debug register"), "not for ever");
    sim.keys("e Enter").advance(4);
    assert!(footer(&mut sim).contains("debug register"), "the same reason again is news");
}

#[test]
fn a_standing_window_is_not_cut_short() {
    let mut sim = tracer(open_to(Kind::Exact, Some(Kind::Exact)));
    sim.touch = |_, a| a.health.window = Some(health(None, true));
    sim.advance(2);
    assert!(status(&mut sim).contains("EXACT until closed"), "{}", status(&mut sim));
    sim.keys("e Enter");
    assert!(commands(&mut sim).is_empty());
    assert!(footer(&mut sim).contains("exact capture is on already"), "{}", footer(&mut sim));
    sim.keys("e ' blocking' Enter");
    assert_eq!(commands(&mut sim), [Command::Open { kind: Kind::Blocking, seconds: Some(10) }]);
    sim.touch = |_, a| a.health.window = Some(WindowHealth { reason: "closed by hand".into(), ..health(None, false) });
    sim.advance(2);
    assert!(sim.resize(140, 24).picture().contains("it is opened again soon, as --mode says"), "{}", sim.picture());
    assert_eq!(SECOND, 1_000_000_000);
}
