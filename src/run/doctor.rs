//! `doctor`: facts and the plan, as lines; for each thing missing the one command that mends it. Status 0 fine, 1 something does not work.

use crate::cli::Target as Which;
use anyhow::{Context, Result};
use std::process::ExitCode;

#[cfg(all(feature = "capture", target_os = "linux"))]
pub fn run(which: &Which) -> Result<ExitCode> {
    use crate::capture::support::{Finding, Grade, Machine, Target, examine_machine, examine_target};
    use crate::pg::discover;
    use std::fmt::Write as _;
    use std::io::Write as _;

    let machine = Machine::probe();
    let mut broken = false;
    let mut lines = |findings: &[Finding], out: &mut String| -> Result<()> {
        for f in findings {
            let mark = match f.grade {
                Grade::Fine => "ok",
                Grade::Less => "less",
                Grade::Broken => "NO",
                Grade::Note => "",
            };
            broken |= f.grade == Grade::Broken;
            writeln!(out, "  {mark:<5} {:<30} {}", f.what, f.found)?;
            if let Some(mend) = &f.mend {
                writeln!(out, "        {:<30} → {mend}", "")?;
            }
        }
        Ok(())
    };
    // Part by part, since looking at a server may take seconds.
    let print = |text: &str| {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write to standard output")
    };
    let mut text = format!("pg_wait_tracer {}\n\nThis machine\n", env!("PGWT_VERSION"));
    lines(&examine_machine(&machine), &mut text)?;
    print(&text)?;
    let servers = if which.pid.is_some() || which.pgdata.is_some() {
        vec![discover::choose(which.pid, which.pgdata.as_deref())?]
    } else {
        discover::servers()
    };
    for postmaster in &servers {
        let container = if postmaster.container { ", in a container" } else { "" };
        let mut text = format!(
            "\nPostgreSQL {}: postmaster {}, port {}, {}{container}\n",
            postmaster.version,
            postmaster.pid,
            postmaster.port,
            postmaster.pgdata.display()
        );
        lines(&examine_target(&machine, &Target::probe(postmaster)), &mut text)?;
        print(&text)?;
    }
    if servers.is_empty() {
        let why = discover::choose(None, None).err().map_or_else(|| "none".into(), |e| e.to_string());
        print(&format!("\nPostgreSQL\n  NO    {why}\n"))?;
    }
    Ok(if broken || servers.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(not(all(feature = "capture", target_os = "linux")))]
pub fn run(_: &Which) -> Result<ExitCode> {
    anyhow::bail!(super::live::NO_CAPTURE)
}
