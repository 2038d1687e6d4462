//! What only exact and blocking rows can tell as JSON: the original's `heatmap` and `transitions`, and ours beside them.

use super::rows::{self, class, latency, ms, ns, object, pct};
use crate::analysis::answer::{Answer, Flow, LatencyView};
use crate::render::{flow_name, scale};
use serde_json::{Map, Value, json};

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// Waits over time by length: `cells` are `[index in times, index in labels, waits]`, without those that are empty. A time whose `observed` is 0
/// tells nothing.
pub fn heatmap(a: &Answer, view: &LatencyView) -> Map<String, Value> {
    let times: Vec<i64> = (0..view.columns.len()).map(|i| a.clock.wall(a.window.start + (view.column_ns * i as f64) as u64)).collect();
    let cells: Vec<(usize, usize, u32)> = view
        .columns
        .iter()
        .enumerate()
        .flat_map(|(t, column)| column.waits.iter().enumerate().filter(|(_, n)| **n > 0).map(move |(l, n)| (t, l, *n)))
        .collect();
    let mut o = object(json!({
        "times_ns": times.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "times": times,
        "observed": view.columns.iter().map(|c| c.observed).collect::<Vec<_>>(),
        "labels": scale::labels(view.bars.len()),
        "max_count": cells.iter().map(|(_, _, n)| n).max().copied().unwrap_or_default(),
        "cells": cells,
        "total_events": view.waits,
        "bucket_ns": view.column_ns,
        "total_ms": ms(view.time_ns),
        "time_ns": ns(view.time_ns),
    }));
    o.extend(object(latency(view.latency)));
    o
}

/// The distribution, a row per bar.
pub fn bars(view: &LatencyView) -> Value {
    let mut up_to = 0;
    let labels = scale::labels(view.bars.len());
    view.bars
        .iter()
        .zip(labels)
        .map(|(bar, label)| {
            up_to += bar.waits;
            json!({
                "label": label,
                "at_least_ns": ns(bar.from_ns),
                "below_ns": ns(bar.to_ns),
                "count": bar.waits,
                "pct": pct(share(bar.waits, view.waits)),
                "cumulative_pct": pct(share(up_to, view.waits)),
                "total_ms": ms(bar.time_ns),
                "time_ns": ns(bar.time_ns),
            })
        })
        .collect()
}

/// What followed what, by name. `total` counts all transitions, those of links that a limit cut included.
pub fn transitions(flow: &Flow, links: usize) -> Map<String, Value> {
    let node = |n: &crate::analysis::answer::FlowNode| {
        json!({
            "event_id": n.event.0, "name": n.name, "class": class(n.class), "count": n.count,
            "total_ms": ms(n.time_ns), "time_ns": ns(n.time_ns),
        })
    };
    let link = |l: &crate::analysis::answer::FlowLink| {
        json!({
            "source": flow_name(flow, l.from), "target": flow_name(flow, l.to), "source_id": l.from.0, "target_id": l.to.0,
            "value": l.count, "pct": pct(share(l.count, flow.transitions)),
            "duration_ms": ms(l.time_ns), "time_ns": ns(l.time_ns), "avg_us": share(l.time_ns, l.count).map(|ns| ns / 1e3),
        })
    };
    rows::object(json!({
        "total": flow.transitions,
        "nodes": flow.nodes.iter().map(node).collect::<Vec<_>>(),
        "links": flow.links.iter().map(link).collect::<Vec<_>>(),
        "link_count": flow.links.len(),
        "total_link_count": links,
        "truncated": flow.links.len() < links,
    }))
}
