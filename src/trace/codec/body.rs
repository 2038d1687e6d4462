//! What a block of ours holds: rows and coverage of one [`Block`], in one of three forms.
//!
//! Rows: everything is here. Ticks: rows are runs of ticks (sampled blocks). Beside: ended intervals stand in the blocks of transitions before, and
//! only what those cannot say is here.

#![allow(clippy::needless_for_each, reason = "one column a line")]

use super::bytes::{Reader, Writer};
use super::coverage::{read_coverage, read_ticks};
use super::frame::{Framed, own_span, read_own};
use super::records::{COMMAND_END, COMMAND_START, Transitions, append_transitions, is_marker};
use super::{Problem, kind};
use crate::trace::block::{Block, Columns, Edge, Mark};
use crate::trace::clock::Ts;
use crate::trace::record::{Fidelity, QueryId, SessionId, State};
use crate::trace::wait::WaitEvent;
use rustc_hash::FxHashMap;
use std::hash::Hash;

pub(super) const ROWS: u8 = 0;
pub(super) const TICKS: u8 = 1;
pub(super) const BESIDE: u8 = 2;

const FIDELITIES: [Fidelity; 5] = [Fidelity::None, Fidelity::Sampled, Fidelity::Blocking, Fidelity::Exact, Fidelity::Mixed];
pub(super) const WRONG: Problem = Problem::Damaged("a block speaks of something it does not hold");

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

