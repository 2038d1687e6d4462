//! What sessions say of their own times, over time: a recording keeps them apart from names, so that any past instant can be looked at.

use super::catalog::{Activity, UnixMicros};
use super::clock::Span;
use super::record::SessionId;

/// A session's own times, microseconds since 1970; 0: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// `query_start`.
    pub query_start: UnixMicros,
    /// `xact_start`.
    pub xact_start: UnixMicros,
    /// `state_change`.
    pub state_change: UnixMicros,
}

impl Times {
    /// Those of an account.
    pub fn of(a: &Activity) -> Self {
        Self { query_start: a.query_start, xact_start: a.xact_start, state_change: a.state_change }
    }

    /// What of it was so already at an instant before it was said, microseconds since 1970.
    #[must_use]
    pub fn by(self, wall: UnixMicros) -> Self {
        let then = |t: UnixMicros| if t <= wall { t } else { 0 };
        Self { query_start: then(self.query_start), xact_start: then(self.xact_start), state_change: then(self.state_change) }
    }
}

/// What is told of sessions at the end of a stretch. Who is not told of goes on as told before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    /// The stretch: what changed in it is told.
    pub span: Span,
    /// Everyone there is told of: nothing before is needed.
    pub all: bool,
    /// By session. `None`: it has changed since it was told of last, and is told of within a second.
    pub entries: Vec<(SessionId, Option<Times>)>,
}
