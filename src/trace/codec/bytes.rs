//! Numbers as bytes: little endian, ULEB128, zigzag. Reading checks every step and never panics.

use super::Problem;

/// Appends numbers.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// One byte.
    pub fn u8(&mut self, v: u8) {
        self.0.push(v);
    }
    /// Four bytes, little endian.
    pub fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    /// Eight bytes, little endian.
    pub fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    /// ULEB128: seven bits a byte, lowest first, the top bit says that more follow.
    pub fn uleb(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.0.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.0.push(v as u8);
    }
    /// A number that may be negative, small ones short: 0, -1, 1, -2, … as 0, 1, 2, 3, …
    pub fn zigzag(&mut self, v: i64) {
        self.uleb(((v << 1) ^ (v >> 63)) as u64);
    }
    /// `to` as its distance from `from`, whatever the two are.
    pub fn delta(&mut self, from: u64, to: u64) {
        self.zigzag(to.wrapping_sub(from) as i64);
    }
}

/// Takes numbers off the front of some bytes.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

const SHORT: Problem = Problem::Damaged("a block ends before its content does");

impl<'a> Reader<'a> {
    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Problem> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(SHORT)?;
        self.0 = tail;
        Ok(head)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(SHORT)?;
        self.0 = tail;
        Ok(*head)
    }
    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Problem> {
        self.array::<1>().map(|[b]| b)
    }
    /// Two bytes, little endian.
    pub fn u16(&mut self) -> Result<u16, Problem> {
        self.array().map(u16::from_le_bytes)
    }
    /// Four bytes, little endian.
    pub fn u32(&mut self) -> Result<u32, Problem> {
        self.array().map(u32::from_le_bytes)
    }
    /// Eight bytes, little endian.
    pub fn u64(&mut self) -> Result<u64, Problem> {
        self.array().map(u64::from_le_bytes)
    }
    /// `n` numbers of four bytes.
    pub fn u32s(&mut self, n: usize) -> Result<Vec<u32>, Problem> {
        let mut out = Vec::new();
        self.u32s_into(n, &mut out)?;
        Ok(out)
    }
    /// `n` numbers of four bytes, behind others.
    pub fn u32s_into(&mut self, n: usize, out: &mut Vec<u32>) -> Result<(), Problem> {
        let bytes = self.take(n.checked_mul(4).ok_or(SHORT)?)?;
        out.extend(bytes.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c)));
        Ok(())
    }
    /// `n` numbers of eight bytes.
    pub fn u64s(&mut self, n: usize) -> Result<Vec<u64>, Problem> {
        let mut out = Vec::new();
        self.u64s_into(n, &mut out)?;
        Ok(out)
    }
    /// `n` numbers of eight bytes, behind others.
    pub fn u64s_into(&mut self, n: usize, out: &mut Vec<u64>) -> Result<(), Problem> {
        let bytes = self.take(n.checked_mul(8).ok_or(SHORT)?)?;
        out.extend(bytes.as_chunks::<8>().0.iter().map(|c| u64::from_le_bytes(*c)));
        Ok(())
    }
    /// A count of things that are added up over a recording: more than all memory could hold are none.
    pub fn counter(&mut self) -> Result<u64, Problem> {
        self.uleb().and_then(|v| if v < 1 << 48 { Ok(v) } else { Err(Problem::Damaged("a count in a block is too large")) })
    }
    /// ULEB128.
    #[inline]
    pub fn uleb(&mut self) -> Result<u64, Problem> {
        if let [b @ 0..0x80, tail @ ..] = self.0 {
            self.0 = tail;
            return Ok(u64::from(*b));
        }
        self.long()
    }
    fn long(&mut self) -> Result<u64, Problem> {
        let mut v = 0u64;
        for (i, b) in self.0.iter().enumerate().take(10) {
            let bits = u64::from(b & 0x7f);
            if i == 9 && bits > 1 {
                break;
            }
            v |= bits << (7 * i);
            if b & 0x80 == 0 {
                self.0 = self.0.get(i + 1..).unwrap_or_default();
                return Ok(v);
            }
        }
        Err(Problem::Damaged("a number in a block is cut or too long"))
    }
    /// The opposite of [`Writer::zigzag`].
    pub fn zigzag(&mut self) -> Result<i64, Problem> {
        self.uleb().map(|v| (v >> 1) as i64 ^ -((v & 1) as i64))
    }
    /// The opposite of [`Writer::delta`].
    pub fn delta(&mut self, from: u64) -> Result<u64, Problem> {
        Ok(from.wrapping_add(self.zigzag()? as u64))
    }
    /// A count of things that take at least `least` bytes each of what is left, so that a wrong count allocates nothing.
    pub fn count(&mut self, least: usize) -> Result<usize, Problem> {
        let n = usize::try_from(self.uleb()?).map_err(|_| SHORT)?;
        if n.checked_mul(least.max(1)).is_none_or(|bytes| bytes > self.0.len()) {
            return Err(SHORT);
        }
        Ok(n)
    }
    /// `n` ULEB128 numbers.
    pub fn ulebs(&mut self, n: usize) -> Result<Vec<u64>, Problem> {
        let mut out = Vec::new();
        self.ulebs_into(n, &mut out)?;
        Ok(out)
    }
    /// `n` ULEB128 numbers, behind others.
    pub fn ulebs_into(&mut self, n: usize, out: &mut Vec<u64>) -> Result<(), Problem> {
        if n > self.0.len() {
            return Err(SHORT);
        }
        out.reserve(n);
        for _ in 0..n {
            out.push(self.quick()?);
        }
        Ok(())
    }
    /// ULEB128 of several bytes: eight at once where there are as many.
    #[inline]
    fn quick(&mut self) -> Result<u64, Problem> {
        let Some(word) = self.0.first_chunk::<8>().map(|c| u64::from_le_bytes(*c)) else { return self.uleb() };
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return self.long();
        }
        // Seven bits of each byte up to the first without a top bit, pushed together pair by pair.
        let last = ends.trailing_zeros();
        let v = word & (u64::MAX >> (63 - last)) & 0x7f7f_7f7f_7f7f_7f7f;
        let v = (v & 0x007f_007f_007f_007f) | (v & 0x7f00_7f00_7f00_7f00) >> 1;
        let v = (v & 0x0000_3fff_0000_3fff) | (v & 0x3fff_0000_3fff_0000) >> 2;
        let v = (v & 0x0fff_ffff) | (v & 0x0fff_ffff_0000_0000) >> 4;
        self.0 = self.0.get(last as usize / 8 + 1..).unwrap_or_default();
        Ok(v)
    }
    /// `n` ULEB128 numbers of 32 bits.
    pub fn short_ulebs(&mut self, n: usize) -> Result<Vec<u32>, Problem> {
        if n > self.0.len() {
            return Err(SHORT);
        }
        let mut out = Vec::with_capacity(n);
        for _ in 0..n {
            out.push(u32::try_from(self.uleb()?).map_err(|_| Problem::Damaged("a number in a block is too large"))?);
        }
        Ok(out)
    }
    /// Nothing may be left.
    pub fn end(self) -> Result<(), Problem> {
        if self.0.is_empty() { Ok(()) } else { Err(Problem::Damaged("a block goes on behind its content")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut w = Writer::default();
        let all = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        for v in all {
            w.uleb(v);
            w.zigzag(v as i64);
            w.delta(77, v);
        }
        assert_eq!(w.0.get(..2), Some(&[0u8, 0][..]));
        let mut r = Reader(&w.0);
        for v in all {
            assert_eq!((r.uleb().unwrap(), r.zigzag().unwrap(), r.delta(77).unwrap()), (v, v as i64, v));
        }
        r.end().unwrap();
        let mut w = Writer::default();
        let all: Vec<u64> = (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) - 1, u64::MAX >> bit]).collect();
        for v in &all {
            w.uleb(*v);
        }
        let (mut r, mut read) = (Reader(&w.0), vec![5]);
        r.ulebs_into(all.len(), &mut read).unwrap();
        assert_eq!(read.split_off(1), all);
        r.end().unwrap();
        assert_eq!(Reader(&[0xe5, 0x8e, 0x26]).uleb(), Ok(624_485));
    }

    #[test]
    fn wrong_bytes_are_refused() {
        assert!(Reader(&[0x80]).uleb().is_err());
        assert!(Reader(&[0xff; 10]).uleb().is_err());
        assert!(Reader(&[0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2]).count(1).is_err());
        assert!(Reader(&[4, 1, 2]).count(1).is_err());
        assert!(Reader(&[]).u8().is_err());
    }
}
