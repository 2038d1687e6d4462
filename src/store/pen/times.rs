//! When it is written what a session says of its own times: at once, then at most once a second, and in between that it has changed.

use crate::trace::catalog::{Catalog, News};
use crate::trace::clock::{SECOND, Span, Ts};
use crate::trace::record::SessionId;
use crate::trace::times::{Accounts, Times};
use rustc_hash::{FxHashMap, FxHashSet};

/// How often at most the times of one session are written.
const EVERY: u64 = SECOND;
/// How often everybody's are, so that a reader need not go back further.
pub(super) const ALL_EVERY: u64 = 60 * SECOND;

/// Who has changed since it was written of, and who has gone: what that one said in the end nobody read.
#[derive(Debug, Default)]
pub(super) struct Moved(FxHashSet<SessionId>, FxHashSet<SessionId>);

impl Moved {
    pub(super) fn note(&mut self, news: &News) {
        match news {
            News::Session(id, _) | News::Activity(id, _) => {
                self.0.insert(*id);
            }
            News::Gone(id) => {
                self.0.remove(id);
                self.1.insert(*id);
            }
            _ => {}
        }
    }
}

/// What a file says of times.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    /// When everybody was written of; `None`: not yet.
    all: Option<Ts>,
    /// When one was, and whether it was said since that it has changed.
    last: FxHashMap<SessionId, (Ts, bool)>,
}

impl Told {
    /// What is to be written at the end of a stretch. `end`: nothing is written after it.
    pub(super) fn accounts(&mut self, catalog: &Catalog, moved: &mut Moved, span: Span, end: bool) -> Option<Accounts> {
        let at = span.end;
        let all = self.all.is_none_or(|last| at.since(last) >= ALL_EVERY || at < last);
        let times = |id: &SessionId| catalog.sessions.get(id).filter(|s| !s.gone).map(|s| Times::of(&s.activity));
        let mut entries: Vec<(SessionId, Option<Times>)> = std::mem::take(&mut moved.1).into_iter().map(|id| (id, None)).collect();
        self.last.retain(|id, _| !entries.iter().any(|(gone, _)| gone == id));
        if all {
            self.all = Some(at);
            self.last.clear();
            moved.0.clear();
            entries.extend(catalog.sessions.keys().filter_map(|id| Some((*id, Some(times(id)?)))));
            self.last.extend(entries.iter().filter(|(_, t)| t.is_some()).map(|(id, _)| (*id, (at, false))));
        } else {
            let last = &mut self.last;
            moved.0.retain(|id| {
                let Some(times) = times(id) else { return false };
                match last.get_mut(id) {
                    Some((told, said)) if at.since(*told) < EVERY && !end => {
                        if !std::mem::replace(said, true) {
                            entries.push((*id, None));
                        }
                        true
                    }
                    _ => {
                        last.insert(*id, (at, false));
                        entries.push((*id, Some(times)));
                        false
                    }
                }
            });
        }
        entries.sort_unstable_by_key(|(id, _)| *id);
        (all || !entries.is_empty()).then_some(Accounts { span, all, entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::catalog::{Activity, Session};
    use crate::trace::clock::MILLI;

    /// Whether of everybody, and of each its `query_start`.
    type Written = (bool, Vec<(u32, Option<i64>)>);

    struct Writer {
        catalog: Catalog,
        moved: Moved,
        told: Told,
    }

    impl Writer {
        fn hear(&mut self, news: News) {
            self.moved.note(&news);
            self.catalog.learn(news);
        }
        fn starts(&mut self, id: u32, query_start: i64) {
            self.hear(News::Activity(SessionId(id), Activity { query_start, ..Activity::default() }));
        }
        fn at(&mut self, ms: u64) -> Option<Written> {
            let a = self.told.accounts(&self.catalog, &mut self.moved, until(ms), false)?;
            Some((a.all, a.entries.iter().map(|(id, t)| (id.0, t.map(|t| t.query_start))).collect()))
        }
    }

    fn until(ms: u64) -> Span {
        Span::new(Ts(ms * MILLI - 200 * MILLI), Ts(ms * MILLI))
    }

    #[test]
    fn at_once_then_each_second_and_between_that_it_changed() {
        let mut w = Writer { catalog: Catalog::default(), moved: Moved::default(), told: Told::default() };
        w.hear(News::Session(SessionId(1), Box::default()));
        w.hear(News::Session(
            SessionId(2),
            Box::new(Session { activity: Activity { query_start: 7, ..Activity::default() }, ..Session::default() }),
        ));
        assert_eq!(w.at(1_000), Some((true, vec![(1, Some(0)), (2, Some(7))])));
        assert_eq!(w.at(1_200), None);
        w.starts(1, 11);
        assert_eq!(w.at(1_400), Some((false, vec![(1, None)])));
        w.starts(1, 12);
        assert_eq!(w.at(1_600), None, "that it has changed is said once");
        assert_eq!(w.at(2_000), Some((false, vec![(1, Some(12))])), "what changed is told, also when nothing changes any more");
        assert_eq!(w.at(2_200), None);
        w.starts(1, 13);
        w.starts(2, 14);
        assert_eq!(w.at(2_400), Some((false, vec![(1, None), (2, Some(14))])));
        w.hear(News::Gone(SessionId(1)));
        assert_eq!(w.at(4_000), Some((false, vec![(1, None)])), "what it said in the end nobody read");
        assert_eq!(w.at(61_000), Some((true, vec![(2, Some(14))])));
    }

    #[test]
    fn at_the_end_everything_is_told() {
        let mut w = Writer { catalog: Catalog::default(), moved: Moved::default(), told: Told::default() };
        w.hear(News::Session(SessionId(1), Box::default()));
        w.at(1_000);
        w.starts(1, 11);
        let last = w.told.accounts(&w.catalog, &mut w.moved, until(1_200), true).unwrap();
        assert_eq!(last.entries, [(SessionId(1), Some(Times { query_start: 11, ..Times::default() }))]);
    }
}
