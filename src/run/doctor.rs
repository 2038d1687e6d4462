//! `doctor`: facts and the plan, as lines; for each thing missing the one command that mends it. Status 0 fine, 1 something does not work.

use crate::cli::Target as Which;
use anyhow::Result;
use std::process::ExitCode;

#[cfg(all(feature = "capture", target_os = "linux"))]
pub fn run(which: &Which) -> Result<ExitCode> {
    use crate::capture::support::{Finding, Grade, Machine, Target, examine_machine, examine_target};
    use crate::pg::discover;
    use std::io::Write;

    let machine = Machine::probe();
    let mut out = std::io::stdout().lock();
    let mut broken = false;
    let mut print = |findings: &[Finding], out: &mut std::io::StdoutLock<'_>| -> Result<()> {
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
    writeln!(out, "pg_wait_tracer {}", env!("PGWT_VERSION"))?;
    writeln!(out, "\nThis machine")?;
    print(&examine_machine(&machine), &mut out)?;
    let servers = if which.pid.is_some() || which.pgdata.is_some() {
        vec![discover::choose(which.pid, which.pgdata.as_deref())?]
    } else {
        discover::servers()
    };
    for postmaster in &servers {
        let container = if postmaster.container { ", in a container" } else { "" };
        writeln!(
            out,
            "\nPostgreSQL {}: postmaster {}, port {}, {}{container}",
            postmaster.version,
            postmaster.pid,
            postmaster.port,
            postmaster.pgdata.display()
        )?;
        print(&examine_target(&machine, &Target::probe(postmaster)), &mut out)?;
    }
    if servers.is_empty() {
        let why = discover::choose(None, None).err().map_or_else(|| "none".into(), |e| e.to_string());
        writeln!(out, "\nPostgreSQL\n  NO    {why}")?;
    }
    Ok(if broken || servers.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(not(all(feature = "capture", target_os = "linux")))]
pub fn run(_: &Which) -> Result<ExitCode> {
    anyhow::bail!(super::live::NO_CAPTURE)
}
