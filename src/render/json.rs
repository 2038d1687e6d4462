//! Answers as JSON, one object per line: the members of the original's answers under their names, and ours beside them.
//!
//! Times appear twice: as milliseconds under the original's names and exact as `*_ns`. Query ids and all `*_ns` of ours are decimal text,
//! since readers with 53-bit numbers would change them.

mod precise;
mod rows;

use super::{Options, Part, precise_ns, unavailable};
use crate::analysis::answer::{Answer, Body, EventRow, Load, Marker, Stretch};
use crate::show::rfc3339;
use crate::trace::clock::{Span, Ts};
use crate::trace::wait::WaitClass;
use rows::{key, ms, ns};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

type Object = Map<String, Value>;

/// Prints each answer on a line of its own, with what stands beside it: the events of the session selected, the queries with their executions
/// where any were seen, the CPU time inside the waits of a time model.
pub fn write(out: &mut impl Write, options: &Options, parts: &[Part]) -> io::Result<()> {
    for part in parts {
        let mut line = object(options.view.name(), part.answer);
        if let Some(why) = unavailable(options, part.answer) {
            line.insert("unavailable".into(), why.into());
        }
        match (&part.answer.body, part.beside.map(|b| &b.body)) {
            (Body::Sessions { .. }, Some(Body::Events { events })) => {
                line.insert("events".into(), event_rows(events));
            }
            (Body::QueryEvents { .. }, Some(Body::Queries { queries })) if precise_ns(&part.answer.coverage) > 0 => {
                line.insert("queries".into(), queries.iter().map(rows::query).collect());
            }
            _ => {}
        }
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// The Activity class is hidden, as everywhere.
fn event_rows(events: &[EventRow]) -> Value {
    events.iter().filter(|e| e.class != WaitClass::Activity).map(rows::event).collect()
}

/// One answer as an object.
pub fn object(view: &str, a: &Answer) -> Object {
    let mut o = head(view, a);
    let rows: Value = match &a.body {
        Body::Load(load) => {
            o.extend(chart(a, load));
            return o;
        }
        Body::TimeModel(model) => {
            o.extend(rows::measured_model(model));
            o.insert("io_worker_busy_pct".into(), rows::pct(model.io_worker_busy));
            rows::model(&model.rows, a.coverage.observed_ns())
        }
        Body::Events { events } => event_rows(events),
        Body::Sessions { sessions } => sessions.iter().map(rows::session).collect(),
        Body::Queries { queries } => queries.iter().map(rows::query).collect(),
        Body::QueryEvents { pairs } => pairs.iter().map(rows::pair).collect(),
        Body::Latency(view) => {
            o.extend(precise::heatmap(a, view));
            precise::bars(view)
        }
        Body::Flow(flow) => {
            o.extend(precise::transitions(flow, a.total_rows));
            return o;
        }
        Body::Active { active, at } => {
            o.insert("at_ns".into(), at.map(|at| a.clock.wall(at).to_string()).into());
            active.iter().map(rows::active).collect()
        }
    };
    o.insert("rows".into(), rows);
    o
}

/// What every answer says of itself.
fn head(view: &str, a: &Answer) -> Object {
    let c = &a.coverage;
    let wall = |at: Ts| a.clock.wall(at);
    let span = |s: &Span| {
        let (from, to) = (wall(s.start), wall(s.end));
        json!({ "from_ns": from.to_string(), "to_ns": to.to_string(), "from": rfc3339(from), "to": rfc3339(to) })
    };
    let stretch = |s: &Stretch| {
        let mut stretch = rows::object(span(&s.span));
        stretch.insert("fidelity".into(), s.fidelity.name().into());
        stretch
    };
    let server = &a.server;
    rows::object(json!({
        "view": view,
        "window": span(&a.window),
        "fidelity": c.fidelity.name(),
        "coverage": {
            "observed_ns": ns(c.observed_ns()),
            "exact_ns": ns(c.exact_ns),
            "blocking_ns": ns(c.blocking_ns),
            "sampled_ns": ns(c.sampled_ns),
            "gap_ns": ns(c.gap_ns),
            "gaps": c.gaps.iter().map(span).collect::<Vec<_>>(),
            "ticks": c.ticks,
            "unread": c.unread,
            "precise": c.precise.iter().map(stretch).collect::<Vec<_>>(),
            "lost_records": c.lost_records,
            "unfollowed_ns": ns(c.unfollowed_ns),
        },
        "server": { "version": server.version, "cluster": server.cluster, "host": server.host, "port": server.port, "cpus": server.cpus },
        "health": a.health,
        "wall_ms": ms(a.window.len()),
        "db_time_ms": ms(a.db_time_ns),
        "db_time_ns": ns(a.db_time_ns),
        "idle_time_ms": ms(a.idle_ns),
        "aas": a.aas(),
        "sessions": a.sessions,
        "total_rows": a.total_rows,
    }))
}

/// AAS over time; the classes of a point that was not observed are null.
fn chart(a: &Answer, load: &Load) -> Object {
    let bucket = |(i, b): (usize, &crate::analysis::answer::LoadBucket)| {
        let at = a.clock.wall(a.window.start + (load.bucket_ns * i as f64) as u64);
        let mut bucket = rows::object(json!({ "t": at, "t_ns": at.to_string(), "observed": b.observed }));
        let classes = WaitClass::ALL.iter().zip(b.aas);
        bucket.extend(classes.map(|(class, aas)| (key(*class), if b.observed > 0.0 { aas.into() } else { Value::Null })));
        Value::Object(bucket)
    };
    let buckets: Vec<Value> = load.buckets.iter().enumerate().map(bucket).collect();
    let marker = |m: &Marker| {
        let at = a.clock.wall(m.at);
        json!({
            "t": at, "t_ns": at.to_string(), "at": rfc3339(at), "kind": m.kind, "reason": m.reason, "tier": m.tier.name(), "detail": m.detail,
            "granted": m.granted, "seconds": m.seconds,
        })
    };
    let markers: Vec<Value> = load.markers.iter().map(marker).collect();
    rows::object(json!({ "buckets": buckets, "bucket_ns": load.bucket_ns, "max_aas": load.max_aas, "markers": markers }))
}
