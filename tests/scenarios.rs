//! Every `tests/scenarios/*.toml`: records in, answers out. The files are the specification of what the figures mean, and read like one.
//!
//! An `[[expect]]` asks one question of the scenario it stands in. Times are exact unless `within` says otherwise; `-` means "no value".
//! Each is asked twice: of blocks as capture makes them (merged as they age) and of the whole recording as a single block.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use pg_wait_tracer::analysis;
use pg_wait_tracer::analysis::answer::{Answer, Body, Share, Sql, Who};
use pg_wait_tracer::analysis::filter::Filter;
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::capture::script::line;
use pg_wait_tracer::capture::script::scenario::Scenario;
use pg_wait_tracer::capture::script::{START, Script};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::Block;
use pg_wait_tracer::trace::clock::{Span, Ts, Window};
use pg_wait_tracer::trace::recent::{Batch, Recent};
use pg_wait_tracer::trace::wait::WaitClass;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use toml::Value;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    expect: Vec<Expect>,
}

/// One question and what must come out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// The rule, in words.
    why: String,
    ask: String,
    /// `2s..8s` or `last 5s`; the whole scenario when not given.
    window: Option<String>,
    #[serde(default)]
    filter: String,
    #[serde(default)]
    limit: usize,
    #[serde(default)]
    spark: u16,
    #[serde(default)]
    buckets: u16,
    /// By how much a time may be off; exact when not given.
    within: Option<String>,
    /// Members of the answer.
    #[serde(default)]
    answer: BTreeMap<String, Value>,
    /// The rows: all of them in this order, or, with `some`, these in this order and perhaps others.
    rows: Option<Vec<BTreeMap<String, Value>>>,
    #[serde(default)]
    some: bool,
    /// Names that no row has.
    #[serde(default)]
    never: Vec<String>,
    /// Part of the error.
    error: Option<String>,
}

/// A value of an answer.
#[derive(Debug, Clone)]
enum Fact {
    Time(u64),
    Number(f64),
    Text(String),
    Bool(bool),
    List(Vec<Fact>),
    Nothing,
}

type Facts = BTreeMap<&'static str, Fact>;

impl From<Option<f64>> for Fact {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Nothing, Self::Number)
    }
}

impl Fact {
    fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn count(n: impl TryInto<u32>) -> Self {
        Self::Number(f64::from(n.try_into().unwrap_or(u32::MAX)))
    }

