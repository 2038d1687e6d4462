//! Which query a sample belongs to, and the text of each query, told once.
//!
//! The id is the server's, where it computes ids. Where it does not (13 always, later ones without `compute_query_id`), it is a hash of the
//! text with literals removed, and the catalog says so.

use super::roster::Seen;
use crate::capture::{fingerprint, sys};
use crate::pg::server::{Attached, Doing, Status};
use crate::trace::catalog::{MAX_QUERIES, News, Query, TextSource, UnixMicros};
use crate::trace::record::{QueryId, SessionId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Statements seen without an id before it is certain that the server computes none.
const CERTAIN: u32 = 20;
/// How long a statement may run before it is certain that it gets no id of the server's: ids come with parse analysis. Microseconds.
pub const PARSED_BY: i64 = 200_000;

/// What is known about queries.
#[derive(Debug, Default)]
pub struct Queries {
    /// Ids whose text was told.
    told: FxHashSet<QueryId>,
    /// The statement each session runs, as far as it had to be read: its `query_start` and its id.
    running: FxHashMap<SessionId, (UnixMicros, QueryId)>,
    /// Ids of the server by text, for statements that wait before their id is known (lock waits in parse analysis).
    by_text: FxHashMap<i64, QueryId>,
    computes: Option<bool>,
    without: u32,
}

impl Queries {
    /// A server was attached.
    pub fn attached(&mut self, memory: &Attached, major: u16) {
        self.running.clear();
        self.by_text.clear();
        self.told.clear();
        self.without = 0;
        let seen = (0..memory.slots()).any(|slot| {
            let Some(process) = memory.proc(slot) else { return false };
            matches!(memory.brief(slot, process.pid), Status::Row(b) if b.query != 0)
        });
        self.computes = if major < 14 {
            Some(false)
        } else if seen || memory.memory().1.get("pg_stat_statements").is_some() {
            Some(true)
        } else {
            None
        };
    }

    /// Whether the server computes query ids; `None` while that is not certain.
    pub fn server_computes(&self) -> Option<bool> {
        self.computes
    }

    /// The query of one sample.
    pub fn of(&mut self, memory: &Attached, slot: usize, pid: i32, brief: &Doing, seen: Seen, news: &mut Vec<News>) -> QueryId {
        if brief.query != 0 {
            let id = QueryId(brief.query);
            self.computes = Some(true);
            if brief.state.in_command() && !self.told.contains(&id) {
                self.tell(memory, slot, pid, id, seen, news);
            }
            return id;
        }
        if !brief.state.in_command() {
            return self.running.get(&seen.session).map_or(QueryId::NONE, |(_, id)| *id);
        }
        if let Some((started, id)) = self.running.get(&seen.session)
            && *started == brief.activity_start
        {
            return *id;
        }
        let Some(id) = self.by_text(memory, slot, pid, brief, seen, news) else { return QueryId::NONE };
        if self.running.len() > 4 * memory.slots() {
            self.running.clear();
        }
        self.running.insert(seen.session, (brief.activity_start, id));
        id
    }

    /// An id was seen: tells its text if it is new.
    pub fn meet(&mut self, memory: &Attached, slot: usize, pid: i32, id: QueryId, seen: Seen, news: &mut Vec<News>) {
        self.computes = Some(true);
        if !self.told.contains(&id) {
            self.tell(memory, slot, pid, id, seen, news);
        }
    }

    /// The id of a statement the server shows no id for; `None` while it may still get one. `compute_query_id` is a matter of each session, so
    /// this is decided for each statement.
    fn by_text(&mut self, memory: &Attached, slot: usize, pid: i32, brief: &Doing, seen: Seen, news: &mut Vec<News>) -> Option<QueryId> {
        let Status::Row(activity) = memory.activity(slot, pid) else { return None };
        let text = (!activity.truncated).then(|| fingerprint::normalise(&activity.text)).flatten()?;
        let key = fingerprint::id(seen.database, seen.user, &text);
        if let Some(id) = self.by_text.get(&key) {
            return Some(*id);
        }
        let age = sys::clock().wall_ns / 1_000 - brief.activity_start;
        if self.computes != Some(false) && age < PARSED_BY {
            return None;
        }
        self.without += 1;
        if self.computes.is_none() && self.without >= CERTAIN {
            self.computes = Some(false);
        }
        Some(self.ours(key, text, news))
    }

    /// The query of a text for which the server shows no id.
    pub fn of_text(&mut self, text: &str, seen: Seen, news: &mut Vec<News>) -> QueryId {
        let Some(text) = fingerprint::normalise(text) else { return QueryId::NONE };
        let key = fingerprint::id(seen.database, seen.user, &text);
        self.by_text.get(&key).copied().unwrap_or_else(|| self.ours(key, text, news))
    }

    fn ours(&mut self, key: i64, text: String, news: &mut Vec<News>) -> QueryId {
        let id = QueryId(key);
        if !self.told.contains(&id) && self.remember(id) {
            news.push(News::Query(id, Query { text: text.into(), truncated: false, source: TextSource::Normalised }));
        }
        id
    }

    /// Tells the text of an id seen for the first time.
    fn tell(&mut self, memory: &Attached, slot: usize, pid: i32, id: QueryId, seen: Seen, news: &mut Vec<News>) {
        let Status::Row(activity) = memory.activity(slot, pid) else { return };
        // The statement may have changed between the two readings: then the next tick tries again.
        if activity.query != id || activity.text.is_empty() || !self.remember(id) {
            return;
        }
        if !activity.truncated
            && let Some(text) = fingerprint::normalise(&activity.text)
        {
            self.by_text.insert(fingerprint::id(seen.database, seen.user, &text), id);
        }
        news.push(News::Query(id, Query { text: activity.text, truncated: activity.truncated, source: TextSource::Raw }));
    }

    /// Whether an id is new. Memory is bounded: beyond the limit everything is told anew, which costs time, not truth.
    fn remember(&mut self, id: QueryId) -> bool {
        if self.told.len() >= MAX_QUERIES {
            self.told.clear();
            self.by_text.clear();
        }
        self.told.insert(id)
    }
}
