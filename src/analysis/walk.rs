//! The one loop over a window: reads digests where they will do and blocks where not, applies the filter, says what time counts as. Pure.
//!
//! What of a row counts in a stretch of time is decided in [`crate::trace::cut`], for blocks and for digests alike, so that it makes no difference which of
//! them is read.

use super::answer::{Coverage, MAX_GAPS, Measured};
use super::grid::Grid;
use super::matcher::{Matcher, Verdict};
use super::meaning::Meaning;
use crate::trace::Trace;
use crate::trace::catalog::{BackendKind, Catalog};
use crate::trace::clock::Span;
use crate::trace::cut::{self, Seen, share};
use crate::trace::digest::{Digest, Key, Part, Place, STRETCHES, Sums};
use crate::trace::lengths::Counted;
use crate::trace::precise::{Precise, Stretch, without};
use crate::trace::record::{Fidelity, QueryId, Record, SessionId};
use crate::trace::wait::WaitEvent;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Time in the window that counts: a part of a row, or what a digest adds up.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Who.
    pub session: SessionId,
    /// For which query.
    pub query: QueryId,
    /// In what; [`WaitEvent::OFF_CPU`] for the part of a stretch without a wait that was not on the CPU.
    pub event: WaitEvent,
    /// What it counts as.
    pub meaning: Meaning,
    /// When; may be empty when only a weightless tick saw it. Of a digest: its stretch, in which the time lies somewhere.
    pub span: Span,
    /// The time: all of the span, or, of a measured stretch without a wait, what of it was on the CPU, or what was not, or what a digest adds up.
    pub ns: u64,
    /// Its sampled observations in the window.
    pub samples: u64,
    /// Whole waits that ended here.
    pub ended: Ended<'a>,
    /// Where `ns` went; only where it was measured.
    pub measured: Option<Measured>,
}

/// Waits that ended.
#[derive(Debug, Clone, Copy)]
pub enum Ended<'a> {
    /// None.
    Nothing,
    /// One, at the end of the piece's span; its length, nanoseconds.
    One(u64),
    /// So many, somewhere in the piece's span; their lengths, where they were asked for.
    Many(u64, &'a Counted),
}

impl Ended<'_> {
    /// How many.
    pub fn count(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::One(_) => 1,
            Self::Many(n, _) => *n,
        }
    }
}

impl Piece<'_> {
    /// Tells how much of its time lies in which bucket. Time that is not all of the span is spread evenly over it.
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

    /// Whether what a session did passes, and what kind of process it is.
    fn passes(&mut self, id: SessionId, event: WaitEvent, query: QueryId) -> (bool, BackendKind) {
        let known = self.known.entry(id).or_insert_with(|| {
            let session = self.catalog.sessions.get(&id);
            let kind = session.map_or(BackendKind::Unknown, |s| s.kind);
            let pass = match self.matcher.session(id, session) {
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
            Pass::Depends(i) => self.verdicts.get(i as usize).is_some_and(|v| self.matcher.passes(v, event, query)),
        };
        known.passed |= passes;
        (passes, known.kind)
    }

    /// Whether anything that a digest holds passes.
    fn any_of(&mut self, digest: &Digest) -> bool {
        digest.rows.iter().any(|row| {
            let Key { session, event, query, .. } = row.key;
            let off = row.key.precise && event == WaitEvent::CPU;
            self.passes(session, event, query).0 || (off && self.passes(session, WaitEvent::OFF_CPU, query).0)
        })
    }
}

/// A part of the window with what must be known of it before its rows are read.
#[derive(Debug)]
pub enum Section {
    /// Read from blocks.
    Blocks(Span, Precise),
    /// Read from a digest.
    Digest(Place),
}

/// One window of one trace, seen through one filter.
#[derive(Debug)]
pub struct Walk<'a, T> {
    /// What is read.
    pub trace: &'a T,
    /// What part of it.
    pub window: Span,
    matcher: &'a Matcher,
    sections: Vec<Section>,
    seen: Seen,
}

impl<'a, T: Trace> Walk<'a, T> {
    /// Reads what was observed of the window; nothing else yet. Digests of at most `longest` nanoseconds are used; `None`: none at all.
    pub fn new(trace: &'a T, window: Span, matcher: &'a Matcher, longest: Option<u64>) -> Self {
        let mut parts = Vec::new();
        match longest {
            None => parts.push(Part::Blocks(window)),
            Some(longest) if matcher.is_empty() => parts = trace.cover(window, longest),
            Some(longest) => {
                let mut sessions = Sessions::new(matcher, trace.catalog());
                for part in trace.cover(window, longest) {
                    match part {
                        Part::Digest(_) => parts.push(part),
                        Part::Blocks(span) => pass_over(trace, span, u64::MAX, &mut sessions, &mut parts),
                    }
                }
            }
        }
        let mut this = Self { trace, window, matcher, sections: Vec::new(), seen: Seen::default() };
        for part in parts {
            match part {
                Part::Digest(place) => this.totals(place),
                Part::Blocks(span) => this.blocks(span),
            }
        }
        this
    }

    /// A part that is read from blocks.
    fn blocks(&mut self, span: Span) {
        let (here, precise) = Seen::of(span, |visit| self.trace.scan_coverage(span, visit));
        self.seen.add(&here);
        self.sections.push(Section::Blocks(span, precise));
    }

    /// A part that is read from a digest.
    fn totals(&mut self, place: Place) {
        match self.trace.digest(&place, false) {
            Some(digest) => {
                self.seen.add(&digest.seen);
                self.sections.push(Section::Digest(place));
            }
            None => self.blocks(place.span),
        }
    }

    /// The exact and blocking stretches, within the window.
    pub fn stretches(&self) -> &[Stretch] {
        &self.seen.precise
    }

