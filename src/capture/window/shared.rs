//! The maps that user space and the BPF programs share, mapped: pid table, tracks, rings. The only reader of the rings.
//!
//! Invariants. Everything is read and written as volatile words of the size the other side uses. A ring has one reader (the owner of this
//! value) and takes records in order; a record is read only when its sequence number says that it is whole. A track's first part is written
//! only while the pid table does not lead to it.
#![allow(unsafe_code)]
// Offsets come from the types themselves, and mappings start on pages.
#![allow(clippy::cast_ptr_alignment)]

use super::program::wire;
use anyhow::{Context, Result};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fd::{AsRawFd, BorrowedFd};
use std::mem::offset_of;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Attempts before a track counts as unreadable.
const ATTEMPTS: usize = 100;
/// Places for texts per CPU, as in `wire.h`.
pub const TEXTS: usize = 2048;
const PIDS_PER_PAGE: usize = size_of::<wire::pid_page>() / 2;

/// One array map.
#[derive(Debug)]
struct Array {
    map: MmapRaw,
    stride: usize,
    count: usize,
}

impl Array {
    fn map(fd: BorrowedFd<'_>, stride: usize, count: usize) -> Result<Self> {
        let len = stride * count;
        let map = MmapOptions::new().len(len).map_raw(fd.as_raw_fd()).context("cannot map a BPF array")?;
        Ok(Self { map, stride, count })
    }

    /// Address of a member of an element that lies wholly inside.
    fn at<T>(&self, index: usize, offset: usize) -> Option<*mut T> {
        if index >= self.count || offset + size_of::<T>() > self.stride {
            return None;
        }
        // SAFETY: the element and the member lie inside the mapping, as just checked.
        Some(unsafe { self.map.as_mut_ptr().add(index * self.stride + offset) }.cast())
    }

    fn u64(&self, index: usize, offset: usize) -> &AtomicU64 {
        static NOWHERE: AtomicU64 = AtomicU64::new(0);
        // SAFETY: inside the mapping, which lives as long as `self`; aligned, since elements and members are multiples of eight; the other side
        // reads and writes it whole.
        self.at(index, offset).map_or(&NOWHERE, |p| unsafe { AtomicU64::from_ptr(p) })
    }

    fn u32(&self, index: usize, offset: usize) -> &AtomicU32 {
        static NOWHERE: AtomicU32 = AtomicU32::new(0);
        // SAFETY: as in `u64`, for four bytes.
        self.at(index, offset).map_or(&NOWHERE, |p| unsafe { AtomicU32::from_ptr(p) })
    }

    fn read<T: Copy>(&self, index: usize) -> Option<T> {
        debug_assert_eq!(size_of::<T>(), self.stride);
        // SAFETY: `at` has checked that a whole `T` lies there; it is a plain structure of integers, for which every bit pattern is valid.
        self.at::<T>(index, 0).map(|p| unsafe { p.read_volatile() })
    }

    fn write<T: Copy>(&self, index: usize, value: T) {
        debug_assert_eq!(size_of::<T>(), self.stride);
        if let Some(p) = self.at::<T>(index, 0) {
            // SAFETY: as in `read`; the mapping is writable.
            unsafe { p.write_volatile(value) }
        }
    }
}

/// Descriptors of the maps.
#[derive(Debug, Clone, Copy)]
pub struct Maps<'a> {
    /// `pids`.
    pub pids: BorrowedFd<'a>,
    /// `tracks`.
    pub tracks: BorrowedFd<'a>,
    /// `rings`.
    pub rings: BorrowedFd<'a>,
    /// `records`.
    pub records: BorrowedFd<'a>,
    /// `texts`.
    pub texts: BorrowedFd<'a>,
    /// `tallies`.
    pub tallies: BorrowedFd<'a>,
}

/// How many elements each has.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Highest thread id + 1.
    pub pids: usize,
    /// Tracks, the unused one of index 0 included.
    pub tracks: usize,
    /// CPUs.
    pub cpus: usize,
    /// Records per CPU, a power of two.
    pub ring: usize,
}

impl Sizes {
    /// Elements of `pids`.
    pub fn pid_pages(&self) -> usize {
        self.pids.div_ceil(PIDS_PER_PAGE)
    }
}

/// What one pass over a ring gave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pass {
    /// A place was taken whose record is not there yet: records with a later stamp may be about to come.
    pub unfinished: bool,
    /// Records waiting when it began.
    pub waiting: usize,
    /// Records lost since the last pass, and when the first and the last of them.
    pub lost: Option<(u64, u64, u64)>,
}

/// The shared memory of one window.
#[derive(Debug)]
pub struct Shared {
    pids: Array,
    tracks: Array,
    rings: Array,
    records: Array,
    texts: Array,
    tallies: Array,
    sizes: Sizes,
}