pub(super) fn write_queries(w: &mut Writer, values: impl Iterator<Item = QueryId>) {
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

pub(super) fn read_queries(r: &mut Reader<'_>, n: usize) -> Result<Vec<QueryId>, Problem> {
    let count = r.count(8)?;
    let distinct: Vec<QueryId> = r.u64s(count)?.into_iter().map(|q| QueryId(q as i64)).collect();
    places(r, n, &distinct)
}

fn state(byte: u8) -> Result<State, Problem> {
    State::of(byte).ok_or(WRONG)
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

/// Numbers that are mostly 0: how far apart the others are, then those.
fn write_few(w: &mut Writer, values: impl Iterator<Item = u32>) {
    let few: Vec<(u64, u32)> = (1..).zip(values).filter(|v| v.1 != 0).collect();
    w.uleb(few.len() as u64);
    let mut last = 0;
    for (place, _) in &few {
        w.uleb(place - last);
        last = *place;
    }
    few.iter().for_each(|v| w.uleb(u64::from(v.1)));
}

fn read_few(r: &mut Reader<'_>, n: usize) -> Result<Vec<u32>, Problem> {
    let count = r.count(2)?;
    let steps = r.short_ulebs(count)?;
    let mut out = vec![0; n];
    let mut left = out.as_mut_slice();
    for (step, value) in steps.into_iter().zip(r.short_ulebs(count)?) {
        let (head, tail) = left.split_at_mut_checked(step as usize).ok_or(WRONG)?;
        *head.last_mut().ok_or(WRONG)? = value;
        left = tail;
    }
    Ok(out)
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
    write_few(w, ended.iter().map(|i| at(&c.runq, *i)));
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
pub(super) type Sessions = FxHashMap<u32, SessionId>;

/// Rows on their way to their places: ended ones in the order of their transitions, then those that go on.
#[derive(Default)]
struct Rows {
    start: Vec<u64>,
    end: Vec<u64>,
    session: Vec<SessionId>,
    event: Vec<u32>,
    query: Vec<u64>,
    cpu: Vec<u32>,
}

impl Rows {
    /// The waits of transitions, and the marks of commands among them.
    fn told(told: &Transitions, sessions: &Sessions, open: usize) -> Result<(Self, Vec<Mark>), Problem> {
        let most = told.ts.len() + open;
        let mut rows = Self {
            start: Vec::with_capacity(most),
            end: Vec::with_capacity(most),
            session: Vec::with_capacity(most),
            event: Vec::with_capacity(most),
            query: Vec::with_capacity(most),
            cpu: Vec::with_capacity(most),
        };
        let mut marks = Vec::new();
        let mut last: Option<(u32, SessionId)> = None;
        let what = told.pid.iter().zip(&told.old).zip(&told.query);
        for (((ts, length), cpu), ((pid, old), query)) in told.ts.iter().zip(&told.duration).zip(&told.cpu).zip(what) {
            let command = matches!(*old, COMMAND_START | COMMAND_END);
            if is_marker(*old) && !command {
                continue;
            }
            let session = match last {
                Some((p, session)) if p == *pid => session,
                _ => *sessions.get(pid).ok_or(WRONG)?,
            };
            last = Some((*pid, session));
            if command {
                let edge = if *old == COMMAND_START { Edge::Begin } else { Edge::End };
                marks.push(Mark { at: Ts(*ts), session, query: QueryId(*query as i64), edge, inferred: false });
                continue;
            }
            // Those with a lead are set right afterwards: their length and on-CPU time may be beyond a row's.
            rows.start.push(ts.wrapping_sub(*length));
            rows.end.push(*ts);
            rows.session.push(session);
            rows.event.push(*old);
            rows.query.push(*query);
            rows.cpu.push(u32::try_from(*cpu).unwrap_or(u32::MAX));
        }
        Ok((rows, marks))
    }

    /// Places in the order of rows of a block.
    fn order(&self, ended: usize) -> Vec<u32> {
        let base = self.start.iter().copied().min().unwrap_or(0);
        let reach = self.start.iter().copied().max().unwrap_or(0) - base;
        let rest = |place: u32| (at(&self.session, place), at(&self.end, place), place < ended as u32, place);
        if reach >> 40 != 0 || self.start.len() >> 24 != 0 {
            let mut order: Vec<u32> = (0..self.start.len() as u32).collect();
            order.sort_unstable_by_key(|place| (at(&self.start, *place), rest(*place)));
            return order;
        }
        // Start and place in one number sort fast. What starts at the same instant is put right behind that.
        let mut keys: Vec<u64> = self.start.iter().zip(0..).map(|(start, place)| (start - base) << 24 | place).collect();
        keys.sort_unstable();
        let place = |key: u64| (key & 0xFF_FFFF) as u32;
        for same in keys.chunk_by_mut(|a, b| a >> 24 == b >> 24).filter(|s| s.len() > 1) {
            same.sort_unstable_by_key(|key| rest(place(*key)));
        }
        keys.into_iter().map(place).collect()
    }
}

/// Reads what transitions cannot say, and puts both together. Gives the marks of commands that stand in the transitions.
fn read_beside(r: &mut Reader<'_>, c: &mut Columns, told: &Transitions) -> Result<Vec<Mark>, Problem> {
    let n = r.count(1)?;
    let sessions: Sessions = (0..r.count(5)?)
        .map(|_| {
            let session = SessionId(r.uleb()?.try_into().map_err(|_| WRONG)?);
            Ok((r.u32()?, session))
        })
        .collect::<Result<_, Problem>>()?;
    let (mut rows, marks) = Rows::told(told, &sessions, c.start.len())?;
    if rows.start.len() != n {
        return Err(WRONG);
    }
    let mut states: Vec<State> = Vec::with_capacity(n + c.state.len());
    for byte in r.take(n)? {
        states.push(state(*byte)?);
    }
    let mut runq = read_few(r, n)?;
    // Rows that are not whole intervals, by place: lead and whether it goes on.
    let mut pieces: Vec<(u32, u64, bool)> = Vec::new();
    let mut place = 0u32;
    for _ in 0..r.count(3)? {
        place = place.checked_add(r.uleb()?.try_into().map_err(|_| WRONG)?).ok_or(WRONG)?;
        let (lead, cpu) = (r.uleb()?, u32::try_from(r.uleb()?).map_err(|_| WRONG)?);
        let (Some(start), Some(slot)) = (rows.start.get_mut(place as usize), rows.cpu.get_mut(place as usize)) else { return Err(WRONG) };
        (*start, *slot) = (start.wrapping_add(lead), cpu);
        pieces.push((place, lead, false));
    }
    if !pieces.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(WRONG);
    }
    let mut leads = c.pieces.iter().peekable();
    for i in 0..c.start.len() as u32 {
        let lead = leads.next_if(|p| p.0 == i).map_or(0, |p| p.1);
        pieces.push((n as u32 + i, lead, true));
    }
    rows.start.extend(c.start.iter().map(|t| t.0));
    rows.end.extend(c.end.iter().map(|t| t.0));
    rows.session.append(&mut c.session);
    rows.event.extend(c.event.iter().map(|e| e.0));
    rows.query.extend(c.query.iter().map(|q| q.0 as u64));
    rows.cpu.resize(n, 0);
    rows.cpu.append(&mut c.cpu);
    rows.cpu.resize(rows.start.len(), 0);
    states.append(&mut c.state);
    runq.append(&mut c.runq);
    runq.resize(rows.start.len(), 0);
    if rows.start.iter().zip(&rows.end).any(|(start, end)| start > end) {
        return Err(WRONG);
    }
    let order = rows.order(n);
    c.start = order.iter().map(|i| Ts(at(&rows.start, *i))).collect();
    c.end = order.iter().map(|i| Ts(at(&rows.end, *i))).collect();
    c.session = order.iter().map(|i| at(&rows.session, *i)).collect();
    c.event = order.iter().map(|i| WaitEvent(at(&rows.event, *i))).collect();
    c.query = order.iter().map(|i| QueryId(at(&rows.query, *i) as i64)).collect();
    c.state = order.iter().map(|i| at(&states, *i)).collect();
    c.samples = vec![0; order.len()];
    c.cpu = order.iter().map(|i| at(&rows.cpu, *i)).collect();
    c.runq = order.iter().map(|i| at(&runq, *i)).collect();
    c.pieces.clear();
    if !pieces.is_empty() {
        let mut row = vec![0u32; order.len()];
        for (place, i) in order.iter().zip(0..) {
            if let Some(slot) = row.get_mut(*place as usize) {
                *slot = i;
            }
        }
        c.pieces = pieces.into_iter().map(|(place, lead, open)| (at(&row, place), lead, open)).collect();
        c.pieces.sort_unstable_by_key(|p| p.0);
    }
    Ok(marks)
}

/// How much of a block is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What it says about coverage: ticks, watched stretches, losses, blind sessions. No rows and no marks; several times as fast.
    Coverage,
    /// Everything.
    Rows,
}

/// The columns of a block of ours, with the blocks that belong to it.
pub fn read_columns(version: u16, depth: Depth, own: &Framed<'_>, beside: &[Framed<'_>]) -> Result<Columns, Problem> {
    if own.header.kind != kind::BLOCK {
        return Err(WRONG);
    }
    let content = read_own(own, beside)?;
    let mut r = Reader(&content);
    let form = r.u8()?;
    let fidelity = FIDELITIES.get(usize::from(r.u8()?)).copied().ok_or(WRONG)?;
    let mut c = Columns { fidelity, span: own_span(&own.header), ..Columns::default() };
    read_ticks(&mut r, &mut c)?;
    let told = read_coverage(&mut r, &mut c)?;
    if depth == Depth::Coverage {
        c.marks.clear();
        return Ok(c);
    }
    let mut marks = Vec::new();
    match form {
        ROWS => read_rows(&mut r, &mut c)?,
        TICKS => read_runs(&mut r, &mut c)?,
        BESIDE => {
            read_rows(&mut r, &mut c)?;
            let (mut rows, mut scratch) = (Transitions::default(), Vec::new());
            for block in beside.iter().filter(|b| b.header.kind == kind::TRANSITIONS) {
                append_transitions(version, &block.header, block.stored(), &mut scratch, &mut rows)?;
            }
            marks = read_beside(&mut r, &mut c, &rows)?;
        }
        _ => return Err(WRONG),
    }
    if let Some(told) = told {
        c.marks = told.marks(marks)?;
    }
    r.end()?;
    Ok(c)
}

/// The block a group holds.
pub fn read_block(version: u16, own: &Framed<'_>, beside: &[Framed<'_>]) -> Result<Block, Problem> {
    read_columns(version, Depth::Rows, own, beside)?.block().ok_or(WRONG)
}

/// The place of a fidelity in [`FIDELITIES`].
pub(super) fn fidelity_byte(fidelity: Fidelity) -> u8 {
    FIDELITIES.iter().position(|f| *f == fidelity).unwrap_or(0) as u8
}
