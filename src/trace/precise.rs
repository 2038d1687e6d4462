//! Which stretches exact and blocking capture saw, and of which sessions it did not: what decides between a sample and an interval. Pure.
//!
//! Inside such a stretch a session's intervals count and its samples do not, to the nanosecond; where the session was not followed, or its
//! records were lost, its samples stand in. So nothing counts twice and nothing is missing.

use super::block::Block;
use super::clock::{Span, Ts};
use super::record::{Fidelity, SessionId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A stretch that was seen by exact or blocking capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// When.
    pub span: Span,
    /// Which of the two.
    pub fidelity: Fidelity,
}

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
    /// What the blocks of a window say about themselves.
    pub fn of(window: Span, scan: impl FnOnce(&mut dyn FnMut(&Block))) -> Self {
        let mut this = Self::default();
        scan(&mut |block| this.take(block, window));
        this.settle();
        this
    }

    /// Takes in what a block says. [`Self::settle`] behind the last one.
    pub(super) fn take(&mut self, block: &Block, window: Span) {
        if matches!(block.fidelity(), Fidelity::None | Fidelity::Sampled) {
            return;
        }
        let stretch = |span: &Span| Stretch { span: *span, fidelity: block.fidelity() };
        self.watched.extend(block.watched().iter().filter(|s| s.meets(window)).map(stretch));
        for blind in block.blind() {
            self.holes.entry(blind.session).or_default().push(blind.span);
        }
        for loss in block.losses() {
            match loss.session {
                Some(session) => self.holes.entry(session).or_default().push(loss.span),
                None if loss.span.end > window.start && loss.span.end <= window.end => self.lost_records += loss.records,
                None => {}
            }
        }
    }

    pub(super) fn settle(&mut self) {
        self.watched.sort_unstable_by_key(|s| s.span.start);
        // Nobody watches the same time twice; in a damaged or foreign recording it may stand so, and counts once.
        let mut reached = Ts(0);
        self.watched.retain_mut(|s| {
            s.span.start = s.span.start.max(reached);
            reached = reached.max(s.span.end);
            s.span.start < s.span.end
        });
        self.watched.dedup_by(|next, last| join(last, next));
        for spans in self.holes.values_mut() {
            spans.retain(|s| !s.is_empty());
            unite(spans);
        }
    }

    /// The stretches.
    pub fn stretches(&self) -> &[Stretch] {
        &self.watched
    }

    /// Whether there are none that `span` meets, so that samples stand as they are.
    pub fn misses(&self, span: Span) -> bool {
        self.near(span).is_empty()
    }

    /// Stretches that meet a span; an instant belongs to the one that ends there, as what ends there does.
    fn near(&self, span: Span) -> &[Stretch] {
        let span = if span.is_empty() { Span::new(span.start - 1, span.start) } else { span };
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

    /// Whether intervals of `session` count in all of `span`.
    pub fn follows(&self, session: SessionId, span: Span) -> bool {
        self.followed(session, span).iter().map(|s| s.len()).sum::<u64>() == span.len()
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

/// Makes one of two stretches that adjoin and are alike.
pub fn join(last: &mut Stretch, next: &Stretch) -> bool {
    let joins = last.fidelity == next.fidelity && last.span.end == next.span.start;
    if joins {
        last.span.end = next.span.end;
    }
    joins
}

/// Sorts spans and makes one of those that touch.
pub fn unite(spans: &mut Vec<Span>) {
    spans.sort_unstable_by_key(|s| s.start);
    spans.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
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
