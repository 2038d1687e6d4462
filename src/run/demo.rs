//! `demo`: a private throw-away server with a workload, and the picture on it. Nothing is left behind.

use crate::cli::Demo as Flags;
use crate::demo::{self, Options};
use anyhow::Result;
use std::process::ExitCode;

/// Starts the server, shows the picture, takes the server down again.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    eprintln!("pg_wait_tracer: starting a private PostgreSQL with a workload; it is removed again at the end");
    let demo = demo::start(&Options::default())?;
    let mut live = flags.live.clone();
    live.target.pid = Some(demo.postmaster);
    live.target.pgdata = None;
    let outcome = super::picture(&live, super::format_of(&live), super::Looks::AsTold);
    drop(demo);
    outcome
}
