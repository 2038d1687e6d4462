//! Writes blocks: what trace format v3 can say as it says it, and behind it a block of ours with the rest.

use super::body::{BESIDE, ROWS, TICKS, at, fidelity_byte, runs, write_beside, write_rows, write_runs};
use super::bytes::Writer;
use super::coverage::{write_coverage, write_ticks};
use super::frame::write_own;
use super::header::{BLOCK_HEADER, BlockHeader, MOST_RECORDS};
use super::kind;
use super::records::{COMMAND_END, COMMAND_START, MARKERS, Sample, Transition, WINDOW_END, WINDOW_START, write_samples, write_transitions};
use crate::trace::block::{Block, Columns, Edge};
use crate::trace::clock::{SECOND, Ts};
use crate::trace::marker::{Kind as MarkerKind, Marker};
use crate::trace::record::{Fidelity, SessionId};
use rustc_hash::FxHashMap;

/// Writes the blocks of one file, one after the other.
#[derive(Debug, Default)]
pub struct Encoder {
    /// On-CPU time of the pieces so far of each interval that goes on.
    lead_cpu: FxHashMap<SessionId, u64>,
    /// How far the open window reaches; `None` while there is none.
    window: Option<Ts>,
    /// Openings and closings of windows that are not written yet.
    edges: Vec<Marker>,
    /// The opening of a window that was open before this file began.
    within: Option<Marker>,
}

impl Encoder {
    /// Of a file that is begun while a window is open, which was opened then.
    pub fn within(opening: Option<Marker>) -> Self {
        Self { within: opening, ..Self::default() }
    }

    /// Markers that belong to the blocks that come next: why windows open and close in them.
    pub fn learn(&mut self, markers: &[Marker]) {
        self.edges.retain(|m| m.kind == MarkerKind::Opened);
        self.edges.extend(markers.iter().filter(|m| matches!(m.kind, MarkerKind::Opened | MarkerKind::Closed)).cloned());
    }

    /// Seconds and reason of an edge of a window, as markers of trace format v3 say them; 0 where they are not known.
    fn edge(&mut self, kind: MarkerKind, at: Ts) -> i64 {
        if let Some(i) = self.edges.iter().position(|m| m.kind == kind && m.at == at) {
            return self.edges.swap_remove(i).word();
        }
        if kind == MarkerKind::Opened { self.within.take().map_or(0, |m| m.word()) } else { 0 }
    }

    /// Ends the open window for readers of trace format v3 when it was closed and no block told so.
    pub fn close_window(&mut self, out: &mut Vec<u8>) {
        if self.window.is_some_and(|end| self.edges.iter().any(|m| m.kind == MarkerKind::Closed && m.at == end)) {
            self.finish(out);
        }
    }

    /// Appends a block. `pid` gives the process id of a session.
    pub fn block(&mut self, block: &Block, pid: impl Fn(SessionId) -> u32, out: &mut Vec<u8>) {
        let c = block.columns();
        let mut w = Writer::default();
        let mut beside = Vec::new();
        let mut first = c.span.start;
        if let Some(runs) = runs(&c) {
            first = write_ticks_apart(&c, &runs, &pid, &mut beside).unwrap_or(first);
            begin(&mut w, TICKS, &c);
            write_coverage(&mut w, &c, None);
            write_runs(&mut w, &c, &runs);
        } else if c.fidelity == Fidelity::Sampled {
            write_all(&mut w, &c);
        } else {
            let written = self.write_intervals(&c, &pid, &mut beside);
            first = written.first.unwrap_or(first);
            if let Some(pids) = pids(&c, &written.ended, &pid) {
                begin(&mut w, BESIDE, &c);
                write_coverage(&mut w, &c, Some(&written.marks));
                write_rows(&mut w, &c, &open_rows(&c));
                write_beside(&mut w, &c, &written.ended, &pids);
            } else {
                write_all(&mut w, &c);
            }
        }
        let n = count(&beside);
        out.extend_from_slice(&beside);
        write_own(out, kind::BLOCK, first, c.span, (&beside, n), &w.0);
    }

