//! How long waits were: the original's histogram, of one window or of several side by side.

use crate::analysis::answer::{Latency, LatencyView};
use crate::render::scale;
use crate::show::{NONE, duration, percent, right, us};
use std::io::{self, Write};

/// Why there is nothing to show though waits could have been seen.
const EMPTY: &str = "(no wait ended in this time)";
/// Per cent that one `#` stands for, and how many there are at most.
const PER_MARK: u64 = 2;
const MARKS: u64 = 40;

/// Waits of one bar, and all up to it.
struct Count {
    waits: u64,
    share: Option<f64>,
    up_to: Option<f64>,
}

/// The first `n` bars; those that a view has not are empty.
fn counts(view: &LatencyView, n: usize) -> Vec<Count> {
    let share = |waits: u64| (view.waits > 0).then(|| waits as f64 / view.waits as f64);
    let mut sum = 0;
    (0..n)
        .map(|i| {
            let waits = view.bars.get(i).map_or(0, |b| b.waits);
            sum += waits;
            Count { waits, share: share(waits), up_to: share(sum) }
        })
        .collect()
}

/// All waits up to a bar: all but one are not all.
fn up_to(share: Option<f64>) -> String {
    if share.is_some_and(|s| (0.999_5..1.0).contains(&s)) { ">99.9%".into() } else { percent(share) }
}

/// A figure's name, and how to get it.
type Figure = (&'static str, fn(&Latency) -> u64);

/// The figures below the bars.
const FIGURES: [Figure; 5] =
    [("avg", |l| l.avg_ns), ("p50", |l| l.p50_ns), ("p95", |l| l.p95_ns), ("p99", |l| l.p99_ns), ("max", |l| l.max_ns)];

/// One window.
pub fn write(out: &mut impl Write, view: &LatencyView) -> io::Result<()> {
    if view.bars.is_empty() {
        return writeln!(out, "  {EMPTY}");
    }
    let head = format!("  {:<12} {:>11} {:>8} {:>8}", "Bucket (us)", "Waits", "%", "Cum %");
    writeln!(out, "{head}\n  {}", "─".repeat(head.chars().count() - 2))?;
    for (label, c) in scale::labels(view.bars.len()).iter().zip(counts(view, view.bars.len())) {
        let marks = (c.waits.saturating_mul(100 / PER_MARK) / view.waits.max(1)).min(MARKS) as usize;
        let row = format!("  {label:<12} {:>11} {} {}", c.waits, right(&percent(c.share), 8), right(&up_to(c.up_to), 8));
        writeln!(out, "{}", format!("{row}  {}", "#".repeat(marks)).trim_end())?;
    }
    writeln!(out, "\n  {} waits, together {}", view.waits, duration(view.time_ns))?;
    if let Some(latency) = view.latency {
        let figures: Vec<String> = FIGURES.iter().map(|(name, of)| format!("{name} {} us", us(of(&latency)))).collect();
        writeln!(out, "  {}", figures.join("   "))?;
    }
    Ok(())
}

/// Several windows; `None` where there is nothing to tell yet, or no view could be made.
pub fn side_by_side(out: &mut impl Write, views: &[(&str, Option<&LatencyView>)]) -> io::Result<()> {
    let n = views.iter().filter_map(|(_, view)| view.map(|v| v.bars.len())).max().unwrap_or_default().max(scale::BARS);
    let mut head = format!("  {:<12}", "Bucket (us)");
    let mut rule = format!("  {}", "-".repeat(12));
    for (name, _) in views {
        head += &right(&format!("Last {name}"), 12);
        head += &right("%", 8);
        head += &right("Cum %", 8);
        rule += " ----------- ------- -------";
    }
    writeln!(out, "{head}\n{rule}")?;
    let columns: Vec<Option<Vec<Count>>> = views.iter().map(|(_, view)| view.map(|v| counts(v, n))).collect();
    for (i, label) in scale::labels(n).iter().enumerate() {
        write!(out, "  {label:<12}")?;
        for column in &columns {
            let cells = column.as_ref().and_then(|c| c.get(i));
            let (waits, share, up_to) =
                cells.map_or_else(|| ("-".into(), "-".into(), "-".into()), |c| (c.waits.to_string(), percent(c.share), up_to(c.up_to)));
            write!(out, "{}{}{}", right(&waits, 12), right(&share, 8), right(&up_to, 8))?;
        }
        writeln!(out)?;
    }
    writeln!(out)?;
    let mut line = |name: &str, of: &dyn Fn(&LatencyView) -> String| -> io::Result<()> {
        let cells: String = views.iter().map(|(_, v)| right(&v.map_or_else(|| "-".into(), of), 12) + &" ".repeat(16)).collect();
        writeln!(out, "{}", format!("  {name:<12}{cells}").trim_end())
    };
    line("Waits", &|v| v.waits.to_string())?;
    // No Max, as in every table of several windows.
    for (name, of) in FIGURES.iter().filter(|(name, _)| *name != "max") {
        line(&format!("{name} (us)"), &|v| v.latency.map_or_else(|| NONE.into(), |l| us(of(&l))))?;
    }
    Ok(())
}
