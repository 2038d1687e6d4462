//! Everything that is published: in both texts by the rules, in docs/METRICS.md, and nothing in the dashboard that is not.

use crate::text::{Dialect, Metrics};
use pg_wait_tracer::capture::command::Kind;
use pg_wait_tracer::capture::script::Script;
use pg_wait_tracer::capture::script::scenario::Scenario;
use pg_wait_tracer::control::board::{Account, Board, Facts, Windows, Written};
use pg_wait_tracer::control::exposition::Format;
use pg_wait_tracer::control::meter::Meter;
use pg_wait_tracer::control::metrics;
use pg_wait_tracer::trace::catalog::Server;
use pg_wait_tracer::trace::health::{Escalation, Health, Link, Recording, WindowHealth};
use pg_wait_tracer::trace::record::Fidelity;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// A board of which everything is known.
fn board() -> Board {
    let facts = Facts {
        mode: "tiered",
        version: "0.1.0",
        kind: Kind::Exact,
        tiered: true,
        standing: false,
        playing: false,
        started: SystemTime::now(),
    };
    let board = Board::new(facts);
    let mut meter = Meter::default();
    for batch in Script::batches(Scenario::load(Path::new("tests/scenarios/io_workers.toml")).unwrap()).unwrap() {
        if meter.absorb(batch) {
            board.publish(meter.totals().clone());
        }
    }
    let window = WindowHealth {
        tier: Fidelity::Exact,
        open: true,
        remaining_s: Some(7),
        overhead_pct: 12.5,
        price_ns: 300,
        ..WindowHealth::default()
    };
    let escalation = Escalation {
        budget_s: Some(300.0),
        remaining_s: Some(12.5),
        capacity_cores: Some(2.0),
        cpu_evidence: Some(0.25),
        ..Escalation::default()
    };
    board.replace(Account {
        health: Health {
            link: Link::Attached,
            rate_hz: 100,
            window: Some(window),
            escalation: Some(escalation),
            recording: Some(Recording::default()),
            ..Health::default()
        },
        server: Arc::new(Server { major: 18, version: "18.4".into(), port: 5432, cpus: 2, ..Server::default() }),
        written: Some(Written { newest: 1_790_000_000_000_000_000, ..Written::default() }),
        windows: Windows { opened: 3, ..Windows::default() },
        ..Account::default()
    });
    board
}

/// Name, type, labels, meaning.
type Row = (String, String, String, String);

fn documented() -> Vec<Row> {
    let text = std::fs::read_to_string("docs/METRICS.md").unwrap();
    let rows = text.lines().filter_map(|l| l.strip_prefix("| `pg_wait_tracer_"));
    let rows = rows.filter(|l| !l.starts_with("pg_wait_tracer "));
    rows.map(|l| {
        let cells: Vec<&str> = l.split(" | ").map(|c| c.trim_end_matches(" |").trim()).collect();
        assert_eq!(cells.len(), 4, "{l}");
        let name = cells[0].trim_end_matches('`');
        (format!("pg_wait_tracer_{name}"), cells[1].into(), cells[2].into(), cells[3].into())
    })
    .collect()
}

#[test]
fn the_page_says_what_is_served() {
    let served = Metrics::read(&metrics::write(&board(), Format::OpenMetrics), Dialect::OpenMetrics);
    let rows = served.families.iter().map(|(name, family)| {
        let tail = match family.kind.as_str() {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let labels: Vec<&str> = family.labels.iter().map(String::as_str).collect();
        (format!("{name}{tail}"), family.kind.clone(), labels, family.help.clone())
    });
    let rows: BTreeMap<String, (String, Vec<&str>, String)> = rows.map(|(n, k, l, h)| (n, (k, l, h))).collect();
    let documented = documented();
    assert_eq!(documented.len(), documented.iter().map(|r| &r.0).collect::<BTreeSet<_>>().len(), "a metric stands there twice");
    let page: BTreeMap<String, (String, Vec<&str>, String)> = documented
        .iter()
        .map(|(name, kind, labels, help)| {
            let mut labels: Vec<&str> = labels.split(", ").filter(|l| !l.is_empty()).collect();
            labels.sort_unstable();
            (name.clone(), (kind.clone(), labels, help.clone()))
        })
        .collect();
    assert!(rows.len() > 60, "{}", rows.len());
    for (name, row) in &rows {
        assert_eq!(page.get(name), Some(row), "{name} in docs/METRICS.md");
    }
    let gone: Vec<_> = page.keys().filter(|name| !rows.contains_key(*name)).collect();
    assert!(gone.is_empty(), "in docs/METRICS.md and not served: {gone:?}");
}

#[test]
fn both_texts_hold_the_rules_and_say_the_same() {
    let board = board();
    let old = Metrics::read(&metrics::write(&board, Format::Prometheus), Dialect::Prometheus);
    let new = Metrics::read(&metrics::write(&board, Format::OpenMetrics), Dialect::OpenMetrics);
    assert!(old.samples.keys().eq(new.samples.keys()), "other samples");
    let moving = ["cpu_seconds", "resident_memory"];
    for ((name, _), value) in old.samples.iter().filter(|((name, _), _)| !moving.iter().any(|m| name.contains(m))) {
        assert!(new.samples.iter().any(|((n, _), v)| n == name && v == value), "{name}");
    }
    assert_eq!(old.get("escalation_budget_remaining_seconds", &[]), 12.5);
    assert_eq!(old.get("window_open", &[("tier", "exact")]), 1.0);
    assert_eq!(old.get("window_overhead_ratio", &[]), 0.125);
    assert_eq!(old.get("window_price_seconds", &[]), 3e-7);
    assert!((old.sum("db_time_seconds_total") - old.sum("event_seconds_total")).abs() < 1e-6);
    assert!(old.sum("db_time_seconds_total") > 0.0 && old.get("io_worker_busy_ratio", &[]) > 0.0);
}

#[test]
fn what_is_not_known_is_left_out() {
    let facts = board().facts.clone();
    let text = metrics::write(&Board::new(facts), Format::Prometheus);
    let served = Metrics::read(&text, Dialect::Prometheus);
    for absent in ["escalation", "anomaly", "recording", "server_info", "active_sessions", "io_worker", "event_seconds", "server_cpus"] {
        assert!(!served.families.keys().any(|name| name.contains(absent)), "{absent}");
    }
    assert_eq!(served.get("server_up", &[]), 0.0);
    assert_eq!(served.sum("db_time_seconds_total"), 0.0);
}

#[test]
fn the_dashboard_asks_for_what_is_documented() {
    let text = std::fs::read_to_string("docs/grafana.json").unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let known: BTreeSet<String> = documented().into_iter().map(|r| r.0).collect();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 10);
    let mut asked = BTreeSet::new();
    for panel in panels {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{}", panel["title"]);
        for target in targets {
            let expr = target["expr"].as_str().unwrap();
            assert_eq!(expr.matches(['(', '{', '[']).count(), expr.matches([')', '}', ']']).count(), "{expr}");
            let names: Vec<&str> =
                expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| w.starts_with("pg_wait_tracer")).collect();
            assert!(!names.is_empty(), "{expr}");
            asked.extend(names.into_iter().map(str::to_owned));
        }
    }
    let unknown: Vec<_> = asked.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    for topic in [
        "db_time_seconds",
        "event_seconds",
        "window_open",
        "budget_remaining",
        "fires",
        "ringbuf",
        "cpu_seconds",
        "memory",
        "backends",
        "recording_up",
    ] {
        assert!(asked.iter().any(|name| name.contains(topic)), "no panel about {topic}");
    }
}
