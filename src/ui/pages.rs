//! What the pages show. A page is the question it asks and the columns its rows have; everything else is the same for all of them.
//!
//! A row of an answer is drawn as it is: columns are functions from the row to a cell, and there is no second set of display structs.

pub mod active;
pub mod column;
pub mod events;
pub mod flow;
pub mod latency;
pub mod queries;
pub mod sessions;
pub mod subject;
pub mod time;

use crate::analysis::answer::{Answer, Body, ModelKey};
use crate::analysis::question::Ask;
use crate::trace::record::{QueryId, SessionId};
use crate::trace::wait::WaitEvent;
use column::Column;
use subject::Subject;

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Page {
    /// Time model.
    Time,
    /// Wait events.
    Events,
    /// Sessions.
    Sessions,
    /// Queries.
    Queries,
    /// How long waits were.
    Latency,
    /// What followed what.
    Flow,
    /// What every session is doing right now.
    Active,
    /// How the recorder itself is doing.
    Health,
}

impl Page {
    /// In the order of the tab bar. The keys 7 to 9 and 0 are kept for pages to come.
    pub const ALL: [Self; 8] =
        [Self::Time, Self::Events, Self::Sessions, Self::Queries, Self::Latency, Self::Flow, Self::Active, Self::Health];

    /// Position in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The page that many tabs further, around the ends.
    #[must_use]
    pub fn step(self, by: isize) -> Self {
        let n = Self::ALL.len() as isize;
        let i = (self.index() as isize + by).rem_euclid(n);
        Self::ALL.get(i as usize).copied().unwrap_or(self)
    }

    /// The tab's word.
    pub fn title(self) -> &'static str {
        match self {
            Self::Time => "Time",
            Self::Events => "Events",
            Self::Sessions => "Sessions",
            Self::Queries => "Queries",
            Self::Latency => "Latency",
            Self::Flow => "Flow",
            Self::Active => "Active",
            Self::Health => "Health",
        }
    }

    /// The question it asks; `columns` is how many points over time it has room for, where it shows some.
    pub fn ask(self, columns: u16) -> Ask {
        match self {
            Self::Time => Ask::TimeModel,
            Self::Events => Ask::Events,
            Self::Sessions => Ask::Sessions,
            Self::Queries => Ask::Queries,
            Self::Latency => Ask::Latency { buckets: columns.max(1) },
            Self::Flow => Ask::Flow,
            Self::Active => Ask::Active,
            Self::Health => Ask::Load { buckets: 1 },
        }
    }

    /// What the page is, for its help.
    pub fn about(self) -> &'static str {
        match self {
            Self::Time => {
                "Where the time of all sessions went: DB Time, CPU* first, then the wait classes with their events, largest first. Idle time \
                 (waiting for the next command, main loops of background processes, pacing sleeps) is no load: it stands apart at the end."
            }
            Self::Events => "Wait events by time. The load bar is coloured by wait class; its full length is the largest row.",
            Self::Sessions => "Sessions by load: where each one spent its time. A process id that was reused is another session.",
            Self::Queries => {
                "Queries by load. The id is the server's own, signed 64 bits, and the key to pg_stat_statements. Load without a known query is one \
                 row without an id. An id with a star is not the server's (it computes none) but a hash of the text without its literals."
            }
            Self::Latency => {
                "How long waits were, and when: every wait that ended in an exact or blocking stretch of the window, by powers of two. Samples say \
                 nothing about single waits, so without such a stretch there is nothing here: e opens a window. All waits that are load; with \
                 a filter on an event, also idle ones. Beside or below, where there is room: time runs to the right, a darker cell holds more waits."
            }
            Self::Flow => {
                "What followed what in single sessions: in the middle the selected event, on its left what came before it, on its right what came \
                 after, with widths by count, or by the time spent before the step (m); avg stay is the mean of that time. Up and down choose, left and right change the column; Enter \
                 puts a neighbour into the middle, and goes into the event that is there already. v shows all as a matrix: the row's event was \
                 followed by the column's in so many percent. Exact and blocking stretches only: e opens a window."
            }
            Self::Active => {
                "What every session was doing at the last tick of the window: waiting first, then on CPU, longest first. Dimmed SQL has ended: \
                 it is the last command of a session that is idle or idle in a transaction."
            }
            Self::Health => {
                "How the recorder itself is doing: which windows opened and closed and which rules asked for them, in the window of the chart; what an \
                 open window costs; how much of the hour's budget is left and what the rules have learned; what the program uses and what was lost."
            }
        }
    }
}

