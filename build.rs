//! Turns `data/pg/*.json` (struct layouts and wait events per major version, facts about PostgreSQL written as data) into Rust tables.
//!
//! The tables are plain constants, so the program carries no parser for them and a wrong or missing field stops the build.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

const VERSIONS: [u16; 7] = [13, 14, 15, 16, 17, 18, 19];

/// Members that exist in some versions only become `Option<usize>`.
const OPTIONAL: [&str; 22] = [
    "PGPROC.links",
    "PGPROC.waitLink",
    "PGPROC.waitStart",
    "PGPROC.xid",
    "PGPROC.xmin",
    "PGPROC.pgprocno",
    "PGPROC.pgxactoff",
    "PGPROC.backendId",
    "PGPROC.vxid.procNumber",
    "PGPROC.isBackgroundWorker",
    "PGPROC.isRegularBackend",
    "PGPROC.backendType",
    "PGPROC.statusFlags",
    "PROC_HDR.allPgXact",
    "PROC_HDR.xids",
    "PgBackendStatus.st_query_id",
    "PgBackendStatus.st_plan_id",
    "PGShmemHeader.index",
    "PGShmemHeader.content_offset",
    "HASHHDR.dir",
    "HASHHDR.ssize",
    "HASHHDR.sshift",
];

/// Structs of the data files and the Rust type and field of `Layout` they fill. The last column: only some versions have it.
const STRUCTS: [(&str, &str, &str, bool); 13] = [
    ("PGPROC", "PgProc", "proc", false),
    ("PROC_HDR", "ProcHdr", "proc_hdr", false),
    ("PGXACT", "PgXact", "xact", true),
    ("PgBackendStatus", "PgBackendStatus", "status", false),
    ("LOCK", "Lock", "lock", false),
    ("PROCLOCK", "ProcLock", "proclock", false),
    ("PGShmemHeader", "PgShmemHeader", "header", false),
    ("HASHHDR", "HashHdr", "hash", false),
    ("ShmemIndexEnt", "ShmemIndexEnt", "index_ent", false),
    ("ShmemAllocatorData", "ShmemAllocatorData", "allocator", true),
    ("WaitEventCustomEntryByInfo", "WaitEventCustomEntry", "custom_event", true),
    ("NamedLWLockTranche", "NamedTranche", "named_tranche", true),
    ("LWLockTrancheShmemData", "LwLockTranches", "tranches", true),
];

#[derive(Deserialize)]
struct Version {
    major: u16,
    structs: BTreeMap<String, BTreeMap<String, usize>>,
    counts: BTreeMap<String, usize>,
    enums: BTreeMap<String, Vec<String>>,
    wait_events: BTreeMap<String, Vec<Option<String>>>,
}

/// Version, and the commit where the sources are a checkout.
fn version() -> String {
    println!("cargo:rerun-if-changed=.git/HEAD");
    println!("cargo:rerun-if-changed=.git/refs/heads");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let git = std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    match git.ok().filter(|o| o.status.success()).and_then(|o| String::from_utf8(o.stdout).ok()) {
        Some(commit) => format!("{version} ({})", commit.trim()),
        None => version,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=data/pg");
    println!("cargo:rustc-env=PGWT_VERSION={}", version());
    let mut out = String::from(
        "/// One layout per major version, ascending.\n#[allow(clippy::unreadable_literal)]\npub(crate) static LAYOUTS: &[Layout] = &[\n",
    );
    for major in VERSIONS {
        let path = format!("data/pg/{major}.json");
        let version: Version = serde_json::from_str(&fs::read_to_string(&path)?).map_err(|e| format!("{path}: {e}"))?;
        if version.major != major {
            return Err(format!("{path} says it is about {}", version.major).into());
        }
        layout(&mut out, &version)?;
    }
    out.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("layouts.rs"), out)?;
    Ok(())
}

fn layout(out: &mut String, v: &Version) -> Result<(), Box<dyn Error>> {
    writeln!(out, "Layout {{\n major: {},", v.major)?;
    for (name, rust, field, partial) in STRUCTS {
        match (v.structs.get(name), partial) {
            (Some(members), false) => writeln!(out, " {field}: {},", literal(name, rust, members)?)?,
            (Some(members), true) => writeln!(out, " {field}: Some({}),", literal(name, rust, members)?)?,
            (None, true) => writeln!(out, " {field}: None,")?,
            (None, false) => return Err(format!("{} lacks struct {name}", v.major).into()),
        }
    }
    let count = |name: &str| v.counts.get(name).ok_or_else(|| format!("{} lacks count {name}", v.major));
    writeln!(out, " proc_slots_beyond_backends: {},", count("allProcCount_minus_MaxBackends")?)?;
    writeln!(out, " status_slots_beyond_backends: {},", count("BackendStatus_slots_minus_MaxBackends")?)?;
    writeln!(out, " first_user_tranche: {},", count("first_user_defined_tranche_id")?)?;
    let list = |name: &str| v.enums.get(name).ok_or_else(|| format!("{} lacks enum {name}", v.major));
    writeln!(out, " backend_types: &{:?},", list("BackendType")?)?;
    writeln!(out, " backend_states: &{:?},", list("BackendState")?)?;
    out.push_str(" events: &[\n");
    for (class, events) in &v.wait_events {
        let byte = class.split(' ').next().and_then(|c| u32::from_str_radix(c.trim_start_matches("0x"), 16).ok());
        let byte = byte.ok_or_else(|| format!("{}: class '{class}' does not start with its number", v.major))?;
        for (id, name) in events.iter().enumerate() {
            if let Some(name) = name {
                writeln!(out, "  ({:#010x}, {name:?}),", byte << 24 | u32::try_from(id)?)?;
            }
        }
    }
    out.push_str(" ],\n},\n");
    Ok(())
}

/// A struct literal: `PgProc { size: 832, pid: 60, … }`. Optional members that this version lacks become `None`.
fn literal(name: &str, rust: &str, members: &BTreeMap<String, usize>) -> Result<String, std::fmt::Error> {
    let mut text = format!("{rust} {{ ");
    for (member, offset) in members {
        let optional = OPTIONAL.contains(&format!("{name}.{member}").as_str());
        let field = snake(member);
        if optional {
            write!(text, "{field}: Some({offset}), ")?;
        } else {
            write!(text, "{field}: {offset}, ")?;
        }
    }
    for optional in OPTIONAL {
        if let Some(member) = optional.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'))
            && !members.contains_key(member)
        {
            write!(text, "{}: None, ", snake(member))?;
        }
    }
    text.push('}');
    Ok(text)
}

/// `procLatch.owner_pid` → `proc_latch_owner_pid`.
fn snake(member: &str) -> String {
    let mut text = String::new();
    let mut previous = '_';
    for c in member.chars() {
        if c == '.' {
            text.push('_');
        } else {
            if c.is_ascii_uppercase() && previous.is_ascii_lowercase() {
                text.push('_');
            }
            text.push(c.to_ascii_lowercase());
        }
        previous = c;
    }
    text
}
