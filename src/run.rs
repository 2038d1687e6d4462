//! One function per command: only wiring.

mod control;
mod ctl;
mod doctor;
mod dump;
mod escalation;
mod live;
mod record;
mod remote;
mod replay;
mod screen;
mod text;
mod wish;

#[cfg(all(feature = "capture", target_os = "linux"))]
mod demo;

use crate::cli::{Cli, Command, Format, Live};
use anyhow::Result;
use std::io::IsTerminal;
use std::process::ExitCode;
use wish::Wish;

/// Wrong usage that clap cannot see: exit status 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Whether an error only says that the reader of our output went away (`| head`).
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|e| e.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe))
}

/// Does what the command line says.
pub fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        None => picture(&cli.live, format_of(&cli.live), Looks::AsTold),
        Some(Command::Tui(live)) => picture(&live, live.format.unwrap_or(Format::Tui), Looks::AtRecording),
        Some(Command::Dump(flags)) => dump::run(&flags),
        Some(Command::Ctl(flags)) => ctl::run(&flags),
        Some(Command::Doctor(target)) => doctor::run(&target),
        #[cfg(all(feature = "capture", target_os = "linux"))]
        Some(Command::Demo(demo)) => demo::run(&demo),
        #[cfg(not(all(feature = "capture", target_os = "linux")))]
        Some(Command::Demo(_)) => Err(anyhow::anyhow!(live::NO_CAPTURE)),
    }
}

/// The output asked for, else the full screen on a terminal and text elsewhere. A replay prints.
fn format_of(flags: &Live) -> Format {
    let screen = std::io::stdout().is_terminal() && !flags.recording.replay;
    flags.format.unwrap_or(if screen { Format::Tui } else { Format::Text })
}

/// What a trace directory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    /// Recorded into, unless `--replay` says otherwise.
    AsTold,
    /// Looked at.
    AtRecording,
}

fn picture(flags: &Live, format: Format, looks: Looks) -> Result<ExitCode> {
    let wish = Wish::new(flags, format, looks == Looks::AtRecording)?;
    if wish.format == Format::Tui {
        return screen::run(&wish);
    }
    if let Some(dir) = wish.recorded() {
        return replay::run(&wish, dir);
    }
    if flags.recording.daemon && flags.view.is_none() { record::daemon(&wish) } else { text::run(&wish) }
}
