//! Tells the first of many: what comes again and again within seconds is one episode.

use crate::capture::anomaly::Rule;
use crate::trace::clock::{SECOND, Ts};

/// What comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A fire that the budget denies.
    Denied,
    /// A fire in the cooldown.
    Cooldown,
    /// A rule that is about to fire.
    Near(Rule),
}

impl What {
    fn place(self) -> usize {
        match self {
            Self::Denied => 0,
            Self::Cooldown => 1,
            Self::Near(Rule::Aas) => 2,
            Self::Near(Rule::Lock) => 3,
            Self::Near(Rule::Cpu) => 4,
        }
    }
}

/// Quiet for so long, and it is another episode.
const APART: u64 = 10 * SECOND;

/// When each was last seen.
#[derive(Debug, Default)]
pub struct Episodes([Option<Ts>; 5]);

impl Episodes {
    /// It was seen at `at`. True: an episode begins.
    pub fn begins(&mut self, what: What, at: Ts) -> bool {
        let Some(last) = self.0.get_mut(what.place()) else { return false };
        last.replace(at).is_none_or(|before| at.since(before) > APART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_many_and_the_first_after_a_pause() {
        let mut episodes = Episodes::default();
        let begins: Vec<u64> =
            (0..600u64).filter(|s| !(100..120).contains(s)).filter(|s| episodes.begins(What::Denied, Ts(s * SECOND))).collect();
        assert_eq!(begins, [0, 120]);
        assert!(episodes.begins(What::Near(Rule::Cpu), Ts(600 * SECOND)));
    }
}
