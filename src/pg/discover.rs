//! Finds the PostgreSQL servers of this machine, in containers too, and chooses one.
//!
//! By content, not by name: a postmaster is a process whose working directory holds a `postmaster.pid` with that process's own number in
//! its first line; where that directory may not be entered, one whose shared memory names it as its maker. Everything is reached through `/proc/PID`, so paths inside containers and replaced binaries work.

use super::memory;
use super::process::ProcFs;
use super::titles;
use super::version;
use crate::trace::catalog::UnixMicros;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A running server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Postmaster {
    /// Pid in our own pid namespace.
    pub pid: i32,
    /// Pid as the server knows it: differs in containers.
    pub namespace_pid: i32,
    /// Data directory as the server sees it.
    pub pgdata: PathBuf,
    /// Major version.
    pub major: u16,
    /// Version as the running binary states it, such as `18.4`; empty when it cannot be read.
    pub version: String,
    /// TCP port (also part of the socket's name), 0 when unknown.
    pub port: u16,
    /// When it started.
    pub started: UnixMicros,
    /// Path of the binary as the server sees it.
    pub exe: PathBuf,
    /// Whether it runs in another mount or pid namespace than we do.
    pub container: bool,
    /// `cluster_name`, where the titles of its processes show one.
    pub cluster: Option<String>,
}

impl fmt::Display for Postmaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.version.is_empty() { self.major.to_string() } else { self.version.clone() };
        write!(f, "pid {} PostgreSQL {version} port {} {}", self.pid, self.port, self.pgdata.display())?;
        if let Some(cluster) = &self.cluster {
            write!(f, " ({cluster})")?;
        }
        if self.container { f.write_str(" [container]") } else { Ok(()) }
    }
}

/// Why no server was chosen. The text is one line (a list follows where there are several) and says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotFound {
    /// No server runs here, as far as can be seen.
    NoServer,
    /// Processes of other users are hidden.
    Hidden,
    /// There are processes that look like a server, but we may not look into them.
    NotAllowed {
        /// One of them.
        pid: i32,
        /// Its user.
        uid: u32,
    },
    /// Several servers run; none was named.
    Several(Vec<Postmaster>),
    /// `--pid`: no such process.
    NoProcess(i32),
    /// `--pid`: a process of a server, but not its postmaster.
    Backend {
        /// The process.
        pid: i32,
        /// The postmaster it belongs to.
        postmaster: i32,
    },
    /// `--pid`: not PostgreSQL.
    NotPostgres(i32),
    /// `--pgdata`: not a data directory.
    NoDataDirectory(PathBuf),
    /// `--pgdata`: not allowed to look into it.
    Unreadable(PathBuf),
    /// `--pgdata`: no server runs on it.
    NotRunning(PathBuf),
    /// `--pgdata`: its `postmaster.pid` names a process that is no postmaster of it (any more).
    Stale {
        /// The directory.
        pgdata: PathBuf,
        /// The process named.
        pid: i32,
    },
    /// `--pid` and `--pgdata` name different servers.
    Disagree(Box<Postmaster>),
}

impl std::error::Error for NotFound {}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer => f.write_str("no running PostgreSQL server found: start one, or name it with --pid N or --pgdata DIR"),
            Self::Hidden => f.write_str(
                "processes of other users are hidden here (/proc is mounted with hidepid): run this as root or as the server's own user",
            ),
            Self::NotAllowed { pid, uid } => {
                write!(
                    f,
                    "process {pid} of user {uid} may be a PostgreSQL server, but looking into it is not allowed: run this with sudo, or as that user"
                )
            }
            Self::Several(servers) => {
                f.write_str("several PostgreSQL servers are running: choose one with --pid N or --pgdata DIR")?;
                servers.iter().try_for_each(|s| write!(f, "\n  {s}"))
            }
            Self::NoProcess(pid) => {
                write!(f, "there is no process {pid}: leave out --pid to find the server, or give the pid of its postmaster")
            }
            Self::Backend { pid, postmaster } => {
                write!(f, "process {pid} belongs to the PostgreSQL server whose postmaster is {postmaster}: say --pid {postmaster}")
            }
            Self::NotPostgres(pid) => {
                write!(f, "process {pid} is not a PostgreSQL server: leave out --pid to find the server, or give the pid of its postmaster")
            }
            Self::NoDataDirectory(dir) => {
                write!(f, "{} is not a PostgreSQL data directory (no PG_VERSION in it): check --pgdata", dir.display())
            }
            Self::Unreadable(dir) => {
                write!(f, "not allowed to look into {}: run this with sudo, or as the server's own user", dir.display())
            }
            Self::NotRunning(dir) => {
                write!(f, "no PostgreSQL server is running on {}: start it, or choose another with --pid or --pgdata", dir.display())
            }
            Self::Stale { pgdata, pid } => write!(
                f,
                "no PostgreSQL server is running on {}: its postmaster.pid names process {pid}, which is not its postmaster (left behind by a crash)",
                pgdata.display()
            ),
            Self::Disagree(server) => {
                write!(f, "--pid and --pgdata name different servers: process {} runs on {}", server.pid, server.pgdata.display())
            }
        }
    }
}

