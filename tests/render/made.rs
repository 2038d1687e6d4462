//! Hand-made answers with figures that only exact and blocking capture can tell.

use pg_wait_tracer::analysis::answer::{
    ActiveRow, Answer, Body, Coverage, Doing, EventRow, Executions, Flow, FlowLink, FlowNode, Latency, LatencyBar, LatencyColumn,
    LatencyView, Load, LoadBucket, Measured, ModelKey, ModelRow, PairRow, QueryRow, SessionRow, Share, Sql, Stretch, TimeModel, Who,
};
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::capture::script::{START, START_WALL};
use pg_wait_tracer::trace::catalog::{BackendKind, Named, Server, TextSource};
use pg_wait_tracer::trace::clock::{Clock, SECOND, Span, Window};
use pg_wait_tracer::trace::health::{Health, Link, WindowHealth};
use pg_wait_tracer::trace::marker::{Kind, Marker, Reason};
use pg_wait_tracer::trace::record::{Fidelity, QueryId, SessionId, State};
use pg_wait_tracer::trace::wait::{WaitClass, WaitEvent};
use std::sync::Arc;

const MS: u64 = 1_000_000;
const READ: WaitEvent = WaitEvent(0x0a00_0015);
const TUPLE: WaitEvent = WaitEvent(0x0300_0004);
const WAL: WaitEvent = WaitEvent(0x0100_0007);
const MAIN: WaitEvent = WaitEvent(0x0500_0001);

/// How the window was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Sampled,
    Blocking,
    Exact,
    Mixed,
    /// Two exact stretches, a blocking one, and a gap.
    Patches,
}

/// The answer to a question; windows end 60 s after the beginning.
pub fn answer(seen: Seen, question: &Question) -> Answer {
    let end = START + 60 * SECOND;
    let window = match question.window {
        Window::Fixed(span) => span,
        Window::Follow(ns) => Span::new(end - ns, end),
    };
    let precise = seen != Seen::Sampled;
    Answer {
        window,
        extent: Some(Span::new(START, end)),
        clock: Clock { mono: START, wall_ns: START_WALL },
        coverage: coverage(seen, window),
        server: Arc::new(Server { major: 18, version: "18.4".into(), host: "db1".into(), port: 5432, cpus: 8, ..Server::default() }),
        health: Health { link: Link::Attached, window: health(seen), ..Health::default() },
        db_time_ns: 10_000 * MS,
        idle_ns: 2_000 * MS,
        sessions: 3,
        total_rows: 3,
        body: body(question.ask, precise),
    }
}

fn coverage(seen: Seen, window: Span) -> Coverage {
    let at = |tenths: u64| window.start + window.len() / 10 * tenths;
    let stretch = |from, to, fidelity| Stretch { span: Span::new(at(from), at(to)), fidelity };
    let (fidelity, precise, gaps) = match seen {
        Seen::Sampled => (Fidelity::Sampled, vec![], vec![]),
        Seen::Blocking => (Fidelity::Blocking, vec![stretch(0, 10, Fidelity::Blocking)], vec![]),
        Seen::Exact => (Fidelity::Exact, vec![stretch(0, 10, Fidelity::Exact)], vec![]),
        Seen::Mixed => (Fidelity::Mixed, vec![stretch(2, 6, Fidelity::Exact)], vec![]),
        Seen::Patches => {
            let stretches = [(1, 2, Fidelity::Exact), (4, 5, Fidelity::Exact), (7, 9, Fidelity::Blocking)];
            (Fidelity::Mixed, stretches.map(|(from, to, f)| stretch(from, to, f)).to_vec(), vec![Span::new(at(9), at(10))])
        }
    };
    let of = |f: Fidelity| precise.iter().filter(|s| s.fidelity == f).map(|s| s.span.len()).sum::<u64>();
    let (exact_ns, blocking_ns, gap_ns) = (of(Fidelity::Exact), of(Fidelity::Blocking), gaps.iter().map(|g| g.len()).sum());
    Coverage {
        fidelity,
        exact_ns,
        blocking_ns,
        sampled_ns: window.len() - exact_ns - blocking_ns - gap_ns,
        gap_ns,
        gaps,
        ticks: 500,
        unread: 0,
        precise,
        lost_records: if seen == Seen::Mixed { 12 } else { 0 },
        unfollowed_ns: if seen == Seen::Mixed { 1_200 * MS } else { 0 },
    }
}

