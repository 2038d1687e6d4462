//! What a block of ours holds: rows and coverage of one [`Block`], in one of three forms.
//!
//! Rows: everything is here. Ticks: rows are runs of ticks (sampled blocks). Beside: ended intervals stand in the blocks of transitions before, and
//! only what those cannot say is here.

#![allow(clippy::needless_for_each, reason = "one column a line")]

use super::bytes::{Reader, Writer};
use super::frame::{Framed, own_span, read_own};
use super::records::{COMMAND_END, COMMAND_START, Transitions, is_marker, read_transitions};
use super::{Problem, kind};
use crate::trace::block::{Blind, Block, Columns, Edge, Loss, Mark, Tick};
use crate::trace::clock::{Span, Ts};
use crate::trace::record::{Fidelity, QueryId, SessionId, State};
use crate::trace::wait::WaitEvent;
use rustc_hash::FxHashMap;
use std::hash::Hash;

pub(super) const ROWS: u8 = 0;
pub(super) const TICKS: u8 = 1;
pub(super) const BESIDE: u8 = 2;

const FIDELITIES: [Fidelity; 5] = [Fidelity::None, Fidelity::Sampled, Fidelity::Blocking, Fidelity::Exact, Fidelity::Mixed];
const STATES: [State; 8] = [
    State::Starting,
    State::Idle,
    State::Active,
    State::IdleInTransaction,
    State::Fastpath,
    State::IdleInTransactionAborted,
    State::Disabled,
    State::None,
];

const WRONG: Problem = Problem::Damaged("a block speaks of something it does not hold");

/// Which rows an own table holds, by index into the columns.
pub(super) type Chosen<'a> = &'a [u32];

/// The value at a place; its default where there is none, which writing from whole columns never meets.
pub(super) fn at<T: Copy + Default>(column: &[T], i: u32) -> T {
    column.get(i as usize).copied().unwrap_or_default()
}

/// Distinct values in the order they come, and for each value its place among them.
fn dictionary<T: Copy + Eq + Hash>(values: impl Iterator<Item = T>) -> (Vec<T>, Vec<u32>) {
    let mut places: FxHashMap<T, u32> = FxHashMap::default();
    let mut distinct = Vec::new();
    let index = values
        .map(|v| {
            *places.entry(v).or_insert_with(|| {
                distinct.push(v);
                distinct.len() as u32 - 1
            })
        })
        .collect();
    (distinct, index)
}

fn write_sessions(w: &mut Writer, ids: impl Iterator<Item = SessionId> + Clone) {
    let mut distinct: Vec<u32> = ids.clone().map(|s| s.0).collect();
    distinct.sort_unstable();
    distinct.dedup();
    w.uleb(distinct.len() as u64);
    let mut last = 0;
    for id in &distinct {
        w.uleb(u64::from(id - last));
        last = *id;
    }
    let mut last = 0;
    for id in ids {
        let place = distinct.partition_point(|d| *d < id.0) as u64;
        w.delta(last, place);
        last = place;
    }
}

fn read_sessions(r: &mut Reader<'_>, n: usize) -> Result<Vec<SessionId>, Problem> {
    let count = r.count(1)?;
    let mut id = 0u32;
    let mut distinct = Vec::with_capacity(count);
    for step in r.short_ulebs(count)? {
        id = id.wrapping_add(step);
        distinct.push(SessionId(id));
    }
    let mut place = 0;
    (0..n)
        .map(|_| {
            place = r.delta(place)?;
            distinct.get(place as usize).copied().ok_or(WRONG)
        })
        .collect()
}

fn write_events(w: &mut Writer, values: impl Iterator<Item = WaitEvent>) {
    let (distinct, index) = dictionary(values);
    w.uleb(distinct.len() as u64);
    distinct.iter().for_each(|e| w.u32(e.0));
    index.iter().for_each(|i| w.uleb(u64::from(*i)));
}

fn write_queries(w: &mut Writer, values: impl Iterator<Item = QueryId>) {
    let (distinct, index) = dictionary(values);
    w.uleb(distinct.len() as u64);
    distinct.iter().for_each(|q| w.u64(q.0 as u64));
    index.iter().for_each(|i| w.uleb(u64::from(*i)));
}

