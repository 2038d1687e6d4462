//! Questions about a trace and their answers. Pure: no files, threads, clocks or randomness; the same input gives the same answer on any host.
//!
//! There is one door: a [`Source`] asked a [`Question`] gives an [`Answer`]. Text, JSON, CSV, the screen and the tests all go through it.

pub mod answer;
pub mod filter;
pub mod question;

use answer::Answer;
use question::Question;

/// Something that answers questions: a trace at hand, or (later) another host.
pub trait Source {
    /// The answer, or one line saying why there is none.
    fn ask(&mut self, question: &Question) -> anyhow::Result<Answer>;
}
