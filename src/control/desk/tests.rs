//! The words of the socket, with a capture that a test plays.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::capture::command::{Done, Kind};
use crate::control::board::Facts;
use crate::trace::health::{Escalation, Health};
use crate::trace::record::Fidelity;
use std::time::SystemTime;

fn facts() -> Facts {
    Facts {
        mode: "tiered",
        version: "0.1.0",
        kind: Kind::Exact,
        tiered: true,
        standing: false,
        playing: false,
        started: SystemTime::UNIX_EPOCH,
    }
}

fn desk(facts: Facts, health: Health) -> (Desk, Receiver<Order>) {
    let board = Arc::new(Board::new(facts));
    board.replace(Account { health, ..Account::default() });
    let (orders, inbox) = crossbeam_channel::unbounded();
    (Desk::new(board, orders), inbox)
}

fn healthy() -> Health {
    let escalation = Escalation { budget_s: Some(300.0), remaining_s: Some(240.5), windows: 3, ..Escalation::default() };
    Health { link: Link::Attached, backends: 12, escalation: Some(escalation), ..Health::default() }
}

fn now(desk: &Desk, line: &str) -> Value {
    match desk.take(line.as_bytes()) {
        Reply::Now(answer) => serde_json::from_str(&answer).unwrap(),
        Reply::Later(_) => panic!("{line} is answered by capture"),
    }
}

fn later(desk: &Desk, inbox: &Receiver<Order>, line: &str, outcome: Outcome) -> (Command, Value) {
    let Reply::Later(waiting) = desk.take(line.as_bytes()) else { panic!("{line} is answered at once") };
    assert!(desk.outcome(&waiting, Instant::now()).is_none());
    let order = inbox.try_recv().unwrap();
    order.reply.unwrap().try_send(outcome).unwrap();
    (order.command, serde_json::from_str(&desk.outcome(&waiting, Instant::now()).unwrap()).unwrap())
}

#[test]
fn errors_have_the_original_words() {
    let (desk, _inbox) = desk(facts(), healthy());
    for (line, error) in [
        ("{", "invalid json"),
        ("\u{1}", "invalid json"),
        ("{}", "missing cmd"),
        ("5", "missing cmd"),
        ("{\"cmd\":7}", "missing cmd"),
        ("{\"cmd\":\"stop\"}", "unknown command"),
    ] {
        assert_eq!(now(&desk, line), json!({ "ok": false, "error": error }), "{line}");
    }
    assert_eq!(now(&desk, &"[".repeat(5_000))["error"], "invalid json");
    let Reply::Now(answer) = desk.take(b"{\"cmd\":\"\xff\"}") else { panic!() };
    assert!(answer.contains("invalid json"));
}

