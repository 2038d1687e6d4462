//! Writes blocks: what trace format v3 can say as it says it, and behind it a block of ours with the rest.

use super::body::{BESIDE, ROWS, TICKS, at, fidelity_byte, runs, write_beside, write_coverage, write_rows, write_runs, write_ticks};
use super::bytes::Writer;
use super::frame::write_own;
use super::header::{BLOCK_HEADER, BlockHeader, MOST_RECORDS};
use super::kind;
use super::records::{COMMAND_END, COMMAND_START, MARKERS, Sample, Transition, WINDOW_END, WINDOW_START, write_samples, write_transitions};
use crate::trace::block::{Block, Columns, Edge};
use crate::trace::clock::{SECOND, Ts};
use crate::trace::record::{Fidelity, QueryId, SessionId};
use rustc_hash::FxHashMap;

/// Writes the blocks of one file, one after the other.
#[derive(Debug, Default)]
pub struct Encoder {
    /// On-CPU time of the pieces so far of each interval that goes on.
    lead_cpu: FxHashMap<SessionId, u64>,
    /// How far the open window reaches; `None` while there is none.
    window: Option<Ts>,
}

impl Encoder {
    /// Appends a block. `pid` gives the process id of a session.
    pub fn block(&mut self, block: &Block, pid: impl Fn(SessionId) -> u32, out: &mut Vec<u8>) {
        let c = block.columns();
        let mut w = Writer::default();
        let mut beside = Vec::new();
        let mut first = c.span.start;
        let mut told = false;
        if let Some(runs) = runs(&c) {
            first = write_ticks_apart(&c, &runs, &pid, &mut beside).unwrap_or(first);
            begin(&mut w, TICKS, &c);
            write_runs(&mut w, &c, &runs);
        } else {
            let (ended, open): (Vec<u32>, Vec<u32>) = by_end(&c);
            let pids = pids(&c, &ended, &pid);
            if c.fidelity != Fidelity::Sampled {
                first = self.write_intervals(&c, &ended, &pid, &mut beside).unwrap_or(first);
            }
            if let Some(pids) = pids {
                told = c.fidelity != Fidelity::Sampled && c.marks.is_sorted_by_key(|m| m.at);
                begin(&mut w, BESIDE, &c);
                write_rows(&mut w, &c, &open);
                write_beside(&mut w, &c, &ended, &pids);
            } else {
                begin(&mut w, ROWS, &c);
                write_rows(&mut w, &c, &(0..c.start.len() as u32).collect::<Vec<_>>());
            }
        }
        write_coverage(&mut w, &c, told);
        let n = count(&beside);
        out.extend_from_slice(&beside);
        write_own(out, kind::BLOCK, first, c.span, (&beside, n), &w.0);
    }

    /// Ended intervals and the marks of executions and windows, for readers of trace format v3. Returns the first time.
    fn write_intervals(&mut self, c: &Columns, ended: &[u32], pid: &impl Fn(SessionId) -> u32, out: &mut Vec<u8>) -> Option<Ts> {
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
        let cpu = self.whole_cpu(c);
        let lead = |i| c.pieces.binary_search_by_key(&i, |p| p.0).ok().and_then(|p| c.pieces.get(p)).map_or(0, |p| p.1);
        let mut rows: Vec<Transition> = ended
            .iter()
            .map(|i| {
                let session = at(&c.session, *i);
                Transition {
                    ts: at(&c.end, *i).0,
                    pid: pid(session),
                    old: at(&c.event, *i).0,
                    new: at(&next, *i),
                    duration: at(&c.end, *i).since(at(&c.start, *i)).saturating_add(lead(*i)),
                    query: at(&c.query, *i).0,
                    cpu: at(&cpu, *i),
                }
            })
            .collect();
        let mut marker = |ts: Ts, pid, event, query: QueryId| {
            rows.push(Transition { ts: ts.0, pid, old: event, new: event, duration: 0, query: query.0, cpu: 0 });
        };
        for m in &c.marks {
            marker(m.at, pid(m.session), if m.edge == Edge::Begin { COMMAND_START } else { COMMAND_END }, m.query);
        }
        for span in &c.watched {
            if self.window != Some(span.start) {
                if let Some(end) = self.window {
                    marker(end, 0, WINDOW_END, QueryId::NONE);
                }
                marker(span.start, 0, WINDOW_START, QueryId::NONE);
            }
            self.window = Some(span.end);
        }
        rows.sort_by_key(|r| r.ts);
        rows.chunks(MOST_RECORDS as usize).for_each(|chunk| write_transitions(out, chunk));
        rows.first().map(|r| Ts(r.ts))
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

    /// Says where the open window ends, for readers of trace format v3: at the end of a file.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(end) = self.window.take() {
            let end = Transition { ts: end.0, old: WINDOW_END, new: WINDOW_END, ..Transition::default() };
            let mut beside = Vec::new();
            write_transitions(&mut beside, &[end]);
            let mut w = Writer::default();
            let empty = Columns { span: crate::trace::clock::Span { start: Ts(end.ts), end: Ts(end.ts) }, ..Columns::default() };
            begin(&mut w, ROWS, &empty);
            write_rows(&mut w, &empty, &[]);
            write_coverage(&mut w, &empty, false);
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

/// How many blocks stand in some bytes.
fn count(mut bytes: &[u8]) -> u32 {
    let mut n = 0;
    while let Some(h) = BlockHeader::read(bytes) {
        bytes = bytes.get(BLOCK_HEADER + h.packed as usize..).unwrap_or_default();
        n += 1;
    }
    n
}

/// Rows that have ended, by end, and rows that go on.
fn by_end(c: &Columns) -> (Vec<u32>, Vec<u32>) {
    let mut open: Vec<u32> = c.pieces.iter().filter(|p| p.2).map(|p| p.0).collect();
    open.sort_unstable();
    let mut ended: Vec<u32> = (0..c.start.len() as u32).filter(|i| open.binary_search(i).is_err()).collect();
    ended.sort_by_key(|i| at(&c.end, *i));
    (ended, open)
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
