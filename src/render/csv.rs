//! Answers as CSV (RFC 4180): a header line once, then a row per row. Times are nanoseconds, shares 0 to 1, ids plain; an empty field is
//! "not known" and never zero; a window that was not observed is a row with `observed` 0 and no more. Control characters other than line breaks and tabs are made visible: the reader may be a terminal.

use super::{Options, Part, flow_name, unavailable};
use crate::analysis::answer::{Answer, Body, Executions, Latency, Measured, Share, Sql, Who};
use crate::show::{rfc3339, visible};
use crate::trace::catalog::UnixMicros;
use crate::trace::record::QueryId;
use std::collections::HashMap;
use std::io::{self, Write};

const WINDOW: [&str; 6] = ["from", "to", "fidelity", "observed", "exact", "blocking"];
const LATENCY: [&str; 5] = ["avg_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns"];
const MEASURED: [&str; 3] = ["measured_ns", "on_cpu_ns", "runq_ns"];
/// Of a query: how many ended, how many of those were seen from their beginning, and how long those took.
const EXECUTIONS: [&str; 7] = ["executions", "exec_whole", "exec_avg_ns", "exec_p50_ns", "exec_p95_ns", "exec_p99_ns", "exec_max_ns"];
const WHO: [&str; 9] = ["pid", "server_pid", "backend_start", "kind", "leader_pid", "user", "database", "application", "client"];

/// Prints the rows of all answers, after a header if this is the first printing.
pub fn write(out: &mut impl Write, options: &Options, parts: &[Part], first: bool) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).flexible(false).from_writer(out);
    for (i, part) in parts.iter().enumerate() {
        let answer = part.answer;
        let columns = columns(&answer.body);
        if first && i == 0 {
            csv.write_record(WINDOW.iter().chain(&columns))?;
        }
        let mut rows = rows(answer, part.beside);
        // A window without observation is a row too, and one whose figures cannot be known: neither must look like nothing to tell.
        if rows.is_empty() && (answer.coverage.observed_ns() == 0 || unavailable(options, answer).is_some()) {
            rows.push(vec![String::new(); columns.len()]);
        }
        for row in rows {
            csv.write_record(window(answer).into_iter().chain(row))?;
        }
    }
    csv.flush()
}

fn window(a: &Answer) -> Vec<String> {
    let share = |ns: u64| format!("{:.6}", ns as f64 / a.window.len().max(1) as f64);
    let wall = |at| rfc3339(a.clock.wall(at));
    let c = &a.coverage;
    let seen = [share(c.observed_ns()), share(c.exact_ns), share(c.blocking_ns)];
    [wall(a.window.start), wall(a.window.end), c.fidelity.name().into()].into_iter().chain(seen).collect()
}

