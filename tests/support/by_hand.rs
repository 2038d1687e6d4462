//! Trace files as trace formats v2 and v3 have them, byte by byte and without our encoder.
#![allow(missing_docs)]

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
    let mut f = b"PGWT".to_vec();
    f.extend(version.to_le_bytes());
    f.extend(1u16.to_le_bytes());
    f.extend(17u32.to_le_bytes());
    f.extend(1_790_000_000_000_000_000u64.to_le_bytes());
    f.extend(1_000_000_000u64.to_le_bytes());
    f
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
