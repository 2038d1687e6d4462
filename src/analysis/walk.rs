//! The one loop over the blocks: clips every record to the window, applies the filter, says what it counts as. Pure.
//!
//! Time is split exactly: what a record has in two windows that adjoin is what it has in both together. A sampled observation belongs to the
//! window that holds its tick, `(start, end]`, so it is in one of them only.

use super::answer::{Coverage, MAX_GAPS, Measured, Stretch};
use super::grid::Grid;
use super::matcher::{Matcher, Verdict};
use super::meaning::Meaning;
use super::precise::{Precise, without};
use crate::trace::Trace;
use crate::trace::block::{Block, Tick};
use crate::trace::catalog::{BackendKind, Catalog};
use crate::trace::clock::{Span, Ts};
use crate::trace::record::{Detail, Fidelity, Record, SessionId};
use crate::trace::wait::WaitEvent;
use rustc_hash::FxHashMap;

/// A part of a record that lies in the window and counts.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// The record, whole.
    pub record: Record,
    /// Its part in the window; may be empty when only a weightless tick saw it.
    pub span: Span,
    /// The time it stands for: all of the span, or, of a measured stretch without a wait, what of it was on the CPU, or what was not.
    pub ns: u64,
    /// The record's event; [`WaitEvent::OFF_CPU`] for the part of a stretch without a wait that was not on the CPU.
    pub event: WaitEvent,
    /// Its sampled observations in the window.
    pub samples: u32,
    /// Whether a whole wait ended here; its length is [`Record::length`].
    pub ended: bool,
    /// Where `ns` went; only where it was measured.
    pub measured: Option<Measured>,
    /// What it counts as.
    pub meaning: Meaning,
}

impl Piece {
    /// Tells how much of its time lies in which bucket. Time that is less than the span is spread evenly over it.
    pub fn split(&self, grid: &Grid, mut part: impl FnMut(usize, u64)) {
        let len = self.span.len();
        if self.ns == len {
            return grid.split(self.span, part);
        }
        let (mut done, mut told) = (0, 0);
        grid.split(self.span, |i, ns| {
            done += ns;
            let upto = share(self.ns, done, len);
            part(i, upto - told);
            told = upto;
        });
    }
}

/// `ns` times `part` over `whole`.
fn share(ns: u64, part: u64, whole: u64) -> u64 {
    if part == whole { ns } else { (u128::from(ns) * u128::from(part) / u128::from(whole.max(1))) as u64 }
}

/// What of `ns`, spread evenly over a record, lies in a part of it. Parts that adjoin add up.
fn within(ns: u64, part: Span, whole: Span) -> u64 {
    let upto = |at: Ts| share(ns, at.since(whole.start), whole.len());
    upto(part.end) - upto(part.start)
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

/// What a walk knows of all sessions.
struct Sessions<'a> {
    matcher: &'a Matcher,
    catalog: &'a Catalog,
    known: FxHashMap<SessionId, Known>,
    verdicts: Vec<Verdict>,
}

impl<'a> Sessions<'a> {
    fn new(matcher: &'a Matcher, catalog: &'a Catalog) -> Self {
        Self { matcher, catalog, known: FxHashMap::default(), verdicts: Vec::new() }
    }

    /// Whether a record passes, and what kind of process it is of.
    fn passes(&mut self, record: &Record) -> (bool, BackendKind) {
        let known = self.known.entry(record.session).or_insert_with(|| {
            let session = self.catalog.sessions.get(&record.session);
            let kind = session.map_or(BackendKind::Unknown, |s| s.kind);
            let pass = match self.matcher.session(record.session, session) {
                Verdict::All => Pass::All,
                Verdict::None => Pass::None,
                depends @ Verdict::Depends(_) => {
                    self.verdicts.push(depends);
                    Pass::Depends(self.verdicts.len() as u32 - 1)
                }
            };
            Known { kind, pass, passed: false }
        });
        let passes = match known.pass {
            Pass::All => true,
            Pass::None => false,
            Pass::Depends(i) => self.verdicts.get(i as usize).is_some_and(|v| self.matcher.record(v, record)),
        };
        known.passed |= passes;
        (passes, known.kind)
    }
}

