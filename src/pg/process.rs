//! Facts about processes, read from `/proc` (or, in tests, from a directory that looks like it).
//!
//! Nothing is cached and nothing is trusted: names hold any bytes, a process may end between two reads, and then the read fails.

use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::trace::catalog::UnixMicros;

/// `/proc` counts start times in hundredths of a second on every machine.
const TICK: UnixMicros = 10_000;

/// A proc file system.
#[derive(Debug, Clone)]
pub struct ProcFs {
    root: PathBuf,
}

impl Default for ProcFs {
    fn default() -> Self {
        Self::at("/proc")
    }
}

/// What `/proc/PID/stat` says, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The short name, bad bytes replaced.
    pub comm: String,
    /// `R`, `S`, `Z`, …
    pub state: char,
    /// Parent process.
    pub parent: i32,
    /// Start in clock ticks since boot: with the pid, the identity of a process.
    pub start_ticks: u64,
}

impl Stat {
    /// When the process started, given when the machine did.
    pub fn started(&self, boot: UnixMicros) -> UnixMicros {
        boot.saturating_add(self.start_ticks.cast_signed().saturating_mul(TICK))
    }
}

/// What `/proc/PID/status` says, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Pid in each pid namespace the process is in, the outermost (ours) first.
    pub ns_pids: Vec<i32>,
    /// Effective user.
    pub uid: u32,
    /// CPUs the process may run on.
    pub cpus: u32,
}

impl Status {
    /// The pid as the process itself knows it.
    pub fn own_pid(&self) -> Option<i32> {
        self.ns_pids.last().copied()
    }
}

/// A line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Whether it is shared (`s`) rather than private.
    pub shared: bool,
    /// Offset into the file.
    pub offset: u64,
    /// Device, major and minor.
    pub device: (u32, u32),
    /// Inode on that device; 0 for none.
    pub inode: u64,
    /// Path as the kernel prints it, bad bytes replaced; only ever shown or compared with names of the kernel's own.
    pub path: String,
}

impl ProcFs {
    /// A directory that looks like `/proc`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A file of a process: `/proc/PID/NAME`.
    pub fn path(&self, pid: i32, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(pid.to_string()).join(name)
    }

    /// A file that belongs to no process: `/proc/NAME`.
    pub fn global(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// Every process that can be seen, ascending.
    pub fn pids(&self) -> Result<Vec<i32>> {
        let mut pids: Vec<i32> =
            fs::read_dir(&self.root)?.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).filter(|pid| *pid > 0).collect();
        pids.sort_unstable();
        Ok(pids)
    }

    /// Parent, state and start of a process.
    pub fn stat(&self, pid: i32) -> Result<Stat> {
        parse_stat(&fs::read(self.path(pid, "stat"))?).ok_or_else(malformed)
    }

    /// Namespaces, user and CPUs of a process.
    pub fn status(&self, pid: i32) -> Result<Status> {
        Ok(parse_status(&fs::read(self.path(pid, "status"))?))
    }

    /// The mappings of a process, ascending.
    pub fn maps(&self, pid: i32) -> Result<Vec<Mapping>> {
        let text = fs::read(self.path(pid, "maps"))?;
        Ok(text.split(|b| *b == b'\n').filter_map(parse_mapping).collect())
    }

    /// The command line, which PostgreSQL overwrites with its title: up to the first NUL.
    pub fn title(&self, pid: i32) -> Result<Vec<u8>> {
        let mut line = fs::read(self.path(pid, "cmdline"))?;
        if let Some(end) = line.iter().position(|b| *b == 0) {
            line.truncate(end);
        }
        Ok(line)
    }

    /// The processes whose parent is `parent`, ascending.
    pub fn children(&self, parent: i32) -> Result<Vec<i32>> {
        let quick = self.path(parent, "task").join(parent.to_string()).join("children");
        if let Ok(text) = fs::read_to_string(quick) {
            let mut pids: Vec<i32> = text.split_ascii_whitespace().filter_map(|p| p.parse().ok()).collect();
            pids.sort_unstable();
            return Ok(pids);
        }
        Ok(self.pids()?.into_iter().filter(|pid| self.stat(*pid).is_ok_and(|s| s.parent == parent)).collect())
    }

