//! Digests: what is answered from them is what is answered from the rows, to the nanosecond, whatever was recorded and however time is cut.

#![allow(clippy::needless_for_each, reason = "one column a line")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use jiff::tz::TimeZone;
use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::answer::Answer;
use pg_wait_tracer::analysis::filter::{Clause, Filter, Term};
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::capture::script::Script;
use pg_wait_tracer::capture::script::scenario::Scenario;
use pg_wait_tracer::store::access::Access;
use pg_wait_tracer::store::dir::{Dir, Options};
use pg_wait_tracer::store::pen::{Pen, Settings};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::{Blind, Block, Builder, Edge, Intervals, Loss, Mark};
use pg_wait_tracer::trace::catalog::{BackendKind, Catalog, EventNames, News, Session};
use pg_wait_tracer::trace::clock::{Clock, Span, Ts, Window};
use pg_wait_tracer::trace::codec::digest::{Made, read_digest, write_digest};
use pg_wait_tracer::trace::codec::frame::{Framed, Frames};
use pg_wait_tracer::trace::codec::kind;
use pg_wait_tracer::trace::digest::{Commands, Digest, Part, Place};
use pg_wait_tracer::trace::health::Health;
use pg_wait_tracer::trace::lengths::Counted;
use pg_wait_tracer::trace::recent::{Batch, Recent};
use pg_wait_tracer::trace::record::{Detail, Fidelity, QueryId, Record, SessionId, State};
use pg_wait_tracer::trace::times::Times;
use pg_wait_tracer::trace::wait::WaitEvent;
use proptest::prelude::*;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const EVENTS: [u32; 7] = [0, 0, 0x0a00_0015, 0x0300_0005, 0x0100_0008, 0x0600_0000, 0x0500_0003];
const STATES: [State; 3] = [State::Active, State::Idle, State::None];
const KINDS: [BackendKind; 4] = [BackendKind::Client, BackendKind::IoWorker, BackendKind::Checkpointer, BackendKind::Unknown];
const BEGIN: u64 = 1_000;
const END: u64 = 2_600;

fn span(a: u64, b: u64) -> Span {
    Span::new(Ts(a.min(b)), Ts(a.max(b)))
}

/// What a session did up to a time: event, state, query, per cent on the CPU, per cent of the rest runnable.
type Did = (u64, usize, usize, i64, u64, u64);
/// A mark: when, whose, which query, whether an end, whether inferred.
type Marked = (u64, usize, i64, bool, bool);

#[derive(Debug, Clone)]
struct Watch {
    span: Span,
    exact: bool,
    did: Vec<Vec<Did>>,
    blind: Vec<(usize, Span)>,
    lost: Vec<(Option<usize>, Span)>,
    marks: Vec<Marked>,
}

/// A tick: since the one before, whether that was a gap, refused readings, and what each session was found in.
type Look = (u64, bool, bool, Vec<Option<(usize, usize, i64)>>);

#[derive(Debug, Clone)]
struct Story {
    looks: Vec<Look>,
    watches: Vec<Watch>,
    seals: Vec<u64>,
}

fn watch(from: u64, to: u64) -> impl Strategy<Value = Option<Watch>> {
    let n = KINDS.len();
    let within = move || (from..to, 0..60u64).prop_map(|(a, len)| span(a, a + len));
    let did = (from..to, 0..EVENTS.len(), 0..STATES.len(), 0..3i64, 0..=100u64, 0..=100u64);
    let did = prop::collection::vec(prop::collection::vec(did, 0..14), n);
    let blind = prop::collection::vec((0..n, within()), 0..3);
    let lost = prop::collection::vec((prop::option::of(0..n), within()), 0..3);
    let marks = prop::collection::vec((from..to, 0..n, 0..3i64, any::<bool>(), any::<bool>()), 0..12);
    let made = (from..to, from..to, any::<bool>(), did, blind, lost, marks).prop_map(|(a, b, exact, did, blind, lost, marks)| {
        let span = span(a, b + 1);
        let blind = blind.into_iter().map(|(who, s)| (who, s.clip(span))).collect();
        let lost = lost.into_iter().map(|(who, s)| (who, s.clip(span))).collect();
        let marks = marks.into_iter().filter(|m| m.0 > span.start.0 && m.0 < span.end.0).collect();
        Watch { span, exact, did, blind, lost, marks }
    });
    prop::option::weighted(0.85, made)
}