fn places<T: Copy>(r: &mut Reader<'_>, n: usize, distinct: &[T]) -> Result<Vec<T>, Problem> {
    if n > r.0.len() {
        return Err(WRONG);
    }
    (0..n).map(|_| distinct.get(r.uleb()? as usize).copied().ok_or(WRONG)).collect()
}

fn read_events(r: &mut Reader<'_>, n: usize) -> Result<Vec<WaitEvent>, Problem> {
    let count = r.count(4)?;
    let distinct: Vec<WaitEvent> = r.u32s(count)?.into_iter().map(WaitEvent).collect();
    places(r, n, &distinct)
}

fn read_queries(r: &mut Reader<'_>, n: usize) -> Result<Vec<QueryId>, Problem> {
    let count = r.count(8)?;
    let distinct: Vec<QueryId> = r.u64s(count)?.into_iter().map(|q| QueryId(q as i64)).collect();
    places(r, n, &distinct)
}

fn state(byte: u8) -> Result<State, Problem> {
    STATES.get(usize::from(byte)).copied().ok_or(WRONG)
}

/// Sessions, events, queries and states of some rows.
fn write_what(w: &mut Writer, c: &Columns, rows: Chosen<'_>) {
    write_sessions(w, rows.iter().map(|i| at(&c.session, *i)));
    write_events(w, rows.iter().map(|i| at(&c.event, *i)));
    write_queries(w, rows.iter().map(|i| at(&c.query, *i)));
    rows.iter().for_each(|i| w.u8(at(&c.state, *i) as u8));
}

fn read_what(r: &mut Reader<'_>, n: usize, c: &mut Columns) -> Result<(), Problem> {
    c.session = read_sessions(r, n)?;
    c.event = read_events(r, n)?;
    c.query = read_queries(r, n)?;
    c.state = r.take(n)?.iter().map(|b| state(*b)).collect::<Result<_, _>>()?;
    Ok(())
}

/// Rows with everything.
pub(super) fn write_rows(w: &mut Writer, c: &Columns, rows: Chosen<'_>) {
    w.uleb(rows.len() as u64);
    write_what(w, c, rows);
    let mut last = c.span.start.0;
    for i in rows {
        let start = at(&c.start, *i).0;
        w.delta(last, start);
        last = start;
    }
    rows.iter().for_each(|i| w.uleb(at(&c.end, *i).0.wrapping_sub(at(&c.start, *i).0)));
    rows.iter().for_each(|i| w.uleb(u64::from(at(&c.samples, *i))));
    w.u8(u8::from(!c.cpu.is_empty()));
    if c.cpu.is_empty() {
        return;
    }
    rows.iter().for_each(|i| w.uleb(u64::from(at(&c.cpu, *i))));
    rows.iter().for_each(|i| w.uleb(u64::from(at(&c.runq, *i))));
    let mut pieces = c.pieces.iter().peekable();
    let mut kept = Vec::new();
    for (place, i) in rows.iter().enumerate() {
        while pieces.next_if(|p| p.0 < *i).is_some() {}
        if let Some(p) = pieces.next_if(|p| p.0 == *i) {
            kept.push((place as u64, p.1, p.2));
        }
    }
    w.uleb(kept.len() as u64);
    let mut last = 0;
    for (place, lead, open) in kept {
        w.uleb(place - last);
        w.uleb(lead);
        w.u8(u8::from(open));
        last = place;
    }
}

fn read_rows(r: &mut Reader<'_>, c: &mut Columns) -> Result<(), Problem> {
    let n = r.count(1)?;
    read_what(r, n, c)?;
    let mut last = c.span.start.0;
    c.start = Vec::with_capacity(n);
    for _ in 0..n {
        last = r.delta(last)?;
        c.start.push(Ts(last));
    }
    c.end = c.start.iter().map(|s| r.uleb().map(|len| Ts(s.0.wrapping_add(len)))).collect::<Result<_, _>>()?;
    c.samples = r.short_ulebs(n)?;
    if r.u8()? == 0 {
        return Ok(());
    }
    c.cpu = r.short_ulebs(n)?;
    c.runq = r.short_ulebs(n)?;
    let mut place = 0u32;
    for _ in 0..r.count(3)? {
        place = place.checked_add(r.uleb()?.try_into().map_err(|_| WRONG)?).ok_or(WRONG)?;
        c.pieces.push((place, r.uleb()?, r.u8()? != 0));
    }
    Ok(())
}

