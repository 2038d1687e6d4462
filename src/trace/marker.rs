//! Moments about windows: one was opened or closed, a rule asked for one, or nearly did. With the recording, so that a chart can show why it is exact there.

use super::clock::Ts;
use super::record::Fidelity;
use serde::{Deserialize, Serialize};

/// How the detail of a granted fire ends that found a window open.
pub const LASTS_LONGER: &str = "the open window lasts longer";

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A window opened.
    Opened,
    /// It closed.
    Closed,
    /// A rule asked for a window.
    Fire,
    /// A rule was about to: the first moment of an episode.
    Near,
}

/// Why a window opened (or was asked for), or why it closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Opened: somebody wanted it.
    Manual,
    /// Opened: load or lock waits out of the ordinary.
    Anomaly,
    /// Opened: more demand for CPU than there is.
    CpuSaturation,
    /// Opened: it is open all the time.
    Standing,
    /// Closed: its time was up.
    Expired,
    /// Closed: somebody wanted it closed, or another one took its place.
    Request,
    /// Closed: the recorder ended.
    Shutdown,
    /// Closed: the budget of the hour was used up.
    Budget,
    /// Closed: it cost the server too much.
    Overhead,
    /// Closed: the server went away.
    ServerGone,
    /// Closed: no backend could be followed.
    Unfollowed,
}

impl Reason {
    /// As in JSON: `manual`, `cpu_saturation`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Anomaly => "anomaly",
            Self::CpuSaturation => "cpu_saturation",
            Self::Standing => "standing",
            Self::Expired => "expired",
            Self::Request => "request",
            Self::Shutdown => "shutdown",
            Self::Budget => "budget",
            Self::Overhead => "overhead",
            Self::ServerGone => "server_gone",
            Self::Unfollowed => "unfollowed",
        }
    }

    /// Its number in markers of trace format v3; from 7 on ours, which other readers call unknown.
    pub fn code(self) -> u8 {
        match self {
            Self::Manual => 0,
            Self::Anomaly => 1,
            Self::Expired => 2,
            Self::Request => 3,
            Self::Shutdown => 4,
            Self::Budget => 5,
            Self::CpuSaturation => 6,
            Self::Standing => 7,
            Self::Overhead => 8,
            Self::ServerGone => 9,
            Self::Unfollowed => 10,
        }
    }
}

/// A moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// When.
    pub at: Ts,
    /// What.
    pub kind: Kind,
    /// Why.
    pub reason: Reason,
    /// Tier of the window it is about.
    pub tier: Fidelity,
    /// The rule and its figures, what denied a fire, or what closed a window, in words. May be empty.
    pub detail: String,
    /// Whether a window is, or was, open because of it: of a fire, whether it was granted; never of something near.
    pub granted: bool,
    /// Seconds, rounded up: of an opening or a granted fire how long the window may be open (`None`: without an end), of a closing how long it was.
    pub seconds: Option<u64>,
}

impl Marker {
    /// What trace format v3 puts in the place of the query: seconds and reason.
    pub fn word(&self) -> i64 {
        (self.seconds.unwrap_or(0) << 8 | u64::from(self.reason.code())) as i64
    }

    /// Whether it belongs to a window `(start, end]`.
    pub fn is_in(&self, window: super::clock::Span) -> bool {
        self.at > window.start && self.at <= window.end
    }
}
