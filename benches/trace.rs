//! What a recording costs: bytes per transition, how fast it is written, and how fast a question is answered from a cold file.
//!
//! `cargo bench --bench trace [TRANSITIONS]`, 10 million when not said.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a program for developers"
)]

use jiff::tz::TimeZone;
use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::store::access::Access;
use pg_wait_tracer::store::dir::{Dir, Options};
use pg_wait_tracer::store::pen::{Pen, Settings};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::Intervals;
use pg_wait_tracer::trace::catalog::{BackendKind, News, Session};
use pg_wait_tracer::trace::clock::{Clock, SECOND, Span, Ts, Window};
use pg_wait_tracer::trace::recent::Batch;
use pg_wait_tracer::trace::record::{Detail, Fidelity, QueryId, Record, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

const SESSIONS: u32 = 32;

fn main() {
    let total: u64 = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(10_000_000);
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { dir: dir.path().to_owned(), access: Access::default(), zone: TimeZone::UTC, run: 1 };
    let mut pen = Pen::new(settings).unwrap();
    let mut made = Intervals::default();
    made.begin(Fidelity::Exact);
    let session = |id| Session { pid: 4_000 + id as i32, kind: BackendKind::Client, ..Session::default() };
    let mut news: Vec<News> = (0..SESSIONS).map(|id| News::Session(SessionId(id), Box::new(session(id)))).collect();
    let mut at = vec![1_000 * SECOND; SESSIONS as usize];
    let (mut seed, mut rows, mut sealed) = (1u64, 0, 1_000 * SECOND);
    let mut random = move |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % n
    };
    let mut writing = std::time::Duration::ZERO;
    while rows < total {
        let until = sealed + SECOND / 2;
        for id in 0..SESSIONS {
            let now = &mut at[id as usize];
            let mut wait = false;
            while *now < until {
                let event = if wait { [0x0600_0000, 0x0a00_0015, 0x0100_0008, 0x0300_0005][random(4) as usize] } else { 0 };
                let length = 20_000 + random(500_000);
                let detail = Detail {
                    cpu_ns: if wait { random(3_000) } else { length - random(9_000) },
                    runq_ns: random(5_000),
                    ..Detail::default()
                };
                made.row(Record {
                    span: Span::new(Ts(*now), Ts(*now + length)),
                    session: SessionId(id),
                    event: WaitEvent(event),
                    query: QueryId(7_777_777_777_777 * (1 + random(8) as i64)),
                    state: State::Active,
                    samples: 0,
                    detail: Some(detail),
                });
                *now += length;
                wait = !wait;
                rows += 1;
            }
        }
        made.watched(Span::new(Ts(sealed), Ts(until)));
        sealed = until;
        let intervals = made.seal().into_iter().map(Arc::new).collect();
        let clock = Clock { mono: Ts(until), wall_ns: 1_790_000_000 * SECOND as i64 + (until - 1_000 * SECOND) as i64 };
        let began = Instant::now();
        pen.absorb(Batch { intervals, news: std::mem::take(&mut news), clock, ..Batch::default() });
        pen.flush();
        writing += began.elapsed();
    }
    let status = pen.close();
    assert_eq!(status.error, None);
    let bytes: u64 = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    println!("{rows} transitions of {SESSIONS} sessions over {} s", (sealed - 1_000 * SECOND) / SECOND);
    println!("size   {:.2} bytes per transition (times random: hardly compressible)", bytes as f64 / rows as f64);
    println!("write  {:.2} million transitions per second", rows as f64 / writing.as_secs_f64() / 1e6);
    let began = Instant::now();
    let disk = Dir::open(dir.path(), Options::default()).unwrap();
    println!("open   {:.2} ms", began.elapsed().as_secs_f64() * 1e3);
    let began = Instant::now();
    let mut seen = 0;
    disk.scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| seen += b.len() as u64);
    assert_eq!(seen, rows);
    println!("scan   {:.2} s cold, every row decoded", began.elapsed().as_secs_f64());
    let extent = disk.extent().unwrap();
    for ask in [Ask::TimeModel, Ask::Events, Ask::Load { buckets: 200 }] {
        let began = Instant::now();
        answer(&disk, &Question::new(ask, Window::Fixed(extent))).unwrap();
        println!("ask    {:.2} s {ask:?}", began.elapsed().as_secs_f64());
    }
}