fn columns(body: &Body) -> Vec<&'static str> {
    let with_who = |more: &[&'static str]| WHO.iter().chain(more).copied().collect();
    match body {
        Body::Load(_) => vec!["bucket", "observed_share", "aas"],
        Body::TimeModel(_) => vec!["name", "indent", "time_ns", "db_share", "aas"],
        Body::Events { .. } => {
            [&["event", "class", "idle", "waits", "samples", "time_ns"][..], &LATENCY, &["db_share", "aas", "sessions"], &MEASURED].concat()
        }
        Body::Sessions { .. } => {
            let load = ["time_ns", "idle_ns", "cpu_share", "wait_share", "db_share", "aas", "top_event", "top_wait", "query_id", "waits"];
            with_who(&[&load[..], &MEASURED].concat())
        }
        Body::Queries { .. } => {
            let load = ["query_id", "waits", "samples", "time_ns", "db_share", "aas", "sessions", "database", "user", "top_event"];
            [&load[..], &EXECUTIONS, &["query"]].concat()
        }
        Body::QueryEvents { .. } => {
            [&["query_id", "event", "waits", "samples", "time_ns"][..], &LATENCY, &["db_share"], &EXECUTIONS, &["query"]].concat()
        }
        Body::Latency(_) => vec!["at_least_ns", "below_ns", "waits", "share", "cumulative_share", "time_ns"],
        Body::Flow(_) => vec!["before", "after", "count", "share", "time_ns", "avg_ns"],
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

fn rows(answer: &Answer, beside: Option<&Answer>) -> Vec<Vec<String>> {
    match &answer.body {
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
                row.extend(latency(e.latency));
                row.extend([number(e.db_share), float(e.aas), e.sessions.to_string()]);
                row.extend(measured(e.measured));
                row
            })
            .collect(),
        Body::Sessions { sessions } => sessions
            .iter()
            .map(|s| {
                let mut row = who(&s.who);
                row.extend([s.time_ns.to_string(), s.idle_ns.to_string(), number(s.cpu_share), number(s.wait_share)]);
                row.extend([number(s.db_share), float(s.aas), name(s.top.as_ref()), name(s.top_wait.as_ref()), id(s.query)]);
                row.push(number(s.waits));
                row.extend(measured(s.measured));
                row
            })
            .collect(),
        Body::Queries { queries } => queries
            .iter()
            .map(|q| {
                let mut row = vec![id(q.sql.query), number(q.waits), q.samples.to_string(), q.time_ns.to_string()];
                row.extend([number(q.db_share), float(q.aas), q.sessions.to_string()]);
                row.extend([text(&q.database.show()), text(&q.user.show()), name(q.top.as_ref())]);
                row.extend(executions(q.executions));
                row.push(sql(&q.sql));
                row
            })
            .collect(),
        Body::QueryEvents { pairs } => {
            let queries = match beside.map(|b| &b.body) {
                Some(Body::Queries { queries }) => queries.as_slice(),
                _ => &[],
            };
            let of: HashMap<QueryId, Executions> = queries.iter().filter_map(|q| Some((q.sql.query, q.executions?))).collect();
            let row = |p: &crate::analysis::answer::PairRow| {
                let mut row = vec![id(p.sql.query), text(&p.name), number(p.waits), p.samples.to_string(), p.time_ns.to_string()];
                row.extend(latency(p.latency));
                row.push(number(p.db_share));
                row.extend(executions(of.get(&p.sql.query).copied()));
                row.push(sql(&p.sql));
                row
            };
            pairs.iter().map(row).collect()
        }
        Body::Latency(view) => {
            let share = |waits: u64| float(waits as f64 / view.waits.max(1) as f64);
            let mut up_to = 0;
            let row = |b: &crate::analysis::answer::LatencyBar| {
                up_to += b.waits;
                vec![b.from_ns.to_string(), b.to_ns.to_string(), b.waits.to_string(), share(b.waits), share(up_to), b.time_ns.to_string()]
            };
            view.bars.iter().map(row).collect()
        }
        Body::Flow(flow) => {
            let row = |l: &crate::analysis::answer::FlowLink| {
                let share = l.count as f64 / flow.transitions.max(1) as f64;
                let avg = l.time_ns.checked_div(l.count);
                let (before, after) = (text(&flow_name(flow, l.from)), text(&flow_name(flow, l.to)));
                vec![before, after, l.count.to_string(), float(share), l.time_ns.to_string(), number(avg)]
            };
            flow.links.iter().map(row).collect()
        }
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

fn latency(l: Option<Latency>) -> [String; 5] {
    let of = |f: fn(&Latency) -> u64| number(l.as_ref().map(f));
    [of(|l| l.avg_ns), of(|l| l.p50_ns), of(|l| l.p95_ns), of(|l| l.p99_ns), of(|l| l.max_ns)]
}

fn measured(m: Option<Measured>) -> [String; 3] {
    let of = |f: fn(&Measured) -> u64| number(m.as_ref().map(f));
    [of(|m| m.time_ns), of(|m| m.cpu_ns), of(|m| m.runq_ns)]
}

fn executions(e: Option<Executions>) -> Vec<String> {
    let counts = [number(e.map(|e| e.count)), number(e.map(|e| e.whole))];
    counts.into_iter().chain(latency(e.and_then(|e| e.latency))).collect()
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
