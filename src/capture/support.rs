//! What this machine and a server allow: facts are probed here, the plan is decided from facts alone. Every command uses the same plan;
//! `doctor` prints it. Any thread.

use crate::capture::sampler::{MAPPED_HZ, READV_HZ};
use crate::pg::discover::Postmaster;
use crate::pg::memory::{Reach, Segment};
use crate::pg::process::ProcFs;
use crate::pg::server::Attached;
use crate::trace::catalog::Server;
use crate::trace::health::Access;
use std::fmt::Write as _;
use std::path::Path;

/// Facts about the machine and this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Kernel release.
    pub kernel: String,
    /// Effective user id.
    pub euid: u32,
    /// Effective capabilities, as in `/proc/self/status`.
    pub caps: u64,
    /// `kernel.yama.ptrace_scope`, where Yama is built in.
    pub ptrace_scope: Option<u8>,
    /// `kernel.perf_event_paranoid`.
    pub perf_paranoid: Option<i32>,
    /// Whether the kernel carries its BTF type information.
    pub btf: bool,
    /// Whether the kernel offers hardware breakpoints.
    pub breakpoints: bool,
    /// Whether `/proc` hides other users' processes.
    pub hidepid: bool,
}

/// Capabilities by name, with their bit.
const CAPS: [(&str, u32); 7] = [
    ("CAP_DAC_OVERRIDE", 1),
    ("CAP_DAC_READ_SEARCH", 2),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_PERFMON", 38),
    ("CAP_BPF", 39),
    ("CAP_CHECKPOINT_RESTORE", 40),
];

/// What maps the memory of another user's server without root: to look at the process, to follow `/proc/PID/map_files`, to enter that directory.
const WITHOUT_ROOT: &str =
    "run it with sudo, or give it CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE and CAP_DAC_READ_SEARCH, all three together";

impl Machine {
    /// Reads the facts.
    pub fn probe() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/self/status");
        let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim).unwrap_or_default().to_owned();
        let mounts = read("/proc/self/mounts");
        let options = mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>()).find(|f| f.get(1) == Some(&"/proc"));
        let hidden = options
            .and_then(|f| f.get(3).map(|o| o.split(',').any(|x| x.starts_with("hidepid=") && x != "hidepid=0" && x != "hidepid=off")));
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            euid: field("Uid:").split_whitespace().nth(1).and_then(|u| u.parse().ok()).unwrap_or(u32::MAX),
            caps: u64::from_str_radix(&field("CapEff:"), 16).unwrap_or(0),
            ptrace_scope: read("/proc/sys/kernel/yama/ptrace_scope").trim().parse().ok(),
            perf_paranoid: read("/proc/sys/kernel/perf_event_paranoid").trim().parse().ok(),
            btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            breakpoints: Path::new("/sys/bus/event_source/devices/breakpoint").exists(),
            hidepid: hidden.unwrap_or(false),
        }
    }

    /// Whether an effective capability is there.
    pub fn can(&self, name: &str) -> bool {
        CAPS.iter().any(|(n, bit)| *n == name && self.caps & (1 << bit) != 0)
    }

    /// Why exact windows cannot be had here, as far as that is seen without trying; `None`: they should.
    pub fn no_exact(&self, access: Access) -> Option<String> {
        let bpf = self.can("CAP_SYS_ADMIN") || (self.can("CAP_BPF") && self.can("CAP_PERFMON"));
        let why = match (access == Access::Mapped, self.btf, self.breakpoints, bpf) {
            (false, ..) => "exact windows need the server's memory mapped, and here it is read by system calls",
            (_, false, ..) => "exact windows need a kernel with BTF (/sys/kernel/btf/vmlinux)",
            (_, _, false, _) => "exact windows need hardware breakpoints, which this kernel does not offer",
            (.., false) => "exact windows need root, or CAP_BPF and CAP_PERFMON",
            _ => return None,
        };
        Some(why.into())
    }
}