    fn is(&self, expected: &Value, within: u64) -> bool {
        match (self, expected) {
            (Self::Nothing, Value::String(s)) => s == "-",
            (Self::Time(ns), Value::String(s)) => line::time(s).is_ok_and(|t| ns.abs_diff(t as u64) <= within),
            (Self::Number(n), Value::Float(f)) => (n - f).abs() < 5e-4,
            (Self::Number(n), Value::Integer(i)) => (n - *i as f64).abs() < 5e-4,
            (Self::Text(t), Value::String(s)) => t == s,
            (Self::Bool(a), Value::Boolean(b)) => a == b,
            (Self::List(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is(b, within)),
            _ => false,
        }
    }
}

fn share(share: Option<&Share>) -> Fact {
    share.map_or(Fact::Nothing, |s| Fact::text(&s.name))
}

fn who(who: &Who, facts: &mut Facts) {
    facts.insert("session", Fact::count(who.session.0));
    facts.insert("pid", Fact::Number(f64::from(who.pid)));
    facts.insert("kind", Fact::text(who.kind.name()));
    facts.insert("user", Fact::text(who.user.show()));
    facts.insert("db", Fact::text(who.database.show()));
    facts.insert("app", Fact::text(&*who.application));
    facts.insert("client", Fact::text(&*who.client));
    facts.insert("leader", who.leader.map_or(Fact::Nothing, |pid| Fact::Number(f64::from(pid))));
    facts.insert("gone", Fact::Bool(who.gone));
}

fn sql(sql: &Sql, facts: &mut Facts) {
    facts.insert("query", Fact::text(sql.query.to_string()));
    facts.insert("sql", Fact::text(&*sql.text));
    facts.insert("truncated", Fact::Bool(sql.truncated));
}

fn spark(points: &[Option<f32>]) -> Fact {
    Fact::List(points.iter().map(|p| p.map(f64::from).into()).collect())
}

fn rows(answer: &Answer) -> Vec<Facts> {
    let common = |time: u64, share: Option<f64>| Facts::from([("time", Fact::Time(time)), ("share", share.into())]);
    match &answer.body {
        Body::Load(load) => {
            let bucket = |b: &pg_wait_tracer::analysis::answer::LoadBucket| {
                let value = |aas: f64| if b.observed > 0.0 { Fact::Number(aas) } else { Fact::Nothing };
                let mut facts = Facts::from([("aas", value(b.total())), ("observed", Fact::Number(b.observed))]);
                for class in WaitClass::ALL {
                    facts.insert(class.name(), value(b.aas[class.index()]));
                }
                facts
            };
            load.buckets.iter().map(bucket).collect()
        }
        Body::TimeModel(model) => {
            let row = |r: &pg_wait_tracer::analysis::answer::ModelRow| {
                let mut facts = common(r.time_ns, r.db_share);
                facts.extend([
                    ("name", Fact::text(&r.name)),
                    ("depth", Fact::count(r.depth)),
                    ("aas", Fact::Number(r.aas)),
                    ("spark", spark(&r.spark)),
                ]);
                facts
            };
            model.rows.iter().map(row).collect()
        }
        Body::Events { events } => {
            let row = |r: &pg_wait_tracer::analysis::answer::EventRow| {
                let mut facts = common(r.time_ns, r.db_share);
                facts.extend([("name", Fact::text(&r.name)), ("idle", Fact::Bool(r.idle)), ("aas", Fact::Number(r.aas))]);
                facts.extend([("samples", Fact::count(r.samples)), ("sessions", Fact::count(r.sessions)), ("spark", spark(&r.spark))]);
                facts.insert("waits", r.waits.map_or(Fact::Nothing, Fact::count));
                facts.insert("latency", r.latency.map_or(Fact::Nothing, |l| Fact::Time(l.avg_ns)));
                facts
            };
            events.iter().map(row).collect()
        }
        Body::Sessions { sessions } => {
            let row = |r: &pg_wait_tracer::analysis::answer::SessionRow| {
                let mut facts = common(r.time_ns, r.db_share);
                who(&r.who, &mut facts);
                facts.extend([("idle", Fact::Time(r.idle_ns)), ("cpu", r.cpu_share.into()), ("wait", r.wait_share.into())]);
                facts.extend([("top", share(r.top.as_ref())), ("top_wait", share(r.top_wait.as_ref()))]);
                facts.extend([("aas", Fact::Number(r.aas)), ("query", Fact::text(r.query.to_string())), ("spark", spark(&r.spark))]);
                facts
            };
            sessions.iter().map(row).collect()
        }
        Body::Queries { queries } => {
            let row = |r: &pg_wait_tracer::analysis::answer::QueryRow| {
                let mut facts = common(r.time_ns, r.db_share);
                sql(&r.sql, &mut facts);
                facts.extend([("samples", Fact::count(r.samples)), ("sessions", Fact::count(r.sessions)), ("top", share(r.top.as_ref()))]);
                facts.extend([("db", Fact::text(r.database.show())), ("user", Fact::text(r.user.show())), ("aas", Fact::Number(r.aas))]);
                facts
            };
            queries.iter().map(row).collect()
        }
        Body::QueryEvents { pairs } => {
            let row = |r: &pg_wait_tracer::analysis::answer::PairRow| {
                let mut facts = common(r.time_ns, r.db_share);
                sql(&r.sql, &mut facts);
                facts.extend([("name", Fact::text(&r.name)), ("samples", Fact::count(r.samples))]);
                facts
            };
            pairs.iter().map(row).collect()
        }
        Body::Latency(_) | Body::Flow(_) => Vec::new(),
        Body::Active { active, .. } => {
            let row = |r: &pg_wait_tracer::analysis::answer::ActiveRow| {
                let mut facts = common(r.time_ns, None);
                who(&r.who, &mut facts);
                sql(&r.sql, &mut facts);
                let since = |micros: i64| {
                    let at = answer.clock.wall(answer.window.end) / 1_000;
                    if micros == 0 { Fact::Nothing } else { Fact::Time((at - micros).unsigned_abs() * 1_000) }
                };
                facts.extend([("name", Fact::text(&r.name)), ("state", Fact::text(r.state.name()))]);
                facts.extend([
                    ("doing", Fact::text(format!("{:?}", r.doing))),
                    ("for", Fact::Time(r.for_ns)),
                    ("at_least", Fact::Bool(r.for_at_least)),
                ]);
                facts.extend([
                    ("query_age", since(r.query_start)),
                    ("xact_age", since(r.xact_start)),
                    ("state_age", since(r.state_change)),
                ]);
                facts
            };
            active.iter().map(row).collect()
        }
    }
}

fn members(answer: &Answer) -> Facts {
    let c = &answer.coverage;
    let span = |s: &Span| Fact::text(format!("{}..{}", seconds(s.start), seconds(s.end)));
    let mut facts = Facts::from([
        ("db_time", Fact::Time(answer.db_time_ns)),
        ("idle", Fact::Time(answer.idle_ns)),
        ("aas", answer.aas().into()),
        ("sessions", Fact::count(answer.sessions)),
        ("total_rows", Fact::count(answer.total_rows)),
        ("fidelity", Fact::text(c.fidelity.name())),
        ("observed", Fact::Time(c.observed_ns())),
        ("gap", Fact::Time(c.gap_ns)),
        ("gaps", Fact::List(c.gaps.iter().map(span).collect())),
        ("ticks", Fact::count(c.ticks)),
        ("unread", Fact::count(c.unread)),
        ("window", span(&answer.window)),
        ("start", Fact::text(jiff::Timestamp::from_nanosecond(answer.clock.wall(answer.window.start).into()).unwrap().to_string())),
    ]);
    match &answer.body {
        Body::Load(load) => facts.extend([("max_aas", Fact::Number(load.max_aas))]),
        Body::TimeModel(m) => facts.extend([("io_worker_busy", m.io_worker_busy.into()), ("io_workers", Fact::count(m.io_workers))]),
        Body::Active { at, .. } => facts.extend([("at", at.map_or(Fact::Nothing, |at| Fact::text(seconds(at))))]),
        _ => {}
    }
    facts
}

/// An instant in the scenario's own seconds.
fn seconds(at: Ts) -> String {
    format!("{}s", (i128::from(at.0) - i128::from(START.0)) as f64 / 1e9)
}

fn question(expect: &Expect, length: i64) -> Question {
    let at = |t: i64| Ts((START.0 as i64 + t) as u64);
    let window = match expect.window.as_deref() {
        None => Window::Fixed(Span::new(at(0), at(length))),
        Some(text) => match text.strip_prefix("last ") {
            Some(length) => Window::Follow(line::time(length).unwrap() as u64),
            None => line::range(text, length).map(|(from, to)| Window::Fixed(Span::new(at(from), at(to)))).unwrap(),
        },
    };
    let ask = match expect.ask.as_str() {
        "load" => Ask::Load { buckets: expect.buckets.max(1) },
        "time_model" => Ask::TimeModel,
        "events" => Ask::Events,
        "sessions" => Ask::Sessions,
        "queries" => Ask::Queries,
        "query_events" => Ask::QueryEvents,
        "active" => Ask::Active,
        other => panic!("there is no question '{other}'"),
    };
    let filter = Filter::parse(&expect.filter).unwrap();
    Question { filter, limit: expect.limit, spark: expect.spark, ..Question::new(ask, window) }
}

fn differences(facts: &Facts, expected: &BTreeMap<String, Value>, within: u64) -> Vec<String> {
    let wrong = expected.iter().filter_map(|(key, value)| match facts.get(key.as_str()) {
        Some(fact) if fact.is(value, within) => None,
        Some(fact) => Some(format!("{key} is {fact:?}, not {value}")),
        None => Some(format!("there is no '{key}'; there are {}", facts.keys().copied().collect::<Vec<_>>().join(", "))),
    });
    wrong.collect()
}

fn check(trace: &impl Trace, expect: &Expect, length: i64) -> Result<(), String> {
    let answer = match (analysis::answer(trace, &question(expect, length)), &expect.error) {
        (Ok(answer), None) => answer,
        (Err(e), Some(part)) if e.to_string().contains(part) => return Ok(()),
        (Err(e), _) => return Err(format!("error: {e:#}")),
        (Ok(_), Some(part)) => return Err(format!("no error '{part}'")),
    };
    // Any answer must survive the way to another host.
    let wire = serde_json::to_string(&answer).map_err(|e| e.to_string())?;
    let back: Answer = serde_json::from_str(&wire).map_err(|e| format!("does not survive JSON: {e}"))?;
    assert_eq!((back.db_time_ns, back.total_rows, &back.server), (answer.db_time_ns, answer.total_rows, &answer.server));
    let within = expect.within.as_deref().map_or(0, |t| line::time(t).unwrap()) as u64;
    let mut wrong = differences(&members(&answer), &expect.answer, within);
    let got = rows(&answer);
    if let Some(expected) = &expect.rows {
        if expect.some {
            let mut rest = got.iter();
            for row in expected {
                if !rest.any(|facts| differences(facts, row, within).is_empty()) {
                    wrong.push(format!("no row (behind those before it) has {row:?}"));
                }
            }
        } else if expected.len() == got.len() {
            let rows = got.iter().zip(expected).enumerate();
            wrong.extend(
                rows.flat_map(|(i, (facts, row))| differences(facts, row, within).into_iter().map(move |d| format!("row {i}: {d}"))),
            );
        } else {
            wrong.push(format!("{} rows, not {}", got.len(), expected.len()));
        }
    }
    for name in &expect.never {
        if got.iter().any(|facts| facts.get("name").is_some_and(|n| n.is(&Value::String(name.clone()), 0))) {
            wrong.push(format!("there is a row '{name}'"));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let mut text = wrong.join("\n      ");
    for facts in &got {
        let shown: Vec<String> =
            ["name", "pid", "query", "aas", "time", "share"].iter().filter_map(|k| facts.get(k).map(|f| format!("{k} {f:?}"))).collect();
        write!(text, "\n        got {}", shown.join(", ")).unwrap();
    }
    Err(text)
}

/// The whole recording as one block.
fn as_one(batches: &[Batch]) -> Recent {
    let block = Block::merge(batches.iter().filter_map(|b| b.block.as_deref()));
    let news = batches.iter().flat_map(|b| b.news.clone()).collect();
    let last = batches.last().cloned().unwrap_or_default();
    let mut recent = Recent::new(usize::MAX);
    recent.absorb(Batch { block: (!block.ticks().is_empty()).then(|| Arc::new(block)), news, ..last });
    recent
}

#[test]
fn scenarios_come_out_as_they_say() {
    let mut failures = String::new();
    let mut checked = 0;
    let mut paths: Vec<_> = std::fs::read_dir("tests/scenarios").unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|p| p.extension().is_some_and(|e| e == "toml")) {
        let name = path.file_stem().unwrap().to_string_lossy();
        let scenario = match Scenario::load(path) {
            Ok(scenario) => scenario,
            Err(e) => {
                writeln!(failures, "{e:#}").unwrap();
                continue;
            }
        };
        let file: File = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let length = scenario.length;
        let batches = Script::batches(scenario.clone()).unwrap();
        let traces = [Script::trace(scenario).unwrap(), as_one(&batches)];
        assert!(!file.expect.is_empty(), "{name} expects nothing");
        for expect in &file.expect {
            checked += 1;
            for (trace, how) in traces.iter().zip(["", " (as one block)"]) {
                if let Err(text) = check(trace, expect, length) {
                    writeln!(failures, "{name}{how}: {}\n      {text}", expect.why).unwrap();
                    break;
                }
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(checked > 60, "only {checked} expectations");
}

#[test]
fn errors_name_the_file_the_place_and_the_nearest_word() {
    let table = [
        ("length = \"1s\"", "line 1: missing field `title`"),
        ("title = \"x\"\nlength = \"1s\"\nsesion = 1", "line 3: unknown field `sesion`"),
        (
            "title = \"x\"\n[[session]]\npid = 7\ndoes = [\"0s..1s Lock:tupel\"]",
            "session pid 7: \"0s..1s Lock:tupel\": unknown wait event 'Lock:tupel'; nearest: Lock:tuple",
        ),
        (
            "title = \"x\"\n[[session]]\npid = 7\nkind = \"walwrter\"\ndoes = [\"0s..1s CPU\"]",
            "session pid 7: kind 'walwrter' is not known; nearest: walwriter",
        ),
        ("title = \"x\"\n[[session]]\npid = 7\ndoes = [\"0s..1s CPU\", \"2s..3s CPU\"]", "\"2s..3s CPU\": it leaves a hole"),
        (
            "title = \"x\"\n[[session]]\npid = 7\ndoes = [\"0s..2s CPU\", \"1s..3s CPU\"]",
            "\"1s..3s CPU\": it begins before the one above ends",
        ),
        ("title = \"x\"\nlength = \"1s\"\n[server]\nversion = \"9.6\"", "server: version '9.6' is not one from 13 to 19"),
        ("title = \"x\"\nlength = \"1s\"\nstart = \"noon\"", "start: 'noon' is no RFC 3339 time"),
    ];
    for (text, expected) in table {
        let error = format!("{:#}", Scenario::parse(text).unwrap_err());
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    let missing = format!("{:#}", Scenario::load(Path::new("tests/scenarios/nothing.toml")).unwrap_err());
    assert!(missing.starts_with("cannot read scenario tests/scenarios/nothing.toml: "), "{missing}");
}
