//! Where batches come from: a running server or a scenario file. Opens it, waits for the first picture, checks the filter against its names.

use super::wish::Wish;
use super::{control, record};
use crate::analysis::question::{Ask, Question};
use crate::analysis::{Local, Source};
use crate::capture::command::Order;
use crate::capture::engine::{Engine, Tap};
use crate::capture::script::Script;
use crate::capture::script::scenario::Scenario;
use crate::control::Control;
use crate::store::writer::Writer;
use crate::trace::Trace;
use crate::trace::clock::Window;
use crate::trace::health::Link;
use crate::trace::recent::{Batch, Recent};
use anyhow::{Result, bail};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
#[cfg(all(feature = "capture", target_os = "linux"))]
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
#[cfg(all(feature = "capture", target_os = "linux"))]
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Why there is no live picture in a build without capture.
#[cfg(not(all(feature = "capture", target_os = "linux")))]
pub const NO_CAPTURE: &str =
    "this build cannot read a running server (it needs Linux and the feature 'capture'); play a scenario with --script FILE";

/// Blocks kept in memory, bytes. At 100 Hz an hour of 100 sessions takes a tenth of it.
const MEMORY: usize = 192 << 20;
/// How long the first picture may take.
const FIRST: Duration = Duration::from_secs(10);

/// A capture under way, and what writes it to disk.
#[derive(Debug)]
pub struct Capturing {
    /// What comes.
    pub batches: Receiver<Batch>,
    /// Dropping it ends the capture.
    pub engine: Engine,
    /// Opens and closes windows; nobody listens when a scenario is played or the build cannot capture.
    pub commands: Sender<Order>,
    /// The control socket and the metrics. They end behind the capture, and before the writer lets go of the directory.
    pub control: Option<Control>,
    /// The writer, when there is a directory to record into. End the capture first, then it: [`record::finish`].
    pub recorder: Option<Arc<Writer>>,
}

/// A trace that grows.
#[derive(Debug)]
pub struct Opened {
    /// What was captured so far.
    pub trace: Local<Recent>,
    /// Where it comes from.
    pub capturing: Capturing,
}

/// Starts what the wish names. `None`: told to stop while waiting for the server. The directory is taken first: what cannot be recorded is not captured.
pub fn start(wish: &Wish, stop: &AtomicBool) -> Result<Option<Capturing>> {
    let recorder = record::writer(wish)?;
    let dir = wish.flags.recording.trace_dir.as_deref().unwrap_or(Path::new(""));
    let tap = recorder.as_ref().map(|writer| record::tap(writer, dir));
    let (commands, inbox) = unbounded();
    let (control, tap) = match control::start(wish, commands.clone())? {
        Some((control, eye)) => (Some(control), Some(control::tap(tap, recorder.clone(), eye))),
        None => (None, tap),
    };
    let started = match &wish.flags.script {
        Some(file) => Some(play(file, tap)?),
        None => watch(wish, inbox, tap, stop)?,
    };
    Ok(started.map(|(engine, batches)| Capturing { batches, engine, commands, control, recorder }))
}

/// Opens what the wish names, and waits for the first batch.
pub fn open(wish: &Wish) -> Result<Opened> {
    let Some(capturing) = start(wish, &AtomicBool::new(false))? else { bail!("told to stop") };
    let batches = &capturing.batches;
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
    if let Some(why) = &trace.0.health().window_error {
        eprintln!("pg_wait_tracer: no window: {why}; sampling goes on");
    }
    Ok(Opened { trace, capturing })
}

fn play(file: &Path, tap: Option<Tap>) -> Result<(Engine, Receiver<Batch>)> {
    let script = Script::live(Scenario::load(file)?);
    Engine::tapped(move || Ok(script), tap)
}

/// How often a daemon looks whether its server is there.
#[cfg(all(feature = "capture", target_os = "linux"))]
const LOOK: Duration = Duration::from_millis(500);

/// The server to watch. A daemon of a data directory waits for its server; `None`: told to stop meanwhile.
#[cfg(all(feature = "capture", target_os = "linux"))]
fn find(wish: &Wish, stop: &AtomicBool) -> Result<Option<crate::pg::discover::Postmaster>> {
    use crate::pg::discover;
    let target = &wish.flags.target;
    let waits = wish.flags.recording.daemon && target.pid.is_none() && target.pgdata.is_some();
    let mut told = false;
    loop {
        match discover::choose(target.pid, target.pgdata.as_deref()) {
            Err(discover::NotFound::Several(servers)) if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() => {
                return Ok(Some(pick(servers)?));
            }
            Err(why) if waits => {
                if !std::mem::replace(&mut told, true) {
                    eprintln!("pg_wait_tracer: {why}; waiting for it");
                }
                if stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                std::thread::sleep(LOOK);
            }
            found => return Ok(Some(found?)),
        }
    }
}

#[cfg(all(feature = "capture", target_os = "linux"))]
fn watch(wish: &Wish, commands: Receiver<Order>, tap: Option<Tap>, stop: &AtomicBool) -> Result<Option<(Engine, Receiver<Batch>)>> {
    use crate::capture::command::Kind;
    use crate::capture::sampler::{Options, Policy, Sampler};
    use crate::capture::support::{Machine, Target, plan};
    use crate::capture::window::Rules;
    use crate::cli::{Access, Mode};
    use crate::pg::memory::Reach;

    let Some(postmaster) = find(wish, stop)? else { return Ok(None) };
    let reach = match wish.flags.access {
        Access::Auto => Reach::Auto,
        Access::Map => Reach::Map,
        Access::Readv => Reach::Readv,
    };
    let target = Target::probe(&postmaster);
    let machine = Machine::probe();
    let plan = plan(&machine, &target, reach, wish.rate_hz).map_err(anyhow::Error::msg)?;
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
    let mode = wish.flags.mode();
    let standing = match mode {
        Mode::Full => Some(Kind::Exact),
        Mode::Blocking => Some(Kind::Blocking),
        Mode::Sampled | Mode::Tiered | Mode::Coop => None,
    };
    let policy = match mode {
        Mode::Sampled | Mode::Coop => Policy::Never,
        Mode::Full | Mode::Blocking => Policy::ByHand,
        Mode::Tiered => Policy::Auto { settings: Box::new(wish.rules), learned: learned(wish, &postmaster).map(Box::new) },
    };
    let no_window = if mode == Mode::Tiered { machine.no_exact(plan.access) } else { None };
    let rules = Rules {
        max_overhead_pct: wish.flags.max_overhead,
        lightweight: wish.flags.lightweight,
        skip_query_id: wish.flags.skip_query_id,
        ..Rules::default()
    };
    let options = Options {
        rules,
        policy,
        standing,
        commands: Some(commands),
        no_window,
        ..Options::new(postmaster, Some(plan.rate_hz), plan.reach)
    };
    Engine::tapped(move || Sampler::start(options), tap).map(Some)
}

/// What an earlier recorder of the same server had learned and spent.
#[cfg(all(feature = "capture", target_os = "linux"))]
fn learned(wish: &Wish, postmaster: &crate::pg::discover::Postmaster) -> Option<crate::trace::learned::Learned> {
    let dir = wish.flags.recording.trace_dir.as_deref()?;
    crate::store::kept::read(dir, &postmaster.identity(), crate::capture::sys::clock()).unwrap_or_else(|why| {
        eprintln!("pg_wait_tracer: {why}");
        None
    })
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
fn watch(_: &Wish, _: Receiver<Order>, _: Option<Tap>, _: &AtomicBool) -> Result<Option<(Engine, Receiver<Batch>)>> {
    bail!(NO_CAPTURE)
}