fn story() -> impl Strategy<Value = Story> {
    let seen = prop::option::weighted(0.85, (0..EVENTS.len(), 0..STATES.len(), 0..3i64));
    let look = (1..60u64, prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::collection::vec(seen, KINDS.len()));
    let middle = BEGIN + (END - BEGIN) / 2;
    let seals = prop::collection::vec(BEGIN..END, 0..9);
    (prop::collection::vec(look, 1..50), watch(BEGIN, middle), watch(middle + 2, END), seals).prop_map(|(looks, a, b, mut seals)| {
        seals.sort_unstable();
        seals.push(END + 1_000);
        Story { looks, watches: a.into_iter().chain(b).collect(), seals }
    })
}

impl Story {
    fn blocks(&self) -> Vec<Arc<Block>> {
        let mut blocks: Vec<Arc<Block>> = Vec::new();
        let mut builder = Builder::default();
        let (mut at, mut seals) = (BEGIN, self.seals.iter().peekable());
        for (i, (elapsed, gap, unread, seen)) in self.looks.iter().enumerate() {
            at += elapsed;
            while seals.next_if(|s| **s < at).is_some() {
                blocks.extend(builder.seal().map(Arc::new));
            }
            builder.tick(Ts(at), if *gap || i == 0 { 0 } else { *elapsed });
            for (id, seen) in seen.iter().enumerate() {
                if let Some((event, state, query)) = seen {
                    builder.sample(SessionId(id as u32), WaitEvent(EVENTS[*event]), QueryId(*query), STATES[*state]);
                }
            }
            if *unread {
                builder.unread();
            }
        }
        blocks.extend(builder.seal().map(Arc::new));
        for w in &self.watches {
            let mut made = Intervals::default();
            let mut from = w.span.start;
            for to in self.seals.iter().map(|s| Ts(*s)).chain([w.span.end]).filter(|s| *s > w.span.start && *s <= w.span.end) {
                let part = Span::new(from, to);
                made.begin(if w.exact { Fidelity::Exact } else { Fidelity::Blocking });
                made.watched(part);
                for (id, did) in w.did.iter().enumerate() {
                    rows(w, id, did).into_iter().filter(|r| r.span.end > part.start && r.span.end <= part.end).for_each(|r| made.row(r));
                }
                for (id, span) in &w.blind {
                    made.blind(Blind { session: SessionId(*id as u32), span: span.clip(part) });
                }
                for (id, span) in w.lost.iter().filter(|l| l.1.meets(part)) {
                    made.lost(Loss { session: id.map(|id| SessionId(id as u32)), span: span.clip(part), records: 7 });
                }
                for m in w.marks.iter().filter(|m| m.0 > part.start.0 && m.0 <= part.end.0) {
                    let edge = if m.3 { Edge::End } else { Edge::Begin };
                    made.mark(Mark { at: Ts(m.0), session: SessionId(m.1 as u32), query: QueryId(m.2), edge, inferred: m.4 });
                }
                from = to;
                blocks.extend(made.seal().into_iter().map(Arc::new));
            }
        }
        blocks.sort_by_key(|b| b.span().start);
        blocks
    }
}

/// The rows of a session in a watched stretch; some without a length, some in pieces, the last one open.
fn rows(w: &Watch, id: usize, did: &[Did]) -> Vec<Record> {
    let mut did: Vec<Did> = did.iter().copied().filter(|d| d.0 >= w.span.start.0 && d.0 <= w.span.end.0).collect();
    did.sort_unstable();
    let (mut from, mut lead, mut out) = (w.span.start, 0, Vec::new());
    for (i, (at, event, state, query, cpu, runq)) in did.iter().copied().enumerate() {
        let row = Span::new(from, Ts(at));
        from = row.end;
        let open = i + 1 == did.len() || at % 5 == 0;
        let cpu_ns = row.len() * cpu / 100;
        let detail = Detail { cpu_ns, runq_ns: (row.len() - cpu_ns) * runq / 100, lead_ns: lead, open };
        lead = if open { lead + row.len() } else { 0 };
        out.push(Record {
            span: row,
            session: SessionId(id as u32),
            event: WaitEvent(EVENTS[event]),
            query: QueryId(query),
            state: STATES[state],
            samples: 0,
            detail: Some(detail),
        });
    }
    out
}

