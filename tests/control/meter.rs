//! What the meter adds up second by second is what the analysis says of the whole time, to the nanosecond.

use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::answer::{Body, ModelKey};
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::capture::script::Script;
use pg_wait_tracer::capture::script::scenario::Scenario;
use pg_wait_tracer::control::meter::{Meter, NAMED, OTHER};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::block::Builder;
use pg_wait_tracer::trace::catalog::{BackendKind, News, Session};
use pg_wait_tracer::trace::clock::{MILLI, SECOND, Span, Ts, Window};
use pg_wait_tracer::trace::recent::{Batch, Recent};
use pg_wait_tracer::trace::record::{QueryId, SessionId, State};
use pg_wait_tracer::trace::wait::{WaitClass, WaitEvent};
use std::path::Path;
use std::sync::Arc;

fn batches(name: &str) -> Vec<Batch> {
    Script::batches(Scenario::load(Path::new(&format!("tests/scenarios/{name}.toml"))).unwrap()).unwrap()
}

#[test]
fn seconds_add_up_to_the_whole() {
    let (mut exact, mut gaps) = (0, 0);
    for name in ["mix", "exact_wins", "exact_off_cpu", "exact_flow", "gaps", "io_workers", "come_and_go", "idle_listed", "classes", "rate"]
    {
        let (mut meter, mut whole) = (Meter::default(), Recent::new(usize::MAX));
        let mut counted = 0;
        for batch in batches(name) {
            whole.absorb(batch.clone());
            counted += u32::from(meter.absorb(batch));
        }
        let extent = whole.extent().unwrap();
        let totals = meter.totals();
        if extent.len() < 4 * SECOND {
            continue;
        }
        assert!(counted > 1 && extent.end.since(totals.until) < 4 * SECOND, "{name}: {counted} times, up to {:?}", totals.until);
        let window = Span::new(extent.start, totals.until);
        let told = answer(&whole, &Question::new(Ask::TimeModel, Window::Fixed(window))).unwrap();
        let Body::TimeModel(model) = &told.body else { panic!() };
        for class in WaitClass::ALL {
            let ns = model.rows.iter().find(|r| r.key == ModelKey::Class(class)).map_or(0, |r| r.time_ns);
            assert_eq!(totals.classes[class.index()], ns, "{name}: {class:?}");
        }
        let events: u64 = totals.events.values().map(|e| e.ns).sum();
        assert_eq!(
            (totals.classes.iter().sum::<u64>(), events, totals.idle_ns),
            (told.db_time_ns, told.db_time_ns, told.idle_ns),
            "{name}"
        );
        let c = &told.coverage;
        assert_eq!(
            (totals.exact_ns, totals.blocking_ns, totals.sampled_ns, totals.gap_ns),
            (c.exact_ns, c.blocking_ns, c.sampled_ns, c.gap_ns),
            "{name}"
        );
        let told = answer(&whole, &Question::new(Ask::Events, Window::Fixed(window))).unwrap();
        let Body::Events { events } = &told.body else { panic!() };
        let waits = |load: bool| events.iter().filter(|e| e.idle != load).map(|e| e.waits.unwrap_or(0)).sum::<u64>();
        assert_eq!(totals.events.values().map(|e| e.waits).sum::<u64>(), waits(true), "{name}");
        exact += totals.exact_ns;
        gaps += totals.gap_ns;
    }
    assert!(exact > SECOND && gaps > SECOND, "the scenarios no longer have exact stretches and gaps");
}

/// A quarter of a second in which each of some sessions waits for an event of its own.
fn quarter(n: u64, sessions: u32, of: fn(u32) -> u32) -> Batch {
    let mut b = Builder::default();
    for i in 1..=5 {
        b.tick(Ts(n * 250 * MILLI + i * 50 * MILLI), 50 * MILLI);
        for s in 0..sessions {
            b.sample(SessionId(s), WaitEvent(of(s)), QueryId(i64::from(s)), State::Active);
        }
    }
    let session =
        |s| News::Session(SessionId(s), Box::new(Session { pid: 100 + s as i32, kind: BackendKind::Client, ..Session::default() }));
    Batch {
        block: b.seal().map(Arc::new),
        news: if n == 0 { (0..sessions).map(session).collect() } else { Vec::new() },
        ..Batch::default()
    }
}

#[test]
fn names_are_bounded_and_no_event_changes_its_place() {
    let mut meter = Meter::default();
    let few = |s: u32| 0x0700_0000 | (s % 40);
    let many = |s: u32| if s.is_multiple_of(2) { 0x0700_0000 | s } else { 0x0100_0000 | s };
    (0..40).for_each(|n| {
        meter.absorb(quarter(n, 40, few));
    });
    let before = meter.totals().events.clone();
    assert_eq!(before.len(), 40);
    (40..120).for_each(|n| {
        meter.absorb(quarter(n, 400, many));
    });
    let totals = meter.totals();
    assert_eq!(totals.events.keys().filter(|(_, event)| event != OTHER).count(), NAMED);
    assert!(totals.events.len() <= NAMED + WaitClass::ALL.len(), "{}", totals.events.len());
    assert!(before.iter().all(|(key, total)| totals.events[key].ns >= total.ns), "a counter went back");
    for class in [WaitClass::Extension, WaitClass::LwLock] {
        let events: u64 = totals.events.iter().filter(|((name, _), _)| *name == class.name()).map(|(_, e)| e.ns).sum();
        assert_eq!(events, totals.classes[class.index()]);
        assert!(totals.events[&(class.name(), OTHER.to_owned())].ns > 0);
    }
    assert!(totals.aas.iter().sum::<f64>() > 399.0, "{:?}", totals.aas);
}
