//! The totals of one stretch of time, so that a wide window is answered without its rows. Pure.
//!
//! A digest holds exactly what [`super::cut`] tells of its stretch, `(start, end]`, added up by everything a question can tell apart; what it counts
//! as is decided when it is read. Digests that adjoin add up to the digest of both.

use super::block::Block;
use super::clock::{Span, Ts};
use super::cut::{self, Seen};
use super::lengths::Counted;
use super::record::{QueryId, SessionId, State};
use super::wait::WaitEvent;
use rustc_hash::FxHashMap;

pub mod commands;

pub use commands::{Commands, Open};

/// What the rows of a digest are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Who.
    pub session: SessionId,
    /// For which query.
    pub query: QueryId,
    /// In what.
    pub event: WaitEvent,
    /// In which state.
    pub state: State,
    /// Whether seen by exact or blocking capture, so that waits are counted and time is measured.
    pub precise: bool,
}

/// How much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Nanoseconds.
    pub ns: u64,
    /// Of those, on the CPU, where that was measured.
    pub cpu_ns: u64,
    /// Of those, able to run without a CPU, where that was measured.
    pub runq_ns: u64,
    /// Sampled observations.
    pub samples: u64,
    /// Waits that ended.
    pub waits: u64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.ns += other.ns;
        self.cpu_ns += other.cpu_ns;
        self.runq_ns += other.runq_ns;
        self.samples += other.samples;
        self.waits += other.waits;
    }
}

/// One key's part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What.
    pub key: Key,
    /// How much.
    pub sums: Sums,
    /// How long the waits were that ended. Empty also where it was not read, see [`Digest::lengths`].
    pub lengths: Counted,
}

/// Executions that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Who.
    pub session: SessionId,
    /// Of which query.
    pub query: QueryId,
    /// How many.
    pub count: u64,
    /// Of those, how many have a boundary that was not seen but inferred.
    pub inferred: u64,
    /// Of those, how many were watched from their beginning to their end.
    pub whole: u64,
    /// How long those took. Empty also where it was not read.
    pub lengths: Counted,
}

/// The totals of a stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// Which: `(start, end]`.
    pub span: Span,
    /// What was observed of it.
    pub seen: Seen,
    /// By key, in order. None is empty of time, observations and waits alike.
    pub rows: Vec<Row>,
    /// By session and query, in order.
    pub executions: Vec<Execution>,
    /// Executions that go on at its end, by session, in order.
    pub open: Vec<Open>,
    /// Whether the lengths are here.
    pub lengths: bool,
}

impl Digest {
    /// The digest of a stretch. `scan` visits the blocks that have anything about it; `commands` stands at its beginning, and at its end afterwards.
    pub fn of(span: Span, commands: &mut Commands, scan: impl Fn(&mut dyn FnMut(&Block))) -> Self {
        let (seen, precise) = Seen::of(span, &scan);
        let mut places: FxHashMap<Key, usize> = FxHashMap::default();
        let mut rows: Vec<(Key, Sums, Vec<u64>)> = Vec::new();
        cut::rows(span, &precise, &scan, |cut| {
            let r = &cut.record;
            let precise = cut.measured.is_some();
            let key = Key { session: r.session, query: r.query, event: r.event, state: r.state, precise };
            let place = *places.entry(key).or_insert_with(|| {
                rows.push((key, Sums::default(), Vec::new()));
                rows.len() - 1
            });
            let Some((_, sums, lengths)) = rows.get_mut(place) else { return };
            let (cpu_ns, runq_ns) = cut.measured.unwrap_or_default();
            sums.add(&Sums { ns: cut.span.len(), cpu_ns, runq_ns, samples: u64::from(cut.samples), waits: u64::from(cut.ended) });
            if cut.ended {
                lengths.push(r.length());
            }
        });
        let mut rows: Vec<Row> = rows.into_iter().map(|(key, sums, mut l)| Row { key, sums, lengths: Counted::of(&mut l) }).collect();
        rows.sort_unstable_by_key(|row| row.key);
        let mut ended: FxHashMap<(SessionId, QueryId), (u64, u64, Vec<u64>)> = FxHashMap::default();
        commands.pass(span, &precise, scan, |e| {
            let entry = ended.entry((e.session, e.query)).or_default();
            entry.0 += 1;
            entry.1 += u64::from(e.inferred);
            entry.2.extend(e.length);
        });
        let made = |((session, query), (count, inferred, mut l)): (_, (u64, u64, Vec<u64>))| {
            let whole = l.len() as u64;
            Execution { session, query, count, inferred, whole, lengths: Counted::of(&mut l) }
        };
        let mut executions: Vec<Execution> = ended.into_iter().map(made).collect();
        executions.sort_unstable_by_key(|e| (e.session, e.query));
        Self { span, seen, rows, executions, open: commands.open(), lengths: true }
    }

