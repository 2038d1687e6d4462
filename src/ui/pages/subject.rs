//! What a row is about: the term it adds to the filter, its step in the breadcrumb, what can be copied of it.

use crate::analysis::answer::{Sql, Who};
use crate::analysis::filter::Term;
use crate::trace::record::QueryId;
use crate::trace::wait::{WaitClass, WaitEvent};
use std::borrow::Cow;

/// What a row is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// All load.
    Everything,
    /// All idle time.
    Idle,
    /// A wait class.
    Class(WaitClass, String),
    /// A wait event.
    Event(WaitEvent, String),
    /// A session, with the SQL it runs or ran last when known.
    Session(Box<Who>, Option<Box<Sql>>),
    /// A query.
    Query(Box<Sql>),
}

impl Subject {
    /// The condition that selects it.
    pub fn term(&self) -> Option<Term> {
        match self {
            Self::Everything | Self::Idle => None,
            Self::Class(class, _) => Some(Term::Class(*class)),
            Self::Event(event, _) => Some(Term::Event(*event)),
            Self::Session(who, _) => Some(Term::Session(who.session)),
            Self::Query(sql) => Some(Term::Query(sql.query)),
        }
    }

    /// Its step in the breadcrumb.
    pub fn label(&self) -> String {
        match self {
            Self::Everything => "DB Time".into(),
            Self::Idle => "Idle".into(),
            Self::Class(_, name) | Self::Event(_, name) => name.clone(),
            Self::Session(who, _) => session(who),
            Self::Query(sql) => query(sql),
        }
    }

    /// What copying its id copies.
    pub fn id(&self) -> String {
        match self {
            Self::Everything | Self::Idle | Self::Class(..) | Self::Event(..) => self.label(),
            Self::Session(who, _) => who.pid.to_string(),
            Self::Query(sql) => sql.query.to_string(),
        }
    }

    /// Its SQL text, when known.
    pub fn sql(&self) -> Option<&Sql> {
        match self {
            Self::Session(_, sql) => sql.as_deref(),
            Self::Query(sql) => Some(&**sql),
            _ => None,
        }
        .filter(|sql| !sql.text.is_empty())
    }
}

/// `pid 4711 (app@shop)`, or `pid 4711 (checkpointer)`.
fn session(who: &Who) -> String {
    let (user, database) = (who.user.show(), who.database.show());
    let of: Cow<'_, str> = match (user.is_empty(), database.is_empty()) {
        (true, true) => who.kind.name().into(),
        (false, true) => user,
        (true, false) => format!("@{database}").into(),
        (false, false) => format!("{user}@{database}").into(),
    };
    format!("pid {} ({of})", who.pid)
}

/// `query -4185925123159566327`, or `no query`.
fn query(sql: &Sql) -> String {
    if sql.query == QueryId::NONE { "no query id".into() } else { format!("query {}", sql.query) }
}