/// Blocks as they are, and digests of stretches between some borders, some of them added up to longer ones.
struct Digested {
    blocks: Vec<Arc<Block>>,
    digests: Vec<Arc<Digest>>,
    /// Digests that cannot be read: from so many on.
    broken: usize,
    used: Cell<usize>,
    catalog: Catalog,
    health: Health,
}

fn touches(span: Span, window: Span) -> bool {
    span.start <= window.end && span.end > window.start
}

fn scan(blocks: &[Arc<Block>], window: Span, visit: &mut dyn FnMut(&Block)) {
    blocks.iter().filter(|b| touches(b.span(), window)).for_each(|b| visit(b));
}

impl Trace for Digested {
    fn extent(&self) -> Option<Span> {
        Some(Span::new(Ts(BEGIN), Ts(END)))
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
        scan(&self.blocks, window, visit);
    }
    fn scan_back(&self, window: Span, visit: &mut dyn FnMut(&Block) -> ControlFlow<()>) {
        let _ = self.blocks.iter().rev().filter(|b| touches(b.span(), window)).try_for_each(|b| visit(b));
    }
    fn cover(&self, window: Span, longest: u64) -> Vec<Part> {
        let (mut parts, mut from) = (Vec::new(), window.start);
        // Of those that begin at one time the longest is first.
        for (offset, d) in (0..).zip(&self.digests) {
            if d.span.start < from || d.span.end > window.end || d.span.len() > longest {
                continue;
            }
            if d.span.start > from {
                parts.push(Part::Blocks(Span::new(from, d.span.start)));
            }
            parts.push(Part::Digest(Place { span: d.span, part: 0, offset }));
            from = d.span.end;
        }
        if from < window.end || parts.is_empty() {
            parts.push(Part::Blocks(Span::new(from, window.end)));
        }
        parts
    }
    fn digest(&self, place: &Place, lengths: bool) -> Option<Arc<Digest>> {
        let digest = self.digests.get(place.offset as usize).filter(|_| (place.offset as usize) < self.broken)?;
        self.used.set(self.used.get() + 1);
        let mut digest = Digest::clone(digest);
        if !lengths {
            digest.rows.iter_mut().for_each(|r| r.lengths = Counted::default());
            digest.executions.iter_mut().for_each(|e| e.lengths = Counted::default());
        }
        Some(Arc::new(digest))
    }
    fn digest_before(&self, at: Ts) -> Option<Arc<Digest>> {
        self.digests.iter().take(self.broken).filter(|d| d.span.end <= at).max_by_key(|d| d.span.end).cloned()
    }
}

fn digest(blocks: &[Arc<Block>], span: Span, commands: &mut Commands) -> Digest {
    Digest::of(span, commands, |visit| scan(blocks, span, visit))
}

fn news() -> Vec<News> {
    let session = |(i, kind): (usize, &BackendKind)| {
        News::Session(SessionId(i as u32), Box::new(Session { pid: 100 + i as i32, kind: *kind, ..Session::default() }))
    };
    KINDS.iter().enumerate().map(session).chain([News::Events(EventNames::new(18, []))]).collect()
}

fn digested(blocks: &[Arc<Block>], mut borders: Vec<u64>, sums: &[(usize, usize)], broken: usize) -> Digested {
    borders.sort_unstable();
    borders.dedup();
    let mut commands = Commands::default();
    let mut parts = Vec::new();
    let mut from = 0;
    for (i, to) in borders.iter().enumerate() {
        let one = digest(blocks, span(from, *to), &mut commands);
        if i > 0 {
            parts.push(one);
        }
        from = *to;
    }
    let mut digests: Vec<Arc<Digest>> = parts.iter().cloned().map(Arc::new).collect();
    for (first, n) in sums {
        let some: Vec<&Digest> = parts.iter().skip(*first).take(*n).collect();
        if let [first, rest @ ..] = some.as_slice() {
            let mut sum = Digest::clone(first);
            rest.iter().for_each(|d| sum.add(d));
            digests.push(Arc::new(sum));
        }
    }
    digests.sort_by_key(|d| (d.span.start, std::cmp::Reverse(d.span.end)));
    let mut catalog = Catalog::default();
    news().into_iter().for_each(|n| catalog.learn(n));
    Digested { blocks: blocks.to_vec(), digests, broken, used: Cell::new(0), catalog, health: Health::default() }
}

