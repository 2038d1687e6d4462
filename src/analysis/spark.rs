//! Sparklines: AAS over the window per row of a table, in a second walk, for the rows that are shown only. Pure.

use super::grid::Grid;
use super::walk::{Piece, Walk};
use crate::trace::Trace;

/// AAS per point, oldest first; `None` where nothing was observed.
pub type Spark = Vec<Option<f32>>;

/// Sparklines of `points` points for `rows` rows; `rows_of` says which rows a piece belongs to (at most three). Empty ones when `points` is 0.
pub fn sparks<T: Trace>(walk: &Walk<'_, T>, points: u16, rows: usize, rows_of: impl Fn(&Piece) -> [Option<usize>; 3]) -> Vec<Spark> {
    if points == 0 || rows == 0 {
        return vec![Spark::new(); rows];
    }
    let grid = Grid::new(walk.window, points);
    let n = grid.len();
    let mut observed = vec![0u64; n];
    walk.coverage(|span| grid.split(span, |i, ns| add(&mut observed, i, ns)));
    let mut time = vec![0u64; n * rows];
    walk.pieces(|piece| {
        for row in rows_of(piece).into_iter().flatten() {
            grid.split(piece.span, |i, ns| add(&mut time, row * n + i, ns));
        }
    });
    time.chunks(n)
        .map(|row| row.iter().zip(&observed).map(|(ns, seen)| (*seen > 0).then(|| (*ns as f64 / *seen as f64) as f32)).collect())
        .collect()
}

/// Adds to one cell.
pub fn add(cells: &mut [u64], i: usize, ns: u64) {
    if let Some(cell) = cells.get_mut(i) {
        *cell += ns;
    }
}
