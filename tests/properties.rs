//! What must hold for any recording: a second, obvious implementation (tick by tick, nothing merged, nothing clever) gives the same figures,
//! and merging blocks never changes an answer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::answer::{ActiveRow, Answer, Body, Doing};
use pg_wait_tracer::analysis::filter::{Clause, Filter, Term};
use pg_wait_tracer::analysis::meaning::Meaning;
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::{Block, Builder};
use pg_wait_tracer::trace::catalog::{BackendKind, Catalog, EventNames, News, Session};
use pg_wait_tracer::trace::clock::{Clock, Span, Ts, Window};
use pg_wait_tracer::trace::health::Health;
use pg_wait_tracer::trace::recent::{Batch, Recent};
use pg_wait_tracer::trace::record::{QueryId, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Blocks exactly as they were sealed.
struct Plain {
    blocks: Vec<Arc<Block>>,
    catalog: Catalog,
    health: Health,
}

impl Trace for Plain {
    fn extent(&self) -> Option<Span> {
        Some(Span::new(self.blocks.first()?.span().start, self.blocks.last()?.span().end))
    }
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }
    fn clock(&self) -> Clock {
        Clock::default()
    }
    fn health(&self) -> &Health {
        &self.health
    }
    fn scan(&self, window: Span, visit: &mut dyn FnMut(&Block)) {
        // Every block: one outside the window must change nothing.
        let _ = window;
        self.blocks.iter().for_each(|b| visit(b));
    }
    fn scan_back(&self, window: Span, visit: &mut dyn FnMut(&Block) -> ControlFlow<()>) {
        let _ = window;
        let _ = self.blocks.iter().rev().try_for_each(|b| visit(b));
    }
}

/// What one tick found of one session.
#[derive(Debug, Clone, Copy)]
struct Seen {
    event: WaitEvent,
    query: QueryId,
    state: State,
}

#[derive(Debug, Clone)]
struct Tick {
    at: u64,
    weight: u64,
    unread: bool,
    seen: BTreeMap<SessionId, Seen>,
}

/// A recording, tick by tick, with the blocks it was sealed into.
#[derive(Debug, Clone)]
struct Story {
    ticks: Vec<Tick>,
    blocks: Vec<Arc<Block>>,
}

const EVENTS: [u32; 8] = [0, 0x0a00_0015, 0x0300_0005, 0x0300_0000, 0x0100_0008, 0x0600_0000, 0x0500_0003, 0x0900_0001];
const STATES: [State; 4] = [State::Active, State::Idle, State::IdleInTransaction, State::Starting];
const KINDS: [BackendKind; 6] = [
    BackendKind::Client,
    BackendKind::Client,
    BackendKind::Checkpointer,
    BackendKind::IoWorker,
    BackendKind::ParallelWorker,
    BackendKind::Unknown,
];

fn names() -> EventNames {
    EventNames::new(18, [(0x0300_0005, "transactionid".into()), (0x0900_0001, "CheckpointWriteDelay".into())])
}

fn news() -> Vec<News> {
    let session = |(i, kind): (usize, &BackendKind)| {
        // The kind unknown is also not in the catalog.
        let s = Session { pid: 100 + i as i32, kind: *kind, ..Session::default() };
        (*kind != BackendKind::Unknown).then(|| News::Session(SessionId(i as u32), Box::new(s)))
    };
    KINDS.iter().enumerate().filter_map(session).chain([News::Events(names())]).collect()
}

/// One tick: how long since the one before and whether that was a gap, whether one backend could not be read, whether a block is sealed
/// behind it, and per session what changes: nothing, or (absent, event, query, state).
type Step = (u64, bool, bool, bool, Vec<Option<(bool, usize, i64, usize)>>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let change = prop_oneof![
        5 => Just(None),
        2 => (prop::bool::weighted(0.2), 0..EVENTS.len(), 0..3i64, 0..STATES.len()).prop_map(Some),
    ];
    let gap = prop::bool::weighted(0.08);
    let step = (1..50u64, gap, prop::bool::weighted(0.1), prop::bool::weighted(0.3), prop::collection::vec(change, KINDS.len()));
    prop::collection::vec(step, 1..60)
}