    /// The parts of the window, in order.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The digest of a part, or what its blocks say when it cannot be read after all.
    pub fn digest(&self, place: &Place, lengths: bool) -> Result<Arc<Digest>, Precise> {
        let blocks = || Precise::of(place.span, |visit| self.trace.scan_coverage(place.span, visit));
        self.trace.digest(place, lengths).ok_or_else(blocks)
    }

    /// Visits every piece that passes the filter, in the order of the parts of the window, of blocks and of start times. `lengths`: whether those of waits are
    /// wanted. Returns how many sessions they are of.
    pub fn pieces(&self, lengths: bool, mut visit: impl FnMut(&Piece<'_>)) -> u32 {
        let names = &self.trace.catalog().events;
        let mut sessions = Sessions::new(self.matcher, self.trace.catalog());
        let mut tell = |key: &Key, sums: &Sums, span: Span, ended: Ended<'_>| {
            let mut tell = |event, ns, samples, ended, measured| {
                let (passes, kind) = sessions.passes(key.session, event, key.query);
                if passes {
                    let meaning = Meaning::of(kind, key.state, key.event, names);
                    visit(&Piece { session: key.session, query: key.query, event, meaning, span, ns, samples, ended, measured });
                }
            };
            let Sums { ns, cpu_ns, runq_ns, samples, .. } = *sums;
            if !key.precise {
                return tell(key.event, ns, samples, ended, None);
            }
            if key.event != WaitEvent::CPU {
                return tell(key.event, ns, samples, ended, Some(Measured { time_ns: ns, cpu_ns, runq_ns }));
            }
            let off = ns - cpu_ns;
            if cpu_ns > 0 || ended.count() > 0 {
                tell(WaitEvent::CPU, cpu_ns, samples, ended, Some(Measured { time_ns: cpu_ns, cpu_ns, runq_ns: 0 }));
            }
            if off > 0 {
                tell(WaitEvent::OFF_CPU, off, 0, Ended::Nothing, Some(Measured { time_ns: off, cpu_ns: 0, runq_ns }));
            }
        };
        for section in &self.sections {
            match section {
                Section::Blocks(span, precise) => self.rows(*span, precise, &mut tell),
                Section::Digest(place) => match self.digest(place, lengths) {
                    Ok(digest) => digest.rows.iter().for_each(|row| {
                        let ended = if row.sums.waits > 0 { Ended::Many(row.sums.waits, &row.lengths) } else { Ended::Nothing };
                        tell(&row.key, &row.sums, digest.span, ended);
                    }),
                    Err(precise) => self.rows(place.span, &precise, &mut tell),
                },
            }
        }
        sessions.known.values().filter(|known| known.passed).count() as u32
    }

    /// The rows of a part, from its blocks.
    fn rows(&self, span: Span, precise: &Precise, tell: &mut impl FnMut(&Key, &Sums, Span, Ended<'_>)) {
        cut::rows(
            span,
            precise,
            |visit| self.trace.scan(span, visit),
            |cut| {
                let r = &cut.record;
                let key = Key { session: r.session, query: r.query, event: r.event, state: r.state, precise: cut.measured.is_some() };
                let (cpu_ns, runq_ns) = cut.measured.unwrap_or_default();
                let sums = Sums { ns: cut.span.len(), cpu_ns, runq_ns, samples: u64::from(cut.samples), waits: u64::from(cut.ended) };
                tell(&key, &sums, cut.span, if cut.ended { Ended::One(r.length()) } else { Ended::Nothing });
            },
        );
    }

    /// Visits pairs of exact or blocking rows of one session that touch each other inside the window, where either passes the filter.
    pub fn transitions(&self, mut visit: impl FnMut(&Record, &Record)) {
        let mut sessions = Sessions::new(self.matcher, self.trace.catalog());
        let mut passes = |r: &Record| sessions.passes(r.session, r.event, r.query).0;
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
                if touch && (passes(&before) || passes(&record)) {
                    visit(&before, &record);
                }
            }
        });
    }

    /// What of the window was observed; `visit` gets each observed stretch, in order and without overlaps.
    pub fn coverage(&self, mut visit: impl FnMut(Span)) -> Coverage {
        let all = &self.seen;
        let mut cover = Coverage {
            ticks: all.ticks,
            unread: all.unread,
            lost_records: all.lost_records,
            unfollowed_ns: all.unfollowed_ns,
            ..Coverage::default()
        };
        let exact: Vec<Span> = all.precise.iter().map(|s| s.span).collect();
        let mut left = Vec::new();
        for span in &all.sampled {
            without(*span, &exact, &mut left);
        }
        let mut seen: Vec<Stretch> = left.into_iter().map(|span| Stretch { span, fidelity: Fidelity::Sampled }).collect();
        seen.extend(&all.precise);
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

/// Parts of a stretch that is to be read from blocks: where digests hold nothing that passes the filter, its blocks need not be opened.
fn pass_over<T: Trace>(trace: &T, span: Span, longest: u64, sessions: &mut Sessions<'_>, parts: &mut Vec<Part>) {
    for part in trace.cover(span, longest) {
        let blocks = match part {
            Part::Blocks(span) => span,
            Part::Digest(place) if trace.digest(&place, false).is_some_and(|d| !sessions.any_of(&d)) => {
                parts.push(part);
                continue;
            }
            Part::Digest(place) if place.span.len() > STRETCHES[0] => {
                pass_over(trace, place.span, place.span.len() - 1, sessions, parts);
                continue;
            }
            Part::Digest(place) => place.span,
        };
        match parts.last_mut() {
            Some(Part::Blocks(last)) => last.end = blocks.end,
            _ => parts.push(Part::Blocks(blocks)),
        }
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
