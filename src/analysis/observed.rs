//! How much of a window, and of each point of a sparkline over it, was observed: what time is divided by. Pure.

use super::answer::Coverage;
use super::grid::Grid;
use super::tally::add;
use super::walk::Walk;
use crate::trace::Trace;

/// Coverage, as a whole and by point.
#[derive(Debug)]
pub struct Observed {
    /// As a whole.
    pub coverage: Coverage,
    /// Nanoseconds per point; empty when no sparklines are wanted.
    points: Vec<u64>,
}

impl Observed {
    /// Reads the ticks of a walk.
    pub fn of<T: Trace>(walk: &Walk<'_, T>, grid: Option<&Grid>) -> Self {
        let mut points = vec![0; grid.map_or(0, Grid::len)];
        let coverage = walk.coverage(|span| {
            if let Some(grid) = grid {
                grid.split(span, |i, ns| add(&mut points, i, ns));
            }
        });
        Self { coverage, points }
    }

    /// Time over observed time: average active sessions. 0 when nothing was observed.
    pub fn aas(&self, ns: u64) -> f64 {
        match self.coverage.observed_ns() {
            0 => 0.0,
            observed => ns as f64 / observed as f64,
        }
    }

    /// AAS per point, oldest first; `None` where nothing was observed.
    pub fn spark(&self, line: &[u64]) -> Vec<Option<f32>> {
        let point = |(ns, seen): (&u64, &u64)| (*seen > 0).then(|| (*ns as f64 / *seen as f64) as f32);
        line.iter().zip(&self.points).map(point).collect()
    }

    /// The sparkline of what never happened: zero where something was observed.
    pub fn nothing(&self) -> Vec<Option<f32>> {
        self.points.iter().map(|seen| (*seen > 0).then_some(0.0)).collect()
    }
}