fn tell(steps: Vec<Step>) -> Story {
    let mut builder = Builder::default();
    let (mut ticks, mut blocks) = (Vec::new(), Vec::new());
    let mut now: BTreeMap<SessionId, Option<Seen>> = BTreeMap::new();
    let mut at = 1_000;
    for (i, (elapsed, gap, unread, seal, changes)) in steps.into_iter().enumerate() {
        at += elapsed;
        let weight = if gap || i == 0 { 0 } else { elapsed };
        builder.tick(Ts(at), weight);
        for (i, change) in changes.into_iter().enumerate() {
            let session = SessionId(i as u32);
            if let Some((absent, event, query, state)) = change {
                let seen = Seen { event: WaitEvent(EVENTS[event]), query: QueryId(query), state: STATES[state] };
                now.insert(session, (!absent).then_some(seen));
            }
            if let Some(Some(s)) = now.get(&session) {
                builder.sample(session, s.event, s.query, s.state);
            }
        }
        if unread {
            builder.unread();
        }
        let seen = now.iter().filter_map(|(id, s)| s.map(|s| (*id, s))).collect();
        ticks.push(Tick { at, weight, unread, seen });
        if seal {
            blocks.extend(builder.seal().map(Arc::new));
        }
    }
    blocks.extend(builder.seal().map(Arc::new));
    Story { ticks, blocks }
}

impl Story {
    fn plain(&self) -> Plain {
        let mut catalog = Catalog::default();
        for news in news() {
            catalog.learn(news);
        }
        for block in &self.blocks {
            catalog.saw(block.sessions(), block.span().end);
        }
        Plain { blocks: self.blocks.clone(), catalog, health: Health::default() }
    }

    fn recent(blocks: impl IntoIterator<Item = Arc<Block>>) -> Recent {
        let mut recent = Recent::new(usize::MAX);
        recent.absorb(Batch { news: news(), ..Batch::default() });
        for block in blocks {
            recent.absorb(Batch { block: Some(block), ..Batch::default() });
        }
        recent
    }

    /// The obvious implementation: nanoseconds and observations per session, event, query and meaning.
    fn sums(&self, window: Span) -> BTreeMap<(SessionId, WaitEvent, QueryId, Meaning), (u64, u64)> {
        let mut sums = BTreeMap::new();
        for tick in &self.ticks {
            let ns = Span::new(Ts(tick.at - tick.weight), Ts(tick.at)).clip(window).len();
            let inside = u64::from(window.start.0 < tick.at && tick.at <= window.end.0);
            for (id, s) in &tick.seen {
                let meaning = Meaning::of(KINDS[id.0 as usize], s.state, s.event, &names());
                let sum: &mut (u64, u64) = sums.entry((*id, s.event, s.query, meaning)).or_default();
                *sum = (sum.0 + ns, sum.1 + inside);
            }
        }
        sums
    }

    fn observed(&self, window: Span) -> u64 {
        self.ticks.iter().map(|t| Span::new(Ts(t.at - t.weight), Ts(t.at)).clip(window).len()).sum()
    }

