//! Old recordings go: by age, and by size of the whole directory. 0 keeps everything. The file being written and files of unknown names stay.

use super::names;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Hours; 0: however old.
    pub hours: u64,
    /// Bytes; 0: however much.
    pub bytes: u64,
}

/// What went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retained {
    /// Files removed.
    pub removed: Vec<PathBuf>,
    /// Bytes left, when they are still more than wanted: what is left may not be removed.
    pub over: Option<u64>,
}

/// Leftovers are removed when they are older than this, seconds.
const LEFTOVER: u64 = 3_600;

/// When a finished file was begun, by its name, in seconds since 1970. Of an hour that comes twice: the later one.
fn begun(name: &str, zone: &TimeZone) -> Option<u64> {
    let hour = names::hour(name).map(|(h, _)| h).or_else(|| name.strip_suffix(".summary.lz4").and_then(|s| s.get(..13)))?;
    let at = DateTime::strptime("%Y-%m-%d_%H:%M", format!("{hour}:00")).ok()?;
    u64::try_from(zone.to_ambiguous_timestamp(at).later().ok()?.as_second()).ok()
}

/// Removes what is too old and too much.
pub fn retain(dir: &Path, limits: Limits, zone: &TimeZone, now_unix: u64) -> io::Result<Retained> {
    let mut kept: Vec<(u64, u64, PathBuf)> = Vec::new();
    let (mut total, mut out) = (0, Retained::default());
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(meta) = entry.metadata() else { continue };
        let file_name = entry.file_name();
        let (Some(name), true) = (file_name.to_str(), meta.is_file()) else { continue };
        let changed = meta.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok()).map_or(0, |d| d.as_secs());
        let mut remove = |path: PathBuf| match fs::remove_file(&path) {
            Ok(()) => {
                out.removed.push(path);
                true
            }
            Err(_) => false,
        };
        let leftover = name.ends_with(".meta.tmp") || name.ends_with(".jsonl.tmp");
        if leftover && changed + LEFTOVER < now_unix && remove(entry.path()) {
            continue;
        }
        let ours = begun(name, zone).or_else(|| name.contains(".corrupt.").then_some(changed));
        if let Some(begun) = ours {
            let old = limits.hours > 0 && begun.saturating_add((limits.hours + 1) * 3_600) <= now_unix;
            if old && remove(entry.path()) {
                continue;
            }
            kept.push((begun, meta.len(), entry.path()));
        }
        total += meta.len();
    }
    if limits.bytes > 0 {
        kept.sort();
        for (_, len, path) in kept {
            if total <= limits.bytes {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                total -= len;
                out.removed.push(path);
            }
        }
        out.over = (total > limits.bytes).then_some(total);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> TimeZone {
        TimeZone::get("Europe/Berlin").unwrap()
    }

    #[test]
    fn age_counts_from_the_end_of_the_hour_and_zero_keeps_everything() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["2026-03-01_10.trace.lz4", "2026-03-01_11.trace.lz4", "2026-03-01_11.2.trace.lz4", "current.trace", "notes.txt"] {
            fs::write(dir.path().join(name), [0; 100]).unwrap();
        }
        // 2026-03-01 12:59 in Berlin.
        let now = 1_772_366_340;
        let keep = |hours, bytes| retain(dir.path(), Limits { hours, bytes }, &zone(), now).unwrap();
        assert_eq!(keep(0, 0), Retained::default());
        assert_eq!(keep(2, 0).removed, Vec::<PathBuf>::new());
        assert_eq!(keep(1, 0).removed, [dir.path().join("2026-03-01_10.trace.lz4")]);
        let two = keep(0, 250);
        assert_eq!(two.removed.len(), 2);
        assert_eq!(two.over, None);
        assert_eq!(keep(0, 150).over, Some(200), "the file being written and strangers stay");
    }

    #[test]
    fn the_hour_that_comes_twice_counts_as_the_later_one() {
        assert_eq!(begun("2026-10-25_02.trace.lz4", &zone()), Some(1_792_890_000));
        assert_eq!(begun("2026-13-01_10.trace.lz4", &zone()), None);
    }
}
