//! Windows that open by themselves: page Health, marks on the chart, the budget in status line and prompt, what is said. From hand-made accounts.

use crate::sim::Sim;
use crate::{MIDDLE, SMALL, same};
use pg_wait_tracer::analysis::answer::{Answer, Body};
use pg_wait_tracer::analysis::question::Question;
use pg_wait_tracer::session::Kind as Tier;
use pg_wait_tracer::trace::clock::SECOND;
use pg_wait_tracer::trace::health::{Access, Escalation, WindowHealth};
use pg_wait_tracer::trace::marker::{Kind, Marker, Reason};
use pg_wait_tracer::trace::record::Fidelity;
use pg_wait_tracer::ui::state::Start;
use pg_wait_tracer::ui::state::window::Windows;
use pg_wait_tracer::ui::theme::color::Depth;

const LARGE: (u16, u16) = (200, 60);

fn account() -> Escalation {
    Escalation {
        budget_s: Some(300.0),
        remaining_s: Some(181.0),
        windows: 3,
        denied: 1,
        budget_closed: 0,
        fires: 2,
        cpu_fires: 1,
        near: 17,
        dropped_budget: 0,
        dropped_cooldown: 4,
        baseline_aas: 1.42,
        warming_s: 0.0,
        cooldown_s: 61.0,
        capacity_cores: Some(8.0),
        capacity_source: "affinity".into(),
        cpu_evidence: Some(0.41),
        cpu_threshold: 1.5,
        near_now: "lock waits are 24 % of the load, fires above 30 %".into(),
    }
}

fn marker(at: u64, kind: Kind, reason: Reason, granted: bool, detail: &str, question: &Answer) -> Marker {
    let seconds = (granted || kind == Kind::Closed).then_some(60);
    Marker { at: question.window.start + at * SECOND, kind, reason, tier: Fidelity::Exact, detail: detail.into(), granted, seconds }
}

/// A quiet moment after an eventful window.
fn after(_: &Question, answer: &mut Answer) {
    answer.health.rate_hz = 100;
    answer.health.access = Access::Mapped;
    answer.health.ticks = 412_345;
    answer.health.cpu_ns = 3_120_000_000;
    answer.health.rss_bytes = 23 << 20;
    answer.health.escalation = Some(account());
    answer.health.window = Some(WindowHealth {
        tier: Fidelity::Exact,
        cause: "anomaly".into(),
        cause_detail: "lock waits are 62 % of the load".into(),
        reason: "its time was up".into(),
        price_ns: 412,
        overhead_pct: 3.1,
        max_overhead_pct: 25.0,
        records: 1_234_567,
        events_per_s: 41_022,
        armed: 112,
        missed: 3,
        ..WindowHealth::default()
    });
    let made = [
        marker(40, Kind::Near, Reason::Anomaly, false, "lock waits are 24 % of the load", answer),
        marker(60, Kind::Fire, Reason::Anomaly, true, "lock waits are 62 % of the load", answer),
        marker(60, Kind::Opened, Reason::Anomaly, true, "lock waits are 62 % of the load", answer),
        marker(120, Kind::Closed, Reason::Expired, true, "", answer),
        marker(150, Kind::Opened, Reason::Manual, true, "", answer),
        marker(200, Kind::Fire, Reason::CpuSaturation, false, "this hour's budget is used up", answer),
    ];
    if let Body::Load(load) = &mut answer.body {
        load.markers = made.into_iter().filter(|m| m.is_in(answer.window)).collect();
    }
}

/// The same, with a window that a rule opened.
fn during(question: &Question, answer: &mut Answer) {
    after(question, answer);
    answer.health.escalation.as_mut().unwrap().fires = 3;
    let window = answer.health.window.as_mut().unwrap();
    (window.open, window.remaining_s, window.reason) = (true, Some(42), String::new());
}

/// And then a fire that was denied.
fn denied(question: &Question, answer: &mut Answer) {
    after(question, answer);
    answer.health.escalation.as_mut().unwrap().dropped_budget = 1;
}

