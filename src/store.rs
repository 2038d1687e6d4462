//! Recordings on disk: a directory of trace files, read as one [`crate::trace::Trace`].

pub mod cache;
pub mod dir;
pub mod file;
pub mod names;
pub mod roster;
pub mod sidecars;
