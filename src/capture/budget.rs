//! How long exact windows may be open: a ledger over a rolling hour. Pure: whoever asks says what time it is.
//!
//! Invariant: in no hour is more than the allowance spent, whatever is asked for and however often, as long as windows close by what was granted.

use crate::trace::clock::{SECOND, Span, Ts};
use std::collections::VecDeque;

/// The hour.
pub const HOUR: u64 = 3_600 * SECOND;
/// Stretches remembered; more than these in one hour are joined, and the time between them is billed.
const MOST: usize = 256;

/// What may be spent in any hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    /// Nanoseconds; 0: nothing.
    Ns(u64),
    /// No limit.
    Unlimited,
}

/// Why nothing is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The allowance is 0.
    Disabled,
    /// All of it is spent; some is back after so many nanoseconds.
    Exhausted {
        /// Nanoseconds until the oldest stretch begins to leave the hour.
        back_in: u64,
    },
}

impl std::fmt::Display for Denied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Disabled => f.write_str("escalation disabled (--escalation-budget 0)"),
            Self::Exhausted { back_in } => {
                write!(f, "escalation budget exhausted for this hour; some of it is back in {} s", back_in.div_ceil(SECOND))
            }
        }
    }
}

/// The ledger.
#[derive(Debug, Clone)]
pub struct Ledger {
    allowance: Allowance,
    /// Oldest first.
    closed: VecDeque<Span>,
    open: Option<Ts>,
}

impl Ledger {
    /// Nothing is spent.
    pub fn new(allowance: Allowance) -> Self {
        Self { allowance, closed: VecDeque::new(), open: None }
    }

    /// What may be spent in an hour.
    pub fn allowance(&self) -> Allowance {
        self.allowance
    }

    fn hour(now: Ts) -> Span {
        Span::new(now - HOUR, now)
    }

    /// Spent in the hour before `now`, nanoseconds; an open window counts up to `now`.
    pub fn consumed(&self, now: Ts) -> u64 {
        let hour = Self::hour(now);
        let open = self.open.map(|start| Span::new(start, now));
        self.closed.iter().copied().chain(open).map(|s| s.clip(hour).len()).sum()
    }

    /// Left, nanoseconds; `None`: no limit.
    pub fn remaining(&self, now: Ts) -> Option<u64> {
        match self.allowance {
            Allowance::Unlimited => None,
            Allowance::Ns(ns) => Some(ns.saturating_sub(self.consumed(now))),
        }
    }

    /// How long a window may be open from `now` on when `want` nanoseconds are wanted. Of an open window: how much longer; what it has used is spent already.
    pub fn decide(&self, now: Ts, want: u64) -> Result<u64, Denied> {
        match self.remaining(now) {
            None => Ok(want),
            Some(_) if self.allowance == Allowance::Ns(0) => Err(Denied::Disabled),
            Some(0) => {
                let hour = Self::hour(now);
                let oldest = self.closed.iter().map(|s| s.end).chain(self.open.map(|_| now)).find(|end| *end > hour.start);
                let first = self.closed.iter().find(|s| Some(s.end) == oldest).map_or(self.open.unwrap_or(now), |s| s.start);
                Err(Denied::Exhausted { back_in: first.max(hour.start).since(hour.start) })
            }
            Some(left) => Ok(want.min(left)),
        }
    }

    /// A window opens.
    pub fn open(&mut self, now: Ts) {
        if self.open.is_some() {
            return;
        }
        let start = Self::hour(now).start;
        while self.closed.front().is_some_and(|s| s.end <= start) {
            self.closed.pop_front();
        }
        if self.closed.len() >= MOST
            && let (Some(a), Some(b)) = (self.closed.pop_front(), self.closed.pop_front())
        {
            self.closed.push_front(Span::new(a.start, b.end));
        }
        self.open = Some(now);
    }

    /// It closes.
    pub fn close(&mut self, now: Ts) {
        if let Some(start) = self.open.take() {
            self.closed.push_back(Span::new(start, now));
        }
    }

    /// Whether a window that is open must close now.
    pub fn is_over(&self, now: Ts) -> bool {
        self.open.is_some() && self.remaining(now) == Some(0)
    }

    /// Stretches of the hour before `now`, oldest first: to be kept over a restart of this program. One that is open goes up to `now`.
    pub fn spent(&self, now: Ts) -> impl Iterator<Item = Span> {
        let start = Self::hour(now).start;
        self.closed.iter().copied().filter(move |s| s.end > start).chain(self.open.map(|open| Span::new(open, now)))
    }

