//! What tests against real PostgreSQL servers share: start one, load it, wait for a condition.
//!
//! A test file says `mod support;` and uses what it needs of it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::thread;
use std::time::{Duration, Instant};

pub mod activity;
#[path = "../../src/demo/binaries.rs"]
pub mod binaries;
#[path = "../../src/demo/cluster.rs"]
pub mod cluster;
pub mod huge;
pub mod server;
pub mod watch;

#[allow(unused_imports)]
pub use cluster::Stop;
#[allow(unused_imports)]
pub use server::{Options, Running, Server, versions};

/// Looks at a condition until it holds or the time is up; says whether it held.
#[must_use]
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Is there a process with this id (a zombie counts: nobody has waited for it)?
pub fn process_exists(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
