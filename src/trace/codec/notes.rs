//! Blocks of ours that hold text (JSON): what file it is, names, gaps, the recorder's account.

use super::frame::{Framed, read_own, write_own};
use super::header::FileHeader;
use super::{Problem, kind};
use crate::trace::catalog::News;
use crate::trace::clock::{Clock, Span, Ts};
use crate::trace::health::Health;
use crate::trace::marker::Marker;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What file this is: the first block of each file of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileNote {
    /// Revision of our blocks: 1.
    pub format: u16,
    /// The program that wrote it, with its version.
    pub program: String,
    /// The run that wrote it: ids of sessions mean the same in all files of one run. Unix nanoseconds of its start.
    #[serde(with = "text")]
    pub run: u64,
    /// The file header once more, so that damage to it is seen.
    pub clock: Clock,
    /// Major version of the server, as in the file header.
    pub major: u32,
}

/// A stretch that was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// When.
    pub span: Span,
    /// Records known to be lost.
    pub records: u64,
    /// One line: why.
    pub why: String,
}

/// How the recording was doing at an instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The clocks then.
    pub clock: Clock,
    /// The recorder's account of itself.
    pub health: Health,
}

/// Whole 64-bit numbers are text in JSON.
mod text {
    use serde::{Deserialize, Deserializer, Serializer};
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(v: &u64, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(v)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

fn write(out: &mut Vec<u8>, kind: u16, span: Span, content: &impl Serialize) {
    // Writing plain values to memory does not fail.
    let content = serde_json::to_vec(content).unwrap_or_default();
    write_own(out, kind, span.start, span, (&[], 0), &content);
}

fn read<T: DeserializeOwned>(block: &Framed<'_>) -> Result<T, Problem> {
    serde_json::from_slice(&read_own(block, &[])?).map_err(|_| Problem::Damaged("a block's text is not what it should be"))
}

fn instant(at: Ts) -> Span {
    Span { start: at, end: at }
}

/// Appends what file this is.
pub fn write_file(out: &mut Vec<u8>, header: &FileHeader, program: &str, run: u64) {
    let note = FileNote { format: 1, program: program.to_owned(), run, clock: header.clock, major: header.pg_version };
    write(out, kind::FILE, instant(header.clock.mono), &note);
}

/// Reads what file this is.
pub fn read_file(block: &Framed<'_>) -> Result<FileNote, Problem> {
    read(block)
}

/// Appends names learned up to an instant, in blocks of a size that is quick to read.
pub fn write_names(out: &mut Vec<u8>, at: Ts, news: &[News]) {
    let mut rest = news;
    while !rest.is_empty() {
        let mut lines = Vec::new();
        let mut n = 0;
        while let Some(one) = rest.get(n) {
            if lines.len() > 256 << 10 {
                break;
            }
            lines.extend(serde_json::to_vec(one).unwrap_or_default());
            lines.push(b'\n');
            n += 1;
        }
        write_own(out, kind::NAMES, at, instant(at), (&[], 0), &lines);
        rest = rest.get(n..).unwrap_or_default();
    }
}

/// Reads names.
pub fn read_names(block: &Framed<'_>) -> Result<Vec<News>, Problem> {
    let lines = read_own(block, &[])?;
    let one = |line: &[u8]| serde_json::from_slice(line).map_err(|_| Problem::Damaged("a block of names is not what it should be"));
    lines.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(one).collect()
}

/// Appends markers, if there are any.
pub fn write_markers(out: &mut Vec<u8>, markers: &[Marker]) {
    let times = || markers.iter().map(|m| m.at);
    let (Some(start), Some(end)) = (times().min(), times().max()) else { return };
    write(out, kind::MARKERS, Span { start, end }, &markers);
}

/// Reads markers.
pub fn read_markers(block: &Framed<'_>) -> Result<Vec<Marker>, Problem> {
    read(block)
}

/// Appends a gap.
pub fn write_gap(out: &mut Vec<u8>, gap: &Gap) {
    write(out, kind::GAP, gap.span, gap);
}

/// Reads a gap.
pub fn read_gap(block: &Framed<'_>) -> Result<Gap, Problem> {
    read(block)
}

/// Appends the recorder's account.
pub fn write_account(out: &mut Vec<u8>, account: &Account) {
    write(out, kind::ACCOUNT, instant(account.clock.mono), account);
}

/// Reads the recorder's account.
pub fn read_account(block: &Framed<'_>) -> Result<Account, Problem> {
    read(block)
}
