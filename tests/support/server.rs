//! A private server of a given version for one test.
//!
//! Invariant: when the [`Server`] is dropped, by a panic too, its processes and files are gone; when the test program is
//! killed they go by themselves (see `cluster`). A server that can't be had fails the test with `PGWT_REQUIRE_LIVE=1`,
//! and is otherwise said to be skipped: never silently.

use std::env;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use postgres::{Client, NoTls};

use super::binaries::{self, Installation};
use super::cluster::{self, Account, Cluster, Seed, Stop};
use super::wait_until;

/// Every version that is supported.
const ALL: [&str; 6] = ["13", "14", "15", "16", "17", "18"];

/// The versions to test: all, or those that `PGWT_PG_VERSIONS` names ("16,18").
pub fn versions() -> Vec<String> {
    let asked = env::var("PGWT_PG_VERSIONS").unwrap_or_default();
    let asked: Vec<String> = asked.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    if asked.is_empty() { ALL.map(str::to_owned).to_vec() } else { asked }
}

/// What a test needs and may lack. None, said on stderr, when it is not there; a panic with `PGWT_REQUIRE_LIVE=1`.
pub fn required<T>(what: &str, found: Result<T>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) if env::var_os("PGWT_REQUIRE_LIVE").is_some_and(|value| value == "1") => {
            panic!("PGWT_REQUIRE_LIVE=1, and there is no {what} to test with: {error:#}")
        }
        Err(error) => {
            eprintln!("skipped: no {what} to test with: {error:#}");
            None
        }
    }
}

/// How a test wants its server.
#[derive(Debug, Clone, Default)]
pub struct Options {
    preload: Vec<String>,
    lines: Vec<String>,
    durable: bool,
}

impl Options {
    /// The settings as shipped, except that nothing is flushed to disk, nor on a disk where memory is plenty.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more library in `shared_preload_libraries`.
    #[must_use]
    pub fn preload(mut self, library: &str) -> Self {
        self.preload.push(library.to_owned());
        self
    }

    /// One more line of postgresql.conf.
    #[must_use]
    pub fn conf(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// On a disk and with `fsync` on: for tests that look at I/O waits.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }
}

/// A running server of one's own.
#[derive(Debug)]
pub struct Server {
    cluster: Cluster,
    port: u16,
    psql: PathBuf,
    pgbench: PathBuf,
}

impl Server {
    /// Starts a server: "13" to "18", "18-stripped" (no symbols but the dynamic ones), or "system" (the newest that a
    /// package of the system installed). None, said on stderr, when it is not there; a panic with `PGWT_REQUIRE_LIVE=1`.
    pub fn start(version: &str, options: &Options) -> Option<Self> {
        let found = required(&format!("PostgreSQL {version}"), Requirements::of(version))?;
        Some(Self::launch(&found, options).unwrap_or_else(|error| panic!("PostgreSQL {version}: {error:#}")))
    }

