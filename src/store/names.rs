//! Names of files in a trace directory. Times in names are local.

use std::path::{Path, PathBuf};

/// The file being written.
pub const CURRENT: &str = "current.trace";
/// End of the name of a finished file.
const ARCHIVE: &str = ".trace.lz4";

/// The watermark beside the file being written: how many whole blocks it holds.
pub fn meta(dir: &Path) -> PathBuf {
    dir.join("current.trace.meta")
}

/// The name of a finished file: its hour, and a number from the second file of an hour on.
pub fn archive(hour: &str, n: u32) -> String {
    if n == 0 { format!("{hour}{ARCHIVE}") } else { format!("{hour}.{n}{ARCHIVE}") }
}

/// The hour (`YYYY-MM-DD_HH`) and number a name of a finished file says; `None` for any other name.
pub fn hour(name: &str) -> Option<(&str, u32)> {
    let stem = name.strip_suffix(ARCHIVE)?;
    let (hour, n) = match stem.split_once('.') {
        Some((hour, n)) => (hour, n.parse().ok()?),
        None => (stem, 0),
    };
    let shape = hour.len() == 13
        && hour.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b'-',
            10 => b == b'_',
            _ => b.is_ascii_digit(),
        });
    shape.then_some((hour, n))
}

/// Whether a file of this name holds a trace.
pub fn is_trace(name: &str) -> bool {
    name == CURRENT || hour(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        assert_eq!(hour(&archive("2026-03-01_14", 0)), Some(("2026-03-01_14", 0)));
        assert_eq!(hour("2026-03-01_14.12.trace.lz4"), Some(("2026-03-01_14", 12)));
        for other in
            ["current.trace", "2026-03-01_14.summary.lz4", "2026-03-01-14.trace.lz4", "notes.trace.lz4", "2026-03-01_14.x.trace.lz4"]
        {
            assert_eq!(hour(other), None, "{other}");
        }
        assert!(is_trace(CURRENT) && !is_trace("current.trace.meta"));
    }
}
