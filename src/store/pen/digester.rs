//! Makes the digests of what was written. Holds the blocks of the last seconds, and sums of the digests made of them: nothing grows with the recording.
//!
//! Rows come late: those of exact windows are held back until their query is known. So a stretch is digested a while after it ended. What comes later still
//! makes other groups touch the stretch than those it was made from: readers see that its digests are void.

use crate::trace::block::Block;
use crate::trace::clock::{SECOND, Span, Ts};
use crate::trace::codec::digest::Made;
use crate::trace::digest::{Commands, Digest, STRETCHES, cell};
use crate::trace::precise::Precise;
use std::collections::VecDeque;

/// How long after its end a stretch is digested, nanoseconds.
const LAG: u64 = 6 * SECOND;
/// Length of the shortest stretches, nanoseconds.
const SHORTEST: u64 = STRETCHES[0];
/// Bytes of a sum in memory from which on it is given up.
const MOST: usize = 32 << 20;

/// Digests of one length being added up to one of the next.
#[derive(Debug)]
struct Sum {
    digest: Digest,
    parts: usize,
    /// Something came late for it, or it is too large: it is not written.
    void: bool,
}

/// A block that was written.
#[derive(Debug)]
struct Written {
    span: Span,
    sum: u32,
    block: Option<Block>,
}

/// Makes the digests of one recording.
#[derive(Debug, Default)]
pub(super) struct Digester {
    written: VecDeque<Written>,
    newest: Ts,
    /// Where the next stretch begins; `None` before the first.
    next: Option<Ts>,
    commands: Commands,
    sums: [Option<Sum>; STRETCHES.len() - 1],
    ready: Vec<(Digest, Made)>,
}

impl Digester {
    /// A group was written: what it is about, the CRC32C of its last header, and its content if it has any.
    pub(super) fn wrote(&mut self, span: Span, sum: u32, block: Option<Block>) {
        self.newest = self.newest.max(span.end);
        if self.next.is_some_and(|next| span.start < next) {
            self.sums.iter_mut().flatten().filter(|s| span.touches(s.digest.span)).for_each(|s| s.void = true);
        }
        self.written.push_back(Written { span, sum, block });
    }

    /// Digests that are ready: of stretches that ended a while ago or, at the end of a recording, of all there is.
    pub(super) fn take(&mut self, all: bool) -> Vec<(Digest, Made)> {
        while let Some(span) = self.stretch(all) {
            let Self { written, commands, .. } = self;
            let near = || written.iter().filter(|w| w.span.touches(span)).filter_map(|w| w.block.as_ref());
            if near().next().is_none() {
                self.skip(span);
                continue;
            }
            let mut blocks: Vec<&Block> = near().collect();
            blocks.sort_by_key(|b| b.span().start);
            let digest = Digest::of(span, commands, |visit| blocks.iter().for_each(|b| visit(b)));
            self.next = Some(span.end);
            self.ready(digest.clone());
            self.climb(0, digest, false);
            self.forget(span.end);
        }
        if all {
            (0..self.sums.len()).for_each(|level| self.settle(level));
        }
        std::mem::take(&mut self.ready)
    }

    /// The next stretch, if it is time.
    fn stretch(&mut self, all: bool) -> Option<Span> {
        let start = if let Some(next) = self.next {
            next
        } else {
            let first = self.written.iter().map(|w| w.span.start).min()?;
            // What comes late may begin before.
            if !all && first + LAG > self.newest {
                return None;
            }
            self.stand(first);
            *self.next.insert(first)
        };
        let whole = Span::new(start, cell(SHORTEST, start + 1).end);
        if all {
            let rest = Span::new(start, whole.end.min(self.newest));
            return (!rest.is_empty()).then_some(rest);
        }
        (whole.end + LAG <= self.newest).then_some(whole)
    }

    /// Goes on from a stretch in which there is nothing to where there is something again.
    fn skip(&mut self, span: Span) {
        let rest = self.written.iter().filter(|w| w.span.end > span.end).map(|w| w.span.start).min();
        let to = rest.map_or(span.end, |at| cell(SHORTEST, at.max(span.end)).start.max(span.end));
        self.stand(to);
        self.next = Some(to);
    }

    /// Takes executions to an instant up to which nothing was watched.
    fn stand(&mut self, at: Ts) {
        let blocks = || self.written.iter().filter_map(|w| w.block.as_ref());
        self.commands.pass(Span::new(self.commands.now(), at), &Precise::default(), |visit| blocks().for_each(visit), |_| {});
    }

    /// Adds a digest to the sum of a length; a sum that is whole then goes into that of the next length.
    fn climb(&mut self, level: usize, digest: Digest, void: bool) {
        let Some(length) = STRETCHES.get(level + 1).copied() else { return };
        let whole = cell(length, digest.span.end);
        if self.sums.get(level).is_some_and(|s| s.as_ref().is_some_and(|s| cell(length, s.digest.span.end) != whole)) {
            self.settle(level);
        }
        let Some(slot) = self.sums.get_mut(level) else { return };
        let end = digest.span.end;
        let sum = match slot {
            Some(sum) => {
                sum.void |= void;
                sum.parts += 1;
                if sum.void {
                    sum.digest.span.end = end;
                } else {
                    sum.digest.add(&digest);
                }
                sum
            }
            None => slot.insert(Sum { digest, parts: 1, void }),
        };
        if sum.void || sum.digest.bytes() > MOST {
            (sum.digest, sum.void) = (Digest { span: sum.digest.span, ..Digest::default() }, true);
        }
        if end == whole.end {
            self.settle(level);
        }
    }

    /// Ends the sum of a length. One of a single part is that part once more, and not written.
    fn settle(&mut self, level: usize) {
        let Some(Sum { digest, parts, void }) = self.sums.get_mut(level).and_then(Option::take) else { return };
        if parts > 1 && !void {
            self.ready(digest.clone());
        }
        self.climb(level + 1, digest, void);
    }

    fn ready(&mut self, digest: Digest) {
        let mut made = Made::default();
        self.written.iter().filter(|w| w.span.touches(digest.span)).for_each(|w| made.add(w.sum));
        self.ready.push((digest, made));
    }

    /// Lets go of blocks that no stretch to come touches, and of headers that no digest to come is about.
    fn forget(&mut self, at: Ts) {
        self.written.iter_mut().filter(|w| w.span.end <= at).for_each(|w| w.block = None);
        let oldest = self.sums.iter().flatten().map(|s| s.digest.span.start).min().unwrap_or(at).min(at);
        self.written.retain(|w| w.span.end > oldest || w.block.is_some());
    }
}