    /// When the machine started, by the clock as it is set now.
    pub fn boot(&self) -> Option<UnixMicros> {
        let uptime: f64 = fs::read_to_string(self.global("uptime")).ok()?.split(' ').next()?.parse().ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_micros();
        Some(UnixMicros::try_from(now).ok()? - (uptime * 1e6) as UnixMicros)
    }

    /// Whether a process runs: it exists, is not a zombie and, where `start_ticks` is known, is still the same one.
    pub fn is_running(&self, pid: i32, start_ticks: Option<u64>) -> bool {
        self.stat(pid).is_ok_and(|s| !matches!(s.state, 'Z' | 'X' | 'x') && start_ticks.is_none_or(|t| t == s.start_ticks))
    }
}

fn malformed() -> Error {
    Error::new(ErrorKind::InvalidData, "malformed")
}

/// Splits behind the last `)`: the name in front of it may hold spaces, parentheses and newlines.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let comm = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let start_ticks = fields.nth(17)?.parse().ok()?;
    Some(Stat { comm, state, parent, start_ticks })
}

fn parse_status(text: &[u8]) -> Status {
    let mut status = Status::default();
    for line in text.split(|b| *b == b'\n').filter_map(|l| std::str::from_utf8(l).ok()) {
        let Some((key, value)) = line.split_once(':') else { continue };
        match key {
            "NSpid" => status.ns_pids = value.split_ascii_whitespace().filter_map(|v| v.parse().ok()).collect(),
            "Uid" => status.uid = value.split_ascii_whitespace().nth(1).and_then(|v| v.parse().ok()).unwrap_or_default(),
            "Cpus_allowed" => status.cpus = value.chars().filter_map(|c| c.to_digit(16)).map(u32::count_ones).sum(),
            _ => {}
        }
    }
    status
}

/// `START-END PERMS OFFSET MAJOR:MINOR INODE   PATH`.
fn parse_mapping(line: &[u8]) -> Option<Mapping> {
    let line = String::from_utf8_lossy(line);
    let mut rest = &*line;
    let mut next = || {
        let (field, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = tail;
        field
    };
    let (start, end) = next().split_once('-')?;
    let perms = next();
    let offset = next();
    let (major, minor) = next().split_once(':')?;
    let inode = next();
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        shared: perms.as_bytes().get(3) == Some(&b's'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode: inode.parse().ok()?,
        path: rest.trim_start_matches(' ').to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_and_newlines() {
        let tail = "S 17 3 3 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 1 0 987654 1 2 3";
        for name in ["postgres", "a) R 1", "sleep (2) .sh", "new\nline", "", ") ) )"] {
            let stat = parse_stat(format!("42 ({name}) {tail}").as_bytes()).unwrap();
            assert_eq!(stat, Stat { comm: name.into(), state: 'S', parent: 17, start_ticks: 987_654 });
        }
        assert_eq!(parse_stat(b"42 (x"), None);
        assert_eq!(parse_stat(b"42 (x) S 1"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn status_lines() {
        let s = parse_status(b"Name:\tp\xffq\nUid:\t26\t27\t26\t26\nNSpid:\t4711\t17\nCpus_allowed:\tff,00000003\n");
        assert_eq!(s, Status { ns_pids: vec![4711, 17], uid: 27, cpus: 10 });
        assert_eq!(s.own_pid(), Some(17));
        assert_eq!(parse_status(b""), Status::default());
    }

    #[test]
    fn mappings_with_odd_paths() {
        let m = parse_mapping(b"7f01-7fff rw-s 00001000 00:01 3790                             /dev/zero (deleted)").unwrap();
        assert_eq!((m.start, m.end, m.shared, m.offset, m.device, m.inode), (0x7f01, 0x7fff, true, 0x1000, (0, 1), 3790));
        assert_eq!(m.path, "/dev/zero (deleted)");
        let m = parse_mapping(b"1-2 r-xp 00000000 fe:00 12 /a b/\xff (deleted)").unwrap();
        assert!(!m.shared && m.path.ends_with("(deleted)"));
        assert_eq!(parse_mapping(b"1-2 rw-p 00000000 00:00 0 ").unwrap().path, "");
        assert_eq!(parse_mapping(b"1-2 rw-p 00000000 00:00 0").unwrap().path, "");
        assert!(parse_mapping(b"").is_none());
        assert!(parse_mapping(b"garbage").is_none());
    }
}