    /// Ended intervals and the marks of executions and windows, for readers of trace format v3: a session with many has blocks of its own, in which
    /// the times since the record before are the lengths of the intervals over again, so that they cost next to nothing.
    fn write_intervals(&mut self, c: &Columns, pid: &impl Fn(SessionId) -> u32, out: &mut Vec<u8>) -> Written {
        let mut records: Vec<(Ts, Source)> = by_end(c).into_iter().map(|i| (at(&c.end, i), Source::Row(i))).collect();
        records.extend(c.marks.iter().zip(0..).map(|(m, i)| (m.at, Source::Mark(i))));
        for span in &c.watched {
            if self.window != Some(span.start) {
                if let Some(end) = self.window {
                    records.push((end, Source::Window(WINDOW_END, self.edge(MarkerKind::Closed, end))));
                }
                records.push((span.start, Source::Window(WINDOW_START, self.edge(MarkerKind::Opened, span.start))));
            }
            self.window = Some(span.end);
        }
        records.sort_by_key(|r| r.0);
        let next = following(c);
        let cpu = self.whole_cpu(c);
        let lead = |i| c.pieces.binary_search_by_key(&i, |p| p.0).ok().and_then(|p| c.pieces.get(p)).map_or(0, |p| p.1);
        let transition = |(ts, source): &(Ts, Source)| match *source {
            Source::Row(i) => Transition {
                ts: ts.0,
                pid: pid(at(&c.session, i)),
                old: at(&c.event, i).0,
                new: at(&next, i),
                duration: ts.since(at(&c.start, i)).saturating_add(lead(i)),
                query: at(&c.query, i).0,
                cpu: at(&cpu, i),
            },
            Source::Mark(i) => {
                let Some(m) = c.marks.get(i as usize) else { return Transition::default() };
                let event = if m.edge == Edge::Begin { COMMAND_START } else { COMMAND_END };
                Transition { ts: ts.0, pid: pid(m.session), old: event, new: event, query: m.query.0, ..Transition::default() }
            }
            Source::Window(event, query) => Transition { ts: ts.0, old: event, new: event, query, ..Transition::default() },
        };
        let mut written = Written { first: records.first().map(|r| r.0), ..Written::default() };
        for some in by_session(c, &records) {
            let rows: Vec<Transition> = some.iter().map(transition).collect();
            write_transitions(out, &rows);
            for (_, source) in some {
                match source {
                    Source::Row(i) => written.ended.push(i),
                    Source::Mark(i) => written.marks.push(i),
                    Source::Window(..) => {}
                }
            }
        }
        written
    }

    /// On-CPU time of whole intervals, of all their pieces, by row.
    fn whole_cpu(&mut self, c: &Columns) -> Vec<u64> {
        let mut pieces = c.pieces.iter().peekable();
        let mut whole = Vec::with_capacity(c.cpu.len());
        for (i, (cpu, session)) in c.cpu.iter().zip(&c.session).enumerate() {
            let cpu = u64::from(*cpu);
            let Some((_, lead, open)) = pieces.next_if(|p| p.0 as usize == i) else {
                whole.push(cpu);
                continue;
            };
            let before = if *lead > 0 { self.lead_cpu.remove(session).unwrap_or(0) } else { 0 };
            if *open {
                self.lead_cpu.insert(*session, before.saturating_add(cpu));
            }
            whole.push(before.saturating_add(cpu));
        }
        whole
    }