/// What a row stands for: the selection follows it when rows change places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowKey {
    /// A row of the time model.
    Model(ModelKey),
    /// A wait event.
    Event(WaitEvent),
    /// A session.
    Session(SessionId),
    /// A query.
    Query(QueryId),
}

/// A row of an answer that can be shown in a table.
pub trait Row: Sized + 'static {
    /// Its columns, from left to right.
    const COLUMNS: &'static [Column<Self>];
    /// The column that answers are ordered by, when there is one.
    const ORDERED: Option<&'static str>;
    /// What it stands for.
    fn key(&self) -> RowKey;
    /// What it is about: where Enter leads and what the detail panel describes.
    fn subject(&self) -> Subject;
    /// Whether it is hidden while idle things are.
    fn is_idle(&self) -> bool;
    /// Calls `look` with every text a user may search for in it.
    fn texts(&self, look: &mut dyn FnMut(&str));
    /// Rows stay together by this, before any order.
    fn group(&self) -> u8 {
        0
    }
    /// Whether it says nothing that another row does not.
    fn is_redundant(&self) -> bool {
        false
    }
    /// Its load, nanoseconds.
    fn load_ns(&self) -> u64;
    /// Share of DB Time, for the load bar.
    fn share(&self) -> Option<f64>;
}

/// Evaluates `$use` with `$rows` bound to the rows of an answer's body, or `$none` when the body is no table.
macro_rules! with_rows {
    ($body:expr, $rows:ident => $use:expr, $none:expr) => {
        match $body {
            $crate::analysis::answer::Body::TimeModel(model) => {
                let $rows = model.rows.as_slice();
                $use
            }
            $crate::analysis::answer::Body::Events { events } => {
                let $rows = events.as_slice();
                $use
            }
            $crate::analysis::answer::Body::Sessions { sessions } => {
                let $rows = sessions.as_slice();
                $use
            }
            $crate::analysis::answer::Body::Queries { queries } => {
                let $rows = queries.as_slice();
                $use
            }
            $crate::analysis::answer::Body::Active { active, .. } => {
                let $rows = active.as_slice();
                $use
            }
            _ => $none,
        }
    };
}

pub(crate) use with_rows;

/// What is about the row at `index` of the answer.
pub fn subject(answer: &Answer, index: usize) -> Option<Subject> {
    if let Body::Flow(flow) = &answer.body {
        return flow.nodes.get(index).map(|n| Subject::Event(n.event, n.name.clone()));
    }
    with_rows!(&answer.body, rows => rows.get(index).map(Row::subject), None)
}

/// Load of the row at `index` of the answer, nanoseconds.
pub fn load_ns(answer: &Answer, index: usize) -> u64 {
    if let Body::Flow(flow) = &answer.body {
        return flow.nodes.get(index).map_or(0, |n| n.time_ns);
    }
    with_rows!(&answer.body, rows => rows.get(index).map_or(0, Row::load_ns), 0)
}

/// What the row at `index` of the answer stands for.
pub fn key(answer: &Answer, index: usize) -> Option<RowKey> {
    if let Body::Flow(flow) = &answer.body {
        return flow.nodes.get(index).map(|n| RowKey::Event(n.event));
    }
    with_rows!(&answer.body, rows => rows.get(index).map(Row::key), None)
}
