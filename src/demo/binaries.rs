//! Where PostgreSQL's programs are on this machine.
//!
//! Owns the order in which places are looked at. Invariant: a server that is returned has been run (`postgres -V`) as the account
//! that is returned with it. Runs on the caller's thread.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::cluster::{Account, last_line};

/// A PostgreSQL server that can be run, and as whom.
#[derive(Debug, Clone)]
pub struct Installation {
    /// The folder of `postgres` and `initdb`.
    pub bin: PathBuf,
    /// What `postgres -V` says: `18.4`, `15.18 (Debian 15.18-0+deb12u1)`.
    pub version: String,
    /// Who can run it.
    pub account: Account,
}

impl Installation {
    /// The server in a folder, or why it can't be run.
    pub fn at(bin: &Path) -> Result<Self> {
        let mut said = String::new();
        for program in ["postgres", "initdb"] {
            if !bin.join(program).exists() {
                bail!("there is no {program} in {}: it must be the folder of PostgreSQL's postgres and initdb", bin.display());
            }
        }
        for account in Account::candidates()? {
            match account.command(bin.join("postgres")).arg("-V").output() {
                Ok(output) if output.status.success() => {
                    let text = String::from_utf8_lossy(&output.stdout);
                    let version = text.trim().trim_start_matches("postgres (PostgreSQL) ").to_owned();
                    return Ok(Self { bin: bin.to_owned(), version, account });
                }
                Ok(output) => said = format!("as user {}: {}", account.name, last_line(&output)),
                Err(error) => said = format!("as user {}: {error}", account.name),
            }
        }
        bail!("{} does not run {said}", bin.join("postgres").display())
    }

    /// The major version, 0 when its text is not understood.
    pub fn major(&self) -> u32 {
        self.version.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    /// The first server that runs: the folder asked for and no other; else `PGWT_PG_BIN` and no other; else the newest of
    /// the cache, of the system's packages, or on `PATH`.
    pub fn find(asked: Option<&Path>) -> Result<Self> {
        if let Some(bin) = asked.map(Path::to_owned).or_else(|| env::var_os("PGWT_PG_BIN").map(PathBuf::from)) {
            return Self::at(&bin);
        }
        let cached = cache().map(|cache| cache.join("servers")).into_iter().flat_map(|servers| newest_first(&servers, ""));
        let mut said = None;
        for bin in cached.chain(packaged()).chain(on_path()).filter(|bin| bin.join("postgres").exists()) {
            match Self::at(&bin) {
                Ok(found) => return Ok(found),
                Err(error) => said = said.or(Some(error)),
            }
        }
        let remedy = "install one (Debian, Ubuntu: apt-get install postgresql) or set PGWT_PG_BIN to the folder of postgres and initdb";
        match said {
            Some(error) => bail!("no PostgreSQL server that can be run: {error:#}; {remedy}"),
            None => bail!("no PostgreSQL server found in the cache, /usr/lib/postgresql, /usr/pgsql-* or PATH: {remedy}"),
        }
    }
}

/// A client program of PostgreSQL, such as `psql`: beside the server, else the newest of the system's packages, else on `PATH`.
pub fn client(program: &str, beside: Option<&Path>) -> Option<PathBuf> {
    let mut places = beside.map(Path::to_owned).into_iter().chain(packaged()).chain(on_path());
    places.find_map(|bin| Some(bin.join(program)).filter(|path| path.is_file()))
}

/// The folder for what is fetched or built once, the one that `scripts/cache` prints.
pub fn cache() -> Option<PathBuf> {
    if let Some(cache) = env::var_os("PGWT_CACHE").filter(|cache| !cache.is_empty()) {
        return Some(cache.into());
    }
    if Account::candidates().ok()?.iter().any(|account| account.ids().is_some()) {
        return Some("/var/cache/pg_wait_tracer".into());
    }
    let home = env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    home.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache"))).map(|dir| dir.join("pg_wait_tracer"))
}

/// The `bin` folders of the system's packages: Debian's and the PostgreSQL project's.
pub fn packaged() -> impl Iterator<Item = PathBuf> {
    newest_first(Path::new("/usr/lib/postgresql"), "").into_iter().chain(newest_first(Path::new("/usr"), "pgsql-"))
}

fn on_path() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

/// The `bin` folders of the versions below `parent`, whose names are `prefix` and a number.
fn newest_first(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, bin)| bin).collect()
}