fn health(seen: Seen) -> Option<WindowHealth> {
    let open = WindowHealth {
        tier: Fidelity::Exact,
        open: true,
        price_ns: 312,
        events_per_s: 12_345,
        overhead_pct: 0.385,
        max_overhead_pct: 25.0,
        armed: 3,
        ..WindowHealth::default()
    };
    match seen {
        Seen::Sampled => None,
        Seen::Exact => Some(open),
        Seen::Blocking => Some(WindowHealth { tier: Fidelity::Blocking, unarmed: 2, unarmed_why: "no descriptors left".into(), ..open }),
        Seen::Mixed | Seen::Patches => {
            let reason = "it cost the server 31.0 % of one core, above --max-overhead".into();
            Some(WindowHealth { open: false, reason, ..open })
        }
    }
}

fn marker() -> Marker {
    let detail = "load 10.0, usually 2.0".into();
    let at = START + 30 * SECOND;
    Marker { at, kind: Kind::Opened, reason: Reason::Anomaly, tier: Fidelity::Exact, detail, granted: true, seconds: Some(60) }
}

fn body(ask: Ask, precise: bool) -> Body {
    match ask {
        Ask::Load { .. } => {
            let mut bucket = LoadBucket { observed: 1.0, ..LoadBucket::default() };
            bucket.aas[WaitClass::Cpu.index()] = 0.8;
            bucket.aas[WaitClass::OffCpu.index()] = 0.1;
            Body::Load(Load { bucket_ns: 5e9, buckets: vec![bucket], max_aas: 0.9, markers: vec![marker()] })
        }
        Ask::TimeModel => Body::TimeModel(model(precise)),
        Ask::Events => Body::Events { events: events(precise) },
        Ask::Sessions => Body::Sessions { sessions: sessions(precise) },
        Ask::Queries => Body::Queries { queries: queries(precise) },
        Ask::QueryEvents => Body::QueryEvents { pairs: pairs(precise) },
        Ask::Active => Body::Active { active: vec![active()], at: Some(START + 60 * SECOND) },
        Ask::Latency { .. } => Body::Latency(if precise { latency_view() } else { LatencyView::default() }),
        Ask::Flow => Body::Flow(if precise { flow() } else { Flow::default() }),
    }
}

fn model(precise: bool) -> TimeModel {
    let row = |key, name: &str, depth, ms: u64| ModelRow {
        key,
        name: name.into(),
        depth,
        time_ns: ms * MS,
        db_share: (!matches!(key, ModelKey::Idle)).then_some(ms as f64 / 1e4),
        aas: ms as f64 / 5e3,
        spark: Vec::new(),
    };
    let mut rows = vec![
        row(ModelKey::DbTime, "DB Time", 0, 10_000),
        row(ModelKey::Class(WaitClass::Cpu), "CPU*", 1, if precise { 4_000 } else { 4_500 }),
        row(ModelKey::Class(WaitClass::OffCpu), "Off-CPU*", 1, 500),
        row(ModelKey::Class(WaitClass::Io), "IO", 1, 3_000),
        row(ModelKey::Event(READ), "IO:DataFileRead", 2, 3_000),
        row(ModelKey::Class(WaitClass::Lock), "Lock", 1, 2_000),
        row(ModelKey::Event(TUPLE), "Lock:tuple", 2, 2_000),
        row(ModelKey::Class(WaitClass::LwLock), "LWLock", 1, 500),
        row(ModelKey::Event(WAL), "LWLock:WALInsert", 2, 500),
        row(ModelKey::Idle, "Idle", 0, 2_000),
    ];
    if !precise {
        rows.remove(2);
    }
    let waits = precise.then_some(Measured { time_ns: 5_500 * MS, cpu_ns: 620 * MS, runq_ns: 40 * MS });
    TimeModel { rows, waits, io_worker_busy: None, io_workers: 0 }
}

fn latency(us: [u64; 5]) -> Latency {
    let [avg_ns, p50_ns, p95_ns, p99_ns, max_ns] = us.map(|us| us * 1_000);
    Latency { avg_ns, p50_ns, p95_ns, p99_ns, max_ns }
}

