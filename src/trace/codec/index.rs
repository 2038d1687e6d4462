//! What the blocks of a finished file hold, at its end, so that it is opened without reading their headers. Groups of blocks are listed on pages of their own,
//! which are read when a question needs blocks of that time.

#![allow(clippy::needless_for_each, reason = "one column a line")]

use super::bytes::{Reader, Writer};
use super::frame::{Framed, read_own, write_own};
use super::{Problem, kind};
use crate::trace::clock::{Span, Ts};

/// Blocks in a file that are read together: those of one [`crate::trace::block::Block`], or a single one of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Group {
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u32,
    /// What it is about, on the file's clock.
    pub span: Span,
    /// CRC32C of the header of its last block.
    pub sum: u32,
}

/// A digest in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Where it is, and what it is about.
    pub block: Group,
    /// How many bytes of lengths stand right behind it.
    pub lengths: u32,
    /// Whether it is certain that the groups of this file that touch its stretch are those it was made from.
    pub holds: bool,
}

/// Groups on one page.
const PAGE: usize = 2_048;

/// What an index holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// From the earliest start of a group to the newest end; `None`: there are no groups.
    pub extent: Option<Span>,
    /// Blocks with names, as they come.
    pub names: Vec<Group>,
    /// Blocks with sessions' times, as they come.
    pub times: Vec<Group>,
    /// The newest account of the recorder; at most one.
    pub account: Vec<Group>,
    /// Digests, by start, of equal ones the longest first.
    pub digests: Vec<Totals>,
    /// Pages of groups, by start.
    pub pages: Vec<Group>,
    /// Stretches that were not recorded, and why.
    pub holes: Vec<(Span, String)>,
    /// Blocks with markers, as they come.
    pub markers: Vec<Group>,
}

/// Appends the index of a file of `len` bytes so far: pages with its groups, which are sorted by start, and behind them the index itself.
pub fn write_index(out: &mut Vec<u8>, len: u64, groups: &[Group], contents: &Contents) {
    let mut pages = Vec::new();
    for some in groups.chunks(PAGE) {
        let join = |a: Span, b: Span| Span { start: a.start.min(b.start), end: a.end.max(b.end) };
        let span = some.iter().map(|g| g.span).reduce(join).unwrap_or_default();
        let mut w = Writer::default();
        write_groups(&mut w, some);
        let from = out.len();
        write_own(out, kind::GROUPS, span.start, span, (&[], 0), &w.0);
        pages.push(Group { offset: len + from as u64, len: (out.len() - from) as u32, span, sum: 0 });
    }
    let mut w = Writer::default();
    w.u64(len + out.len() as u64);
    w.u8(u8::from(contents.extent.is_some()));
    let extent = contents.extent.unwrap_or_default();
    w.u64(extent.start.0);
    w.u64(extent.end.0);
    write_groups(&mut w, &contents.names);
    write_groups(&mut w, &contents.account);
    write_groups(&mut w, &contents.digests.iter().map(|d| d.block).collect::<Vec<_>>());
    contents.digests.iter().for_each(|d| w.uleb(u64::from(d.lengths) << 1 | u64::from(d.holds)));
    write_groups(&mut w, &pages);
    w.uleb(contents.holes.len() as u64);
    for (span, why) in &contents.holes {
        w.u64(span.start.0);
        w.u64(span.end.0);
        w.uleb(why.len() as u64);
        w.0.extend_from_slice(why.as_bytes());
    }
    write_groups(&mut w, &contents.times);
    write_groups(&mut w, &contents.markers);
    write_own(out, kind::INDEX, extent.start, extent, (&[], 0), &w.0);
}

/// Reads an index that stands at `offset`.
pub fn read_index(block: &Framed<'_>, offset: u64) -> Result<Contents, Problem> {
    const WRONG: Problem = Problem::Damaged("an index is not what it should be");
    if block.header.kind != kind::INDEX {
        return Err(WRONG);
    }
    let content = read_own(block, &[])?;
    let mut r = Reader(&content);
    if r.u64()? != offset {
        return Err(Problem::Damaged("an index is of another file"));
    }
    let mut c = Contents::default();
    let any = r.u8()? != 0;
    let extent = Span { start: Ts(r.u64()?), end: Ts(r.u64()?) };
    c.extent = any.then_some(extent);
    c.names = read_groups(&mut r)?;
    c.account = read_groups(&mut r)?;
    for block in read_groups(&mut r)? {
        let more = r.uleb()?;
        let lengths = u32::try_from(more >> 1).map_err(|_| WRONG)?;
        c.digests.push(Totals { block, lengths, holds: more & 1 != 0 });
    }
    c.pages = read_groups(&mut r)?;
    for _ in 0..r.count(17)? {
        let span = Span { start: Ts(r.u64()?), end: Ts(r.u64()?) };
        let n = r.count(1)?;
        c.holes.push((span, String::from_utf8_lossy(r.take(n)?).into_owned()));
    }
    if !r.0.is_empty() {
        c.times = read_groups(&mut r)?;
    }
    // Indexes written before there were these end here.
    if !r.0.is_empty() {
        c.markers = read_groups(&mut r)?;
    }
    r.end()?;
    Ok(c)
}

/// Reads a page of groups.
pub fn read_page(block: &Framed<'_>) -> Result<Vec<Group>, Problem> {
    if block.header.kind != kind::GROUPS {
        return Err(Problem::Damaged("a page of an index is something else"));
    }
    let content = read_own(block, &[])?;
    let mut r = Reader(&content);
    let groups = read_groups(&mut r)?;
    r.end()?;
    Ok(groups)
}

fn write_groups(w: &mut Writer, groups: &[Group]) {
    w.uleb(groups.len() as u64);
    let mut last = Group::default();
    for g in groups {
        w.delta(last.offset, g.offset);
        w.delta(last.span.start.0, g.span.start.0);
        last = *g;
    }
    groups.iter().for_each(|g| w.uleb(u64::from(g.len)));
    groups.iter().for_each(|g| w.uleb(g.span.len()));
    groups.iter().for_each(|g| w.u32(g.sum));
}

fn read_groups(r: &mut Reader<'_>) -> Result<Vec<Group>, Problem> {
    let n = r.count(8)?;
    let mut last = Group::default();
    let mut groups = Vec::with_capacity(n);
    for _ in 0..n {
        last.offset = r.delta(last.offset)?;
        last.span.start = Ts(r.delta(last.span.start.0)?);
        groups.push(last);
    }
    let lens = r.short_ulebs(n)?;
    let spans = r.ulebs(n)?;
    let sums = r.u32s(n)?;
    for (((g, len), span), sum) in groups.iter_mut().zip(lens).zip(spans).zip(sums) {
        g.len = len;
        g.span.end = g.span.start + span;
        g.sum = sum;
    }
    Ok(groups)
}
