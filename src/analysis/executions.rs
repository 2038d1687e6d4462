//! Executions of queries that ended in a window, from the boundaries that exact and blocking capture marked. Pure.

use super::answer::Executions;
use super::latency::Lengths;
use super::matcher::{Matcher, Verdict};
use super::precise::Precise;
use super::walk::Walk;
use crate::trace::Trace;
use crate::trace::block::{Edge, Mark};
use crate::trace::clock::{Span, Ts};
use crate::trace::record::{QueryId, Record, SessionId};
use rustc_hash::FxHashMap;

#[derive(Default)]
struct Entry {
    count: u64,
    inferred: u64,
    lengths: Lengths,
}

/// By query. Empty when the filter chooses events: an execution is not of one event.
pub fn executions<T: Trace>(walk: &Walk<'_, T>, matcher: &Matcher) -> FxHashMap<QueryId, Executions> {
    if matcher.looks_at_events() || walk.precise().stretches().is_empty() {
        return FxHashMap::default();
    }
    let catalog = walk.trace.catalog();
    // An execution may have begun long before the window.
    let reach = Span::new(Ts(0), walk.window.end);
    let precise = Precise::of(walk.trace, reach);
    let mut begun: FxHashMap<SessionId, Mark> = FxHashMap::default();
    let mut verdicts: FxHashMap<SessionId, Verdict> = FxHashMap::default();
    let mut entries: FxHashMap<QueryId, Entry> = FxHashMap::default();
    walk.trace.scan(reach, &mut |block| {
        for mark in block.marks() {
            if mark.edge == Edge::Begin {
                begun.insert(mark.session, *mark);
                continue;
            }
            let begin = begun.remove(&mark.session);
            if mark.at <= walk.window.start || mark.at > walk.window.end {
                continue;
            }
            let query = if mark.query == QueryId::NONE { begin.map_or(QueryId::NONE, |b| b.query) } else { mark.query };
            let verdict =
                verdicts.entry(mark.session).or_insert_with(|| matcher.session(mark.session, catalog.sessions.get(&mark.session)));
            let whole = begin.filter(|b| {
                // Watched all the while: else it may be another execution that ends here.
                let span = Span::new(b.at, mark.at);
                let followed: u64 = precise.followed(mark.session, span).iter().map(|s| s.len()).sum();
                followed == span.len()
            });
            let like = Record { query, ..blank(mark.session, Span::new(mark.at, mark.at)) };
            if !matcher.record(verdict, &like) {
                continue;
            }
            let entry = entries.entry(query).or_default();
            entry.count += 1;
            entry.inferred += u64::from(mark.inferred || begin.is_some_and(|b| b.inferred));
            if let Some(begin) = whole {
                entry.lengths.add(mark.at.since(begin.at));
            }
        }
    });
    let made = |e: Entry| Executions { count: e.count, whole: e.lengths.count(), latency: e.lengths.latency(), inferred: e.inferred };
    entries.into_iter().map(|(query, e)| (query, made(e))).collect()
}

/// A record of a session at an instant, for the filter.
fn blank(session: SessionId, span: Span) -> Record {
    Record {
        span,
        session,
        event: crate::trace::wait::WaitEvent::CPU,
        query: QueryId::NONE,
        state: crate::trace::record::State::Active,
        samples: 0,
        detail: None,
    }
}