/// Every server that can be seen, by pid.
pub fn servers() -> Vec<Postmaster> {
    Scan::of(&ProcFs::default()).servers
}

/// The server meant by `--pid` and `--pgdata`, or the only one there is.
pub fn choose(pid: Option<i32>, pgdata: Option<&Path>) -> Result<Postmaster, NotFound> {
    choose_at(&ProcFs::default(), pid, pgdata)
}

fn choose_at(proc_fs: &ProcFs, pid: Option<i32>, pgdata: Option<&Path>) -> Result<Postmaster, NotFound> {
    let scan = Scan::of(proc_fs);
    let by_dir = pgdata.map(|dir| scan.on(proc_fs, dir)).transpose()?;
    let by_pid = pid.map(|pid| scan.of_process(proc_fs, pid)).transpose()?;
    match (by_pid, by_dir) {
        (Some(a), Some(b)) if a.pid != b.pid => Err(NotFound::Disagree(Box::new(a))),
        (Some(server), _) | (None, Some(server)) => Ok(server),
        (None, None) => match (scan.servers.len(), scan.denied) {
            (1, _) => scan.servers.into_iter().next().ok_or(NotFound::NoServer),
            (0, Some((pid, uid))) => Err(NotFound::NotAllowed { pid, uid }),
            (0, None) if hidden(proc_fs) => Err(NotFound::Hidden),
            (0, None) => Err(NotFound::NoServer),
            _ => Err(NotFound::Several(scan.servers)),
        },
    }
}

/// One look at all processes.
struct Scan {
    servers: Vec<Postmaster>,
    /// A process that looks like PostgreSQL and may not be looked into, and its user.
    denied: Option<(i32, u32)>,
}

impl Scan {
    fn of(proc_fs: &ProcFs) -> Self {
        let mut scan = Self { servers: Vec::new(), denied: None };
        for pid in proc_fs.pids().unwrap_or_default() {
            match inspect(proc_fs, pid, &scan.servers) {
                Ok(Some(server)) => scan.servers.push(server),
                Ok(None) => {}
                Err(Denied { uid }) => scan.denied = scan.denied.or(Some((pid, uid))),
            }
        }
        scan
    }

    fn of_process(&self, proc_fs: &ProcFs, pid: i32) -> Result<Postmaster, NotFound> {
        if let Some(server) = self.servers.iter().find(|s| s.pid == pid) {
            return Ok(server.clone());
        }
        let Ok(stat) = proc_fs.stat(pid) else {
            // Perhaps the number a container gave it.
            let mut inside = self.servers.iter().filter(|s| s.namespace_pid == pid);
            return match (inside.next(), inside.next()) {
                (Some(server), None) => Ok(server.clone()),
                (Some(_), Some(_)) => Err(NotFound::Several(self.servers.iter().filter(|s| s.namespace_pid == pid).cloned().collect())),
                (None, _) if hidden(proc_fs) => Err(NotFound::Hidden),
                (None, _) => Err(NotFound::NoProcess(pid)),
            };
        };
        if self.servers.iter().any(|s| s.pid == stat.parent) {
            return Err(NotFound::Backend { pid, postmaster: stat.parent });
        }
        match inspect(proc_fs, pid, &[]) {
            Err(Denied { uid }) => Err(NotFound::NotAllowed { pid, uid }),
            _ => Err(NotFound::NotPostgres(pid)),
        }
    }