    /// Says where the open window ends, for readers of trace format v3: when it was closed, and at the end of a file.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(end) = self.window.take() {
            let query = self.edge(MarkerKind::Closed, end);
            let end = Transition { ts: end.0, old: WINDOW_END, new: WINDOW_END, query, ..Transition::default() };
            let mut beside = Vec::new();
            write_transitions(&mut beside, &[end]);
            let mut w = Writer::default();
            let empty = Columns { span: crate::trace::clock::Span { start: Ts(end.ts), end: Ts(end.ts) }, ..Columns::default() };
            write_all(&mut w, &empty);
            out.extend_from_slice(&beside);
            write_own(out, kind::BLOCK, Ts(end.ts), empty.span, (&beside, 1), &w.0);
        }
    }
}

fn begin(w: &mut Writer, form: u8, c: &Columns) {
    w.u8(form);
    w.u8(fidelity_byte(c.fidelity));
    write_ticks(w, c);
}

/// Everything, beside nothing.
fn write_all(w: &mut Writer, c: &Columns) {
    begin(w, ROWS, c);
    write_coverage(w, c, None);
    write_rows(w, c, &(0..c.start.len() as u32).collect::<Vec<_>>());
}

/// How many blocks stand in some bytes.
fn count(mut bytes: &[u8]) -> u32 {
    let mut n = 0;
    while let Some(h) = BlockHeader::read(bytes) {
        bytes = bytes.get(BLOCK_HEADER + h.packed as usize..).unwrap_or_default();
        n += 1;
    }
    n
}

/// What a transition tells: an ended row, a mark (both by index), or a marker of windows with its seconds and reason.
#[derive(Debug, Clone, Copy)]
enum Source {
    Row(u32),
    Mark(u32),
    Window(u32, i64),
}

/// What was written as transitions, in that order.
#[derive(Debug, Default)]
struct Written {
    first: Option<Ts>,
    ended: Vec<u32>,
    marks: Vec<u32>,
}

/// Records of one session from which on they stand in blocks of their own: fewer save less than a block costs.
const ALONE: usize = 48;
/// Records in such a block: all its columns of times within reach of LZ4, and of the table it searches with.
const AT_ONCE: usize = 2048;

/// Records in the order of their times, cut into blocks, by the first time in each.
fn by_session(c: &Columns, records: &[(Ts, Source)]) -> Vec<Vec<(Ts, Source)>> {
    let session = |source: Source| match source {
        Source::Row(i) => Some(at(&c.session, i)),
        Source::Mark(i) => c.marks.get(i as usize).map(|m| m.session),
        Source::Window(..) => None,
    };
    let mut places: FxHashMap<SessionId, usize> = FxHashMap::default();
    // The first are those that belong to nobody.
    let mut lists: Vec<Vec<(Ts, Source)>> = vec![Vec::new()];
    for record in records {
        let place = session(record.1).map_or(0, |s| *places.entry(s).or_insert(lists.len()));
        match lists.get_mut(place) {
            Some(list) => list.push(*record),
            None => lists.push(vec![*record]),
        }
    }
    let (mut apart, few): (Vec<_>, Vec<_>) = lists.into_iter().partition(|l| l.len() >= ALONE);
    // So many blocks must not belong together that their number does not fit.
    apart.sort_by_key(|l| std::cmp::Reverse(l.len()));
    let rest = apart.split_off(apart.len().min(MOST_RECORDS as usize / 4));
    let mut mixed: Vec<(Ts, Source)> = few.into_iter().chain(rest).flatten().collect();
    mixed.sort_by_key(|r| r.0);
    let mut blocks: Vec<Vec<(Ts, Source)>> = mixed.chunks(MOST_RECORDS as usize).map(<[_]>::to_vec).collect();
    for list in &apart {
        blocks.extend(list.chunks(AT_ONCE).map(<[_]>::to_vec));
    }
    blocks.sort_by_key(|b| b.first().map(|r| r.0));
    blocks
}

