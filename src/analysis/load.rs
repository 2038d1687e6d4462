//! Average active sessions over time, stacked by wait class. Pure.

use super::answer::{Coverage, Load, LoadBucket};
use super::grid::Grid;
use super::meaning::Meaning;
use super::tally::add;
use super::walk::Walk;
use crate::trace::Trace;
use crate::trace::wait::WaitClass;

const CLASSES: usize = WaitClass::ALL.len();

/// The chart, with what it adds up to.
#[derive(Debug)]
pub struct Chart {
    /// The points.
    pub load: Load,
    /// What was observed.
    pub coverage: Coverage,
    /// DB Time.
    pub load_ns: u64,
    /// Idle time.
    pub idle_ns: u64,
    /// Distinct sessions.
    pub sessions: u32,
}

/// Draws the chart of a walk in `buckets` points.
pub fn chart<T: Trace>(walk: &Walk<'_, T>, buckets: u16) -> Chart {
    let grid = Grid::new(walk.window, buckets);
    let n = grid.len();
    let mut observed = vec![0u64; n];
    let coverage = walk.coverage(|span| grid.split(span, |i, ns| add(&mut observed, i, ns)));
    let mut time = vec![0u64; n * CLASSES];
    let (mut load_ns, mut idle_ns) = (0, 0);
    let sessions = walk.pieces(false, |p| match p.meaning {
        Meaning::Load => {
            load_ns += p.ns;
            let class = p.event.class().index();
            p.split(&grid, |i, ns| add(&mut time, i * CLASSES + class, ns));
        }
        Meaning::Idle => idle_ns += p.ns,
        Meaning::IoWorkerBusy | Meaning::IoWorkerIdle | Meaning::Nothing => {}
    });
    let bucket_ns = walk.window.len() as f64 / n as f64;
    let mut load = Load { bucket_ns, buckets: Vec::with_capacity(n), max_aas: 0.0, markers: Vec::new() };
    for (i, (seen, classes)) in observed.iter().zip(time.chunks(CLASSES)).enumerate() {
        let length = grid.length(i);
        let mut bucket = LoadBucket::default();
        if *seen > 0 {
            bucket.observed = *seen as f64 / length.max(*seen) as f64;
            for (aas, ns) in bucket.aas.iter_mut().zip(classes) {
                *aas = *ns as f64 / *seen as f64;
            }
        }
        load.max_aas = load.max_aas.max(bucket.total());
        load.buckets.push(bucket);
    }
    Chart { load, coverage, load_ns, idle_ns, sessions }
}
