//! What every session was doing at a past instant: each moment of a recording, against what was true then.

use super::{ask, open, settings};
use pg_wait_tracer::analysis::answer::{ActiveRow, Body};
use pg_wait_tracer::analysis::question::Ask;
use pg_wait_tracer::store::pen::{Pen, Settings};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::Builder;
use pg_wait_tracer::trace::catalog::{Activity, News, Query, Session};
use pg_wait_tracer::trace::clock::{Clock, MILLI, SECOND, Span, Ts};
use pg_wait_tracer::trace::recent::Batch;
use pg_wait_tracer::trace::record::{QueryId, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Where the hour ends in the middle of the story.
const BEGINS: u64 = 1_790_000_000 * SECOND;
const TICK: u64 = 10 * MILLI;
const SESSIONS: u32 = 8;

/// A command of a session: its own number, when it began and ended (µs since 1970), and its transaction.
#[derive(Debug, Clone, Copy)]
struct Command {
    query: i64,
    from: i64,
    to: i64,
    xact: i64,
}

fn random(x: &mut u64) -> u64 {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    *x
}

/// Commands of one session, with times between them: some of microseconds, some of many seconds; transactions of several.
fn story(session: u32, length: u64) -> Vec<Command> {
    let mut x = 0x9e37_79b9_7f4a_7c15 ^ (u64::from(session) << 32);
    let (mut at, end) = ((BEGINS / 1_000) as i64, ((BEGINS + length) / 1_000) as i64);
    let mut xact = at;
    let mut out = Vec::new();
    while at < end {
        let scale = [300, 20_000, 400_000, 3_000_000, 25_000_000][(random(&mut x) % 5) as usize];
        let from = at + 1 + (random(&mut x) % 40_000) as i64;
        let to = from + 1 + (random(&mut x) % scale) as i64;
        if random(&mut x).is_multiple_of(3) {
            xact = from;
        }
        out.push(Command { query: (random(&mut x) % 5) as i64 + 1, from, to, xact });
        at = to;
    }
    out
}

/// What a session said of itself at an instant, µs.
fn truth(story: &[Command], at: i64) -> Option<(State, Activity)> {
    let last = story.iter().rev().find(|c| c.from <= at)?;
    let runs = at < last.to;
    let goes_on = story.iter().find(|c| c.from > at).is_some_and(|next| next.xact == last.xact);
    let activity = Activity {
        text: format!("SELECT {} FROM t WHERE began = {}", last.query, last.from).into(),
        query_start: last.from,
        xact_start: if runs || goes_on { last.xact } else { 0 },
        state_change: if runs { last.from } else { last.to },
        query: QueryId(last.query),
        ..Activity::default()
    };
    Some((
        if runs {
            State::Active
        } else if goes_on {
            State::IdleInTransaction
        } else {
            State::Idle
        },
        activity,
    ))
}

/// What a sampler hands over, a batch each quarter of a second; sessions are looked at right behind its last tick.
fn batches(stories: &BTreeMap<u32, Vec<Command>>, length: u64) -> Vec<Batch> {
    let clock = |at: u64| Clock { mono: Ts(at), wall_ns: at as i64 };
    let mut told: BTreeMap<u32, Activity> = BTreeMap::new();
    let mut out = Vec::new();
    for first in (BEGINS..BEGINS + length).step_by((25 * TICK) as usize) {
        let mut b = Builder::default();
        let mut news = Vec::new();
        if out.is_empty() {
            news.extend(
                (0..SESSIONS)
                    .map(|s| News::Session(SessionId(s), Box::new(Session { pid: 50 + s as i32, started: 7, ..Session::default() }))),
            );
            let text = |q: i64| Query { text: format!("SELECT {q} FROM t WHERE began = 1").into(), ..Query::default() };
            news.extend((1..=5).map(|q| News::Query(QueryId(q), text(q))));
        }
        let last = first + 25 * TICK;
        for at in (first + TICK..=last).step_by(TICK as usize) {
            b.tick(Ts(at), TICK);
            for (s, story) in stories {
                let Some((state, a)) = truth(story, (at / 1_000) as i64) else { continue };
                b.sample(SessionId(*s), if state.in_command() { WaitEvent(0x0300_0005) } else { WaitEvent::CLIENT_READ }, a.query, state);
            }
        }
        for (s, story) in stories {
            let now = truth(story, (last / 1_000) as i64).map(|t| t.1).unwrap_or_default();
            if told.insert(*s, now.clone()).as_ref() != Some(&now) {
                news.push(News::Activity(SessionId(*s), now));
            }
        }
        out.push(Batch { block: b.seal().map(Arc::new), news, clock: clock(last), ..Batch::default() });
    }
    out
}

/// Everybody at an instant, by process id.
fn active(trace: &impl Trace, at: u64) -> BTreeMap<i32, ActiveRow> {
    let Body::Active { active, .. } = ask(trace, Ask::Active, Span::new(Ts(at - SECOND), Ts(at))).body else { panic!() };
    active.into_iter().map(|r| (r.who.pid, r)).collect()
}

/// Looks at many instants: nothing is told that was not so, and what had lasted for two seconds and went on for half of one is told. Gives back how many times were told and how many there were.
fn check(dir: &Path, stories: &BTreeMap<u32, Vec<Command>>, length: u64) -> (usize, usize) {
    let mut disk = open(dir);
    let (mut known, mut all) = (0, 0);
    let mut x = 77;
    for _ in 0..400 {
        let at = BEGINS + 2 * SECOND + random(&mut x) % ((length - 2 * SECOND) / TICK) * TICK;
        disk.narrow(Span::new(Ts(at - SECOND), Ts(at)));
        let seen = active(&disk, at);
        let wall = (at / 1_000) as i64;
        for (s, story) in stories {
            let (Some((state, truth)), Some((_, later))) = (truth(story, wall), truth(story, wall + 500_000)) else { continue };
            let row = &seen[&(50 + *s as i32)];
            assert_eq!((row.state, row.sql.query), (state, truth.query), "session {s} at {wall}");
            let times = [
                ("query_start", row.query_start, truth.query_start),
                ("xact_start", row.xact_start, truth.xact_start),
                ("state_change", row.state_change, truth.state_change),
            ];
            for (what, shown, true_then) in times {
                assert!(shown == 0 || shown == true_then, "session {s} at {wall}: {what} {shown}, but it was {true_then}");
                let stood = truth.state_change.max(truth.query_start);
                let stays = wall - stood > 2_000_000 && later == truth;
                assert!(shown == true_then || !stays, "session {s} at {wall}: {what} is not told, and stood since {stood}");
                all += 1;
                known += usize::from(shown == true_then);
            }
            let by_id = format!("SELECT {} FROM t WHERE began = 1", truth.query);
            assert!(row.sql.text == truth.text || *row.sql.text == *by_id, "session {s} at {wall}: {}", row.sql.text);
            let lasts = truth.xact_start != 0 && wall - truth.state_change > 4_000_000 && later == truth;
            assert!(!lasts || row.sql.text == truth.text, "session {s} at {wall}: a long command has its own text, not {}", row.sql.text);
        }
    }
    (known, all)
}

#[test]
fn at_each_past_instant_nothing_is_told_that_was_not_so() {
    let length = 200 * SECOND;
    let stories: BTreeMap<u32, Vec<Command>> = (0..SESSIONS).map(|s| (s, story(s, length))).collect();
    let batches = batches(&stories, length);
    let dir = TempDir::new().unwrap();
    // A new file by hand a while in, another recorder later.
    let (first, second) = batches.split_at(batches.len() * 2 / 3);
    let mut pen = Pen::new(settings(dir.path())).unwrap();
    for (n, batch) in first.iter().enumerate() {
        pen.absorb(batch.clone());
        // Not always in time.
        if n % 5 != 3 {
            pen.flush();
        }
        if n == first.len() / 3 {
            pen.rotate();
        }
    }
    pen.close();
    let run = settings(dir.path()).run + SECOND;
    let mut pen = Pen::new(Settings { run, ..settings(dir.path()) }).unwrap();
    let mut begins = batches[0].clone();
    begins.block = None;
    // Numbers of sessions begin anew; here they stay as they are, and so do names.
    begins.news.extend(first.iter().flat_map(|b| b.news.iter().filter(|n| matches!(n, News::Activity(..))).cloned()));
    begins.clock = first[first.len() - 1].clock;
    pen.absorb(begins);
    for batch in second {
        pen.absorb(batch.clone());
        pen.flush();
    }
    let growing = check(dir.path(), &stories, length);
    pen.close();
    let (known, all) = check(dir.path(), &stories, length);
    assert_eq!(growing, (known, all), "finished or growing, it says the same");
    // Commands of up to 25 s are most of the time there is.
    assert!(known * 10 > all * 8, "{known} of {all} times are told");
}
