//! A private, throw-away PostgreSQL cluster.
//!
//! Owns one temporary folder (data, socket, log), the server that runs on it, and the keeper: a small `sh` that waits on a
//! pipe whose other end only this program holds. Invariant: once a [`Cluster`] is dropped, or this program is gone for
//! whatever reason (SIGKILL too), the server is stopped and the folder removed. The server never runs as root.
//! Runs on the caller's thread and makes none.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often a condition is looked at that has no file descriptor to wait on.
const LOOK: Duration = Duration::from_millis(10);
/// A server that has not said "ready" by then will not.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a shutdown of the kind asked for may take before a harder one follows.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// The keeper. Reads to the end of the pipe, which comes when this program closes it or is gone; then stops the server of
/// the folder `$1` if it is still that server (its working directory is the data folder), frees the shared memory of
/// a postmaster that could not do so itself, and removes the folder, more than once if an `initdb` is still at work in it.
/// Signals meant for the program do not reach it.
const KEEPER: &str = r#"
trap '' HUP INT TERM QUIT
while read -r _; do :; done
data=$1/data
runs() { [ "$(readlink "/proc/$pid/cwd")" = "$data" ]; }
if [ -r "$data/postmaster.pid" ]; then
    { read -r pid; read -r _; read -r _; read -r _; read -r _; read -r _; read -r _ shared; } <"$data/postmaster.pid"
    tries=0
    while runs; do
        case $tries in
            0) kill -s QUIT "$pid" ;;
            100) kill -s KILL "$pid" ;;
            120) break ;;
        esac
        tries=$((tries + 1))
        sleep 0.1
    done
    [ ! -e "$data/postmaster.pid" ] || [ -z "$shared" ] || ipcrm -m "$shared"
