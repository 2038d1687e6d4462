//! Digests as bytes: the totals in one block, the lengths of waits in another behind it, since most questions do not ask for them.

#![allow(clippy::needless_for_each, reason = "one column a line")]

use super::bytes::{Reader, Writer};
use super::frame::{Framed, own_span, read_own, write_own};
use super::{Problem, kind};
use crate::trace::clock::{Span, Ts};
use crate::trace::cut::Seen;
use crate::trace::digest::{Digest, Execution, Key, Open, Row, Sums};
use crate::trace::lengths::{Counted, FINE, OCTAVES};
use crate::trace::precise::Stretch;
use crate::trace::record::{Fidelity, QueryId, SessionId, State};
use crate::trace::wait::WaitEvent;
use rustc_hash::FxHashMap;

/// Which groups of blocks a digest was made from: those that touch its stretch. When others touch it now, it is void.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    /// How many.
    pub groups: u64,
    /// CRC32C of the header of each one's last block, added up.
    pub sum: u64,
}

impl Made {
    /// One more group.
    pub fn add(&mut self, header: u32) {
        self.groups += 1;
        self.sum = self.sum.wrapping_add(u64::from(header));
    }
}

const WRONG: Problem = Problem::Damaged("a digest speaks of something it does not hold");
/// Bytes of a digest's block in memory: one that is larger is not written.
const MOST: usize = 8 << 20;
/// Appends a digest: one block, or two. `false`: it is too large for a file, and nothing was appended.
pub fn write_digest(out: &mut Vec<u8>, digest: &Digest, made: Made) -> bool {
    let mut w = Writer::default();
    w.uleb(made.groups);
    w.u64(made.sum);
    write_seen(&mut w, digest);
    write_rows(&mut w, digest);
    let mut l = Writer::default();
    l.u32(crc32c::crc32c(&w.0));
    let head = l.0.len();
    digest.rows.iter().filter(|r| r.sums.waits > 0).for_each(|r| write_counted(&mut l, &r.lengths));
    digest.executions.iter().filter(|e| e.whole > 0).for_each(|e| write_counted(&mut l, &e.lengths));
    if w.0.len() > MOST || l.0.len() > MOST {
        return false;
    }
    write_own(out, kind::DIGEST, digest.span.start, digest.span, (&[], 0), &w.0);
    if l.0.len() > head {
        write_own(out, kind::LENGTHS, digest.span.start, digest.span, (&[], 0), &l.0);
    }
    true
}

/// Reads a digest, and the lengths behind it if they are given.
pub fn read_digest(totals: &Framed<'_>, lengths: Option<&Framed<'_>>) -> Result<(Digest, Made), Problem> {
    if totals.header.kind != kind::DIGEST {
        return Err(WRONG);
    }
    let content = read_own(totals, &[])?;
    let mut r = Reader(&content);
    let made = Made { groups: r.uleb()?, sum: r.u64()? };
    let mut digest = Digest { span: own_span(&totals.header), ..Digest::default() };
    read_seen(&mut r, &mut digest)?;
    read_rows(&mut r, &mut digest)?;
    r.end()?;
    if let Some(block) = lengths {
        if block.header.kind != kind::LENGTHS {
            return Err(WRONG);
        }
        let more = read_own(block, &[])?;
        let mut r = Reader(&more);
        if r.u32()? != crc32c::crc32c(&content) {
            return Err(Problem::Damaged("lengths stand behind a digest they do not belong to"));
        }
        for row in digest.rows.iter_mut().filter(|r| r.sums.waits > 0) {
            row.lengths = read_counted(&mut r, row.sums.waits)?;
        }
        for e in digest.executions.iter_mut().filter(|e| e.whole > 0) {
            e.lengths = read_counted(&mut r, e.whole)?;
        }
        r.end()?;
        digest.lengths = true;
    }
    Ok((digest, made))
}

fn write_spans(w: &mut Writer, base: Ts, spans: impl ExactSizeIterator<Item = Span>) {
    w.uleb(spans.len() as u64);
    let mut last = base.0;
    for s in spans {
        w.delta(last, s.start.0);
        w.uleb(s.len());
        last = s.end.0;
    }
}

fn read_spans(r: &mut Reader<'_>, base: Ts) -> Result<Vec<Span>, Problem> {
    let mut last = base.0;
    (0..r.count(2)?)
        .map(|_| {
            let start = r.delta(last)?;
            last = start.checked_add(r.uleb()?).ok_or(WRONG)?;
            Ok(Span { start: Ts(start), end: Ts(last) })
        })
        .collect()
}