fn tracer(size: (u16, u16), touch: fn(&Question, &mut Answer)) -> Sim {
    let windows = Windows::Of { kind: Tier::Exact, standing: None };
    let mut sim = Sim::with("busy.toml", 240, size, Start { windows, ..Start::default() }, "dark", Depth::True);
    sim.touch = touch;
    sim.advance(8);
    sim
}

#[test]
fn page_health() {
    same("health_80x24", &tracer(SMALL, after).keys("H").picture());
    same("health_end_80x24", &tracer(SMALL, after).keys("H End").picture());
    same("health_140x40", &tracer(MIDDLE, during).keys("H").picture());
    same("health_200x60", &tracer(LARGE, during).keys("H").picture());
    let sim = &mut tracer(SMALL, after);
    let (end, beyond) = (sim.keys("H End").picture(), sim.keys("Down PgDn").picture());
    assert_eq!(end, beyond, "it ends with its last line");
    assert_ne!(sim.keys("Up").picture(), end);
    same("health_quiet_80x24", &Sim::new("busy.toml", 60, SMALL).keys("H").picture());
}

#[test]
fn what_happened_is_marked_on_the_chart_and_named_at_the_cursor() {
    let sim = &mut tracer(MIDDLE, after);
    same("marks_140x40", &sim.picture());
    let line = |sim: &mut Sim| sim.picture().lines().find(|l| l.contains("AAS at")).unwrap_or_default().to_owned();
    let mut said = Vec::new();
    for _ in 0..140 {
        let title = line(sim.keys("Left"));
        said.extend(
            ["lock waits are 62 %", "near: anomaly", "exact window opened (manual", "cpu saturation, no window"]
                .into_iter()
                .filter(|w| title.contains(w)),
        );
    }
    said.dedup();
    assert_eq!(said, ["cpu saturation, no window", "exact window opened (manual", "lock waits are 62 %", "near: anomaly"]);
    let plain = Start { ascii: true, ..Start::default() };
    let mut sim = Sim::with("busy.toml", 240, SMALL, plain, "mono", Depth::Mono);
    sim.touch = after;
    sim.advance(8);
    let picture = sim.picture();
    let top = picture.lines().nth(2).unwrap();
    assert!(top.matches('!').count() == 2 && top.contains('v') && picture.is_ascii(), "{picture}");
}

#[test]
fn the_budget_is_in_the_status_line_and_in_the_prompt() {
    let status = |sim: &mut Sim| sim.picture().lines().next().unwrap().to_owned();
    assert!(status(&mut tracer(MIDDLE, after)).contains("budget 181/300 s"));
    let open = status(&mut tracer(MIDDLE, during));
    assert!(open.contains("EXACT 42 s left") && open.contains("by anomaly"), "{open}");
    let prompt = tracer(LARGE, after).keys("e").picture();
    assert!(prompt.contains("Budget of exact windows: 181 of 300 s left this hour"), "{prompt}");
    let free = |question: &Question, answer: &mut Answer| {
        after(question, answer);
        let e = answer.health.escalation.as_mut().unwrap();
        (e.budget_s, e.remaining_s) = (None, None);
    };
    assert!(!status(&mut tracer(MIDDLE, free)).contains("budget"), "without a limit there is nothing to say");
}

#[test]
fn a_window_that_opened_by_itself_is_said_and_so_is_one_that_was_denied() {
    let footer = |sim: &mut Sim| sim.picture().lines().last().unwrap().to_owned();
    let sim = &mut tracer(MIDDLE, after);
    sim.touch = during;
    assert!(
        footer(sim.advance(4)).contains("exact window opened by itself for 42 s: lock waits are 62 % of the load"),
        "{}",
        sim.picture()
    );
    let sim = &mut tracer(MIDDLE, after);
    sim.touch = denied;
    assert!(footer(sim.advance(4)).contains("a rule asked for an exact window, and this hour's budget is used up"), "{}", sim.picture());
}
