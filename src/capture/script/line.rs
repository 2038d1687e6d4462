//! The words of a scenario: lengths of time and stretches such as `2s..8s Lock:transactionid query=42`. Pure.

use crate::trace::catalog::{BackendKind, EventNames};
use crate::trace::clock::SECOND;
use crate::trace::record::{QueryId, State};
use crate::trace::wait::WaitEvent;
use anyhow::{Context, Result, bail};

/// What one session does for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// First instant behind which it does this, nanoseconds from the scenario's start; may be before it.
    pub from: i64,
    /// Last instant at which it does.
    pub to: i64,
    /// What it does.
    pub does: Does,
}

/// What a sample of a session finds.
#[derive(Debug, Clone, PartialEq)]
pub enum Does {
    /// Nothing: its memory could not be read.
    Unread,
    /// A state.
    Seen {
        /// One event, or several of which one is drawn per tick, with their weights.
        mix: Vec<(WaitEvent, u32)>,
        /// The query id its status shows.
        query: QueryId,
        /// Its `state`.
        state: State,
        /// On-CPU time over the whole stretch, where it is seen exactly; all of it without a wait and none in one when not given.
        cpu: Option<i64>,
        /// Time it could run and had no CPU.
        runq: Option<i64>,
    },
}

/// Reads `1h30m`, `2.5s`, `250ms`; a minus in front makes it negative. Nanoseconds.
pub fn time(text: &str) -> Result<i64> {
    let whole = || format!("'{text}' is no length of time; write for example 90s, 1m30s, 2.5s or 250ms");
    let (negative, mut rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let mut total: i64 = 0;
    if rest.is_empty() {
        bail!(whole());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').with_context(whole)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let ns = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND as i64,
            "m" => 60 * SECOND as i64,
            "h" => 3_600 * SECOND as i64,
            "d" => 86_400 * SECOND as i64,
            _ => bail!(whole()),
        };
        let (int, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut part = int.parse::<i64>().ok().and_then(|n| n.checked_mul(ns)).with_context(whole)?;
        let mut digit = ns;
        for c in fraction.chars() {
            digit /= 10;
            part += i64::from(c.to_digit(10).with_context(whole)?) * digit;
        }
        total = total.checked_add(part).with_context(whole)?;
        rest = tail;
    }
    Ok(if negative { -total } else { total })
}

/// Reads `2s..8s` or `8s..`, which ends at `end`.
pub fn range(text: &str, end: i64) -> Result<(i64, i64)> {
    let (from, to) = text.split_once("..").with_context(|| format!("'{text}' is no stretch of time; write for example 2s..8s or 8s.."))?;
    let (from, to) = (time(from)?, if to.is_empty() { end } else { time(to)? });
    if to <= from {
        bail!("'{text}' ends before it begins");
    }
    Ok((from, to))
}

/// Reads `2s..8s EVENT [STATE] [query=ID] [cpu=LENGTH] [runq=LENGTH]`.
///
/// EVENT is `CPU`, `Class:Event`, a hexadecimal id, `unread`, or a mix such as `CPU@5,IO:DataFileRead@3`. Without a STATE, a process that has
/// one is `active`, or `idle` in `Client:ClientRead`. A query id stays until another is given or a command begins, as the server's does.
pub fn stretch(text: &str, kind: BackendKind, before: Option<&Stretch>, end: i64, names: &EventNames) -> Result<Stretch> {
    let mut words = text.split_whitespace();
    let (from, to) = range(words.next().context("an empty line; write for example 2s..8s CPU")?, end)?;
    let event = words.next().context("the event is missing; write for example 2s..8s CPU")?;
    let (mut state, mut query, mut cpu, mut runq) = (None, None, None, None);
    for word in words {
        if let Some(id) = word.strip_prefix("query=") {
            query = Some(QueryId::parse(id).with_context(|| format!("'{id}' is no query id"))?);
        } else if let Some(length) = word.strip_prefix("cpu=") {
            cpu = Some(time(length)?);
        } else if let Some(length) = word.strip_prefix("runq=") {
            runq = Some(time(length)?);
        } else {
            state = Some(self::state(word)?);
        }
    }
    if event == "unread" {
        return Ok(Stretch { from, to, does: Does::Unread });
    }
    let mix = event.split(',').map(|part| weighted(part, names)).collect::<Result<Vec<_>>>()?;
    let waits_for_client = mix.iter().all(|(event, _)| *event == WaitEvent::CLIENT_READ);
    let state = state.unwrap_or(match has_state(kind) {
        false => State::None,
        true if waits_for_client => State::Idle,
        true => State::Active,
    });
    let last = before.and_then(|s| match &s.does {
        Does::Seen { query, .. } => Some(*query),
        Does::Unread => None,
    });
    let query = query.or(last.filter(|_| !state.in_command())).unwrap_or(QueryId::NONE);
    Ok(Stretch { from, to, does: Does::Seen { mix, query, state, cpu, runq } })
}

/// Whether processes of this kind run commands.
fn has_state(kind: BackendKind) -> bool {
    use BackendKind as K;
    kind.is_gated() || matches!(kind, K::ParallelWorker | K::AutovacuumWorker | K::BackgroundWorker | K::LogicalWorker)
}

fn weighted(part: &str, names: &EventNames) -> Result<(WaitEvent, u32)> {
    let (name, weight) = part.split_once('@').unwrap_or((part, "1"));
    let weight =
        weight.parse().ok().filter(|w| *w > 0).with_context(|| format!("'{weight}' in '{part}' is no weight, a number above 0"))?;
    let raw = name.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok()).map(WaitEvent);
    match raw.or_else(|| names.find(name)) {
        Some(event) => Ok((event, weight)),
        None => bail!("unknown wait event '{name}'; nearest: {}", names.nearest(name).join(", ")),
    }
}

