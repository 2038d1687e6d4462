//! `query_texts.jsonl` stays small: lines about an id that another line says better, and lines that are none, go when they have become most of it.

use crate::store::access::Access;
use crate::trace::record::QueryId;
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Texts of queries, a line of JSON each.
pub(super) const NAME: &str = "query_texts.jsonl";
/// Beyond so many bytes it is looked for what can go.
const LARGE: u64 = 32 << 20;
/// It has also grown large when it is so many times what was left the last time ...
const TIMES: u64 = 4;
/// ... and at least so many bytes.
const WORTH: u64 = 64 << 10;
/// A line is not longer than this, bytes: what is, is none of ours nor of the original's.
const LONGEST: usize = 64 << 10;

/// How large it is, and how large it was when nothing in it could go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Size {
    pub(super) bytes: u64,
    live: u64,
}

impl Size {
    /// Of a file somebody else may have written: what could go is counted.
    pub(super) fn of(path: &Path) -> Self {
        let bytes = fs::metadata(path).map_or(0, |m| m.len());
        Self { bytes, live: if bytes < WORTH { bytes } else { kept(path).values().map(|l| l.len).sum() } }
    }

    /// Whether it is worth writing anew: it could become a good deal smaller.
    pub(super) fn is_large(&self) -> bool {
        let grown = self.bytes > WORTH && self.bytes > self.live.saturating_mul(TIMES);
        grown || (self.bytes > LARGE && self.bytes > self.live + self.live / 2)
    }
}

/// A line that stays.
#[derive(Debug)]
struct Line {
    number: usize,
    rank: u8,
    len: u64,
}

/// Of each id the line that counts for readers: a text as it was sent more than one without its values, else the first.
fn kept(path: &Path) -> FxHashMap<Key, Line> {
    let mut kept: FxHashMap<Key, Line> = FxHashMap::default();
    each(path, |number, line| {
        let Some((key, rank)) = about(line) else { return };
        let better = kept.get(&key).is_none_or(|known| known.rank < rank);
        if better {
            kept.insert(key, Line { number, rank, len: line.len() as u64 + 1 });
        }
    });
    kept
}

/// Query, database and user: newer versions of the original tell texts apart by all three.
type Key = (QueryId, u64, u64);

fn about(line: &[u8]) -> Option<(Key, u8)> {
    // The original writes texts as they are, whatever their encoding.
    let line: Value = serde_json::from_str(&String::from_utf8_lossy(line)).ok()?;
    let id = match line.get("q")? {
        Value::String(s) => QueryId::parse(s)?,
        number => QueryId(number.as_i64()?),
    };
    line.get("t")?.as_str()?;
    let number = |key: &str| line.get(key).and_then(Value::as_u64).unwrap_or(0);
    let rank = match line.get("s").and_then(Value::as_str) {
        Some("pgss") => 0,
        Some("synthetic") => 1,
        _ => 2,
    };
    Some(((id, number("d"), number("u")), rank))
}

/// Every line without its end, a line at a time in memory; one that is too long counts and is passed over.
fn each(path: &Path, mut visit: impl FnMut(usize, &[u8])) {
    let Ok(file) = File::open(path) else { return };
    let mut reader = BufReader::new(file);
    let (mut line, mut number, mut long) = (Vec::new(), 0, false);
    while let Ok(part) = reader.fill_buf() {
        if part.is_empty() {
            break;
        }
        let end = part.iter().position(|b| *b == b'\n');
        let piece = part.get(..end.unwrap_or(part.len())).unwrap_or_default();
        long |= line.len() + piece.len() > LONGEST;
        if !long {
            line.extend_from_slice(piece);
        }
        let used = piece.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            if !long {
                visit(number, &line);
            }
            (number, long) = (number + 1, false);
            line.clear();
        }
    }
    if !line.is_empty() && !long {
        visit(number, &line);
    }
}

/// The ids in it.
pub(super) fn ids(path: &Path) -> impl Iterator<Item = QueryId> {
    let mut ids = Vec::new();
    each(path, |_, line| ids.extend(about(line).map(|(key, _)| key.0)));
    ids.into_iter()
}

/// Writes it anew with the lines that count, in their order, in one step. What cannot be written stays as it was, and is not tried again before it has grown.
pub(super) fn compact(path: &Path, access: Access) -> Size {
    let kept = kept(path);
    let mut numbers: Vec<usize> = kept.values().map(|l| l.number).collect();
    numbers.sort_unstable();
    let mut numbers = numbers.into_iter().peekable();
    let mut out = Vec::new();
    each(path, |number, line| {
        if numbers.next_if_eq(&number).is_some() {
            out.extend_from_slice(line);
            out.push(b'\n');
        }
    });
    let before = fs::metadata(path).map_or(0, |m| m.len());
    let bytes = if access.replace(path, &out).is_ok() { out.len() as u64 } else { before };
    Size { bytes, live: bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sidecars;
    use std::fmt::Write as _;
    use std::os::unix::fs::PermissionsExt;

    fn line(id: i64, text: &str, source: &str) -> String {
        format!("{{\"q\":\"{id}\",\"t\":\"{text}\",\"s\":\"{source}\"}}\n")
    }

    #[test]
    fn what_counts_for_readers_stays_and_the_rest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let mut all = "not a line\n".to_owned();
        for round in 0..200 {
            for id in 1..=20 {
                let source = if id % 2 == 0 && round > 3 { "full" } else { "pgss" };
                all += &line(id, &format!("select {id} /* {round} */"), source);
            }
        }
        let _ = writeln!(all, "{{\"q\":7,\"d\":5,\"u\":1,\"t\":\"of another database\",\"ts\":1}}");
        let _ = writeln!(all, "{{\"q\":\"8\",\"t\":\"{}\"}}", "x".repeat(2 * LONGEST));
        all += "{\"q\":\"9\",\"t\":\"torn";
        fs::write(&path, &all).unwrap();
        let before = sidecars::queries(dir.path());
        let size = Size::of(&path);
        assert!(size.is_large() && size.bytes == all.len() as u64, "{size:?}");
        let size = compact(&path, Access::default());
        let now = fs::read_to_string(&path).unwrap();
        assert_eq!((size.bytes, size.is_large(), now.lines().count()), (now.len() as u64, false, 21), "{now}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(Size::of(&path).bytes, size.bytes);
        let after = sidecars::queries(dir.path());
        let unlike: Vec<_> = before.iter().filter(|(id, q)| after.get(id).is_none_or(|a| a.text != q.text)).map(|(id, _)| id.0).collect();
        // Eight had a text no reader of lines should have to hold; of the others each reads the same.
        assert!(unlike.is_empty() || unlike == [8], "{unlike:?}");
        assert_eq!(after.len(), 20);
        assert!(!dir.path().join("query_texts.jsonl.tmp").exists());
    }

    #[test]
    fn a_file_of_which_nothing_can_go_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let text: String = (0..5_000).map(|id| line(id, "select 1", "full")).collect();
        fs::write(&path, &text).unwrap();
        assert!(!Size::of(&path).is_large());
        assert!(!Size { bytes: LARGE + 1, live: LARGE }.is_large());
        assert!(Size { bytes: LARGE + 1, live: LARGE / 2 }.is_large());
        assert!(!Size { bytes: WORTH, live: 0 }.is_large());
        compact(&path, Access::default());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(Size::of(&dir.path().join("nowhere")), Size::default());
    }
}
