//! A private PostgreSQL with a workload that is worth looking at.
//!
//! Owns a [`Cluster`] and the `psql` sessions that load it. Invariant: a [`Demo`] that is dropped, or whose program is gone for whatever
//! reason, leaves no process and no file. Runs on the caller's thread and makes none: each session repeats its SQL by
//! itself (`\watch`), and the phases of the show follow the server's clock (`phase()` in `data/demo/schema.sql`).

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use self::binaries::Installation;
use self::cluster::{Cluster, Seed, last_line};

pub mod binaries;
pub mod cluster;

/// All sessions are connected by then, or something is wrong.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// How the demo is wanted.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of `postgres` and `initdb`; by default the newest server found on this machine.
    pub bin: Option<PathBuf>,
    /// How long calm, locks, CPU and I/O last, each.
    pub phase: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { bin: None, phase: Duration::from_secs(25) }
    }
}

/// Some sessions that do the same.
struct Role {
    application: &'static str,
    user: &'static str,
    database: &'static str,
    sessions: usize,
    sql: &'static str,
}

const fn role(application: &'static str, user: &'static str, database: &'static str, sessions: usize, sql: &'static str) -> Role {
    Role { application, user, database, sessions, sql }
}

/// The databases, with their first rows.
const SCHEMA: &str = include_str!("../data/demo/schema.sql");

/// Who is connected and does what.
const ROLES: [Role; 13] = [
    role("web", "app", "shop", 6, include_str!("../data/demo/web.sql")),
    role("checkout", "app", "shop", 5, include_str!("../data/demo/checkout.sql")),
    role("orm", "app", "shop", 1, include_str!("../data/demo/orm.sql")),
    role("mobile", "app", "shop", 2, include_str!("../data/demo/idle.sql")),
    role("jobs", "batch", "shop", 4, include_str!("../data/demo/jobs.sql")),
    role("scheduler", "batch", "shop", 1, include_str!("../data/demo/scheduler.sql")),
    role("import", "batch", "analytics", 1, include_str!("../data/demo/import.sql")),
    role("dashboard", "report", "analytics", 2, include_str!("../data/demo/dashboard.sql")),
    role("export", "report", "analytics", 2, include_str!("../data/demo/export.sql")),
    role("forecast", "report", "analytics", 3, include_str!("../data/demo/forecast.sql")),
    role("spreadsheet", "report", "analytics", 3, include_str!("../data/demo/idle.sql")),
    role("maintenance", "postgres", "postgres", 1, include_str!("../data/demo/maintenance.sql")),
    role("monitoring", "postgres", "postgres", 1, include_str!("../data/demo/idle.sql")),
];

/// A server under load. Dropped, both are gone.
#[derive(Debug)]
pub struct Demo {
    /// The postmaster's process id.
    pub postmaster: i32,
    /// The data folder.
    pub pgdata: PathBuf,
    /// The folder of the unix socket, which is the only way in: `psql -h FOLDER -U postgres`.
    pub socket_dir: PathBuf,
    /// The server's version, as it says it.
    pub version: String,
    sessions: Vec<Child>,
    cluster: Cluster,
}

/// Makes a cluster, starts it, and returns once all sessions of the workload are connected, after a few seconds.
///
/// # Errors
///
/// When there is no server or no `psql` on this machine, or one of them does not do what it should; the message says what to do.
pub fn start(options: &Options) -> Result<Demo> {
    let server = Installation::find(options.bin.as_deref())?;
    let psql = binaries::client("psql", Some(&server.bin)).ok_or_else(|| {
        anyhow!("psql, which drives the demo's workload, was not found: install it (Debian, Ubuntu: apt-get install postgresql-client)")
    })?;
    let mut cluster = Cluster::create(&server.bin, &server.account, None, "pgwt-demo", Seed::Initdb)?;
    cluster.configure(&settings(&server, options.phase))?;
    start_server(&mut cluster)?;
    let postmaster = cluster.postmaster().context("the demo's server ended at once")?;
    let mut demo = Demo {
        postmaster: i32::try_from(postmaster).context("the demo's server has a strange process id")?,
        pgdata: cluster.pgdata(),
        socket_dir: cluster.dir().to_owned(),
        version: server.version,
        sessions: Vec::new(),
        cluster,
    };
    demo.make_schema(&psql)?;
    demo.start_sessions(&psql)?;
    Ok(demo)
}