fi
tries=0
while rm -rf "$1"; [ -e "$1" ] && [ "$tries" -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
"#;

/// Who a server and its clients run as.
#[derive(Debug, Clone)]
pub struct Account {
    /// Its name, for messages and for keeping apart what belongs to one account.
    pub name: String,
    /// User and group, when they are not this program's own.
    ids: Option<(u32, u32)>,
}

impl Account {
    /// The accounts that a server may run as, best first: ourselves, or for root, whom PostgreSQL refuses to run as, `postgres`,
    /// the user who called sudo, `nobody`.
    pub fn candidates() -> Result<Vec<Self>> {
        if id(&["-u"])? != "0" {
            return Ok(vec![Self { name: id(&["-u"])?, ids: None }]);
        }
        let sudo = env::var("SUDO_USER").ok().filter(|name| name != "root");
        let names = ["postgres".to_owned()].into_iter().chain(sudo).chain(["nobody".to_owned()]);
        let accounts: Vec<Self> = names.filter_map(Self::named).collect();
        if accounts.is_empty() {
            bail!(
                "PostgreSQL does not run as root, and there is no user `postgres` or `nobody` to run it as: add one (useradd --system postgres)"
            );
        }
        Ok(accounts)
    }

    fn named(name: String) -> Option<Self> {
        let uid = id(&["-u", &name]).ok()?.parse().ok()?;
        let gid = id(&["-g", &name]).ok()?.parse().ok()?;
        Some(Self { name, ids: Some((uid, gid)) })
    }

    /// A command that runs as this account, in a process group of its own (the terminal's Ctrl-C is not for it), without
    /// input, and without the PostgreSQL settings of our environment.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in env::vars_os() {
            let name_text = name.to_string_lossy();
            if name_text.starts_with("PG") && !name_text.starts_with("PGWT_") {
                command.env_remove(&name);
            }
        }
        command.current_dir("/").stdin(Stdio::null()).env("LC_ALL", "C").process_group(0);
        if let Some((uid, gid)) = self.ids {
            command.uid(uid).gid(gid).env("HOME", "/");
        }
        command
    }

    /// User and group of what this account owns, when they are not our own.
    pub fn ids(&self) -> Option<(u32, u32)> {
        self.ids
    }

    /// Sends a signal by its name (`QUIT`), as this account: it can reach no process of others.
    pub fn signal(&self, pid: u32, signal: &str) -> Result<()> {
        let output = self.command("/bin/sh").args(["-c", r#"kill -s "$0" "$1""#, signal, &pid.to_string()]).output();
        let output = output.context("could not run /bin/sh to send a signal")?;
        if !output.status.success() {
            bail!("could not send SIG{signal} to process {pid}: {}", last_line(&output));
        }
        Ok(())
    }
}

/// What `id` answers.
fn id(arguments: &[&str]) -> Result<String> {
    let output = Command::new("id").args(arguments).output().context("could not run `id`, which tells who we are")?;
    if !output.status.success() {
        bail!("`id {}` failed: {}", arguments.join(" "), last_line(&output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The last thing a program said, on one line: errors first.
pub fn last_line(output: &Output) -> String {
    let (errors, said) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    let line = errors.lines().chain(said.lines()).rev().find(|line| !line.trim().is_empty() && !line.starts_with("HINT"));
    line.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned())
}

/// Where the data of a new cluster comes from.
#[derive(Debug, Clone, Copy)]
pub enum Seed<'a> {
    /// `initdb`.
    Initdb,
    /// A copy of a data folder that [`initdb`] made for the same account.
    Copy(&'a Path),
}

/// How a server is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// When its clients have left.
    Smart,
    /// At once, clients thrown out, with a checkpoint.
    Fast,
    /// At once, as in a crash.
    Immediate,
}

impl Stop {
    fn signal(self) -> &'static str {
        match self {
            Self::Smart => "TERM",
            Self::Fast => "INT",
            Self::Immediate => "QUIT",
        }
    }
}

/// Makes the data folder of a cluster: superuser `postgres`, UTF-8, C locale, everybody who reaches the socket may enter.
pub fn initdb(bin: &Path, account: &Account, data: &Path) -> Result<()> {
    let mut command = account.command(bin.join("initdb"));
    command.args(["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"]).arg(data);
    let output = command.output().with_context(|| format!("could not run {}", bin.join("initdb").display()))?;
    if !output.status.success() {
        bail!("{} failed for {}: {}", bin.join("initdb").display(), data.display(), last_line(&output));
    }
    Ok(())
}

/// A cluster in a temporary folder, stopped or running.
#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    bin: PathBuf,
    account: Account,
    postmaster: Option<Child>,
    keeper: Child,
    /// Open for as long as the cluster is wanted: the keeper waits for its end.
    wanted: Option<ChildStdin>,
}

impl Cluster {
    /// A new cluster, not yet started, in a folder below `base` if given and usable, else where temporary files go. `bin`
    /// holds `initdb` and `postgres`, which `account` can run.
    pub fn create(bin: &Path, account: &Account, base: Option<&Path>, name: &str, seed: Seed<'_>) -> Result<Self> {
        let dir = make_dir(account, base, name)?;
        let mut keeper = account.command("/bin/sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(&dir).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut keeper = match keeper.spawn() {
            Ok(keeper) => keeper,
            Err(error) => {
                let _ = fs::remove_dir_all(&dir);
                return Err(error).context("could not run /bin/sh to look after the server");
            }
        };
        let wanted = keeper.stdin.take();
        let cluster = Self { dir, bin: bin.to_owned(), account: account.clone(), postmaster: None, keeper, wanted };
        match seed {
            Seed::Initdb => initdb(bin, account, &cluster.pgdata())?,
            Seed::Copy(template) => {
                let output = account.command("cp").arg("-a").arg(template).arg(cluster.pgdata()).output().context("could not run cp")?;
                if !output.status.success() {
                    bail!("could not copy {} to {}: {}", template.display(), cluster.pgdata().display(), last_line(&output));
                }
            }
        }
        cluster.configure(&format!("listen_addresses = ''\nunix_socket_directories = '{}'\n", cluster.dir.display()))?;
        Ok(cluster)
    }

    /// Adds lines to postgresql.conf; a later line wins over an earlier one.
    pub fn configure(&self, lines: &str) -> Result<()> {
        let path = self.pgdata().join("postgresql.conf");
        let file = fs::OpenOptions::new().append(true).open(&path);
        let written = file.and_then(|mut file| writeln!(file, "{lines}"));
        written.with_context(|| format!("could not write {}", path.display()))
    }

    /// Starts the server and returns once it accepts connections.
    pub fn start(&mut self) -> Result<()> {
        if self.postmaster.is_some() {
            bail!("the server in {} runs already", self.dir.display());
        }
        let mut command = self.account.command("/bin/sh");
        command.args(["-c", r#"exec "$0" -D "$1" >>"$2" 2>&1"#]).arg(self.bin.join("postgres")).arg(self.pgdata()).arg(self.log());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("could not run /bin/sh to start the server")?;
        let pid = child.id();
        let child = self.postmaster.insert(child);
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Some(status) = child.try_wait().context("could not ask how the server does")? {
                self.postmaster = None;
                bail!("PostgreSQL ({}) did not start, {status}: {}", self.bin.display(), self.last_words());
            }
            if is_ready(&self.dir.join("data/postmaster.pid"), pid) {
                return Ok(());
            }
            if Instant::now() > deadline {
                self.stop(Stop::Immediate)?;
                bail!("PostgreSQL ({}) was not ready after {} s: {}", self.bin.display(), START_LIMIT.as_secs(), self.last_words());
            }
            thread::sleep(LOOK);
        }
    }

    /// Stops the server and returns once it is gone, with harder means if it takes too long. Fine if it does not run.
    pub fn stop(&mut self, how: Stop) -> Result<()> {
        let Some(mut child) = self.postmaster.take() else { return Ok(()) };
        for signal in [how.signal(), "QUIT", "KILL"] {
            if child.try_wait().context("could not ask how the server does")?.is_some() {
                break;
            }
            // It may end between the question and the signal: only its end counts.
            let _ = self.account.signal(child.id(), signal);
            let deadline = Instant::now() + STOP_LIMIT;
            while Instant::now() < deadline {
                if child.try_wait().context("could not ask how the server does")?.is_some() {
                    return Ok(());
                }
                thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Does the server run? One that ended by itself is noticed here.
    pub fn is_running(&mut self) -> bool {
        let ended = self.postmaster.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
        if ended {
            self.postmaster = None;
        }
        self.postmaster.is_some()
    }

    /// The postmaster's process id while it runs.
    pub fn postmaster(&self) -> Option<u32> {
        self.postmaster.as_ref().map(Child::id)
    }

    /// The temporary folder. Its path is short: it is where the socket is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The data folder.
    pub fn pgdata(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The server's log.
    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Who the server runs as.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The last thing of weight in the server's log.
    pub fn last_words(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let weighty = |line: &&str| ["FATAL", "PANIC", "ERROR", "error"].iter().any(|word| line.contains(word));
        let line = log.lines().rev().find(weighty).or_else(|| log.lines().next_back());
        line.map_or_else(|| "its log is empty".to_owned(), |line| line.trim().to_owned())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.stop(Stop::Immediate);
        self.wanted = None;
        let _ = self.keeper.wait();
        // What the account may not remove (a temporary folder that only we may change), we do.
        if self.dir.exists() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// A new folder with a short path that `account` owns and nobody else can enter.
fn make_dir(account: &Account, base: Option<&Path>, name: &str) -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let bases = base.map(Path::to_owned).into_iter().chain([env::temp_dir(), "/tmp".into(), "/var/tmp".into()]);
    let mut said = String::new();
    // A socket's path must stay below 108 bytes.
    for base in bases.filter(|base| base.as_os_str().len() < 60) {
        for _ in 0..1000 {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let dir = base.join(format!("{name}-{}-{number}", std::process::id()));
            if fs::symlink_metadata(&dir).is_ok() {
                continue;
            }
            let output = account.command("mkdir").args(["-m", "700"]).arg(&dir).output().context("could not run mkdir")?;
            if output.status.success() {
                return Ok(dir);
            }
            said = last_line(&output);
            if fs::symlink_metadata(&dir).is_err() {
                break;
            }
        }
    }
    bail!("could not make a temporary folder as user {}: {said}", account.name)
}

/// Does postmaster.pid say that postmaster `pid` accepts connections? The words are pg_ctl's.
fn is_ready(path: &Path, pid: u32) -> bool {
    let Ok(text) = fs::read_to_string(path) else { return false };
    let mut lines = text.lines();
    lines.next().and_then(|line| line.trim().parse().ok()) == Some(pid) && lines.nth(6).is_some_and(|line| line.trim() == "ready")
}