    /// The obvious implementation of "for how long": tick by tick backwards.
    fn active(&self, window: Span) -> BTreeMap<SessionId, (Doing, WaitEvent, u64, bool)> {
        let doing = |id: SessionId, s: Seen| match Meaning::of(KINDS[id.0 as usize], s.state, s.event, &names()) {
            Meaning::Load | Meaning::IoWorkerBusy if s.event == WaitEvent::CPU => Doing::OnCpu,
            Meaning::Load | Meaning::IoWorkerBusy => Doing::Waiting,
            _ => Doing::Idle,
        };
        let inside = |t: &Tick| window.start.0 < t.at && t.at <= window.end.0;
        let Some(last) = self.ticks.iter().rposition(inside) else { return BTreeMap::new() };
        let mut rows = BTreeMap::new();
        for (id, s) in &self.ticks[last].seen {
            let mut i = last;
            let at_least = loop {
                let tick = &self.ticks[i];
                // The first tick after a gap, or of all: nothing is known of before.
                if tick.weight == 0 {
                    break true;
                }
                let before = &self.ticks[i - 1];
                match before.seen.get(id) {
                    Some(b) if b.event == s.event && doing(*id, *b) == doing(*id, *s) => i -= 1,
                    Some(_) => break false,
                    None => break before.unread,
                }
            };
            let first = &self.ticks[i];
            rows.insert(*id, (doing(*id, *s), s.event, self.ticks[last].at - (first.at - first.weight), at_least));
        }
        rows
    }
}

const ASKS: [Ask; 8] = [
    Ask::Load { buckets: 7 },
    Ask::Load { buckets: 300 },
    Ask::TimeModel,
    Ask::Events,
    Ask::Sessions,
    Ask::Queries,
    Ask::QueryEvents,
    Ask::Active,
];

fn ask(trace: &impl Trace, ask: Ask, window: Span, filter: &Filter) -> Answer {
    let question = Question { filter: filter.clone(), spark: 5, ..Question::new(ask, Window::Fixed(window)) };
    answer(trace, &question).unwrap()
}

fn filters() -> impl Strategy<Value = Filter> {
    let term = prop_oneof![
        (0..KINDS.len() as u32).prop_map(|id| Term::Session(SessionId(id))),
        (100..106i32).prop_map(Term::Pid),
        (0..EVENTS.len()).prop_map(|i| Term::Event(WaitEvent(EVENTS[i]))),
        (0..EVENTS.len()).prop_map(|i| Term::Class(WaitEvent(EVENTS[i]).class())),
        (0..3i64).prop_map(|id| Term::Query(QueryId(id))),
        (0..KINDS.len()).prop_map(|i| Term::Kind(KINDS[i])),
    ];
    let clause = (any::<bool>(), prop::collection::vec(term, 1..3)).prop_map(|(exclude, any)| Clause { exclude, any });
    prop::collection::vec(clause, 0..3).prop_map(|clauses| Filter { clauses })
}

