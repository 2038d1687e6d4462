//! What a viewer may want of a running capture: exact and blocking windows. Words only, known in every build.

use crate::trace::record::Fidelity;
use crossbeam_channel::Sender;

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

/// A command and, where somebody waits for it, the way back for what came of it.
#[derive(Debug, Clone)]
pub struct Order {
    /// What is wanted.
    pub command: Command,
    /// Gets the outcome once; must have room for it, since capture does not wait.
    pub reply: Option<Sender<Outcome>>,
}

impl From<Command> for Order {
    fn from(command: Command) -> Self {
        Self { command, reply: None }
    }
}

/// What came of an order, or one line saying why nothing did.
pub type Outcome = Result<Done, String>;

/// How it stands after an order.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Done {
    /// Whole seconds granted, rounded up; fewer than wanted when the budget has no more. `None`: without an end, or nothing was to be granted.
    pub granted_s: Option<u64>,
    /// Seconds until the window closes; `None`: no end, or none is open.
    pub remaining_s: Option<u64>,
}
