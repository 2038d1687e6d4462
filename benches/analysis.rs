//! How long answers take: a thousand sessions at 100 ticks a second for five minutes, fifty of them busy, as merged blocks.
//! `cargo bench --bench analysis [-- PART OF A NAME]`; prints milliseconds, the best of several runs.

#![allow(missing_docs, clippy::unwrap_used)]

use pg_wait_tracer::analysis;
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::Builder;
use pg_wait_tracer::trace::catalog::{BackendKind, News, Session};
use pg_wait_tracer::trace::clock::{SECOND, Ts, Window};
use pg_wait_tracer::trace::recent::{Batch, Recent};
use pg_wait_tracer::trace::record::{QueryId, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SESSIONS: u32 = 1_000;
const BUSY: u32 = 50;
const SECONDS: u64 = 300;
const EVENTS: [u32; 6] = [0, 0, 0x0a00_0015, 0x0100_0008, 0x0300_0005, 0x0a00_004e];

/// A small generator of numbers, the same in each run.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn record() -> (Recent, Duration, usize) {
    let mut recent = Recent::new(usize::MAX);
    let session = |i| {
        let s = Session { pid: 1_000 + i as i32, kind: BackendKind::Client, ..Session::default() };
        News::Session(SessionId(i), Box::new(s))
    };
    recent.absorb(Batch { news: (0..SESSIONS).map(session).collect(), ..Batch::default() });
    let (mut builder, mut seed, mut at) = (Builder::default(), 88_172_645_463_325_252, Ts(1_000 * SECOND));
    let mut now = vec![(WaitEvent::CLIENT_READ, QueryId(1), State::Idle); SESSIONS as usize];
    let (mut slowest, mut rows) = (Duration::ZERO, 0);
    for tick in 0..SECONDS * 100 {
        at = at + SECOND / 100;
        builder.tick(at, SECOND / 100);
        for (i, state) in now.iter_mut().enumerate() {
            // The busy ones change about every third tick, the others about once a minute.
            let often = if i < BUSY as usize { 3 } else { 6_000 };
            if random(&mut seed).is_multiple_of(often) {
                let r = random(&mut seed);
                let event = WaitEvent(EVENTS.get(r as usize % EVENTS.len()).copied().unwrap_or_default());
                let (event, now) = if i < BUSY as usize { (event, State::Active) } else { (WaitEvent::CLIENT_READ, State::Idle) };
                *state = (event, QueryId((r >> 8) as i64 % 200), now);
            }
            builder.sample(SessionId(i as u32), state.0, state.1, state.2);
        }
        if tick % 25 == 24 {
            let block = builder.seal().map(Arc::new);
            let begin = Instant::now();
            recent.absorb(Batch { block, ..Batch::default() });
            slowest = slowest.max(begin.elapsed());
        }
    }
    recent.scan(recent.extent().unwrap_or_default(), &mut |b| rows += b.len());
    (recent, slowest, rows)
}

fn main() {
    let (recent, slowest, rows) = record();
    println!("{rows} rows, {:.1} MB, slowest absorb {:.1} ms", recent.bytes() as f64 / 1e6, slowest.as_secs_f64() * 1e3);
    let asks = [
        ("load", Ask::Load { buckets: 200 }, 0),
        ("time model", Ask::TimeModel, 0),
        ("time model, sparks", Ask::TimeModel, 40),
        ("events, sparks", Ask::Events, 40),
        ("sessions, sparks", Ask::Sessions, 40),
        ("queries, sparks", Ask::Queries, 40),
        ("pairs", Ask::QueryEvents, 0),
        ("active", Ask::Active, 0),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    for length in [10, SECONDS] {
        for (name, ask, spark) in asks.iter().copied().filter(|(name, _, _)| wanted.iter().all(|w| name.contains(w))) {
            let question = Question { spark, limit: 50, ..Question::new(ask, Window::Follow(length * SECOND)) };
            let time = |_| {
                let begin = Instant::now();
                let answer = analysis::answer(&recent, &question);
                assert!(answer.is_ok_and(|a| a.total_rows > 0));
                begin.elapsed()
            };
            let best = (0..60).map(time).min().unwrap_or_default();
            println!("{length:>4} s  {name:<20} {:>8.2} ms", best.as_secs_f64() * 1e3);
        }
    }
}
