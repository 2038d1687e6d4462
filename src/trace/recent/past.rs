//! What sessions said of their own times over the last minutes, so that an instant behind the newest can be looked at.

use crate::trace::catalog::{News, UnixMicros};
use crate::trace::clock::{Span, Ts};
use crate::trace::record::SessionId;
use crate::trace::times::Times;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Accounts kept at most: those of the last hours of a small server, of the last minutes of a busy one. About 12 MB.
const MOST: usize = 200_000;

/// What a session said at the end of a stretch; it changed in it. `None`: it had gone by then.
#[derive(Debug, Clone, Copy)]
struct Said {
    span: Span,
    times: Option<Times>,
}

/// Accounts of all sessions.
#[derive(Debug, Default)]
pub(super) struct Past {
    said: FxHashMap<SessionId, VecDeque<Said>>,
    count: usize,
}

impl Past {
    /// Hears what came with the ticks of a stretch.
    pub(super) fn hear(&mut self, news: &News, span: Span) {
        let (id, times) = match news {
            News::Session(id, s) => (*id, Some(Times::of(&s.activity))),
            News::Activity(id, a) => (*id, Some(Times::of(a))),
            News::Gone(id) => (*id, None),
            _ => return,
        };
        let said = self.said.entry(id).or_default();
        match said.back_mut() {
            Some(last) if last.times == times => return,
            // Told twice of one stretch: the last counts.
            Some(last) if last.span.end >= span.end => last.times = times,
            _ => {
                said.push_back(Said { span, times });
                self.count += 1;
            }
        }
        if self.count > MOST {
            self.thin(span.end);
        }
    }

    /// Drops the older accounts of those who have newer ones, until a quarter is free.
    fn thin(&mut self, now: Ts) {
        let oldest = self.said.values().filter_map(|s| s.front()).map(|s| s.span.end).min().unwrap_or(now);
        let mut from = oldest;
        while self.count > MOST * 3 / 4 && from < now {
            from = from + (now.since(from) / 4).max(1);
            self.forget(from);
        }
    }

    /// Drops what was said before an instant and not for the last time.
    pub(super) fn forget(&mut self, before: Ts) {
        for said in self.said.values_mut() {
            while said.len() > 1 && said.get(1).is_some_and(|next| next.span.end <= before) {
                said.pop_front();
                self.count -= 1;
            }
        }
        self.said.retain(|_, said| {
            let stays = said.iter().any(|s| s.times.is_some() || s.span.end > before);
            self.count -= if stays { 0 } else { said.len() };
            stays
        });
    }

    /// What all sessions said at an instant, as far as it is known; `wall` is the same instant, microseconds since 1970.
    pub(super) fn at(&self, at: Ts, wall: UnixMicros) -> FxHashMap<SessionId, Times> {
        let one = |said: &VecDeque<Said>| {
            let next = said.partition_point(|s| s.span.end < at);
            match said.get(next) {
                Some(s) if s.span.start < at => s.times,
                _ => said.get(next.checked_sub(1)?)?.times,
            }
        };
        // What was said right after: what had begun by then was so.
        self.said.iter().filter_map(|(id, said)| Some((*id, one(said)?.by(wall)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::catalog::Activity;

    fn says(past: &mut Past, id: u32, end: u64, query_start: i64) {
        let activity = Activity { query_start, ..Activity::default() };
        past.hear(&News::Activity(SessionId(id), activity), Span::new(Ts(end - 250), Ts(end)));
    }

    fn at(past: &Past, id: u32, at: u64) -> Option<i64> {
        past.at(Ts(at), at as i64).get(&SessionId(id)).map(|t| t.query_start)
    }

    #[test]
    fn an_account_holds_until_the_stretch_in_which_it_changes() {
        let mut past = Past::default();
        says(&mut past, 1, 1_000, 900);
        says(&mut past, 1, 2_000, 1_900);
        assert_eq!(at(&past, 1, 700), None, "nothing was said yet");
        assert_eq!((at(&past, 1, 800), at(&past, 1, 950)), (Some(0), Some(900)), "in its own stretch as far as it had begun");
        assert_eq!((at(&past, 1, 1_000), at(&past, 1, 1_750)), (Some(900), Some(900)));
        assert_eq!((at(&past, 1, 1_800), at(&past, 1, 1_950), at(&past, 1, 9_000)), (Some(0), Some(1_900), Some(1_900)));
        past.hear(&News::Gone(SessionId(1)), Span::new(Ts(2_750), Ts(3_000)));
        assert_eq!((at(&past, 1, 2_700), at(&past, 1, 2_900), at(&past, 1, 3_001)), (Some(1_900), None, None));
    }

    #[test]
    fn what_it_keeps_is_bounded_and_the_last_of_each_stays() {
        let mut past = Past::default();
        says(&mut past, 7, 500, 77);
        for n in 1..=(MOST as u64 + 10) {
            says(&mut past, (n % 50) as u32 + 10, 1_000 + n * 250, n as i64);
        }
        assert!(past.count <= MOST && past.count == past.said.values().map(VecDeque::len).sum::<usize>(), "{}", past.count);
        assert_eq!(at(&past, 7, 9_000_000), Some(77));
        past.forget(Ts(u64::MAX));
        assert_eq!(past.count, past.said.len());
    }
}
