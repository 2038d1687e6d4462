//! Recordings on disk: a directory of trace files, read as one [`crate::trace::Trace`].

pub mod access;
pub mod cache;
pub mod dir;
pub mod file;
pub mod kept;
pub mod lock;
pub mod names;
pub mod pen;
pub mod recover;
pub mod retain;
pub mod roster;
pub mod sidecars;
pub mod writer;
