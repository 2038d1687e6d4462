//! What the rules that open windows have learned and spent, as `escalation.json` in the directory: for the next recorder of the same server.

use super::access::Access;
use crate::trace::clock::{Clock, SECOND, Span, Ts};
use crate::trace::learned::Learned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// Its name.
pub const NAME: &str = "escalation.json";
/// Older than this it says nothing any more, seconds: the hour of the budget.
const OLD_S: f64 = 3_600.0;
/// The clock may have been put back by so much, seconds.
const AHEAD_S: f64 = 60.0;
/// Larger is none of ours, bytes.
const LARGEST: u64 = 256 << 10;

/// Times are seconds since 1970.
#[derive(Debug, Serialize, Deserialize)]
struct Page {
    format: u32,
    written: f64,
    server: String,
    baseline_aas: Option<f64>,
    quiet_until: f64,
    spent: Vec<(f64, f64)>,
}

fn seconds(wall_ns: i64) -> f64 {
    wall_ns as f64 / SECOND as f64
}

/// Replaces the file.
pub fn write(dir: &Path, access: Access, clock: Clock, learned: &Learned) -> io::Result<()> {
    let wall = |at: Ts| seconds(clock.wall(at));
    let page = Page {
        format: 1,
        written: seconds(clock.wall_ns),
        server: learned.server.clone(),
        baseline_aas: learned.baseline_aas,
        quiet_until: wall(learned.quiet_until),
        spent: learned.spent.iter().map(|s| (wall(s.start), wall(s.end))).collect(),
    };
    access.replace(&dir.join(NAME), &serde_json::to_vec(&page)?)
}

/// Reads what was kept of a server, on the clock of now. `None`: there is nothing. The error is one line: why it is not used.
pub fn read(dir: &Path, server: &str, now: Clock) -> Result<Option<Learned>, String> {
    let path = dir.join(NAME);
    let refuse = |why: &str| format!("{} is not used, {why}: budget and usual load begin anew", path.display());
    match fs::metadata(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(meta) if meta.len() > LARGEST => return Err(refuse("it is too large")),
        _ => {}
    }
    let bytes = fs::read(&path).map_err(|e| refuse(&format!("it cannot be read ({e})")))?;
    let page: Page = serde_json::from_slice(&bytes).map_err(|_| refuse("it holds something else"))?;
    let wall = seconds(now.wall_ns);
    let finite = |x: f64| x.is_finite();
    let sound = page.format == 1
        && [page.written, page.quiet_until].into_iter().all(finite)
        && page.baseline_aas.is_none_or(|b| finite(b) && b >= 0.0)
        && page.spent.iter().all(|(start, end)| finite(*start) && finite(*end) && start <= end && *end <= page.written + 1.0);
    if !sound {
        return Err(refuse("it holds something else"));
    }
    if page.server != server {
        return Err(refuse("it is of another server"));
    }
    if page.written > wall + AHEAD_S || page.written < wall - OLD_S {
        return Err(refuse("it was not written in the last hour"));
    }
    let at = |s: f64| {
        let ago = (wall - s) * SECOND as f64;
        if ago >= 0.0 { now.mono - ago as u64 } else { now.mono + (-ago) as u64 }
    };
    Ok(Some(Learned {
        server: page.server,
        baseline_aas: page.baseline_aas,
        quiet_until: at(page.quiet_until),
        spent: page.spent.into_iter().map(|(start, end)| Span::new(at(start), at(end))).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const WALL: i64 = 1_800_000_000_000_000_000;

    fn clock(mono_s: u64, wall_s: i64) -> Clock {
        Clock { mono: Ts(mono_s * SECOND), wall_ns: WALL + wall_s * SECOND as i64 }
    }

    fn learned() -> Learned {
        let at = |s: u64| Ts(s * SECOND);
        Learned {
            server: "77 /data".into(),
            baseline_aas: Some(2.5),
            quiet_until: at(5_060),
            spent: vec![Span::new(at(4_000), at(4_060)), Span::new(at(4_990), at(5_000))],
        }
    }

    fn near(a: Ts, b: Ts) -> bool {
        a.0.abs_diff(b.0) < 10_000
    }

    #[test]
    fn another_boot_reads_it_on_its_own_clock() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path(), "77 /data", clock(1, 0)), Ok(None));
        write(dir.path(), Access::default(), clock(5_000, 0), &learned()).unwrap();
        let mode = fs::metadata(dir.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        // A minute later, after a boot of an hour.
        let back = read(dir.path(), "77 /data", clock(3_600, 60)).unwrap().unwrap();
        assert_eq!(back.baseline_aas, Some(2.5));
        assert!(near(back.quiet_until, Ts(3_600 * SECOND)), "{back:?}");
        assert!(near(back.spent[1].end, Ts(3_540 * SECOND)) && near(back.spent[0].start, Ts(2_540 * SECOND)), "{back:?}");
        assert!(near(Ts(back.spent[0].len()), Ts(60 * SECOND)));
    }

    #[test]
    fn old_another_servers_and_garbage_are_refused_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), Access::default(), clock(5_000, 0), &learned()).unwrap();
        let why = |server: &str, wall: i64| read(dir.path(), server, clock(9_000, wall)).unwrap_err();
        assert!(why("77 /data", 3_700).contains("last hour"));
        assert!(why("77 /data", -100).contains("last hour"));
        assert!(why("78 /data", 10).contains("another server"));
        let path = dir.path().join(NAME);
        for garbage in
            ["", "{}", "nonsense", r#"{"format":1,"written":1e999,"server":"77 /data","baseline_aas":1,"quiet_until":0,"spent":[]}"#]
        {
            fs::write(&path, garbage).unwrap();
            let line = why("77 /data", 10);
            assert!(line.contains("something else") && !line.contains('\n'), "{line}");
        }
        let text = |spent: &str| {
            format!(r#"{{"format":1,"written":1800000000,"server":"77 /data","baseline_aas":1,"quiet_until":0,"spent":[{spent}]}}"#)
        };
        for (spent, good) in [("[1799999000,1799999010]", true), ("[1799999010,1799999000]", false), ("[1799999000,1900000000]", false)] {
            fs::write(&path, text(spent)).unwrap();
            assert_eq!(read(dir.path(), "77 /data", clock(9_000, 10)).is_ok(), good, "{spent}");
        }
        fs::write(&path, vec![b' '; 1 << 20]).unwrap();
        assert!(why("77 /data", 10).contains("too large"));
    }
}