/// Of each row its first tick and how many ticks saw it, if every row is exactly such a run.
pub(super) fn runs(c: &Columns) -> Option<Vec<(u32, u32)>> {
    if c.fidelity != Fidelity::Sampled || !c.cpu.is_empty() || !c.ticks.is_sorted_by(|a, b| a.at < b.at) {
        return None;
    }
    let run = |((start, end), samples): ((&Ts, &Ts), &u32)| {
        let last = c.ticks.binary_search_by_key(end, |t| t.at).ok()?;
        let first = (last + 1).checked_sub(*samples as usize)?;
        let begins = c.ticks.get(first)?.span().start == *start;
        (begins && *samples > 0).then_some((first as u32, *samples))
    };
    c.start.iter().zip(&c.end).zip(&c.samples).map(run).collect()
}

pub(super) fn write_runs(w: &mut Writer, c: &Columns, runs: &[(u32, u32)]) {
    let rows: Vec<u32> = (0..runs.len() as u32).collect();
    w.uleb(rows.len() as u64);
    write_what(w, c, &rows);
    let mut last = 0;
    for (first, _) in runs {
        w.delta(last, u64::from(*first));
        last = u64::from(*first);
    }
    runs.iter().for_each(|(_, samples)| w.uleb(u64::from(*samples)));
}

fn read_runs(r: &mut Reader<'_>, c: &mut Columns) -> Result<(), Problem> {
    let n = r.count(1)?;
    read_what(r, n, c)?;
    let mut first = 0;
    let mut begins = Vec::with_capacity(n);
    for _ in 0..n {
        first = r.delta(first)?;
        begins.push(first as usize);
    }
    c.samples = r.short_ulebs(n)?;
    for (first, samples) in begins.into_iter().zip(&c.samples) {
        let last = first.checked_add(*samples as usize).and_then(|l| l.checked_sub(1)).ok_or(WRONG)?;
        c.start.push(c.ticks.get(first).ok_or(WRONG)?.span().start);
        c.end.push(c.ticks.get(last).ok_or(WRONG)?.at);
    }
    Ok(())
}

/// What transitions cannot say of ended intervals, which stand in them in the order of `ended`.
pub(super) fn write_beside(w: &mut Writer, c: &Columns, ended: Chosen<'_>, pids: &[(SessionId, u32)]) {
    w.uleb(ended.len() as u64);
    w.uleb(pids.len() as u64);
    for (session, pid) in pids {
        w.uleb(u64::from(session.0));
        w.u32(*pid);
    }
    ended.iter().for_each(|i| w.u8(at(&c.state, *i) as u8));
    ended.iter().for_each(|i| w.uleb(u64::from(at(&c.runq, *i))));
    let lead = |i: &u32| c.pieces.binary_search_by_key(i, |p| p.0).ok().and_then(|p| c.pieces.get(p)).map(|p| p.1);
    let led: Vec<(u64, u64, u32)> =
        ended.iter().enumerate().filter_map(|(place, i)| lead(i).map(|l| (place as u64, l, at(&c.cpu, *i)))).collect();
    w.uleb(led.len() as u64);
    let mut last = 0;
    for (place, lead, cpu) in led {
        w.uleb(place - last);
        w.uleb(lead);
        w.uleb(u64::from(cpu));
        last = place;
    }
}

/// Sessions by process id.
type Sessions = FxHashMap<u32, SessionId>;

/// A row on its way to its place.
#[derive(Clone, Copy)]
struct Placed {
    start: u64,
    session: SessionId,
    end: u64,
    ended: bool,
    row: u32,
    lead: u64,
    cpu: u32,
}

