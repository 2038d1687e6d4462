//! The tables of one window.

use super::heading::why_empty;
use crate::analysis::answer::{
    ActiveRow, Answer, Doing, EventRow, Executions, Latency, Measured, ModelKey, ModelRow, PairRow, QueryRow, SessionRow, Sql, TimeModel,
};
use crate::render::precise_ns;
use crate::show::{NONE, cut, left, ms, percent, right, safe, us, width};
use crate::trace::catalog::{BackendKind, Named, TextSource};
use crate::trace::record::{QueryId, State};
use crate::trace::wait::{WaitClass, WaitEvent};
use std::cmp::Reverse;
use std::io::{self, Write};

/// Rows of the event table and of the query table.
const TOP_EVENTS: usize = 20;
const TOP_PAIRS: usize = 30;
/// Events shown under a class at most, and the share of DB Time from which on one is.
const TOP_UNDER_CLASS: usize = 3;
const SHARE_UNDER_CLASS: f64 = 0.01;
/// Cells of SQL text behind a row.
const SQL: usize = 60;

/// Whether the longest wait has a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Max {
    /// It has.
    Shown,
    /// It has not: several windows are shown.
    Hidden,
}

/// Rows that the time model shows: classes with time, and under each the few events that matter.
pub fn shown(rows: &[ModelRow]) -> Vec<&ModelRow> {
    let mut under = 0;
    rows.iter()
        .filter(|row| match row.key {
            ModelKey::DbTime => true,
            ModelKey::Class(_) => {
                under = 0;
                true
            }
            ModelKey::Event(_) => {
                under += 1;
                under <= TOP_UNDER_CLASS && row.db_share.is_some_and(|s| s >= SHARE_UNDER_CLASS)
            }
            ModelKey::Idle | ModelKey::IdleEvent(_) => false,
        })
        .collect()
}

/// DB Time by class and event.
pub fn time_model(out: &mut impl Write, answer: &Answer, model: &TimeModel) -> io::Result<()> {
    if answer.sessions == 0 {
        return writeln!(out, "  {}", why_empty(answer));
    }
    writeln!(out, "{}{:>14} {:>10}", left("Stat Name", 40), "Time (ms)", "% DB Time")?;
    writeln!(out, "  {}", "─".repeat(63))?;
    for row in shown(&model.rows) {
        let indent = usize::from(row.depth) * 2 + 2;
        let name = left(&row.name, 40 - indent);
        writeln!(out, "{:indent$}{name}{} {}", "", right(&ms(row.time_ns), 14), right(&percent(row.db_share), 10))?;
    }
    writeln!(out, "\n{}{} {}", left("(Activity/Idle — excluded from DB Time)", 40), right(&ms(answer.idle_ns), 14), right(NONE, 10))?;
    io_workers(out, model)
}

/// How busy the I/O workers were: they are no load, so no row says it.
pub fn io_workers(out: &mut impl Write, model: &TimeModel) -> io::Result<()> {
    match model.io_worker_busy {
        Some(busy) => writeln!(out, "(I/O workers — {}, {} busy)", model.io_workers, percent(Some(busy))),
        None => Ok(()),
    }
}

/// Which columns a table has.
#[derive(Debug, Clone, Copy)]
struct Columns {
    /// Percentiles, spinning and run queue: where any wait could have been measured.
    precise: bool,
    max: Max,
}

impl Columns {
    fn of(answer: &Answer, max: Max) -> Self {
        Self { precise: precise_ns(&answer.coverage) > 0, max }
    }

    /// Waits, total, average, percentiles, maximum.
    fn head(self) -> String {
        format!("{:>11} {:>11} {}", "Total Waits", "Total (ms)", self.latency_head())
    }

    fn latency_head(self) -> String {
        let percentiles = if self.precise { format!(" {:>9} {:>9} {:>9}", "P50 (us)", "P95 (us)", "P99 (us)") } else { String::new() };
        let max = if self.max == Max::Shown { format!(" {:>10}", "Max (us)") } else { String::new() };
        format!("{:>9}{percentiles}{max}", "Avg (us)")
    }

    /// The same of a row. Waits and lengths are known only where they were measured one by one.
    fn row(self, waits: Option<u64>, time_ns: u64, latency: Option<Latency>) -> String {
        let waits = waits.map_or_else(|| NONE.to_owned(), |n| n.to_string());
        format!("{} {} {}", right(&waits, 11), right(&ms(time_ns), 11), self.latency(latency))
    }

