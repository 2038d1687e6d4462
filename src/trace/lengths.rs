//! Lengths, counted in log-linear buckets: the one place that says which bucket a length belongs to. Pure.
//!
//! A power of two of 125 ns has 125 buckets, so that a bucket is less than 1 % wide and 1 µs, 2 µs, 4 µs … are borders of buckets.

/// Buckets of one octave.
pub const FINE: usize = 125;
/// Octaves there are: the last holds the longest length of 64 bits.
pub const OCTAVES: usize = 59;

/// The octave of a length and its bucket there. Octave 0 is below 125 ns, where each length has its own; octave `n` begins at 125 ns times 2^(n-1).
pub fn bucket(ns: u64) -> (usize, usize) {
    let octave = (u64::BITS - (ns / FINE as u64).leading_zeros()) as usize;
    if octave == 0 { (0, ns as usize) } else { (octave, (ns >> (octave - 1)) as usize - FINE) }
}

/// The middle of a bucket.
pub fn middle(octave: usize, fine: usize) -> u64 {
    if octave == 0 {
        return fine as u64;
    }
    let (low, width) = (((FINE + fine) as u64) << (octave - 1), 1u64 << (octave - 1));
    low + width / 2
}

/// Lengths of one octave.
#[derive(Debug, Clone)]
struct Octave {
    cells: [u32; FINE],
    count: u64,
    sum: u128,
}

/// Lengths as they are counted.
#[derive(Debug, Clone, Default)]
pub struct Lengths {
    octaves: Vec<Option<Box<Octave>>>,
    count: u64,
    min: u64,
    max: u64,
}

impl Lengths {
    fn octave(&mut self, octave: usize) -> Option<&mut Octave> {
        if self.octaves.len() <= octave {
            self.octaves.resize(octave + 1, None);
        }
        let none = || Box::new(Octave { cells: [0; FINE], count: 0, sum: 0 });
        self.octaves.get_mut(octave).map(|place| place.get_or_insert_with(none).as_mut())
    }

    fn reach(&mut self, min: u64, max: u64) {
        self.min = if self.count == 0 { min } else { self.min.min(min) };
        self.max = self.max.max(max);
    }

    /// Counts one, in nanoseconds.
    pub fn add(&mut self, ns: u64) {
        let (octave, fine) = bucket(ns);
        if let Some(o) = self.octave(octave) {
            if let Some(cell) = o.cells.get_mut(fine) {
                *cell = cell.saturating_add(1);
            }
            o.count += 1;
            o.sum += u128::from(ns);
        }
        self.reach(ns, ns);
        self.count += 1;
    }

    /// Counts many.
    pub fn take(&mut self, many: &Counted) {
        if many.is_empty() {
            return;
        }
        self.reach(many.min, many.max);
        for (place, n) in &many.cells {
            if let Some(o) = self.octave(usize::from(*place) / FINE) {
                if let Some(cell) = o.cells.get_mut(usize::from(*place) % FINE) {
                    *cell = cell.saturating_add(*n);
                }
                o.count += u64::from(*n);
            }
            self.count += u64::from(*n);
        }
        for (octave, sum) in &many.sums {
            if let Some(o) = self.octave(usize::from(*octave)) {
                o.sum += u128::from(*sum);
            }
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, nanoseconds.
    pub fn sum(&self) -> u128 {
        self.octaves.iter().flatten().map(|o| o.sum).sum()
    }

    /// The longest, nanoseconds.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The length of the `rank`-th shortest, counted from 1, within half a per cent; the last one exactly.
    pub fn rank(&self, rank: u64) -> u64 {
        if rank >= self.count {
            return self.max;
        }
        let mut seen = 0;
        for (octave, o) in self.octaves.iter().enumerate().filter_map(|(i, o)| Some((i, o.as_ref()?))) {
            if seen + o.count < rank {
                seen += o.count;
                continue;
            }
            for (fine, n) in o.cells.iter().enumerate() {
                seen += u64::from(*n);
                if *n > 0 && seen >= rank {
                    return middle(octave, fine).clamp(self.min, self.max);
                }
            }
        }
        self.max
    }
}

/// Lengths counted before: only buckets that hold any, so that few lengths take little.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bucket (octave times [`FINE`] plus the bucket there) and how many, in order, none of them 0.
    pub cells: Vec<(u16, u32)>,
    /// Octave and the sum of its lengths, nanoseconds, in order: one for each octave that has cells.
    pub sums: Vec<(u8, u64)>,
    /// The shortest, nanoseconds.
    pub min: u64,
    /// The longest, nanoseconds.
    pub max: u64,
}

impl Counted {
    /// Counts lengths; sorts them.
    pub fn of(lengths: &mut [u64]) -> Self {
        lengths.sort_unstable();
        let mut this = Self { min: lengths.first().copied().unwrap_or(0), max: lengths.last().copied().unwrap_or(0), ..Self::default() };
        for ns in lengths {
            let (octave, fine) = bucket(*ns);
            let place = (octave * FINE + fine) as u16;
            match this.cells.last_mut() {
                Some((last, n)) if *last == place => *n += 1,
                _ => this.cells.push((place, 1)),
            }
            match this.sums.last_mut() {
                Some((last, sum)) if usize::from(*last) == octave => *sum = sum.saturating_add(*ns),
                _ => this.sums.push((octave as u8, *ns)),
            }
        }
        this
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.cells.iter().map(|(_, n)| u64::from(*n)).sum()
    }

