//! Blocks of trace files that other programs wrote, in trace format v2 or v3: transitions and samples alone, as blocks of ours.
//!
//! A session is a process id there: its [`SessionId`] is the pid. Whether a command was open is told by markers; where there are none, it counts as open.

use super::records::{COMMAND_END, COMMAND_START, EXEC_END, EXEC_START, EXIT, Samples, Transitions, UNKNOWN_CPU, is_marker};
use crate::trace::block::{Block, Builder, Edge, Intervals, Mark};
use crate::trace::clock::{SECOND, Span, Ts};
use crate::trace::record::{Detail, Fidelity, QueryId, Record, SessionId, State};
use crate::trace::wait::WaitEvent;
use rustc_hash::FxHashMap;

/// Samples as a block: a tick wherever there is a sample, each of the block's period.
pub fn samples(rows: &Samples, period: u64) -> Option<Block> {
    let mut builder = Builder::default();
    let mut last = None;
    let mut order: Vec<usize> = (0..rows.ts.len()).collect();
    order.sort_by_key(|i| rows.ts.get(*i));
    for i in order {
        let (Some(ts), Some(pid)) = (rows.ts.get(i), rows.pid.get(i)) else { continue };
        if last != Some(*ts) {
            builder.tick(Ts(*ts), period);
            last = Some(*ts);
        }
        let event = WaitEvent(rows.event.get(i).copied().unwrap_or(0));
        let query = QueryId(rows.query.get(i).copied().unwrap_or(0) as i64);
        builder.sample(SessionId(*pid), event, query, State::Active);
    }
    builder.seal()
}

/// When commands of one process were open, as far as the markers of one block say.
#[derive(Debug, Default)]
struct Commands(Vec<(u64, bool)>);

impl Commands {
    /// Whether a command was open for at least half of a stretch; in one without length: at its end.
    fn open(&self, from: u64, to: u64) -> bool {
        let Some(first) = self.0.first() else { return true };
        let (mut at, mut open, mut sum) = (from, !first.1, 0u64);
        for (ts, opens) in self.0.iter().take_while(|m| m.0 <= to) {
            if *ts >= at {
                sum += if open { ts - at } else { 0 };
                at = *ts;
            }
            open = *opens;
        }
        if from == to {
            return open;
        }
        sum += if open { to - at } else { 0 };
        sum.saturating_mul(2) >= to - from
    }
}

/// Time beyond a few seconds that the intervals of one block are rows of, together: a wrong length is not worth memory. Of what is longer the end
/// is there, with the whole length.
const REACH: u64 = 3 * 86_400 * SECOND;

/// Ended intervals as an exact block. It says nothing about coverage: the file as a whole does, see [`spans`].
pub fn transitions(rows: &Transitions) -> Option<Block> {
    let mut commands: FxHashMap<u32, Commands> = FxHashMap::default();
    let mut executions = false;
    for ((ts, pid), old) in rows.ts.iter().zip(&rows.pid).zip(&rows.old) {
        if matches!(*old, COMMAND_START | COMMAND_END) {
            commands.entry(*pid).or_default().0.push((*ts, *old == COMMAND_START));
        }
        executions |= matches!(*old, EXEC_START | EXEC_END);
    }
    let mut out = Intervals::default();
    out.begin(Fidelity::Exact);
    let mut left = REACH;
    let records = rows.ts.iter().zip(&rows.pid).zip(rows.old.iter().zip(&rows.duration)).zip(rows.query.iter().zip(&rows.cpu));
    for (((ts, pid), (old, duration)), (query, cpu)) in records {
        let (session, query) = (SessionId(*pid), QueryId(*query as i64));
        if is_marker(*old) {
            let edge = match *old {
                EXEC_START if executions => Edge::Begin,
                EXEC_END if executions => Edge::End,
                COMMAND_START if !executions => Edge::Begin,
                COMMAND_END if !executions => Edge::End,
                _ => continue,
            };
            out.mark(Mark { at: Ts(*ts), session, query, edge, inferred: false });
            continue;
        }
        let part = (*duration).min(4 * SECOND + left);
        left -= part.saturating_sub(4 * SECOND);
        let Some(start) = ts.checked_sub(*duration).filter(|_| *old != EXIT) else { continue };
        let open = commands.get(pid).is_none_or(|c| c.open(start, *ts));
        let whole = if *old == 0 { *duration } else { 0 };
        let cpu = if *cpu == UNKNOWN_CPU { whole } else { (*cpu).min(*duration) };
        let share = if part == *duration { cpu } else { (u128::from(cpu) * u128::from(part) / u128::from(*duration)) as u64 };
        out.row(Record {
            span: Span { start: Ts(*ts - part), end: Ts(*ts) },
            session,
            event: WaitEvent(*old),
            query,
            state: if open { State::Active } else { State::Idle },
            samples: 0,
            detail: Some(Detail { cpu_ns: share, lead_ns: *duration - part, ..Detail::default() }),
        });
    }
    // Marks alone make no block; a stretch without length does.
    out.seal().into_iter().next()
}

/// What a file says about the stretches in which every transition was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mention {
    /// A block of transitions: from the earliest start of an interval, or its first time, to its last time.
    Transitions(Span),
    /// A block of samples.
    Samples,
    /// An exact window was opened.
    Opened(Ts),
    /// An exact window was closed.
    Closed(Ts),
}

/// The stretches in which every transition was captured. `from` is the beginning of the file, or the end of the one before.
pub fn spans(mentions: &[Mention], from: Ts) -> Vec<Span> {
    let blocks = || mentions.iter().filter_map(|m| if let Mention::Transitions(s) = m { Some(*s) } else { None });
    let Some(end) = blocks().map(|s| s.end).max() else { return Vec::new() };
    let mut marked = Vec::new();
    let mut open = None;
    let mut closed_before = false;
    for m in mentions {
        match m {
            Mention::Opened(at) => open = open.or(Some(*at)),
            Mention::Closed(at) => {
                let start = open.take().or((!closed_before && marked.is_empty()).then_some(from));
                marked.extend(start.map(|s| Span::new(s, *at)));
                closed_before = true;
            }
            _ => {}
        }
    }
    marked.extend(open.map(|start| Span::new(start, end)));
    if !marked.is_empty() {
        return marked;
    }
    let first = blocks().map(|s| s.start).min().unwrap_or(end);
    if !mentions.contains(&Mention::Samples) {
        return vec![Span::new(if from > end { first } else { first.max(from) }, end)];
    }
    let mut each: Vec<Span> = blocks().map(|s| Span::new(s.start.max(from.min(s.end)), s.end)).collect();
    each.sort_unstable_by_key(|s| s.start);
    each.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
    each
}

/// What a block of transitions says about such stretches.
pub fn mentions(rows: &Transitions) -> Vec<Mention> {
    use super::records::{WINDOW_END, WINDOW_START};
    let mut out = Vec::new();
    let mut span: Option<Span> = None;
    for ((ts, old), duration) in rows.ts.iter().zip(&rows.old).zip(&rows.duration) {
        match *old {
            WINDOW_START => out.push(Mention::Opened(Ts(*ts))),
            WINDOW_END => out.push(Mention::Closed(Ts(*ts))),
            e if is_marker(e) || e == EXIT => {}
            _ => {
                let (start, end) = (Ts(ts.saturating_sub(*duration)), Ts(*ts));
                span = Some(span.map_or(Span { start, end }, |s| Span { start: s.start.min(start), end: s.end.max(end) }));
            }
        }
    }
    out.extend(span.map(Mention::Transitions));
    out
}
