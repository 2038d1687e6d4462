//! What we know about PostgreSQL, and reading a running server from outside: read-only, without login, extension, restart or signal.
//!
//! ```text
//!  discover ─► Postmaster ─► memory::Segment ─► shmem::Index ─► proof ─► server::Attached ─► capture
//!   (/proc)                  (mapped, readv)   (name → area)   (or refuse)
//! ```
//!
//! [`layout`] and [`names`] are facts written as data and compile everywhere; the rest reads `/proc` and memory, on Linux only.
//! Everything here runs on the thread that owns the [`server::Attached`]; nothing is shared.

pub mod layout;
pub mod names;

#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod discover;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod elf;
#[cfg(all(feature = "capture", target_os = "linux"))]
mod identity;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod memory;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod process;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod procs;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod proof;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod registered;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod server;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod shmem;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod status;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod titles;
#[cfg(all(feature = "capture", target_os = "linux"))]
pub mod version;