fn write_seen(w: &mut Writer, digest: &Digest) {
    let (seen, base) = (&digest.seen, digest.span.start);
    [seen.ticks, seen.unread, seen.lost_records, seen.unfollowed_ns].iter().for_each(|v| w.uleb(*v));
    write_spans(w, base, seen.sampled.iter().copied());
    write_spans(w, base, seen.precise.iter().map(|s| s.span));
    seen.precise.iter().for_each(|s| w.u8(u8::from(s.fidelity == Fidelity::Exact)));
}

fn read_seen(r: &mut Reader<'_>, digest: &mut Digest) -> Result<(), Problem> {
    let base = digest.span.start;
    let seen = Seen { ticks: r.counter()?, unread: r.counter()?, lost_records: r.counter()?, unfollowed_ns: r.uleb()?, ..Seen::default() };
    let sampled = read_spans(r, base)?;
    let precise = read_spans(r, base)?;
    let how = r.take(precise.len())?;
    let fidelity = |exact: u8| if exact == 0 { Fidelity::Blocking } else { Fidelity::Exact };
    let precise = precise.into_iter().zip(how).map(|(span, exact)| Stretch { span, fidelity: fidelity(*exact) }).collect();
    digest.seen = Seen { sampled, precise, ..seen };
    Ok(())
}

fn write_rows(w: &mut Writer, d: &Digest) {
    let mut places: FxHashMap<QueryId, u64> = FxHashMap::default();
    let mut queries = Vec::new();
    let mut place = |query: QueryId| {
        *places.entry(query).or_insert_with(|| {
            queries.push(query);
            queries.len() as u64 - 1
        })
    };
    let row_queries: Vec<u64> = d.rows.iter().map(|r| place(r.key.query)).collect();
    let execution_queries: Vec<u64> = d.executions.iter().map(|e| place(e.query)).collect();
    let open_queries: Vec<u64> = d.open.iter().map(|o| place(o.query)).collect();
    let mut events: Vec<WaitEvent> = d.rows.iter().map(|r| r.key.event).collect();
    events.sort_unstable();
    events.dedup();
    w.uleb(queries.len() as u64);
    queries.iter().for_each(|q| w.u64(q.0 as u64));
    w.uleb(events.len() as u64);
    events.iter().for_each(|e| w.u32(e.0));
    w.uleb(d.rows.len() as u64);
    write_sessions(w, d.rows.iter().map(|r| r.key.session));
    row_queries.iter().for_each(|q| w.uleb(*q));
    d.rows.iter().for_each(|r| w.uleb(events.partition_point(|e| *e < r.key.event) as u64));
    d.rows.iter().for_each(|r| w.u8(r.key.state as u8 | u8::from(r.key.precise) << 7));
    d.rows.iter().for_each(|r| w.uleb(r.sums.ns));
    d.rows.iter().for_each(|r| w.uleb(if r.key.precise { r.sums.waits } else { r.sums.samples }));
    d.rows.iter().filter(|r| r.key.precise).for_each(|r| w.uleb(r.sums.cpu_ns));
    d.rows.iter().filter(|r| r.key.precise).for_each(|r| w.uleb(r.sums.runq_ns));
    w.uleb(d.executions.len() as u64);
    write_sessions(w, d.executions.iter().map(|e| e.session));
    execution_queries.iter().for_each(|q| w.uleb(*q));
    for e in &d.executions {
        [e.count, e.inferred, e.whole].iter().for_each(|v| w.uleb(*v));
    }
    w.uleb(d.open.len() as u64);
    write_sessions(w, d.open.iter().map(|o| o.session));
    open_queries.iter().for_each(|q| w.uleb(*q));
    d.open.iter().for_each(|o| w.delta(d.span.end.0, o.at.0));
    d.open.iter().for_each(|o| w.u8(u8::from(o.inferred) | u8::from(o.followed) << 1));
}

fn write_sessions(w: &mut Writer, ids: impl Iterator<Item = SessionId>) {
    let mut last = 0;
    for id in ids {
        w.delta(last, u64::from(id.0));
        last = u64::from(id.0);
    }
}

fn read_sessions(r: &mut Reader<'_>, n: usize) -> Result<Vec<SessionId>, Problem> {
    let mut last = 0;
    (0..n)
        .map(|_| {
            last = r.delta(last)?;
            u32::try_from(last).map(SessionId).map_err(|_| WRONG)
        })
        .collect()
}

fn places<T: Copy>(r: &mut Reader<'_>, n: usize, of: &[T]) -> Result<Vec<T>, Problem> {
    r.ulebs(n)?.into_iter().map(|place| usize::try_from(place).ok().and_then(|p| of.get(p)).copied().ok_or(WRONG)).collect()
}

