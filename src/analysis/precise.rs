//! Which stretches exact and blocking capture saw, and of which sessions it did not: what decides between a sample and an interval. Pure.
//!
//! Inside such a stretch a session's intervals count and its samples do not, to the nanosecond; where the session was not followed, or its
//! records were lost, its samples stand in. So nothing counts twice and nothing is missing.

use super::answer::Stretch;
use crate::trace::Trace;
use crate::trace::clock::Span;
use crate::trace::record::{Fidelity, SessionId};
use rustc_hash::FxHashMap;

/// The exact and blocking stretches of a window.
#[derive(Debug, Default)]
pub struct Precise {
    /// In order, without overlaps; those that adjoin and are alike are one.
    watched: Vec<Stretch>,
    /// Per session, what of them it was not seen in: in order, without overlaps.
    holes: FxHashMap<SessionId, Vec<Span>>,
    /// Records that were lost inside the window.
    pub lost_records: u64,
}

impl Precise {
    /// Reads what the blocks of a window say about themselves.
    pub fn of(trace: &impl Trace, window: Span) -> Self {
        let mut this = Self::default();
        trace.scan_coverage(window, &mut |block| {
            if matches!(block.fidelity(), Fidelity::None | Fidelity::Sampled) {
                return;
            }
            let stretch = |span: &Span| Stretch { span: *span, fidelity: block.fidelity() };
            this.watched.extend(block.watched().iter().filter(|s| s.meets(window)).map(stretch));
            for blind in block.blind() {
                this.holes.entry(blind.session).or_default().push(blind.span);
            }
            for loss in block.losses() {
                match loss.session {
                    Some(session) => this.holes.entry(session).or_default().push(loss.span),
                    None if loss.span.end > window.start && loss.span.end <= window.end => this.lost_records += loss.records,
                    None => {}
                }
            }
        });
        this.watched.sort_unstable_by_key(|s| s.span.start);
        this.watched.dedup_by(|next, last| {
            let joins = last.fidelity == next.fidelity && last.span.end == next.span.start;
            if joins {
                last.span.end = next.span.end;
            }
            joins
        });
        for spans in this.holes.values_mut() {
            spans.retain(|s| !s.is_empty());
            spans.sort_unstable_by_key(|s| s.start);
            spans.dedup_by(|next, last| {
                let joins = next.start <= last.end;
                if joins {
                    last.end = last.end.max(next.end);
                }
                joins
            });
        }
        this
    }

    /// The stretches.
    pub fn stretches(&self) -> &[Stretch] {
        &self.watched
    }

    /// Whether there are none that `span` meets, so that samples stand as they are.
    pub fn misses(&self, span: Span) -> bool {
        self.near(span).is_empty()
    }

    /// Stretches that meet a span.
    fn near(&self, span: Span) -> &[Stretch] {
        let from = self.watched.partition_point(|s| s.span.end <= span.start);
        let to = self.watched.partition_point(|s| s.span.start < span.end);
        self.watched.get(from..to.max(from)).unwrap_or_default()
    }

    /// The parts of an exact or blocking row that count, in order.
    pub fn inside(&self, span: Span, mut part: impl FnMut(Span)) {
        match self.near(span) {
            // Nearly always: one stretch that holds the whole row.
            [one] => part(span.clip(one.span)),
            several => several.iter().for_each(|s| part(span.clip(s.span))),
        }
    }

    /// The parts of `span` in which intervals of `session` count and its samples do not, in order.
    pub fn followed(&self, session: SessionId, span: Span) -> Vec<Span> {
        let holes = self.holes.get(&session).map(Vec::as_slice).unwrap_or_default();
        let mut out = Vec::new();
        self.inside(span, |part| without(part, holes, &mut out));
        out
    }

    /// Time of sessions inside stretches of the window in which they were not followed.
    pub fn unfollowed_ns(&self, window: Span) -> u64 {
        let mut sum = 0;
        for hole in self.holes.values().flatten() {
            self.inside(hole.clip(window), |part| sum += part.len());
        }
        sum
    }
}

/// `span` without `holes` (in order, without overlaps), added to `out`.
pub fn without(span: Span, holes: &[Span], out: &mut Vec<Span>) {
    let mut from = span.start;
    let first = holes.partition_point(|h| h.end <= span.start);
    for hole in holes.iter().skip(first).take_while(|h| h.start < span.end) {
        if hole.start > from {
            out.push(Span::new(from, hole.start));
        }
        from = from.max(hole.end);
    }
    if from < span.end {
        out.push(Span::new(from, span.end));
    }
}
