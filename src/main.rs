//! The program: parse, run, print the error chain and its remedy, exit status.

use clap::Parser;
use pg_wait_tracer::cli::Cli;
use pg_wait_tracer::run;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run::run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            if let Some(usage) = error.downcast_ref::<run::Usage>() {
                eprintln!("pg_wait_tracer: {usage}");
                return ExitCode::from(2);
            }
            if run::is_closed_pipe(&error) {
                return ExitCode::SUCCESS;
            }
            eprintln!("pg_wait_tracer: {error:#}");
            ExitCode::FAILURE
        }
    }
}
