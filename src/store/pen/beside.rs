//! The files beside the traces, for readers of trace format v3: who the processes were, what events and queries are called. Our own reader needs none of them.

mod texts;

use crate::store::access::Access;
use crate::trace::catalog::{Catalog, EventNames, News, Query, Session, TextSource};
use crate::trace::record::{QueryId, SessionId};
use crate::trace::wait::WaitClass;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Ids of texts remembered as written; beyond that they may be written again.
const MOST_KNOWN: usize = 100_000;
/// Bytes of a text.
const LONGEST: usize = 255;

#[derive(Debug)]
pub(super) struct Beside {
    dir: PathBuf,
    access: Access,
    known: FxHashSet<QueryId>,
    events: bool,
    sessions: FxHashSet<SessionId>,
    queries: FxHashSet<QueryId>,
    texts: texts::Size,
}

impl Beside {
    pub(super) fn new(dir: &Path, access: Access) -> Self {
        let path = dir.join(texts::NAME);
        let mut size = texts::Size::of(&path);
        if size.is_large() {
            size = texts::compact(&path, access);
        }
        let known = texts::ids(&path).take(MOST_KNOWN).collect();
        let (sessions, queries) = Default::default();
        Self { dir: dir.to_owned(), access, known, events: false, sessions, queries, texts: size }
    }

    pub(super) fn note(&mut self, news: &News) {
        match news {
            News::Events(_) | News::Event(..) => self.events = true,
            News::Session(id, _) => {
                self.sessions.insert(*id);
            }
            News::Query(id, _) if !self.known.contains(id) => {
                self.queries.insert(*id);
            }
            _ => {}
        }
    }

    /// Writes what came since the last time. What cannot be written is tried again.
    pub(super) fn write(&mut self, catalog: &Catalog) {
        if self.events && self.access.replace(&self.dir.join("wait_event_names.json"), &names(&catalog.events)).is_ok() {
            self.events = false;
        }
        let mut sessions: Vec<SessionId> = self.sessions.iter().copied().collect();
        sessions.sort_unstable();
        let lines: Vec<String> = sessions.iter().filter_map(|id| catalog.sessions.get(id)).map(person).collect();
        if self.append("backends.jsonl", &lines) {
            self.sessions.clear();
        }
        let texts: FxHashMap<QueryId, String> =
            self.queries.iter().filter_map(|id| Some((*id, text(*id, catalog.queries.get(id)?)))).collect();
        let lines: Vec<String> = texts.into_values().collect();
        if self.append(texts::NAME, &lines) {
            self.texts.bytes += lines.iter().map(|l| l.len() as u64 + 1).sum::<u64>();
            if self.texts.is_large() {
                self.texts = texts::compact(&self.dir.join(texts::NAME), self.access);
            }
            if self.known.len() + self.queries.len() > MOST_KNOWN {
                self.known.clear();
            }
            self.known.extend(self.queries.drain());
        }
    }

    fn append(&self, name: &str, lines: &[String]) -> bool {
        if lines.is_empty() {
            return true;
        }
        let mut bytes = lines.join("\n").into_bytes();
        bytes.push(b'\n');
        let file = self.access.open(&self.dir.join(name), OpenOptions::new().append(true).create(true));
        file.and_then(|mut f| f.write_all(&bytes)).is_ok()
    }
}

fn person(s: &Session) -> String {
    let mut line = Map::new();
    line.insert("pid".into(), json!(s.pid));
    line.insert("type".into(), json!(s.kind.short()));
    for (key, value) in
        [("user", s.user.show()), ("db", s.database.show()), ("addr", s.client.as_ref().into()), ("app", s.application.as_ref().into())]
    {
        if !value.is_empty() {
            line.insert(key.into(), json!(value));
        }
    }
    if let Some(leader) = s.leader {
        line.insert("leader_pid".into(), json!(leader));
    }
    if s.started != 0 {
        line.insert("started".into(), json!(s.started));
    }
    Value::Object(line).to_string()
}

fn text(id: QueryId, q: &Query) -> String {
    let mut end = q.text.len().min(LONGEST);
    while !q.text.is_char_boundary(end) {
        end -= 1;
    }
    let source = if q.source == TextSource::Normalised { "synthetic" } else { "full" };
    json!({ "q": id.to_string(), "t": q.text.get(..end).unwrap_or_default(), "s": source }).to_string()
}

/// Names by class, each at the place of its id.
fn names(events: &EventNames) -> Vec<u8> {
    let mut classes: FxHashMap<WaitClass, Vec<String>> = FxHashMap::default();
    for (event, name) in events.all() {
        let (class, id) = (event.class(), (event.0 & 0xffff) as usize);
        let short = name.split_once(':').map_or("", |(_, n)| n);
        if class == WaitClass::Unknown || class == WaitClass::Cpu || id >= 512 {
            continue;
        }
        let list = classes.entry(class).or_default();
        if list.len() <= id {
            list.resize(id + 1, String::new());
        }
        if let Some(slot) = list.get_mut(id) {
            short.clone_into(slot);
        }
    }
    let mut all: Map<String, Value> = classes.into_iter().map(|(c, list)| (c.name().to_owned(), json!(list))).collect();
    all.insert("pg_version".into(), json!(events.major));
    serde_json::to_vec_pretty(&Value::Object(all)).unwrap_or_default()
}
