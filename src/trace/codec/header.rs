//! The frame of a trace file: its header, the headers of its blocks, its footer. Byte for byte as trace format v3 has them.

use super::Problem;
use super::bytes::{Reader, Writer};
use crate::trace::clock::{Clock, Ts};

/// First bytes of a trace file: `PGWT`, little endian.
pub const MAGIC: u32 = 0x5457_4750;
/// Bytes of a file header.
pub const FILE_HEADER: usize = 28;
/// Bytes of a block header.
pub const BLOCK_HEADER: usize = 40;
/// Records a block of transitions or samples may hold.
pub const MOST_RECORDS: u32 = 4096;
/// Bytes a block may have in a file.
pub const MOST_BYTES: u32 = 10 << 20;
/// Blocks a file may have.
pub const MOST_BLOCKS: usize = 4 << 20;
/// Bytes a block of ours may have in memory.
const MOST_UNPACKED: u32 = 64 << 20;

/// What a file says of itself in its first 28 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// 2 (without on-CPU times) or 3.
    pub version: u16,
    /// Bit 0: blocks are LZ4.
    pub flags: u16,
    /// Major version of the server.
    pub pg_version: u32,
    /// When it was begun, on both clocks.
    pub clock: Clock,
}

impl FileHeader {
    /// A header as this program writes it.
    pub fn new(major: u16, clock: Clock) -> Self {
        Self { version: 3, flags: 1, pg_version: u32::from(major), clock }
    }

    /// Major version of the server; 0 when it is not known. 18 and 180004 both say 18.
    pub fn major(&self) -> u16 {
        let major = if self.pg_version >= 10_000 { self.pg_version / 10_000 } else { self.pg_version };
        u16::try_from(major).unwrap_or(0)
    }

    /// As bytes.
    pub fn write(&self) -> [u8; FILE_HEADER] {
        let mut w = Writer::default();
        w.u32(MAGIC);
        w.0.extend_from_slice(&self.version.to_le_bytes());
        w.0.extend_from_slice(&self.flags.to_le_bytes());
        w.u32(self.pg_version);
        w.u64(self.clock.wall_ns as u64);
        w.u64(self.clock.mono.0);
        w.0.try_into().unwrap_or([0; FILE_HEADER])
    }

    /// From the first bytes of a file.
    pub fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let mut r = Reader(bytes.get(..FILE_HEADER).ok_or(Problem::Foreign("it is shorter than a file header"))?);
        if r.u32()? != MAGIC {
            return Err(Problem::Foreign("it does not begin with PGWT"));
        }
        let version = r.u16()?;
        if !(2..=3).contains(&version) {
            return Err(Problem::Version(version));
        }
        let (flags, pg_version, wall_ns, mono) = (r.u16()?, r.u32()?, r.u64()?, r.u64()?);
        let wall_ns = i64::try_from(wall_ns).map_err(|_| Problem::Damaged("the file header's time is not one"))?;
        Ok(Self { version, flags, pg_version, clock: Clock { mono: Ts(mono), wall_ns } })
    }
}

/// What stands before each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockHeader {
    /// Time of the first record.
    pub first: Ts,
    /// Time of the last record.
    pub last: Ts,
    /// Records; of a block of ours: how many blocks belong together, this last one included.
    pub count: u32,
    /// Bytes in the file behind this header.
    pub packed: u32,
    /// Bytes after decompression.
    pub unpacked: u32,
    /// What it holds, see [`super::kind`].
    pub kind: u16,
    /// 0.
    pub reserved: u16,
    /// Samples: nanoseconds each stands for. Transitions: 0. A block of ours: how long before `first` its content begins.
    pub period: u64,
}

impl BlockHeader {
    /// As bytes.
    pub fn write(&self) -> [u8; BLOCK_HEADER] {
        let mut w = Writer::default();
        w.u64(self.first.0);
        w.u64(self.last.0);
        w.u32(self.count);
        w.u32(self.packed);
        w.u32(self.unpacked);
        w.0.extend_from_slice(&self.kind.to_le_bytes());
        w.0.extend_from_slice(&self.reserved.to_le_bytes());
        w.u64(self.period);
        w.0.try_into().unwrap_or([0; BLOCK_HEADER])
    }

    /// From bytes, if they can be a block header. What cannot be one ends a file: a footer, a torn tail, damage.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes.get(..BLOCK_HEADER)?);
        let mut next = || -> Result<Self, Problem> {
            Ok(Self {
                first: Ts(r.u64()?),
                last: Ts(r.u64()?),
                count: r.u32()?,
                packed: r.u32()?,
                unpacked: r.u32()?,
                kind: r.u16()?,
                reserved: r.u16()?,
                period: r.u64()?,
            })
        };
        let h = next().ok()?;
        let plausible = (1..=MOST_RECORDS).contains(&h.count) && (1..=MOST_BYTES).contains(&h.packed) && h.kind <= 15;
        plausible.then_some(h)
    }

    /// Decompresses what stands behind this header. Never allocates more than LZ4 can have made of so few bytes.
    pub fn unpack(&self, stored: &[u8]) -> Result<Vec<u8>, Problem> {
        let mut out = Vec::new();
        self.unpack_into(stored, &mut out)?;
        Ok(out)
    }

    /// The same into memory that was used before.
    pub fn unpack_into(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
        let most = stored.len().saturating_mul(255).saturating_add(64).min(MOST_UNPACKED as usize);
        if stored.len() != self.packed as usize || self.unpacked as usize > most {
            return Err(Problem::Damaged("a block's size is impossible"));
        }
        out.resize(self.unpacked as usize, 0);
        match lz4_flex::block::decompress_into(stored, out) {
            Ok(n) if n == out.len() => Ok(()),
            _ => Err(Problem::Damaged("a block does not decompress")),
        }
    }
}

/// A finished file's index: the first time and the offset of each block.
pub fn footer(blocks: &[(Ts, u64)]) -> Vec<u8> {
    let mut w = Writer(Vec::with_capacity(blocks.len() * 16 + 4));
    for (first, offset) in blocks {
        w.u64(first.0);
        w.u64(*offset);
    }
    w.u32(blocks.len() as u32);
    w.0
}

/// How many bytes a footer has, by the last four bytes of a file of `len` bytes; `None` when there is none.
pub fn footer_len(last: [u8; 4], len: u64) -> Option<u64> {
    let n = u64::from(u32::from_le_bytes(last));
    let bytes = n * 16 + 4;
    (n > 0 && n < MOST_BLOCKS as u64 && bytes + FILE_HEADER as u64 <= len).then_some(bytes)
}

/// Reads a footer of a file of `len` bytes. `None` when it is not one: offsets rise, and the first is right behind the file header.
pub fn read_footer(bytes: &[u8], len: u64) -> Option<Vec<(Ts, u64)>> {
    let (body, count) = bytes.split_last_chunk::<4>()?;
    let n = u32::from_le_bytes(*count) as usize;
    let end = len.checked_sub(bytes.len() as u64)?;
    let (entries, rest) = body.as_chunks::<16>();
    if entries.len() != n || !rest.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(n);
    let mut least = FILE_HEADER as u64;
    for entry in entries {
        let mut r = Reader(entry);
        let (first, offset) = (Ts(r.u64().ok()?), r.u64().ok()?);
        if offset < least || (out.is_empty() && offset != least) || offset.checked_add(BLOCK_HEADER as u64)? > end {
            return None;
        }
        least = offset + BLOCK_HEADER as u64;
        out.push((first, offset));
    }
    Some(out)
}