    /// The digest of this stretch and of the one right behind it.
    pub fn add(&mut self, later: &Self) {
        self.span.end = later.span.end;
        self.seen.add(&later.seen);
        self.lengths &= later.lengths;
        unite(
            &mut self.rows,
            &later.rows,
            |r| r.key,
            |a, b| {
                a.sums.add(&b.sums);
                a.lengths.add(&b.lengths);
            },
        );
        unite(
            &mut self.executions,
            &later.executions,
            |e| (e.session, e.query),
            |a, b| {
                a.count += b.count;
                a.inferred += b.inferred;
                a.whole += b.whole;
                a.lengths.add(&b.lengths);
            },
        );
        self.open.clone_from(&later.open);
    }

    /// Where executions stand at its end.
    pub fn commands(&self) -> Commands {
        Commands::at(self.span.end, self.open.iter().copied())
    }

    /// Bytes it occupies in memory, about.
    pub fn bytes(&self) -> usize {
        let of = |l: &Counted| l.cells.capacity() * size_of::<(u16, u32)>() + l.sums.capacity() * size_of::<(u8, u64)>();
        size_of::<Self>()
            + self.rows.iter().map(|r| size_of::<Row>() + of(&r.lengths)).sum::<usize>()
            + self.executions.iter().map(|e| size_of::<Execution>() + of(&e.lengths)).sum::<usize>()
            + self.open.capacity() * size_of::<Open>()
            + (self.seen.sampled.capacity() + 2 * self.seen.precise.capacity()) * size_of::<Span>()
    }
}

/// Two lists in order as one.
fn unite<T: Clone, K: Ord>(into: &mut Vec<T>, from: &[T], key: impl Fn(&T) -> K, add: impl Fn(&mut T, &T)) {
    let mut out = Vec::with_capacity(into.len().max(from.len()));
    let mut new = from.iter().peekable();
    for mut old in into.drain(..) {
        while let Some(before) = new.next_if(|n| key(n) < key(&old)) {
            out.push(before.clone());
        }
        if let Some(same) = new.next_if(|n| key(n) == key(&old)) {
            add(&mut old, same);
        }
        out.push(old);
    }
    out.extend(new.cloned());
    *into = out;
}

/// Where a trace keeps a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// What it is about.
    pub span: Span,
    /// Which part of the trace.
    pub part: u32,
    /// Where in it.
    pub offset: u64,
}

/// How a part of a window is best read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Row by row.
    Blocks(Span),
    /// From a digest.
    Digest(Place),
}

impl Part {
    /// What it is about.
    pub fn span(&self) -> Span {
        match self {
            Self::Blocks(span) => *span,
            Self::Digest(place) => place.span,
        }
    }
}

/// Lengths of the stretches of digests, nanoseconds, shortest first: each is eight of the one before.
pub const STRETCHES: [u64; 5] = {
    const FIRST: u64 = 2 * super::clock::SECOND;
    [FIRST, FIRST << 3, FIRST << 6, FIRST << 9, FIRST << 12]
};

/// The cell of a length that holds an instant, its end included.
pub fn cell(length: u64, at: Ts) -> Span {
    let start = Ts(at.0.saturating_sub(1) / length * length);
    Span::new(start, start + length)
}
