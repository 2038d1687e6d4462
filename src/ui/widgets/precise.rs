//! Pages that only exact and blocking capture can fill: which part of the window they are about, and what to do when it is none.

use super::notice::Notice;
use crate::analysis::answer::{Answer, Body, Stretch};
use crate::trace::record::Fidelity;
use crate::ui::format;
use crate::ui::state::State;
use crate::ui::state::window::{SECONDS, Windows, name};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;

/// Which part of the window was seen by exact or blocking capture; `None` when it was all of it, or nothing.
///
/// `exact 14:06:40–14:07:00, 20.0 s of 5m`
pub fn described(answer: &Answer, state: &State) -> Option<String> {
    let seen = &answer.coverage;
    let precise = seen.exact_ns + seen.blocking_ns;
    let recorded = answer.extent.map_or(0, |e| answer.window.clip(e).len());
    // Less than a hundredth is the seam between the tiers.
    if precise == 0 || recorded.saturating_sub(precise) <= recorded / 100 && seen.blocking_ns.min(seen.exact_ns) == 0 {
        return None;
    }
    let at = |ts| format::clock(answer.clock.wall(ts), &state.start.zone, true);
    let until = if state.start.ascii { "-" } else { "–" };
    let span = |s: &Stretch| format!("{}{until}{}", at(s.span.start), at(s.span.end));
    let window = format::length(answer.window.len());
    let kinds = [("exact", seen.exact_ns, Fidelity::Exact), ("blocking", seen.blocking_ns, Fidelity::Blocking)];
    let parts = kinds.into_iter().filter(|(_, ns, _)| *ns > 0).map(|(word, ns, fidelity)| {
        let of: Vec<&Stretch> = seen.precise.iter().filter(|s| s.fidelity == fidelity).collect();
        let when = match of.as_slice() {
            [] => String::new(),
            [one] => format!(" {}", span(one)),
            [first, .., last] => format!(" {}{until}{} in {} parts", at(first.span.start), at(last.span.end), of.len()),
        };
        format!("{word}{when}, {}", format::duration(ns))
    });
    Some(format!("{} of {window}", parts.collect::<Vec<_>>().join("; ")))
}

/// What is missing from the exact part: records lost, time of sessions that were not followed.
pub fn missing(answer: &Answer) -> Option<String> {
    let seen = &answer.coverage;
    let lost = (seen.lost_records > 0).then(|| format!("{} records lost", format::count(seen.lost_records)));
    let unfollowed = (seen.unfollowed_ns > 0).then(|| format!("{} of sessions not followed", format::duration(seen.unfollowed_ns)));
    let parts: Vec<String> = lost.into_iter().chain(unfollowed).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What stands in place of the drawing when there is nothing to draw.
pub fn notice<'a>(state: &State, theme: &'a Theme, answer: &Answer) -> Option<Notice<'a>> {
    let empty = match &answer.body {
        Body::Latency(view) => view.waits == 0 || view.bars.is_empty(),
        Body::Flow(flow) => flow.nodes.is_empty() || state.rows.is_empty(),
        _ => return None,
    };
    if !empty {
        return None;
    }
    if answer.coverage.exact_ns + answer.coverage.blocking_ns == 0 {
        let more = vec!["samples say nothing about single waits".into(), advice(state)];
        return Some(Notice { headline: "No exact data in this window".into(), role: Role::Warn, more, theme });
    }
    let flow = matches!(answer.body, Body::Flow(_));
    let words = flow && !state.place.words.is_empty() && matches!(&answer.body, Body::Flow(f) if !f.nodes.is_empty());
    let headline = match (flow, words) {
        (_, true) => format!("no event contains \"{}\"", format::safe(&state.place.words.join("\" and \""))),
        (true, _) => "no session went from one event to another".into(),
        (false, _) => "no wait ended".into(),
    };
    let mut more: Vec<String> = described(answer, state).into_iter().collect();
    if !state.place.crumbs.is_empty() {
        let filter = state.place.crumbs.iter().map(|c| format::safe(&c.label).into_owned()).collect::<Vec<_>>().join(", ");
        more.push(format!("with the filter {filter}; Backspace goes back, / edits it"));
    }
    Some(Notice { headline, role: Role::Dim, more, theme })
}

fn advice(state: &State) -> String {
    if let Some(window) = state.window().filter(|w| w.open) {
        return format!("an {} window is open: its first records are on their way", window.tier.name())
            .replace("an blocking", "a blocking");
    }
    match &state.start.windows {
        Windows::Of { kind, .. } => {
            format!("e opens an {} window, {SECONDS} s long unless said otherwise", name(*kind)).replace("an blocking", "a blocking")
        }
        Windows::Never(why) => format!("and no window can be opened: {why}"),
    }
}
