//! What a block of ours says about itself: its ticks, what was watched, lost and not followed, and the marks of commands. It stands before the rows, so
//! that it can be read without them.

#![allow(clippy::needless_for_each, reason = "one column a line")]

use super::Problem;
use super::body::{WRONG, read_queries, write_queries};
use super::bytes::{Reader, Writer};
use crate::trace::block::{Blind, Columns, Edge, Loss, Mark, Tick};
use crate::trace::clock::{Span, Ts};
use crate::trace::record::SessionId;

pub(super) fn write_ticks(w: &mut Writer, c: &Columns) {
    w.uleb(c.ticks.len() as u64);
    let mut last = c.span.start.0;
    for t in &c.ticks {
        w.delta(last, t.at.0);
        last = t.at.0;
    }
    let mut last = c.span.start.0;
    for t in &c.ticks {
        w.delta(t.at.0.wrapping_sub(last), t.weight);
        last = t.at.0;
    }
    c.ticks.iter().for_each(|t| w.uleb(u64::from(t.unread)));
}

pub(super) fn read_ticks(r: &mut Reader<'_>, c: &mut Columns) -> Result<(), Problem> {
    let n = r.count(3)?;
    let mut last = c.span.start.0;
    c.ticks = Vec::with_capacity(n);
    for _ in 0..n {
        last = r.delta(last)?;
        c.ticks.push(Tick { at: Ts(last), weight: 0, unread: 0 });
    }
    let mut last = c.span.start.0;
    for t in &mut c.ticks {
        t.weight = r.delta(t.at.0.wrapping_sub(last))?;
        last = t.at.0;
    }
    for (t, unread) in c.ticks.iter_mut().zip(r.short_ulebs(n)?) {
        t.unread = unread;
    }
    Ok(())
}

fn write_span(w: &mut Writer, last: &mut u64, span: Span) {
    w.delta(*last, span.start.0);
    w.uleb(span.end.0.wrapping_sub(span.start.0));
    *last = span.end.0;
}

fn read_span(r: &mut Reader<'_>, last: &mut u64) -> Result<Span, Problem> {
    let start = r.delta(*last)?;
    *last = start.wrapping_add(r.uleb()?);
    Ok(Span { start: Ts(start), end: Ts(*last) })
}

/// `told`: the marks stand in the transitions, too, in this order.
pub(super) fn write_coverage(w: &mut Writer, c: &Columns, told: Option<&[u32]>) {
    let mut last = c.span.start.0;
    w.uleb(c.watched.len() as u64);
    c.watched.iter().for_each(|s| write_span(w, &mut last, *s));
    w.uleb(c.losses.len() as u64);
    for loss in &c.losses {
        write_span(w, &mut last, loss.span);
        w.uleb(loss.session.map_or(0, |s| u64::from(s.0) + 1));
        w.uleb(loss.records);
    }
    w.uleb(c.blind.len() as u64);
    for blind in &c.blind {
        write_span(w, &mut last, blind.span);
        w.uleb(u64::from(blind.session.0));
    }
    w.uleb(c.marks.len() as u64);
    w.u8(u8::from(told.is_some()));
    if let Some(told) = told {
        let when = |i: &u32| c.marks.get(*i as usize).map(|m| m.at);
        let mut order = told.to_vec();
        order.sort_by_key(when);
        order.iter().zip(0..).for_each(|(i, place)| w.delta(place, u64::from(*i)));
        c.marks.iter().for_each(|m| w.u8(u8::from(m.inferred)));
        return;
    }
    write_queries(w, c.marks.iter().map(|m| m.query));
    c.marks.iter().for_each(|m| w.uleb(u64::from(m.session.0)));
    c.marks.iter().for_each(|m| w.u8(u8::from(m.edge == Edge::End) | u8::from(m.inferred) << 1));
    for m in &c.marks {
        w.delta(last, m.at.0);
        last = m.at.0;
    }
}

fn session(v: u64) -> Result<SessionId, Problem> {
    u32::try_from(v).map(SessionId).map_err(|_| WRONG)
}

/// Marks that stand in the transitions: what those cannot say of them.
pub(super) struct Told<'a> {
    /// Of each in the order of times, which one it is.
    order: Vec<usize>,
    inferred: &'a [u8],
}

impl Told<'_> {
    /// The marks in their own order, from what the transitions say of them.
    pub(super) fn marks(self, mut found: Vec<Mark>) -> Result<Vec<Mark>, Problem> {
        if found.len() != self.order.len() {
            return Err(WRONG);
        }
        found.sort_by_key(|m| m.at);
        let mut marks: Vec<Option<Mark>> = vec![None; found.len()];
        for (mark, i) in found.into_iter().zip(self.order) {
            let inferred = *self.inferred.get(i).ok_or(WRONG)? != 0;
            *marks.get_mut(i).ok_or(WRONG)? = Some(Mark { inferred, ..mark });
        }
        marks.into_iter().collect::<Option<_>>().ok_or(WRONG)
    }
}

pub(super) fn read_coverage<'a>(r: &mut Reader<'a>, c: &mut Columns) -> Result<Option<Told<'a>>, Problem> {
    let mut last = c.span.start.0;
    c.watched = (0..r.count(2)?).map(|_| read_span(r, &mut last)).collect::<Result<_, _>>()?;
    for _ in 0..r.count(4)? {
        let span = read_span(r, &mut last)?;
        let who = r.uleb()?.checked_sub(1).map(session).transpose()?;
        c.losses.push(Loss { span, session: who, records: r.counter()? });
    }
    for _ in 0..r.count(3)? {
        let span = read_span(r, &mut last)?;
        c.blind.push(Blind { session: session(r.uleb()?)?, span });
    }
    let n = r.count(1)?;
    if r.u8()? != 0 {
        let order = (0..n as u64).map(|place| r.delta(place).map(|i| i as usize)).collect::<Result<_, _>>()?;
        return Ok(Some(Told { order, inferred: r.take(n)? }));
    }
    let queries = read_queries(r, n)?;
    let sessions = r.short_ulebs(n)?;
    let flags = r.take(n)?;
    for ((query, session), flags) in queries.into_iter().zip(sessions).zip(flags) {
        last = r.delta(last)?;
        let edge = if flags & 1 == 0 { Edge::Begin } else { Edge::End };
        c.marks.push(Mark { at: Ts(last), session: SessionId(session), query, edge, inferred: flags & 2 != 0 });
    }
    Ok(None)
}