    /// Average, percentiles, maximum.
    fn latency(self, latency: Option<Latency>) -> String {
        let value = |of: fn(&Latency) -> u64| latency.as_ref().map_or_else(|| NONE.to_owned(), |l| us(of(l)));
        let mut cells = vec![right(&value(|l| l.avg_ns), 9)];
        if self.precise {
            cells.extend([value(|l| l.p50_ns), value(|l| l.p95_ns), value(|l| l.p99_ns)].map(|cell| right(&cell, 9)));
        }
        if self.max == Max::Shown {
            cells.push(right(&value(|l| l.max_ns), 10));
        }
        cells.join(" ")
    }
}

/// A part of measured time.
fn part(measured: Option<Measured>, of: fn(&Measured) -> u64) -> String {
    percent(measured.filter(|m| m.time_ns > 0).map(|m| of(&m) as f64 / m.time_ns as f64))
}

/// Cells that event names need: as many as the longest, within limits.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(width).max().unwrap_or_default().clamp(26, 40)
}

/// Wait events.
pub fn events(out: &mut impl Write, answer: &Answer, events: &[EventRow], max: Max) -> io::Result<()> {
    let listed: Vec<&EventRow> = events.iter().filter(|e| e.class != WaitClass::Activity).take(TOP_EVENTS).collect();
    if listed.is_empty() {
        return writeln!(out, "  {}", why_empty(answer));
    }
    let room = names(listed.iter().map(|e| e.name.as_str()));
    let columns = Columns::of(answer, max);
    let measured = if columns.precise { format!(" {:>7} {:>7}", "Spin%", "RunQ%") } else { String::new() };
    let head = format!("  {} {}{measured} {:>7}", left("Wait Event", room), columns.head(), "% DB");
    writeln!(out, "{head}\n  {}", "─".repeat(head.chars().count() - 2))?;
    for e in listed {
        // Without a wait, being on the CPU is no spinning.
        let in_wait = e.measured.filter(|_| !matches!(e.class, WaitClass::Cpu | WaitClass::OffCpu));
        let measured = if columns.precise {
            format!(" {} {}", right(&part(in_wait, |m| m.cpu_ns), 7), right(&part(e.measured, |m| m.runq_ns), 7))
        } else {
            String::new()
        };
        let figures = columns.row(e.waits.filter(|_| e.class != WaitClass::OffCpu), e.time_ns, e.latency);
        writeln!(out, "  {} {figures}{measured} {}", left(&e.name, room), right(&percent(e.db_share), 7))?;
    }
    Ok(())
}

fn or_dash(named: &Named) -> String {
    let shown = named.show();
    if shown.is_empty() { "-".into() } else { shown.into_owned() }
}

/// Sessions.
pub fn sessions(out: &mut impl Write, answer: &Answer, sessions: &[SessionRow]) -> io::Result<()> {
    if sessions.is_empty() {
        return writeln!(out, "  {}", why_empty(answer));
    }
    let precise = precise_ns(&answer.coverage) > 0;
    let measured = if precise { format!(" {:>9} {:>7} {:>6}", "Waits", "OnCPU%", "RunQ%") } else { String::new() };
    let who = format!("{:<7} {:<16} {:<10} {:<10}", "PID", "Type", "User", "DB");
    let head = format!("  {who} {:>11} {:>6} {:>6}{measured}  Top Wait", "DB Time(ms)", "CPU%", "Wait%");
    writeln!(out, "{head}\n  {}", "─".repeat(80 + width(&measured)))?;
    for s in sessions {
        let who = format!(
            "{:<7} {} {} {}",
            s.who.pid,
            left(s.who.kind.short(), 16),
            left(&or_dash(&s.who.user), 10),
            left(&or_dash(&s.who.database), 10)
        );
        let mut shares = vec![right(&percent(s.cpu_share), 6), right(&percent(s.wait_share), 6)];
        if precise {
            shares.push(right(&s.waits.map_or_else(|| NONE.to_owned(), |n| n.to_string()), 9));
            shares.extend([right(&part(s.measured, |m| m.cpu_ns), 7), right(&part(s.measured, |m| m.runq_ns), 6)]);
        }
        let top = s.top_wait.as_ref().map_or(NONE, |t| t.name.as_str());
        writeln!(out, "  {who} {} {}  {}", right(&ms(s.time_ns), 11), shares.join(" "), safe(top))?;
    }
    Ok(())
}

