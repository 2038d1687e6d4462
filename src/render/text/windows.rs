//! Several windows of one view: the time model side by side, the other tables below each other.

use super::heading::{common_notes, labels, lacks, notes};
use super::histogram;
use super::tables::{self, Max};
use crate::analysis::answer::{Answer, Body, LatencyView, ModelKey, ModelRow};
use crate::render::{Options, Part, unavailable};
use crate::show::{left, ms, percent, right};
use crate::trace::wait::WaitClass;
use std::cmp::Reverse;
use std::io::{self, Write};

/// Whether the trace reaches back to the window's start.
fn full(answer: &Answer) -> bool {
    answer.extent.is_some_and(|e| e.start <= answer.window.start)
}

/// Prints all windows.
pub fn write(out: &mut impl Write, options: &Options, parts: &[Part]) -> io::Result<()> {
    let names = labels(&options.windows);
    let parts: Vec<(&String, &Part)> = names.iter().zip(parts).collect();
    let Some((_, first)) = parts.first() else { return Ok(()) };
    if matches!(first.answer.body, Body::TimeModel(_) | Body::Latency(_)) {
        notes(out, options, first.answer, &longer(options, &parts))?;
        return if matches!(first.answer.body, Body::TimeModel(_)) { side_by_side(out, &parts) } else { histograms(out, options, &parts) };
    }
    common_notes(out, options, first.answer)?;
    for (name, part) in parts {
        let rule = format!("---- Last {name} ");
        writeln!(out, "{rule}{}", "-".repeat(78usize.saturating_sub(rule.len())))?;
        if !full(part.answer) {
            writeln!(out, "  (waiting for data)\n")?;
            continue;
        }
        for line in lacks(options, part.answer) {
            writeln!(out, "  {line}")?;
        }
        super::table(out, options, part, Max::Hidden)?;
        writeln!(out)?;
    }
    Ok(())
}

/// What the figures of the second and third window lack, but for what was said of the first.
fn longer(options: &Options, parts: &[(&String, &Part)]) -> Vec<String> {
    let said = parts.first().map(|(_, p)| lacks(options, p.answer)).unwrap_or_default();
    let mut lines = Vec::new();
    for (name, part) in parts.iter().skip(1).filter(|(_, p)| full(p.answer)) {
        lines.extend(lacks(options, part.answer).iter().filter(|l| !said.contains(l)).map(|l| format!("Last {name}: {l}")));
    }
    lines
}

fn histograms(out: &mut impl Write, options: &Options, parts: &[(&String, &Part)]) -> io::Result<()> {
    let views: Vec<(&str, Option<&LatencyView>)> = parts
        .iter()
        .map(|(name, part)| match &part.answer.body {
            Body::Latency(view) if full(part.answer) && unavailable(options, part.answer).is_none() => (name.as_str(), Some(view)),
            _ => (name.as_str(), None),
        })
        .collect();
    // If none of them can be made, the reason is all there is to say.
    match parts.iter().map(|(_, part)| unavailable(options, part.answer)).collect::<Option<Vec<_>>>() {
        Some(why) => writeln!(out, "  {}", why.first().map_or("", String::as_str)),
        None => histogram::side_by_side(out, &views),
    }
}

/// The rows of one window; `None` while the trace does not reach back far enough.
type Column<'a> = (&'a str, &'a Answer, Option<&'a [ModelRow]>);

fn side_by_side(out: &mut impl Write, parts: &[(&String, &Part)]) -> io::Result<()> {
    let columns: Vec<Column> = parts
        .iter()
        .map(|(name, part)| match &part.answer.body {
            Body::TimeModel(model) if full(part.answer) => (name.as_str(), part.answer, Some(model.rows.as_slice())),
            _ => (name.as_str(), part.answer, None),
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
        // Off-CPU* stands behind CPU*, whatever its time.
        let by = |c: WaitClass| if c == WaitClass::OffCpu { WaitClass::Cpu } else { c };
        let of_class = class(*key).map(|c: WaitClass| (Reverse(time(ModelKey::Class(by(c)))), c));
        (of_class, *depth, Reverse(time(*key)), name.clone())
    });
    keys
}
