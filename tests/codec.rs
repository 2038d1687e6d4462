//! Trace files as bytes: what is written comes back, what is damaged is noticed, and files written by hand read as the format says.

#![allow(clippy::needless_for_each, clippy::type_complexity, clippy::needless_pass_by_value, reason = "one column a line")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use by_hand::{block, file_header};
use pg_wait_tracer::trace::block::{Blind, Block, Builder, Edge, Intervals, Loss, Mark};
use pg_wait_tracer::trace::catalog::{EventNames, News, Query, Server, Session};
use pg_wait_tracer::trace::clock::{Clock, Span, Ts};
use pg_wait_tracer::trace::codec::body::read_block;
use pg_wait_tracer::trace::codec::encoder::Encoder;
use pg_wait_tracer::trace::codec::frame::{Framed, Frames};
use pg_wait_tracer::trace::codec::header::{footer, footer_len, read_footer};
use pg_wait_tracer::trace::codec::records::{UNKNOWN_CPU, is_marker, read_samples, read_transitions};
use pg_wait_tracer::trace::codec::{FileHeader, Problem, foreign, kind, notes};
use pg_wait_tracer::trace::record::{Detail, Fidelity, QueryId, Record, SessionId, State};
use pg_wait_tracer::trace::wait::WaitEvent;
use proptest::prelude::*;

#[path = "support/by_hand.rs"]
mod by_hand;

const EVENTS: [u32; 6] = [0, 0x0a00_0015, 0x0300_0005, 0x0100_0008, 0x0600_0000, 0x0500_0003];
const STATES: [State; 3] = [State::Active, State::Idle, State::IdleInTransaction];

fn pid(s: SessionId) -> u32 {
    4000 + s.0
}

fn encode(blocks: &[Block], pid: impl Fn(SessionId) -> u32 + Copy) -> Vec<u8> {
    let mut encoder = Encoder::default();
    let mut out = Vec::new();
    blocks.iter().for_each(|b| encoder.block(b, pid, &mut out));
    out
}

/// The blocks of groups that are whole, and why others are not.
fn decode(bytes: &[u8]) -> (Vec<Block>, Vec<Problem>) {
    let (mut blocks, mut problems) = (Vec::new(), Vec::new());
    let frames: Vec<Framed<'_>> = Frames(bytes).collect();
    for (i, own) in frames.iter().enumerate().filter(|(_, f)| f.header.kind == kind::BLOCK) {
        let beside = &frames[(i + 1).saturating_sub(own.header.count as usize)..i];
        match read_block(3, own, beside) {
            Ok(block) => blocks.push(block),
            Err(p) => problems.push(p),
        }
    }
    (blocks, problems)
}

/// Per tick: elapsed, whether a gap was before, unread, sealed behind it, and per session nothing or what it does.
fn sampled() -> impl Strategy<Value = Vec<Block>> {
    let who = prop_oneof![3 => Just(None), 5 => (0..EVENTS.len(), -1..2i64, 0..STATES.len()).prop_map(Some)];
    let step = (1..50u64, prop::bool::weighted(0.1), 0..3u32, prop::bool::weighted(0.2), prop::collection::vec(who, 5));
    prop::collection::vec(step, 1..40).prop_map(|steps| {
        let (mut b, mut at, mut blocks) = (Builder::default(), 1_000_000, Vec::new());
        for (elapsed, gap, unread, seal, who) in steps {
            at += elapsed;
            b.tick(Ts(at), if gap { 0 } else { elapsed });
            (0..unread).for_each(|_| b.unread());
            for (i, seen) in who.into_iter().enumerate() {
                if let Some((event, query, state)) = seen {
                    b.sample(SessionId(i as u32 * 3), WaitEvent(EVENTS[event]), QueryId(query), STATES[state]);
                }
            }
            if seal {
                blocks.extend(b.seal());
            }
        }
        blocks.extend(b.seal());
        blocks
    })
}

fn row(r: (u64, u64, u32, usize, i64, usize, Option<(u32, u32, u64, bool)>)) -> Record {
    let (start, len, session, event, query, state, detail) = r;
    Record {
        span: Span::new(Ts(start), Ts(start + len)),
        session: SessionId(session),
        event: WaitEvent(EVENTS[event]),
        query: QueryId(query),
        state: STATES[state],
        samples: 0,
        detail: detail.map(|(cpu, runq, lead_ns, open)| Detail { cpu_ns: cpu.into(), runq_ns: runq.into(), lead_ns, open }),
    }
}

