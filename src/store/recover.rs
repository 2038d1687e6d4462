//! What a crash left: whole blocks are kept under the name of a finished file, a torn tail is cut, and what is no trace is put aside. Nothing is deleted
//! but empty files and watermarks.

use super::access::{Access, sync};
use super::names;
use crate::trace::clock::Ts;
use crate::trace::codec::frame::{Framed, Frames, read_own};
use crate::trace::codec::header::{BLOCK_HEADER, BlockHeader, FILE_HEADER, FileHeader, footer, footer_len, read_footer};
use crate::trace::codec::kind;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What became of `current.trace`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// There was none, or it held nothing.
    Nothing,
    /// It is a finished file now.
    Finished {
        /// Under this name.
        path: PathBuf,
        /// Bytes behind the last whole block that were cut off.
        cut: u64,
    },
    /// It was no trace and is kept under this name.
    Aside(PathBuf),
}

/// The local hour of a wall-clock time, as names of files have it.
pub fn hour(wall_ns: i64, zone: &TimeZone) -> String {
    which_hour(wall_ns, zone).0
}

/// The same, and how far the place is from UTC then, seconds: an hour that comes twice is two.
pub fn which_hour(wall_ns: i64, zone: &TimeZone) -> (String, i32) {
    let at = Timestamp::from_nanosecond(i128::from(wall_ns)).unwrap_or_default();
    let offset = zone.to_offset(at);
    (offset.to_datetime(at).strftime("%Y-%m-%d_%H").to_string(), offset.seconds())
}

/// Gives a file the name of a finished one that no other file has.
pub fn finish(dir: &Path, from: &Path, hour: &str) -> io::Result<PathBuf> {
    for n in 0..10_000 {
        let to = dir.join(names::archive(hour, n));
        match rename_to_free(from, &to) {
            Ok(()) => return Ok(to),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "ten thousand files of one hour"))
}

#[cfg(target_os = "linux")]
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems cannot say it in one step.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if !to.exists() => fs::rename(from, to),
        other => Ok(other?),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() { Err(io::ErrorKind::AlreadyExists.into()) } else { fs::rename(from, to) }
}

/// Finishes what a recorder before this one left. The directory's lock must be held.
pub fn recover(dir: &Path, access: Access, zone: &TimeZone, now_unix: u64) -> io::Result<Found> {
    let current = dir.join(names::CURRENT);
    for left in ["current.trace.meta.tmp", "wait_event_names.json.tmp", "query_texts.jsonl.tmp"] {
        fs::remove_file(dir.join(left)).ok();
    }
    let found = match fs::metadata(&current) {
        Ok(_) => settle(dir, &current, access, zone, now_unix)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => Found::Nothing,
        Err(e) => return Err(e),
    };
    fs::remove_file(names::meta(dir)).ok();
    sync(dir)?;
    Ok(found)
}

fn settle(dir: &Path, current: &Path, access: Access, zone: &TimeZone, now_unix: u64) -> io::Result<Found> {
    let file = access.open(current, OpenOptions::new().read(true).write(true))?;
    let len = file.metadata()?.len();
    if len == 0 {
        fs::remove_file(current)?;
        return Ok(Found::Nothing);
    }
    let mut head = vec![0; FILE_HEADER.min(len as usize)];
    file.read_exact_at(&mut head, 0)?;
    let blocks = scan(&file, len)?;
    let (Ok(header), Some((_, end))) = (FileHeader::read(&head), blocks.last().map(|b| (b.0, b.2))) else {
        if len <= FILE_HEADER as u64 && FileHeader::read(&head).is_ok() {
            fs::remove_file(current)?;
            return Ok(Found::Nothing);
        }
        let mut to = dir.join(format!("{}.corrupt.{now_unix}", names::CURRENT));
        for n in 1.. {
            match rename_to_free(current, &to) {
                Ok(()) => break,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && n < 1_000 => {
                    to = dir.join(format!("{}.corrupt.{}", names::CURRENT, now_unix + n));
                }
                Err(e) => return Err(e),
            }
        }
        return Ok(Found::Aside(to));
    };
    let mut cut = 0;
    if !has_footer(&file, len, end) {
        cut = len - end;
        file.set_len(end)?;
        let mut index: Vec<(Ts, u64)> = blocks.iter().map(|(first, offset, _)| (*first, *offset)).collect();
        let contents = super::file::File::open(current).map(|f| f.index_blocks()).unwrap_or_default();
        let mut at = end;
        for block in Frames(&contents) {
            index.push((block.header.first, at));
            at += block.bytes.len() as u64;
        }
        file.write_all_at(&contents, end)?;
        file.write_all_at(&footer(&index), at)?;
    }
    file.sync_all()?;
    let path = finish(dir, current, &hour(header.clock.wall_ns, zone))?;
    Ok(Found::Finished { path, cut })
}

fn has_footer(file: &File, len: u64, end: u64) -> bool {
    let read = || {
        let mut bytes = vec![0; usize::try_from(len.checked_sub(end)?).ok()?];
        file.read_exact_at(&mut bytes, end).ok()?;
        let last = *bytes.last_chunk::<4>()?;
        (footer_len(last, len)? == len - end).then(|| read_footer(&bytes, len)).flatten()
    };
    read().is_some()
}

/// First time, offset and end of every whole block; in a file of ours, up to the last whole group.
fn scan(file: &File, len: u64) -> io::Result<Vec<(Ts, u64, u64)>> {
    let mut blocks: Vec<(Ts, u64, u64)> = Vec::new();
    let mut kinds: Vec<(u16, u32)> = Vec::new();
    let mut at = FILE_HEADER as u64;
    let mut head = [0; BLOCK_HEADER];
    while at + BLOCK_HEADER as u64 <= len {
        file.read_exact_at(&mut head, at)?;
        let Some(h) = BlockHeader::read(&head) else { break };
        let end = at + BLOCK_HEADER as u64 + u64::from(h.packed);
        if end > len {
            break;
        }
        blocks.push((h.first, at, end));
        kinds.push((h.kind, h.count));
        at = end;
    }
    if kinds.first().is_none_or(|k| k.0 != kind::FILE) {
        return Ok(blocks);
    }
    // Groups are written in one piece: one without its end, or with a wrong checksum, is the torn tail.
    while let Some((what, count)) = kinds.last() {
        let n = if *what <= kind::SAMPLES { 0 } else { *count as usize };
        let from = blocks.len().checked_sub(n.max(1)).and_then(|i| blocks.get(i)).map_or(0, |b| b.1);
        let to = blocks.last().map_or(0, |b| b.2);
        let mut bytes = vec![0; (to - from) as usize];
        file.read_exact_at(&mut bytes, from)?;
        let frames: Vec<Framed<'_>> = Frames(&bytes).collect();
        let whole = n > 0 && frames.split_last().is_some_and(|(own, beside)| read_own(own, beside).is_ok());
        if whole {
            break;
        }
        blocks.pop();
        kinds.pop();
    }
    Ok(blocks)
}
