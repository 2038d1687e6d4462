//! One row: a session was in one state for one stretch of time.
//!
//! A sampled row stands for `samples` consecutive ticks that found the same state; its span is exactly the sum of those ticks'
//! measured elapsed times. An exact or blocking row is one wait-event interval, or a piece of one; see [`Detail`].

use super::clock::Span;
use super::wait::WaitEvent;
use serde::{Deserialize, Serialize};

/// A session: one process lifetime, (pid, start time). Never reused within a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub u32);

/// A query id as PostgreSQL prints it: signed 64 bits. 0 means none is known. Serialized as decimal text, since JSON numbers lose bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QueryId(pub i64);

impl QueryId {
    /// No query id known.
    pub const NONE: Self = Self(0);

    /// Reads signed, unsigned or `0x` hexadecimal notation.
    pub fn parse(text: &str) -> Option<Self> {
        let t = text.trim();
        if let Some(hex) = t.strip_prefix("0x").or_else(|| t.strip_prefix("0X")) {
            return u64::from_str_radix(hex, 16).ok().map(|v| Self(v as i64));
        }
        t.parse::<i64>().ok().or_else(|| t.parse::<u64>().ok().map(|v| v as i64)).map(Self)
    }
}

impl std::fmt::Display for QueryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for QueryId {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for QueryId {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("'{text}' is not a query id")))
    }
}

/// `pg_stat_activity.state`, made independent of the server's version, plus what the recorder knows beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum State {
    /// The process has no status row yet or no more: starting or ending. Also `state = starting` of 18.
    #[default]
    Starting = 0,
    /// `idle`.
    Idle = 1,
    /// `active`: a command is open.
    Active = 2,
    /// `idle in transaction`.
    IdleInTransaction = 3,
    /// `fastpath function call`: a command is open.
    Fastpath = 4,
    /// `idle in transaction (aborted)`.
    IdleInTransactionAborted = 5,
    /// `disabled`: `track_activities` is off, so nothing is known about commands.
    Disabled = 6,
    /// A process that has no such state (checkpointer, writers, launchers, …).
    None = 7,
}

impl State {
    /// By its number.
    pub const ALL: [Self; 8] = [
        Self::Starting,
        Self::Idle,
        Self::Active,
        Self::IdleInTransaction,
        Self::Fastpath,
        Self::IdleInTransactionAborted,
        Self::Disabled,
        Self::None,
    ];

    /// The state of a number, if there is one.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether a command is open, so that "no wait" means CPU. Unknown (`track_activities = off`) counts as open.
    pub fn in_command(self) -> bool {
        matches!(self, Self::Active | Self::Fastpath | Self::Disabled)
    }

    /// The words `pg_stat_activity` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Active => "active",
            Self::IdleInTransaction => "idle in transaction",
            Self::Fastpath => "fastpath function call",
            Self::IdleInTransactionAborted => "idle in transaction (aborted)",
            Self::Disabled => "disabled",
            Self::None => "-",
        }
    }
}

/// How a stretch of time was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fidelity {
    /// Not observed.
    #[default]
    None,
    /// Point observations, each standing for its tick's elapsed time.
    Sampled,
    /// Every wait that left the CPU, with its true length.
    Blocking,
    /// Every transition, with its true length.
    Exact,
    /// More than one of the above.
    Mixed,
}

impl Fidelity {
    /// The word shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sampled => "sampled",
            Self::Blocking => "blocking",
            Self::Exact => "exact",
            Self::Mixed => "mixed",
        }
    }

    /// The fidelity of two stretches taken together.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (a, Self::None) => a,
            (Self::None, b) => b,
            (a, b) if a == b => a,
            _ => Self::Mixed,
        }
    }
}

/// One row of a [`super::block::Block`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When. For sampled rows: from the tick before the first observation to the last observation.
    pub span: Span,
    /// Who.
    pub session: SessionId,
    /// What the process reported it waited for.
    pub event: WaitEvent,
    /// The query id the server showed then (it stays after the command ends), or one inferred from the text; see the catalog.
    pub query: QueryId,
    /// The state of the session then.
    pub state: State,
    /// How many ticks saw it; 0 for exact and blocking rows.
    pub samples: u32,
    /// What only exact and blocking rows know.
    pub detail: Option<Detail>,
}

/// What an exact or blocking row knows beyond a sampled one.
///
/// An interval (one wait, or one stretch without a wait) is one row, unless it was still going on when rows were handed over: then it is several
/// rows one behind the other, all but the last of them `open`. So the rows of a session never overlap and time is counted once. A number of
/// waits is the number of rows that are not `open`; the length of such a wait is [`Record::length`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Detail {
    /// On-CPU time inside the row, nanoseconds. In a wait: spinning, or working inside the system call.
    pub cpu_ns: u64,
    /// Time inside the row during which the process could have run but had no CPU.
    pub runq_ns: u64,
    /// Length of the rows before this one that belong to the same interval.
    pub lead_ns: u64,
    /// The interval goes on where the row ends. Also the last row of a window: what came of the interval is not known.
    pub open: bool,
}

impl Record {
    /// Length of the whole interval up to the end of this row.
    pub fn length(&self) -> u64 {
        self.span.len() + self.detail.map_or(0, |d| d.lead_ns)
    }

    /// On-CPU time, where it was measured.
    pub fn cpu_ns(&self) -> Option<u64> {
        self.detail.map(|d| d.cpu_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_ids_read_every_notation_and_stay_text_in_json() {
        assert_eq!(QueryId::parse("-2"), Some(QueryId(-2)));
        assert_eq!(QueryId::parse("18446744073709551614"), Some(QueryId(-2)));
        assert_eq!(QueryId::parse("0xFFFFFFFFFFFFFFFE"), Some(QueryId(-2)));
        assert_eq!(QueryId::parse("12x"), None);
        let id = QueryId(-4_185_925_123_159_566_327);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, "\"-4185925123159566327\"");
        assert_eq!(serde_json::from_str::<QueryId>(&json).unwrap(), id);
    }

    #[test]
    fn fidelities_join() {
        assert_eq!(Fidelity::None.join(Fidelity::Sampled), Fidelity::Sampled);
        assert_eq!(Fidelity::Exact.join(Fidelity::Sampled), Fidelity::Mixed);
        assert_eq!(Fidelity::Exact.join(Fidelity::Exact), Fidelity::Exact);
    }
}