impl Shared {
    /// Maps everything.
    pub fn map(maps: Maps<'_>, sizes: Sizes) -> Result<Self> {
        Ok(Self {
            pids: Array::map(maps.pids, size_of::<wire::pid_page>(), sizes.pid_pages())?,
            tracks: Array::map(maps.tracks, size_of::<wire::track>(), sizes.tracks)?,
            rings: Array::map(maps.rings, size_of::<wire::ring>(), sizes.cpus)?,
            records: Array::map(maps.records, size_of::<wire::record>(), sizes.cpus * sizes.ring)?,
            texts: Array::map(maps.texts, size_of::<wire::text>(), sizes.cpus * TEXTS)?,
            tallies: Array::map(maps.tallies, size_of::<wire::tally>(), sizes.cpus)?,
            sizes,
        })
    }

    /// Lets the pid table lead from a thread to a track; 0: to none. `false`: no such thread id.
    pub fn follow(&self, pid: u32, track: u16) -> bool {
        let (page, entry) = (pid as usize / PIDS_PER_PAGE, pid as usize % PIDS_PER_PAGE);
        let Some(p) = self.pids.at::<u16>(page, entry * 2) else { return false };
        // SAFETY: inside the mapping; an array of `u16`; the programs read and write it whole.
        let entry = unsafe { AtomicU16::from_ptr(p) };
        entry.store(track, Ordering::Release);
        true
    }

    /// Fills a track that the pid table does not lead to.
    pub fn put_track(&self, index: u16, track: wire::track) {
        self.tracks.write(usize::from(index), track);
    }

    /// Tells where a track's status row is.
    pub fn set_status(&self, index: u16, addr: u64) {
        self.tracks.u64(usize::from(index), offset_of!(wire::track, status)).store(addr, Ordering::Release);
    }

    /// A track as it is. `None`: it changed all the time.
    pub fn track(&self, index: u16) -> Option<wire::track> {
        let index = usize::from(index);
        let version = self.tracks.u32(index, offset_of!(wire::track, version));
        for _ in 0..ATTEMPTS {
            let before = version.load(Ordering::Acquire);
            let track: wire::track = self.tracks.read(index)?;
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && version.load(Ordering::Relaxed) == before {
                return Some(track);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Takes all whole records out of one CPU's ring.
    pub fn drain(&self, cpu: usize, out: &mut Vec<wire::record>) -> Pass {
        let ring = |offset| self.rings.u64(cpu, offset);
        let head = ring(offset_of!(wire::ring, head)).load(Ordering::Acquire);
        let tail_word = ring(offset_of!(wire::ring, tail));
        let mut tail = tail_word.load(Ordering::Relaxed);
        let mut pass = Pass { waiting: head.wrapping_sub(tail) as usize, ..Pass::default() };
        while tail != head {
            let place = cpu * self.sizes.ring + (tail as usize & (self.sizes.ring - 1));
            let seq = self.records.u64(place, offset_of!(wire::record, seq)).load(Ordering::Acquire);
            if seq != tail + 1 {
                pass.unfinished = true;
                break;
            }
            if let Some(record) = self.records.read::<wire::record>(place) {
                out.push(record);
            }
            tail += 1;
        }
        tail_word.store(tail, Ordering::Release);
        let lost = ring(offset_of!(wire::ring, lost)).load(Ordering::Acquire);
        let seen = ring(offset_of!(wire::ring, lost_seen));
        let before = seen.load(Ordering::Relaxed);
        if lost != before {
            let at = |offset| ring(offset).load(Ordering::Acquire);
            let (first, last) = (at(offset_of!(wire::ring, lost_first)), at(offset_of!(wire::ring, lost_last)));
            pass.lost = Some((first.min(last), last, lost.wrapping_sub(before)));
            seen.store(lost, Ordering::Release);
        }
        pass
    }

    /// The text of the statement that `pid` began at `activity_start`, kept at a place that a record names. `None`: overwritten since, or longer
    /// than what is kept.
    pub fn text(&self, place: u32, pid: u32, activity_start: i64) -> Option<String> {
        let index = (place as usize).checked_sub(1)?;
        let owner = self.texts.u32(index, offset_of!(wire::text, pid));
        if owner.load(Ordering::Acquire) != pid {
            return None;
        }
        let text: wire::text = self.texts.read(index)?;
        fence(Ordering::Acquire);
        if owner.load(Ordering::Relaxed) != pid || text.activity_start != activity_start {
            return None;
        }
        let bytes: Vec<u8> = text.sql.iter().map(|c| c.cast_unsigned()).take_while(|c| *c != 0).collect();
        (bytes.len() + 1 < text.sql.len()).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sums of the programs' counters.
    pub fn tally(&self) -> wire::tally {
        let mut sum = wire::tally::default();
        for cpu in 0..self.sizes.cpus {
            let Some(one) = self.tallies.read::<wire::tally>(cpu) else { continue };
            sum.writes += one.writes;
            sum.switches += one.switches;
            sum.faults += one.faults;
            sum.odd += one.odd;
        }
        sum
    }

    /// The sizes it was made with.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }
}
