//! Recordings looked at through the binary: replay and dump say what was recorded, of any stretch, and what is not there. No server, no root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]
#![allow(
    clippy::case_sensitive_file_extension_comparisons,
    clippy::needless_for_each,
    clippy::format_collect,
    reason = "names are our own; one line each"
)]

#[path = "support/binary.rs"]
mod binary;
#[path = "support/by_hand.rs"]
mod by_hand;

#[path = "replay/damage.rs"]
mod damage;
#[path = "replay/follow.rs"]
mod follow;
#[path = "replay/hours.rs"]
mod hours;
#[path = "replay/original.rs"]
mod original;
#[path = "replay/recorder.rs"]
mod recorder;
#[path = "replay/same.rs"]
mod same;
#[path = "replay/versions.rs"]
mod versions;
#[path = "replay/when.rs"]
mod when;

use jiff::tz::TimeZone;
use pg_wait_tracer::capture::script::Script;
use pg_wait_tracer::capture::script::scenario::Scenario;
use pg_wait_tracer::store::access::Access;
use pg_wait_tracer::store::dir::{Dir, Options};
use pg_wait_tracer::store::pen::{Pen, Settings};
use pg_wait_tracer::trace::recent::Batch;
use std::path::Path;
use tempfile::TempDir;

fn settings(dir: &Path, zone: TimeZone) -> Settings {
    Settings { dir: dir.to_owned(), access: Access::default(), zone, run: 1_790_000_000_000_000_000 }
}

/// A scenario as capture would hand it over. It begins at 2026-01-02T03:04:05Z unless it says otherwise.
fn batches(name: &str) -> Vec<Batch> {
    Script::batches(Scenario::load(Path::new(&binary::scenario(name))).unwrap()).unwrap()
}

/// A finished recording of it.
fn recorded(name: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    let mut pen = Pen::new(settings(dir.path(), TimeZone::UTC)).unwrap();
    for two in batches(name).chunks(2) {
        two.iter().cloned().for_each(|b| pen.absorb(b));
        pen.flush();
    }
    assert_eq!(pen.close().error, None);
    dir
}

fn path(dir: &TempDir) -> &str {
    dir.path().to_str().unwrap()
}

fn open(dir: &Path) -> Dir {
    Dir::open(dir, Options::default()).unwrap()
}

/// Names of the trace files, in order.
fn traces(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| n.contains(".trace")).collect();
    names.sort();
    names
}
