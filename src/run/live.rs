//! Where batches come from: a running server or a scenario file. Opens it, waits for the first picture, checks the filter against its names.

use super::wish::Wish;
use crate::analysis::question::{Ask, Question};
use crate::analysis::{Local, Source};
use crate::capture::engine::Engine;
use crate::capture::script::Script;
use crate::capture::script::scenario::Scenario;
use crate::trace::Trace;
use crate::trace::clock::Window;
use crate::trace::health::Link;
use crate::trace::recent::{Batch, Recent};
use anyhow::{Result, bail};
use crossbeam_channel::{Receiver, RecvTimeoutError};
#[cfg(all(feature = "capture", target_os = "linux"))]
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// Why there is no live picture in a build without capture.
#[cfg(not(all(feature = "capture", target_os = "linux")))]
pub const NO_CAPTURE: &str =
    "this build cannot read a running server (it needs Linux and the feature 'capture'); play a scenario with --script FILE";

/// Blocks kept in memory, bytes. At 100 Hz an hour of 100 sessions takes a tenth of it.
const MEMORY: usize = 192 << 20;
/// How long the first picture may take.
const FIRST: Duration = Duration::from_secs(10);

/// A trace that grows.
#[derive(Debug)]
pub struct Opened {
    /// What was captured so far.
    pub trace: Local<Recent>,
    /// What comes.
    pub batches: Receiver<Batch>,
    /// Dropping it ends the capture.
    pub engine: Engine,
}

/// Opens what the wish names, and waits for the first batch.
pub fn open(wish: &Wish) -> Result<Opened> {
    let (engine, batches) = match &wish.flags.script {
        Some(file) => play(file)?,
        None => watch(wish)?,
    };
    let mut trace = Local(Recent::new(MEMORY));
    while trace.0.extent().is_none() {
        match batches.recv_timeout(FIRST) {
            Ok(batch) => trace.0.absorb(batch),
            Err(RecvTimeoutError::Timeout) => {
                bail!("no sample after {} s: is the server stopped or the machine overloaded? Try again, or run doctor", FIRST.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => {
                let Link::Ended { why } = &trace.0.health().link else { bail!("the capture ended before its first sample") };
                bail!("{why}");
            }
        }
    }
    let mut check = Question::new(Ask::TimeModel, Window::Follow(0));
    check.filter = wish.filter.clone();
    trace.ask(&check)?;
    Ok(Opened { trace, batches, engine })
}

fn play(file: &Path) -> Result<(Engine, Receiver<Batch>)> {
    let script = Script::live(Scenario::load(file)?);
    Engine::start(move || Ok(script))
}

#[cfg(all(feature = "capture", target_os = "linux"))]
fn watch(wish: &Wish) -> Result<(Engine, Receiver<Batch>)> {
    use crate::capture::sampler::{Options, Sampler};
    use crate::capture::support::{Machine, Target, plan};
    use crate::cli::Access;
    use crate::pg::discover;
    use crate::pg::memory::Reach;

    let target = &wish.flags.target;
    let postmaster = match discover::choose(target.pid, target.pgdata.as_deref()) {
        Err(discover::NotFound::Several(servers)) if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() => pick(servers)?,
        found => found?,
    };
    let reach = match wish.flags.access {
        Access::Auto => Reach::Auto,
        Access::Map => Reach::Map,
        Access::Readv => Reach::Readv,
    };
    let target = Target::probe(&postmaster);
    let plan = plan(&Machine::probe(), &target, reach, wish.rate_hz).map_err(anyhow::Error::msg)?;
    if wish.flags.verbose {
        eprintln!(
            "pg_wait_tracer: PostgreSQL {} (postmaster {}, {}), sampled at {} Hz, memory {}",
            postmaster.version,
            postmaster.pid,
            postmaster.pgdata.display(),
            plan.rate_hz,
            if plan.reach == Reach::Map { "mapped" } else { "read by system calls" },
        );
    }
    Engine::start(move || Sampler::start(Options { postmaster, rate_hz: Some(plan.rate_hz), reach: plan.reach }))
}

/// Lists the servers and asks which one.
#[cfg(all(feature = "capture", target_os = "linux"))]
fn pick(servers: Vec<crate::pg::discover::Postmaster>) -> Result<crate::pg::discover::Postmaster> {
    eprintln!("Several PostgreSQL servers are running:");
    for (n, server) in servers.iter().enumerate() {
        eprintln!("  {}  {server}", n + 1);
    }
    loop {
        eprint!("Which one (1 to {}, empty to leave)? ", servers.len());
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        if line.trim().is_empty() {
            bail!("no server chosen: name it with --pid N or --pgdata DIR");
        }
        if let Some(server) = line.trim().parse::<usize>().ok().and_then(|n| servers.get(n.checked_sub(1)?)) {
            return Ok(server.clone());
        }
    }
}

#[cfg(not(all(feature = "capture", target_os = "linux")))]
fn watch(_: &Wish) -> Result<(Engine, Receiver<Batch>)> {
    bail!(NO_CAPTURE)
}