/// Facts about one server.
#[derive(Debug)]
pub struct Target {
    /// The server.
    pub postmaster: Postmaster,
    /// Whether its shared memory can be mapped, else one line why not.
    pub map: Result<(), String>,
    /// Whether its memory can be read by system calls, else one line why not.
    pub readv: Result<(), String>,
    /// What the proof of its layout found, else one line why it was refused.
    pub layout: Result<Server, String>,
}

impl Target {
    /// Tries everything on a running server. Reads only; leaves nothing behind.
    pub fn probe(postmaster: &Postmaster) -> Self {
        let reach = |how| Segment::open(&ProcFs::default(), postmaster.pid, how).map(drop).map_err(|e| format!("{e:#}"));
        Self {
            map: reach(Reach::Map),
            readv: reach(Reach::Readv),
            layout: Attached::open(postmaster, Reach::Auto).map(|a| a.facts()).map_err(|e| format!("{e:#}")),
            postmaster: postmaster.clone(),
        }
    }
}

/// How a server will be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How its memory is reached.
    pub reach: Reach,
    /// How that shows in answers.
    pub access: Access,
    /// Ticks per second.
    pub rate_hz: u32,
}

/// Decides from facts and the user's wishes. An error is one clear line.
pub fn plan(machine: &Machine, target: &Target, reach: Reach, rate_hz: Option<u32>) -> Result<Plan, String> {
    if let Err(why) = &target.layout {
        return Err(refusal(machine, target, why));
    }
    let mapped = |rate: Option<u32>| Plan { reach: Reach::Map, access: Access::Mapped, rate_hz: rate.unwrap_or(MAPPED_HZ) };
    let readv = |rate: Option<u32>| Plan { reach: Reach::Readv, access: Access::Readv, rate_hz: rate.unwrap_or(READV_HZ) };
    match (reach, &target.map, &target.readv) {
        (Reach::Auto | Reach::Map, Ok(()), _) => Ok(mapped(rate_hz)),
        (Reach::Auto | Reach::Readv, _, Ok(())) => Ok(readv(rate_hz)),
        (Reach::Map, Err(why), _) | (_, _, Err(why)) => Err(refusal(machine, target, why)),
    }
}

fn refusal(machine: &Machine, target: &Target, why: &str) -> String {
    let pid = target.postmaster.pid;
    let mut line = format!("cannot read PostgreSQL's memory (postmaster {pid}): {why}");
    if machine.euid != 0 && !machine.can("CAP_SYS_PTRACE") {
        let _ = write!(line, "; {WITHOUT_ROOT}");
    }
    line
}

/// How good a line of the report is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    /// As it should be.
    Fine,
    /// Works, but less than it could.
    Less,
    /// Does not work.
    Broken,
    /// For information.
    Note,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How good.
    pub grade: Grade,
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub found: String,
    /// The one command or setting that mends it, when something is missing.
    pub mend: Option<String>,
}

fn finding(grade: Grade, what: &str, found: impl Into<String>, mend: Option<&str>) -> Finding {
    Finding { grade, what: what.into(), found: found.into(), mend: mend.map(Into::into) }
}

