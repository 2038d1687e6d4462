//! `ctl`: asks a running recorder through its control socket, and shows the answer.

use super::Usage;
use crate::cli::{Answer, Ctl, Wanted};
use crate::control::call::call;
use crate::render::control;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::ExitCode;

/// Asks, and prints what comes back. What is denied is an error.
pub fn run(flags: &Ctl) -> Result<ExitCode> {
    let cmd = match flags.what {
        Wanted::Status => "status",
        Wanted::Metrics => "metrics",
        Wanted::Health => "health",
        Wanted::Prometheus => "prometheus",
        Wanted::Escalate => "escalate",
        Wanted::Deescalate => "deescalate",
    };
    let request = match (flags.what, flags.seconds) {
        (Wanted::Escalate, Some(seconds)) => json!({ "cmd": cmd, "duration_s": seconds }),
        (_, Some(_)) => return Err(Usage(format!("{cmd} takes no SECONDS: they are how long escalate opens a window")).into()),
        (_, None) => json!({ "cmd": cmd }),
    };
    let line = call(&flags.trace_dir, &request.to_string())?;
    let answer: Value = serde_json::from_str(&line).context("the recorder's answer is no JSON: is it another version?")?;
    let ok = answer.get("ok") == Some(&Value::Bool(true));
    let text = match flags.format {
        Answer::Json => line + "\n",
        Answer::Text if !ok => bail!("{}", control::refusal(&answer)),
        Answer::Text => control::text(&answer),
    };
    std::io::stdout().lock().write_all(text.as_bytes()).context("cannot write to standard output")?;
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
