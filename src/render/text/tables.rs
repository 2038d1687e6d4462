//! The tables of one window.

use super::heading::why_empty;
use crate::analysis::answer::{ActiveRow, Answer, Doing, EventRow, Latency, ModelKey, ModelRow, PairRow, SessionRow, TimeModel};
use crate::show::{NONE, cut, left, ms, percent, right, safe, us, width};
use crate::trace::catalog::{BackendKind, Named, TextSource};
use crate::trace::record::{QueryId, State};
use crate::trace::wait::WaitClass;
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

/// Waits, average and maximum: known only where waits were measured one by one.
fn exact(waits: Option<u64>, latency: Option<Latency>) -> (String, String, String) {
    let value = |ns: Option<u64>| ns.map_or_else(|| NONE.to_owned(), us);
    (waits.map_or_else(|| NONE.to_owned(), |n| n.to_string()), value(latency.map(|l| l.avg_ns)), value(latency.map(|l| l.max_ns)))
}

/// Cells that event names need: as many as the longest, within limits.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(width).max().unwrap_or_default().clamp(26, 40)
}

fn max_column(max: Max, text: &str) -> String {
    if max == Max::Shown { format!(" {}", right(text, 10)) } else { String::new() }
}

/// Wait events.
pub fn events(out: &mut impl Write, answer: &Answer, events: &[EventRow], max: Max) -> io::Result<()> {
    let listed: Vec<&EventRow> = events.iter().filter(|e| e.class != WaitClass::Activity).take(TOP_EVENTS).collect();
    if listed.is_empty() {
        return writeln!(out, "  {}", why_empty(answer));
    }
    let room = names(listed.iter().map(|e| e.name.as_str()));
    let head = format!("  {} {:>11} {:>11} {:>9}", left("Wait Event", room), "Total Waits", "Total (ms)", "Avg (us)");
    let head = format!("{head}{} {:>7}", max_column(max, "Max (us)"), "% DB");
    writeln!(out, "{head}\n  {}", "─".repeat(head.chars().count() - 2))?;
    for e in listed {
        let (waits, avg, longest) = exact(e.waits, e.latency);
        let figures = format!("{} {} {}", right(&waits, 11), right(&ms(e.time_ns), 11), right(&avg, 9));
        writeln!(out, "  {} {figures}{} {}", left(&e.name, room), max_column(max, &longest), right(&percent(e.db_share), 7))?;
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
    let head =
        format!("  {:<7} {:<16} {:<10} {:<10} {:>11} {:>6} {:>6}  Top Wait", "PID", "Type", "User", "DB", "DB Time(ms)", "CPU%", "Wait%");
    writeln!(out, "{head}\n  {}", "─".repeat(80))?;
    for s in sessions {
        let who = format!(
            "{:<7} {} {} {}",
            s.who.pid,
            left(s.who.kind.short(), 16),
            left(&or_dash(&s.who.user), 10),
            left(&or_dash(&s.who.database), 10)
        );
        let shares = format!("{} {}", right(&percent(s.cpu_share), 6), right(&percent(s.wait_share), 6));
        let top = s.top_wait.as_ref().map_or(NONE, |t| t.name.as_str());
        writeln!(out, "  {who} {} {shares}  {}", right(&ms(s.time_ns), 11), safe(top))?;
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
    let head = format!("  {:<20} {} {:>11} {:>11} {:>9}", "query_id", left("Wait Event", room), "Total Waits", "Total (ms)", "Avg (us)");
    let head = format!("{head}{} {:>7}", max_column(max, "Max (us)"), "% DB");
    writeln!(out, "{head}  Query\n  {}", "─".repeat(head.chars().count() + 5))?;
    for p in pairs.iter().take(TOP_PAIRS) {
        let (waits, avg, longest) = exact(p.waits, p.latency);
        // As on the screen: a star says that the id is ours, of the text, and not to be found in pg_stat_statements.
        let star = if p.sql.source == TextSource::Normalised { "*" } else { "" };
        let id = if p.sql.query == QueryId::NONE { "-".into() } else { format!("{}{star}", p.sql.query) };
        let figures = format!("{} {} {}", right(&waits, 11), right(&ms(p.time_ns), 11), right(&avg, 9));
        let row = format!("  {id:<20} {} {figures}{} {}", left(&p.name, room), max_column(max, &longest), right(&percent(p.db_share), 7));
        writeln!(out, "{}", format!("{row}  {}", sql(&p.sql.text, p.sql.truncated)).trim_end())?;
    }
    Ok(())
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
