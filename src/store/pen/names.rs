//! Which names a file already holds, and which it needs before the blocks that come next.

use crate::trace::block::Block;
use crate::trace::catalog::{Catalog, News};
use crate::trace::clock::{SECOND, Ts};
use crate::trace::record::{QueryId, SessionId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// How often at most it is written what one session does by its own account. Its records say more often what query it was in.
const ACTIVITY: u64 = 10 * SECOND;
/// In a transaction, what has not changed for so long is written at once: it may go on for long, and its text says more than that of its query id.
const SETTLED: u64 = SECOND;

/// Names that came since the last flush.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    /// The server, its events: few, and written as they come.
    server: Vec<News>,
    /// Sessions of which something is known that was not.
    sessions: FxHashSet<SessionId>,
    queries: FxHashSet<QueryId>,
    /// Those whose account changed, and since when it stands (0: since the flush to come).
    active: FxHashMap<SessionId, Ts>,
    gone: Vec<SessionId>,
    /// Written as gone, and still in the catalog for records that are on their way.
    leaving: Vec<(SessionId, Ts)>,
}

impl Fresh {
    pub(super) fn note(&mut self, news: &News) {
        match news {
            News::Server(_) | News::Events(_) | News::Event(..) => self.server.push(news.clone()),
            News::Session(id, _) => {
                self.sessions.insert(*id);
            }
            News::Activity(id, _) => {
                self.active.insert(*id, Ts(0));
            }
            News::Gone(id) => self.gone.push(*id),
            News::Query(id, _) => {
                self.queries.insert(*id);
            }
        }
    }
}

/// Names a file holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// Whether the server and its events are among them.
    server: bool,
    sessions: FxHashMap<SessionId, Ts>,
    queries: FxHashSet<QueryId>,
}

impl Known {
    /// What the file must be told before some blocks.
    pub(super) fn news<'a>(
        &mut self,
        catalog: &Catalog,
        fresh: &mut Fresh,
        blocks: impl Iterator<Item = &'a Arc<Block>> + Clone,
        now: Ts,
    ) -> Vec<News> {
        let told = std::mem::take(&mut fresh.server);
        let begins = !std::mem::replace(&mut self.server, true);
        let mut out = if begins { vec![News::Server(catalog.server.clone()), News::Events(catalog.events.clone())] } else { told };
        let changed = std::mem::take(&mut fresh.sessions);
        let mut session = |id: SessionId, known: &mut Self| {
            let new = !known.sessions.contains_key(&id);
            if (new || changed.contains(&id))
                && let Some(s) = catalog.sessions.get(&id)
            {
                known.sessions.insert(id, now);
                out.push(News::Session(id, Box::new(s.clone())));
            }
        };
        for block in blocks.clone() {
            let mut last = None;
            let others = block.marks().iter().map(|m| m.session).chain(block.blind().iter().map(|b| b.session));
            for id in block.sessions().iter().copied().chain(others) {
                if last != Some(id) && !self.sessions.contains_key(&id) {
                    session(id, self);
                }
                last = Some(id);
            }
        }
        let mut again: Vec<SessionId> = changed.iter().copied().filter(|id| self.sessions.get(id).is_some_and(|at| *at != now)).collect();
        again.sort_unstable();
        for id in again {
            session(id, self);
        }
        let renamed = std::mem::take(&mut fresh.queries);
        for block in blocks {
            let mut last = QueryId::NONE;
            for id in block.queries().iter().copied().chain(block.marks().iter().map(|m| m.query)) {
                if id != last
                    && id != QueryId::NONE
                    && (!self.queries.contains(&id) || renamed.contains(&id))
                    && let Some(q) = catalog.queries.get(&id)
                    && self.queries.insert(id)
                {
                    out.push(News::Query(id, q.clone()));
                }
                last = id;
            }
        }
        let mut due = Vec::new();
        for (id, since) in &mut fresh.active {
            if *since == Ts(0) {
                *since = now;
            }
            let (Some(told), Some(s)) = (self.sessions.get_mut(id), catalog.sessions.get(id)) else { continue };
            let settled = s.activity.xact_start != 0 && now.since(*since) >= SETTLED;
            if settled || now.since(*told) >= ACTIVITY {
                *told = now;
                due.push((*id, s.activity.clone()));
            }
        }
        due.sort_unstable_by_key(|(id, _)| *id);
        for (id, activity) in due {
            fresh.active.remove(&id);
            out.push(News::Activity(id, activity));
        }
        for id in std::mem::take(&mut fresh.gone) {
            if self.sessions.contains_key(&id) {
                out.push(News::Gone(id));
            }
            fresh.leaving.push((id, now));
        }
        out
    }
}

/// Forgets sessions that ended and that no record to come can speak of.
pub(super) fn forget(catalog: &mut Catalog, fresh: &mut Fresh, now: Ts) {
    fresh.leaving.retain(|(id, at)| {
        let stays = now.since(*at) < 2 * SECOND;
        if !stays {
            catalog.sessions.remove(id);
            fresh.active.remove(id);
        }
        stays
    });
}
