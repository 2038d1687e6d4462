//! Which rows count. A filter is a list of clauses that must all hold; a clause is a list of terms of which one must hold.

mod text;

use crate::trace::catalog::BackendKind;
use crate::trace::record::{QueryId, SessionId};
use crate::trace::wait::{WaitClass, WaitEvent};
use serde::{Deserialize, Serialize};

/// One condition on a record or its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// The wait class.
    Class(WaitClass),
    /// The event, by value.
    Event(WaitEvent),
    /// The event, by name as a user wrote it; resolved when the question is answered.
    EventNamed(String),
    /// One session.
    Session(SessionId),
    /// All sessions with this process id (as the recorder or the server knows it).
    Pid(i32),
    /// The query. `QueryId::NONE` selects load without a known query.
    Query(QueryId),
    /// Database name, or `oid N`.
    Database(String),
    /// User name, or `oid N`.
    User(String),
    /// Application name.
    Application(String),
    /// Client address, without the port.
    Client(String),
    /// Backend kind.
    Kind(BackendKind),
}

/// Any of these terms, or none of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clause {
    /// Whether rows that match are left out instead.
    #[serde(default)]
    pub exclude: bool,
    /// At least one.
    pub any: Vec<Term>,
}

/// All of these clauses. Empty: everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Filter {
    /// In the order they were added: the breadcrumb.
    pub clauses: Vec<Clause>,
}

impl Filter {
    /// The filter with one more clause of one term.
    #[must_use]
    pub fn and(mut self, term: Term) -> Self {
        self.clauses.push(Clause { exclude: false, any: vec![term] });
        self
    }

    /// Whether everything passes.
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty()
    }
}