/// The report about the machine.
pub fn examine_machine(machine: &Machine) -> Vec<Finding> {
    let mut out = vec![finding(Grade::Note, "kernel", machine.kernel.clone(), None)];
    let held: Vec<&str> = CAPS.iter().map(|(n, _)| *n).filter(|n| machine.can(n)).collect();
    let ptrace = machine.can("CAP_SYS_PTRACE");
    let follow = machine.can("CAP_SYS_ADMIN") || machine.can("CAP_CHECKPOINT_RESTORE");
    let map = follow && (machine.can("CAP_DAC_READ_SEARCH") || machine.can("CAP_DAC_OVERRIDE"));
    let found =
        if held.is_empty() { format!("uid {}, none held", machine.euid) } else { format!("uid {}, {}", machine.euid, held.join(" ")) };
    out.push(match (ptrace, map) {
        (true, true) => finding(Grade::Fine, "rights", found, None),
        (true, false) => finding(Grade::Less, "rights", format!("{found}: memory is read by system calls, not mapped"), Some(WITHOUT_ROOT)),
        _ => finding(Grade::Less, "rights", format!("{found}: only servers of this user can be read"), Some(WITHOUT_ROOT)),
    });
    if let Some(scope) = machine.ptrace_scope {
        out.push(match scope {
            0 => finding(Grade::Fine, "ptrace scope", "0, not restricted", None),
            s if ptrace && s < 3 => finding(Grade::Fine, "ptrace scope", format!("{s}, passed by CAP_SYS_PTRACE"), None),
            3 => finding(
                Grade::Broken,
                "ptrace scope",
                "3, no process may read another's memory",
                Some("kernel.yama.ptrace_scope=3 holds until the next boot: set 1 in /etc/sysctl.d and reboot"),
            ),
            s => {
                finding(Grade::Less, "ptrace scope", format!("{s}, restricted without CAP_SYS_PTRACE"), Some("sudo pg_wait_tracer doctor"))
            }
        });
    }
    if machine.hidepid && !ptrace {
        out.push(finding(Grade::Broken, "/proc", "processes of other users are hidden (hidepid)", Some("run it with sudo")));
    }
    out.push(if machine.btf {
        finding(Grade::Fine, "kernel BTF", "present (for the blocking and exact tiers)", None)
    } else {
        finding(
            Grade::Less,
            "kernel BTF",
            "/sys/kernel/btf/vmlinux is missing: only the sampled tier will work",
            Some("use a kernel built with CONFIG_DEBUG_INFO_BTF=y"),
        )
    });
    out.push(if machine.breakpoints {
        finding(Grade::Fine, "hardware breakpoints", "offered by the kernel (for the exact tier)", None)
    } else {
        finding(
            Grade::Less,
            "hardware breakpoints",
            "not offered by this kernel: no exact tier",
            Some("use a kernel built with CONFIG_HAVE_HW_BREAKPOINT and CONFIG_PERF_EVENTS"),
        )
    });
    if let Some(level) = machine.perf_paranoid {
        let grade = if level <= 2 || machine.can("CAP_SYS_ADMIN") { Grade::Note } else { Grade::Less };
        let mend = (grade == Grade::Less).then_some("sudo sysctl kernel.perf_event_paranoid=2");
        out.push(finding(grade, "perf_event_paranoid", level.to_string(), mend));
    }
    out
}

/// The report about one server, and the plan for it.
pub fn examine_target(machine: &Machine, target: &Target) -> Vec<Finding> {
    let mut out = Vec::new();
    let reach = |what, result: &Result<(), String>, mend: &str| match result {
        Ok(()) => finding(Grade::Fine, what, "works", None),
        Err(why) => finding(Grade::Less, what, why.clone(), Some(mend)),
    };
    out.push(reach("shared memory, mapped", &target.map, WITHOUT_ROOT));
    out.push(reach("shared memory, by system call", &target.readv, "run it with sudo, as the server's own user, or with CAP_SYS_PTRACE"));
    out.push(match &target.layout {
        Ok(server) if server.major > 18 => finding(
            Grade::Less,
            "memory layout",
            format!("PostgreSQL {} proven, but its tables are a preview until its release", server.major),
            None,
        ),
        Ok(server) => finding(Grade::Fine, "memory layout", format!("PostgreSQL {} proven on the running server", server.major), None),
        Err(why) => finding(Grade::Broken, "memory layout", why.clone(), None),
    });
    out.push(match plan(machine, target, Reach::Auto, None) {
        Ok(plan) => {
            let how = if plan.access == Access::Mapped { "mapped memory, no system call per sample" } else { "system calls" };
            finding(Grade::Fine, "plan", format!("sampled tier at {} Hz over {how}", plan.rate_hz), None)
        }
        Err(why) => finding(Grade::Broken, "plan", why, None),
    });
    out
}
