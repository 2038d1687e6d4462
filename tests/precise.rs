//! What must hold for any recording with exact and blocking windows: an obvious implementation, nanosecond by nanosecond, gives the same times,
//! however rows are cut and merged; and windows of time that adjoin add up, on-CPU time, waits and observations included.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::answer::{Answer, Body};
use pg_wait_tracer::analysis::filter::{Filter, Term};
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::trace::block::{Blind, Block, Builder, Intervals};
use pg_wait_tracer::trace::catalog::{BackendKind, EventNames, News, Session};
use pg_wait_tracer::trace::clock::{Span, Ts, Window};
use pg_wait_tracer::trace::recent::{Batch, Recent};
use pg_wait_tracer::trace::record::{Detail, Fidelity, QueryId, Record, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const EVENTS: [u32; 5] = [0, 0x0a00_0015, 0x0300_0005, 0x0100_0008, 0x0600_0000];
const SESSIONS: u32 = 3;
/// Time goes from here on.
const BEGIN: u64 = 1_000;
/// A tick each so many nanoseconds.
const TICK: u64 = 10;
const TICKS: usize = 60;

/// Where rows of a session end, and in what it was up to there and how much of it on the CPU; and its hole.
type Lane = (Vec<(u64, usize, u64)>, Option<Span>);

/// A whole row: when, what, per cent on the CPU, and whether it ends where it ends.
type Whole = (Span, usize, u64, bool);

/// One window: from where to where, which tier, where blocks are sealed, and each session's rows.
#[derive(Debug, Clone)]
struct Precise {
    span: Span,
    fidelity: Fidelity,
    seals: Vec<u64>,
    /// Everything was on the CPU all the time: nothing is spread.
    busy: bool,
    rows: Vec<Lane>,
}

fn precise(from: u64, to: u64) -> impl Strategy<Value = Option<Precise>> {
    let cut = (from..to, 0..EVENTS.len(), 0..=100u64);
    let hole = prop::option::weighted(0.3, (from..to, 1..60u64).prop_map(|(at, len)| Span::new(Ts(at), Ts(at + len))));
    let rows = prop::collection::vec((prop::collection::vec(cut, 0..12), hole), SESSIONS as usize);
    let span = (from..to, from..to);
    let seals = prop::collection::vec(from..to, 0..4);
    let made = (span, any::<bool>(), any::<bool>(), seals, rows).prop_map(|((a, b), exact, busy, mut seals, rows)| {
        seals.sort_unstable();
        Precise {
            span: Span::new(Ts(a.min(b)), Ts(a.max(b) + 1)),
            fidelity: if exact { Fidelity::Exact } else { Fidelity::Blocking },
            seals,
            busy,
            rows,
        }
    });
    prop::option::weighted(0.8, made)
}

#[derive(Debug, Clone)]
struct Story {
    /// Per tick and session, the event; `None`: not there.
    ticks: Vec<Vec<Option<usize>>>,
    windows: Vec<Precise>,
}

fn story() -> impl Strategy<Value = Story> {
    let end = BEGIN + TICKS as u64 * TICK;
    let middle = BEGIN + (end - BEGIN) / 2;
    let seen = prop::option::weighted(0.9, 0..EVENTS.len());
    let ticks = prop::collection::vec(prop::collection::vec(seen, SESSIONS as usize), TICKS);
    (ticks, precise(BEGIN, middle), precise(middle + 1, end))
        .prop_map(|(ticks, a, b)| Story { ticks, windows: a.into_iter().chain(b).collect() })
}

/// Whole rows of a session inside a window, in order.
fn rows(w: &Precise, session: usize) -> Vec<Whole> {
    let (cuts, hole) = &w.rows[session];
    let mut cuts: Vec<(u64, usize, u64)> = cuts.iter().copied().filter(|c| c.0 > w.span.start.0 && c.0 < w.span.end.0).collect();
    cuts.sort_unstable();
    cuts.dedup_by_key(|c| c.0);
    cuts.push((w.span.end.0, session, 50));
    let mut out: Vec<Whole> = Vec::new();
    let mut from = w.span.start;
    for (at, event, cpu) in cuts {
        let cpu = if w.busy { 100 } else { cpu };
        let span = Span::new(from, Ts(at));
        from = span.end;
        let ends = at < w.span.end.0;
        match hole {
            Some(hole) if span.meets(*hole) => {
                // What ends in the hole is not known to have ended.
                let (a, b) = (Span::new(span.start, hole.start.min(span.end)), Span::new(hole.end.max(span.start), span.end));
                out.extend((!a.is_empty()).then_some((a, event, cpu, false)));
                out.extend((!b.is_empty()).then_some((b, event, cpu, ends)));
            }
            _ => out.push((span, event, cpu, ends)),
        }
    }
    out
}

impl Story {
    fn sampled(&self) -> Arc<Block> {
        let mut builder = Builder::default();
        for (i, seen) in self.ticks.iter().enumerate() {
            builder.tick(Ts(BEGIN + (i as u64 + 1) * TICK), TICK);
            for (id, event) in seen.iter().enumerate() {
                if let Some(event) = event {
                    builder.sample(SessionId(id as u32), WaitEvent(EVENTS[*event]), QueryId(1), State::Active);
                }
            }
        }
        Arc::new(builder.seal().unwrap())
    }

    fn intervals(&self) -> Vec<Arc<Block>> {
        let mut blocks = Vec::new();
        for w in &self.windows {
            let mut made = Intervals::default();
            let mut from = w.span.start;
            for at in w.seals.iter().map(|at| Ts(*at)).chain([w.span.end]).filter(|at| w.span.start < *at && *at <= w.span.end) {
                let part = Span::new(from, at);
                if part.is_empty() {
                    continue;
                }
                from = at;
                made.begin(w.fidelity);
                for (id, (_, hole)) in w.rows.iter().enumerate() {
                    let session = SessionId(id as u32);
                    if let Some(hole) = hole {
                        made.blind(Blind { session, span: hole.clip(part) });
                    }
                    for (whole, event, cpu, ends) in rows(w, id).into_iter().filter(|r| r.0.meets(part)) {
                        let span = whole.clip(part);
                        let upto = |t: Ts| t.since(whole.start) * cpu / 100;
                        let open = !ends || whole.end > part.end;
                        let detail =
                            Detail { cpu_ns: upto(span.end) - upto(span.start), runq_ns: 0, lead_ns: span.start.since(whole.start), open };
                        let (event, query) = (WaitEvent(EVENTS[event]), QueryId(1));
                        made.row(Record { span, session, event, query, state: State::Active, samples: 0, detail: Some(detail) });
                    }
                }
                made.watched(part);
                blocks.extend(made.seal().into_iter().map(Arc::new));
            }
        }
        blocks
    }

    fn recent(&self, merged: bool) -> Recent {
        let mut recent = Recent::new(usize::MAX);
        let session = |id: u32| Session { pid: 100 + id as i32, kind: BackendKind::Client, ..Session::default() };
        let mut news: Vec<News> = (0..SESSIONS).map(|id| News::Session(SessionId(id), Box::new(session(id)))).collect();
        news.push(News::Events(EventNames::new(18, [])));
        let mut intervals = self.intervals();
        if merged {
            let alike = |f| intervals.iter().filter(move |b| b.fidelity() == f).map(AsRef::as_ref);
            let merged = [Fidelity::Exact, Fidelity::Blocking].map(|f| Arc::new(Block::merge(alike(f))));
            intervals = merged.into_iter().filter(|b| !b.watched().is_empty()).collect();
        }
        recent.absorb(Batch { block: Some(self.sampled()), intervals, news, ..Batch::default() });
        recent
    }

    /// The obvious implementation: at each nanosecond, what each session was in, and how it was seen. CPU is on and off the CPU together.
    fn times(&self, window: Span) -> (BTreeMap<(u32, u32), u64>, [u64; 3]) {
        let (mut times, mut seen) = (BTreeMap::new(), [0; 3]);
        let whole: Vec<Vec<Vec<Whole>>> = self.windows.iter().map(|w| (0..SESSIONS as usize).map(|id| rows(w, id)).collect()).collect();
        for ns in window.start.0..window.end.0 {
            let in_span = |s: &Span| s.start.0 <= ns && ns < s.end.0;
            let watched = self.windows.iter().position(|w| in_span(&w.span));
            let tick = ns.checked_sub(BEGIN).map(|t| (t / TICK) as usize).filter(|t| *t < TICKS);
            match watched {
                Some(w) => seen[usize::from(self.windows[w].fidelity == Fidelity::Blocking)] += 1,
                None => seen[2] += u64::from(tick.is_some()),
            }
            for id in 0..SESSIONS {
                let followed = watched.filter(|w| !self.windows[*w].rows[id as usize].1.is_some_and(|hole| in_span(&hole)));
                let event = match followed {
                    Some(w) => whole[w][id as usize].iter().find(|r| in_span(&r.0)).map(|r| r.1),
                    None => tick.and_then(|t| self.ticks[t][id as usize]),
                };
                if let Some(event) = event {
                    *times.entry((id, EVENTS[event])).or_default() += 1;
                }
            }
        }
        (times, seen)
    }
}

fn ask(trace: &Recent, kind: Ask, window: Span, filter: &Filter) -> Answer {
    let question = Question { filter: filter.clone(), spark: 5, ..Question::new(kind, Window::Fixed(window)) };
    answer(trace, &question).unwrap()
}

/// Per event: time, waits, observations.
fn events(trace: &Recent, window: Span, id: u32) -> BTreeMap<u32, (u64, u64, u64)> {
    let own = Filter::default().and(Term::Session(SessionId(id)));
    let Body::Events { events } = ask(trace, Ask::Events, window, &own).body else { panic!() };
    events.iter().map(|e| (e.event.0, (e.time_ns, e.waits.unwrap_or(0), e.samples))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_obvious_implementation_agrees(story in story(), from in 950..1_700u64, len in 1..700u64) {
        let window = Span::new(Ts(from), Ts(from + len));
        let (times, [exact, blocking, sampled]) = story.times(window);
        for merged in [false, true] {
            let trace = story.recent(merged);
            for id in 0..SESSIONS {
                let mut got = BTreeMap::new();
                for (event, (ns, _, _)) in events(&trace, window, id) {
                    let event = if event == WaitEvent::OFF_CPU.0 { 0 } else { event };
                    *got.entry((id, event)).or_default() += ns;
                }
                got.retain(|_, ns| *ns > 0);
                let expected: BTreeMap<(u32, u32), u64> = times.iter().filter(|(k, _)| k.0 == id).map(|(k, ns)| (*k, *ns)).collect();
                prop_assert_eq!(got, expected);
            }
            let model = ask(&trace, Ask::TimeModel, window, &Filter::default());
            let load: u64 = times.iter().filter(|((_, event), _)| *event != WaitEvent::CLIENT_READ.0).map(|(_, ns)| ns).sum();
            prop_assert_eq!(model.db_time_ns, load);
            let c = &model.coverage;
            prop_assert_eq!((c.exact_ns, c.blocking_ns, c.sampled_ns), (exact, blocking, sampled));
            prop_assert_eq!(c.observed_ns() + c.gap_ns, window.len());
            let Body::TimeModel(rows) = &model.body else { panic!() };
            prop_assert_eq!(rows.rows.iter().filter(|r| r.depth == 1 && r.db_share.is_some()).map(|r| r.time_ns).sum::<u64>(), load);
            let Body::Load(chart) = ask(&trace, Ask::Load { buckets: 1 }, window, &Filter::default()).body else { panic!() };
            let seen = (exact + blocking + sampled).max(1) as f64;
            prop_assert!((chart.buckets[0].total() * seen - load as f64).abs() < 1e-6 * seen);
        }
    }

    #[test]
    fn windows_that_adjoin_add_up(story in story(), mut at in prop::collection::vec(950..1_700u64, 3)) {
        at.sort_unstable();
        let span = |a: usize, b: usize| Span::new(Ts(at[a]), Ts(at[b]));
        for merged in [false, true] {
            let trace = story.recent(merged);
            for id in 0..SESSIONS {
                let mut sum = events(&trace, span(0, 1), id);
                for (event, (ns, waits, samples)) in events(&trace, span(1, 2), id) {
                    let e = sum.entry(event).or_default();
                    *e = (e.0 + ns, e.1 + waits, e.2 + samples);
                }
                sum.retain(|_, e| *e != (0, 0, 0));
                let mut whole = events(&trace, span(0, 2), id);
                whole.retain(|_, e| *e != (0, 0, 0));
                prop_assert_eq!(sum, whole);
            }
        }
    }

    #[test]
    fn merging_changes_nothing(story in story(), from in 950..1_700u64, len in 1..700u64) {
        let window = Span::new(Ts(from), Ts(from + len));
        let (parts, merged) = (story.recent(false), story.recent(true));
        for kind in [Ask::TimeModel, Ask::Events, Ask::Sessions, Ask::Queries, Ask::Latency { buckets: 9 }, Ask::Flow, Ask::Active] {
            let (mut a, mut b) = (ask(&parts, kind, window, &Filter::default()), ask(&merged, kind, window, &Filter::default()));
            // On-CPU time of a piece is spread over the piece: cut otherwise, a nanosecond may fall on the other side of an edge.
            if story.windows.iter().all(|w| w.busy) || matches!(kind, Ask::Flow | Ask::Latency { .. } | Ask::Active) {
                (a.extent, b.extent) = (None, None);
                prop_assert_eq!(a, b);
            } else {
                prop_assert_eq!((a.db_time_ns, a.idle_ns, &a.coverage), (b.db_time_ns, b.idle_ns, &b.coverage));
            }
        }
    }
}
