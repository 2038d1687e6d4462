//! The rows of answers as JSON objects.

use crate::analysis::answer::{
    ActiveRow, EventRow, Executions, Latency, Measured, ModelKey, ModelRow, PairRow, QueryRow, SessionRow, Share, Sql, TimeModel, Who,
};
use crate::show::rfc3339;
use crate::trace::catalog::{TextSource, UnixMicros};
use crate::trace::wait::WaitClass;
use serde_json::{Map, Value, json};

/// The members of an object; none of anything else.
pub fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(members) = value { members } else { Map::new() }
}

/// One object with the members of several.
fn joined(parts: impl IntoIterator<Item = Value>) -> Value {
    Value::Object(parts.into_iter().flat_map(object).collect())
}

/// DB Time, classes and events; then idle time with the events that are listed by name, and the background's main loops as one remainder.
pub fn model(rows: &[ModelRow], observed: u64) -> Value {
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

/// Where measured CPU time went; null without any. `wait_gap_cpu_ms`: time on the CPU inside waits that are load.
pub fn measured_model(model: &TimeModel) -> Map<String, Value> {
    let of = |class: WaitClass| model.rows.iter().find(|r| r.key == ModelKey::Class(class)).map(|r| r.time_ns);
    let (off, spun) = (of(WaitClass::OffCpu), model.waits.map(|w| w.cpu_ns));
    let has = off.is_some() || spun.is_some();
    object(json!({
        "has_measured_cpu": has,
        "cpu_ms": ms(of(WaitClass::Cpu).unwrap_or(0)),
        "offcpu_ms": has.then(|| ms(off.unwrap_or(0))),
        "wait_gap_cpu_ms": spun.map(ms),
    }))
}

/// A wait event. `count` is what the original counts: waits and observations together; ours are apart.
pub fn event(e: &EventRow) -> Value {
    let row = json!({
        "event_id": e.event.0,
        "name": e.name,
        "class": class(e.class),
        "idle": e.idle,
        "count": e.waits.unwrap_or_default() + e.samples,
        "waits": e.waits,
        "samples": e.samples,
        "total_ms": ms(e.time_ns),
        "time_ns": ns(e.time_ns),
        "pct": pct(e.db_share),
        "aas": e.aas,
        "sessions": e.sessions,
    });
    joined([row, latency(e.latency), measured(e.measured)])
}

/// A query and an event.
pub fn pair(p: &PairRow) -> Value {
    let row = json!({
        "event_id": p.event.0,
        "name": p.name,
        "class": class(p.event.class()),
        "count": p.waits.unwrap_or_default() + p.samples,
        "waits": p.waits,
        "samples": p.samples,
        "total_ms": ms(p.time_ns),
        "time_ns": ns(p.time_ns),
        "pct": pct(p.db_share),
    });
    joined([row, sql(&p.sql), latency(p.latency)])
}

/// A session.
pub fn session(s: &SessionRow) -> Value {
    let row = json!({
        "db_time_ms": ms(s.time_ns),
        "time_ns": ns(s.time_ns),
        "idle_ns": ns(s.idle_ns),
        "cpu_pct": pct(s.cpu_share),
        "wait_pct": pct(s.wait_share),
        "pct": pct(s.db_share),
        "aas": s.aas,
        "top": s.top.as_ref().map(|t| &t.name),
        "query_id": s.query,
        "waits": s.waits,
    });
    joined([row, who(&s.who), top_wait(s.top_wait.as_ref()), classes(&s.classes), measured(s.measured)])
}

/// A query.
pub fn query(q: &QueryRow) -> Value {
    let row = json!({
        "count": q.waits.unwrap_or_default() + q.samples,
        "waits": q.waits,
        "samples": q.samples,
        "total_ms": ms(q.time_ns),
        "time_ns": ns(q.time_ns),
        "avg_us": null,
        "pct": pct(q.db_share),
        "aas": q.aas,
        "sessions": q.sessions,
        "db": text(&q.database.show()),
        "user": text(&q.user.show()),
    });
    joined([row, sql(&q.sql), top_wait(q.top.as_ref()), classes(&q.classes), executions(q.executions)])
}

/// What a session does.
pub fn active(r: &ActiveRow) -> Value {
    let row = json!({
        "doing": r.doing,
        "state": r.state.name(),
        "event": r.name,
        "event_id": r.event.0,
        "for_ms": ms(r.for_ns),
        "for_ns": ns(r.for_ns),
        "for_at_least": r.for_at_least,
        "db_time_ms": ms(r.time_ns),
        "time_ns": ns(r.time_ns),
        "query_start": micros(r.query_start),
        "xact_start": micros(r.xact_start),
        "state_change": micros(r.state_change),
    });
    joined([row, who(&r.who), sql(&r.sql)])
}

/// Executions that ended; null unless any could be seen. Lengths are of those that began while they were watched, `exec_whole`.
fn executions(e: Option<Executions>) -> Value {
    let ms = |of: fn(&Latency) -> u64| e.and_then(|e| e.latency).map(|l| self::ms(of(&l)));
    json!({
        "exec_count": e.map(|e| e.count),
        "exec_whole": e.map(|e| e.whole),
        "exec_inferred": e.map(|e| e.inferred),
        "avg_exec_ms": ms(|l| l.avg_ns),
        "p50_exec_ms": ms(|l| l.p50_ns),
        "p95_exec_ms": ms(|l| l.p95_ns),
        "p99_exec_ms": ms(|l| l.p99_ns),
        "max_exec_ms": ms(|l| l.max_ns),
    })
}

/// CPU and run queue as measured; null where they were not.
fn measured(m: Option<Measured>) -> Value {
    let part = |of: fn(&Measured) -> u64| pct(m.filter(|m| m.time_ns > 0).map(|m| of(&m) as f64 / m.time_ns as f64));
    json!({
        "measured_ns": m.map(|m| ns(m.time_ns)),
        "on_cpu_ns": m.map(|m| ns(m.cpu_ns)),
        "runq_ns": m.map(|m| ns(m.runq_ns)),
        "on_cpu_pct": part(|m| m.cpu_ns),
        "runq_pct": part(|m| m.runq_ns),
    })
}

/// Latency: null unless waits were measured one by one.
pub fn latency(l: Option<Latency>) -> Value {
    let us = |of: fn(&Latency) -> u64| l.as_ref().map(|l| of(l) as f64 / 1e3);
    json!({ "avg_us": us(|l| l.avg_ns), "p50_us": us(|l| l.p50_ns), "p95_us": us(|l| l.p95_ns), "p99_us": us(|l| l.p99_ns), "max_us": us(|l| l.max_ns) })
}

fn who(w: &Who) -> Value {
    json!({
        "pid": w.pid,
        "server_pid": w.server_pid,
        "session": w.session,
        "type": w.kind.short(),
        "backend_type": w.kind.name(),
        "leader_pid": w.leader,
        "user": text(&w.user.show()),
        "db": text(&w.database.show()),
        "application": text(&w.application),
        "client": text(&w.client),
        "backend_start": micros(w.started),
        "gone": w.gone,
    })
}

fn sql(s: &Sql) -> Value {
    let normalised = s.source == TextSource::Normalised;
    json!({ "query_id": s.query, "text": text(&s.text), "text_truncated": s.truncated, "text_normalised": normalised })
}

/// The event with the most time, under the original's names: `CPU*` when there is none.
fn top_wait(share: Option<&Share>) -> Value {
    json!({ "top_wait": share.map_or("CPU*", |s| s.name.as_str()), "top_wait_id": share.map_or(0, |s| s.event.0) })
}

/// The original's order of classes in `classes`; what it did not know is in the last. Its CPU is all time without a wait.
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
fn classes(times: &[u64; WaitClass::ALL.len()]) -> Value {
    let by_class = || WaitClass::ALL.iter().copied().zip(times.iter().copied());
    let of = |class: WaitClass| by_class().find(|(c, _)| *c == class).map_or(0, |(_, ns)| ns);
    let rest = by_class().filter(|(class, _)| *class != WaitClass::OffCpu && !ORDER.contains(class)).map(|(_, ns)| ns).sum();
    let off_cpu = |class: WaitClass| if class == WaitClass::Cpu { of(WaitClass::OffCpu) } else { 0 };
    let ordered: Vec<f64> = ORDER.iter().map(|class| of(*class) + off_cpu(*class)).chain([rest]).map(ms).collect();
    let named: Map<String, Value> = by_class().filter(|(_, ns)| *ns > 0).map(|(class, ns)| (key(class), ms(ns).into())).collect();
    json!({ "classes": ordered, "class_ms": named })
}

/// A class as a member's name.
pub fn key(class: WaitClass) -> String {
    self::class(class).to_lowercase().replace('-', "")
}

/// A class by name, without the star.
pub fn class(class: WaitClass) -> &'static str {
    class.name().trim_end_matches('*')
}

/// Nanoseconds as text.
pub fn ns(ns: u64) -> String {
    ns.to_string()
}

/// Nanoseconds as milliseconds.
pub fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// A share as percent; null when it does not apply.
pub fn pct(share: Option<f64>) -> Value {
    share.map(|s| s * 100.0).into()
}

fn text(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn micros(at: UnixMicros) -> Option<String> {
    (at != 0).then(|| rfc3339(at.saturating_mul(1_000)))
}
