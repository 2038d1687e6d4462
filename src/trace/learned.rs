//! What the rules that open windows have learned and spent: to be kept over a restart of the recorder.

use super::clock::{Span, Ts};

/// As of one moment, on the trace clock.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Learned {
    /// Which server it is about: no other can use it.
    pub server: String,
    /// Usual average active sessions; `None`: not known yet.
    pub baseline_aas: Option<f64>,
    /// No rule fires before.
    pub quiet_until: Ts,
    /// When exact windows were open in the last hour, oldest first; the last may be open still.
    pub spent: Vec<Span>,
}