fn read_beside(r: &mut Reader<'_>, c: &mut Columns, told: &Transitions) -> Result<Sessions, Problem> {
    let open = std::mem::take(c);
    let n = r.count(2)?;
    let sessions: Sessions = (0..r.count(5)?)
        .map(|_| {
            let session = SessionId(r.uleb()?.try_into().map_err(|_| WRONG)?);
            Ok((r.u32()?, session))
        })
        .collect::<Result<_, Problem>>()?;
    let states = r.take(n)?;
    let runq = r.short_ulebs(n)?;
    let mut led = Vec::new();
    let mut place = 0usize;
    for _ in 0..r.count(3)? {
        place = place.checked_add(r.uleb()?.try_into().map_err(|_| WRONG)?).ok_or(WRONG)?;
        led.push((place, r.uleb()?, u32::try_from(r.uleb()?).map_err(|_| WRONG)?));
    }
    let mut led = led.into_iter().peekable();
    let mut rows = Vec::with_capacity(n + open.start.len());
    let mut last = (u32::MAX, SessionId(0));
    let records = told.ts.iter().zip(&told.pid).zip(told.old.iter().zip(&told.duration)).zip(&told.cpu);
    let waits = records.enumerate().filter(|(_, (((_, _), (old, _)), _))| !is_marker(**old));
    for (place, (record, (((ts, pid), (_, duration)), cpu))) in waits.enumerate() {
        if last.0 != *pid || place == 0 {
            last = (*pid, *sessions.get(pid).ok_or(WRONG)?);
        }
        let (lead, cpu) = match led.next_if(|l| l.0 == place) {
            Some((_, lead, cpu)) => (lead, cpu),
            None => (0, u32::try_from(*cpu).map_err(|_| WRONG)?),
        };
        let length = duration.checked_sub(lead).ok_or(WRONG)?;
        let start = ts.checked_sub(length).ok_or(WRONG)?;
        rows.push(Placed { start, session: last.1, end: *ts, ended: true, row: record as u32, lead, cpu });
    }
    if rows.len() != n || led.next().is_some() {
        return Err(WRONG);
    }
    let place_of: Vec<u32> = {
        // A transition's place among those that are not markers.
        let mut place = 0;
        let of = |old: &u32| {
            let here = place;
            place += u32::from(!is_marker(*old));
            here
        };
        told.old.iter().map(of).collect()
    };
    let leads: FxHashMap<u32, u64> = open.pieces.iter().map(|p| (p.0, p.1)).collect();
    for (i, (start, end)) in open.start.iter().zip(&open.end).enumerate() {
        let row = i as u32;
        let lead = leads.get(&row).copied().unwrap_or(0);
        rows.push(Placed { start: start.0, session: at(&open.session, row), end: end.0, ended: false, row, lead, cpu: at(&open.cpu, row) });
    }
    let mut order: Vec<(u64, SessionId, u32)> = rows.iter().zip(0..).map(|(p, i)| (p.start, p.session, i)).collect();
    let rest = |i: u32| rows.get(i as usize).map(|p| (p.end, p.ended));
    order.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| (rest(a.2), a.2).cmp(&(rest(b.2), b.2))));
    let rows: Vec<Placed> = order.iter().filter_map(|(_, _, i)| rows.get(*i as usize).copied()).collect();
    let n = rows.len();
    *c = Columns { fidelity: open.fidelity, span: open.span, ticks: open.ticks, ..Columns::default() };
    c.start = rows.iter().map(|p| Ts(p.start)).collect();
    c.end = rows.iter().map(|p| Ts(p.end)).collect();
    c.session = rows.iter().map(|p| p.session).collect();
    c.cpu = rows.iter().map(|p| p.cpu).collect();
    c.samples = vec![0; n];
    c.event.reserve_exact(n);
    c.query.reserve_exact(n);
    c.state.reserve_exact(n);
    c.runq.reserve_exact(n);
    for (i, p) in rows.iter().enumerate() {
        if p.ended {
            let place = at(&place_of, p.row);
            c.event.push(WaitEvent(at(&told.old, p.row)));
            c.query.push(QueryId(at(&told.query, p.row) as i64));
            c.state.push(state(at(states, place))?);
            c.runq.push(at(&runq, place));
        } else {
            c.event.push(at(&open.event, p.row));
            c.query.push(at(&open.query, p.row));
            c.state.push(at(&open.state, p.row));
            c.runq.push(at(&open.runq, p.row));
        }
        if !p.ended || p.lead > 0 {
            c.pieces.push((i as u32, p.lead, !p.ended));
        }
    }
    Ok(sessions)
}

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

