//! What sessions said of their own times at a past instant.

use super::Dir;
use crate::store::file::Hole;
use crate::trace::clock::{SECOND, Span, Ts};
use crate::trace::codec::times::read_times;
use crate::trace::record::SessionId;
use crate::trace::times::{Accounts, Times};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// Everybody's times stand in a recording at least this often, and a while for what was late.
const BACK: u64 = 70 * SECOND;

impl Dir {
    /// The times of all sessions at an instant, as far as they are known. What was told before holds until it was told that it changed; what was
    /// told of the stretch around the instant holds as far as it had begun.
    pub(super) fn times_at(&self, at: Ts) -> FxHashMap<SessionId, Times> {
        let window = Span { start: at - BACK, end: at };
        let mut told: Vec<(Span, u32, u64)> = Vec::new();
        for entry in self.files.iter().filter(|e| e.span().touches(window)) {
            let index = self.index(entry);
            let near = index.times.iter().map(|g| (entry.shift(g.span), entry.id, g.offset));
            told.extend(near.filter(|(span, ..)| span.end > window.start && span.start < at));
        }
        told.sort_unstable_by_key(|(span, file, offset)| (span.end, *file, *offset));
        let (before, around) = told.split_at(told.partition_point(|(span, ..)| span.end < at));
        let mut now: FxHashMap<SessionId, Option<Times>> = FxHashMap::default();
        let wall = (at.0 / 1_000) as i64;
        for (_, file, offset) in around {
            for (session, times) in self.accounts(*file, *offset).entries {
                if let Entry::Vacant(free) = now.entry(session) {
                    free.insert(times);
                }
            }
        }
        for (_, file, offset) in before.iter().rev() {
            let accounts = self.accounts(*file, *offset);
            for (session, times) in accounts.entries {
                now.entry(session).or_insert(times);
            }
            if accounts.all {
                break;
            }
        }
        now.into_iter().filter_map(|(session, times)| Some((session, times?.by(wall)))).collect()
    }

    /// One block of them. A damaged one tells nothing, and is a hole: of nobody is it known then what came after it, until everybody is told of again.
    fn accounts(&self, file: u32, offset: u64) -> Accounts {
        let nothing = || Accounts { all: true, ..Accounts::default() };
        let Some(entry) = self.files.iter().find(|e| e.id == file) else { return nothing() };
        let index = self.index(entry);
        let Some(group) = index.times.iter().find(|g| g.offset == offset) else { return nothing() };
        let mut inner = self.inner();
        match entry.file.note(*group, read_times) {
            Ok(mut accounts) => {
                let run = entry.run(&index);
                accounts.entries.iter_mut().for_each(|(session, _)| *session = inner.roster.id(run, *session));
                accounts
            }
            Err(why) => {
                let hole = Hole { span: group.span, why: format!("the times of sessions at byte {offset}: {why}") };
                inner.broken.insert((file, offset), hole);
                nothing()
            }
        }
    }
}
