//! Blocks of ours: checksums around them and the blocks that belong to them.

use super::Problem;
use super::bytes::{Reader, Writer};
use super::header::{BLOCK_HEADER, BlockHeader};
use super::records::push;
use crate::trace::clock::{Span, Ts};

/// A block as it stands in a file.
#[derive(Debug, Clone, Copy)]
pub struct Framed<'a> {
    /// Its header.
    pub header: BlockHeader,
    /// Header and content as they stand in the file.
    pub bytes: &'a [u8],
}

impl<'a> Framed<'a> {
    /// The content as it stands in the file.
    pub fn stored(&self) -> &'a [u8] {
        self.bytes.get(BLOCK_HEADER..).unwrap_or_default()
    }
}

/// Takes blocks off the front of bytes, until there is no whole one.
#[derive(Debug, Clone)]
pub struct Frames<'a>(pub &'a [u8]);

impl<'a> Iterator for Frames<'a> {
    type Item = Framed<'a>;
    fn next(&mut self) -> Option<Framed<'a>> {
        let header = BlockHeader::read(self.0)?;
        let (bytes, rest) = self.0.split_at_checked(BLOCK_HEADER + header.packed as usize)?;
        self.0 = rest;
        Some(Framed { header, bytes })
    }
}

/// The header's part in a checksum: all but the sizes, which are known only afterwards; if they are wrong nothing decompresses.
fn header_sum(h: &BlockHeader) -> u32 {
    let bare = BlockHeader { packed: 0, unpacked: 0, ..*h };
    crc32c::crc32c(&bare.write())
}

/// Appends a block of ours that holds `content` and speaks of `span`; `beside` are the blocks before it that belong to it, as bytes, and their number.
pub fn write_own(out: &mut Vec<u8>, kind: u16, first: Ts, span: Span, beside: (&[u8], u32), content: &[u8]) {
    let first = if first >= span.start && first <= span.end { first } else { span.start };
    let header =
        BlockHeader { first, last: span.end, count: beside.1 + 1, kind, period: first.since(span.start), ..BlockHeader::default() };
    let mut w = Writer(Vec::with_capacity(content.len() + 8));
    w.u32(crc32c::crc32c(beside.0));
    w.0.extend_from_slice(content);
    let sum = crc32c::crc32c_append(header_sum(&header), &w.0);
    w.u32(sum);
    push(out, header, &w.0);
}

/// The stretch a block of ours speaks of, by its header alone.
pub fn own_span(header: &BlockHeader) -> Span {
    Span::new(header.first - header.period, header.last)
}

/// The content of a block of ours, if it and the blocks before it that belong to it are as they were written.
pub fn read_own(own: &Framed<'_>, beside: &[Framed<'_>]) -> Result<Vec<u8>, Problem> {
    let mut content = own.header.unpack(own.stored())?;
    let Some((body, sum)) = content.split_last_chunk::<4>() else { return Err(Problem::Damaged("a block is too short for its checksum")) };
    if crc32c::crc32c_append(header_sum(&own.header), body) != u32::from_le_bytes(*sum) {
        return Err(Problem::Damaged("a block's checksum is wrong"));
    }
    let around = beside.iter().fold(0, |sum, b| crc32c::crc32c_append(sum, b.bytes));
    if Reader(body).u32()? != around || beside.len() + 1 != own.header.count as usize {
        return Err(Problem::Damaged("the checksum of the blocks before a block is wrong"));
    }
    content.truncate(content.len() - 4);
    content.drain(..4);
    Ok(content)
}