    fn on(&self, proc_fs: &ProcFs, dir: &Path) -> Result<Postmaster, NotFound> {
        let same = |s: &&Postmaster| match (fs::metadata(dir), fs::metadata(proc_fs.path(s.pid, "cwd"))) {
            (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
            _ => false,
        };
        if let Some(server) = self.servers.iter().find(same) {
            return Ok(server.clone());
        }
        // A path that exists in a container only.
        let version = fs::metadata(dir.join("PG_VERSION"));
        if version.is_err() {
            let mut inside = self.servers.iter().filter(|s| s.container && s.pgdata == dir);
            match (inside.next(), inside.next()) {
                (Some(server), None) => return Ok(server.clone()),
                (Some(_), Some(_)) => return Err(NotFound::Several(self.servers.iter().filter(|s| s.pgdata == dir).cloned().collect())),
                (None, _) => {}
            }
        }
        if let Err(e) = version {
            return Err(if e.kind() == ErrorKind::PermissionDenied {
                NotFound::Unreadable(dir.into())
            } else {
                NotFound::NoDataDirectory(dir.into())
            });
        }
        match fs::read_to_string(dir.join("postmaster.pid")) {
            Ok(text) => match text.lines().next().and_then(|l| l.trim().parse::<i32>().ok()) {
                Some(pid) => match inspect(proc_fs, pid, &[]) {
                    Err(Denied { uid }) => Err(NotFound::NotAllowed { pid, uid }),
                    _ if proc_fs.stat(pid).is_err() && hidden(proc_fs) => Err(NotFound::Hidden),
                    _ => Err(NotFound::Stale { pgdata: dir.into(), pid }),
                },
                None => Err(NotFound::NotRunning(dir.into())),
            },
            Err(e) if e.kind() == ErrorKind::PermissionDenied => Err(NotFound::Unreadable(dir.into())),
            Err(_) => Err(NotFound::NotRunning(dir.into())),
        }
    }
}

struct Denied {
    uid: u32,
}

/// Whether a process is a postmaster. Unreadable processes count as denied only where their name suggests PostgreSQL. Children of the servers
/// found so far work in the same directory and are left at once.
fn inspect(proc_fs: &ProcFs, pid: i32, found: &[Postmaster]) -> Result<Option<Postmaster>, Denied> {
    let lock = match fs::read(proc_fs.path(pid, "cwd/postmaster.pid")) {
        Ok(lock) => Some(LockFile::parse(&lock)),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => None,
        Err(_) => return Ok(None),
    };
    let Ok(stat) = proc_fs.stat(pid) else { return Ok(None) };
    if matches!(stat.state, 'Z' | 'X') || found.iter().any(|s| s.pid == stat.parent) {
        return Ok(None);
    }
    let Ok(status) = proc_fs.status(pid) else { return Ok(None) };
    let namespace_pid = status.own_pid().unwrap_or(pid);
    let lock = match lock {
        Some(lock) if lock.pid == Some(namespace_pid) => lock,
        None if memory::creator(proc_fs, pid) == Some(namespace_pid) => LockFile::default(),
        None if proc_fs.maps(pid).is_err() && ["postgres", "postmaster"].iter().any(|name| stat.comm.starts_with(name)) => {
            return Err(Denied { uid: status.uid });
        }
        _ => return Ok(None),
    };
    let exe = fs::read_link(proc_fs.path(pid, "exe")).unwrap_or_default();
    let binary = version::of_binary(&proc_fs.path(pid, "exe"));
    let data = fs::read_to_string(proc_fs.path(pid, "cwd/PG_VERSION")).ok().and_then(|v| v.trim().parse().ok());
    let Some(major) = data.or_else(|| binary.as_deref().and_then(version::major)) else { return Ok(None) };
    let foreign = |ns: &str| match (fs::read_link(proc_fs.path(pid, "ns").join(ns)), fs::read_link(proc_fs.global("self/ns").join(ns))) {
        (Ok(theirs), Ok(ours)) => theirs != ours,
        _ => false,
    };
    Ok(Some(Postmaster {
        pid,
        namespace_pid,
        pgdata: fs::read_link(proc_fs.path(pid, "cwd")).ok().or(lock.pgdata).unwrap_or_default(),
        major,
        version: binary.unwrap_or_default(),
        port: lock.port.unwrap_or_default(),
        started: lock.started.or_else(|| Some(stat.started(proc_fs.boot()?))).unwrap_or_default(),
        exe,
        container: namespace_pid != pid || foreign("mnt") || foreign("pid"),
        cluster: proc_fs.children(pid).unwrap_or_default().into_iter().find_map(|c| titles::cluster(&proc_fs.title(c).ok()?)),
    }))
}

/// Whether `/proc` shows only our own processes.
fn hidden(proc_fs: &ProcFs) -> bool {
    proc_fs.stat(1).is_err() && fs::metadata(proc_fs.global("self")).is_ok()
}

/// `postmaster.pid`: pid, data directory, start time, port, socket directory, address, …
#[derive(Debug, Default, PartialEq, Eq)]
struct LockFile {
    pid: Option<i32>,
    pgdata: Option<PathBuf>,
    started: Option<UnixMicros>,
    port: Option<u16>,
}

impl LockFile {
    fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let mut lines = text.lines().map(str::trim);
        Self {
            pid: lines.next().and_then(|l| l.parse().ok()),
            pgdata: lines.next().filter(|l| !l.is_empty()).map(PathBuf::from),
            started: lines.next().and_then(|l| l.parse::<i64>().ok()).and_then(|s| s.checked_mul(1_000_000)),
            port: lines.next().and_then(|l| l.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A directory that looks like `/proc`, and data directories beside it.
    struct Machine {
        root: TempDir,
    }

    impl Machine {
        fn new() -> Self {
            let this = Self { root: tempfile::tempdir().unwrap() };
            this.process(1, 1, 0, "init", "/sbin/init");
            fs::create_dir(this.root.path().join("proc/self")).unwrap();
            this
        }

        fn proc_fs(&self) -> ProcFs {
            ProcFs::at(self.root.path().join("proc"))
        }

        fn dir(&self, name: &str) -> PathBuf {
            self.root.path().join(name)
        }

        /// A data directory as the server that calls itself `pid` leaves it.
        fn data(&self, name: &str, pid: i32, port: u16) -> PathBuf {
            let dir = self.dir(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("PG_VERSION"), "18\n").unwrap();
            fs::write(dir.join("postmaster.pid"), format!("{pid}\n/data/{name}\n1700000000\n{port}\n/tmp\n*\n 1 2\nready\n")).unwrap();
            dir
        }

        fn process(&self, pid: i32, own: i32, parent: i32, comm: &str, title: &str) {
            let dir = self.root.path().join("proc").join(pid.to_string());
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("stat"), format!("{pid} ({comm}) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {pid}00 0")).unwrap();
            let ns = if own == pid { pid.to_string() } else { format!("{pid}\t{own}") };
            fs::write(dir.join("status"), format!("Name:\t{comm}\nUid:\t0\t26\t0\t0\nNSpid:\t{ns}\n")).unwrap();
            fs::write(dir.join("cmdline"), format!("{title}\0\0")).unwrap();
        }

        /// A postmaster and two children.
        fn server(&self, pid: i32, own: i32, comm: &str, dir: &Path) {
            self.process(pid, own, 1, comm, "/usr/bin/postgres");
            self.process(pid + 1, own + 1, pid, comm, "postgres: main: checkpointer ");
            self.process(pid + 2, own + 2, pid, comm, "postgres: main: app shop [local] idle");
            let binary = self.dir(&format!("bin{pid}"));
            fs::write(&binary, b"\x7fELF\0PostgreSQL 18.4 on x86_64-pc-linux-gnu, compiled\0").unwrap();
            for p in pid..pid + 3 {
                symlink(dir, self.proc_fs().path(p, "cwd")).unwrap();
                symlink(&binary, self.proc_fs().path(p, "exe")).unwrap();
            }
        }

        fn choose(&self, pid: Option<i32>, dir: Option<&Path>) -> Result<Postmaster, NotFound> {
            choose_at(&self.proc_fs(), pid, dir)
        }
    }

    #[test]
    fn found_by_content_under_any_name() {
        for comm in ["postgres", "postmaster", "postgres.real", "edb-postgres", "a) R 1 (b"] {
            let m = Machine::new();
            let dir = m.data("main", 100, 5433);
            m.server(100, 100, comm, &dir);
            let found = m.choose(None, None).unwrap();
            let wanted = Postmaster {
                pid: 100,
                namespace_pid: 100,
                pgdata: dir,
                major: 18,
                version: "18.4".into(),
                port: 5433,
                started: 1_700_000_000_000_000,
                exe: m.dir("bin100"),
                container: false,
                cluster: Some("main".into()),
            };
            assert_eq!(found, wanted, "{comm}");
        }
    }

    #[test]
    fn several_servers_must_be_told_apart() {
        let m = Machine::new();
        let (a, b) = (m.data("a", 100, 5432), m.data("b", 200, 5433));
        m.server(100, 100, "postgres", &a);
        m.server(200, 200, "postgres", &b);
        let Err(NotFound::Several(list)) = m.choose(None, None) else { panic!("a choice without a choice") };
        let text = NotFound::Several(list).to_string();
        assert!(text.contains("--pid N or --pgdata DIR"), "{text}");
        assert!(text.contains(&format!("pid 200 PostgreSQL 18.4 port 5433 {}", b.display())), "{text}");
        assert_eq!(m.choose(Some(200), None).unwrap().port, 5433);
        assert_eq!(m.choose(None, Some(&a)).unwrap().pid, 100);
        assert_eq!(m.choose(Some(100), Some(&a)).unwrap().pid, 100);
        let link = m.dir("link");
        symlink(&a, &link).unwrap();
        assert_eq!(m.choose(None, Some(&link)).unwrap().pid, 100);
        assert!(matches!(m.choose(Some(200), Some(&a)), Err(NotFound::Disagree(_))));
    }

    #[test]
    fn containers_are_known_by_both_numbers() {
        let m = Machine::new();
        let dir = m.data("inside", 17, 5432);
        m.server(4711, 17, "postgres", &dir);
        let found = m.choose(None, None).unwrap();
        assert_eq!((found.pid, found.namespace_pid, found.container), (4711, 17, true));
        assert_eq!(m.choose(Some(4711), None).unwrap().pid, 4711);
        assert_eq!(m.choose(Some(17), None).unwrap().pid, 4711);
        // Another process has that number here.
        m.process(17, 17, 1, "sshd", "sshd");
        assert_eq!(m.choose(Some(17), None), Err(NotFound::NotPostgres(17)));
    }

    #[test]
    fn wrong_pids() {
        let m = Machine::new();
        let dir = m.data("main", 100, 5432);
        m.server(100, 100, "postgres", &dir);
        assert_eq!(m.choose(Some(102), None), Err(NotFound::Backend { pid: 102, postmaster: 100 }));
        assert_eq!(m.choose(Some(1), None), Err(NotFound::NotPostgres(1)));
        assert_eq!(m.choose(Some(999), None), Err(NotFound::NoProcess(999)));
        assert!(m.choose(Some(102), None).unwrap_err().to_string().ends_with("say --pid 100"));
    }

    #[test]
    fn wrong_directories() {
        let m = Machine::new();
        let empty = m.dir("empty");
        fs::create_dir(&empty).unwrap();
        assert_eq!(m.choose(None, Some(&empty)), Err(NotFound::NoDataDirectory(empty.clone())));
        assert_eq!(m.choose(None, Some(Path::new("/no/such"))), Err(NotFound::NoDataDirectory("/no/such".into())));
        let stopped = m.data("stopped", 300, 5432);
        assert_eq!(m.choose(None, Some(&stopped)), Err(NotFound::Stale { pgdata: stopped.clone(), pid: 300 }));
        m.process(300, 300, 1, "vim", "vim");
        assert_eq!(m.choose(None, Some(&stopped)), Err(NotFound::Stale { pgdata: stopped.clone(), pid: 300 }));
        fs::remove_file(stopped.join("postmaster.pid")).unwrap();
        assert_eq!(m.choose(None, Some(&stopped)), Err(NotFound::NotRunning(stopped)));
    }

    #[test]
    fn nothing_to_find() {
        let m = Machine::new();
        assert_eq!(m.choose(None, None), Err(NotFound::NoServer));
        fs::remove_dir_all(m.proc_fs().path(1, "")).unwrap();
        assert_eq!(m.choose(None, None), Err(NotFound::Hidden));
        assert_eq!(m.choose(Some(999), None), Err(NotFound::Hidden));
    }

    #[test]
    fn a_server_without_its_own_files_is_still_one() {
        let m = Machine::new();
        let dir = m.data("main", 100, 5432);
        m.server(100, 100, "postgres", &dir);
        fs::remove_file(m.dir("bin100")).unwrap();
        let found = m.choose(None, None).unwrap();
        assert_eq!((found.major, found.version.as_str()), (18, ""));
        assert!(found.to_string().starts_with("pid 100 PostgreSQL 18 port 5432"));
        m.server(200, 200, "postgres", &m.data("other", 200, 1));
        fs::remove_file(m.dir("other").join("PG_VERSION")).unwrap();
        assert_eq!(m.choose(Some(200), None).unwrap().major, 18);
    }

    #[test]
    fn lock_files_of_every_age() {
        let whole = LockFile::parse(b"42\n/data\n1700000000\n5432\n/tmp\n*\n");
        assert_eq!((whole.pid, whole.port, whole.started), (Some(42), Some(5432), Some(1_700_000_000_000_000)));
        assert_eq!(LockFile::parse(b"42\n"), LockFile { pid: Some(42), ..LockFile::default() });
        assert_eq!(LockFile::parse(b""), LockFile::default());
        assert_eq!(LockFile::parse(b"\xff\xfe\n\n").pid, None);
    }
}
