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
const ROLES: [Role; 14] = [
    role("web", "app", "shop", 6, include_str!("../data/demo/web.sql")),
    role("checkout", "app", "shop", 4, include_str!("../data/demo/checkout.sql")),
    role("stock", "app", "shop", 4, include_str!("../data/demo/stock.sql")),
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
fsync = off
shared_preload_libraries = 'pg_stat_statements'
{query_ids}
shared_buffers = 16MB
work_mem = 1MB
min_wal_size = 64MB
max_wal_size = 128MB
checkpoint_timeout = 30s
log_checkpoints = off
checkpoint_warning = 0
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A demo on the server that is found first; None, said, when there is none and none is required.
    fn demo(phase: f64) -> Option<Demo> {
        match start(&Options { phase: Duration::from_secs_f64(phase), ..Options::default() }) {
            Ok(demo) => Some(demo),
            Err(error) if std::env::var_os("PGWT_REQUIRE_LIVE").is_none() && format!("{error:#}").contains("found") => {
                eprintln!("skipped: {error:#}");
                None
            }
            Err(error) => panic!("{error:#}"),
        }
    }

    fn connect(demo: &Demo) -> postgres::Client {
        let mut config = postgres::Config::new();
        config.host_path(&demo.socket_dir).user("postgres").dbname("postgres").connect(postgres::NoTls).unwrap()
    }

    #[test]
    fn it_shows_something_of_everything() {
        let Some(mut demo) = demo(2.0) else { return };
        let mut client = connect(&demo);
        let wanted =
            ["lock:transactionid", "lock:tuple", "lock:advisory", "timeout:pgsleep", "io:walsync", "cpu", "idle", "idle in transaction"];
        let sql = "SELECT lower(CASE WHEN state <> 'active' THEN state WHEN wait_event IS NULL THEN 'cpu'
                          ELSE wait_event_type || ':' || wait_event END)
                   FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let deadline = Instant::now() + Duration::from_secs(120);
        let mut seen = BTreeSet::new();
        while !wanted.iter().all(|state| seen.contains(*state)) {
            assert!(Instant::now() < deadline, "not everything came: {seen:?}");
            seen.extend(client.query(sql, &[]).unwrap().iter().map(|row| row.get::<_, String>(0)));
            thread::sleep(Duration::from_millis(10));
        }
        let sql = "SELECT DISTINCT usename || '@' || datname FROM pg_stat_activity WHERE backend_type = 'client backend' ORDER BY 1";
        let who: Vec<String> = client.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
        assert_eq!(who, ["app@shop", "batch@analytics", "batch@shop", "postgres@postgres", "report@analytics"]);
        assert_eq!(client.query_one("SHOW fsync", &[]).unwrap().get::<_, String>(0), "on");
        assert!(demo.is_running(), "sessions end: {:?}", fs::read_to_string(demo.socket_dir.join("workload.log")));
    }

    #[test]
    fn it_leaves_nothing() {
        let Some(demo) = demo(25.0) else { return };
        let process = PathBuf::from(format!("/proc/{}", demo.postmaster));
        let (dir, sessions): (_, Vec<u32>) = (demo.socket_dir.clone(), demo.sessions.iter().map(Child::id).collect());
        assert!(process.exists() && dir.exists());
        drop(demo);
        assert!(!process.exists() && !dir.exists());
        assert!(!sessions.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()));
    }

    #[test]
    fn a_folder_without_a_server_is_refused() {
        let error = start(&Options { bin: Some("/".into()), ..Options::default() }).unwrap_err();
        assert_eq!(error.to_string(), "there is no postgres in /: it must be the folder of PostgreSQL's postgres and initdb");
    }
}
