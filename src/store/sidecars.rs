//! Files beside the traces of other programs: who the processes were, what events and queries are called. Absent or broken ones tell nothing.

use crate::trace::catalog::{BackendKind, EventNames, Named, Query, Session, TextSource};
use crate::trace::record::QueryId;
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Largest file of event names that is believed.
const MOST_NAMES: u64 = 1 << 20;
/// Most events of a class that are believed.
const MOST_EVENTS: usize = 512;

const CLASSES: [(&str, u32); 11] = [
    ("LWLock", 0x0100_0000),
    ("Lock", 0x0300_0000),
    ("BufferPin", 0x0400_0000),
    ("Buffer", 0x0400_0000),
    ("Activity", 0x0500_0000),
    ("Client", 0x0600_0000),
    ("Extension", 0x0700_0000),
    ("IPC", 0x0800_0000),
    ("Timeout", 0x0900_0000),
    ("IO", 0x0a00_0000),
    ("InjectionPoint", 0x0b00_0000),
];

/// Lines of JSON, each by itself: one that is torn or no JSON is passed over.
fn lines(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_str(&String::from_utf8_lossy(line)).ok()).collect()
}

fn text(line: &Value, key: &str) -> Arc<str> {
    line.get(key).and_then(Value::as_str).unwrap_or_default().into()
}

fn named(line: &Value, key: &str) -> Named {
    let name = text(line, key);
    Named { oid: 0, name: (!name.is_empty()).then_some(name) }
}

fn kind(word: &str) -> BackendKind {
    BackendKind::ALL.into_iter().find(|k| k.short() == word || k.name() == word).unwrap_or(BackendKind::Client)
}

/// Processes by pid: `backends.jsonl`. The last line of a pid counts.
pub fn backends(dir: &Path) -> FxHashMap<u32, Session> {
    let one = |line: Value| {
        let pid = u32::try_from(line.get("pid")?.as_u64()?).ok()?;
        let leader = line.get("leader_pid").and_then(Value::as_i64).and_then(|p| i32::try_from(p).ok()).filter(|p| *p > 0);
        let session = Session {
            pid: pid as i32,
            server_pid: pid as i32,
            kind: kind(&text(&line, "type")),
            leader,
            database: named(&line, "db"),
            user: named(&line, "user"),
            client: text(&line, "addr"),
            ..Session::default()
        };
        Some((pid, session))
    };
    lines(&dir.join("backends.jsonl")).into_iter().filter_map(one).collect()
}

/// Names of events: `wait_event_names.json`.
pub fn events(dir: &Path) -> Option<EventNames> {
    let path = dir.join("wait_event_names.json");
    if fs::metadata(&path).ok()?.len() > MOST_NAMES {
        return None;
    }
    let all: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let major = all.get("pg_version").and_then(Value::as_u64).unwrap_or(0);
    let major = if major >= 10_000 { major / 10_000 } else { major };
    let mut names = Vec::new();
    for (class, byte) in CLASSES {
        let list = all.get(class).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if list.len() > MOST_EVENTS {
            return None;
        }
        let named = list.iter().zip(0u32..).filter_map(|(v, id)| Some((byte | id, v.as_str()?))).filter(|(_, n)| !n.is_empty());
        names.extend(named.map(|(raw, name)| (raw, Arc::from(name))));
    }
    Some(EventNames::new(u16::try_from(major).unwrap_or(0), names))
}

/// Texts of queries: `query_texts.jsonl`. A text as it was sent counts more than one that was looked up, else the first.
pub fn queries(dir: &Path) -> FxHashMap<QueryId, Query> {
    let mut out: FxHashMap<QueryId, (u8, Query)> = FxHashMap::default();
    for line in lines(&dir.join("query_texts.jsonl")) {
        let id = match line.get("q") {
            Some(Value::String(s)) => QueryId::parse(s),
            Some(v) => v.as_i64().map(QueryId),
            None => None,
        };
        let (Some(id), Some(sql)) = (id, line.get("t").and_then(Value::as_str)) else { continue };
        let (rank, source) = match line.get("s").and_then(Value::as_str) {
            Some("pgss") => (0, TextSource::Raw),
            Some("synthetic") => (1, TextSource::Normalised),
            _ => (2, TextSource::Raw),
        };
        let query = Query { text: sql.into(), truncated: sql.len() >= 255, source };
        match out.get_mut(&id) {
            Some(known) if known.0 < rank => *known = (rank, query),
            Some(_) => {}
            None => {
                out.insert(id, (rank, query));
            }
        }
    }
    out.into_iter().map(|(id, (_, q))| (id, q)).collect()
}
