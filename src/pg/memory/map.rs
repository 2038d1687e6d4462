//! A read-only view of memory that another process writes at any time: bounds-checked, aligned, volatile loads, and nothing else.
#![allow(unsafe_code)]
// Alignment is checked before each load.
#![allow(clippy::cast_ptr_alignment)]

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;

/// Mapped memory. Unmapped when dropped.
#[derive(Debug)]
pub(super) struct Map(MmapRaw);

impl Map {
    /// Maps `len` bytes of a file, shared and read-only.
    pub fn of(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        MmapOptions::new().offset(offset).len(len).map_raw_read_only(file).map(Self)
    }

    /// A `uint32`; `None` outside or where none can be.
    #[inline]
    pub fn u32(&self, offset: usize) -> Option<u32> {
        if offset.checked_add(4)? > self.0.len() || !offset.is_multiple_of(4) {
            return None;
        }
        // SAFETY: the four bytes lie inside the mapping, which lives as long as `self`, and are aligned (the mapping starts on a page). The
        // server writes them at any time, hence volatile; an aligned load of this size does not tear where PostgreSQL relies on the same.
        Some(unsafe { self.0.as_ptr().add(offset).cast::<u32>().read_volatile() })
    }

    /// Asks the processor to fetch the memory there, and does not wait for it. A hint: nothing happens outside, or on other processors.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        if offset < self.0.len() {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: the address lies inside the mapping; a prefetch neither reads nor writes as far as the program can tell, and never faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.0.as_ptr().add(offset).cast::<i8>()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }

    /// A `uint64`; `None` outside or where none can be.
    #[inline]
    pub fn u64(&self, offset: usize) -> Option<u64> {
        if offset.checked_add(8)? > self.0.len() || !offset.is_multiple_of(8) {
            return None;
        }
        // SAFETY: as for `u32`, with eight bytes.
        Some(unsafe { self.0.as_ptr().add(offset).cast::<u64>().read_volatile() })
    }

    /// Copies bytes; `None` outside. They may change while they are copied.
    pub fn copy(&self, offset: usize, to: &mut [u8]) -> Option<()> {
        if offset.checked_add(to.len())? > self.0.len() {
            return None;
        }
        // SAFETY: `to.len()` bytes from `offset` lie inside the mapping; the pointer is only offset within it.
        let from = unsafe { self.0.as_ptr().add(offset) };
        let head = from.align_offset(8).min(to.len());
        let (head, rest) = to.split_at_mut_checked(head)?;
        let mut at = head.len();
        for (i, byte) in head.iter_mut().enumerate() {
            // SAFETY: `i` is below the number of bytes checked above.
            *byte = unsafe { from.add(i).read_volatile() };
        }
        let mut words = rest.chunks_exact_mut(8);
        for chunk in &mut words {
            // SAFETY: eight bytes at `at` are inside (a whole chunk of `to` is left) and aligned (`head` ended on a multiple of eight).
            let word = unsafe { from.add(at).cast::<u64>().read_volatile() };
            chunk.copy_from_slice(&word.to_ne_bytes());
            at += 8;
        }
        for (i, byte) in words.into_remainder().iter_mut().enumerate() {
            // SAFETY: these are the last bytes of the stretch checked above.
            *byte = unsafe { from.add(at + i).read_volatile() };
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_alignment_and_length() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        io::Write::write_all(&mut file, &bytes).unwrap();
        let map = Map::of(&file, 0, 256).unwrap();
        for start in 0..20 {
            for len in 0..40 {
                let mut to = vec![0; len];
                map.copy(start, &mut to).unwrap();
                assert_eq!(to, bytes[start..start + len], "{start} {len}");
            }
        }
        assert!(map.copy(250, &mut [0; 7]).is_none());
        assert!(map.copy(usize::MAX, &mut [0; 7]).is_none());
        assert_eq!(map.u32(252), Some(u32::from_ne_bytes([252, 253, 254, 255])));
        assert_eq!((map.u32(253), map.u32(256), map.u64(252), map.u64(4)), (None, None, None, None));
    }
}
