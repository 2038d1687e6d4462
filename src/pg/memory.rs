//! The server's main shared memory segment, read-only, from outside: mapped where that is allowed, else copied.
//!
//! Invariants: nothing is ever written; every address the server hands out is checked against the segment before use; a failed or short
//! read is an error, never a zero; dropping the [`Segment`] and its [`Area`]s unmaps at once. The `unsafe` code of this module tree is here and in `map`.
#![allow(unsafe_code)]

mod area;
mod map;

pub use area::Area;

use super::layout::SHMEM_MAGIC;
use super::process::{Mapping, ProcFs};
use crate::trace::health::Access;
use anyhow::{Context, Result, bail};
use area::Backing;
use map::Map;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// How to reach the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// Map, else read.
    #[default]
    Auto,
    /// Map or fail.
    Map,
    /// `process_vm_readv`, or `/proc/PID/mem` where that call is refused.
    Readv,
}

/// What became of the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The postmaster still uses it.
    Current,
    /// The postmaster has another one now, or none for the moment: crash restart. What was mapped is dead memory.
    Replaced,
    /// The postmaster is gone.
    Gone,
}

/// The main shared memory segment of a server.
#[derive(Debug)]
pub struct Segment {
    proc_fs: ProcFs,
    mapping: Mapping,
    /// Device and inode behind the mapping's entry in `map_files`, where we may look: quicker to compare than all of `maps`.
    link: Option<(u64, u64)>,
    start_ticks: u64,
    reader: Arc<Reader>,
    map: Option<Arc<Map>>,
}

impl Segment {
    /// Finds the segment of the server whose postmaster is `pid`.
    pub fn open(proc_fs: &ProcFs, pid: i32, reach: Reach) -> Result<Self> {
        let start_ticks = proc_fs.stat(pid).with_context(|| format!("process {pid} has ended"))?.start_ticks;
        let reader = Arc::new(Reader::new(proc_fs, pid));
        let mapping = find(proc_fs, pid, &reader)?;
        let map = match reach {
            Reach::Readv => None,
            Reach::Map => Some(map(proc_fs, pid, &mapping).with_context(|| {
                format!("cannot map the shared memory of process {pid}: needs root, or CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE and CAP_DAC_READ_SEARCH")
            })?),
            Reach::Auto => map(proc_fs, pid, &mapping).ok(),
        };
        let link = link(proc_fs, pid, &mapping).ok();
        Ok(Self { proc_fs: proc_fs.clone(), mapping, link, start_ticks, reader, map: map.map(Arc::new) })
    }

    /// How the memory is reached.
    pub fn access(&self) -> Access {
        if self.map.is_some() { Access::Mapped } else { Access::Readv }
    }

    /// Whether copies are read through `/proc/PID/mem` because `process_vm_readv` was refused.
    pub fn reads_mem_file(&self) -> bool {
        self.reader.by_file.load(Ordering::Relaxed)
    }

    /// First address of the segment in the server's address space; the same in all its processes.
    pub fn start(&self) -> u64 {
        self.mapping.start
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.mapping.end - self.mapping.start
    }

    /// Inode of the memory, the number that changes when a crash restart makes new memory at the same address.
    pub fn inode(&self) -> u64 {
        self.mapping.inode
    }

    /// Whether it has no bytes. Never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the postmaster still uses this segment. 50 µs; a few hundred where only its whole list of mappings can be read.
    pub fn still_current(&self) -> Standing {
        let (pid, mine) = (self.reader.pid, &self.mapping);
        let now = self.link.map_or_else(|| Err(io::ErrorKind::PermissionDenied.into()), |_| link(&self.proc_fs, pid, mine));
        let current = match now {
            Ok(link) => self.link == Some(link),
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(_) => {
                let same = |m: &Mapping| (m.start, m.end, m.device, m.inode) == (mine.start, mine.end, mine.device, mine.inode);
                self.proc_fs.maps(pid).is_ok_and(|maps| maps.iter().any(same))
            }
        };
        if current {
            Standing::Current
        } else if self.proc_fs.is_running(pid, Some(self.start_ticks)) {
            Standing::Replaced
        } else {
            Standing::Gone
        }
    }

    /// Offset of `addr` when `len` bytes from there lie inside.
    pub fn offset(&self, addr: u64, len: usize) -> Option<usize> {
        let offset = addr.checked_sub(self.mapping.start)?;
        let end = offset.checked_add(len as u64)?;
        (end <= self.len()).then(|| usize::try_from(offset).ok()).flatten()
    }

