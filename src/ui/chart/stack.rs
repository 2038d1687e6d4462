//! One column of the chart: classes on top of each other in their fixed order, in eighths of a cell. Pure.
//!
//! A cell has two colours. Where three meet, the smallest gives way to its neighbour below or above; nothing else is rounded but to an eighth.

use crate::trace::wait::WaitClass;

/// What fills a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Nothing.
    Empty,
    /// One class, from below, so many eighths; the rest is empty.
    Part(WaitClass, usize),
    /// Two classes: the lower so many eighths, the upper the rest.
    Two(WaitClass, usize, WaitClass),
}

impl Fill {
    /// The class that fills most of the cell.
    pub fn main(self) -> Option<WaitClass> {
        match self {
            Self::Empty => None,
            Self::Part(class, _) => Some(class),
            Self::Two(lower, eighths, upper) => Some(if eighths >= 4 { lower } else { upper }),
        }
    }

    /// Eighths that are filled.
    pub fn eighths(self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Part(_, n) => n,
            Self::Two(..) => 8,
        }
    }
}

/// The cells of a column from bottom to top. `top` AAS are the full height.
pub fn stack(aas: &[f64; WaitClass::ALL.len()], top: f64, height: usize) -> Vec<Fill> {
    let full = height * 8;
    let mut edges = [0usize; WaitClass::ALL.len()];
    let mut sum = 0.0;
    for (edge, value) in edges.iter_mut().zip(aas) {
        sum += value.max(0.0);
        *edge = if top > 0.0 { ((sum / top * full as f64).round() as usize).min(full) } else { 0 };
    }
    // Something is never nothing.
    if sum > 0.0 && edges.last() == Some(&0) {
        let most = aas.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(i, _)| i);
        edges.iter_mut().skip(most).for_each(|e| *e = 1.min(full));
    }
    (0..height).map(|cell| fill(&edges, cell * 8)).collect()
}

fn fill(edges: &[usize; WaitClass::ALL.len()], from: usize) -> Fill {
    let mut parts: Vec<(WaitClass, usize)> = Vec::with_capacity(4);
    let mut below = from;
    for (class, edge) in WaitClass::ALL.iter().zip(edges) {
        let edge = (*edge).clamp(below, from + 8);
        if edge > below {
            parts.push((*class, edge - below));
            below = edge;
        }
    }
    let filled = below - from;
    let most = if filled < 8 { 1 } else { 2 };
    while parts.len() > most {
        let smallest = parts.iter().enumerate().min_by_key(|(_, (_, n))| *n).map_or(0, |(i, _)| i);
        let (_, n) = parts.remove(smallest);
        if let Some((_, neighbour)) = parts.get_mut(smallest.saturating_sub(1)) {
            *neighbour += n;
        }
    }
    match parts.as_slice() {
        [(class, _)] => Fill::Part(*class, filled),
        [(lower, n), (upper, _), ..] => Fill::Two(*lower, *n, *upper),
        [] => Fill::Empty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use WaitClass::{Cpu, Io, Lock};

    fn aas(values: &[(WaitClass, f64)]) -> [f64; WaitClass::ALL.len()] {
        let mut out = [0.0; WaitClass::ALL.len()];
        for (class, v) in values {
            out[class.index()] = *v;
        }
        out
    }

    #[test]
    fn classes_stand_on_each_other_to_an_eighth() {
        let column = stack(&aas(&[(Cpu, 1.5), (Lock, 1.0)]), 4.0, 4);
        assert_eq!(column, [Fill::Part(Cpu, 8), Fill::Two(Cpu, 4, Lock), Fill::Part(Lock, 4), Fill::Empty]);
    }

    #[test]
    fn the_smallest_of_three_gives_way_but_the_height_stays() {
        let column = stack(&aas(&[(Cpu, 0.5), (Io, 0.125), (Lock, 0.375)]), 1.0, 1);
        assert_eq!(column, [Fill::Two(Cpu, 5, Lock)]);
        assert_eq!(stack(&aas(&[(Cpu, 0.25), (Io, 0.5)]), 1.0, 1), [Fill::Part(Io, 6)]);
    }

    #[test]
    fn a_little_is_seen_and_too_much_is_cut() {
        assert_eq!(stack(&aas(&[(Io, 0.001)]), 100.0, 2), [Fill::Part(Io, 1), Fill::Empty]);
        assert_eq!(stack(&aas(&[(Io, 900.0)]), 100.0, 2), [Fill::Part(Io, 8), Fill::Part(Io, 8)]);
        assert_eq!(stack(&aas(&[]), 100.0, 2), [Fill::Empty, Fill::Empty]);
        assert_eq!(stack(&aas(&[(Io, 1.0)]), 0.0, 1), [Fill::Part(Io, 1)]);
        assert!(stack(&aas(&[(Io, 1.0)]), 1.0, 0).is_empty());
    }
}
