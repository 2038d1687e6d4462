//! Compresses a block in the format of LZ4, so that any reader of it decompresses it. Our columns are short numbers that come again far away (lengths
//! that were differences of times before, events one place further on): matches are looked for at every byte, and of all ways to write the
//! block with those found the shortest is taken.

/// Shortest match of the format.
const LEAST: usize = 4;
/// The format ends with literals: no match begins in the last 12 bytes or reaches into the last 5.
const NO_BEGIN: usize = 12;
const NO_REACH: usize = 5;
/// Farthest match.
const FAR: usize = u16::MAX as usize;
/// Places looked at for each byte.
const DEPTH: usize = 6;
/// Inside a match of so many bytes no other is looked for.
const ENOUGH: usize = 40;

/// A match: its length (0: none) and how far back it is.
#[derive(Debug, Clone, Copy, Default)]
struct Match {
    len: u32,
    back: u32,
}

fn four(data: &[u8], i: usize) -> Option<u32> {
    data.get(i..)?.first_chunk::<4>().map(|c| u32::from_le_bytes(*c))
}

/// How many bytes are the same from two places on, up to an end.
fn alike(data: &[u8], a: usize, b: usize, end: usize) -> usize {
    let (Some(left), Some(right)) = (data.get(a..), data.get(b..end)) else { return 0 };
    let (left, right) = (left.get(..right.len()).unwrap_or_default(), right);
    let mut n = 0;
    for (x, y) in left.as_chunks::<8>().0.iter().zip(right.as_chunks::<8>().0) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return n + differ.trailing_zeros() as usize / 8;
        }
        n += 8;
    }
    let rest = left.iter().skip(n).zip(right.iter().skip(n));
    n + rest.take_while(|(x, y)| x == y).count()
}

/// The places of four bytes seen so far, those of the same hash from the newest back.
struct Seen {
    newest: Vec<u32>,
    before: Vec<u32>,
    shift: u32,
}

const NOWHERE: u32 = u32::MAX;

impl Seen {
    fn new(n: usize) -> Self {
        let bits = (n.max(2).ilog2() + 1).clamp(8, 16);
        Self { newest: vec![NOWHERE; 1 << bits], before: vec![NOWHERE; n], shift: 32 - bits }
    }

    /// Notes a place, and gives the newest one before it.
    fn note(&mut self, what: u32, i: usize) -> u32 {
        let Some(slot) = self.newest.get_mut((what.wrapping_mul(2_654_435_761) >> self.shift) as usize) else { return NOWHERE };
        let found = std::mem::replace(slot, i as u32);
        if let Some(slot) = self.before.get_mut(i) {
            *slot = found;
        }
        found
    }
}

/// The longest match at each byte. Inside of one that is long enough only where it begins.
fn matches(data: &[u8]) -> Vec<Match> {
    let n = data.len();
    let (last, end) = (n.saturating_sub(NO_BEGIN), n.saturating_sub(NO_REACH));
    let mut seen = Seen::new(n);
    let mut found = vec![Match::default(); n];
    let mut skip = 0;
    for i in 0..last {
        let Some(what) = four(data, i) else { break };
        let mut at = seen.note(what, i);
        if i < skip {
            continue;
        }
        let mut best = Match::default();
        for _ in 0..DEPTH {
            let place = at as usize;
            if at == NOWHERE || i - place > FAR {
                break;
            }
            // Only what also has the next byte can be longer.
            let longer = data.get(place + best.len as usize) == data.get(i + best.len as usize);
            if longer && four(data, place) == Some(what) {
                let len = alike(data, place, i, end);
                if len > best.len as usize {
                    best = Match { len: len as u32, back: (i - place) as u32 };
                }
            }
            at = seen.before.get(place).copied().unwrap_or(NOWHERE);
        }
        if best.len as usize >= ENOUGH {
            skip = i + best.len as usize;
        }
        if let Some(slot) = found.get_mut(i).filter(|_| best.len as usize >= LEAST) {
            *slot = best;
        }
    }
    found
}

/// Shortens matches (to 0: literals) so that the whole is shortest.
fn choose(found: &mut [Match]) {
    let n = found.len();
    let mut price = vec![0u32; n + 1];
    for (i, m) in found.iter_mut().enumerate().rev() {
        let of = |at: usize| price.get(at).copied().unwrap_or(0);
        let mut best = (of(i + 1) + 1, 0);
        let len = m.len as usize;
        for l in (LEAST..=len).rev().take(8) {
            let more = if l < LEAST + 15 { 0 } else { (l - LEAST - 15) as u32 / 255 + 1 };
            let whole = of(i + l) + 3 + more;
            if whole < best.0 {
                best = (whole, l as u32);
            }
        }
        m.len = best.1;
        if let Some(slot) = price.get_mut(i) {
            *slot = best.0;
        }
    }
}

fn more(out: &mut Vec<u8>, mut n: usize) {
    while n >= 255 {
        out.push(255);
        n -= 255;
    }
    out.push(n as u8);
}

/// Literals, and the match behind them; none at the end.
fn sequence(out: &mut Vec<u8>, literals: &[u8], m: Option<Match>) {
    let length = m.map_or(0, |m| m.len as usize - LEAST);
    out.push((literals.len().min(15) << 4 | length.min(15)) as u8);
    if literals.len() >= 15 {
        more(out, literals.len() - 15);
    }
    out.extend_from_slice(literals);
    let Some(m) = m else { return };
    out.extend_from_slice(&(m.back as u16).to_le_bytes());
    if length >= 15 {
        more(out, length - 15);
    }
}

/// The bytes as one LZ4 block.
pub(super) fn compress(data: &[u8]) -> Vec<u8> {
    let mut found = matches(data);
    choose(&mut found);
    let mut out = Vec::with_capacity(data.len() / 2 + 16);
    let (mut i, mut literals) = (0, 0);
    while i < data.len() {
        let m = found.get(i).copied().unwrap_or_default();
        if m.len == 0 {
            i += 1;
            continue;
        }
        sequence(&mut out, data.get(literals..i).unwrap_or_default(), Some(m));
        i += m.len as usize;
        literals = i;
    }
    sequence(&mut out, data.get(literals..).unwrap_or_default(), None);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn back(data: &[u8]) {
        let packed = compress(data);
        assert_eq!(lz4_flex::block::decompress(&packed, data.len()).unwrap(), data);
        assert!(packed.len() <= data.len() + data.len() / 255 + 2);
    }

    proptest! {
        #[test]
        fn what_is_compressed_comes_back(
            few in prop::collection::vec(0..3u8, 0..700),
            any in prop::collection::vec(any::<u8>(), 0..300),
            times in 0..400usize,
        ) {
            back(&few);
            back(&any);
            back(&[few.clone(), any.repeat(times), few, any].concat());
        }
    }

    #[test]
    fn runs_and_far_repetitions_are_short() {
        let mut seed = 1u32;
        let mut random = |n| -> Vec<u8> {
            let mut next = || {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            };
            (0..n).map(|_| next()).collect()
        };
        assert!(compress(&vec![7; 100_000]).len() < 500);
        let (once, between) = (random(3_000), random(50_000));
        let all = [&once[..], &between, &once].concat();
        back(&all);
        assert!(compress(&all).len() < 53_500);
        let far = [&once[..], &random(70_000), &once].concat();
        back(&far);
    }
}