    /// A stretch of the segment for repeated reading. In copy mode this reads it.
    pub fn area(&self, addr: u64, len: usize) -> Result<Area> {
        let offset = self.offset(addr, len).with_context(|| format!("{len} bytes at {addr:#x} lie outside the shared memory"))?;
        let backing = match &self.map {
            Some(map) => Backing::Mapped { map: Arc::clone(map), offset },
            None => Backing::Copied { reader: Arc::clone(&self.reader), bytes: vec![0; len] },
        };
        let mut area = Area::new(addr, len, backing);
        area.refresh()?;
        Ok(area)
    }

    /// Copies bytes from an address in the segment, as they are now. `None` outside of it, or when the server is gone.
    pub fn copy(&self, addr: u64, to: &mut [u8]) -> Option<()> {
        let offset = self.offset(addr, to.len())?;
        match &self.map {
            Some(map) => map.copy(offset, to),
            None => self.reader.read(addr, to).ok(),
        }
    }

    /// A `uint32` at an address, as it is now.
    pub fn u32(&self, addr: u64) -> Option<u32> {
        let offset = self.offset(addr, 4)?;
        match &self.map {
            Some(map) => map.u32(offset),
            None => self.reader.array(addr).map(u32::from_ne_bytes),
        }
    }

    /// A `uint64` or a pointer at an address, as it is now.
    pub fn u64(&self, addr: u64) -> Option<u64> {
        let offset = self.offset(addr, 8)?;
        match &self.map {
            Some(map) => map.u64(offset),
            None => self.reader.array(addr).map(u64::from_ne_bytes),
        }
    }

    /// The bytes in front of the first NUL, at most `max`; fewer at the end of the segment.
    pub fn c_string(&self, addr: u64, max: usize) -> Option<Vec<u8>> {
        let room = self.mapping.end.checked_sub(addr)?;
        let max = max.min(usize::try_from(room).unwrap_or(max));
        if self.map.is_none() {
            let mut bytes = vec![0; max];
            self.copy(addr, &mut bytes)?;
            cut_at_nul(&mut bytes);
            return Some(bytes);
        }
        // Most strings are far shorter than they may be: no farther than to the NUL.
        let (mut bytes, mut piece) = (Vec::new(), [0; PIECE]);
        while bytes.len() < max {
            let piece = piece.get_mut(..PIECE.min(max - bytes.len()))?;
            self.copy(addr + bytes.len() as u64, piece)?;
            let end = piece.iter().position(|b| *b == 0);
            bytes.extend_from_slice(piece.get(..end.unwrap_or(piece.len()))?);
            if end.is_some() {
                break;
            }
        }
        Some(bytes)
    }

    /// Copies bytes that are private to the postmaster (its globals), not shared.
    pub fn copy_private(&self, addr: u64, to: &mut [u8]) -> Option<()> {
        self.reader.read(addr, to).ok()
    }
}

#[cfg(test)]
impl Segment {
    /// A segment made of these bytes, as if they lay at `start` in a server.
    pub(super) fn made_of(start: u64, bytes: &[u8]) -> Self {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, bytes).unwrap();
        let map = Map::of(&file, 0, bytes.len()).unwrap();
        let end = start + bytes.len() as u64;
        let mapping = Mapping { start, end, shared: true, offset: 0, device: (0, 1), inode: 1, path: "/dev/zero (deleted)".into() };
        let proc_fs = ProcFs::default();
        let reader = Arc::new(Reader::new(&proc_fs, 0));
        Self { proc_fs, mapping, link: None, start_ticks: 0, reader, map: Some(Arc::new(map)) }
    }
}

fn cut_at_nul(bytes: &mut Vec<u8>) {
    if let Some(end) = bytes.iter().position(|b| *b == 0) {
        bytes.truncate(end);
    }
}

/// Who made the shared memory of a process, by its own account: a postmaster names itself.
pub fn creator(proc_fs: &ProcFs, pid: i32) -> Option<i32> {
    let reader = Reader::new(proc_fs, pid);
    let mapping = find(proc_fs, pid, &reader).ok()?;
    reader.array(mapping.start + CREATOR).map(i32::from_ne_bytes)
}

/// Bytes of a string that are copied at once.
const PIECE: usize = 128;

/// Offset of `PGShmemHeader.creatorPID`, the same in all versions.
const CREATOR: u64 = 4;

/// Names the kernel gives the mappings PostgreSQL uses: anonymous, anonymous with huge pages, System V.
fn may_be_postgres(m: &Mapping) -> bool {
    m.shared && ["/dev/zero", "/anon_hugepage", "/SYSV"].iter().any(|p| m.path.starts_with(p))
}