fn span() -> impl Strategy<Value = Span> {
    (0..10_000u64, 1..500u64).prop_map(|(s, l)| Span::new(Ts(s), Ts(s + l)))
}

fn intervals(bare: bool) -> impl Strategy<Value = Vec<Block>> {
    let detail = (0..9999u32, 0..300u32, prop_oneof![4 => Just(0u64), 1 => 1..100_000u64], prop::bool::weighted(0.2));
    let detail = (detail, prop::bool::weighted(0.7)).prop_map(move |(d, none)| (!(bare && none)).then_some(d));
    let length = prop_oneof![Just(0u64), 1..5_000u64, 4_000_000_000..13_000_000_000u64];
    let rows = prop::collection::vec((5_000..9_000u64, length, 0..6u32, 0..EVENTS.len(), -2..2i64, 0..STATES.len(), detail), 0..60);
    let marks = prop::collection::vec((0..10_000u64, 0..6u32, -1..2i64, any::<bool>(), any::<bool>()), 0..6);
    let losses = prop::collection::vec((span(), prop::option::of(0..6u32), 0..99u64), 0..4);
    let blind = prop::collection::vec((0..6u32, span()), 0..4);
    let tier = prop::sample::select(vec![Fidelity::Exact, Fidelity::Blocking]);
    let one = (tier, rows, prop::collection::vec(span(), 1..4), losses, blind, marks);
    prop::collection::vec(one, 1..4).prop_map(|all| {
        let mut out = Vec::new();
        for (tier, rows, watched, losses, blind, marks) in all {
            let mut made = Intervals::default();
            made.begin(tier);
            rows.into_iter().for_each(|r| made.row(row(r)));
            watched.into_iter().for_each(|s| made.watched(s));
            for (span, session, records) in losses {
                made.lost(Loss { span, session: session.map(SessionId), records });
            }
            blind.into_iter().for_each(|(s, span)| made.blind(Blind { session: SessionId(s), span }));
            for (at, session, query, begin, inferred) in marks {
                let edge = if begin { Edge::Begin } else { Edge::End };
                made.mark(Mark { at: Ts(at), session: SessionId(session), query: QueryId(query), edge, inferred });
            }
            out.extend(made.seal());
        }
        out
    })
}

