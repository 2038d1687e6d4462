//! A stretch of the server's shared memory for repeated reading: the memory itself, or a copy renewed on request.

use super::Reader;
use super::map::Map;
use std::io;
use std::sync::Arc;

/// A stretch of the segment. Mapped: loads see the server's memory as it is. Copied: loads see the memory as of the last [`Area::refresh`].
#[derive(Debug)]
pub struct Area {
    addr: u64,
    len: usize,
    backing: Backing,
}

#[derive(Debug)]
pub(super) enum Backing {
    Mapped { map: Arc<Map>, offset: usize },
    Copied { reader: Arc<Reader>, bytes: Vec<u8> },
}

impl Area {
    /// `len` bytes at `addr`. A copy is not read yet.
    pub(super) fn new(addr: u64, len: usize, backing: Backing) -> Self {
        Self { addr, len, backing }
    }

    /// Address of the first byte in the server.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether loads see the server's memory itself.
    pub fn is_mapped(&self) -> bool {
        matches!(self.backing, Backing::Mapped { .. })
    }

    /// Copy mode: reads the whole area again, in one call where the kernel delivers it whole. Mapped: nothing to do.
    pub fn refresh(&mut self) -> io::Result<()> {
        match &mut self.backing {
            Backing::Mapped { .. } => Ok(()),
            Backing::Copied { reader, bytes } => reader.read(self.addr, bytes),
        }
    }

    /// Asks the processor to fetch what lies at an offset, without waiting for it. A copy is near enough already.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if let Backing::Mapped { map, offset } = &self.backing {
            map.prefetch(offset.saturating_add(at));
        }
    }

    /// A `uint32` at an offset. `None` outside, or where a `uint32` cannot be.
    #[inline]
    pub fn u32(&self, at: usize) -> Option<u32> {
        match &self.backing {
            Backing::Mapped { map, offset } if at.checked_add(4)? <= self.len => map.u32(offset.checked_add(at)?),
            Backing::Mapped { .. } => None,
            Backing::Copied { bytes, .. } => bytes.get(at..at.checked_add(4)?)?.first_chunk().copied().map(u32::from_ne_bytes),
        }
    }

    /// An `int32` at an offset.
    #[inline]
    pub fn i32(&self, at: usize) -> Option<i32> {
        self.u32(at).map(u32::cast_signed)
    }

    /// A `uint64` or a pointer at an offset. `None` outside, or where a `uint64` cannot be.
    #[inline]
    pub fn u64(&self, at: usize) -> Option<u64> {
        match &self.backing {
            Backing::Mapped { map, offset } if at.checked_add(8)? <= self.len => map.u64(offset.checked_add(at)?),
            Backing::Mapped { .. } => None,
            Backing::Copied { bytes, .. } => bytes.get(at..at.checked_add(8)?)?.first_chunk().copied().map(u64::from_ne_bytes),
        }
    }

    /// An `int64` at an offset.
    #[inline]
    pub fn i64(&self, at: usize) -> Option<i64> {
        self.u64(at).map(u64::cast_signed)
    }

    /// Copies bytes from an offset. `None` outside.
    pub fn copy(&self, at: usize, to: &mut [u8]) -> Option<()> {
        let end = at.checked_add(to.len())?;
        match &self.backing {
            Backing::Mapped { map, offset } if end <= self.len => map.copy(offset.checked_add(at)?, to),
            Backing::Mapped { .. } => None,
            Backing::Copied { bytes, .. } => {
                to.copy_from_slice(bytes.get(at..end)?);
                Some(())
            }
        }
    }

    /// The bytes in front of the first NUL, at most `max`; fewer at the end of the area.
    pub fn c_string(&self, at: usize, max: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; max.min(self.len.checked_sub(at)?)];
        self.copy(at, &mut bytes)?;
        super::cut_at_nul(&mut bytes);
        Some(bytes)
    }
}
