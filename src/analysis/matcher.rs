//! A filter made ready for one catalog: names resolved, conditions on sessions decided once per session. Pure.

use super::filter::{Filter, Term};
use crate::trace::catalog::{EventNames, Named, Session};
use crate::trace::record::{QueryId, Record, SessionId};
use crate::trace::wait::WaitEvent;
use anyhow::{Result, bail};

/// A filter whose event names are resolved.
#[derive(Debug)]
pub struct Matcher {
    clauses: Vec<Clause>,
}

#[derive(Debug)]
struct Clause {
    exclude: bool,
    /// Conditions on the session alone.
    who: Vec<Term>,
    /// Conditions on the record.
    what: Vec<What>,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Class(crate::trace::wait::WaitClass),
    Event(WaitEvent),
    Query(QueryId),
    Nothing,
}

/// What the filter says about all records of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// They pass.
    All,
    /// None passes.
    None,
    /// It depends on the record; per clause, whether the session already satisfies one of its terms.
    Depends(Box<[bool]>),
}

impl Matcher {
    /// Prepares `filter`. An event name that the server's version does not have is an error that names the nearest ones.
    pub fn new(filter: &Filter, events: &EventNames) -> Result<Self> {
        let mut clauses = Vec::with_capacity(filter.clauses.len());
        for clause in &filter.clauses {
            let (mut who, mut what) = (Vec::new(), Vec::new());
            for term in &clause.any {
                match term {
                    Term::Class(class) => what.push(What::Class(*class)),
                    Term::Event(event) => what.push(What::Event(*event)),
                    Term::EventNamed(name) => what.push(resolve(name, events)?),
                    Term::Query(query) => what.push(What::Query(*query)),
                    session => who.push(session.clone()),
                }
            }
            clauses.push(Clause { exclude: clause.exclude, who, what });
        }
        Ok(Self { clauses })
    }

    /// Whether everything passes.
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Whether any condition is on what a session did rather than on who it is.
    pub fn looks_at_records(&self) -> bool {
        self.clauses.iter().any(|c| !c.what.is_empty())
    }

    /// Whether any condition is on the event or its class.
    pub fn looks_at_events(&self) -> bool {
        self.clauses.iter().flat_map(|c| &c.what).any(|what| matches!(what, What::Class(_) | What::Event(_)))
    }

    /// Whether events are chosen by name or class, not only left out.
    pub fn chooses_events(&self) -> bool {
        self.clauses.iter().filter(|c| !c.exclude).flat_map(|c| &c.what).any(|what| matches!(what, What::Class(_) | What::Event(_)))
    }

    /// What the filter says about a session.
    pub fn session(&self, id: SessionId, session: Option<&Session>) -> Verdict {
        let mut open = false;
        let mut met = Vec::with_capacity(self.clauses.len());
        for clause in &self.clauses {
            let hit = clause.who.iter().any(|term| is(term, id, session));
            met.push(hit);
            if !hit && !clause.what.is_empty() {
                open = true;
            } else if hit == clause.exclude {
                return Verdict::None;
            }
        }
        if open { Verdict::Depends(met.into()) } else { Verdict::All }
    }

    /// Whether a record passes, given its session's verdict.
    pub fn record(&self, verdict: &Verdict, record: &Record) -> bool {
        self.passes(verdict, record.event, record.query)
    }

    /// Whether an event in a query passes, given the session's verdict.
    pub fn passes(&self, verdict: &Verdict, event: WaitEvent, query: QueryId) -> bool {
        match verdict {
            Verdict::All => true,
            Verdict::None => false,
            Verdict::Depends(met) => self.clauses.iter().zip(met).all(|(clause, met)| {
                let hit = *met
                    || clause.what.iter().any(|what| match what {
                        What::Class(class) => event.class() == *class,
                        What::Event(wanted) => event == *wanted,
                        What::Query(wanted) => query == *wanted,
                        What::Nothing => false,
                    });
                hit != clause.exclude
            }),
        }
    }
}

fn resolve(name: &str, events: &EventNames) -> Result<What> {
    if let Some(event) = events.find(name) {
        return Ok(What::Event(event));
    }
    let near = events.nearest(name);
    if near.is_empty() {
        // Names are not known yet: nothing was recorded that could match.
        return Ok(What::Nothing);
    }
    bail!("unknown wait event '{}'; nearest: {}", name.escape_debug(), near.join(", "));
}

/// Whether a condition on sessions holds. A session the catalog does not know has only its id.
fn is(term: &Term, id: SessionId, session: Option<&Session>) -> bool {
    if let Term::Session(wanted) = term {
        return *wanted == id;
    }
    let Some(s) = session else { return false };
    match term {
        Term::Pid(pid) => s.pid == *pid || s.server_pid == *pid,
        Term::Database(name) => named(&s.database, name),
        Term::User(name) => named(&s.user, name),
        Term::Application(name) => *s.application == **name,
        Term::Client(address) => *s.client == **address || host(&s.client) == address,
        Term::Kind(kind) => s.kind == *kind,
        Term::Session(_) | Term::Class(_) | Term::Event(_) | Term::EventNamed(_) | Term::Query(_) => false,
    }
}

fn named(named: &Named, wanted: &str) -> bool {
    named.show() == wanted || (named.oid != 0 && wanted.strip_prefix("oid ").and_then(|n| n.parse().ok()) == Some(named.oid))
}

/// The address without the port: `10.0.0.5:41234`, `[::1]:41234` and `::1:41234` have hosts `10.0.0.5`, `::1` and `::1`.
fn host(client: &str) -> &str {
    let host = client.rsplit_once(':').map_or(client, |(host, _)| host);
    host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
}