const ASKS: [Ask; 11] = [
    Ask::TimeModel,
    Ask::Events,
    Ask::Sessions,
    Ask::Queries,
    Ask::QueryEvents,
    Ask::Active,
    Ask::Flow,
    Ask::Load { buckets: 1 },
    Ask::Latency { buckets: 1 },
    // Digests will not do for points so short, but they tell what has nothing that passes a filter.
    Ask::Load { buckets: 1_000 },
    Ask::Latency { buckets: 1_000 },
];

fn filters() -> impl Strategy<Value = Filter> {
    let term = prop_oneof![
        (0..KINDS.len() as u32).prop_map(|id| Term::Session(SessionId(id))),
        (0..EVENTS.len()).prop_map(|i| Term::Event(WaitEvent(EVENTS[i]))),
        Just(Term::Event(WaitEvent::OFF_CPU)),
        (0..EVENTS.len()).prop_map(|i| Term::Class(WaitEvent(EVENTS[i]).class())),
        (0..3i64).prop_map(|id| Term::Query(QueryId(id))),
        (0..KINDS.len()).prop_map(|i| Term::Kind(KINDS[i])),
    ];
    let clause = (any::<bool>(), prop::collection::vec(term, 1..3)).prop_map(|(exclude, any)| Clause { exclude, any });
    prop::collection::vec(clause, 0..3).prop_map(|clauses| Filter { clauses })
}

fn ask(trace: &impl Trace, kind: Ask, window: Span, filter: &Filter) -> Answer {
    answer(trace, &Question { filter: filter.clone(), ..Question::new(kind, Window::Fixed(window)) }).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_from_digests_are_answers_from_rows(
        story in story(),
        filter in filters(),
        borders in prop::collection::vec(BEGIN - 50..END + 50, 0..12),
        sums in prop::collection::vec((0..11usize, 2..7usize), 0..4),
        broken in prop_oneof![3 => Just(usize::MAX), 1 => 0..9usize],
        window in (BEGIN - 20..END, 0..1_500u64),
    ) {
        let blocks = story.blocks();
        let window = span(window.0, window.0 + window.1);
        let plain = digested(&blocks, Vec::new(), &[], 0);
        let trace = digested(&blocks, borders, &sums, broken);
        for kind in ASKS {
            prop_assert_eq!(ask(&trace, kind, window, &filter), ask(&plain, kind, window, &filter), "{:?}", kind);
        }
        prop_assert_eq!(plain.used.get(), 0);
    }

    #[test]
    fn digests_that_adjoin_add_up(story in story(), mut at in prop::collection::vec(BEGIN - 20..END + 20, 3)) {
        let blocks = story.blocks();
        at.sort_unstable();
        let begin = |commands: &mut Commands| drop(digest(&blocks, span(0, at[0]), commands));
        let (mut one, mut two) = (Commands::default(), Commands::default());
        begin(&mut one);
        begin(&mut two);
        let whole = digest(&blocks, span(at[0], at[2]), &mut one);
        let mut sum = digest(&blocks, span(at[0], at[1]), &mut two);
        sum.add(&digest(&blocks, span(at[1], at[2]), &mut two));
        prop_assert_eq!(sum, whole);
    }

    #[test]
    fn a_digest_comes_back_from_bytes_and_damage_is_an_error(story in story(), to in BEGIN..END + 50, at in any::<prop::sample::Index>()) {
        let made = Made { groups: 3, sum: u64::MAX };
        let mut commands = Commands::default();
        let mut digest = digest(&story.blocks(), span(BEGIN - 20, to), &mut commands);
        let mut bytes = Vec::new();
        prop_assert!(write_digest(&mut bytes, &digest, made));
        let frames: Vec<Framed<'_>> = Frames(&bytes).collect();
        let none = digest.rows.iter().all(|r| r.lengths.is_empty()) && digest.executions.iter().all(|e| e.lengths.is_empty());
        prop_assert_eq!(frames.len(), if none { 1 } else { 2 });
        digest.lengths = !none;
        let whole = Ok((digest.clone(), made));
        prop_assert_eq!(&read_digest(&frames[0], frames.get(1)), &whole);
        digest.lengths = false;
        digest.rows.iter_mut().for_each(|r| r.lengths = Counted::default());
        digest.executions.iter_mut().for_each(|e| e.lengths = Counted::default());
        prop_assert_eq!(read_digest(&frames[0], None), Ok((digest.clone(), made)));
        let mut wrong = bytes.clone();
        wrong[at.index(bytes.len())] ^= 16;
        let frames: Vec<Framed<'_>> = Frames(&wrong).collect();
        // Sizes are not in the checksum: a wrong one is an error of LZ4's, or changes nothing.
        if let Some(totals) = frames.first() {
            prop_assert!(read_digest(totals, None).is_err() || read_digest(totals, None) == Ok((digest, made)));
            prop_assert!(frames.len() < 2 || read_digest(totals, frames.get(1)).is_err() || whole == read_digest(totals, frames.get(1)));
        }
    }
}

