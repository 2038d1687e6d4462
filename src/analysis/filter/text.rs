//! The filter as a user writes it: clauses with spaces between them, all of which must hold.
//!
//! ```text
//! class=Lock,LWLock  event!=Lock:relation  db=shop  app="nightly job"  query=-42      a list is "any of these", != is "none of these"
//! Lock   LWLock:WALInsert   4711   !IO                                                 class, event, pid (or query id); ! is "not"
//! ```
//!
//! What is printed parses back to the same filter. Pure.

use super::{Clause, Filter, Term};
use crate::trace::catalog::{BackendKind, EventNames};
use crate::trace::record::{QueryId, SessionId};
use crate::trace::wait::{WaitClass, WaitEvent};
use std::fmt::{Display, Formatter, Result as Fmt};
use std::iter::Peekable;
use std::str::Chars;

/// Keys as printed, with their other spellings.
const KEYS: [(Key, &[&str]); 10] = [
    (Key::Class, &["class"]),
    (Key::Event, &["event", "wait"]),
    (Key::Session, &["session"]),
    (Key::Pid, &["pid"]),
    (Key::Query, &["query", "query_id", "queryid"]),
    (Key::Database, &["db", "database", "datname"]),
    (Key::User, &["user", "usename"]),
    (Key::Application, &["app", "application", "application_name"]),
    (Key::Client, &["client", "client_addr"]),
    (Key::Kind, &["kind", "type", "backend_type"]),
];

/// Highest process id Linux gives; a larger bare number is a query id.
const MAX_PID: i64 = 1 << 22;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Class,
    Event,
    Session,
    Pid,
    Query,
    Database,
    User,
    Application,
    Client,
    Kind,
}

impl Key {
    fn name(self) -> &'static str {
        KEYS.iter().find(|(key, _)| *key == self).and_then(|(_, names)| names.first()).unwrap_or(&"")
    }

    fn parse(text: &str) -> Result<Self, String> {
        let all = || KEYS.iter().flat_map(|(key, names)| names.iter().map(|n| (*key, *n)));
        all().find(|(_, name)| name.eq_ignore_ascii_case(text)).map(|(key, _)| key).ok_or_else(|| {
            let near = nearest(text, all().map(|(_, name)| name));
            format!("unknown key '{}'; nearest: {near} (a value that holds = goes into double quotes)", text.escape_debug())
        })
    }
}

/// One value of a clause, before it is understood.
struct Piece {
    key: Option<(String, bool)>,
    value: String,
    quoted: bool,
}

impl Filter {
    /// Reads what a user wrote. An error is one line that names the bad part and what would be valid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut clauses = Vec::new();
        let mut chars = text.chars().peekable();
        loop {
            while chars.next_if(|c| c.is_whitespace()).is_some() {}
            if chars.peek().is_none() {
                return Ok(Self { clauses });
            }
            clauses.push(clause(&mut chars)?);
        }
    }
}