    /// Takes over what was spent before this program began.
    pub fn remember(&mut self, spent: impl IntoIterator<Item = Span>) {
        self.closed = spent.into_iter().filter(|s| !s.is_empty()).collect();
        self.closed.make_contiguous().sort_by_key(|s| s.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn s(seconds: u64) -> u64 {
        seconds * SECOND
    }

    fn at(seconds: u64) -> Ts {
        // Later than an hour, so that hours have a beginning.
        Ts(s(10_000 + seconds))
    }

    #[test]
    fn what_is_used_is_spent_and_no_more() {
        let mut ledger = Ledger::new(Allowance::Ns(s(10)));
        ledger.open(at(0));
        ledger.close(at(4));
        assert_eq!(ledger.remaining(at(4)), Some(s(6)));
        assert_eq!(ledger.decide(at(4), s(60)), Ok(s(6)));
        assert_eq!(ledger.decide(at(4), s(2)), Ok(s(2)));
    }

    #[test]
    fn extending_every_second_ends_exactly_at_the_budget() {
        let mut ledger = Ledger::new(Allowance::Ns(s(10)));
        ledger.open(at(0));
        let mut until = at(0) + ledger.decide(at(0), s(5)).unwrap();
        let mut denied = 0;
        for second in 1..=20 {
            let now = at(second);
            if ledger.open.is_some() && now >= until {
                ledger.close(until);
            }
            match ledger.decide(now, s(5)) {
                Ok(grant) if ledger.open.is_some() => until = until.max(now + grant),
                Ok(_) => {}
                Err(why) => {
                    assert!(matches!(why, Denied::Exhausted { .. }));
                    denied += 1;
                }
            }
        }
        assert_eq!(ledger.consumed(at(20)), s(10));
        assert!((10..=11).contains(&denied), "{denied}");
    }

    #[test]
    fn over_at_the_budget_zero_denies_and_unlimited_does_not() {
        let mut ledger = Ledger::new(Allowance::Ns(s(10)));
        ledger.open(at(0));
        assert!(!ledger.is_over(at(9)) && ledger.is_over(at(10)) && ledger.is_over(at(11)));
        let none = Ledger::new(Allowance::Ns(0));
        assert_eq!(none.decide(at(0), s(1)), Err(Denied::Disabled));
        assert!(none.decide(at(0), s(1)).unwrap_err().to_string().contains("--escalation-budget 0"));
        assert_eq!(none.remaining(at(0)), Some(0));
        let mut all = Ledger::new(Allowance::Unlimited);
        all.open(at(0));
        assert_eq!((all.decide(at(5_000), u64::MAX), all.remaining(at(5_000))), (Ok(u64::MAX), None));
        assert!(!all.is_over(at(9_000)));
    }

    #[test]
    fn more_stretches_than_are_remembered_stay_billed() {
        let mut ledger = Ledger::new(Allowance::Ns(s(3_000)));
        for i in 0..300 {
            ledger.open(at(i * 2));
            ledger.close(at(i * 2 + 1));
        }
        ledger.open(at(600));
        assert!(ledger.closed.len() <= MOST);
        assert!(ledger.consumed(at(601)) >= s(301));
    }

    #[test]
    fn what_was_spent_comes_back_as_it_leaves_the_hour() {
        let mut ledger = Ledger::new(Allowance::Ns(s(10)));
        ledger.open(at(0));
        ledger.close(at(10));
        assert_eq!(ledger.decide(at(10), s(1)), Err(Denied::Exhausted { back_in: s(3_590) }));
        assert_eq!(ledger.decide(at(3_600), s(1)), Err(Denied::Exhausted { back_in: 0 }));
        assert_eq!(ledger.remaining(at(3_605)), Some(s(5)));
        assert_eq!(ledger.remaining(at(3_610)), Some(s(10)));
        let mut next = Ledger::new(Allowance::Ns(s(10)));
        next.remember(ledger.spent(at(3_610)));
        assert_eq!(next.remaining(at(3_610)), Some(s(10)));
        next.remember(ledger.spent(at(20)));
        assert_eq!(next.remaining(at(3_605)), Some(s(5)));
    }

    #[test]
    fn an_extension_is_not_charged_twice() {
        let mut ledger = Ledger::new(Allowance::Ns(s(300)));
        ledger.open(at(0));
        assert_eq!(ledger.decide(at(0), s(20)), Ok(s(20)));
        // Five seconds later twenty more from then on: 25 in all.
        let until = at(5) + ledger.decide(at(5), s(20)).unwrap();
        ledger.close(until);
        assert_eq!(ledger.consumed(until), s(25));
    }

    proptest! {
        #[test]
        fn no_hour_costs_more_than_the_budget(
            budget in 0u64..1_200,
            steps in prop::collection::vec((1u64..900, 0u64..600, any::<bool>()), 1..120),
        ) {
            let mut ledger = Ledger::new(Allowance::Ns(s(budget)));
            let mut now = at(0);
            let mut until = Ts(0);
            let mut spans: Vec<Span> = Vec::new();
            let mut began = None;
            for (wait, want, early) in steps {
                let next = now + s(wait);
                if let Some(start) = began && (early || until <= next) {
                    let end = until.min(if early { now + s(wait / 2) } else { next });
                    ledger.close(end);
                    spans.push(Span::new(start, end));
                    began = None;
                }
                now = next;
                if let Ok(grant) = ledger.decide(now, s(want)) && want > 0 {
                    if began.is_none() {
                        ledger.open(now);
                        began = Some(now);
                        until = now + grant;
                    } else {
                        until = until.max(now + grant);
                    }
                }
            }
            if let Some(start) = began {
                spans.push(Span::new(start, until));
            }
            // Any hour that ends at the end of a window is a worst one.
            for end in spans.iter().map(|x| x.end) {
                let hour = Span::new(end - HOUR, end);
                let used: u64 = spans.iter().map(|x| x.clip(hour).len()).sum();
                prop_assert!(used <= s(budget), "{used} of {budget} s in the hour before {end:?}: {spans:?}");
            }
        }
    }
}