/// The figures of the test above say something: with digests nothing but the edges is read.
#[test]
fn digests_are_used_where_they_will_do() {
    let mut recent = Recent::new(usize::MAX);
    recent.absorb(Batch { news: news(), ..Batch::default() });
    let mut builder = Builder::default();
    for i in 1..=160 {
        builder.tick(Ts(BEGIN + i * 10), 10);
        builder.sample(SessionId(0), WaitEvent(EVENTS[2]), QueryId(1), State::Active);
    }
    let blocks = vec![Arc::new(builder.seal().unwrap())];
    let trace = digested(&blocks, (BEGIN..=END).step_by(10).collect(), &[(0, 80), (80, 80)], usize::MAX);
    let window = Span::new(Ts(BEGIN), Ts(END));
    let read = |kind, points: u16| {
        trace.used.set(0);
        let q = Question { spark: points, ..Question::new(kind, Window::Fixed(window)) };
        let a = answer(&trace, &q).unwrap();
        assert_eq!(a.db_time_ns, END - BEGIN);
        trace.used.get()
    };
    // Once for what was observed, once for what was done.
    assert_eq!(read(Ask::TimeModel, 0), 4);
    assert_eq!(read(Ask::Load { buckets: 20 }, 0), 320);
    assert_eq!(read(Ask::Load { buckets: 21 }, 0), 0);
    assert_eq!(read(Ask::Events, 20), 320);
    assert_eq!(read(Ask::Events, 21), 0);
    // Nothing of this: not a block is opened.
    let nothing = Filter::default().and(Term::Event(WaitEvent(EVENTS[3])));
    let blocks = Digested { blocks: Vec::new(), digests: trace.digests.clone(), ..digested(&[], Vec::new(), &[], usize::MAX) };
    for kind in ASKS {
        assert_eq!(ask(&blocks, kind, window, &nothing).coverage.sampled_ns, if kind == Ask::Flow { 0 } else { END - BEGIN }, "{kind:?}");
    }
}

/// A directory read as if it had no digests.
struct Rows<'a>(&'a Dir);

impl Trace for Rows<'_> {
    fn extent(&self) -> Option<Span> {
        self.0.extent()
    }
    fn catalog(&self) -> &Catalog {
        self.0.catalog()
    }
    fn clock(&self) -> Clock {
        self.0.clock()
    }
    fn health(&self) -> &Health {
        self.0.health()
    }
    fn scan(&self, window: Span, visit: &mut dyn FnMut(&Block)) {
        self.0.scan(window, visit);
    }
    fn scan_back(&self, window: Span, visit: &mut dyn FnMut(&Block) -> ControlFlow<()>) {
        self.0.scan_back(window, visit);
    }
    fn times(&self, at: Ts) -> Option<FxHashMap<SessionId, Times>> {
        self.0.times(at)
    }
}

fn scenario(name: &str) -> Vec<Batch> {
    let mut batches = Script::batches(Scenario::load(Path::new(&format!("tests/scenarios/{name}.toml"))).unwrap()).unwrap();
    batches.iter_mut().for_each(|b| b.clock.wall_ns = b.clock.mono.0 as i64);
    batches
}

