//! Trace files as trace formats v2 and v3 have them, byte by byte and without our encoder.
#![allow(missing_docs, dead_code, clippy::indexing_slicing)]

/// LZ4 as simple as it gets: one run of literals, by the format's description.
pub fn literals(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if bytes.len() < 15 {
        out.push((bytes.len() as u8) << 4);
    } else {
        out.push(0xf0);
        let mut more = bytes.len() - 15;
        while more >= 255 {
            out.push(255);
            more -= 255;
        }
        out.push(more as u8);
    }
    out.extend_from_slice(bytes);
    out
}

pub fn file_header(version: u16) -> Vec<u8> {
    header_at(version, 1_790_000_000_000_000_000, 1_000_000_000)
}

/// Of PostgreSQL 17, with its two clocks in nanoseconds.
pub fn header_at(version: u16, wall: u64, mono: u64) -> Vec<u8> {
    let mut f = b"PGWT".to_vec();
    f.extend(version.to_le_bytes());
    f.extend(1u16.to_le_bytes());
    f.extend(17u32.to_le_bytes());
    f.extend(wall.to_le_bytes());
    f.extend(mono.to_le_bytes());
    f
}

fn uleb(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

fn times(out: &mut Vec<u8>, ts: impl Iterator<Item = u64>) -> u64 {
    let mut last = 0;
    for t in ts {
        uleb(out, t - last);
        last = t;
    }
    last
}

/// Time of the end, process, event that ended, length, query, time on the CPU (`None`: not measured).
pub type Ended = (u64, u32, u32, u64, i64, Option<u64>);

fn words(c: &mut Vec<u8>, words: impl Iterator<Item = u32>) {
    words.for_each(|w| c.extend(w.to_le_bytes()));
}

/// A block of transitions; formats before 3 have no column of times on the CPU.
pub fn transitions(file: &mut Vec<u8>, version: u16, rows: &[Ended]) {
    let mut c = Vec::new();
    let last = times(&mut c, rows.iter().map(|r| r.0));
    words(&mut c, rows.iter().map(|r| r.1));
    words(&mut c, rows.iter().map(|r| r.2));
    for _ in rows {
        c.extend([0; 4]);
    }
    for r in rows {
        uleb(&mut c, r.3);
    }
    for r in rows {
        c.extend(r.4.to_le_bytes());
    }
    if version >= 3 {
        for r in rows {
            uleb(&mut c, r.5.unwrap_or(u64::MAX));
        }
    }
    block(file, rows[0].0, last, rows.len() as u32, 0, 0, &c);
}

/// A block of samples, each of a time, a process, an event and a query.
pub fn samples(file: &mut Vec<u8>, period: u64, rows: &[(u64, u32, u32, i64)]) {
    let mut c = Vec::new();
    let last = times(&mut c, rows.iter().map(|r| r.0));
    words(&mut c, rows.iter().map(|r| r.1));
    words(&mut c, rows.iter().map(|r| r.2));
    for r in rows {
        c.extend(r.3.to_le_bytes());
    }
    block(file, rows[0].0, last, rows.len() as u32, 1, period, &c);
}

/// The end of a finished file: first time and offset of each block, and how many there are.
pub fn footer(file: &mut Vec<u8>, first: &[u64], offsets: &[u64]) {
    for (ts, offset) in first.iter().zip(offsets) {
        file.extend(ts.to_le_bytes());
        file.extend(offset.to_le_bytes());
    }
    file.extend((offsets.len() as u32).to_le_bytes());
}

pub fn block(out: &mut Vec<u8>, first: u64, last: u64, n: u32, kind: u16, period: u64, content: &[u8]) {
    let packed = literals(content);
    out.extend(first.to_le_bytes());
    out.extend(last.to_le_bytes());
    out.extend(n.to_le_bytes());
    out.extend((packed.len() as u32).to_le_bytes());
    out.extend((content.len() as u32).to_le_bytes());
    out.extend(kind.to_le_bytes());
    out.extend([0, 0]);
    out.extend(period.to_le_bytes());
    out.extend(packed);
}
