//! The daemon at work on real servers: killed, refused, without a server, with another one, without room.
#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

#[path = "support/binary.rs"]
mod binary;
mod support;

#[path = "daemon/disk.rs"]
mod disk;
#[path = "daemon/kills.rs"]
mod kills;
#[path = "daemon/outages.rs"]
mod outages;
#[path = "daemon/past.rs"]
mod past;
#[path = "daemon/upgrade.rs"]
mod upgrade;

use binary::{Daemon, until};
use pg_wait_tracer::analysis::answer;
use pg_wait_tracer::analysis::answer::{Answer, Body};
use pg_wait_tracer::analysis::question::{Ask, Question};
use pg_wait_tracer::pg::names::event_names;
use pg_wait_tracer::store::dir::{Dir, Options};
use pg_wait_tracer::trace::Trace;
use pg_wait_tracer::trace::clock::{Span, Ts, Window};
use std::path::Path;
use support::Server;

fn open(dir: &Path) -> Dir {
    let mut dir = Dir::open(dir, Options { names: event_names, ..Options::default() }).unwrap();
    dir.narrow(dir.extent().unwrap_or_default());
    dir
}

/// The newest moment in a directory, nanoseconds since 1970; 0: nothing yet.
fn newest(dir: &Path) -> u64 {
    Dir::open(dir, Options::default()).ok().and_then(|d| d.extent()).map_or(0, |e| e.end.0)
}

/// Waits until something after this moment is in the directory.
fn recorded_after(dir: &Path, at: u64) {
    until("it records", || newest(dir) > at);
}

fn ticks(dir: &Path) -> Vec<Ts> {
    let mut ticks = Vec::new();
    open(dir).scan(Span::new(Ts(0), Ts(u64::MAX)), &mut |b| ticks.extend(b.ticks().iter().map(|t| t.at)));
    ticks.sort_unstable();
    ticks
}

fn ask(dir: &Path, ask: Ask, window: Span) -> Answer {
    let mut disk = open(dir);
    disk.narrow(window);
    answer(&disk, &Question::new(ask, Window::Fixed(window))).unwrap()
}

/// Time of each event of a window, by name.
fn events(dir: &Path, window: Span) -> Vec<(String, u64)> {
    let Body::Events { events } = ask(dir, Ask::Events, window).body else { panic!() };
    events.into_iter().map(|e| (e.name, e.time_ns)).collect()
}

/// A daemon on a server, by its data directory.
fn watch(server: &Server, dir: &Path, more: &[&str]) -> Daemon {
    let pgdata = server.pgdata();
    Daemon::start(dir, &[&["-D", pgdata.to_str().unwrap()], more].concat())
}
