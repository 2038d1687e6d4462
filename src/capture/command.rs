//! What a viewer may want of a running capture: exact and blocking windows. Words only, known in every build.

use crate::trace::record::Fidelity;

/// Which tier a window is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Every transition, by hardware watchpoints.
    Exact,
    /// Every wait that leaves the CPU, by the scheduler's own events.
    Blocking,
}

impl Kind {
    /// The fidelity of its rows.
    pub fn fidelity(self) -> Fidelity {
        match self {
            Self::Exact => Fidelity::Exact,
            Self::Blocking => Fidelity::Blocking,
        }
    }
}

/// What the user wants. What came of it is in [`crate::trace::health::Health`]: `window`, `window_error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Open a window, or let the one of the same kind that is open end so many seconds from now. `None`: until it is closed.
    Open {
        /// Exact or blocking.
        kind: Kind,
        /// How long.
        seconds: Option<u64>,
    },
    /// Close the window.
    Close,
}
