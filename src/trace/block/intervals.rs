//! Makes exact and blocking blocks: rows that are intervals, and what was watched, lost and not seen, independent of the rows.

use super::{Block, LONGEST};
use crate::trace::clock::{Span, Ts};
use crate::trace::record::{Detail, Fidelity, QueryId, Record, SessionId};

/// Records that were lost: nobody knows what happened then. Inside a watched stretch it is a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// When.
    pub span: Span,
    /// Whose. `None`: the account of a ring, which is of several sessions; the holes of each are told apart from it.
    pub session: Option<SessionId>,
    /// How many records.
    pub records: u64,
}

/// A stretch of a watched window in which a session was there and not followed: just born, or it could not be armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blind {
    /// Who.
    pub session: SessionId,
    /// When.
    pub span: Span,
}

/// Which end of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// A command began.
    Begin,
    /// A command ended.
    End,
}

/// A boundary of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: Ts,
    /// Who.
    pub session: SessionId,
    /// The query; `NONE` where it was not known yet.
    pub query: QueryId,
    /// Which end.
    pub edge: Edge,
    /// Not seen but inferred: from the server's own times of the command, to a microsecond, or (an end without such a time) from the next beginning.
    pub inferred: bool,
}

/// Makes blocks of intervals.
#[derive(Debug, Default)]
pub struct Intervals {
    fidelity: Fidelity,
    rows: Vec<Record>,
    coverage: Block,
    /// What a window of another kind left before this one began.
    before: Vec<Block>,
}

impl Intervals {
    /// Rows from now on are of this fidelity.
    pub fn begin(&mut self, fidelity: Fidelity) {
        if fidelity != self.fidelity {
            let block = self.make();
            self.before.extend(block);
            self.fidelity = fidelity;
        }
    }

    /// A stretch was watched, right behind the one before unless there was a gap.
    pub fn watched(&mut self, span: Span) {
        if span.is_empty() {
            return;
        }
        self.coverage.add_coverage(&Block { watched: vec![span], ..Block::default() });
    }

    /// A row. One that is too long for the columns becomes several.
    pub fn row(&mut self, mut row: Record) {
        while row.span.len() > LONGEST {
            let whole = row.span.len();
            let detail = row.detail.unwrap_or_default();
            let share = |ns: u64| (u128::from(ns) * u128::from(LONGEST) / u128::from(whole)) as u64;
            let at = row.span.start + LONGEST;
            let part = Detail { cpu_ns: share(detail.cpu_ns), runq_ns: share(detail.runq_ns), lead_ns: detail.lead_ns, open: true };
            self.rows.push(Record { span: Span::new(row.span.start, at), detail: Some(part), ..row });
            row.span.start = at;
            row.detail = Some(Detail {
                cpu_ns: detail.cpu_ns - part.cpu_ns,
                runq_ns: detail.runq_ns - part.runq_ns,
                lead_ns: detail.lead_ns + LONGEST,
                open: detail.open,
            });
        }
        self.rows.push(row);
    }

    /// Records were lost.
    pub fn lost(&mut self, loss: Loss) {
        self.coverage.losses.push(loss);
    }

    /// A session was not followed.
    pub fn blind(&mut self, blind: Blind) {
        if !blind.span.is_empty() {
            self.coverage.blind.push(blind);
        }
    }

    /// An execution began or ended.
    pub fn mark(&mut self, mark: Mark) {
        self.coverage.marks.push(mark);
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is nothing to seal.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.coverage.watched.is_empty() && self.coverage.losses.is_empty() && self.before.is_empty()
    }

    /// Everything since the last seal as blocks, each of one fidelity. Hardly ever more than one.
    pub fn seal(&mut self) -> Vec<Block> {
        let mut blocks = std::mem::take(&mut self.before);
        blocks.extend(self.make());
        blocks
    }

    fn make(&mut self) -> Option<Block> {
        if self.rows.is_empty() && self.coverage.watched.is_empty() && self.coverage.losses.is_empty() {
            return None;
        }
        let coverage = std::mem::take(&mut self.coverage);
        let mut block = Block::from_records(self.fidelity, Vec::new(), std::mem::take(&mut self.rows));
        block.add_coverage(&coverage);
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::State;
    use crate::trace::wait::WaitEvent;

    fn row(start: u64, end: u64, detail: Detail) -> Record {
        Record {
            span: Span::new(Ts(start), Ts(end)),
            session: SessionId(1),
            event: WaitEvent(0x0300_0005),
            query: QueryId(7),
            state: State::Active,
            samples: 0,
            detail: Some(detail),
        }
    }

    #[test]
    fn rows_come_back_as_they_went_in() {
        let mut made = Intervals::default();
        made.begin(Fidelity::Exact);
        let rows = [
            row(10, 30, Detail { cpu_ns: 5, runq_ns: 2, lead_ns: 0, open: true }),
            row(30, 35, Detail { cpu_ns: 1, runq_ns: 0, lead_ns: 20, open: false }),
            row(35, 40, Detail::default()),
        ];
        for r in rows.iter().copied() {
            made.row(r);
        }
        made.watched(Span::new(Ts(0), Ts(50)));
        made.watched(Span::new(Ts(50), Ts(60)));
        let block = made.seal().remove(0);
        assert_eq!(block.records().collect::<Vec<_>>(), rows);
        assert_eq!(block.records().filter(|r| !r.detail.unwrap().open).map(|r| r.length()).collect::<Vec<_>>(), [25, 5]);
        assert_eq!(block.watched(), [Span::new(Ts(0), Ts(60))]);
        assert_eq!((block.span(), block.fidelity()), (Span::new(Ts(0), Ts(60)), Fidelity::Exact));
        assert!(made.seal().is_empty());
    }

    #[test]
    fn pieces_of_one_wait_merge_and_waits_do_not() {
        let mut made = Intervals::default();
        let mut seal = |rows: &[Record]| {
            for r in rows.iter().copied() {
                made.row(r);
            }
            made.seal().remove(0)
        };
        let first = seal(&[row(10, 30, Detail { cpu_ns: 5, open: true, ..Detail::default() })]);
        let second = seal(&[row(30, 35, Detail { cpu_ns: 1, lead_ns: 20, ..Detail::default() }), row(35, 40, Detail::default())]);
        let merged: Vec<Record> = Block::merge([&first, &second]).records().collect();
        assert_eq!(merged, [row(10, 35, Detail { cpu_ns: 6, ..Detail::default() }), row(35, 40, Detail::default())]);
    }

    #[test]
    fn a_long_row_is_cut_and_keeps_its_sums() {
        let mut made = Intervals::default();
        made.row(row(0, 3 * LONGEST + 1, Detail { cpu_ns: 2 * LONGEST + 7, ..Detail::default() }));
        let block = made.seal().remove(0);
        let rows: Vec<Record> = block.records().collect();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows.iter().map(|r| r.cpu_ns().unwrap()).sum::<u64>(), 2 * LONGEST + 7);
        assert_eq!(rows.last().unwrap().length(), 3 * LONGEST + 1);
    }
}
