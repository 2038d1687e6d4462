//! What a window borrows from the sampler while it works: the server's memory, who is who, which query is which.

use super::queries::Queries;
use super::roster::{Roster, Seen};
use crate::capture::window::Shown;
use crate::pg::server::{Attached, Brief, Doing, Status};
use crate::trace::catalog::{BackendKind, News, UnixMicros};
use crate::trace::record::{QueryId, SessionId, State};

/// Borrowed for one call.
#[derive(Debug)]
pub struct Hands<'a> {
    /// The server.
    pub memory: &'a Attached,
    pub(super) roster: &'a mut Roster,
    pub(super) queries: &'a mut Queries,
}

fn shown(brief: &Brief) -> Shown {
    Shown {
        seen: true,
        state: brief.state,
        query: QueryId(brief.query),
        activity_start: brief.activity_start,
        state_start: brief.state_change,
    }
}

impl Hands<'_> {
    /// Who sits in a slot, as a session of the trace, and what it shows.
    pub fn meet(&mut self, slot: usize, pid: i32, news: &mut Vec<News>) -> (SessionId, Shown, Seen) {
        let brief = self.memory.brief(slot, pid).row();
        self.roster.room(self.memory.slots());
        let seen = self.roster.see(self.memory, slot, pid, brief.as_ref(), news);
        (seen.session, brief.as_ref().map_or_else(Shown::default, shown), seen)
    }

    /// What kind of process it is.
    pub fn kind(&self, slot: usize, pid: i32) -> BackendKind {
        self.memory.brief(slot, pid).row().map_or(BackendKind::Unknown, |b| b.kind)
    }

    /// What it shows now.
    pub fn shown(&self, slot: usize, pid: i32) -> Shown {
        self.memory.brief(slot, pid).row().as_ref().map_or_else(Shown::default, shown)
    }

    /// Whether a process of the host lives.
    pub fn lives(&self, host: i32) -> bool {
        self.memory.lives(host)
    }

    /// Whether the server computes query ids. Until that is certain: yes.
    pub fn server_computes_ids(&self) -> bool {
        self.queries.server_computes() != Some(false)
    }

    /// Tells the text of a query, if it is new and still there to be read.
    pub fn tell_query(&mut self, slot: usize, pid: i32, id: QueryId, seen: Seen, news: &mut Vec<News>) {
        self.queries.meet(self.memory, slot, pid, id, seen, news);
    }

    /// The text of the command that began at `began`, if it is whole and still shown, and shows no id.
    pub fn text(&self, slot: usize, pid: i32, began: UnixMicros) -> Option<String> {
        let Status::Row(activity) = self.memory.activity(slot, pid) else { return None };
        let usable = activity.query_start == began && activity.query == QueryId::NONE && !activity.truncated && !activity.text.is_empty();
        usable.then(|| activity.text.to_string())
    }

    /// The query of a text, by its normalised form.
    pub fn query_of_text(&mut self, text: &str, seen: Seen, news: &mut Vec<News>) -> QueryId {
        self.queries.of_text(text, seen, news)
    }

    /// The query of a command that shows no id: by its text, while that can be read. `None`: not decided yet.
    pub fn query_by_text(&mut self, slot: usize, pid: i32, began: UnixMicros, seen: Seen, news: &mut Vec<News>) -> Option<QueryId> {
        match self.memory.brief(slot, pid) {
            Status::Row(brief) if brief.activity_start == began && brief.query != 0 => Some(QueryId(brief.query)),
            Status::Row(brief) if brief.activity_start == began => {
                // A query is settled by its text only: `of` looks at the command that is open.
                let open = Doing { state: State::Active, ..brief.doing() };
                let id = self.queries.of(self.memory, slot, pid, &open, seen, news);
                (id != QueryId::NONE || !brief.state.in_command()).then_some(id)
            }
            Status::Unreadable => None,
            _ => Some(QueryId::NONE),
        }
    }
}