fn read_ticks(r: &mut Reader<'_>, c: &mut Columns) -> Result<(), Problem> {
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

/// `told`: the marks stand in the transitions, too, in the same order.
pub(super) fn write_coverage(w: &mut Writer, c: &Columns, told: bool) {
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
    w.u8(u8::from(told));
    if told {
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

fn read_coverage(r: &mut Reader<'_>, c: &mut Columns, told: Option<(Sessions, Transitions)>) -> Result<(), Problem> {
    let mut last = c.span.start.0;
    c.watched = (0..r.count(2)?).map(|_| read_span(r, &mut last)).collect::<Result<_, _>>()?;
    for _ in 0..r.count(4)? {
        let span = read_span(r, &mut last)?;
        let who = r.uleb()?.checked_sub(1).map(session).transpose()?;
        c.losses.push(Loss { span, session: who, records: r.uleb()? });
    }
    for _ in 0..r.count(3)? {
        let span = read_span(r, &mut last)?;
        c.blind.push(Blind { session: session(r.uleb()?)?, span });
    }
    let n = r.count(1)?;
    if r.u8()? != 0 {
        let (sessions, rows) = told.ok_or(WRONG)?;
        let inferred = r.take(n)?;
        let records = rows.ts.iter().zip(&rows.pid).zip(rows.old.iter().zip(&rows.query));
        for ((at, pid), (old, query)) in records.filter(|(_, (old, _))| matches!(**old, COMMAND_START | COMMAND_END)) {
            let edge = if *old == COMMAND_START { Edge::Begin } else { Edge::End };
            let inferred = *inferred.get(c.marks.len()).ok_or(WRONG)? != 0;
            let session = *sessions.get(pid).ok_or(WRONG)?;
            c.marks.push(Mark { at: Ts(*at), session, query: QueryId(*query as i64), edge, inferred });
        }
        return if c.marks.len() == n { Ok(()) } else { Err(WRONG) };
    }
    let queries = read_queries(r, n)?;
    let sessions = r.short_ulebs(n)?;
    let flags = r.take(n)?;
    for ((query, session), flags) in queries.into_iter().zip(sessions).zip(flags) {
        last = r.delta(last)?;
        let edge = if flags & 1 == 0 { Edge::Begin } else { Edge::End };
        c.marks.push(Mark { at: Ts(last), session: SessionId(session), query, edge, inferred: flags & 2 != 0 });
    }
    Ok(())
}

/// The columns of a block of ours, with the blocks that belong to it.
pub fn read_columns(version: u16, own: &Framed<'_>, beside: &[Framed<'_>]) -> Result<Columns, Problem> {
    if own.header.kind != kind::BLOCK {
        return Err(WRONG);
    }
    let content = read_own(own, beside)?;
    let mut r = Reader(&content);
    let form = r.u8()?;
    let fidelity = FIDELITIES.get(usize::from(r.u8()?)).copied().ok_or(WRONG)?;
    let mut c = Columns { fidelity, span: own_span(&own.header), ..Columns::default() };
    read_ticks(&mut r, &mut c)?;
    let mut marks = None;
    match form {
        ROWS => read_rows(&mut r, &mut c)?,
        TICKS => read_runs(&mut r, &mut c)?,
        BESIDE => {
            read_rows(&mut r, &mut c)?;
            let mut told = Transitions::default();
            for block in beside.iter().filter(|b| b.header.kind == kind::TRANSITIONS) {
                let t = read_transitions(version, &block.header, block.stored())?;
                told.ts.extend(t.ts);
                told.pid.extend(t.pid);
                told.old.extend(t.old);
                told.duration.extend(t.duration);
                told.query.extend(t.query);
                told.cpu.extend(t.cpu);
            }
            marks = Some((read_beside(&mut r, &mut c, &told)?, told));
        }
        _ => return Err(WRONG),
    }
    read_coverage(&mut r, &mut c, marks)?;
    r.end()?;
    Ok(c)
}

/// The block a group holds.
pub fn read_block(version: u16, own: &Framed<'_>, beside: &[Framed<'_>]) -> Result<Block, Problem> {
    read_columns(version, own, beside)?.block().ok_or(WRONG)
}

/// The place of a fidelity in [`FIDELITIES`].
pub(super) fn fidelity_byte(fidelity: Fidelity) -> u8 {
    FIDELITIES.iter().position(|f| *f == fidelity).unwrap_or(0) as u8
}
