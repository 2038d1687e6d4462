//! Text in cells: how wide it is, how it is cut, wrapped and put into the buffer. Counts what the user sees (grapheme clusters and their
//! width), never bytes. Text arrives here already safe, see [`super::format::safe`].

use ratatui::buffer::{Buffer, CellWidth};
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use std::borrow::Cow;
use unicode_segmentation::UnicodeSegmentation;

/// Grapheme clusters with their width in cells; what has none is left out.
fn clusters(text: &str) -> impl Iterator<Item = (usize, &str, usize)> {
    text.grapheme_indices(true).filter(|(_, g)| !g.contains(char::is_control)).map(|(i, g)| (i, g, usize::from(g.cell_width())))
}

/// Width in cells.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { clusters(text).map(|(_, _, w)| w).sum() }
}

/// The text, cut to `room` cells with `ellipsis` where it was cut.
pub fn fit<'a>(text: &'a str, room: usize, ellipsis: &str) -> Cow<'a, str> {
    // The longest texts are SQL of a megabyte; what lies behind the edge is not looked at.
    let (mut used, mut keep) = (0, 0);
    let room_before = room.saturating_sub(width(ellipsis));
    for (i, cluster, w) in clusters(text) {
        if used + w > room {
            return Cow::Owned(format!("{}{}", text.get(..keep).unwrap_or_default(), if room == 0 { "" } else { ellipsis }));
        }
        used += w;
        if used <= room_before {
            keep = i + cluster.len();
        }
    }
    Cow::Borrowed(text)
}

/// Lines of at most `room` cells that together are the text: broken behind spaces where possible, and at line breaks. Nothing is added and
/// nothing is lost but the line breaks themselves.
pub fn wrap(text: &str, room: usize) -> Vec<&str> {
    let room = room.max(2);
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let (mut start, mut used, mut space) = (0, 0, None);
        for (i, cluster, w) in clusters(line) {
            if used + w > room {
                let at = space.filter(|s| *s > start).unwrap_or(i);
                lines.extend(line.get(start..at));
                start = at;
                used = width(line.get(start..i).unwrap_or_default());
                space = None;
                if used + w > room {
                    lines.extend(line.get(start..i));
                    (start, used) = (i, 0);
                }
            }
            used += w;
            if cluster == " " {
                space = Some(i + 1);
            }
        }
        lines.extend(line.get(start..));
    }
    lines
}

/// Puts text at a place, cut at the right edge of `area`. The column behind it.
pub fn put(buf: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    let area = area.intersection(buf.area);
    if x < area.left() || x >= area.right() || y < area.top() || y >= area.bottom() {
        return x;
    }
    buf.set_stringn(x, y, text, usize::from(area.right() - x), alone(style)).0
}

/// Puts text so that it ends at the right edge of `area`'s first row. The column it begins at.
pub fn put_right(buf: &mut Buffer, area: Rect, text: &str, style: Style) -> u16 {
    let w = u16::try_from(width(text)).unwrap_or(u16::MAX).min(area.width);
    let x = area.right().saturating_sub(w);
    put(buf, area, x, area.y, text, style);
    x
}

/// Puts one glyph into a cell.
pub fn dot(buf: &mut Buffer, x: u16, y: u16, glyph: &str, style: Style) {
    if let Some(cell) = buf.cell_mut((x, y)) {
        cell.set_symbol(glyph).set_style(alone(style));
    }
}

/// The style without what lies below it: a bar on a reversed row is not reversed, a title on a dim rule is not dim.
fn alone(style: Style) -> Style {
    Style { sub_modifier: Modifier::all().difference(style.add_modifier), ..style }
}

/// Row `n` of an area.
pub fn row(area: Rect, n: u16) -> Rect {
    Rect { y: area.y.saturating_add(n).min(area.bottom()), height: u16::from(n < area.height), ..area }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wide_joined_combining_and_right_to_left_text_is_cut_to_the_cell() {
        for text in ["数据库连接池", "👩‍👩‍👧‍👦 family", "e\u{301}a\u{308}o", "שלום עולם", "plain", "", "a\u{200b}b"]
        {
            for room in 0..20 {
                let cut = fit(text, room, "…");
                assert!(width(&cut) <= room, "{text} at {room}: {cut}");
                if width(text) <= room {
                    assert_eq!(cut, text);
                }
            }
        }
        assert_eq!(fit("数据库", 4, "…"), "数…");
        assert_eq!(fit("abcdef", 4, "…"), "abc…");
        assert_eq!(fit("abcdef", 1, "…"), "…");
    }

    #[test]
    fn wrapping_breaks_behind_spaces_or_else_anywhere() {
        assert_eq!(wrap("select a, b from t", 9), ["select ", "a, b ", "from t"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("a\n\nb", 4), ["a", "", "b"]);
    }

    proptest! {
        #[test]
        fn wrapping_neither_adds_nor_loses(text in "[ a-zé数👍]{0,60}", room in 2usize..20) {
            let lines = wrap(&text, room);
            prop_assert_eq!(lines.concat(), text.as_str());
            for line in lines {
                prop_assert!(width(line) <= room);
            }
        }
    }
}