    /// Octave, how many lengths, and their sum, shortest first.
    pub fn octaves(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        let octave = |place: u16| usize::from(place) / FINE;
        let counts = self.cells.chunk_by(move |a, b| octave(a.0) == octave(b.0));
        counts.zip(&self.sums).map(|(cells, (octave, sum))| (usize::from(*octave), cells.iter().map(|c| u64::from(c.1)).sum(), *sum))
    }

    /// Counts what another one counted as well.
    pub fn add(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.min = if self.is_empty() { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.cells = merged(&self.cells, &other.cells, u32::saturating_add);
        self.sums = merged(&self.sums, &other.sums, u64::saturating_add);
    }
}

/// Two lists in order as one; what has the same key is added up.
fn merged<K: Ord + Copy, V: Copy>(a: &[(K, V)], b: &[(K, V)], add: impl Fn(V, V) -> V) -> Vec<(K, V)> {
    let mut out = Vec::with_capacity(a.len().max(b.len()));
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x.0 == y.0 => {
                let sum = (x.0, add(x.1, y.1));
                a.next();
                b.next();
                Some(sum)
            }
            (Some(x), Some(y)) if y.0 < x.0 => b.next().copied(),
            (Some(_), _) => a.next().copied(),
            (None, _) => b.next().copied(),
        };
        let Some(next) = next else { return out };
        out.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_adjoin() {
        let mut last = (0, 0);
        for ns in (0..5_000u64).chain((13..40).map(|i| 1 << i)).chain([u64::MAX]) {
            let (octave, fine) = bucket(ns);
            assert!((octave, fine) >= last && fine < FINE && octave < OCTAVES, "{ns}");
            last = (octave, fine);
            let middle = middle(octave, fine);
            assert!(middle.abs_diff(ns) as f64 <= ns as f64 / 200.0, "{ns}: {middle}");
        }
        for power in 0..20 {
            let border = 1_000u64 << power;
            assert_eq!((bucket(border), bucket(border - 1)), ((power + 4, 0), (power + 3, FINE - 1)));
        }
    }

    fn some() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(prop_oneof![0u64..200, 0u64..1 << 20, 0u64..1 << 45], 0..200)
    }

    proptest! {
        #[test]
        fn counted_before_or_one_by_one_is_the_same(mut a in some(), mut b in some()) {
            let mut each = Lengths::default();
            a.iter().chain(&b).for_each(|ns| each.add(*ns));
            let (mut x, y) = (Counted::of(&mut a), Counted::of(&mut b));
            let mut parts = Lengths::default();
            parts.take(&x);
            parts.take(&y);
            x.add(&y);
            let mut all: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(&x, &Counted::of(&mut all));
            prop_assert_eq!(x.octaves().map(|o| o.2).sum::<u64>(), all.iter().sum::<u64>());
            let mut whole = Lengths::default();
            whole.take(&x);
            for l in [&parts, &whole] {
                prop_assert_eq!((l.count(), l.sum(), l.max()), (each.count(), each.sum(), each.max()));
                for rank in 1..=all.len() as u64 {
                    prop_assert_eq!(l.rank(rank), each.rank(rank));
                }
            }
        }
    }
}
