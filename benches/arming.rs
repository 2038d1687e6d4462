//! Ticks at 100 Hz while windows on 500 backends open and close: how late they come. Run by `make bench-arming`.
#![cfg(all(feature = "capture", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../tests/support/arming.rs"]
mod arming;
#[path = "../tests/support/mod.rs"]
mod support;

use pg_wait_tracer::capture::window::Kind;
use std::time::Duration;
use support::Server;

fn main() {
    let Some(server) = Server::start("18", &arming::options()) else { return };
    let _clients = arming::connect(&server, 500);
    for kind in [Kind::Exact, Kind::Blocking] {
        for length in [1, 3, 10] {
            let run = arming::open_and_close(&server, kind, Duration::from_secs(length));
            println!("{kind:?} for {length} s: {run}");
            assert!(run.within(20_000_000) >= 0.99, "99 % of ticks within 20 ms of their time");
        }
    }
}