/// Small buffers, frequent checkpoints and little memory for sorts: so that a small workload shows what a big one has.
fn settings(server: &Installation, phase: Duration) -> String {
    let query_ids = if server.major() >= 14 { "compute_query_id = on" } else { "" };
    format!(
        "cluster_name = 'demo'
shared_preload_libraries = 'pg_stat_statements'
{query_ids}
shared_buffers = 16MB
work_mem = 1MB
min_wal_size = 64MB
max_wal_size = 128MB
checkpoint_timeout = 30s
log_checkpoints = off
autovacuum_naptime = 10s
track_io_timing = on
demo.phase = '{}'
",
        phase.as_secs_f64().max(1.0)
    )
}

/// Starts the server, without pg_stat_statements if it has none.
fn start_server(cluster: &mut Cluster) -> Result<()> {
    match cluster.start() {
        Err(error) if error.to_string().contains("pg_stat_statements") => {
            cluster.configure("shared_preload_libraries = ''")?;
            cluster.start()
        }
        other => other,
    }
}

impl Demo {
    /// Do the server and all sessions of the workload still run?
    pub fn is_running(&mut self) -> bool {
        self.cluster.is_running() && self.sessions.iter_mut().all(|session| matches!(session.try_wait(), Ok(None)))
    }

    fn psql(&self, psql: &Path, application: &str, user: &str, database: &str) -> Command {
        let mut command = self.cluster.account().command(psql);
        command.args(["-X", "-q", "-w"]).stdin(Stdio::piped());
        command.env("PGHOST", &self.socket_dir).env("PGUSER", user).env("PGDATABASE", database).env("PGAPPNAME", application);
        command.env("PGOPTIONS", "-c client_min_messages=error");
        command
    }

    /// Runs a script to its end and returns what it printed.
    fn script(&self, psql: &Path, sql: &str) -> Result<String> {
        let mut command = self.psql(psql, "demo", "postgres", "postgres");
        let spawned = command.args(["-A", "-t"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.with_context(|| format!("could not run {}", psql.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A psql that gave up says why on its own: its end tells.
            let _ = stdin.write_all(sql.as_bytes());
        }
        let output = child.wait_with_output().with_context(|| format!("could not run {}", psql.display()))?;
        if !output.status.success() {
            bail!("the demo's SQL failed: {}", last_line(&output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn make_schema(&self, psql: &Path) -> Result<()> {
        self.script(psql, SCHEMA).map(drop)
    }

    fn start_sessions(&mut self, psql: &Path) -> Result<()> {
        let path = self.socket_dir.join("workload.log");
        let log = File::create(&path).with_context(|| format!("could not write {}", path.display()))?;
        for role in &ROLES {
            for _ in 0..role.sessions {
                let log = log.try_clone().context("could not share a file with psql")?;
                let mut command = self.psql(psql, role.application, role.user, role.database);
                let spawned = command.stdout(Stdio::null()).stderr(log).spawn();
                let mut child = spawned.with_context(|| format!("could not run {}", psql.display()))?;
                // The pipe holds the few lines at once, and stays open: psql goes on until it is told otherwise.
                let written = child.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(role.sql.as_bytes()));
                self.sessions.push(child);
                written.with_context(|| format!("could not talk to {}", psql.display()))?;
            }
        }
        let deadline = Instant::now() + CONNECT_LIMIT;
        let connected = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> 'demo'";
        while self.script(psql, connected)?.parse() != Ok(self.sessions.len()) {
            if !self.is_running() || Instant::now() > deadline {
                let said = fs::read_to_string(&path).unwrap_or_default();
                let why = said.lines().next_back().map_or_else(|| self.cluster.last_words(), str::to_owned);
                bail!("the demo's workload did not start: {why}");
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        for session in &mut self.sessions {
            let _ = session.kill();
        }
        for session in &mut self.sessions {
            let _ = session.wait();
        }
    }
}