fn window() -> impl Strategy<Value = Span> {
    (900..3_000u64, 0..1_500u64).prop_map(|(from, len)| Span::new(Ts(from), Ts(from + len)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merging_never_changes_an_answer(steps in steps(), window in window(), filter in filters()) {
        let story = tell(steps);
        let plain = story.plain();
        let merged = [
            Story::recent(story.blocks.iter().cloned()),
            Story::recent([Arc::new(Block::merge(story.blocks.iter().map(AsRef::as_ref)))]),
        ];
        for kind in ASKS {
            let expected = ask(&plain, kind, window, &filter);
            for recent in &merged {
                prop_assert_eq!(&ask(recent, kind, window, &filter), &expected);
            }
        }
    }

    #[test]
    fn the_obvious_implementation_agrees(steps in steps(), window in window()) {
        let story = tell(steps);
        let trace = Story::recent(story.blocks.iter().cloned());
        let sums = story.sums(window);
        let total = |meaning| sums.iter().filter(|(key, _)| key.3 == meaning).map(|(_, sum)| sum.0).sum::<u64>();
        let model = ask(&trace, Ask::TimeModel, window, &Filter::default());
        prop_assert_eq!(model.db_time_ns, total(Meaning::Load));
        prop_assert_eq!(model.idle_ns, total(Meaning::Idle));
        prop_assert_eq!(model.coverage.observed_ns(), story.observed(window));
        prop_assert_eq!(model.coverage.observed_ns() + model.coverage.gap_ns, window.len());
        let gaps: u64 = model.coverage.gaps.iter().map(|g| g.len()).sum();
        prop_assert_eq!(gaps, model.coverage.gap_ns);
        for id in (0..KINDS.len() as u32).map(SessionId) {
            let own = Filter::default().and(Term::Session(id));
            let Body::QueryEvents { pairs } = ask(&trace, Ask::QueryEvents, window, &own).body else { panic!() };
            let got: BTreeMap<_, _> = pairs.iter().map(|p| ((p.sql.query, p.event), (p.time_ns, p.samples))).collect();
            let mut expected = BTreeMap::new();
            for ((session, event, query, meaning), sum) in &sums {
                if *session == id && *meaning == Meaning::Load && sum.0 > 0 {
                    expected.insert((*query, *event), *sum);
                }
            }
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn how_long_it_lasts_already_is_found(steps in steps(), window in window()) {
        let story = tell(steps);
        for trace in [Story::recent(story.blocks.iter().cloned()), Story::recent([Arc::new(Block::merge(story.blocks.iter().map(AsRef::as_ref)))])] {
            let Body::Active { active, .. } = ask(&trace, Ask::Active, window, &Filter::default()).body else { panic!() };
            let key = |r: &ActiveRow| (r.who.session, (r.doing, r.event, r.for_ns, r.for_at_least));
            prop_assert_eq!(active.iter().map(key).collect::<BTreeMap<_, _>>(), story.active(window));
        }
    }

    #[test]
    fn parts_add_up(steps in steps(), window in window(), filter in filters(), buckets in 1u16..80) {
        let story = tell(steps);
        let trace = Story::recent(story.blocks.iter().cloned());
        let model = ask(&trace, Ask::TimeModel, window, &filter);
        let db = model.db_time_ns;
        let Body::TimeModel(rows) = &model.body else { panic!() };
        let classes: u64 = rows.rows.iter().filter(|r| r.db_share.is_some() && r.depth == 1).map(|r| r.time_ns).sum();
        prop_assert_eq!(classes, db);
        prop_assert!(rows.rows.iter().all(|r| r.db_share.is_none_or(|s| (0.0..=1.0).contains(&s))));

        let Body::Events { events } = ask(&trace, Ask::Events, window, &filter).body else { panic!() };
        prop_assert_eq!(events.iter().filter(|e| !e.idle).map(|e| e.time_ns).sum::<u64>(), db);
        prop_assert_eq!(events.iter().filter(|e| e.idle).map(|e| e.time_ns).sum::<u64>(), model.idle_ns);
        let Body::Sessions { sessions } = ask(&trace, Ask::Sessions, window, &filter).body else { panic!() };
        prop_assert_eq!(sessions.iter().map(|s| s.time_ns).sum::<u64>(), db);
        prop_assert_eq!(sessions.iter().map(|s| s.idle_ns).sum::<u64>(), model.idle_ns);
        for s in &sessions {
            prop_assert_eq!(s.classes.iter().sum::<u64>(), s.time_ns);
            prop_assert!(s.cpu_share.is_none_or(|c| (c + s.wait_share.unwrap() - 1.0).abs() < 1e-9));
        }
        let Body::Queries { queries } = ask(&trace, Ask::Queries, window, &filter).body else { panic!() };
        prop_assert_eq!(queries.iter().map(|q| q.time_ns).sum::<u64>(), db);
        prop_assert!(queries.iter().all(|q| q.classes.iter().sum::<u64>() == q.time_ns && q.db_share.is_none_or(|s| s <= 1.0)));
        let Body::QueryEvents { pairs } = ask(&trace, Ask::QueryEvents, window, &filter).body else { panic!() };
        prop_assert_eq!(pairs.iter().map(|p| p.time_ns).sum::<u64>(), db);

        let Body::Load(load) = ask(&trace, Ask::Load { buckets }, window, &filter).body else { panic!() };
        prop_assert_eq!(load.buckets.len(), usize::from(buckets));
        let area: f64 = load.buckets.iter().map(|b| b.total() * b.observed * load.bucket_ns).sum();
        // Bucket boundaries are whole nanoseconds, so a bucket's length is up to one off the mean.
        prop_assert!((area - db as f64).abs() <= 12.0 * f64::from(buckets) + 1e-3 * db as f64 + 1.0 || load.bucket_ns < 20.0, "{} {}", area, db);
        prop_assert!(load.buckets.iter().all(|b| b.observed > 0.0 || b.total() == 0.0));
    }

    #[test]
    fn sparklines_are_the_chart_taken_apart(steps in steps(), window in window(), filter in filters()) {
        let story = tell(steps);
        let trace = Story::recent(story.blocks.iter().cloned());
        let Body::Load(load) = ask(&trace, Ask::Load { buckets: 5 }, window, &filter).body else { panic!() };
        let chart: Vec<Option<f64>> = load.buckets.iter().map(|b| (b.observed > 0.0).then(|| b.total())).collect();
        let sum = |sparks: Vec<&Vec<Option<f32>>>| -> Vec<Option<f64>> {
            let point = |i: usize| sparks.iter().map(|s| s[i].map(f64::from)).sum::<Option<f64>>();
            (0..5).map(point).collect()
        };
        let like_the_chart = |sparks: Vec<&Vec<Option<f32>>>| {
            sparks.is_empty() || sum(sparks).iter().zip(&chart).all(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-5 * (1.0 + b),
                (a, b) => a.is_none() && b.is_none(),
            })
        };
        let Body::TimeModel(model) = ask(&trace, Ask::TimeModel, window, &filter).body else { panic!() };
        prop_assert!(like_the_chart(vec![&model.rows[0].spark]));
        prop_assert!(like_the_chart(model.rows.iter().filter(|r| r.db_share.is_some() && r.depth == 1).map(|r| &r.spark).collect()));
        let Body::Events { events } = ask(&trace, Ask::Events, window, &filter).body else { panic!() };
        prop_assert!(like_the_chart(events.iter().filter(|e| !e.idle).map(|e| &e.spark).collect()));
        let Body::Sessions { sessions } = ask(&trace, Ask::Sessions, window, &filter).body else { panic!() };
        prop_assert!(like_the_chart(sessions.iter().map(|s| &s.spark).collect()));
        let Body::Queries { queries } = ask(&trace, Ask::Queries, window, &filter).body else { panic!() };
        prop_assert!(like_the_chart(queries.iter().map(|q| &q.spark).collect()));
    }

    #[test]
    fn windows_that_adjoin_add_up(steps in steps(), from in 900..2_000u64, a in 0..800u64, b in 0..800u64, filter in filters()) {
        let story = tell(steps);
        let trace = Story::recent(story.blocks.iter().cloned());
        let whole = Span::new(Ts(from), Ts(from + a + b));
        let parts = [Span::new(Ts(from), Ts(from + a)), Span::new(Ts(from + a), Ts(from + a + b))];
        let count = |w| {
            let answer = ask(&trace, Ask::Events, w, &filter);
            let Body::Events { events } = answer.body else { panic!() };
            let rows: BTreeMap<_, _> = events.iter().map(|e| (e.event, e.time_ns)).collect();
            (answer.db_time_ns, answer.idle_ns, answer.coverage.ticks, answer.coverage.gap_ns, answer.coverage.unread, rows)
        };
        let (whole, [first, second]) = (count(whole), parts.map(count));
        prop_assert_eq!(whole.0, first.0 + second.0);
        prop_assert_eq!(whole.1, first.1 + second.1);
        prop_assert_eq!(whole.2, first.2 + second.2);
        prop_assert_eq!(whole.3, first.3 + second.3);
        prop_assert_eq!(whole.4, first.4 + second.4);
        let mut sum = first.5;
        second.5.into_iter().for_each(|(event, ns)| *sum.entry(event).or_default() += ns);
        prop_assert_eq!(whole.5, sum);
    }
}
