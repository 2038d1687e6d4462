//! A block taken apart into plain columns, and put together from them: what reading and writing files works on.

#![allow(clippy::needless_for_each, reason = "one column a line")]

use super::{Blind, Block, Loss, Mark, Piece, Tick};
use crate::trace::clock::{Span, Ts};
use crate::trace::record::{Fidelity, QueryId, SessionId, State};
use crate::trace::wait::WaitEvent;

/// Everything a [`Block`] holds. The columns of rows are of equal length and sorted as [`Block::records`] gives them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "as in Block and Record")]
pub struct Columns {
    pub fidelity: Fidelity,
    pub span: Span,
    pub ticks: Vec<Tick>,
    pub start: Vec<Ts>,
    pub end: Vec<Ts>,
    pub session: Vec<SessionId>,
    pub event: Vec<WaitEvent>,
    pub query: Vec<QueryId>,
    pub state: Vec<State>,
    pub samples: Vec<u32>,
    /// As long as the rows, or empty where no row has a [`crate::trace::record::Detail`].
    pub cpu: Vec<u32>,
    /// As long as `cpu`.
    pub runq: Vec<u32>,
    /// (row, lead, open), by row: rows that are not whole intervals.
    pub pieces: Vec<(u32, u64, bool)>,
    pub watched: Vec<Span>,
    pub losses: Vec<Loss>,
    pub blind: Vec<Blind>,
    pub marks: Vec<Mark>,
}

impl Columns {
    /// The block. `None` when columns differ in length or pieces are not in order.
    pub fn block(self) -> Option<Block> {
        let n = self.start.len();
        let same = [self.end.len(), self.session.len(), self.event.len(), self.query.len(), self.state.len(), self.samples.len()];
        let detailed = self.cpu.len();
        let ordered = self.pieces.windows(2).all(|w| matches!(w, [a, b] if a.0 < b.0));
        let inside = self.pieces.last().is_none_or(|p| (p.0 as usize) < detailed);
        if same.iter().any(|l| *l != n) || (detailed != 0 && detailed != n) || self.runq.len() != detailed || !ordered || !inside {
            return None;
        }
        Some(Block {
            fidelity: self.fidelity,
            span: self.span,
            ticks: self.ticks,
            start: self.start,
            end: self.end,
            session: self.session,
            event: self.event,
            query: self.query,
            state: self.state,
            samples: self.samples,
            cpu: self.cpu,
            runq: self.runq,
            pieces: self.pieces.into_iter().map(|(row, lead_ns, open)| Piece { row, lead_ns, open }).collect(),
            watched: self.watched,
            losses: self.losses,
            blind: self.blind,
            marks: self.marks,
        })
    }

    /// Moves every time by `ns`, and gives every session the id `session` says.
    pub fn translate(&mut self, ns: i64, mut session: impl FnMut(SessionId) -> SessionId) {
        let at = |t: &mut Ts| t.0 = t.0.saturating_add_signed(ns);
        let both = |s: &mut Span| {
            at(&mut s.start);
            at(&mut s.end);
        };
        both(&mut self.span);
        self.ticks.iter_mut().for_each(|t| at(&mut t.at));
        self.start.iter_mut().chain(&mut self.end).for_each(at);
        self.watched.iter_mut().for_each(both);
        self.session.iter_mut().for_each(|s| *s = session(*s));
        for loss in &mut self.losses {
            both(&mut loss.span);
            loss.session = loss.session.map(&mut session);
        }
        for blind in &mut self.blind {
            both(&mut blind.span);
            blind.session = session(blind.session);
        }
        for mark in &mut self.marks {
            at(&mut mark.at);
            mark.session = session(mark.session);
        }
    }
}

impl Block {
    /// Its columns, copied.
    pub fn columns(&self) -> Columns {
        let b = self.clone();
        Columns {
            fidelity: b.fidelity,
            span: b.span,
            ticks: b.ticks,
            start: b.start,
            end: b.end,
            session: b.session,
            event: b.event,
            query: b.query,
            state: b.state,
            samples: b.samples,
            cpu: b.cpu,
            runq: b.runq,
            pieces: b.pieces.into_iter().map(|p| (p.row, p.lead_ns, p.open)).collect(),
            watched: b.watched,
            losses: b.losses,
            blind: b.blind,
            marks: b.marks,
        }
    }
}
