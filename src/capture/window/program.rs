//! The BPF programs of one window: loaded with what they must know, attached, and gone when the value is dropped.

use super::Kind;
use super::shared::{Maps, Shared, Sizes, TEXTS};
use crate::pg::layout::Layout;
use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::{Link, MapCore, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramInput};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use std::mem::offset_of;
use std::sync::Once;

/// Types made from `src/bpf/wire.h`.
#[allow(clippy::all, clippy::pedantic, clippy::restriction, missing_docs, dead_code, unsafe_code, unused, non_camel_case_types)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/wait.skel.rs"));
}

pub use skeleton::types as wire;

/// The compiled programs, aligned as an ELF file must be.
#[repr(C, align(16))]
struct Aligned<T: ?Sized>(T);
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/wait.bpf.o")));

/// `BPF_F_TEST_RUN_ON_CPU`.
const ON_CPU: u32 = 1;

/// What the programs are to do.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// Exact or blocking.
    pub kind: Kind,
    /// Host pid of the postmaster.
    pub postmaster: i32,
    /// Where things are in the server.
    pub layout: &'static Layout,
    /// Whether the status row is read.
    pub read_row: bool,
    /// Whether the query id is read from it.
    pub read_query: bool,
    /// Sizes of the maps.
    pub sizes: Sizes,
    /// Programs that return at once, to know what the mechanism itself costs.
    pub empty: bool,
}

/// Loaded and attached programs.
#[derive(Debug)]
pub struct Programs {
    // Detached before the object goes.
    links: Vec<Link>,
    object: Object,
    write: &'static str,
    cpus: usize,
}

impl Programs {
    /// Loads them. Nothing runs yet.
    pub fn load(setup: &Setup) -> Result<Self> {
        static QUIET: Once = Once::new();
        // What matters is in the errors.
        QUIET.call_once(|| {
            libbpf_rs::set_print(Some((PrintLevel::Warn, |_, _| {})));
        });
        let mut open = ObjectBuilder::default().open_memory(&OBJECT.0).context("cannot open the BPF programs")?;
        configure(&mut open, setup)?;
        let write = if setup.empty { "on_write_empty" } else { "on_write" };
        let wanted = wanted(setup);
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(wanted.contains(&name.as_str()) || name == "look" || name == write && setup.kind == Kind::Exact);
        }
        let object = open.load().context("the kernel refuses the BPF programs (it needs BTF, and root or CAP_BPF and CAP_PERFMON)")?;
        Ok(Self { links: Vec::new(), object, write, cpus: setup.sizes.cpus })
    }

    /// Attaches what runs by itself: switches, wake-ups, births and deaths.
    pub fn attach(&mut self, setup: &Setup) -> Result<()> {
        for name in wanted(setup) {
            let program = self.object.progs_mut().find(|p| p.name() == name).with_context(|| format!("no BPF program {name}"))?;
            self.links.push(program.attach().with_context(|| format!("cannot attach the BPF program {name}"))?);
        }
        Ok(())
    }

    /// Maps what is shared with them.
    pub fn share(&self, sizes: Sizes) -> Result<Shared> {
        let map = |name: &str| self.object.maps().find(|m| m.name() == name).with_context(|| format!("no BPF map {name}"));
        let (pids, tracks, rings) = (map("pids")?, map("tracks")?, map("rings")?);
        let (records, texts, tallies) = (map("records")?, map("texts")?, map("tallies")?);
        let maps = Maps {
            pids: pids.as_fd(),
            tracks: tracks.as_fd(),
            rings: rings.as_fd(),
            records: records.as_fd(),
            texts: texts.as_fd(),
            tallies: tallies.as_fd(),
        };
        Shared::map(maps, sizes)
    }

    /// Does something with the program that handles writes.
    pub fn with_write<T>(&self, go: impl FnOnce(BorrowedFd<'_>) -> T) -> Result<T> {
        let Some(program) = self.object.progs().find(|p| p.name() == self.write) else { bail!("no BPF program {}", self.write) };
        Ok(go(program.as_fd()))
    }

    /// Nanoseconds the attached programs have run while that was measured.
    pub fn run_time(&self) -> u64 {
        let told = |program: libbpf_rs::Program<'_>| {
            let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd())).ok()?;
            text.lines().find_map(|l| l.strip_prefix("run_time_ns:"))?.trim().parse::<u64>().ok()
        };
        self.object.progs().filter(|p| p.name().to_string_lossy().starts_with("on_")).filter_map(told).sum()
    }

    /// Looks at each CPU: whoever of the followed is on it now has been since it was taken in. A few microseconds per CPU.
    pub fn look(&self) {
        let Some(program) = self.object.progs_mut().find(|p| p.name() == "look") else { return };
        for cpu in 0..self.cpus {
            // A CPU that is off line refuses; nobody runs there.
            let _ = program.test_run(ProgramInput { cpu: cpu as u32, flags: ON_CPU, ..ProgramInput::default() });
        }
    }
}

fn wanted(setup: &Setup) -> Vec<&'static str> {
    match (setup.empty, setup.kind) {
        (true, Kind::Exact) => vec![],
        (true, Kind::Blocking) => vec!["on_switch_empty"],
        (false, _) => vec!["on_fork", "on_exit", "on_switch", "on_waking"],
    }
}

/// Sets sizes and constants before loading.
fn configure(open: &mut OpenObject, setup: &Setup) -> Result<()> {
    let s = &setup.layout.status;
    let sizes = setup.sizes;
    let mut configured = false;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let count = match name.as_str() {
            "pids" => sizes.pid_pages(),
            "tracks" => sizes.tracks,
            "rings" | "tallies" => sizes.cpus,
            "records" => sizes.cpus * sizes.ring,
            "texts" => sizes.cpus * TEXTS,
            // The rest of its name is made up by libbpf.
            constants if constants.ends_with(".rodata") => {
                configured = true;
                let data = map.initial_value_mut().context("the BPF programs have no constants")?;
                let text = if setup.read_query { s.st_activity_raw } else { 0 };
                let query = if setup.read_query { s.st_query_id.unwrap_or(0) } else { 0 };
                let words = [
                    (offset_of!(wire::rodata, postmaster), setup.postmaster as u32),
                    (offset_of!(wire::rodata, ring_size), sizes.ring as u32),
                    (offset_of!(wire::rodata, at_state), s.st_state as u32),
                    (offset_of!(wire::rodata, at_times), s.st_activity_start_timestamp as u32),
                    (offset_of!(wire::rodata, at_query), query as u32),
                    (offset_of!(wire::rodata, at_text), text as u32),
                ];
                for (at, word) in words {
                    data.get_mut(at..at + 4).context("constants of another shape")?.copy_from_slice(&word.to_ne_bytes());
                }
                let flags = [
                    (offset_of!(wire::rodata, blocking), setup.kind == Kind::Blocking),
                    (offset_of!(wire::rodata, read_row), setup.read_row),
                ];
                for (at, flag) in flags {
                    *data.get_mut(at).context("constants of another shape")? = u8::from(flag);
                }
                continue;
            }
            _ => continue,
        };
        map.set_max_entries(u32::try_from(count)?).with_context(|| format!("BPF map {name}"))?;
    }
    ensure!(configured, "the BPF programs have no constants");
    if s.st_state_start_timestamp != s.st_activity_start_timestamp + 8 {
        bail!("this version keeps the times of a command apart");
    }
    Ok(())
}
