//! The binary as a user runs it: once to its end, or as a daemon beside the test.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a condition may take to come true.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The binary, without any setting of the machine it runs on.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pg_wait_tracer"));
    command.env_remove("PGDATA").env("XDG_CONFIG_HOME", "/nonexistent").env("TZ", "UTC").stdin(Stdio::null());
    command
}

pub fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

/// What it prints. It must end well and say nothing on stderr.
pub fn prints(arguments: &[&str]) -> String {
    let out = run(arguments);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && stderr.is_empty(), "{arguments:?}: {:?} {stderr}", out.status);
    String::from_utf8(out.stdout).unwrap()
}

/// Each line it prints as JSON.
pub fn objects(arguments: &[&str]) -> Vec<serde_json::Value> {
    prints(arguments).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// One line on stderr (clap's usage errors have a hint below), nothing on stdout, this status.
pub fn refused(arguments: &[&str], status: i32, says: &[&str]) {
    let out = run(arguments);
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(status), "{arguments:?}: {stderr}");
    assert!(out.stdout.is_empty(), "{arguments:?}");
    for word in says {
        assert!(stderr.contains(word), "{arguments:?} should say '{word}': {stderr}");
    }
    assert!(!stderr.contains("panicked") && !stderr.contains("Backtrace"), "{stderr}");
    if !stderr.starts_with("error:") {
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("pg_wait_tracer: "), "{stderr}");
    }
}

pub fn scenario(name: &str) -> String {
    format!("{}/tests/scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// The wall clock, nanoseconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Looks at a condition until it holds. Says what never came true.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The program beside the test. Dropped, it is killed.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    said: File,
}

impl Daemon {
    /// `--daemon -T dir` and more.
    pub fn start(dir: &std::path::Path, arguments: &[&str]) -> Self {
        let mut command = program();
        command.args(["--daemon", "-T"]).arg(dir).args(arguments);
        // Windows that open by themselves are for the tests that ask for them.
        if !arguments.iter().any(|a| *a == "--mode" || a.starts_with("--anomaly-")) {
            command.args(["--mode", "sampled"]);
        }
        Self::spawn(command)
    }

    pub fn spawn(mut command: Command) -> Self {
        let said = tempfile::tempfile().unwrap();
        let child = command.stdout(Stdio::null()).stderr(said.try_clone().unwrap()).spawn().unwrap();
        Self { child, said }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All it has said on stderr.
    pub fn stderr(&self) -> String {
        // Without moving the place where the program, which has the same open file, writes on.
        let mut bytes = vec![0; self.said.metadata().unwrap().len() as usize];
        self.said.read_exact_at(&mut bytes, 0).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How many lines of stderr contain this.
    pub fn times(&self, word: &str) -> usize {
        self.stderr().lines().filter(|line| line.contains(word)).count()
    }

    /// Waits until it has said this.
    pub fn says(&mut self, word: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.stderr().contains(word) {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("ended with {status} instead of saying '{word}': {}", self.stderr());
            }
            assert!(Instant::now() < deadline, "never said '{word}': {}", self.stderr());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal; when it was sent, wall clock.
    pub fn signal(&self, name: &str) -> u64 {
        assert!(Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status().unwrap().success());
        now()
    }

    /// Kills it as the kernel would, and waits for its end; when, wall clock.
    pub fn kill(mut self) -> u64 {
        self.child.kill().unwrap();
        let at = now();
        self.child.wait().unwrap();
        at
    }

    /// Waits for its end: status, and all it has said.
    pub fn ends(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.stderr());
            }
            assert!(Instant::now() < deadline, "still running: {}", self.stderr());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it in order: status 0.
    pub fn stop(self) -> String {
        self.signal("TERM");
        let (status, said) = self.ends();
        assert_eq!(status, Some(0), "{said}");
        said
    }

    /// CPU time it has used so far, seconds.
    pub fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
