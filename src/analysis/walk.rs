//! The one loop over the blocks: clips every record to the window, applies the filter, says what it counts as. Pure.
//!
//! Time is split exactly: what a record has in two windows that adjoin is what it has in both together. A sampled observation belongs to the
//! window that holds its tick, `(start, end]`, so it is in one of them only.

use super::answer::{Coverage, MAX_GAPS};
use super::matcher::{Matcher, Verdict};
use super::meaning::Meaning;
use crate::trace::Trace;
use crate::trace::block::{Block, Tick};
use crate::trace::catalog::BackendKind;
use crate::trace::clock::{Span, Ts};
use crate::trace::record::{Fidelity, Record, SessionId};
use rustc_hash::FxHashMap;

/// The part of a record that lies in the window.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// The record, whole.
    pub record: Record,
    /// Its part in the window; may be empty when only a weightless tick saw it.
    pub span: Span,
    /// Its sampled observations in the window.
    pub samples: u32,
    /// What it counts as.
    pub meaning: Meaning,
}

/// What a walk knows of a session. Looked up once per record, so it is small.
struct Known {
    kind: BackendKind,
    passed: bool,
    pass: Pass,
}

/// A [`Verdict`], those that depend on the record by number.
enum Pass {
    All,
    None,
    Depends(u32),
}

/// One window of one trace, seen through one filter.
#[derive(Debug)]
pub struct Walk<'a, T> {
    /// What is read.
    pub trace: &'a T,
    /// What part of it.
    pub window: Span,
    matcher: &'a Matcher,
}

impl<'a, T: Trace> Walk<'a, T> {
    /// Nothing is read yet.
    pub fn new(trace: &'a T, window: Span, matcher: &'a Matcher) -> Self {
        Self { trace, window, matcher }
    }

    /// Visits every piece that passes the filter, in the order of blocks and of start times. Returns how many sessions they are of.
    pub fn pieces(&self, mut visit: impl FnMut(&Piece)) -> u32 {
        let catalog = self.trace.catalog();
        let mut sessions: FxHashMap<SessionId, Known> = FxHashMap::default();
        let mut verdicts: Vec<Verdict> = Vec::new();
        self.trace.scan(self.window, &mut |block| {
            let inside = Inside::new(block, self.window);
            for record in block.records() {
                if record.span.start > self.window.end {
                    break;
                }
                if record.span.end < self.window.start {
                    continue;
                }
                let span = record.span.clip(self.window);
                let samples = inside.samples(&record);
                if span.is_empty() && samples == 0 {
                    continue;
                }
                let known = sessions.entry(record.session).or_insert_with(|| {
                    let session = catalog.sessions.get(&record.session);
                    let kind = session.map_or(BackendKind::Unknown, |s| s.kind);
                    let pass = match self.matcher.session(record.session, session) {
                        Verdict::All => Pass::All,
                        Verdict::None => Pass::None,
                        depends @ Verdict::Depends(_) => {
                            verdicts.push(depends);
                            Pass::Depends(verdicts.len() as u32 - 1)
                        }
                    };
                    Known { kind, pass, passed: false }
                });
                let passes = match known.pass {
                    Pass::All => true,
                    Pass::None => false,
                    Pass::Depends(i) => verdicts.get(i as usize).is_some_and(|v| self.matcher.record(v, &record)),
                };
                if passes {
                    known.passed = true;
                    let meaning = Meaning::of(known.kind, record.state, record.event, &catalog.events);
                    visit(&Piece { record, span, samples, meaning });
                }
            }
        });
        sessions.values().filter(|known| known.passed).count() as u32
    }

    /// What of the window was observed; `visit` gets each observed stretch, in order and without overlaps.
    pub fn coverage(&self, mut visit: impl FnMut(Span)) -> Coverage {
        let mut cover = Coverage::default();
        let mut done = self.window.start;
        self.trace.scan(self.window, &mut |block| {
            let inside = Inside::new(block, self.window);
            for tick in inside.ticks() {
                cover.ticks += 1;
                cover.unread += u64::from(tick.unread);
            }
            for tick in inside.ticks_and_next() {
                let seen = Span { start: tick.span().start.max(done), end: tick.at.min(self.window.end) };
                if seen.is_empty() {
                    continue;
                }
                gap(&mut cover, Span::new(done, seen.start));
                match block.fidelity() {
                    Fidelity::Exact => cover.exact_ns += seen.len(),
                    Fidelity::Blocking => cover.blocking_ns += seen.len(),
                    _ => cover.sampled_ns += seen.len(),
                }
                cover.fidelity = cover.fidelity.join(block.fidelity());
                visit(seen);
                done = seen.end;
            }
        });
        gap(&mut cover, Span::new(done, self.window.end));
        cover
    }
}

fn gap(cover: &mut Coverage, span: Span) {
    if span.is_empty() {
        return;
    }
    cover.gap_ns += span.len();
    if cover.gaps.len() < MAX_GAPS {
        cover.gaps.push(span);
    }
}

/// Which ticks of a block lie in a window.
pub struct Inside<'a> {
    block: &'a Block,
    window: Span,
    /// Indices of the first tick inside and of the first behind.
    from: usize,
    to: usize,
}

impl<'a> Inside<'a> {
    /// Ticks of `block` in `(window.start, window.end]`.
    pub fn new(block: &'a Block, window: Span) -> Self {
        let ticks = block.ticks();
        let upto = |at: Ts| ticks.partition_point(|t| t.at <= at);
        let from = upto(window.start);
        Self { block, window, from, to: upto(window.end).max(from) }
    }

    /// The ticks inside.
    pub fn ticks(&self) -> &'a [Tick] {
        self.block.ticks().get(self.from..self.to).unwrap_or_default()
    }

    /// The ticks inside, and the one behind, whose stretch may begin inside.
    fn ticks_and_next(&self) -> &'a [Tick] {
        let ticks = self.block.ticks();
        ticks.get(self.from..ticks.len().min(self.to + 1)).unwrap_or_default()
    }

    /// How many of the ticks that saw `record` lie inside. They are the last `record.samples` ones up to its end.
    pub fn samples(&self, record: &Record) -> u32 {
        let all = self.from == 0 && self.to == self.block.ticks().len();
        if all || (record.span.start > self.window.start && record.span.end <= self.window.end) {
            return record.samples;
        }
        let end = self.block.ticks().partition_point(|t| t.at <= record.span.end);
        let start = end.saturating_sub(record.samples as usize);
        end.min(self.to).saturating_sub(start.max(self.from)) as u32
    }
}
