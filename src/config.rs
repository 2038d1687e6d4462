//! Settings: defaults < user file < environment < command line. Read once at start.
//!
//! The file is `$XDG_CONFIG_HOME/pg_wait_tracer/config.toml` (else `~/.config/…`), then `/etc/pg_wait_tracer/config.toml`. It holds only what
//! differs from the defaults; an unknown key is an error.

use crate::cli::Color;
use anyhow::Context;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What the file may say.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// As `--theme`.
    pub theme: Option<String>,
    /// As `--color`.
    pub color: Option<Color>,
    /// As `--tz`.
    pub tz: Option<String>,
    /// As `--interval`, seconds.
    pub interval: Option<u32>,
    /// As `--sample-rate`, Hz.
    pub sample_rate: Option<u32>,
    /// As `--ascii`.
    #[serde(default)]
    pub ascii: bool,
    /// `false` leaves the mouse to the terminal.
    pub mouse: Option<bool>,
}

impl Config {
    /// The first file that exists; defaults when none does.
    pub fn load() -> anyhow::Result<Self> {
        for path in places() {
            match std::fs::read_to_string(&path) {
                Ok(text) => return Self::parse(&text, &path),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                // A file that this user may not read is not this user's: of the machine, or of root whose HOME was kept.
                Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {}
                Err(e) => return Err(e).with_context(|| format!("cannot read the configuration {}", path.display())),
            }
        }
        Ok(Self::default())
    }

    fn parse(text: &str, path: &Path) -> anyhow::Result<Self> {
        let config: Self = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |s| text.get(..s.start).map_or(1, |head| head.matches('\n').count() + 1));
            anyhow::anyhow!("{}:{line}: {}", path.display(), e.message().replace('\n', " "))
        })?;
        if let Some(hz) = config.sample_rate
            && !(1..=10_000).contains(&hz)
        {
            anyhow::bail!("{}: sample-rate is {hz}, but must be 1 to 10000", path.display());
        }
        if config.interval == Some(0) {
            anyhow::bail!("{}: interval is 0, but must be at least 1 second", path.display());
        }
        Ok(config)
    }
}

fn places() -> Vec<PathBuf> {
    let home = std::env::var_os("XDG_CONFIG_HOME")
        .filter(|d| !d.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".config")));
    home.into_iter().chain([PathBuf::from("/etc")]).map(|d| d.join("pg_wait_tracer/config.toml")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> anyhow::Result<Config> {
        Config::parse(text, Path::new("config.toml"))
    }

    #[test]
    fn the_file_holds_what_differs() {
        let config = parse("theme = \"light\"\nsample-rate = 50\nmouse = false\n").unwrap();
        assert_eq!(config, Config { theme: Some("light".into()), sample_rate: Some(50), mouse: Some(false), ..Config::default() });
        assert_eq!(parse("").unwrap(), Config::default());
    }

    #[test]
    fn errors_name_file_line_and_what_is_allowed() {
        let unknown = parse("theme = \"light\"\ncolour = \"always\"\n").unwrap_err().to_string();
        assert!(unknown.starts_with("config.toml:2:") && unknown.contains("`colour`") && unknown.contains("`color`"), "{unknown}");
        assert!(parse("sample-rate = 0").unwrap_err().to_string().contains("1 to 10000"));
        assert!(parse("color = \"sometimes\"").unwrap_err().to_string().contains("auto"));
    }
}