const STATES: [(&str, State); 8] = [
    ("active", State::Active),
    ("idle", State::Idle),
    ("idle-in-transaction", State::IdleInTransaction),
    ("aborted", State::IdleInTransactionAborted),
    ("fastpath", State::Fastpath),
    ("disabled", State::Disabled),
    ("starting", State::Starting),
    ("none", State::None),
];

fn state(word: &str) -> Result<State> {
    STATES.iter().find(|(name, _)| *name == word).map(|(_, state)| *state).with_context(|| {
        let near = STATES.iter().map(|s| s.0).max_by(|a, b| strsim::jaro_winkler(word, a).total_cmp(&strsim::jaro_winkler(word, b)));
        format!("'{word}' is no state and no query=ID; nearest: {}", near.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = SECOND as i64;

    #[test]
    fn lengths_of_time() {
        for (text, ns) in [
            ("0s", 0),
            ("90s", 90 * S),
            ("1m30s", 90 * S),
            ("2.5s", 2_500_000_000),
            ("250ms", S / 4),
            ("-1h", -3_600 * S),
            ("3d", 259_200 * S),
        ] {
            assert_eq!(time(text).unwrap(), ns, "{text}");
        }
        for text in ["", "-", "5", "s", "5x", "1.2.3s", "99999999999999d", "5 s"] {
            assert!(time(text).unwrap_err().to_string().contains("no length of time"), "{text}");
        }
    }

    fn names() -> EventNames {
        EventNames::new(18, [(0x0600_0000, "ClientRead".into()), (0x0300_0005, "transactionid".into())])
    }

    fn read(text: &str, before: Option<&Stretch>) -> Result<Stretch> {
        stretch(text, BackendKind::Client, before, 30 * S, &names())
    }

    #[test]
    fn stretches_say_what_is_not_written() {
        let lock = read("2s..8s Lock:transactionid query=42", None).unwrap();
        assert_eq!((lock.from, lock.to), (2 * S, 8 * S));
        assert_eq!(
            lock.does,
            Does::Seen { mix: vec![(WaitEvent(0x0300_0005), 1)], query: QueryId(42), state: State::Active, cpu: None, runq: None }
        );
        let idle = read("8s.. Client:ClientRead", Some(&lock)).unwrap();
        assert_eq!(idle.to, 30 * S);
        assert_eq!(
            idle.does,
            Does::Seen { mix: vec![(WaitEvent::CLIENT_READ, 1)], query: QueryId(42), state: State::Idle, cpu: None, runq: None }
        );
        let Does::Seen { query, .. } = read("9s.. CPU", Some(&idle)).unwrap().does else { panic!() };
        assert_eq!(query, QueryId::NONE);
        let Does::Seen { mix, .. } = read("0s..1s CPU@5,0x0A000015@3", None).unwrap().does else { panic!() };
        assert_eq!(mix, [(WaitEvent::CPU, 5), (WaitEvent(0x0a00_0015), 3)]);
    }

    #[test]
    fn errors_name_the_nearest() {
        let table = [
            ("2s..8s Lok:transactionid", "unknown wait event 'Lok:transactionid'; nearest: Lock:transactionid"),
            ("2s..8s CPU activ", "'activ' is no state and no query=ID; nearest: active"),
            ("2s..8s", "the event is missing"),
            ("8s..2s CPU", "ends before it begins"),
            ("2s-8s CPU", "is no stretch of time"),
            ("2s..8s CPU@0", "is no weight"),
            ("2s..8s CPU query=x", "'x' is no query id"),
        ];
        for (text, expected) in table {
            let error = read(text, None).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