/// The main segment. With `shared_memory_type = mmap` there is also a one-page System V shim that starts with a copy of the same header.
fn find(proc_fs: &ProcFs, pid: i32, reader: &Reader) -> Result<Mapping> {
    let maps = proc_fs
        .maps(pid)
        .with_context(|| format!("not allowed to look into process {pid}: run this as root or as the server's own user"))?;
    let mut refused = None;
    let mut found: Vec<Mapping> = Vec::new();
    for m in maps.into_iter().filter(may_be_postgres) {
        match reader.try_array(m.start).map(u32::from_ne_bytes) {
            Ok(SHMEM_MAGIC) => found.push(m),
            Ok(_) => {}
            Err(e) => refused = Some(e),
        }
    }
    found.sort_by_key(|m| (m.path.starts_with("/SYSV"), std::cmp::Reverse(m.end - m.start)));
    match (found.into_iter().next(), refused) {
        (Some(m), _) => Ok(m),
        (None, Some(e)) => {
            Err(e).with_context(|| format!("cannot read the memory of process {pid}: needs root, CAP_SYS_PTRACE, or the server's own user"))
        }
        (None, None) => bail!("process {pid} has no PostgreSQL shared memory: it is no postmaster, or is starting or stopping right now"),
    }
}

/// The kernel's door to what is mapped there: opens the very memory, whatever its name.
fn door(proc_fs: &ProcFs, pid: i32, m: &Mapping) -> PathBuf {
    proc_fs.path(pid, "map_files").join(format!("{:x}-{:x}", m.start, m.end))
}

fn link(proc_fs: &ProcFs, pid: i32, m: &Mapping) -> io::Result<(u64, u64)> {
    std::fs::metadata(door(proc_fs, pid, m)).map(|f| (f.dev(), f.ino()))
}

fn map(proc_fs: &ProcFs, pid: i32, m: &Mapping) -> io::Result<Map> {
    let file = File::open(door(proc_fs, pid, m))?;
    let len = usize::try_from(m.end - m.start).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    Map::of(&file, m.offset, len)
}

/// Copies another process's memory.
#[derive(Debug)]
struct Reader {
    pid: i32,
    mem: PathBuf,
    file: OnceLock<File>,
    by_file: AtomicBool,
}

impl Reader {
    fn new(proc_fs: &ProcFs, pid: i32) -> Self {
        Self { pid, mem: proc_fs.path(pid, "mem"), file: OnceLock::new(), by_file: AtomicBool::new(false) }
    }

    fn array<const N: usize>(&self, addr: u64) -> Option<[u8; N]> {
        self.try_array(addr).ok()
    }

    fn try_array<const N: usize>(&self, addr: u64) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(addr, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `to` or fails. Containers and sandboxes may refuse `process_vm_readv` while `/proc/PID/mem` works: both are tried, what works is kept.
    fn read(&self, addr: u64, to: &mut [u8]) -> io::Result<()> {
        if !self.by_file.load(Ordering::Relaxed) {
            match vm_read(self.pid, addr, to) {
                Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::EACCES)) => {
                    if self.read_file(addr, to).is_err() {
                        return Err(e);
                    }
                    self.by_file.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                other => return other,
            }
        }
        self.read_file(addr, to)
    }

    fn read_file(&self, addr: u64, to: &mut [u8]) -> io::Result<()> {
        let file = if let Some(file) = self.file.get() {
            file
        } else {
            let opened = File::open(&self.mem)?;
            self.file.get_or_init(|| opened)
        };
        file.read_exact_at(to, addr)
    }
}

/// `process_vm_readv`, resumed after short transfers.
fn vm_read(pid: i32, addr: u64, to: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = to.get_mut(done..).filter(|r| !r.is_empty()) {
        let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        let remote = libc::iovec { iov_base: (addr as usize).wrapping_add(done) as *mut libc::c_void, iov_len: rest.len() };
        // SAFETY: `local` describes the exclusively borrowed `rest`, which the kernel fills at most; `remote` is only an address in the
        // other process and is checked by the kernel.
        let n = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(n) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => done += n,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_process_both_ways() {
        let secret = *b"seen from outside";
        let reader = Reader::new(&ProcFs::default(), std::process::id().cast_signed());
        let addr = secret.as_ptr() as u64;
        assert_eq!(reader.array::<17>(addr), Some(secret));
        reader.by_file.store(true, Ordering::Relaxed);
        assert_eq!(reader.array::<17>(addr), Some(secret));
        assert_eq!(reader.array::<4>(8), None);
    }
}
