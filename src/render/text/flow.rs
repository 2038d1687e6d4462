//! What followed what, as a table.

use crate::analysis::answer::Flow;
use crate::render::flow_name;
use crate::show::{left, ms, percent, right, us, width};
use std::io::{self, Write};

/// Rows at most.
const TOP: usize = 40;

/// Links, most frequent first.
pub fn write(out: &mut impl Write, flow: &Flow) -> io::Result<()> {
    if flow.links.is_empty() {
        return writeln!(out, "  (no transition between events in this time)");
    }
    let shown: Vec<(String, String)> = flow.links.iter().take(TOP).map(|l| (flow_name(flow, l.from), flow_name(flow, l.to))).collect();
    let room = shown.iter().flat_map(|(from, to)| [width(from), width(to)]).max().unwrap_or_default().clamp(20, 40);
    let head = format!(
        "  {}   {} {:>11} {:>7} {:>16} {:>18}",
        left("From", room),
        left("To", room),
        "Count",
        "%",
        "Avg before (us)",
        "Total before (ms)"
    );
    writeln!(out, "{head}\n  {}", "─".repeat(width(&head) - 2))?;
    for (link, (from, to)) in flow.links.iter().zip(&shown) {
        let share = (flow.transitions > 0).then(|| link.count as f64 / flow.transitions as f64);
        let before = link.time_ns.checked_div(link.count).unwrap_or_default();
        let figures =
            format!("{:>11} {} {} {}", link.count, right(&percent(share), 7), right(&us(before), 16), right(&ms(link.time_ns), 18));
        writeln!(out, "  {} → {} {figures}", left(from, room), left(to, room))?;
    }
    let rest = flow.links.len() - shown.len();
    let more = if rest > 0 { format!("; {rest} more links are not shown") } else { String::new() };
    writeln!(out, "\n  {} transitions{more}", flow.transitions)
}
