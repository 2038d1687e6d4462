//! What followed what: an event with what came before it and after it, and all events as a matrix. Pure: numbers in, numbers out.

use crate::analysis::answer::{Flow, FlowLink, FlowNode};
use crate::analysis::filter::Term;
use crate::trace::wait::{WaitClass, WaitEvent};
use crate::ui::state::place::{Crumb, Side};
use std::cmp::Reverse;

/// What widths stand for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Weigh {
    /// How often.
    #[default]
    Count,
    /// The time spent before.
    Time,
}

impl Weigh {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        if self == Self::Count { Self::Time } else { Self::Count }
    }

    /// As a word.
    pub fn name(self) -> &'static str {
        if self == Self::Count { "count" } else { "time" }
    }

    fn of(self, count: u64, time_ns: u64) -> u64 {
        if self == Self::Count { count } else { time_ns }
    }
}

/// The two faces of the page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Face {
    /// One event with its neighbours.
    #[default]
    Panel,
    /// Events against events.
    Matrix,
}

impl Face {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        if self == Self::Panel { Self::Matrix } else { Self::Panel }
    }
}

/// What came before an event, or after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// Its place among the nodes.
    pub node: usize,
    /// How often.
    pub count: u64,
    /// Time spent before the step, nanoseconds.
    pub time_ns: u64,
    /// Share of all on this side.
    pub share: f64,
}

/// Whether sessions in it are idle.
fn is_idle(node: &FlowNode) -> bool {
    node.class == WaitClass::Activity || node.event == WaitEvent::CLIENT_READ
}

/// The event that is in the middle at first: the one the filter names, else the one with most time that is not idle.
pub fn start(flow: &Flow, crumbs: &[Crumb]) -> Option<WaitEvent> {
    let named = crumbs.iter().rev().find_map(|c| match c.clause.any.as_slice() {
        [Term::Event(event)] if !c.clause.exclude => flow.nodes.iter().find(|n| n.event == *event),
        [Term::EventNamed(name)] if !c.clause.exclude => flow.nodes.iter().find(|n| n.name.eq_ignore_ascii_case(name)),
        [Term::Class(class)] if !c.clause.exclude => flow.nodes.iter().find(|n| n.class == *class),
        _ => None,
    });
    let busy = || flow.nodes.iter().find(|n| !is_idle(n));
    named.or_else(busy).or_else(|| flow.nodes.first()).map(|n| n.event)
}

/// Nodes in order, the heaviest first.
pub fn order(flow: &Flow, weigh: Weigh) -> Vec<usize> {
    let mut order: Vec<usize> = (0..flow.nodes.len()).collect();
    order.sort_by_key(|i| Reverse(flow.nodes.get(*i).map_or(0, |n| weigh.of(n.count, n.time_ns))));
    order
}

/// What came before or after an event, the heaviest first.
pub fn neighbours(flow: &Flow, centre: WaitEvent, side: Side, weigh: Weigh) -> Vec<Neighbour> {
    let other = |link: &FlowLink| match side {
        Side::Before => (link.to == centre).then_some(link.from),
        Side::After => (link.from == centre).then_some(link.to),
        Side::Centre => None,
    };
    let at = |link: &FlowLink| {
        let event = other(link)?;
        let node = flow.nodes.iter().position(|n| n.event == event)?;
        Some(Neighbour { node, count: link.count, time_ns: link.time_ns, share: 0.0 })
    };
    let mut found: Vec<Neighbour> = flow.links.iter().filter_map(at).collect();
    found.sort_by_key(|n| Reverse(weigh.of(n.count, n.time_ns)));
    let whole: f64 = found.iter().map(|n| weigh.of(n.count, n.time_ns) as f64).sum();
    for n in &mut found {
        n.share = if whole > 0.0 { weigh.of(n.count, n.time_ns) as f64 / whole } else { 0.0 };
    }
    found
}

/// By row, the share of what left the row's event and went on to the column's; `None` where nothing did.
pub fn matrix(flow: &Flow, rows: &[usize], columns: &[usize], weigh: Weigh) -> Vec<Vec<Option<f64>>> {
    let row = |row: &usize| {
        let Some(from) = flow.nodes.get(*row) else { return vec![None; columns.len()] };
        let after = neighbours(flow, from.event, Side::After, weigh);
        let cell = |column: &usize| after.iter().find(|n| n.node == *column).map(|n| n.share);
        columns.iter().map(cell).collect()
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: WaitEvent = WaitEvent(0x0a00_0015);

    fn node(event: WaitEvent, name: &str, count: u64, time_ns: u64) -> FlowNode {
        FlowNode { event, name: name.into(), class: event.class(), count, time_ns }
    }

    fn flow() -> Flow {
        let link = |from, to, count, time_ns| FlowLink { from, to, count, time_ns };
        let (cpu, client) = (WaitEvent::CPU, WaitEvent::CLIENT_READ);
        Flow {
            transitions: 100,
            nodes: vec![
                node(client, "Client:ClientRead", 10, 9_000),
                node(cpu, "CPU*", 50, 2_000),
                node(READ, "IO:DataFileRead", 40, 8_000),
            ],
            links: vec![link(cpu, READ, 40, 1_500), link(READ, cpu, 40, 8_000), link(cpu, client, 10, 500), link(client, cpu, 10, 9_000)],
        }
    }

    #[test]
    fn neighbours_are_shares_of_their_side() {
        let shares = |side, weigh| neighbours(&flow(), WaitEvent::CPU, side, weigh).iter().map(|n| (n.node, n.share)).collect::<Vec<_>>();
        assert_eq!(shares(Side::After, Weigh::Count), [(2, 0.8), (0, 0.2)]);
        assert_eq!(shares(Side::After, Weigh::Time), [(2, 0.75), (0, 0.25)]);
        assert_eq!(shares(Side::Before, Weigh::Time)[0].0, 0, "most time was spent waiting for the client");
        assert!(neighbours(&Flow::default(), READ, Side::After, Weigh::Count).is_empty());
    }

    #[test]
    fn the_middle_is_what_the_filter_names_and_never_idle_by_itself() {
        assert_eq!(start(&flow(), &[]), Some(WaitEvent::CPU));
        assert_eq!(start(&flow(), &[Crumb::named(Term::Event(READ), "IO:DataFileRead".into())]), Some(READ));
        assert_eq!(start(&flow(), &[Crumb::named(Term::Class(WaitClass::Io), "IO".into())]), Some(READ));
        assert_eq!(start(&Flow::default(), &[]), None);
    }

    #[test]
    fn a_row_of_the_matrix_is_what_came_next() {
        let all = [0, 1, 2];
        let m = matrix(&flow(), &all, &all, Weigh::Count);
        assert_eq!(m[1], [Some(0.2), None, Some(0.8)]);
        assert_eq!(m[2], [None, Some(1.0), None]);
        assert_eq!(matrix(&flow(), &[9], &all, Weigh::Count), [[None; 3]]);
        assert_eq!(order(&flow(), Weigh::Count), [1, 2, 0]);
    }
}