fn measured(time_ms: u64, cpu_ms: u64, runq_ms: u64) -> Measured {
    Measured { time_ns: time_ms * MS, cpu_ns: cpu_ms * MS, runq_ns: runq_ms * MS }
}

fn events(precise: bool) -> Vec<EventRow> {
    let row = |event: WaitEvent, name: &str, waits: u64, ms: u64, us: [u64; 5], m: Measured| EventRow {
        event,
        name: name.into(),
        class: event.class(),
        idle: event.class() == WaitClass::Activity,
        waits: precise.then_some(waits),
        samples: 20,
        time_ns: ms * MS,
        latency: precise.then(|| latency(us)),
        measured: precise.then_some(m),
        db_share: (event.class() != WaitClass::Activity).then_some(ms as f64 / 1e4),
        aas: ms as f64 / 5e3,
        sessions: 2,
        spark: Vec::new(),
    };
    let mut rows = vec![
        row(WaitEvent::CPU, "CPU*", 9_000, 4_000, [444, 300, 1_200, 4_000, 9_000], measured(4_000, 4_000, 0)),
        row(READ, "IO:DataFileRead", 8_000, 3_000, [375, 210, 900, 2_500, 18_000], measured(3_000, 600, 30)),
        row(TUPLE, "Lock:tuple", 4, 2_000, [500_000, 400_000, 1_100_000, 1_100_000, 1_100_000], measured(2_000, 0, 1)),
        row(WaitEvent::OFF_CPU, "Off-CPU*", 0, 500, [0; 5], measured(500, 0, 400)),
        // Seen by samples only, in the part of the window that was not exact.
        EventRow { waits: None, latency: None, measured: None, ..row(WAL, "LWLock:WALInsert", 0, 500, [0; 5], measured(0, 0, 0)) },
        row(MAIN, "Activity:CheckpointerMain", 3, 2_000, [700_000; 5], measured(2_000, 0, 0)),
    ];
    // No length of a wait: it is a remainder.
    rows[3].latency = None;
    if !precise {
        rows.remove(3);
    }
    rows
}

fn who(pid: i32, kind: BackendKind) -> Who {
    let named = |name: &str| Named { oid: 16_384, name: (kind == BackendKind::Client).then(|| name.into()) };
    Who { session: SessionId(pid as u32), pid, server_pid: pid, kind, user: named("app"), database: named("shop"), ..Who::default() }
}

fn sessions(precise: bool) -> Vec<SessionRow> {
    let top = |event, name: &str, ms: u64| Some(Share { event, name: name.into(), time_ns: ms * MS });
    let row = |pid, ms: u64, measured| {
        let mut classes = [0; WaitClass::ALL.len()];
        classes[WaitClass::Cpu.index()] = ms * MS / 2;
        classes[WaitClass::OffCpu.index()] = ms * MS / 20;
        classes[WaitClass::Io.index()] = ms * MS / 20 * 9;
        SessionRow {
            who: who(pid, BackendKind::Client),
            time_ns: ms * MS,
            idle_ns: 0,
            cpu_share: Some(0.55),
            wait_share: Some(0.45),
            db_share: Some(ms as f64 / 1e4),
            aas: ms as f64 / 5e3,
            top: top(WaitEvent::CPU, "CPU*", ms / 2),
            top_wait: top(READ, "IO:DataFileRead", ms / 20 * 9),
            classes,
            query: QueryId(42),
            waits: precise.then_some(7_001),
            measured,
            spark: Vec::new(),
        }
    };
    // The second was not followed: samples stand in.
    let followed = precise.then(|| measured(6_000, 3_000, 60));
    vec![row(4_711, 6_000, followed), SessionRow { waits: None, ..row(4_712, 4_000, None) }]
}

fn sql(id: i64, text: &str) -> Sql {
    Sql { query: QueryId(id), text: text.into(), truncated: false, source: TextSource::default() }
}