impl std::str::FromStr for Filter {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

fn clause(chars: &mut Peekable<Chars<'_>>) -> Result<Clause, String> {
    let (mut any, mut key, mut exclude) = (Vec::new(), None, None);
    loop {
        let mut piece = piece(chars)?;
        let not = match &piece.key {
            Some((name, not)) => {
                key = Some(Key::parse(name)?);
                Some(*not)
            }
            None if key.is_none() && !piece.quoted && piece.value.starts_with('!') => {
                piece.value.remove(0);
                Some(true)
            }
            None if key.is_none() => Some(exclude.unwrap_or(false)),
            None => None,
        };
        if let Some(not) = not
            && *exclude.get_or_insert(not) != not
        {
            return Err(format!("'{}': one list cannot be both = and !=; put a space between the clauses", piece.value.escape_debug()));
        }
        any.push(match key {
            Some(key) => term(key, &piece)?,
            None => bare(&piece.value)?,
        });
        if chars.next_if_eq(&',').is_none() {
            return Ok(Clause { exclude: exclude.unwrap_or(false), any });
        }
    }
}

/// Reads up to the comma or the space behind one value.
fn piece(chars: &mut Peekable<Chars<'_>>) -> Result<Piece, String> {
    let mut piece = Piece { key: None, value: String::new(), quoted: false };
    while let Some(c) = chars.next_if(|c| *c != ',' && !c.is_whitespace()) {
        match c {
            '"' if piece.value.is_empty() && !piece.quoted => {
                piece.quoted = true;
                quoted(chars, &mut piece.value)?;
                if let Some(c) = chars.peek()
                    && *c != ','
                    && !c.is_whitespace()
                {
                    return Err(format!("there must be a space or a comma behind \"{}\"", piece.value.escape_debug()));
                }
            }
            '=' if piece.key.is_none() => {
                let mut name = std::mem::take(&mut piece.value);
                let not = name.ends_with('!');
                name.truncate(name.len() - usize::from(not));
                piece.key = Some((name, not));
            }
            c => piece.value.push(c),
        }
    }
    Ok(piece)
}

fn quoted(chars: &mut Peekable<Chars<'_>>, value: &mut String) -> Result<(), String> {
    while let Some(c) = chars.next() {
        match c {
            '"' => return Ok(()),
            '\\' => value.extend(chars.next()),
            c => value.push(c),
        }
    }
    Err(format!("the quote before '{}' is not closed", value.escape_debug()))
}

fn term(key: Key, piece: &Piece) -> Result<Term, String> {
    let text = piece.value.as_str();
    let number = || text.parse::<i64>().map_err(|_| format!("{}='{}' is not a number", key.name(), text.escape_debug()));
    Ok(match key {
        Key::Class => Term::Class(WaitClass::parse(text).ok_or_else(|| unknown_class(text))?),
        Key::Event => match text.strip_prefix("0x").filter(|_| !piece.quoted) {
            Some(hex) => Term::Event(WaitEvent(
                u32::from_str_radix(hex, 16).map_err(|_| format!("event='{}' is not a 32-bit id", text.escape_debug()))?,
            )),
            None => Term::EventNamed(text.to_owned()),
        },
        Key::Session => Term::Session(SessionId(number()?.try_into().map_err(|_| format!("session='{text}' is out of range"))?)),
        Key::Pid => Term::Pid(number()?.try_into().map_err(|_| format!("pid='{text}' is out of range"))?),
        Key::Query if text.eq_ignore_ascii_case("none") => Term::Query(QueryId::NONE),
        Key::Query => Term::Query(QueryId::parse(text).ok_or_else(|| {
            format!(
                "query='{}' is not a query id (signed, unsigned or 0x hexadecimal, 64 bits; none for load without one)",
                text.escape_debug()
            )
        })?),
        Key::Database => Term::Database(text.to_owned()),
        Key::User => Term::User(text.to_owned()),
        Key::Application => Term::Application(text.to_owned()),
        Key::Client => Term::Client(text.to_owned()),
        Key::Kind => Term::Kind(kind(text)?),
    })
}

/// A word without a key: a class, an event, a process id or a query id.
fn bare(text: &str) -> Result<Term, String> {
    if let Some(class) = WaitClass::parse(text) {
        return Ok(Term::Class(class));
    }
    if let Some(id) = QueryId::parse(text) {
        return Ok(if (1..=MAX_PID).contains(&id.0) && !text.starts_with("0x") { Term::Pid(id.0 as i32) } else { Term::Query(id) });
    }
    if let Some((class, _)) = text.split_once(':') {
        return if WaitClass::parse(class).is_some() { Ok(Term::EventNamed(text.to_owned())) } else { Err(unknown_class(class)) };
    }
    let keys = KEYS.iter().filter_map(|(_, names)| names.first());
    let near = nearest(text, WaitClass::ALL.iter().map(|c| c.name()).chain(keys.copied()));
    Err(format!("'{}' is no wait class, Class:Event, pid or query id, and has no key= before it; nearest: {near}", text.escape_debug()))
}

fn unknown_class(text: &str) -> String {
    let near = nearest(text, WaitClass::ALL.iter().map(|c| c.name()));
    format!("unknown wait class '{}'; nearest: {near}", text.escape_debug())
}

fn kind(text: &str) -> Result<BackendKind, String> {
    let is = |k: &BackendKind| k.short().eq_ignore_ascii_case(text) || k.name().eq_ignore_ascii_case(text);
    BackendKind::ALL.into_iter().find(is).ok_or_else(|| {
        let near = nearest(text, BackendKind::ALL.iter().map(|k| k.short()));
        format!("unknown backend kind '{}'; nearest: {near}", text.escape_debug())
    })
}

/// The candidate most like `text`.
fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> &'a str {
    let text = text.to_lowercase();
    let score = |c: &str| strsim::jaro_winkler(&text, &c.to_lowercase());
    candidates.max_by(|a, b| score(a).total_cmp(&score(b)).then_with(|| b.cmp(a))).unwrap_or_default()
}

