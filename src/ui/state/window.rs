//! Windows of exact or blocking capture, as the user asks for them: what may be opened here, what is typed, what is waited for. Pure.

use super::line::Line;
use crate::session::Kind;
use std::time::Duration;

/// Seconds a window is open unless said otherwise.
pub const SECONDS: u64 = 10;
/// Longest window that is opened by hand, seconds.
const LONGEST: u64 = 86_400;

/// What can be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Windows {
    /// Windows of this tier, unless the user names the other.
    Of {
        /// The tier.
        kind: Kind,
        /// The tier that is kept open all the time.
        standing: Option<Kind>,
    },
    /// None; one line says why.
    Never(String),
}

impl Default for Windows {
    fn default() -> Self {
        Self::Never("nothing is being captured here".into())
    }
}

/// The tier as a word.
pub fn name(kind: Kind) -> &'static str {
    kind.fidelity().name()
}

/// The prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Asking {
    /// What is typed.
    pub line: Line,
    /// What is wrong with it.
    pub error: Option<String>,
    /// The tier when none is named.
    pub kind: Kind,
}

/// A window that was asked for and of which nothing was heard yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// The error there was before.
    pub error: Option<String>,
    /// From then on, an error that is still the same is a new one.
    pub until: Duration,
}

/// Reads `10`, `30s`, `2m`, `10 blocking`; `kind` is the tier when none is named.
pub fn read(text: &str, kind: Kind) -> Result<(Kind, u64), String> {
    let (mut seconds, mut named) = (None, None);
    for word in text.split_whitespace() {
        let tier = [Kind::Exact, Kind::Blocking].into_iter().find(|k| name(*k).starts_with(&word.to_lowercase()));
        match (tier, length(word)) {
            (Some(tier), _) if named.is_none() => named = Some(tier),
            (None, Some(n)) if seconds.is_none() => seconds = Some(n),
            (None, None) => return Err(format!("'{word}' is neither a length nor a tier: seconds, or 2m, and exact or blocking")),
            _ => return Err(format!("'{word}' is one too many: one length and one tier")),
        }
    }
    match seconds.unwrap_or(SECONDS) {
        0 => Err("at least 1 second".into()),
        n if n > LONGEST => Err(format!("at most {LONGEST} seconds; --mode full captures all the time")),
        n => Ok((named.unwrap_or(kind), n)),
    }
}

/// `10`, `10s`, `2m`, `1h` in seconds.
fn length(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match word.get(digits.len()..)? {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_tiers_in_any_order() {
        for (text, wanted) in [
            ("", (Kind::Exact, 10)),
            ("10", (Kind::Exact, 10)),
            (" 30s ", (Kind::Exact, 30)),
            ("2m blocking", (Kind::Blocking, 120)),
            ("b 5", (Kind::Blocking, 5)),
            ("EXACT", (Kind::Exact, 10)),
        ] {
            assert_eq!(read(text, Kind::Exact), Ok(wanted), "{text}");
        }
        assert_eq!(read("7", Kind::Blocking), Ok((Kind::Blocking, 7)));
    }

    #[test]
    fn what_is_neither_is_said() {
        for (text, said) in [
            ("0", "at least 1"),
            ("100000", "at most 86400"),
            ("soon", "'soon' is neither"),
            ("10 20", "'20' is one too many"),
            ("exact blocking", "'blocking' is one too many"),
            ("99999999999999999999", "neither"),
            ("99999999999999999h", "neither"),
            ("-1", "neither"),
        ] {
            assert!(read(text, Kind::Exact).unwrap_err().contains(said), "{text}: {:?}", read(text, Kind::Exact));
        }
    }
}