    fn launch(found: &Requirements, options: &Options) -> Result<Self> {
        let Installation { bin, account, .. } = &found.server;
        let template = template(&found.server)?;
        let seed = template.as_deref().map_or(Seed::Initdb, Seed::Copy);
        let base = if options.durable { None } else { memory() };
        let mut cluster = Cluster::create(bin, account, base, "pgwt-test", seed)?;
        cluster.configure("listen_addresses = '127.0.0.1'\nlog_line_prefix = '%m [%p] '")?;
        if !options.durable {
            cluster.configure("fsync = off")?;
        }
        if !options.preload.is_empty() {
            cluster.configure(&format!("shared_preload_libraries = '{}'", options.preload.join(",")))?;
        }
        cluster.configure(&options.lines.join("\n"))?;
        // Another program may take the port between our look and the server's: then another one.
        for attempt in 1.. {
            let port = free_port()?;
            cluster.configure(&format!("port = {port}"))?;
            match cluster.start() {
                Ok(()) => return Ok(Self { cluster, port, psql: found.psql.clone(), pgbench: found.pgbench.clone() }),
                Err(error) if attempt >= 5 || !error.to_string().contains("TCP/IP") => return Err(error),
                Err(_) => {}
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// A connection through the socket, as superuser, to database `postgres`.
    pub fn connect(&self) -> Client {
        self.try_connect("postgres", "postgres").unwrap_or_else(|error| panic!("could not connect: {error}"))
    }

    /// A connection as this user to this database, or why not.
    pub fn try_connect(&self, user: &str, database: &str) -> Result<Client, postgres::Error> {
        let mut config = postgres::Config::new();
        config.host_path(self.cluster.dir()).port(self.port).user(user).dbname(database).application_name("pgwt-test");
        config.connect(NoTls)
    }

    /// Runs SQL in psql and returns what it prints: rows as lines, columns parted by `|`. Any error is a panic.
    pub fn psql(&self, sql: &str) -> String {
        let output = self.client(&self.psql).args(["-XAtqw", "-v", "ON_ERROR_STOP=1", "-c", sql]).output().expect("psql");
        assert!(output.status.success(), "psql failed: {}", cluster::last_line(&output));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Runs SQL in a psql that goes on beside the test.
    pub fn session(&self, sql: &str) -> Running {
        let mut command = self.client(&self.psql);
        command.args(["-XAtqw", "-v", "ON_ERROR_STOP=1", "-c", sql]);
        Running::spawn("psql", command)
    }

    /// Runs pgbench beside the test: `server.pgbench(&["-S", "-c", "8", "-T", "5"])`. First `&["-i", …]`, and `finish` that.
    pub fn pgbench(&self, arguments: &[&str]) -> Running {
        let mut command = self.client(&self.pgbench);
        command.args(arguments);
        Running::spawn("pgbench", command)
    }

    fn client(&self, program: &Path) -> Command {
        let mut command = self.cluster.account().command(program);
        command.env("PGHOST", self.cluster.dir()).env("PGPORT", self.port.to_string());
        command.env("PGUSER", "postgres").env("PGDATABASE", "postgres");
        command
    }

    /// Major version.
    pub fn major(&self) -> u32 {
        let text = fs::read_to_string(self.pgdata().join("PG_VERSION")).expect("PG_VERSION");
        text.trim().parse().expect("a number")
    }

    /// The postmaster's process id.
    pub fn pid(&self) -> u32 {
        self.cluster.postmaster().expect("the server runs")
    }

    /// The TCP port, on 127.0.0.1, also in the name of the socket.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the unix socket.
    pub fn socket_dir(&self) -> &Path {
        self.cluster.dir()
    }

    /// The data folder.
    pub fn pgdata(&self) -> PathBuf {
        self.cluster.pgdata()
    }

    /// All that the server has logged.
    pub fn log(&self) -> String {
        let log = fs::read(self.cluster.log()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Who the server runs as.
    pub fn account(&self) -> &Account {
        self.cluster.account()
    }

    /// Stops the server; its files stay for `restart`.
    pub fn stop(&mut self, how: Stop) {
        self.cluster.stop(how).expect("the server stops");
    }

    /// Stops the server if it runs, and starts it on the same data.
    pub fn restart(&mut self) {
        self.stop(Stop::Fast);
        self.cluster.start().unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Kills one backend as the kernel's out-of-memory killer would, and returns when the postmaster has thrown away the
    /// shared memory, made it anew, and lets clients in again.
    pub fn crash_backend(&self) {
        let again = "all server processes terminated; reinitializing";
        let before = self.log().matches(again).count();
        let mut victim = self.connect();
        let pid: i32 = victim.query_one("SELECT pg_backend_pid()", &[]).expect("a query").get(0);
        self.account().signal(pid.cast_unsigned(), "KILL").expect("a signal");
        let back = wait_until(Duration::from_secs(60), || {
            self.log().matches(again).count() > before && self.try_connect("postgres", "postgres").is_ok()
        });
        assert!(back, "the server did not come back after a crash: {}", self.cluster.last_words());
    }
}

/// A client that runs beside the test. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    name: &'static str,
    child: Child,
    said: File,
}

impl Running {
    fn spawn(name: &'static str, mut command: Command) -> Self {
        let said = tempfile::tempfile().expect("a temporary file");
        command.stdout(said.try_clone().expect("a file")).stderr(said.try_clone().expect("a file")).stdin(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("could not run {name}: {error}"));
        Self { name, child, said }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Does it still run?
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it has printed so far, errors too.
    pub fn said(&mut self) -> String {
        // Without moving the place where it writes on.
        let mut text = vec![0; self.said.metadata().expect("a file").len() as usize];
        self.said.read_exact_at(&mut text, 0).expect("a readable file");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Waits for its end and returns what it printed. Its failure is a panic.
    pub fn finish(mut self) -> String {
        let status = self.child.wait().expect("a child");
        let said = self.said();
        assert!(status.success(), "{} failed, {status}: {said}", self.name);
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a live test can't do without.
struct Requirements {
    server: Installation,
    psql: PathBuf,
    pgbench: PathBuf,
}

impl Requirements {
    fn of(version: &str) -> Result<Self> {
        let bin = if version == "system" {
            let mut packaged = binaries::packaged().filter(|bin| bin.join("postgres").exists());
            packaged.next().context("no package of PostgreSQL is installed: run scripts/need test")?
        } else {
            let cache = binaries::cache().context("neither PGWT_CACHE nor HOME is set")?;
            cache.join("servers").join(version).join("bin")
        };
        if !bin.join("postgres").exists() {
            bail!("{} is not there: run scripts/servers", bin.join("postgres").display());
        }
        let client = |name: &str| binaries::client(name, None).with_context(|| format!("{name} is not there: run scripts/need test"));
        Ok(Self { server: Installation::at(&bin)?, psql: client("psql")?, pgbench: client("pgbench")? })
    }
}

/// The data folder to copy from, made by the first test that needs it and kept in the cache: a copy takes a tenth of
/// initdb's time. None when the cache can't be written.
fn template(server: &Installation) -> Result<Option<PathBuf>> {
    let Some(templates) = binaries::cache().map(|cache| cache.join("templates")) else { return Ok(None) };
    if fs::create_dir_all(&templates).is_err() {
        return Ok(None);
    }
    let version: String = server.version.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
    let name = format!("{version}-{}", server.account.name);
    let done = templates.join(&name);
    if done.exists() {
        return Ok(Some(done));
    }
    let Ok(lock) = File::create(templates.join(format!(".{name}.lock"))) else { return Ok(None) };
    lock.lock().context("could not lock the templates")?;
    if !done.exists() {
        let new = templates.join(format!(".{name}.new"));
        if new.exists() {
            fs::remove_dir_all(&new).with_context(|| format!("could not remove {}", new.display()))?;
        }
        fs::create_dir(&new).with_context(|| format!("could not make {}", new.display()))?;
        if let Some((uid, gid)) = server.account.ids() {
            chown(&new, Some(uid), Some(gid)).with_context(|| format!("could not hand over {}", new.display()))?;
        }
        cluster::initdb(&server.bin, &server.account, &new)?;
        fs::rename(&new, &done).with_context(|| format!("could not rename {}", new.display()))?;
    }
    Ok(Some(done))
}

/// The file system in memory, where a thousand small files are made in a tenth of a disk's time, if it has room for clusters.
fn memory() -> Option<&'static Path> {
    let output = Command::new("df").args(["-Pm", "/dev/shm"]).output().ok()?;
    let free: u64 = String::from_utf8_lossy(&output.stdout).lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    (free > 4000).then(|| Path::new("/dev/shm"))
}

/// A TCP port that nobody listens on at the moment.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free TCP port")?;
    Ok(listener.local_addr().context("no free TCP port")?.port())
}
