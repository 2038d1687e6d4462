//! Blocks of transitions (type 0) and of samples (type 1), as trace formats v2 and v3 have them.

#![allow(clippy::needless_for_each, reason = "one column a line")]

use super::bytes::{Reader, Writer};
use super::header::{BlockHeader, MOST_RECORDS};
use super::{Problem, kind, squeeze};
use crate::trace::clock::Ts;

/// On-CPU time that was not measured.
pub const UNKNOWN_CPU: u64 = u64::MAX;
/// The event "the process has ended".
pub const EXIT: u32 = u32::MAX;
/// Events from here on are markers, not waits.
pub const MARKERS: u32 = 0xFFFF_FFF0;
/// Marker: an execution began.
pub const EXEC_START: u32 = 0xFFFF_FFF0;
/// Marker: an execution ended.
pub const EXEC_END: u32 = 0xFFFF_FFF1;
/// Marker: an exact window was opened.
pub const WINDOW_START: u32 = 0xFFFF_FFF4;
/// Marker: an exact window was closed.
pub const WINDOW_END: u32 = 0xFFFF_FFF5;
/// Marker: a command began.
pub const COMMAND_START: u32 = 0xFFFF_FFF6;
/// Marker: a command ended.
pub const COMMAND_END: u32 = 0xFFFF_FFF7;

/// Whether an event is a marker.
pub fn is_marker(event: u32) -> bool {
    (MARKERS..EXIT).contains(&event)
}

/// One ended interval, or a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transition {
    /// When it ended.
    pub ts: u64,
    /// Whose.
    pub pid: u32,
    /// What it was.
    pub old: u32,
    /// What came behind.
    pub new: u32,
    /// How long it was, nanoseconds.
    pub duration: u64,
    /// The query.
    pub query: i64,
    /// On-CPU time in it; [`UNKNOWN_CPU`] where it was not measured.
    pub cpu: u64,
}

/// Transitions as columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "as in Transition")]
pub struct Transitions {
    pub ts: Vec<u64>,
    pub pid: Vec<u32>,
    pub old: Vec<u32>,
    pub new: Vec<u32>,
    pub duration: Vec<u64>,
    pub query: Vec<u64>,
    pub cpu: Vec<u64>,
}

/// One point observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// When.
    pub ts: u64,
    /// Whose.
    pub pid: u32,
    /// What it waited for.
    pub event: u32,
    /// The query.
    pub query: i64,
}

/// Samples as columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "as in Sample")]
pub struct Samples {
    pub ts: Vec<u64>,
    pub pid: Vec<u32>,
    pub event: Vec<u32>,
    pub query: Vec<u64>,
}

fn write_times(w: &mut Writer, times: impl Iterator<Item = u64>) {
    let mut last = 0u64;
    for ts in times {
        w.uleb(ts.wrapping_sub(last));
        last = ts;
    }
}

fn read_times(r: &mut Reader<'_>, n: usize, out: &mut Vec<u64>) -> Result<(), Problem> {
    let from = out.len();
    r.ulebs_into(n, out)?;
    let mut last = 0u64;
    for t in out.iter_mut().skip(from) {
        last = last.wrapping_add(*t);
        *t = last;
    }
    Ok(())
}

/// A block with its header, appended.
pub(super) fn push(out: &mut Vec<u8>, mut header: BlockHeader, content: &[u8]) {
    let packed = squeeze::compress(content);
    header.packed = packed.len() as u32;
    header.unpacked = content.len() as u32;
    out.extend_from_slice(&header.write());
    out.extend_from_slice(&packed);
}

/// Appends a block of transitions, at most [`MOST_RECORDS`], in the order of their times.
pub fn write_transitions(out: &mut Vec<u8>, rows: &[Transition]) {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
    debug_assert!(rows.len() <= MOST_RECORDS as usize);
    let mut w = Writer(Vec::with_capacity(rows.len() * 30));
    write_times(&mut w, rows.iter().map(|r| r.ts));
    rows.iter().for_each(|r| w.u32(r.pid));
    rows.iter().for_each(|r| w.u32(r.old));
    rows.iter().for_each(|r| w.u32(r.new));
    rows.iter().for_each(|r| w.uleb(r.duration));
    rows.iter().for_each(|r| w.u64(r.query as u64));
    rows.iter().for_each(|r| w.uleb(r.cpu));
    let header =
        BlockHeader { first: Ts(first.ts), last: Ts(last.ts), count: rows.len() as u32, kind: kind::TRANSITIONS, ..BlockHeader::default() };
    push(out, header, &w.0);
}

/// Appends a block of samples, at most [`MOST_RECORDS`], in the order of their times, each of which stands for `period` nanoseconds.
pub fn write_samples(out: &mut Vec<u8>, rows: &[Sample], period: u64) {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
    debug_assert!(rows.len() <= MOST_RECORDS as usize);
    let mut w = Writer(Vec::with_capacity(rows.len() * 18));
    write_times(&mut w, rows.iter().map(|r| r.ts));
    rows.iter().for_each(|r| w.u32(r.pid));
    rows.iter().for_each(|r| w.u32(r.event));
    rows.iter().for_each(|r| w.u64(r.query as u64));
    let header = BlockHeader {
        first: Ts(first.ts),
        last: Ts(last.ts),
        count: rows.len() as u32,
        kind: kind::SAMPLES,
        period,
        ..BlockHeader::default()
    };
    push(out, header, &w.0);
}

/// Reads a block of transitions of a file of this version.
pub fn read_transitions(version: u16, header: &BlockHeader, stored: &[u8]) -> Result<Transitions, Problem> {
    let mut rows = Transitions::default();
    append_transitions(version, header, stored, &mut Vec::new(), &mut rows)?;
    Ok(rows)
}

/// Reads a block of transitions behind others. What is decompressed stands in `scratch` meanwhile.
pub(super) fn append_transitions(
    version: u16,
    header: &BlockHeader,
    stored: &[u8],
    scratch: &mut Vec<u8>,
    rows: &mut Transitions,
) -> Result<(), Problem> {
    let n = header.count as usize;
    header.unpack_into(stored, scratch)?;
    let mut r = Reader(scratch);
    read_times(&mut r, n, &mut rows.ts)?;
    r.u32s_into(n, &mut rows.pid)?;
    r.u32s_into(n, &mut rows.old)?;
    r.u32s_into(n, &mut rows.new)?;
    r.ulebs_into(n, &mut rows.duration)?;
    r.u64s_into(n, &mut rows.query)?;
    if version >= 3 {
        r.ulebs_into(n, &mut rows.cpu)?;
    } else {
        rows.cpu.resize(rows.cpu.len() + n, UNKNOWN_CPU);
    }
    r.end()
}

/// Reads a block of samples.
pub fn read_samples(header: &BlockHeader, stored: &[u8]) -> Result<Samples, Problem> {
    let n = header.count as usize;
    let content = header.unpack(stored)?;
    let mut r = Reader(&content);
    let mut ts = Vec::new();
    read_times(&mut r, n, &mut ts)?;
    let rows = Samples { ts, pid: r.u32s(n)?, event: r.u32s(n)?, query: r.u64s(n)? };
    r.end()?;
    Ok(rows)
}
