//! Cuts rows to a window: the one place that says what of a row lies in a stretch of time and counts. Pure.
//!
//! Time is split exactly: what a row has in two windows that adjoin is what it has in both together. A sampled observation belongs to the
//! window that holds its tick, `(start, end]`, so it is in one of them only; so does the end of a wait.

use super::block::{Block, Tick};
use super::clock::{Span, Ts};
use super::precise::{Precise, Stretch, join, unite, without};
use super::record::{Detail, Record};

/// A part of a row that lies in the window and counts.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// The row, whole.
    pub record: Record,
    /// Its part in the window; may be empty when only a weightless tick saw it, or where a wait ended.
    pub span: Span,
    /// Its sampled observations in the window.
    pub samples: u32,
    /// Whether a whole wait ended here; its length is [`Record::length`].
    pub ended: bool,
    /// Of an interval: nanoseconds of the part on the CPU, and able to run without one.
    pub measured: Option<(u64, u64)>,
}

/// `ns` times `part` over `whole`.
pub fn share(ns: u64, part: u64, whole: u64) -> u64 {
    if part == whole { ns } else { (u128::from(ns) * u128::from(part) / u128::from(whole.max(1))) as u64 }
}

/// On-CPU time and time runnable without a CPU of a part of an interval: the first spread evenly over the interval, the second over what is left.
/// Parts that adjoin add up.
fn within(detail: Detail, part: Span, whole: Span) -> (u64, u64) {
    let len = whole.len();
    let cpu = detail.cpu_ns.min(len);
    let runq = detail.runq_ns.min(len - cpu);
    if part == whole {
        return (cpu, runq);
    }
    let upto = |at: Ts| {
        let time = at.since(whole.start);
        let on = share(cpu, time, len);
        (on, share(runq, time - on, len - cpu))
    };
    let (from, to) = (upto(part.start), upto(part.end));
    (to.0 - from.0, to.1 - from.1)
}

/// Tells what of the rows of a window counts, in the order of blocks and of start times. `scan` visits the window's blocks.
pub fn rows(window: Span, precise: &Precise, scan: impl FnOnce(&mut dyn FnMut(&Block)), mut tell: impl FnMut(&Cut)) {
    let mut left = Vec::new();
    scan(&mut |block| {
        let inside = Inside::new(block, window);
        for record in block.records() {
            if record.span.start > window.end {
                break;
            }
            if record.span.end < window.start {
                continue;
            }
            let span = record.span.clip(window);
            match record.detail {
                Some(detail) => interval(window, precise, &record, detail, span, &mut tell),
                None => samples(precise, &record, span, &inside, &mut left, &mut tell),
            }
        }
    });
}

/// The parts of an exact or blocking row.
fn interval(window: Span, precise: &Precise, record: &Record, detail: Detail, span: Span, tell: &mut impl FnMut(&Cut)) {
    precise.inside(span, |span| {
        let ended = !detail.open && span.end == record.span.end && span.end > window.start;
        if !span.is_empty() || ended {
            tell(&Cut { record: *record, span, samples: 0, ended, measured: Some(within(detail, span, record.span)) });
        }
    });
}

/// The parts of a sampled row: what no interval of its session stands for. An observation made where intervals count does not.
fn samples(precise: &Precise, record: &Record, span: Span, inside: &Inside<'_>, left: &mut Vec<Span>, tell: &mut impl FnMut(&Cut)) {
    let mut samples = inside.samples(record);
    let mut part = |span: Span, samples| {
        if !span.is_empty() || samples > 0 {
            tell(&Cut { record: *record, span, samples, ended: false, measured: None });
        }
    };
    if precise.misses(span) {
        return part(span, samples);
    }
    let followed = precise.followed(record.session, span);
    // A damaged row may say that fewer ticks saw it than there are.
    samples = samples.saturating_sub(inside.taken_in(record, &followed));
    left.clear();
    without(span, &followed, left);
    if left.is_empty() {
        return part(Span::new(span.end, span.end), samples);
    }
    for span in left.iter() {
        part(*span, std::mem::take(&mut samples));
    }
}

/// Which ticks of a block lie in a window.
#[derive(Debug)]
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
        let (start, end) = self.range(record);
        end.saturating_sub(start) as u32
    }

    /// Indices of the ticks inside that saw a record: the first, and the one behind the last.
    fn range(&self, record: &Record) -> (usize, usize) {
        let end = self.block.ticks().partition_point(|t| t.at <= record.span.end);
        let start = end.saturating_sub(record.samples as usize);
        (start.max(self.from), end.min(self.to))
    }

    /// How many of the ticks inside that saw `record` were taken in one of `spans`, its start excluded and its end included.
    fn taken_in(&self, record: &Record, spans: &[Span]) -> u32 {
        let (start, end) = self.range(record);
        let ticks = self.block.ticks().get(start..end.max(start)).unwrap_or_default();
        let upto = |at: Ts| ticks.partition_point(|t| t.at <= at);
        spans.iter().map(|s| upto(s.end).saturating_sub(upto(s.start)) as u32).sum()
    }
}

/// What was observed of a stretch of time, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Ticks inside.
    pub ticks: u64,
    /// Backend readings refused, over all ticks.
    pub unread: u64,
    /// Records that exact or blocking capture lost.
    pub lost_records: u64,
    /// Time of sessions in exact and blocking stretches in which they were not followed, added up over sessions; nanoseconds.
    pub unfollowed_ns: u64,
    /// Time that ticks stand for, in order, without overlaps; spans that adjoin are one.
    pub sampled: Vec<Span>,
    /// Exact and blocking stretches, in order; those that adjoin and are alike are one.
    pub precise: Vec<Stretch>,
}

impl Seen {
    /// What the blocks of a window say was observed of it, and which stretches are exact or blocking, beyond its edges, too.
    pub fn of(window: Span, scan: impl FnOnce(&mut dyn FnMut(&Block))) -> (Self, Precise) {
        let (mut this, mut precise) = (Self::default(), Precise::default());
        scan(&mut |block| {
            precise.take(block, window);
            let inside = Inside::new(block, window);
            for tick in inside.ticks() {
                this.ticks += 1;
                this.unread += u64::from(tick.unread);
            }
            for tick in inside.ticks_and_next() {
                let span = tick.span().clip(window);
                match this.sampled.last_mut() {
                    _ if span.is_empty() => {}
                    Some(last) if last.end == span.start => last.end = span.end,
                    _ => this.sampled.push(span),
                }
            }
        });
        unite(&mut this.sampled);
        precise.settle();
        this.lost_records = precise.lost_records;
        this.unfollowed_ns = precise.unfollowed_ns(window);
        let clipped = precise.stretches().iter().map(|s| Stretch { span: s.span.clip(window), ..*s });
        this.precise = clipped.filter(|s| !s.span.is_empty()).collect();
        (this, precise)
    }

    /// What was observed of this stretch and of the one right behind it.
    pub fn add(&mut self, later: &Self) {
        self.ticks += later.ticks;
        self.unread += later.unread;
        self.lost_records += later.lost_records;
        self.unfollowed_ns = self.unfollowed_ns.saturating_add(later.unfollowed_ns);
        for span in &later.sampled {
            match self.sampled.last_mut() {
                Some(last) if last.end == span.start => last.end = span.end,
                _ => self.sampled.push(*span),
            }
        }
        for next in &later.precise {
            if !self.precise.last_mut().is_some_and(|last| join(last, next)) {
                self.precise.push(*next);
            }
        }
    }
}