impl Term {
    fn key(&self) -> Key {
        match self {
            Self::Class(_) => Key::Class,
            Self::Event(_) | Self::EventNamed(_) => Key::Event,
            Self::Session(_) => Key::Session,
            Self::Pid(_) => Key::Pid,
            Self::Query(_) => Key::Query,
            Self::Database(_) => Key::Database,
            Self::User(_) => Key::User,
            Self::Application(_) => Key::Application,
            Self::Client(_) => Key::Client,
            Self::Kind(_) => Key::Kind,
        }
    }

    /// The term in a breadcrumb. Names come from the server as they are: escape before showing.
    pub fn label(&self) -> String {
        match self {
            Self::Class(class) => class.name().into(),
            Self::Event(event) => EventNames::default().name(*event),
            Self::EventNamed(name) => name.clone(),
            Self::Session(id) => format!("session {}", id.0),
            Self::Pid(pid) => format!("pid {pid}"),
            Self::Query(QueryId::NONE) => "no query id".into(),
            Self::Query(id) => format!("query {id}"),
            Self::Database(name) => format!("db {name}"),
            Self::User(name) => format!("user {name}"),
            Self::Application(name) => format!("app {name}"),
            Self::Client(name) => format!("client {name}"),
            Self::Kind(kind) => kind.name().into(),
        }
    }
}

