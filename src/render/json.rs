//! Answers as JSON, one object per line: the members of the original's answers under their names, and ours beside them.
//!
//! Times appear twice: as milliseconds under the original's names and exact as `*_ns`. Query ids and all `*_ns` of ours are decimal text,
//! since readers with 53-bit numbers would change them.

use super::Options;
use crate::analysis::answer::{Answer, Body, EventRow, Latency, ModelKey, ModelRow, PairRow, Share, Sql, Who};
use crate::show::rfc3339;
use crate::trace::catalog::{TextSource, UnixMicros};
use crate::trace::clock::Span;
use crate::trace::record::QueryId;
use crate::trace::wait::WaitClass;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Prints each answer on a line of its own. With a session selected, its events ride in the first.
pub fn write(out: &mut impl Write, options: &Options, answers: &[Answer]) -> io::Result<()> {
    let mut lines: Vec<Map<String, Value>> = answers.iter().map(|a| object(options.view.name(), a)).collect();
    if options.pid.is_some() && lines.len() == options.windows.len().max(1) + 1 {
        let events = lines.pop().and_then(|mut detail| detail.remove("rows")).unwrap_or_default();
        if let Some(first) = lines.first_mut() {
            first.insert("events".into(), events);
        }
    }
    for line in lines {
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// One answer as an object.
pub fn object(view: &str, a: &Answer) -> Map<String, Value> {
    let observed = a.coverage.observed_ns();
    let wall = |at| a.clock.wall(at);
    let instant = |at| wall(at).to_string();
    let span = |s: &Span| json!({ "from_ns": instant(s.start), "to_ns": instant(s.end), "from": rfc3339(wall(s.start)), "to": rfc3339(wall(s.end)) });
    let c = &a.coverage;
    let mut o = Map::new();
    let mut put = |key: &str, value: Value| {
        o.insert(key.into(), value);
    };
    put("view", view.into());
    put("window", span(&a.window));
    put("fidelity", c.fidelity.name().into());
    put(
        "coverage",
        json!({
            "observed_ns": ns(observed), "exact_ns": ns(c.exact_ns), "blocking_ns": ns(c.blocking_ns), "sampled_ns": ns(c.sampled_ns),
            "gap_ns": ns(c.gap_ns),
            "gaps": c.gaps.iter().map(span).collect::<Vec<_>>(), "ticks": c.ticks, "unread": c.unread,
        }),
    );
    put(
        "server",
        json!({ "version": a.server.version, "cluster": a.server.cluster, "host": a.server.host, "port": a.server.port, "cpus": a.server.cpus }),
    );
    put("health", json!(a.health));
    put("wall_ms", ms(a.window.len()));
    put("db_time_ms", ms(a.db_time_ns));
    put("db_time_ns", ns(a.db_time_ns));
    put("idle_time_ms", ms(a.idle_ns));
    put("aas", a.aas().into());
    put("sessions", a.sessions.into());
    put("total_rows", a.total_rows.into());
    let rows = match &a.body {
        Body::Load(load) => {
            let buckets = load.buckets.iter().enumerate().map(|(i, b)| {
                let at = a.window.start + (load.bucket_ns * i as f64) as u64;
                let mut bucket = Map::from_iter([
                    ("t".into(), wall(at).into()),
                    ("t_ns".into(), wall(at).to_string().into()),
                    ("observed".into(), b.observed.into()),
                ]);
                for (class, aas) in WaitClass::ALL.iter().zip(b.aas) {
                    bucket.insert(key(*class), if b.observed > 0.0 { aas.into() } else { Value::Null });
                }
                Value::Object(bucket)
            });
            put("buckets", buckets.collect());
            put("bucket_ns", load.bucket_ns.into());
            put("max_aas", load.max_aas.into());
            return o;
        }
        Body::TimeModel(model) => {
            put("has_measured_cpu", false.into());
            put("io_worker_busy_pct", model.io_worker_busy.map(|b| b * 100.0).into());
            model_rows(&model.rows, observed)
        }
        Body::Events { events } => events.iter().filter(|e| e.class != WaitClass::Activity).map(event).collect(),
        Body::Sessions { sessions } => sessions
            .iter()
            .map(|s| {
                let mut row = who(&s.who);
                row.extend(share("top_wait", s.top_wait.as_ref()));
                row.extend([
                    ("db_time_ms".into(), ms(s.time_ns)),
                    ("time_ns".into(), ns(s.time_ns)),
                    ("idle_ns".into(), ns(s.idle_ns)),
                    ("cpu_pct".into(), pct(s.cpu_share)),
                    ("wait_pct".into(), pct(s.wait_share)),
                    ("pct".into(), pct(s.db_share)),
                    ("aas".into(), s.aas.into()),
                    ("top".into(), s.top.as_ref().map(|t| t.name.as_str()).into()),
                    ("query_id".into(), query(s.query)),
                ]);
                row.extend(classes(&s.classes));
                Value::Object(row)
            })
            .collect(),
        Body::Queries { queries } => queries
            .iter()
            .map(|q| {
                let mut row = sql(&q.sql);
                row.extend(share("top_wait", q.top.as_ref()));
                row.extend([
                    ("count".into(), q.samples.into()),
                    ("samples".into(), q.samples.into()),
                    ("total_ms".into(), ms(q.time_ns)),
                    ("time_ns".into(), ns(q.time_ns)),
                    ("avg_us".into(), Value::Null),
                    ("pct".into(), pct(q.db_share)),
                    ("aas".into(), q.aas.into()),
                    ("sessions".into(), q.sessions.into()),
                    ("db".into(), text(&q.database.show())),
                    ("user".into(), text(&q.user.show())),
                ]);
                row.extend(classes(&q.classes));
                Value::Object(row)
            })
            .collect(),
        Body::QueryEvents { pairs } => pairs.iter().map(pair).collect(),
        Body::Active { active, at } => {
            put("at_ns", at.map(|at| wall(at).to_string()).into());
            active
                .iter()
                .map(|r| {
                    let mut row = who(&r.who);
                    row.extend(sql(&r.sql));
                    row.extend([
                        ("doing".into(), json!(r.doing)),
                        ("state".into(), r.state.name().into()),
                        ("event".into(), r.name.as_str().into()),
                        ("event_id".into(), r.event.0.into()),
                        ("for_ms".into(), ms(r.for_ns)),
                        ("for_ns".into(), ns(r.for_ns)),
                        ("for_at_least".into(), r.for_at_least.into()),
                        ("db_time_ms".into(), ms(r.time_ns)),
                        ("time_ns".into(), ns(r.time_ns)),
                        ("query_start".into(), micros(r.query_start)),
                        ("xact_start".into(), micros(r.xact_start)),
                        ("state_change".into(), micros(r.state_change)),
                    ]);
                    Value::Object(row)
                })
                .collect()
        }
    };
    put("rows", rows);
    o
}

/// DB Time, classes and events; then idle time with the events that are listed by name, and the background's main loops as one remainder.
fn model_rows(rows: &[ModelRow], observed: u64) -> Value {
    let row = |name: &str, indent: u8, time: u64, share: Option<f64>| {
        let aas = if observed > 0 { time as f64 / observed as f64 } else { 0.0 };
        json!({ "name": name, "ms": ms(time), "time_ns": ns(time), "pct": pct(share), "aas": aas, "indent": indent })
    };
    let mut out = Vec::new();
    let mut background = 0;
    for r in rows {
        match r.key {
            ModelKey::IdleEvent(e) if e.class() == WaitClass::Activity => background += r.time_ns,
            ModelKey::IdleEvent(_) => out.push(row(&r.name, 2, r.time_ns, None)),
            _ => out.push(row(&r.name, r.depth, r.time_ns, r.db_share)),
        }
    }
    if background > 0 {
        out.push(row("Other (background)", 2, background, None));
    }
    out.into()
}

fn event(e: &EventRow) -> Value {
    let mut row = latency(e.latency);
    row.extend([
        ("event_id".into(), e.event.0.into()),
        ("name".into(), e.name.as_str().into()),
        ("class".into(), e.class.name().trim_end_matches('*').into()),
        ("idle".into(), e.idle.into()),
        ("count".into(), (e.waits.unwrap_or_default() + e.samples).into()),
        ("waits".into(), e.waits.into()),
        ("samples".into(), e.samples.into()),
        ("total_ms".into(), ms(e.time_ns)),
        ("time_ns".into(), ns(e.time_ns)),
        ("pct".into(), pct(e.db_share)),
        ("aas".into(), e.aas.into()),
        ("sessions".into(), e.sessions.into()),
    ]);
    row.into()
}

fn pair(p: &PairRow) -> Value {
    let mut row = latency(p.latency);
    row.extend(sql(&p.sql));
    row.extend([
        ("event_id".into(), p.event.0.into()),
        ("name".into(), p.name.as_str().into()),
        ("class".into(), p.event.class().name().trim_end_matches('*').into()),
        ("count".into(), (p.waits.unwrap_or_default() + p.samples).into()),
        ("waits".into(), p.waits.into()),
        ("samples".into(), p.samples.into()),
        ("total_ms".into(), ms(p.time_ns)),
        ("time_ns".into(), ns(p.time_ns)),
        ("pct".into(), pct(p.db_share)),
    ]);
    row.into()
}

/// Latency members: null unless waits were measured one by one.
fn latency(l: Option<Latency>) -> Map<String, Value> {
    let us = |ns: Option<u64>| Value::from(ns.map(|ns| ns as f64 / 1e3));
    let of = |f: fn(&Latency) -> u64| us(l.as_ref().map(f));
    Map::from_iter([
        ("avg_us".into(), of(|l| l.avg_ns)),
        ("p50_us".into(), of(|l| l.p50_ns)),
        ("p95_us".into(), of(|l| l.p95_ns)),
        ("p99_us".into(), of(|l| l.p99_ns)),
        ("max_us".into(), of(|l| l.max_ns)),
    ])
}

fn who(w: &Who) -> Map<String, Value> {
    Map::from_iter([
        ("pid".into(), w.pid.into()),
        ("server_pid".into(), w.server_pid.into()),
        ("session".into(), w.session.0.into()),
        ("type".into(), w.kind.short().into()),
        ("backend_type".into(), w.kind.name().into()),
        ("leader_pid".into(), w.leader.into()),
        ("user".into(), text(&w.user.show())),
        ("db".into(), text(&w.database.show())),
        ("application".into(), text(&w.application)),
        ("client".into(), text(&w.client)),
        ("backend_start".into(), micros(w.started)),
        ("gone".into(), w.gone.into()),
    ])
}

fn sql(s: &Sql) -> Map<String, Value> {
    Map::from_iter([
        ("query_id".into(), query(s.query)),
        ("text".into(), text(&s.text)),
        ("text_truncated".into(), s.truncated.into()),
        ("text_normalised".into(), (s.source == TextSource::Normalised).into()),
    ])
}

/// The event with the most time, under the original's names: `CPU*` when there is none.
fn share(key: &str, share: Option<&Share>) -> [(String, Value); 2] {
    [(key.into(), share.map_or("CPU*", |s| s.name.as_str()).into()), (format!("{key}_id"), share.map_or(0, |s| s.event.0).into())]
}

/// The original's order of classes in `classes`; what it did not know is in the last.
const ORDER: [WaitClass; 10] = [
    WaitClass::Cpu,
    WaitClass::Io,
    WaitClass::Lock,
    WaitClass::LwLock,
    WaitClass::Ipc,
    WaitClass::Client,
    WaitClass::Timeout,
    WaitClass::Buffer,
    WaitClass::Activity,
    WaitClass::Extension,
];

/// Load by class, milliseconds: in the original's order, and by name for the classes that have any.
fn classes(times: &[u64; WaitClass::ALL.len()]) -> [(String, Value); 2] {
    let by_class = || WaitClass::ALL.iter().copied().zip(times.iter().copied());
    let of = |class: WaitClass| by_class().find(|(c, _)| *c == class).map_or(0, |(_, ns)| ns);
    let rest = by_class().filter(|(class, _)| !ORDER.contains(class)).map(|(_, ns)| ns).sum();
    let ordered: Value = ORDER.iter().map(|class| of(*class)).chain([rest]).map(ms).collect();
    let named = by_class().filter(|(_, ns)| *ns > 0).map(|(class, ns)| (key(class), ms(ns)));
    [("classes".into(), ordered), ("class_ms".into(), Value::Object(named.collect()))]
}

fn key(class: WaitClass) -> String {
    class.name().trim_end_matches('*').to_lowercase()
}

fn ns(ns: u64) -> Value {
    ns.to_string().into()
}

fn query(id: QueryId) -> Value {
    id.to_string().into()
}

fn ms(ns: u64) -> Value {
    (ns as f64 / 1e6).into()
}

fn pct(share: Option<f64>) -> Value {
    share.map(|s| s * 100.0).into()
}

fn text(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}

fn micros(at: UnixMicros) -> Value {
    if at == 0 { Value::Null } else { rfc3339(at.saturating_mul(1_000)).into() }
}
