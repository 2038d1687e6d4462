//! Executions of commands, from the boundaries that exact and blocking capture marked: which ended in a stretch of time, and which go on. Pure.

use crate::trace::block::{Block, Edge, Mark};
use crate::trace::clock::{Span, Ts};
use crate::trace::precise::Precise;
use crate::trace::record::{QueryId, SessionId};
use rustc_hash::FxHashMap;

/// An execution that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Who.
    pub session: SessionId,
    /// When it began.
    pub at: Ts,
    /// The query; `NONE` where it was not known yet.
    pub query: QueryId,
    /// Whether the beginning was not seen but inferred.
    pub inferred: bool,
    /// Whether the session was followed ever since.
    pub followed: bool,
}

/// An execution that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Who.
    pub session: SessionId,
    /// When.
    pub at: Ts,
    /// The query.
    pub query: QueryId,
    /// Whether a boundary was not seen but inferred.
    pub inferred: bool,
    /// How long it took, nanoseconds, when it was watched from its beginning: else it may be another execution that ends here.
    pub length: Option<u64>,
}

/// Where the executions of all sessions stand at an instant.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    at: Ts,
    open: FxHashMap<SessionId, Open>,
}

impl Commands {
    /// At an instant, with the executions that go on.
    pub fn at(at: Ts, open: impl IntoIterator<Item = Open>) -> Self {
        Self { at, open: open.into_iter().map(|o| (o.session, o)).collect() }
    }

    /// When it is.
    pub fn now(&self) -> Ts {
        self.at
    }

    /// Executions that go on, by session.
    pub fn open(&self) -> Vec<Open> {
        let mut open: Vec<Open> = self.open.values().copied().collect();
        open.sort_unstable_by_key(|o| o.session);
        open
    }

    /// Goes on to the end of `span`, which begins here. `precise` and `scan` are of this stretch.
    pub fn pass(&mut self, span: Span, precise: &Precise, scan: impl FnOnce(&mut dyn FnMut(&Block)), mut ended: impl FnMut(Ended)) {
        let mut marks: Vec<Mark> = Vec::new();
        scan(&mut |block| marks.extend(block.marks().iter().filter(|m| m.at > span.start && m.at <= span.end)));
        // Blocks are in the order of their starts, marks in that of time.
        marks.sort_by_key(|m| m.at);
        let since = |from: Ts, to: Ts| Span::new(from.max(span.start), to);
        for mark in marks {
            if mark.edge == Edge::Begin {
                let (session, at, query, inferred) = (mark.session, mark.at, mark.query, mark.inferred);
                self.open.insert(session, Open { session, at, query, inferred, followed: true });
                continue;
            }
            let begin = self.open.remove(&mark.session);
            let whole = begin.filter(|b| b.followed && precise.follows(mark.session, since(b.at, mark.at)));
            ended(Ended {
                session: mark.session,
                at: mark.at,
                query: if mark.query == QueryId::NONE { begin.map_or(QueryId::NONE, |b| b.query) } else { mark.query },
                inferred: mark.inferred || begin.is_some_and(|b| b.inferred),
                length: whole.map(|b| mark.at.since(b.at)),
            });
        }
        for open in self.open.values_mut().filter(|o| o.followed) {
            open.followed = precise.follows(open.session, since(open.at, span.end));
        }
        self.at = span.end;
    }
}