fn any_blocks() -> impl Strategy<Value = Vec<Block>> {
    (sampled(), intervals(false), intervals(true)).prop_map(|(mut a, b, c)| {
        // Also what no recorder makes: everything in one.
        let merged = Block::merge(a.iter().chain(&b));
        a.extend(b);
        a.extend(c);
        a.push(merged);
        a
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_comes_back(blocks in any_blocks(), same_pid in any::<bool>()) {
        let bytes = if same_pid { encode(&blocks, |_| 7) } else { encode(&blocks, pid) };
        let (read, problems) = decode(&bytes);
        prop_assert_eq!(problems, vec![]);
        prop_assert_eq!(read, blocks);
    }

    #[test]
    fn a_flipped_byte_is_never_a_wrong_number(blocks in any_blocks(), at in any::<prop::sample::Index>(), flip in 1..=255u8) {
        let mut bytes = encode(&blocks, pid);
        let i = at.index(bytes.len());
        bytes[i] ^= flip;
        let (read, problems) = decode(&bytes);
        let mut left = blocks.iter();
        for block in &read {
            prop_assert!(left.any(|b| b == block), "a block that was never written");
        }
        prop_assert!(read.len() < blocks.len() || problems.is_empty());
    }

    #[test]
    fn a_cut_tail_leaves_the_whole_groups_before_it(blocks in any_blocks(), at in any::<prop::sample::Index>()) {
        let bytes = encode(&blocks, pid);
        let (read, problems) = decode(&bytes[..at.index(bytes.len())]);
        prop_assert_eq!(&read[..], &blocks[..read.len()]);
        prop_assert!(read.len() < blocks.len() && problems.is_empty());
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), kinds in 0..16u16) {
        let _ = FileHeader::read(&bytes);
        let _ = read_footer(&bytes, 10_000);
        if bytes.len() > 40 {
            let packed = bytes.len() as u32 - 40;
            bytes[16..20].copy_from_slice(&3u32.to_le_bytes());
            bytes[20..24].copy_from_slice(&packed.to_le_bytes());
            bytes[24..28].copy_from_slice(&(packed * 3).to_le_bytes());
            bytes[28..30].copy_from_slice(&kinds.to_le_bytes());
        }
        for f in Frames(&bytes) {
            let _ = read_transitions(2, &f.header, f.stored());
            let _ = read_transitions(3, &f.header, f.stored());
            let _ = read_samples(&f.header, f.stored());
            let _ = read_block(3, &f, &[]);
            let _ = notes::read_names(&f);
        }
    }

    #[test]
    fn a_reader_of_v3_gets_every_sample_and_every_ended_wait(s in sampled(), x in intervals(false)) {
        let bytes = encode(&s, pid);
        let mut got = 0;
        let mut weight = 0i128;
        for f in Frames(&bytes).filter(|f| f.header.kind == kind::SAMPLES) {
            let rows = read_samples(&f.header, f.stored()).unwrap();
            prop_assert!(rows.ts.is_sorted());
            got += rows.ts.len();
            weight += i128::from(f.header.period) * rows.ts.len() as i128;
        }
        prop_assert_eq!(got, s.iter().flat_map(Block::records).map(|r| r.samples as usize).sum::<usize>());
        let whole: i128 = s.iter().flat_map(Block::records).map(|r| i128::from(r.span.len())).sum();
        prop_assert!((whole - weight) >= 0 && whole - weight < 1 + got as i128);
        let bytes = encode(&x, pid);
        let mut got = Vec::new();
        for f in Frames(&bytes).filter(|f| f.header.kind == kind::TRANSITIONS) {
            let rows = read_transitions(3, &f.header, f.stored()).unwrap();
            prop_assert!(rows.ts.is_sorted());
            got.extend(rows.ts.iter().zip(&rows.duration).zip(&rows.old).filter(|r| !is_marker(*r.1)).map(|((t, d), o)| (*t, *d, *o)));
        }
        let mut want: Vec<_> = x.iter().flat_map(Block::records).filter(|r| !r.detail.unwrap().open)
            .map(|r| (r.span.end.0, r.length(), r.event.0)).collect();
        got.sort_unstable();
        want.sort_unstable();
        prop_assert_eq!(got, want);
    }
}

#[test]
fn an_interval_in_pieces_is_one_transition_with_all_its_on_cpu_time() {
    let mut made = Intervals::default();
    made.begin(Fidelity::Exact);
    made.row(row((10, 20, 1, 2, 7, 0, Some((5, 0, 0, true)))));
    made.watched(Span::new(Ts(0), Ts(30)));
    let first = made.seal().remove(0);
    made.row(row((30, 15, 1, 2, 7, 0, Some((3, 0, 20, false)))));
    made.row(row((45, 5, 1, 0, 7, 0, Some((4, 0, 0, false)))));
    made.watched(Span::new(Ts(30), Ts(60)));
    let second = made.seal().remove(0);
    let bytes = encode(&[first.clone(), second.clone()], pid);
    assert_eq!(decode(&bytes).0, [first, second]);
    let mut rows = Vec::new();
    for f in Frames(&bytes).filter(|f| f.header.kind == kind::TRANSITIONS) {
        let t = read_transitions(3, &f.header, f.stored()).unwrap();
        rows.extend((0..t.ts.len()).map(|i| (t.ts[i], t.pid[i], t.old[i], t.new[i], t.duration[i], t.cpu[i])));
    }
    assert_eq!(
        rows,
        [(0, 0, 0xFFFF_FFF4, 0xFFFF_FFF4, 0, 0), (45, 4001, EVENTS[2], 0, 35, 8), (50, 4001, 0, 0, 5, 4)],
        "a window's opening, then one wait of 35 ns with 8 on the CPU, then the CPU"
    );
}

#[test]
fn notes_come_back() {
    let clock = Clock { mono: Ts(5_000), wall_ns: 1_790_000_000_000_000_000 };
    let header = FileHeader::new(18, clock);
    let session = Session { pid: 7, started: 99, application: "a\nb".into(), ..Session::default() };
    let news = vec![
        News::Server(Server { major: 18, cluster: "main".into(), ..Server::default() }),
        News::Events(EventNames::new(18, [(0x0300_0005, "transactionid".into()), (0x0900_0001, "VacuumDelay".into())])),
        News::Session(SessionId(3), Box::new(session)),
        News::Query(QueryId(-5), Query { text: "select '\u{fffd}'".into(), ..Query::default() }),
        News::Gone(SessionId(3)),
    ];
    let gap = notes::Gap { span: Span::new(Ts(1), Ts(9)), records: 3, why: "no space left on device".into() };
    let account = notes::Account { clock, health: pg_wait_tracer::trace::health::Health { ticks: 9, ..Default::default() } };
    let mut out = Vec::new();
    notes::write_file(&mut out, &header, "pg_wait_tracer 0.1.0", u64::MAX);
    notes::write_names(&mut out, Ts(8), &news);
    notes::write_gap(&mut out, &gap);
    notes::write_account(&mut out, &account);
    let frames: Vec<Framed<'_>> = Frames(&out).collect();
    let note = notes::read_file(&frames[0]).unwrap();
    assert_eq!((note.format, note.run, note.clock, note.major), (1, u64::MAX, clock, 18));
    assert_eq!(notes::read_names(&frames[1]).unwrap(), news);
    assert_eq!(notes::read_gap(&frames[2]).unwrap(), gap);
    assert_eq!(notes::read_account(&frames[3]).unwrap(), account);
    assert_eq!(FileHeader::read(&header.write()), Ok(header));
}

#[test]
fn footers_are_read_only_when_they_are_footers() {
    let blocks = [(Ts(5), 28), (Ts(7), 100), (Ts(6), 300)];
    let bytes = footer(&blocks);
    let len = 400 + bytes.len() as u64;
    assert_eq!(footer_len(bytes[bytes.len() - 4..].try_into().unwrap(), len), Some(bytes.len() as u64));
    assert_eq!(read_footer(&bytes, len), Some(blocks.to_vec()));
    assert_eq!(read_footer(&bytes, len - 80), None, "the last block would reach into the footer");
    assert_eq!(read_footer(&footer(&[(Ts(5), 29)]), len), None);
    assert_eq!(read_footer(&footer(&[(Ts(5), 28), (Ts(5), 28)]), len), None);
    assert_eq!(footer_len([0; 4], len), None);
}

#[test]
fn files_written_by_hand_read_as_the_format_says() {
    for version in [2u16, 3] {
        let mut file = file_header(version);
        // Two transitions of pids 1000 and 1001: IO for 300 ns until 1000 s..., then CPU for 200 ns with 150 on the CPU, query -2.
        let mut t = vec![0x80, 0x94, 0xeb, 0xdc, 0x03, 0xc8, 0x01];
        t.extend([0xe8, 3, 0, 0, 0xe9, 3, 0, 0]);
        t.extend([0x15, 0, 0, 0x0a, 0, 0, 0, 0]);
        t.extend([0, 0, 0, 0, 0, 0, 0, 6]);
        t.extend([0xac, 0x02, 0xc8, 0x01]);
        t.extend([7, 0, 0, 0, 0, 0, 0, 0]);
        t.extend([0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        if version == 3 {
            t.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
            t.extend([0x96, 0x01]);
        }
        block(&mut file, 1_000_000_000, 1_000_000_200, 2, 0, 0, &t);
        // Three samples, two at one instant.
        let mut s = vec![0x80, 0x94, 0xeb, 0xdc, 0x03, 0, 0x64];
        s.extend([0xe8, 3, 0, 0, 0xe9, 3, 0, 0, 0xe8, 3, 0, 0]);
        s.extend([5, 0, 0, 3, 0, 0, 0, 0, 5, 0, 0, 3]);
        s.extend([7u64, 0, 7].iter().flat_map(|q| q.to_le_bytes()));
        block(&mut file, 1_000_000_000, 1_000_000_100, 3, 1, 100, &s);

        let header = FileHeader::read(&file).unwrap();
        assert_eq!((header.version, header.major(), header.clock.wall_ns), (version, 17, 1_790_000_000_000_000_000));
        let frames: Vec<Framed<'_>> = Frames(&file[28..]).collect();
        let rows = read_transitions(version, &frames[0].header, frames[0].stored()).unwrap();
        assert_eq!(rows.ts, [1_000_000_000, 1_000_000_200]);
        assert_eq!((&rows.pid[..], &rows.old[..], &rows.new[..]), (&[1000, 1001][..], &[0x0a00_0015, 0][..], &[0, 0x0600_0000][..]));
        assert_eq!((&rows.duration[..], rows.query[1] as i64), (&[300, 200][..], -2));
        assert_eq!(rows.cpu, [UNKNOWN_CPU, if version == 3 { 150 } else { UNKNOWN_CPU }]);
        let exact: Vec<Record> = foreign::transitions(&rows).unwrap().records().collect();
        assert_eq!(exact.len(), 2);
        assert_eq!((exact[0].span, exact[0].session), (Span::new(Ts(999_999_700), Ts(1_000_000_000)), SessionId(1000)));
        assert_eq!((exact[0].cpu_ns(), exact[1].cpu_ns()), (Some(0), Some(if version == 3 { 150 } else { 200 })));

        let rows = read_samples(&frames[1].header, frames[1].stored()).unwrap();
        let block = foreign::samples(&rows, frames[1].header.period).unwrap();
        assert_eq!(block.ticks().iter().map(|t| (t.at.0, t.weight)).collect::<Vec<_>>(), [(1_000_000_000, 100), (1_000_000_100, 100)]);
        let rows: Vec<(u32, u32, u64, u32)> = block.records().map(|r| (r.session.0, r.event.0, r.span.len(), r.samples)).collect();
        assert_eq!(rows, [(1000, 0x0300_0005, 200, 2), (1001, 0, 100, 1)]);
    }
    assert_eq!(FileHeader::read(&file_header(1)), Err(Problem::Version(1)));
    assert!(matches!(FileHeader::read(b"\x7fELF"), Err(Problem::Foreign(_))));
}

#[test]
fn a_length_of_centuries_costs_no_memory() {
    use pg_wait_tracer::trace::codec::records::Transitions;
    let (ts, long) = (9_000_000_000_000_000_000u64, 8_000_000_000_000_000_000u64);
    let rows = Transitions {
        ts: vec![ts, ts + 5],
        pid: vec![1, 2],
        old: vec![0x0600_0000, 0],
        new: vec![0, 0],
        duration: vec![long, long + 5],
        query: vec![7, 7],
        cpu: vec![0, long],
    };
    let block = foreign::transitions(&rows).unwrap();
    assert!(block.len() < 70_000, "{} rows", block.len());
    let ended: Vec<(u64, u64)> = block.records().filter(|r| !r.detail.unwrap().open).map(|r| (r.length(), r.cpu_ns().unwrap())).collect();
    assert_eq!(ended.iter().map(|e| e.0).collect::<Vec<_>>(), [long, long + 5]);
    assert_eq!(ended[0].1, 0);
}

#[test]
fn sizes_are_what_was_promised_for_states_that_do_not_change() {
    // 100 sessions at 100 Hz for a second, in blocks of a quarter: ten of them work, the rest is idle.
    let mut b = Builder::default();
    let (mut blocks, mut at) = (Vec::new(), 7_000_000_000_000u64);
    for tick in 0..100u64 {
        let elapsed = 10_000_000 + (tick * 7_919) % 40_000;
        at += elapsed;
        b.tick(Ts(at), elapsed);
        for s in 0..100u32 {
            b.sample(
                SessionId(s),
                WaitEvent(EVENTS[if s < 10 { 2 } else { 4 }]),
                QueryId(i64::from(s % 30) * 987_654_321_987_654),
                State::Active,
            );
        }
        if tick % 25 == 24 {
            blocks.extend(b.seal());
        }
    }
    // As the writer does: half a second together.
    let merged: Vec<Block> = blocks.chunks(2).map(Block::merge).collect();
    let all = encode(&merged, pid);
    let bytes = all.len();
    assert!(bytes < 10_000 * 6 / 10, "{bytes} bytes for 10,000 samples");
}
