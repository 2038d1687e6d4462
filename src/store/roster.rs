//! Sessions across files: one (pid, start time) is one [`SessionId`], whichever run of the recorder wrote of it and under whatever number.

use crate::trace::record::SessionId;
use rustc_hash::FxHashMap;

/// Ids of sessions of all files.
#[derive(Debug, Default)]
pub struct Roster {
    numbers: FxHashMap<(u64, u32), SessionId>,
    people: FxHashMap<(i32, i64), SessionId>,
}

impl Roster {
    /// The session that a run calls `number`.
    pub fn id(&mut self, run: u64, number: SessionId) -> SessionId {
        let next = SessionId(self.numbers.len() as u32 + 1);
        *self.numbers.entry((run, number.0)).or_insert(next)
    }

    /// The same, where its process id and start (0: not known) are told.
    pub fn introduce(&mut self, run: u64, number: SessionId, pid: i32, started: i64) -> SessionId {
        if started == 0 {
            return self.id(run, number);
        }
        if let Some(known) = self.people.get(&(pid, started)) {
            return *self.numbers.entry((run, number.0)).or_insert(*known);
        }
        let id = self.id(run, number);
        self.people.insert((pid, started), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_in_two_runs_is_one_and_a_reused_pid_is_another() {
        let mut r = Roster::default();
        let a = r.introduce(1, SessionId(5), 100, 777);
        assert_eq!(r.introduce(2, SessionId(9), 100, 777), a);
        assert_eq!((r.id(1, SessionId(5)), r.id(2, SessionId(9))), (a, a));
        assert_ne!(r.introduce(2, SessionId(5), 100, 888), a);
        assert_ne!(r.introduce(2, SessionId(6), 100, 0), a);
    }
}
