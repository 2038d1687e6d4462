//! Answers as CSV (RFC 4180): a header line once, then a row per row. Times are nanoseconds, shares 0 to 1, ids plain; an empty field is
//! "not known" and never zero; a window that was not observed is a row with `observed` 0 and no more. Control characters other than line breaks and tabs are made visible: the reader may be a terminal.

use super::Options;
use crate::analysis::answer::{Answer, Body, Latency, Share, Sql, Who};
use crate::show::{rfc3339, visible};
use crate::trace::catalog::UnixMicros;
use crate::trace::record::QueryId;
use std::io::{self, Write};

const WINDOW: [&str; 4] = ["from", "to", "fidelity", "observed"];
const WHO: [&str; 9] = ["pid", "server_pid", "backend_start", "kind", "leader_pid", "user", "database", "application", "client"];

/// Prints the rows of all answers, after a header if this is the first printing.
pub fn write(out: &mut impl Write, options: &Options, answers: &[Answer], first: bool) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).flexible(false).from_writer(out);
    // The events of a selected session are a table of their own: ask for system_event with that filter.
    for answer in answers.iter().take(options.windows.len().max(1)) {
        if first && std::ptr::eq(answer, answers.first().unwrap_or(answer)) {
            csv.write_record(WINDOW.iter().chain(&columns(&answer.body)))?;
        }
        let mut rows = rows(&answer.body);
        // A window without observation is a row too: a gap must not look like nothing to tell.
        if rows.is_empty() && answer.coverage.observed_ns() == 0 {
            rows.push(vec![String::new(); columns(&answer.body).len()]);
        }
        for row in rows {
            csv.write_record(window(answer).into_iter().chain(row))?;
        }
    }
    csv.flush()
}

fn window(a: &Answer) -> Vec<String> {
    let observed = a.coverage.observed_ns() as f64 / a.window.len().max(1) as f64;
    let wall = |at| rfc3339(a.clock.wall(at));
    vec![wall(a.window.start), wall(a.window.end), a.coverage.fidelity.name().into(), format!("{observed:.6}")]
}

fn columns(body: &Body) -> Vec<&'static str> {
    let with_who = |more: &[&'static str]| WHO.iter().chain(more).copied().collect();
    match body {
        Body::Load(_) => vec!["bucket", "observed_share", "aas"],
        Body::TimeModel(_) => vec!["name", "indent", "time_ns", "db_share", "aas"],
        Body::Events { .. } => {
            let latency = ["avg_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns"];
            [&["event", "class", "idle", "waits", "samples", "time_ns"][..], &latency, &["db_share", "aas", "sessions"]].concat()
        }
        Body::Sessions { .. } => {
            with_who(&["time_ns", "idle_ns", "cpu_share", "wait_share", "db_share", "aas", "top_event", "top_wait", "query_id"])
        }
        Body::Queries { .. } => {
            vec!["query_id", "samples", "time_ns", "db_share", "aas", "sessions", "database", "user", "top_event", "query"]
        }
        Body::QueryEvents { .. } => vec!["query_id", "event", "waits", "samples", "time_ns", "avg_ns", "max_ns", "db_share", "query"],
        Body::Latency(_) => vec!["from_ns", "to_ns", "waits", "time_ns"],
        Body::Flow(_) => vec!["from", "to", "count", "time_ns"],
        Body::Active { .. } => with_who(&[
            "doing",
            "state",
            "event",
            "for_ns",
            "for_at_least",
            "time_ns",
            "query_start",
            "xact_start",
            "state_change",
            "query_id",
            "query",
        ]),
    }
}