/// Queries and events.
pub fn pairs(out: &mut impl Write, answer: &Answer, pairs: &[PairRow], max: Max) -> io::Result<()> {
    if pairs.is_empty() {
        writeln!(out, "  {}", why_empty(answer))?;
        if answer.server.query_ids == Some(false) {
            writeln!(out, "  The server computes no query ids: set compute_query_id = on.")?;
        }
        return Ok(());
    }
    let room = names(pairs.iter().take(TOP_PAIRS).map(|p| p.name.as_str()));
    let columns = Columns::of(answer, max);
    let head = format!("  {:<20} {} {} {:>7}", "query_id", left("Wait Event", room), columns.head(), "% DB");
    writeln!(out, "{head}  Query\n  {}", "─".repeat(head.chars().count() + 5))?;
    for p in pairs.iter().take(TOP_PAIRS) {
        let figures = columns.row(p.waits.filter(|_| p.event != WaitEvent::OFF_CPU), p.time_ns, p.latency);
        let row = format!("  {:<20} {} {figures} {}", id(&p.sql), left(&p.name, room), right(&percent(p.db_share), 7));
        writeln!(out, "{}", format!("{row}  {}", sql(&p.sql.text, p.sql.truncated)).trim_end())?;
    }
    Ok(())
}

/// Executions of queries, below their events; nothing where none were seen to end.
pub fn executions(out: &mut impl Write, queries: &[QueryRow], max: Max) -> io::Result<()> {
    let mut ended: Vec<(&QueryRow, Executions)> =
        queries.iter().filter_map(|q| Some((q, q.executions?))).filter(|(_, e)| e.count > 0).collect();
    ended.sort_by_key(|(_, e)| Reverse(e.count));
    if ended.is_empty() {
        return Ok(());
    }
    let columns = Columns { precise: true, max };
    let head = format!("  {:<20} {:>10} {:>10} {:>10} {}", "query_id", "Executions", "Whole", "Inferred", columns.latency_head());
    writeln!(out, "\nExecutions that ended:\n\n{head}  Query\n  {}", "─".repeat(head.chars().count() + 5))?;
    for (q, e) in ended.into_iter().take(TOP_PAIRS) {
        let figures = format!("{:>10} {:>10} {:>10} {}", e.count, e.whole, e.inferred, columns.latency(e.latency));
        let row = format!("  {:<20} {figures}  {}", id(&q.sql), sql(&q.sql.text, q.sql.truncated));
        writeln!(out, "{}", row.trim_end())?;
    }
    Ok(())
}

/// A query's id. As on the screen: a star says that it is ours, of the text, and not to be found in pg_stat_statements.
fn id(sql: &Sql) -> String {
    let star = if sql.source == TextSource::Normalised { "*" } else { "" };
    if sql.query == QueryId::NONE { "-".into() } else { format!("{}{star}", sql.query) }
}

/// SQL on the rest of a line. `…` says that there is more, here or that the server cut it.
fn sql(text: &str, truncated: bool) -> String {
    let safe = safe(text.trim_start());
    let shown = cut(&safe, SQL);
    if truncated && shown.len() == safe.len() { format!("{shown}…") } else { shown.into_owned() }
}

/// What sessions do.
pub fn active(out: &mut impl Write, answer: &Answer, active: &[ActiveRow]) -> io::Result<()> {
    if active.is_empty() {
        return writeln!(out, "  {}", why_empty(answer));
    }
    let room = names(active.iter().filter(|r| r.doing == Doing::Waiting).map(|r| r.name.as_str()));
    let head = format!(
        "  {:<7} {:<10} {:<room$} {:>10} {:>12}  {:<16}",
        "PID", "State", "Wait Event", "Wait (ms)", "DB Time (ms)", "Backend Type"
    );
    writeln!(out, "{head}  Query\n  {}", "─".repeat(head.chars().count() + 5))?;
    for r in active {
        let in_transaction = matches!(r.state, State::IdleInTransaction | State::IdleInTransactionAborted);
        let (state, shown) = match r.doing {
            Doing::Waiting => ("waiting", true),
            Doing::OnCpu => ("on cpu", false),
            // Idle, but it may hold locks: for how long is worth knowing.
            Doing::Idle if in_transaction => ("idle in tx", true),
            Doing::Idle => ("idle", false),
        };
        let (event, wait) = if shown {
            (r.name.as_str(), format!("{}{}", if r.for_at_least { ">" } else { "" }, ms(r.for_ns)))
        } else {
            (NONE, NONE.to_owned())
        };
        let time =
            if r.time_ns == 0 && (r.doing == Doing::Idle || r.who.kind == BackendKind::IoWorker) { NONE.to_owned() } else { ms(r.time_ns) };
        let row = format!(
            "  {:<7} {state:<10} {} {} {}  {}",
            r.who.pid,
            left(event, room),
            right(&wait, 10),
            right(&time, 12),
            left(r.who.kind.short(), 16)
        );
        let text = if r.doing == Doing::Idle && !in_transaction { String::new() } else { sql(&r.sql.text, r.sql.truncated) };
        writeln!(out, "{}", format!("{row}  {text}").trim_end())?;
    }
    Ok(())
}