/// One window of one trace, seen through one filter.
#[derive(Debug)]
pub struct Walk<'a, T> {
    /// What is read.
    pub trace: &'a T,
    /// What part of it.
    pub window: Span,
    matcher: &'a Matcher,
    precise: Precise,
}

impl<'a, T: Trace> Walk<'a, T> {
    /// Reads which stretches are exact or blocking; nothing else yet.
    pub fn new(trace: &'a T, window: Span, matcher: &'a Matcher) -> Self {
        Self { trace, window, matcher, precise: Precise::of(trace, window) }
    }

    /// The exact and blocking stretches.
    pub fn precise(&self) -> &Precise {
        &self.precise
    }

    /// Visits every piece that passes the filter, in the order of blocks and of start times. Returns how many sessions they are of.
    pub fn pieces(&self, mut visit: impl FnMut(&Piece)) -> u32 {
        let names = &self.trace.catalog().events;
        let mut sessions = Sessions::new(self.matcher, self.trace.catalog());
        let mut tell = |mut piece: Piece| {
            let (passes, kind) = sessions.passes(&Record { event: piece.event, ..piece.record });
            if passes {
                piece.meaning = Meaning::of(kind, piece.record.state, piece.record.event, names);
                visit(&piece);
            }
        };
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
                match record.detail {
                    Some(detail) => self.interval(&record, detail, span, &mut tell),
                    None => self.samples(&record, span, &inside, &mut tell),
                }
            }
        });
        sessions.known.values().filter(|known| known.passed).count() as u32
    }

    /// The pieces of an exact or blocking row.
    fn interval(&self, record: &Record, detail: Detail, span: Span, tell: &mut impl FnMut(Piece)) {
        self.precise.inside(span, |span| {
            let ended = !detail.open && span.end == record.span.end && span.end > self.window.start;
            if span.is_empty() && !ended {
                return;
            }
            let time_ns = span.len();
            let cpu_ns = within(detail.cpu_ns, span, record.span).min(time_ns);
            let runq_ns = within(detail.runq_ns, span, record.span).min(time_ns - cpu_ns);
            let piece = |event, ns, ended, measured| Piece {
                record: *record,
                span,
                ns,
                event,
                samples: 0,
                ended,
                measured: Some(measured),
                meaning: Meaning::Nothing,
            };
            if record.event != WaitEvent::CPU {
                tell(piece(record.event, time_ns, ended, Measured { time_ns, cpu_ns, runq_ns }));
                return;
            }
            let off = time_ns - cpu_ns;
            if cpu_ns > 0 || ended {
                tell(piece(WaitEvent::CPU, cpu_ns, ended, Measured { time_ns: cpu_ns, cpu_ns, runq_ns: 0 }));
            }
            if off > 0 {
                tell(piece(WaitEvent::OFF_CPU, off, false, Measured { time_ns: off, cpu_ns: 0, runq_ns }));
            }
        });
    }

    /// The pieces of a sampled row: what no interval of its session stands for. An observation made where intervals count does not.
    fn samples(&self, record: &Record, span: Span, inside: &Inside<'_>, tell: &mut impl FnMut(Piece)) {
        let mut samples = inside.samples(record);
        let mut piece = |span: Span, samples| {
            if !span.is_empty() || samples > 0 {
                let (ns, event) = (span.len(), record.event);
                tell(Piece { record: *record, span, ns, event, samples, ended: false, measured: None, meaning: Meaning::Nothing });
            }
        };
        if self.precise.misses(span) {
            return piece(span, samples);
        }
        let followed = self.precise.followed(record.session, span);
        samples -= inside.taken_in(record, &followed);
        let mut left = Vec::new();
        without(span, &followed, &mut left);
        if left.is_empty() {
            return piece(Span::new(span.end, span.end), samples);
        }
        for span in left {
            piece(span, std::mem::take(&mut samples));
        }
    }

    /// Visits pairs of exact or blocking rows of one session that touch each other inside the window, where either passes the filter.
    pub fn transitions(&self, mut visit: impl FnMut(&Record, &Record)) {
        let mut sessions = Sessions::new(self.matcher, self.trace.catalog());
        let mut last: FxHashMap<SessionId, Record> = FxHashMap::default();
        self.trace.scan(self.window, &mut |block| {
            if block.fidelity() == Fidelity::Sampled {
                return;
            }
            for mut record in block.records() {
                let before = last.get(&record.session).copied();
                if let Some(before) = before
                    && (before.event, record.event) == (WaitEvent::CPU, WaitEvent::CPU)
                    && before.span.end == record.span.start
                    && before.span.end > self.window.start
                    && let Some(detail) = &mut record.detail
                {
                    // A stretch without a wait is cut where a command begins or ends: inside the window it is one.
                    record.span.start = before.span.start;
                    detail.lead_ns = before.detail.map_or(0, |d| d.lead_ns);
                }
                last.insert(record.session, record);
                let Some(before) = before else { continue };
                let at = record.span.start;
                let touch =
                    before.span.end == at && before.detail.is_some_and(|d| !d.open) && at > self.window.start && at <= self.window.end;
                if touch && (sessions.passes(&before).0 || sessions.passes(&record).0) {
                    visit(&before, &record);
                }
            }
        });
    }

    /// What of the window was observed; `visit` gets each observed stretch, in order and without overlaps.
    pub fn coverage(&self, mut visit: impl FnMut(Span)) -> Coverage {
        let mut cover = Coverage { lost_records: self.precise.lost_records, ..Coverage::default() };
        cover.unfollowed_ns = self.precise.unfollowed_ns(self.window);
        let mut seen: Vec<Stretch> = Vec::new();
        let exact: Vec<Span> = self.precise.stretches().iter().map(|s| s.span).collect();
        let mut done = self.window.start;
        self.trace.scan_coverage(self.window, &mut |block| {
            let inside = Inside::new(block, self.window);
            for tick in inside.ticks() {
                cover.ticks += 1;
                cover.unread += u64::from(tick.unread);
            }
            for tick in inside.ticks_and_next() {
                let span = Span { start: tick.span().start.max(done), end: tick.at.min(self.window.end) };
                if span.is_empty() {
                    continue;
                }
                done = span.end;
                match seen.last_mut() {
                    Some(last) if last.span.end == span.start => last.span.end = span.end,
                    _ => seen.push(Stretch { span, fidelity: Fidelity::Sampled }),
                }
            }
        });
        let mut left = Vec::new();
        for stretch in seen {
            without(stretch.span, &exact, &mut left);
        }
        let mut seen: Vec<Stretch> = left.into_iter().map(|span| Stretch { span, fidelity: Fidelity::Sampled }).collect();
        seen.extend(self.precise.stretches().iter().map(|s| Stretch { span: s.span.clip(self.window), ..*s }));
        seen.retain(|s| !s.span.is_empty());
        seen.sort_unstable_by_key(|s| s.span.start);
        let mut done = self.window.start;
        for stretch in seen {
            gap(&mut cover, Span::new(done, stretch.span.start));
            let ns = stretch.span.len();
            match stretch.fidelity {
                Fidelity::Exact => cover.exact_ns += ns,
                Fidelity::Blocking => cover.blocking_ns += ns,
                _ => cover.sampled_ns += ns,
            }
            if stretch.fidelity != Fidelity::Sampled && cover.precise.len() < MAX_GAPS {
                cover.precise.push(stretch);
            }
            cover.fidelity = cover.fidelity.join(stretch.fidelity);
            visit(stretch.span);
            done = stretch.span.end;
        }
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
