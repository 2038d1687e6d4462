//! What followed what: transitions between events, from exact and blocking rows that touch each other. Pure.

use super::answer::{Flow, FlowLink, FlowNode};
use super::walk::Walk;
use crate::trace::Trace;
use crate::trace::catalog::EventNames;
use crate::trace::wait::{WaitClass, WaitEvent};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// The flow of a walk, at most `limit` links (0 = all), and how many there were.
pub fn flow<T: Trace>(walk: &Walk<'_, T>, names: &EventNames, limit: usize) -> (Flow, usize) {
    let mut links: FxHashMap<(WaitEvent, WaitEvent), (u64, u64)> = FxHashMap::default();
    walk.transitions(|from, to| {
        let hidden = |e: WaitEvent| e.class() == WaitClass::Activity;
        if from.event == to.event || hidden(from.event) || hidden(to.event) {
            return;
        }
        let link = links.entry((from.event, to.event)).or_default();
        link.0 += 1;
        link.1 += from.length();
    });
    let mut nodes: FxHashMap<WaitEvent, (u64, u64)> = FxHashMap::default();
    let mut transitions = 0;
    for ((from, to), (count, ns)) in &links {
        transitions += count;
        let node = nodes.entry(*from).or_default();
        *node = (node.0 + count, node.1 + ns);
        nodes.entry(*to).or_default();
    }
    let mut links: Vec<FlowLink> = links.into_iter().map(|((from, to), (count, time_ns))| FlowLink { from, to, count, time_ns }).collect();
    links.sort_unstable_by_key(|l| (Reverse(l.count), Reverse(l.time_ns), l.from, l.to));
    let total = links.len();
    links.truncate(if limit == 0 { total } else { limit });
    let mut nodes: Vec<FlowNode> = nodes
        .into_iter()
        .map(|(event, (count, time_ns))| FlowNode { event, name: names.name(event), class: event.class(), count, time_ns })
        .collect();
    nodes.sort_unstable_by_key(|n| (Reverse(n.time_ns), Reverse(n.count), n.event));
    (Flow { transitions, nodes, links }, total)
}