fn record(dir: &Path, batches: &[Batch], rotate: usize) {
    let settings = Settings { dir: dir.to_owned(), access: Access::default(), zone: TimeZone::UTC, run: 1_790_000_000_000_000_000 };
    let mut pen = Pen::new(settings).unwrap();
    for (i, two) in batches.chunks(2).enumerate() {
        two.iter().cloned().for_each(|b| pen.absorb(b));
        pen.flush();
        if i == rotate {
            pen.rotate();
        }
    }
    assert_eq!(pen.close().error, None);
}

/// Digests a window is answered from, and how much of it.
fn used(disk: &Dir, window: Span) -> (usize, u64) {
    let digests = disk.cover(window, u64::MAX).into_iter().filter_map(|p| if let Part::Digest(d) = p { Some(d.span.len()) } else { None });
    digests.fold((0, 0), |(n, sum), len| (n + 1, sum + len))
}

fn same(disk: &Dir, window: Span, what: &str) {
    for kind in ASKS {
        for filter in [
            Filter::default(),
            Filter::default().and(Term::Class(WaitEvent(0x0300_0005).class())),
            Filter::default().and(Term::Session(SessionId(2))),
        ] {
            assert_eq!(ask(disk, kind, window, &filter), ask(&Rows(disk), kind, window, &filter), "{what} {kind:?} {window:?}");
        }
    }
}

#[test]
fn a_recording_of_every_scenario_is_answered_the_same_with_digests_and_without() {
    let mut most = 0;
    for entry in fs::read_dir("tests/scenarios").unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
        let batches = scenario(&name);
        let dir = TempDir::new().unwrap();
        record(dir.path(), &batches, if batches.len() > 8 { batches.len() / 4 } else { usize::MAX });
        let mut disk = Dir::open(dir.path(), Options::default()).unwrap();
        let Some(extent) = disk.extent() else { continue };
        disk.narrow(extent);
        let third = extent.len() / 3;
        for window in [extent, Span::new(extent.start + third / 2, extent.end - third + 12_345)] {
            same(&disk, window, &name);
        }
        most = most.max(used(&disk, Span::new(extent.start + third / 2, extent.end - third + 12_345)).0);
        let (n, ns) = used(&disk, extent);
        // The whole recording stands in digests, but for time in which there is nothing.
        let rest: Vec<Span> =
            disk.cover(extent, u64::MAX).into_iter().filter_map(|p| if let Part::Blocks(s) = p { Some(s) } else { None }).collect();
        let mut rows = 0;
        rest.iter().for_each(|s| disk.scan(*s, &mut |b| rows += b.records().filter(|r| r.span.meets(*s)).count()));
        assert!(rows == 0 && (ns > 0 || extent.is_empty()), "{name}: {n} digests of {ns} ns of {extent:?}, {rest:?}");
    }
    assert!(most > 2);
}

fn blocks(disk: &Dir) -> Vec<Block> {
    let mut all = Vec::new();
    disk.scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| all.push(b.clone()));
    all
}

/// Offset, length and kind of each block of a file.
fn frames(bytes: &[u8]) -> Vec<(usize, usize, u16)> {
    let (mut at, mut all) = (28, Vec::new());
    for f in Frames(&bytes[28..]) {
        all.push((at, f.bytes.len(), f.header.kind));
        at += f.bytes.len();
    }
    all
}

#[test]
fn a_damaged_index_or_digest_changes_no_answer() {
    let dir = TempDir::new().unwrap();
    record(dir.path(), &scenario("exact_wins"), usize::MAX);
    let path = dir.path().join("current.trace");
    let good = fs::read(&path).unwrap();
    let open = || {
        let mut disk = Dir::open(dir.path(), Options::default()).unwrap();
        disk.narrow(disk.extent().unwrap());
        disk
    };
    let intact = open();
    let (written, extent) = (blocks(&intact), intact.extent().unwrap());
    let answers: Vec<Answer> = ASKS.iter().map(|a| ask(&intact, *a, extent, &Filter::default())).collect();
    let (whole, _) = used(&intact, extent);
    let frames = frames(&good);
    for kind in [kind::DIGEST, kind::LENGTHS, kind::INDEX, kind::GROUPS] {
        assert!(frames.iter().any(|f| f.2 == kind), "no block of kind {kind}");
    }
    let mut fewer = 0;
    for (at, len, _) in frames.iter().filter(|f| f.2 >= kind::DIGEST) {
        for i in (0..*len).step_by(len / 7 + 1) {
            let mut bytes = good.clone();
            bytes[at + i] ^= 1 << (i % 8);
            fs::write(&path, &bytes).unwrap();
            let disk = open();
            assert_eq!(disk.extent(), Some(extent), "byte {}", at + i);
            for (kind, expected) in ASKS.iter().zip(&answers) {
                assert_eq!(&ask(&disk, *kind, extent, &Filter::default()), expected, "byte {} {kind:?}", at + i);
            }
            assert!(blocks(&disk) == written, "byte {}", at + i);
            fewer += usize::from(used(&disk, extent).0 != whole);
        }
    }
    assert!(fewer > 0);
}