fn queries(precise: bool) -> Vec<QueryRow> {
    let row = |sql: Sql, ms: u64, executions| QueryRow {
        sql,
        time_ns: ms * MS,
        db_share: Some(ms as f64 / 1e4),
        aas: ms as f64 / 5e3,
        samples: 20,
        sessions: 1,
        waits: precise.then_some(8_000),
        executions,
        database: Named { oid: 5, name: Some("shop".into()) },
        user: Named { oid: 10, name: Some("app".into()) },
        classes: [0; WaitClass::ALL.len()],
        top: None,
        spark: Vec::new(),
    };
    let some = |count, whole, latency| precise.then_some(Executions { count, whole, latency, inferred: 1 });
    vec![
        row(sql(42, "SELECT sum(amount)\n  FROM sales"), 7_000, some(120, 119, Some(latency([60_000, 58_000, 90_000, 99_000, 99_500])))),
        // Began before it was watched.
        row(sql(-7, "UPDATE accounts SET balance = 0"), 2_000, some(1, 0, None)),
        row(sql(0, ""), 1_000, None),
    ]
}

fn pairs(precise: bool) -> Vec<PairRow> {
    let row = |sql: Sql, event, name: &str, ms: u64, us| PairRow {
        sql,
        event,
        name: name.into(),
        waits: precise.then_some(8_000),
        samples: 20,
        time_ns: ms * MS,
        latency: precise.then(|| latency(us)),
        db_share: Some(ms as f64 / 1e4),
    };
    vec![
        row(sql(42, "SELECT sum(amount)\n  FROM sales"), READ, "IO:DataFileRead", 3_000, [375, 210, 900, 2_500, 18_000]),
        row(sql(-7, "UPDATE accounts SET balance = 0"), TUPLE, "Lock:tuple", 2_000, [500_000; 5]),
    ]
}

fn active() -> ActiveRow {
    ActiveRow {
        who: who(4_711, BackendKind::Client),
        doing: Doing::Waiting,
        state: State::Active,
        event: READ,
        name: "IO:DataFileRead".into(),
        for_ns: 2 * MS,
        for_at_least: false,
        time_ns: 4_000 * MS,
        sql: sql(42, "SELECT sum(amount)\n  FROM sales"),
        query_start: 0,
        xact_start: 0,
        state_change: 0,
    }
}

/// Waits up to 100 ms: two bars beyond the original's sixteen.
fn latency_view() -> LatencyView {
    let waits = [0, 3, 12, 40, 100, 200, 1_000, 3_000, 2_500, 900, 200, 30, 10, 3, 1, 0, 0, 1];
    let bar = |(i, waits): (usize, &u64)| LatencyBar {
        from_ns: if i == 0 { 0 } else { 1_000 << (i - 1) },
        to_ns: 1_000 << i,
        waits: *waits,
        time_ns: waits * (1_500 << i) / 2,
    };
    let bars: Vec<LatencyBar> = waits.iter().enumerate().map(bar).collect();
    let mut late = vec![0; bars.len()];
    (late[7], late[17]) = (40, 1);
    let column = |observed, waits| LatencyColumn { observed, waits };
    LatencyView {
        waits: waits.iter().sum(),
        time_ns: bars.iter().map(|b| b.time_ns).sum(),
        latency: Some(latency([172, 130, 640, 2_200, 98_000])),
        bars,
        column_ns: 1.25e9,
        columns: vec![column(0.0, vec![]), column(1.0, late), column(0.6, vec![]), column(0.0, vec![])],
    }
}

fn flow() -> Flow {
    let node =
        |event: WaitEvent, name: &str, count, ms: u64| FlowNode { event, name: name.into(), class: event.class(), count, time_ns: ms * MS };
    let link = |from, to, count, ms: u64| FlowLink { from, to, count, time_ns: ms * MS };
    Flow {
        transitions: 16_200,
        nodes: vec![
            node(WaitEvent::CPU, "CPU*", 8_100, 4_000),
            node(READ, "IO:DataFileRead", 8_000, 3_000),
            node(TUPLE, "Lock:tuple", 100, 2_000),
        ],
        links: vec![
            link(WaitEvent::CPU, READ, 8_000, 3_900),
            link(READ, WaitEvent::CPU, 7_999, 2_999),
            link(WaitEvent::CPU, TUPLE, 100, 100),
            link(TUPLE, WaitEvent::CPU, 100, 2_000),
            link(READ, TUPLE, 1, 1),
        ],
    }
}