/// Of each row the event that came behind it in its session without a gap; 0 where none is known.
fn following(c: &Columns) -> Vec<u32> {
    let mut next: Vec<u32> = vec![0; c.start.len()];
    let mut behind: FxHashMap<SessionId, (Ts, u32)> = FxHashMap::default();
    for i in (0..c.start.len() as u32).rev() {
        let touching = behind.insert(at(&c.session, i), (at(&c.start, i), at(&c.event, i).0));
        if let (Some((start, event)), Some(slot)) = (touching, next.get_mut(i as usize))
            && start == at(&c.end, i)
        {
            *slot = event;
        }
    }
    next
}

/// Rows that go on.
fn open_rows(c: &Columns) -> Vec<u32> {
    c.pieces.iter().filter(|p| p.2).map(|p| p.0).collect()
}

/// Rows that have ended, by end.
fn by_end(c: &Columns) -> Vec<u32> {
    let open = open_rows(c);
    let mut ended: Vec<u32> = (0..c.start.len() as u32).filter(|i| open.binary_search(i).is_err()).collect();
    ended.sort_by_key(|i| at(&c.end, *i));
    ended
}

/// The sessions of ended rows and marks with their process ids, if transitions can hold those rows so that they come back as they are.
fn pids(c: &Columns, ended: &[u32], pid: &impl Fn(SessionId) -> u32) -> Option<Vec<(SessionId, u32)>> {
    let fits = c.cpu.len() == c.start.len()
        && c.samples.iter().all(|s| *s == 0)
        && c.event.iter().all(|e| e.0 < MARKERS)
        && c.start.iter().zip(&c.end).all(|(a, b)| a <= b)
        && c.pieces.iter().all(|p| p.1 < u64::MAX >> 1)
        && ended.len() < (MOST_RECORDS as usize) << 8;
    let mut sessions: Vec<SessionId> = ended.iter().map(|i| at(&c.session, *i)).chain(c.marks.iter().map(|m| m.session)).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let pids: Vec<(SessionId, u32)> = sessions.into_iter().map(|s| (s, pid(s))).collect();
    let mut distinct: Vec<u32> = pids.iter().map(|p| p.1).collect();
    distinct.sort_unstable();
    distinct.dedup();
    (fits && distinct.len() == pids.len()).then_some(pids)
}

/// Every tick's samples, each standing for its tick's time, for readers of trace format v3. Returns the first time.
fn write_ticks_apart(c: &Columns, runs: &[(u32, u32)], pid: &impl Fn(SessionId) -> u32, out: &mut Vec<u8>) -> Option<Ts> {
    let mut order: Vec<u32> = (0..runs.len() as u32).collect();
    order.sort_by_key(|i| (at(&c.session, *i), at(runs, *i).0));
    let mut seen: Vec<Vec<u32>> = vec![Vec::new(); c.ticks.len()];
    for i in order {
        let (first, samples) = at(runs, i);
        seen.iter_mut().skip(first as usize).take(samples as usize).for_each(|tick| tick.push(i));
    }
    let pids: Vec<u32> = c.session.iter().map(|s| pid(*s)).collect();
    let mut rows: Vec<Sample> = Vec::new();
    let mut weight = 0u128;
    let mut begun = None;
    let mut cut = |rows: &mut Vec<Sample>, weight: &mut u128| {
        let period = *weight / (rows.len() as u128).max(1);
        write_samples(out, rows, u64::try_from(period).unwrap_or(u64::MAX));
        rows.clear();
        *weight = 0;
    };
    for (tick, seen) in c.ticks.iter().zip(&seen) {
        for i in seen {
            if rows.len() == MOST_RECORDS as usize || rows.first().is_some_and(|r| tick.at.0 - r.ts >= SECOND) {
                cut(&mut rows, &mut weight);
            }
            begun = begun.or(Some(tick.at));
            rows.push(Sample { ts: tick.at.0, pid: at(&pids, *i), event: at(&c.event, *i).0, query: at(&c.query, *i).0 });
            weight += u128::from(tick.weight);
        }
    }
    if !rows.is_empty() {
        cut(&mut rows, &mut weight);
    }
    begun
}