/// What is read of a finished file is its end: a header in its middle may be damaged without being noticed until it is needed.
#[test]
fn a_finished_file_is_opened_by_its_index() {
    let dir = TempDir::new().unwrap();
    record(dir.path(), &scenario("exact_wins"), usize::MAX);
    let path = dir.path().join("current.trace");
    let mut bytes = fs::read(&path).unwrap();
    let frames = frames(&bytes);
    let middle = frames.iter().filter(|f| f.2 == kind::BLOCK).nth(3).unwrap();
    bytes[middle.0 + 28] = 99;
    fs::write(&path, &bytes).unwrap();
    let mut disk = Dir::open(dir.path(), Options::default()).unwrap();
    let extent = disk.extent().unwrap();
    disk.narrow(extent);
    assert!(ask(&disk, Ask::TimeModel, extent, &Filter::default()).db_time_ns > 0);
    assert_eq!(disk.holes(extent), []);
    let left = blocks(&disk).len();
    assert_eq!(disk.holes(extent).len(), 1);
    // Without the index the headers are read.
    let index = frames.iter().find(|f| f.2 == kind::INDEX).unwrap();
    bytes[index.0 + 50] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let disk = Dir::open(dir.path(), Options::default()).unwrap();
    assert!(blocks(&disk).len() <= left && !disk.holes(extent).is_empty());
}

/// A block that comes when its stretch was digested makes those digests void, and no others.
#[test]
fn what_comes_late_is_not_missing() {
    const QUARTER: u64 = 250_000_000;
    let quarter = |i: u64| {
        let mut b = Builder::default();
        for tick in 1..=5 {
            b.tick(Ts(BEGIN + i * QUARTER + tick * QUARTER / 5), QUARTER / 5);
            (0..3)
                .for_each(|id| b.sample(SessionId(id), WaitEvent(EVENTS[2 + (i as usize / 3) % 4]), QueryId(i as i64 % 3), State::Active));
        }
        let clock = Clock { mono: Ts(BEGIN + (i + 1) * QUARTER), wall_ns: (BEGIN + (i + 1) * QUARTER) as i64 };
        Batch { block: b.seal().map(Arc::new), clock, news: if i == 0 { news() } else { Vec::new() }, ..Batch::default() }
    };
    let all = Span::new(Ts(BEGIN), Ts(BEGIN + 400 * QUARTER));
    let late = (0..400).filter(|i| *i != 101).chain([101]);
    for (order, voids) in [((0..400).collect::<Vec<u64>>(), false), (late.collect(), true)] {
        let dir = TempDir::new().unwrap();
        let settings = Settings { dir: dir.path().to_owned(), access: Access::default(), zone: TimeZone::UTC, run: 1 };
        let mut pen = Pen::new(settings).unwrap();
        for i in order {
            pen.absorb(quarter(i));
            pen.flush();
        }
        assert_eq!(pen.close().error, None);
        let mut disk = Dir::open(dir.path(), Options::default()).unwrap();
        disk.narrow(all);
        same(&disk, all, "late");
        assert_eq!(ask(&disk, Ask::TimeModel, all, &Filter::default()).coverage.sampled_ns, all.len());
        let blocks: u64 = disk.cover(all, u64::MAX).iter().filter_map(|p| if let Part::Blocks(s) = p { Some(s.len()) } else { None }).sum();
        // It touches one stretch of two seconds, or two.
        assert!(if voids { (1..=4_000_000_000).contains(&blocks) } else { blocks == 0 }, "{blocks}");
    }
}
