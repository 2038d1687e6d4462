//! Huge pages of one's own for one test.
//!
//! Invariant: when [`HugePages`] is dropped, by a panic too, the machine has as many again as before.

use std::fs::{self, File};

use anyhow::{Context, Result, ensure};

use super::server::required;

const POOL: &str = "/proc/sys/vm/nr_hugepages";

/// Huge pages that were added to the machine's pool.
#[derive(Debug)]
pub struct HugePages {
    before: u64,
    /// Held locked: two that each restore what they found would undo each other.
    _turn: File,
}

impl HugePages {
    /// Adds so many pages, all of them free. None, said on stderr, when that is impossible; a panic with `PGWT_REQUIRE_LIVE=1`.
    pub fn reserve(count: u64) -> Option<Self> {
        required(&format!("pool of {count} huge pages"), Self::add(count))
    }

    fn add(count: u64) -> Result<Self> {
        let turn = File::open(POOL).with_context(|| format!("cannot open {POOL}"))?;
        turn.lock().with_context(|| format!("cannot lock {POOL}"))?;
        let before = pool()?;
        // From here on dropped on the way out of an error.
        let this = Self { before, _turn: turn };
        let free = free()?;
        fs::write(POOL, (before + count).to_string()).with_context(|| format!("cannot write to {POOL}: needs root"))?;
        let (pages, now) = (pool()?, self::free()?);
        ensure!(
            pages == before + count && now >= free + count,
            "the kernel found memory for {} of {count} pages",
            now.saturating_sub(free)
        );
        Ok(this)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if pool().is_ok_and(|pages| pages != self.before) {
            fs::write(POOL, self.before.to_string()).unwrap_or_else(|error| eprintln!("{POOL} was {}: {error}", self.before));
        }
    }
}

fn pool() -> Result<u64> {
    let text = fs::read_to_string(POOL).with_context(|| format!("cannot read {POOL}"))?;
    text.trim().parse().with_context(|| format!("{POOL} holds {text:?}"))
}

fn free() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let line = text.lines().find_map(|l| l.strip_prefix("HugePages_Free:")).context("this kernel has no huge pages")?;
    line.trim().parse().context("HugePages_Free")
}
