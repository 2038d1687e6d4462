//! Several windows of one view: the time model side by side, the other tables below each other.

use super::heading::{labels, notes, unseen};
use super::tables::{self, Max};
use crate::analysis::answer::{Answer, Body, ModelKey, ModelRow};
use crate::render::Options;
use crate::show::{left, ms, percent, right};
use crate::trace::wait::WaitClass;
use std::cmp::Reverse;
use std::io::{self, Write};

/// Whether the trace reaches back to the window's start.
fn full(answer: &Answer) -> bool {
    answer.extent.is_some_and(|e| e.start <= answer.window.start)
}

/// Prints all windows.
pub fn write(out: &mut impl Write, options: &Options, answers: &[Answer]) -> io::Result<()> {
    let names = labels(&options.windows);
    let answers: Vec<(&String, &Answer)> = names.iter().zip(answers).collect();
    if answers.iter().any(|(_, a)| matches!(a.body, Body::TimeModel(_))) {
        if let Some((_, first)) = answers.first() {
            notes(out, options, first)?;
        }
        return side_by_side(out, &answers);
    }
    writeln!(out)?;
    for (name, answer) in answers {
        let rule = format!("---- Last {name} ");
        writeln!(out, "{rule}{}", "-".repeat(78usize.saturating_sub(rule.len())))?;
        if !full(answer) {
            writeln!(out, "  (waiting for data)\n")?;
            continue;
        }
        if let Some(text) = unseen(answer) {
            writeln!(out, "  {text}")?;
        }
        match &answer.body {
            Body::Events { events } => tables::events(out, answer, events, Max::Hidden)?,
            Body::QueryEvents { pairs } => tables::pairs(out, answer, pairs, Max::Hidden)?,
            Body::Sessions { sessions } => tables::sessions(out, answer, sessions)?,
            Body::Active { active, .. } => tables::active(out, answer, active)?,
            Body::TimeModel(_) | Body::Load(_) | Body::Queries { .. } | Body::Latency(_) | Body::Flow(_) => {}
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The rows of one window; `None` while the trace does not reach back far enough.
type Column<'a> = (&'a str, &'a Answer, Option<&'a [ModelRow]>);

fn side_by_side(out: &mut impl Write, answers: &[(&String, &Answer)]) -> io::Result<()> {
    let columns: Vec<Column> = answers
        .iter()
        .map(|(name, answer)| match &answer.body {
            Body::TimeModel(model) if full(answer) => (name.as_str(), *answer, Some(model.rows.as_slice())),
            _ => (name.as_str(), *answer, None),
        })
        .collect();
    let mut head = left("Stat Name", 30);
    let mut rule = format!("  {}", "-".repeat(28));
    for (name, _, _) in &columns {
        head += &right(&format!("Last {name}"), 11);
        head += &right("% DB", 8);
        rule += " ---------- -------";
    }
    writeln!(out, "{head}\n{rule}")?;
    for (key, name, depth) in order(&columns) {
        let indent = depth * 2 + 2;
        write!(out, "{:indent$}{}", "", left(&name, 30 - indent))?;
        for (_, _, rows) in &columns {
            let row = rows.map(|rows| rows.iter().find(|r| r.key == key));
            let (time, share) = match row {
                None => ("-".into(), "-".into()),
                Some(None) => (ms(0), percent(Some(0.0))),
                Some(Some(r)) => (ms(r.time_ns), percent(r.db_share)),
            };
            write!(out, " {} {}", right(&time, 10), right(&share, 7))?;
        }
        writeln!(out)?;
    }
    write!(out, "\n{}", left("(Activity/Idle)", 30))?;
    for (_, answer, rows) in &columns {
        let idle = rows.map_or_else(|| "-".into(), |_| ms(answer.idle_ns));
        write!(out, " {} {:>7}", right(&idle, 10), "-")?;
    }
    writeln!(out)
}

/// Rows that any window shows: classes by their time in the first window, then in the next; their events likewise.
fn order(columns: &[Column]) -> Vec<(ModelKey, String, usize)> {
    let time = |key: ModelKey| -> Vec<u64> {
        columns.iter().map(|(_, _, rows)| rows.and_then(|rows| rows.iter().find(|r| r.key == key)).map_or(0, |r| r.time_ns)).collect()
    };
    let mut keys: Vec<(ModelKey, String, usize)> = vec![(ModelKey::DbTime, "DB Time".into(), 0)];
    for rows in columns.iter().filter_map(|(_, _, rows)| *rows) {
        for row in tables::shown(rows) {
            if !keys.iter().any(|(key, _, _)| *key == row.key) {
                keys.push((row.key, row.name.clone(), row.depth.into()));
            }
        }
    }
    let class = |key: ModelKey| match key {
        ModelKey::Class(class) => Some(class),
        ModelKey::Event(event) => Some(event.class()),
        ModelKey::DbTime | ModelKey::Idle | ModelKey::IdleEvent(_) => None,
    };
    keys.sort_by_cached_key(|(key, name, depth)| {
        let of_class = class(*key).map(|c: WaitClass| (Reverse(time(ModelKey::Class(c))), c));
        (of_class, *depth, Reverse(time(*key)), name.clone())
    });
    keys
}
