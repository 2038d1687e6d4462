//! pg_wait_tracer shows where a running, stock PostgreSQL server (13 to 18) spends its time, from outside.
//!
//! ```text
//!  PGPROC / PgBackendStatus in shared memory
//!    │ mapped read-only
//!    ▼
//!  capture thread: drain → Builder → seal ──bounded channel──► Recent of the session worker
//!                                                                 │ Source::ask(Question) -> Answer
//!                                              text, json, csv ◄──┴──► screen
//! ```
//!
//! The seam is where the data turns pure: everything upstream makes immutable blocks of records, everything downstream is a
//! function of blocks, asked through one door ([`analysis::Source`]).
//!
//! Glossary: [`trace::clock::Ts`], [`trace::clock::Span`] time on the trace clock · [`trace::wait::WaitEvent`] PostgreSQL's
//! `wait_event_info`, 0 = no wait · [`trace::record::Record`] a session in one state for one stretch · [`trace::block::Block`] records as
//! columns with the ticks that saw them · [`trace::catalog::Catalog`] names · [`trace::health::Health`] the recorder's account of itself ·
//! [`trace::clock::Window`] follow or fixed: the whole difference between live and paused · [`analysis::question::Question`],
//! [`analysis::answer::Answer`] plain serde data: view model, wire and dump in one · AAS average active sessions = DB Time / observed time.

pub mod analysis;
pub mod capture;
pub mod cli;
pub mod config;
pub mod control;
pub mod demo;
pub mod pg;
pub mod render;
pub mod run;
pub mod session;
pub mod show;
pub mod store;
pub mod trace;
pub mod ui;
pub mod when;