fn read_rows(r: &mut Reader<'_>, d: &mut Digest) -> Result<(), Problem> {
    let n = r.count(8)?;
    let queries: Vec<QueryId> = r.u64s(n)?.into_iter().map(|q| QueryId(q as i64)).collect();
    let n = r.count(4)?;
    let events: Vec<WaitEvent> = r.u32s(n)?.into_iter().map(WaitEvent).collect();
    let n = r.count(6)?;
    let what = read_sessions(r, n)?.into_iter().zip(places(r, n, &queries)?).zip(places(r, n, &events)?);
    let how = r.take(n)?;
    let keys: Vec<Key> = what
        .zip(how)
        .map(|(((session, query), event), how)| {
            let state = State::of(how & 0x7f).ok_or(WRONG)?;
            Ok(Key { session, query, event, state, precise: how & 0x80 != 0 })
        })
        .collect::<Result<_, Problem>>()?;
    let (ns, counts) = (r.ulebs(n)?, r.ulebs(n)?);
    let precise = keys.iter().filter(|k| k.precise).count();
    let (mut cpu, mut runq) = (r.ulebs(precise)?.into_iter(), r.ulebs(precise)?.into_iter());
    for ((key, ns), count) in keys.into_iter().zip(ns).zip(counts) {
        let (samples, waits) = if key.precise { (0, count) } else { (count, 0) };
        let (cpu_ns, runq_ns) = if key.precise { (cpu.next().unwrap_or(0), runq.next().unwrap_or(0)) } else { (0, 0) };
        // No session has more time than there is, and they are added up.
        if cpu_ns > ns || ns.max(runq_ns).max(count) >= 1 << 48 {
            return Err(WRONG);
        }
        d.rows.push(Row { key, sums: Sums { ns, cpu_ns, runq_ns, samples, waits }, lengths: Counted::default() });
    }
    let n = r.count(5)?;
    let who = read_sessions(r, n)?.into_iter().zip(places(r, n, &queries)?);
    for (session, query) in who {
        let (count, inferred, whole) = (r.counter()?, r.counter()?, r.counter()?);
        d.executions.push(Execution { session, query, count, inferred, whole, lengths: Counted::default() });
    }
    let n = r.count(4)?;
    let who: Vec<_> = read_sessions(r, n)?.into_iter().zip(places(r, n, &queries)?).collect();
    let at: Vec<u64> = (0..n).map(|_| r.delta(d.span.end.0)).collect::<Result<_, _>>()?;
    for (((session, query), at), flags) in who.into_iter().zip(at).zip(r.take(n)?) {
        d.open.push(Open { session, at: Ts(at), query, inferred: flags & 1 != 0, followed: flags & 2 != 0 });
    }
    Ok(())
}

fn write_counted(w: &mut Writer, c: &Counted) {
    w.uleb(c.min);
    w.uleb(c.max - c.min);
    w.uleb(c.cells.len() as u64);
    let mut last = 0;
    for (place, n) in &c.cells {
        // The next bucket but for those marked: then how far it is.
        let step = u64::from(place - last);
        w.uleb(u64::from(*n) << 1 | u64::from(step != 1));
        if step != 1 {
            w.uleb(step);
        }
        last = *place;
    }
    c.sums.iter().for_each(|(_, sum)| w.uleb(*sum));
}

fn read_counted(r: &mut Reader<'_>, waits: u64) -> Result<Counted, Problem> {
    let min = r.uleb()?;
    let max = min.checked_add(r.uleb()?).ok_or(WRONG)?;
    let n = r.count(1)?;
    let mut c = Counted { cells: Vec::with_capacity(n), sums: Vec::new(), min, max };
    let (mut place, mut total) = (0u64, 0u64);
    for _ in 0..n {
        let code = r.uleb()?;
        place = place.checked_add(if code & 1 == 0 { 1 } else { r.uleb()? }).filter(|p| *p < (FINE * OCTAVES) as u64).ok_or(WRONG)?;
        let many = u32::try_from(code >> 1).map_err(|_| WRONG)?;
        total = total.saturating_add(u64::from(many));
        c.cells.push((place as u16, many));
    }
    if total != waits || !c.cells.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(WRONG);
    }
    for cells in c.cells.chunk_by(|a, b| usize::from(a.0) / FINE == usize::from(b.0) / FINE) {
        let octave = cells.first().map_or(0, |c| usize::from(c.0) / FINE);
        c.sums.push((octave as u8, r.uleb()?));
    }
    Ok(c)
}
