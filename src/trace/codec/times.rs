//! Blocks of what sessions say of their own times.

use super::bytes::{Reader, Writer};
use super::frame::{Framed, own_span, read_own, write_own};
use super::{Problem, kind};
use crate::trace::catalog::UnixMicros;
use crate::trace::record::SessionId;
use crate::trace::times::{Accounts, Times};

/// Flags of an entry: it has changed and is not told; which times there are.
const MOVED: u8 = 1;
const QUERY: u8 = 2;
const XACT: u8 = 4;
const STATE: u8 = 8;

/// Appends accounts; their entries must be in the order of sessions.
pub fn write_times(out: &mut Vec<u8>, accounts: &Accounts) {
    let mut w = Writer::default();
    // The newest time of all: differences are small.
    let newest =
        accounts.entries.iter().filter_map(|(_, t)| *t).flat_map(|t| [t.query_start, t.xact_start, t.state_change]).max().unwrap_or(0);
    w.u8(u8::from(accounts.all));
    w.u64(newest as u64);
    w.uleb(accounts.entries.len() as u64);
    let mut last = 0;
    for (session, _) in &accounts.entries {
        w.delta(last, u64::from(session.0));
        last = u64::from(session.0);
    }
    let flags = |t: &Option<Times>| {
        t.map_or(MOVED, |t| {
            let flag = |time: UnixMicros, bit: u8| if time == 0 { 0 } else { bit };
            flag(t.query_start, QUERY) | flag(t.xact_start, XACT) | flag(t.state_change, STATE)
        })
    };
    accounts.entries.iter().for_each(|(_, t)| w.u8(flags(t)));
    for t in accounts.entries.iter().filter_map(|(_, t)| *t) {
        for time in [t.query_start, t.xact_start, t.state_change] {
            if time != 0 {
                w.delta(time as u64, newest as u64);
            }
        }
    }
    write_own(out, kind::TIMES, accounts.span.start, accounts.span, (&[], 0), &w.0);
}

/// Reads accounts.
pub fn read_times(block: &Framed<'_>) -> Result<Accounts, Problem> {
    const WRONG: Problem = Problem::Damaged("a block of sessions' times is not what it should be");
    if block.header.kind != kind::TIMES {
        return Err(WRONG);
    }
    let content = read_own(block, &[])?;
    let mut r = Reader(&content);
    let all = r.u8()? != 0;
    let newest = r.u64()?;
    let n = r.count(2)?;
    let mut last = 0;
    let mut sessions = Vec::with_capacity(n);
    for _ in 0..n {
        last = r.delta(last)?;
        sessions.push(SessionId(u32::try_from(last).map_err(|_| WRONG)?));
    }
    let flags = r.take(n)?;
    let mut entries = Vec::with_capacity(n);
    for (session, flags) in sessions.into_iter().zip(flags) {
        let mut time = |bit: u8| -> Result<UnixMicros, Problem> {
            if flags & bit == 0 { Ok(0) } else { Ok(newest.wrapping_sub(r.delta(0)?) as UnixMicros) }
        };
        let times = Times { query_start: time(QUERY)?, xact_start: time(XACT)?, state_change: time(STATE)? };
        entries.push((session, (flags & MOVED == 0).then_some(times)));
    }
    r.end()?;
    Ok(Accounts { span: own_span(&block.header), all, entries })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::clock::{Span, Ts};
    use crate::trace::codec::frame::Frames;
    use proptest::prelude::*;

    fn times() -> impl Strategy<Value = Option<Times>> {
        let time = || prop_oneof![Just(0), any::<i64>(), 1_790_000_000_000_000i64..1_790_000_100_000_000];
        prop::option::of((time(), time(), time()).prop_map(|(query_start, xact_start, state_change)| Times {
            query_start,
            xact_start,
            state_change,
        }))
    }

    proptest! {
        #[test]
        fn written_and_read_back_is_equal(start in 1u64..u64::MAX / 2, len in 0u64..1 << 40, all: bool, entries in prop::collection::btree_map(any::<u32>(), times(), 0..40)) {
            let accounts = Accounts { span: Span::new(Ts(start), Ts(start) + len), all, entries: entries.into_iter().map(|(s, t)| (SessionId(s), t)).collect() };
            let mut out = Vec::new();
            write_times(&mut out, &accounts);
            prop_assert_eq!(read_times(&Frames(&out).next().unwrap()).unwrap(), accounts);
        }

        #[test]
        fn any_byte_changed_is_an_error(entries in prop::collection::btree_map(any::<u32>(), times(), 1..9), which in any::<prop::sample::Index>(), bit in 0u8..8) {
            let accounts = Accounts { span: Span::new(Ts(5), Ts(9)), all: true, entries: entries.into_iter().map(|(s, t)| (SessionId(s), t)).collect() };
            let mut out = Vec::new();
            write_times(&mut out, &accounts);
            let at = which.index(out.len());
            out[at] ^= 1u8 << bit;
            if let Some(frame) = Frames(&out).next() {
                // Bytes that decompress to the same are the same.
                prop_assert!(read_times(&frame).map_or(true, |read| read == accounts));
            }
        }
    }
}