impl Clause {
    /// The clause in a breadcrumb.
    pub fn label(&self) -> String {
        let any: Vec<String> = self.any.iter().map(Term::label).collect();
        format!("{}{}", if self.exclude { "not " } else { "" }, any.join(" or "))
    }
}

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> Fmt {
        for (i, clause) in self.clauses.iter().enumerate() {
            write!(f, "{}{clause}", if i > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

impl Display for Clause {
    fn fmt(&self, f: &mut Formatter<'_>) -> Fmt {
        let mut last = None;
        for (i, term) in self.any.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            if last != Some(term.key()) {
                write!(f, "{}{}", term.key().name(), if self.exclude { "!=" } else { "=" })?;
            }
            last = Some(term.key());
            value(f, term)?;
        }
        Ok(())
    }
}

fn value(f: &mut Formatter<'_>, term: &Term) -> Fmt {
    match term {
        Term::Class(class) => f.write_str(class.name()),
        Term::Event(event) => write!(f, "0x{:08x}", event.0),
        Term::Session(id) => write!(f, "{}", id.0),
        Term::Pid(pid) => write!(f, "{pid}"),
        Term::Query(id) => write!(f, "{id}"),
        Term::Kind(kind) => f.write_str(kind.short()),
        Term::EventNamed(t) | Term::Database(t) | Term::User(t) | Term::Application(t) | Term::Client(t) => text(f, t),
    }
}

fn text(f: &mut Formatter<'_>, text: &str) -> Fmt {
    let plain = |c: char| !c.is_whitespace() && !matches!(c, ',' | '"' | '=');
    if !text.is_empty() && !text.starts_with("0x") && text.chars().all(plain) {
        return f.write_str(text);
    }
    f.write_str("\"")?;
    for c in text.chars() {
        write!(f, "{}{c}", if matches!(c, '"' | '\\') { "\\" } else { "" })?;
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(any: Vec<Term>) -> Clause {
        Clause { exclude: false, any }
    }

    fn one(text: &str) -> Clause {
        let filter = Filter::parse(text).unwrap();
        assert_eq!(filter.clauses.len(), 1, "{text}");
        filter.clauses[0].clone()
    }

    #[test]
    fn clauses_read_as_written() {
        assert_eq!(one("class=lock"), of(vec![Term::Class(WaitClass::Lock)]));
        assert_eq!(one("event=Lock:tuple"), of(vec![Term::EventNamed("Lock:tuple".into())]));
        assert_eq!(one("event=0x03000004"), of(vec![Term::Event(WaitEvent(0x0300_0004))]));
        assert_eq!(one("query=18446744073709551614"), of(vec![Term::Query(QueryId(-2))]));
        assert_eq!(one("query=0xFFFFFFFFFFFFFFFE"), of(vec![Term::Query(QueryId(-2))]));
        assert_eq!(one("query=none"), of(vec![Term::Query(QueryId::NONE)]));
        assert_eq!(one("database=shop"), one("db=shop"));
        assert_eq!(one("application=web"), one("app=web"));
        assert_eq!(one("kind=\"client backend\""), one("kind=client"));
        assert_eq!(one("app=\"nightly \\\"job\\\"\""), of(vec![Term::Application("nightly \"job\"".into())]));
        assert_eq!(one("app=a=b"), of(vec![Term::Application("a=b".into())]));
        assert_eq!(one("db=a,b"), of(vec![Term::Database("a".into()), Term::Database("b".into())]));
        assert_eq!(one("class=Lock,pid=5"), of(vec![Term::Class(WaitClass::Lock), Term::Pid(5)]));
        assert_eq!(one("class!=Lock,IO"), Clause { exclude: true, any: vec![Term::Class(WaitClass::Lock), Term::Class(WaitClass::Io)] });
        assert_eq!(Filter::parse("  Lock   pid=5 ").unwrap().clauses.len(), 2);
        assert_eq!(Filter::parse("").unwrap(), Filter::default());
    }

    #[test]
    fn bare_words_are_understood() {
        assert_eq!(one("cpu"), of(vec![Term::Class(WaitClass::Cpu)]));
        assert_eq!(one("IO,Lock"), of(vec![Term::Class(WaitClass::Io), Term::Class(WaitClass::Lock)]));
        assert_eq!(one("!IO"), Clause { exclude: true, any: vec![Term::Class(WaitClass::Io)] });
        assert_eq!(one("lwlock:WALInsert"), of(vec![Term::EventNamed("lwlock:WALInsert".into())]));
        assert_eq!(one("4711"), of(vec![Term::Pid(4711)]));
        assert_eq!(one("5678234567890123"), of(vec![Term::Query(QueryId(5_678_234_567_890_123))]));
        assert_eq!(one("-42"), of(vec![Term::Query(QueryId(-42))]));
    }

    #[test]
    fn errors_name_the_bad_part_and_what_is_near() {
        let error = |text: &str| Filter::parse(text).unwrap_err();
        let table = [
            ("databse=shop", "unknown key 'databse'; nearest: database"),
            ("class=Lokc", "unknown wait class 'Lokc'; nearest: Lock"),
            ("Lokc:tuple", "unknown wait class 'Lokc'; nearest: Lock"),
            ("lwlok", "'lwlok' is no wait class, Class:Event, pid or query id, and has no key= before it; nearest: LWLock"),
            ("pid=x", "pid='x' is not a number"),
            ("query=12x", "query='12x' is not a query id"),
            ("kind=walwritter", "unknown backend kind 'walwritter'; nearest: walwriter"),
            ("app=\"x", "the quote before 'x' is not closed"),
            ("app=\"x\"y", "there must be a space or a comma behind \"x\""),
            ("class=Lock,pid!=5", "one list cannot be both = and !="),
        ];
        for (text, expected) in table {
            assert!(error(text).contains(expected), "{text}: {}", error(text));
            assert!(!error(text).contains('\n'), "{text}");
        }
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(one("class!=Lock,IO").label(), "not Lock or IO");
        assert_eq!(one("event=0x03000004").label(), "Lock:0x000004");
        assert_eq!(one("db=shop").label(), "db shop");
        assert_eq!(one("query=0").label(), "no query id");
    }

    fn terms() -> impl Strategy<Value = Term> {
        let name = || any::<String>();
        prop_oneof![
            (0..WaitClass::ALL.len()).prop_map(|i| Term::Class(WaitClass::ALL[i])),
            any::<u32>().prop_map(|raw| Term::Event(WaitEvent(raw))),
            name().prop_map(Term::EventNamed),
            any::<u32>().prop_map(|id| Term::Session(SessionId(id))),
            any::<i32>().prop_map(Term::Pid),
            any::<i64>().prop_map(|id| Term::Query(QueryId(id))),
            name().prop_map(Term::Database),
            "[a-z=, \"\\\\!]{0,6}".prop_map(Term::User),
            name().prop_map(Term::Application),
            name().prop_map(Term::Client),
            (0..BackendKind::ALL.len()).prop_map(|i| Term::Kind(BackendKind::ALL[i])),
        ]
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_back(clauses in prop::collection::vec((any::<bool>(), prop::collection::vec(terms(), 1..4)), 0..4)) {
            let filter = Filter { clauses: clauses.into_iter().map(|(exclude, any)| Clause { exclude, any }).collect() };
            prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
        }

        #[test]
        fn any_text_gives_a_filter_or_one_line(written in any::<String>()) {
            if let Err(error) = Filter::parse(&written) {
                prop_assert!(!error.contains('\n'), "{}", error);
            }
        }
    }
}