fn rows(body: &Body) -> Vec<Vec<String>> {
    match body {
        Body::Load(load) => {
            let row = |(i, b): (usize, &crate::analysis::answer::LoadBucket)| {
                let aas = if b.observed > 0.0 { b.total().to_string() } else { String::new() };
                vec![i.to_string(), b.observed.to_string(), aas]
            };
            load.buckets.iter().enumerate().map(row).collect()
        }
        Body::TimeModel(model) => {
            let row = |r: &crate::analysis::answer::ModelRow| {
                vec![text(&r.name), r.depth.to_string(), r.time_ns.to_string(), number(r.db_share), float(r.aas)]
            };
            model.rows.iter().map(row).collect()
        }
        Body::Events { events } => events
            .iter()
            .map(|e| {
                let class = e.class.name().trim_end_matches('*').to_owned();
                let mut row = vec![text(&e.name), class, e.idle.to_string(), number(e.waits), e.samples.to_string(), e.time_ns.to_string()];
                let of = |f: fn(&Latency) -> u64| number(e.latency.as_ref().map(f));
                row.extend([of(|l| l.avg_ns), of(|l| l.p50_ns), of(|l| l.p95_ns), of(|l| l.p99_ns), of(|l| l.max_ns)]);
                row.extend([number(e.db_share), float(e.aas), e.sessions.to_string()]);
                row
            })
            .collect(),
        Body::Sessions { sessions } => sessions
            .iter()
            .map(|s| {
                let mut row = who(&s.who);
                row.extend([s.time_ns.to_string(), s.idle_ns.to_string(), number(s.cpu_share), number(s.wait_share)]);
                row.extend([number(s.db_share), float(s.aas), name(s.top.as_ref()), name(s.top_wait.as_ref()), id(s.query)]);
                row
            })
            .collect(),
        Body::Queries { queries } => queries
            .iter()
            .map(|q| {
                let mut row = vec![id(q.sql.query), q.samples.to_string(), q.time_ns.to_string(), number(q.db_share), float(q.aas)];
                row.extend([q.sessions.to_string(), text(&q.database.show()), text(&q.user.show()), name(q.top.as_ref()), sql(&q.sql)]);
                row
            })
            .collect(),
        Body::QueryEvents { pairs } => pairs
            .iter()
            .map(|p| {
                let of = |f: fn(&Latency) -> u64| number(p.latency.as_ref().map(f));
                let mut row = vec![id(p.sql.query), text(&p.name), number(p.waits), p.samples.to_string(), p.time_ns.to_string()];
                row.extend([of(|l| l.avg_ns), of(|l| l.max_ns), number(p.db_share), sql(&p.sql)]);
                row
            })
            .collect(),
        Body::Latency(_) | Body::Flow(_) => Vec::new(),
        Body::Active { active, .. } => active
            .iter()
            .map(|r| {
                let doing = match r.doing {
                    crate::analysis::answer::Doing::Waiting => "waiting",
                    crate::analysis::answer::Doing::OnCpu => "on_cpu",
                    crate::analysis::answer::Doing::Idle => "idle",
                };
                let mut row = who(&r.who);
                row.extend([doing.into(), r.state.name().into(), text(&r.name), r.for_ns.to_string(), r.for_at_least.to_string()]);
                row.extend([
                    r.time_ns.to_string(),
                    micros(r.query_start),
                    micros(r.xact_start),
                    micros(r.state_change),
                    id(r.sql.query),
                    sql(&r.sql),
                ]);
                row
            })
            .collect(),
    }
}

fn who(w: &Who) -> Vec<String> {
    let mut row = vec![w.pid.to_string(), w.server_pid.to_string(), micros(w.started), w.kind.name().into(), number(w.leader)];
    row.extend([text(&w.user.show()), text(&w.database.show()), text(&w.application), text(&w.client)]);
    row
}

fn text(text: &str) -> String {
    visible(text).into_owned()
}

fn sql(sql: &Sql) -> String {
    text(&sql.text)
}

fn name(share: Option<&Share>) -> String {
    share.map(|s| text(&s.name)).unwrap_or_default()
}

fn id(query: QueryId) -> String {
    if query == QueryId::NONE { String::new() } else { query.to_string() }
}

fn number(value: Option<impl ToString>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}

fn float(value: f64) -> String {
    value.to_string()
}

fn micros(at: UnixMicros) -> String {
    if at == 0 { String::new() } else { rfc3339(at.saturating_mul(1_000)) }
}
