//! Trace files as bytes, both ways. Pure: no files; see docs/FORMAT.md.
//!
//! A file is a header and blocks. Transitions and samples stand in blocks as trace format v3 has them, so that its readers read them; behind them
//! stands a block of ours that says what else a [`super::block::Block`] knows, and holds checksums of itself and of them. Such a group is
//! whole or not there. Nothing here panics on any bytes, and nothing allocates more than the input justifies.

pub mod body;
pub mod bytes;
mod coverage;
pub mod digest;
pub mod encoder;
pub mod foreign;
pub mod frame;
pub mod header;
pub mod index;
pub mod notes;
pub mod records;
mod squeeze;
pub mod times;

pub use header::{BLOCK_HEADER, BlockHeader, FILE_HEADER, FileHeader};

/// Kinds of blocks.
pub mod kind {
    /// Ended intervals.
    pub const TRANSITIONS: u16 = 0;
    /// Point observations.
    pub const SAMPLES: u16 = 1;
    /// What a block of ours holds beyond the transitions or samples before it.
    pub const BLOCK: u16 = 3;
    /// Names: the server, its events, sessions, queries.
    pub const NAMES: u16 = 4;
    /// A stretch that was not recorded.
    pub const GAP: u16 = 5;
    /// What file this is: the first block.
    pub const FILE: u16 = 6;
    /// The clock and the recorder's account of itself.
    pub const ACCOUNT: u16 = 7;
    /// The totals of a stretch of time.
    pub const DIGEST: u16 = 8;
    /// How long the waits were that a digest right before it counts.
    pub const LENGTHS: u16 = 9;
    /// What a finished file holds and where: its last block.
    pub const INDEX: u16 = 10;
    /// A page of the index: where groups of blocks are.
    pub const GROUPS: u16 = 11;
    /// What sessions say of their own times.
    pub const TIMES: u16 = 13;
    /// Openings and closings of windows, and what asked for them.
    pub const MARKERS: u16 = 12;
}

/// Why bytes could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// Not a trace file.
    Foreign(&'static str),
    /// A trace file of a version that is not read.
    Version(u16),
    /// Something in it is not as it was written.
    Damaged(&'static str),
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign(why) => write!(f, "not a trace file: {why}"),
            Self::Version(v) => write!(f, "trace format {v} is not read, only 2 and 3"),
            Self::Damaged(what) => write!(f, "damaged: {what}"),
        }
    }
}

impl std::error::Error for Problem {}
