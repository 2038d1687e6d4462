//! The index a finished file holds at its end: made from the headers of its blocks once, read instead of them ever after.

use super::{File, Group, Hole, Index};
use crate::trace::clock::Span;
use crate::trace::codec::Problem;
use crate::trace::codec::digest::Made;
use crate::trace::codec::frame::Frames;
use crate::trace::codec::header::{BLOCK_HEADER, BlockHeader, FILE_HEADER};
use crate::trace::codec::index::{Contents, read_index, read_page, write_index};
use crate::trace::codec::kind;
use std::sync::OnceLock;

/// A page of groups, read when it is needed.
#[derive(Debug, Clone)]
pub(super) struct Page {
    block: Group,
    groups: OnceLock<Vec<Group>>,
}

/// What was made a digest of, if these groups are all there are.
pub fn touching<'a>(groups: impl Iterator<Item = &'a Group>, span: Span) -> Made {
    let mut made = Made::default();
    groups.filter(|g| g.span.touches(span)).for_each(|g| made.add(g.sum));
    made
}

impl Index {
    /// Groups that touch a window on the file's clock, by start.
    pub fn near(&self, file: &File, window: Span) -> Result<Vec<Group>, Problem> {
        let mut found: Vec<Group> = self.groups.iter().filter(|g| g.span.touches(window)).copied().collect();
        for page in self.pages.iter().filter(|p| p.block.span.touches(window)) {
            let groups = if let Some(groups) = page.groups.get() {
                groups
            } else {
                let groups = file.note(page.block, read_page)?;
                page.groups.get_or_init(|| groups)
            };
            found.extend(groups.iter().filter(|g| g.span.touches(window)));
        }
        Ok(found)
    }
}

impl File {
    /// The blocks that make up the index of this file, to be written behind its blocks and before its footer. None of a file of another program.
    pub fn index_blocks(&self) -> Vec<u8> {
        let mut index = Index::default();
        self.index(&mut index);
        if self.note.is_none() {
            return Vec::new();
        }
        for totals in &mut index.digests {
            totals.holds = self.digest(totals, false).is_ok_and(|(_, made)| made == touching(index.groups.iter(), totals.block.span));
        }
        let contents = Contents {
            extent: index.span(),
            names: index.names,
            times: index.times,
            account: index.account.into_iter().collect(),
            digests: index.digests,
            pages: Vec::new(),
            holes: index.holes.into_iter().map(|h| (h.span, h.why)).collect(),
            markers: index.markers,
        };
        let mut out = Vec::new();
        write_index(&mut out, index.end, &index.groups, &contents);
        out
    }

    /// The index at the end of a finished file of `len` bytes, and where the footer behind it begins.
    pub(super) fn stored(&self, len: u64) -> Option<(Contents, u64)> {
        let mut tail = [0; 20];
        self.read_into(&mut tail, len.checked_sub(20)?)?;
        let count = u64::from(u32::from_le_bytes(*tail.last_chunk()?));
        let offset = u64::from_le_bytes(*tail.get(8..)?.first_chunk()?);
        let end = len.checked_sub(count * 16 + 4)?;
        if offset < FILE_HEADER as u64 || offset + BLOCK_HEADER as u64 > end {
            return None;
        }
        let mut head = [0; BLOCK_HEADER];
        self.read_into(&mut head, offset)?;
        let header = BlockHeader::read(&head).filter(|h| h.kind == kind::INDEX)?;
        let bytes = self.read(offset, BLOCK_HEADER as u32 + header.packed).ok()?;
        if offset + bytes.len() as u64 != end {
            return None;
        }
        Some((read_index(&Frames(&bytes).next()?, offset).ok()?, end))
    }

    /// The index a file holds, as one read from headers would be.
    pub(super) fn stored_index(&self, len: u64) -> Option<Index> {
        let (c, end) = self.stored(len)?;
        Some(Index {
            names: c.names,
            times: c.times,
            markers: c.markers,
            account: c.account.first().copied(),
            digests: c.digests,
            pages: c.pages.into_iter().map(|block| Page { block, groups: OnceLock::new() }).collect(),
            extent: c.extent,
            holes: c.holes.into_iter().map(|(span, why)| Hole { span, why }).collect(),
            ours: true,
            end,
            ..Index::default()
        })
    }
}