#[test]
fn status_and_metrics_have_the_members_of_the_original() {
    let (desk, _inbox) = desk(facts(), healthy());
    let status = now(&desk, r#"{"cmd":"status"}"#);
    for (member, is) in [
        ("mode", json!("tiered")),
        ("backends", json!(12)),
        ("tier", json!("sampled")),
        ("escalation_supported", json!(true)),
        ("escalation_seconds_remaining", json!(0)),
        ("escalation_budget_remaining_s", json!(240.5)),
        ("escalation_budget_unlimited", json!(false)),
        ("escalation_reason", json!("none")),
        ("sampler_healthy", json!(true)),
        ("sampler_unhealthy_reason", json!("")),
        ("cpu_accounting", json!("measured")),
        ("version", json!("0.1.0")),
        ("pg_pid", json!(0)),
    ] {
        assert_eq!(status[member], is, "{member}");
    }
    assert!(status["uptime_s"].is_number());
    let metrics = now(&desk, r#"{"cmd":"metrics"}"#);
    let text = "ok uptime_s events_total events_per_sec lifecycle_events_total wp_attach_failures_total backends_tracked samples_total
        samples_per_sec sample_read_faults_total sampler_ticks_missed_total invalid_wait_reads_total sampler_healthy io_worker_busy_pct cpu_accounting
        cpu_ns_total offcpu_ns_total wait_gap_cpu_ns_total ringbuf_drops_total trace_events_written_total trace_bytes_written_total tier
        escalation_active escalation_seconds_remaining escalation_budget_remaining_s escalation_budget_unlimited escalation_windows_total
        escalation_denied_total escalation_budget_closed_total anomaly_fires_total anomaly_near_total anomaly_dropped_budget_total
        anomaly_dropped_cooldown_total anomaly_baseline_aas";
    for member in text.split_whitespace() {
        assert!(metrics.get(member).is_some_and(|v| !v.is_null()), "{member}");
    }
    assert_eq!(metrics["escalation_windows_total"], 3);
    let health = now(&desk, r#"{"cmd":"health"}"#);
    assert_eq!(serde_json::from_value::<Health>(health["health"].clone()).unwrap(), healthy());
    assert!(now(&desk, r#"{"cmd":"prometheus"}"#)["prometheus"].as_str().unwrap().contains("pg_wait_tracer_backends 12\n"));
}

#[test]
fn an_open_window_is_in_the_status() {
    let window =
        WindowHealth { tier: Fidelity::Exact, open: true, cause: "anomaly".into(), remaining_s: Some(41), ..WindowHealth::default() };
    let (desk, _inbox) = desk(facts(), Health { window: Some(window), ..healthy() });
    let status = now(&desk, r#"{"cmd":"status"}"#);
    let of = |member: &str| status[member].clone();
    assert_eq!(
        (of("tier"), of("escalation_active"), of("escalation_seconds_remaining"), of("escalation_reason")),
        (json!("escalated"), json!(true), json!(41), json!("anomaly"))
    );
}

#[test]
fn windows_are_opened_and_closed_by_the_capture() {
    let (desk, inbox) = desk(facts(), healthy());
    let done = Done { granted_s: Some(25), remaining_s: Some(25) };
    let (command, answer) = later(&desk, &inbox, r#"{"cmd":"escalate","duration_s":30,"reason":"x"}"#, Ok(done));
    assert_eq!(command, Command::Open { kind: Kind::Exact, seconds: Some(30) });
    let want =
        json!({ "ok": true, "escalated": true, "granted_s": 25, "seconds_remaining": 25, "budget_remaining_s": 240.5, "tier": "exact" });
    assert_eq!(answer, want);
    for (asked, seconds) in [("", 60), (r#","duration_s":"ten""#, 60), (r#","duration_s":0.2"#, 1), (r#","duration_s":1e300"#, 31_536_000)]
    {
        let line = format!(r#"{{"cmd":"escalate"{asked}}}"#);
        let (command, _) = later(&desk, &inbox, &line, Ok(done));
        assert_eq!(command, Command::Open { kind: Kind::Exact, seconds: Some(seconds) }, "{line}");
    }
    let exhausted = "escalation budget exhausted for this hour";
    let (_, answer) = later(&desk, &inbox, r#"{"cmd":"escalate"}"#, Err(exhausted.into()));
    assert_eq!(answer, json!({ "ok": false, "error": exhausted, "budget_remaining_s": 240.5 }));
    let (command, answer) = later(&desk, &inbox, r#"{"cmd":"deescalate"}"#, Ok(Done::default()));
    assert_eq!((command, answer), (Command::Close, json!({ "ok": true, "escalated": false, "budget_remaining_s": 240.5 })));
    for zero in ["0", "-5", "-0.0"] {
        let answer = now(&desk, &format!(r#"{{"cmd":"escalate","duration_s":{zero}}}"#));
        assert_eq!(answer["error"], "duration_s must be positive");
    }
}

#[test]
fn a_capture_that_does_not_answer_is_said_to() {
    let (desk, inbox) = desk(facts(), healthy());
    let Reply::Later(waiting) = desk.take(br#"{"cmd":"escalate"}"#) else { panic!() };
    let answer = desk.outcome(&waiting, Instant::now() + PATIENCE).unwrap();
    assert!(answer.contains("did not answer within 2 s"), "{answer}");
    drop(inbox);
    assert_eq!(now(&desk, r#"{"cmd":"deescalate"}"#)["error"], "the capture has ended");
}

#[test]
fn where_no_window_can_be_opened_nothing_is_ordered() {
    let requires = "escalation requires --mode tiered";
    for (facts, health, says) in [
        (Facts { mode: "sampled", tiered: false, ..facts() }, healthy(), requires),
        (Facts { mode: "full", tiered: false, standing: true, ..facts() }, healthy(), requires),
        (Facts { playing: true, ..facts() }, healthy(), "a scenario is being played"),
        (facts(), Health::default(), "not connected to a server yet"),
    ] {
        let mode = facts.mode;
        let (desk, inbox) = desk(facts, health);
        for line in [r#"{"cmd":"escalate"}"#, r#"{"cmd":"deescalate"}"#] {
            let answer = now(&desk, line);
            assert!(answer["ok"] == false && answer["error"].as_str().unwrap().starts_with(says), "{mode} {line}: {answer}");
        }
        assert!(inbox.is_empty());
        let status = now(&desk, r#"{"cmd":"status"}"#);
        assert_eq!(status["tier"], if mode == "full" { "escalated" } else { "sampled" });
    }
}
