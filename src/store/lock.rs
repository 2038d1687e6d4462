//! One recorder per directory: a lock on a file in it, taken before anything else there is touched, and let go by the kernel however the recorder ends.

use super::access::Access;
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

/// The lock file.
pub const NAME: &str = "pgwt.lock";

/// A directory that is ours while this lives.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "held, not used")] File);

impl Lock {
    /// Takes a directory. The error says who has it.
    pub fn take(dir: &Path, access: Access) -> Result<Self> {
        let path = dir.join(NAME);
        let opened = access.open(&path, OpenOptions::new().read(true).write(true).create(true).truncate(false));
        let mut file = opened.with_context(|| format!("cannot record into {}: its lock file cannot be opened", dir.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            file.read_to_string(&mut pid).ok();
            let pid = pid.trim();
            let who = if pid.is_empty() { String::new() } else { format!(" (process {pid})") };
            bail!("another pg_wait_tracer{who} records into {}: stop it, or give another directory with -T", dir.display());
        }
        // Only to say who has it; the lock is what counts.
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).ok();
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_recorder_is_refused_until_the_first_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path(), Access::default()).unwrap();
        let refused = Lock::take(dir.path(), Access::default()).unwrap_err().to_string();
        assert!(refused.contains(&format!("(process {})", std::process::id())), "{refused}");
        drop(first);
        Lock::take(dir.path(), Access::default()).unwrap();
    }
}
