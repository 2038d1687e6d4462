//! Markers of a window: they stand in small blocks of their own, which are read without any block of records.

use super::Dir;
use crate::trace::clock::Span;
use crate::trace::codec::notes;
use crate::trace::marker::Marker;

impl Dir {
    /// Markers in a window, oldest first.
    pub(super) fn marked(&self, window: Span) -> Vec<Marker> {
        let mut found = Vec::new();
        for entry in self.files.iter().filter(|e| e.span().touches(window)) {
            let index = self.index(entry);
            for group in index.markers.iter().filter(|g| entry.shift(g.span).end > window.start && entry.shift(g.span).start <= window.end)
            {
                // One that is damaged says nothing; what it was about is in the rows.
                let markers = entry.file.note(*group, notes::read_markers).unwrap_or_default();
                found.extend(markers.into_iter().map(|m| Marker { at: entry.global(m.at), ..m }).filter(|m| m.is_in(window)));
            }
        }
        found.sort_by_key(|m| m.at);
        found
    }
}
