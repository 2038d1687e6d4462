//! Executions of queries that ended in a window, from the boundaries that exact and blocking capture marked. Pure.

use super::answer::Executions;
use super::latency::figures;
use super::matcher::{Matcher, Verdict};
use super::walk::{Section, Walk};
use crate::trace::Trace;
use crate::trace::clock::Span;
use crate::trace::digest::Commands;
use crate::trace::lengths::Lengths;
use crate::trace::precise::Precise;
use crate::trace::record::{QueryId, SessionId};
use crate::trace::wait::WaitEvent;
use rustc_hash::FxHashMap;

#[derive(Default)]
struct Entry {
    count: u64,
    inferred: u64,
    lengths: Lengths,
}

/// By query. Empty when the filter chooses events: an execution is not of one event.
pub fn executions<T: Trace>(walk: &Walk<'_, T>, matcher: &Matcher) -> FxHashMap<QueryId, Executions> {
    if matcher.looks_at_events() || walk.stretches().is_empty() {
        return FxHashMap::default();
    }
    let catalog = walk.trace.catalog();
    let mut verdicts: FxHashMap<SessionId, Verdict> = FxHashMap::default();
    let mut passes = |session: SessionId, query: QueryId| {
        let verdict = verdicts.entry(session).or_insert_with(|| matcher.session(session, catalog.sessions.get(&session)));
        matcher.passes(verdict, WaitEvent::CPU, query)
    };
    let mut entries: FxHashMap<QueryId, Entry> = FxHashMap::default();
    let mut commands: Option<Commands> = None;
    for section in walk.sections() {
        let span = match section {
            Section::Blocks(span, _) => *span,
            Section::Digest(place) => match walk.digest(place, true) {
                Err(_) => place.span,
                Ok(digest) => {
                    for e in digest.executions.iter().filter(|e| passes(e.session, e.query)) {
                        let entry = entries.entry(e.query).or_default();
                        entry.count += e.count;
                        entry.inferred += e.inferred;
                        entry.lengths.take(&e.lengths);
                    }
                    commands = Some(digest.commands());
                    continue;
                }
            },
        };
        // An execution may have begun long before: where they stood then, a digest says, or all blocks up to here.
        let mut now = commands.take().or_else(|| walk.trace.digest_before(span.start).map(|d| d.commands())).unwrap_or_default();
        let reach = Span::new(now.now(), span.end);
        let precise = Precise::of(reach, |visit| walk.trace.scan_coverage(reach, visit));
        now.pass(
            reach,
            &precise,
            |visit| walk.trace.scan(reach, visit),
            |e| {
                if e.at > span.start && passes(e.session, e.query) {
                    let entry = entries.entry(e.query).or_default();
                    entry.count += 1;
                    entry.inferred += u64::from(e.inferred);
                    e.length.into_iter().for_each(|length| entry.lengths.add(length));
                }
            },
        );
        commands = Some(now);
    }
    let made = |e: Entry| Executions { count: e.count, whole: e.lengths.count(), latency: figures(&e.lengths), inferred: e.inferred };
    entries.into_iter().map(|(query, e)| (query, made(e))).collect()
}
