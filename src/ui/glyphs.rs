//! The characters everything is drawn with: one set for UTF-8 terminals, one for plain ASCII. Every glyph is one cell wide.

use crate::trace::wait::WaitClass;

/// One set of characters.
#[derive(Debug, PartialEq, Eq)]
pub struct Glyphs {
    /// Empty to full from below, in eighths; index 0 is empty. ASCII has no partial cells.
    pub rising: [&'static str; 9],
    /// Empty to full from the left, in eighths.
    pub growing: [&'static str; 9],
    /// Lowest to highest point of a sparkline; never a whole cell, so that rows stay apart.
    pub spark: [&'static str; 7],
    /// A point of a sparkline that was not observed.
    pub spark_gap: &'static str,
    /// Time that was not observed.
    pub hatch: &'static str,
    /// Horizontal rule.
    pub rule: &'static str,
    /// The CPU-capacity line.
    pub capacity: &'static str,
    /// The chart's cursor.
    pub cursor: &'static str,
    /// A mark on the time axis.
    pub mark: &'static str,
    /// A rule asked for a window then.
    pub fired: &'static str,
    /// A window was opened by hand then.
    pub opened: &'static str,
    /// A rule was near then.
    pub near: &'static str,
    /// Below a stretch of exact capture.
    pub exact: &'static str,
    /// Below a stretch of blocking capture.
    pub blocking: &'static str,
    /// Cells of a heatmap, from none to most.
    pub shades: [&'static str; 5],
    /// Lines by the sides they reach: up 1, down 2, left 4, right 8.
    pub lines: [&'static str; 16],
    /// Between steps of the breadcrumb.
    pub crumb: &'static str,
    /// Between parts of a line.
    pub dot: &'static str,
    /// Between parts of the status line.
    pub bar: &'static str,
    /// Text was cut here.
    pub ellipsis: &'static str,
    /// Beside a colour that stands for a class.
    pub swatch: &'static str,
    /// In front of the selected row.
    pub selected: &'static str,
    /// Largest first.
    pub descending: &'static str,
    /// Smallest first.
    pub ascending: &'static str,
    /// The picture follows time.
    pub live: &'static str,
    /// The picture stands still.
    pub paused: &'static str,
    /// The recording is over.
    pub ended: &'static str,
    /// Something needs attention.
    pub warning: &'static str,
    /// More beyond the edge, upwards.
    pub up: &'static str,
    /// From one moment to another.
    pub until: &'static str,
    /// One per class, in the order of [`WaitClass::ALL`]: what tells classes apart without colour.
    pub classes: [&'static str; WaitClass::ALL.len()],
    /// Corners and sides of a frame: top left, top right, bottom left, bottom right, horizontal, vertical.
    pub frame: [&'static str; 6],
}

/// For UTF-8 terminals.
pub static UNICODE: Glyphs = Glyphs {
    rising: [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    growing: [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"],
    spark: ["▁", "▂", "▃", "▄", "▅", "▆", "▇"],
    spark_gap: "┈",
    hatch: "╱",
    rule: "─",
    capacity: "╌",
    cursor: "│",
    mark: "╵",
    fired: "▼",
    opened: "▽",
    near: "·",
    exact: "━",
    blocking: "┅",
    shades: [" ", "░", "▒", "▓", "█"],
    lines: [" ", "╵", "╷", "│", "╴", "╯", "╮", "┤", "╶", "╰", "╭", "├", "─", "┴", "┬", "┼"],
    crumb: "›",
    dot: "·",
    bar: "│",
    ellipsis: "…",
    swatch: "■",
    selected: "▌",
    descending: "▾",
    ascending: "▴",
    live: "▶",
    paused: "▮▮",
    ended: "■",
    warning: "▲",
    up: "↑",
    until: "–",
    classes: ["█", "▦", "▓", "▒", "░", "▤", "▚", "·", "▞", "▥", "◇", "□", "?"],
    frame: ["╭", "╮", "╰", "╯", "─", "│"],
};

/// For terminals that show nothing but ASCII.
pub static ASCII: Glyphs = Glyphs {
    rising: [" ", ".", ".", ":", ":", "=", "=", "#", "#"],
    growing: [" ", " ", " ", " ", "#", "#", "#", "#", "#"],
    spark: [".", ":", "-", "=", "+", "*", "#"],
    spark_gap: "/",
    hatch: "/",
    rule: "-",
    capacity: "-",
    cursor: "|",
    mark: "'",
    fired: "!",
    opened: "v",
    near: ".",
    exact: "=",
    blocking: "~",
    shades: [" ", ".", ":", "+", "#"],
    lines: [" ", "|", "|", "|", "-", "+", "+", "+", "-", "+", "+", "+", "-", "+", "+", "+"],
    crumb: ">",
    dot: ",",
    bar: "|",
    ellipsis: "~",
    swatch: "#",
    selected: ">",
    descending: "v",
    ascending: "^",
    live: ">",
    paused: "||",
    ended: "#",
    warning: "!",
    up: "^",
    until: "..",
    classes: ["C", "Q", "I", "K", "L", "B", "P", "N", "T", "E", "J", "A", "O"],
    frame: ["+", "+", "+", "+", "-", "|"],
};

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn glyphs_that_fill_cells_are_one_cell_wide_and_classes_differ() {
        for set in [&UNICODE, &ASCII] {
            let all = set.rising.iter().chain(&set.growing).chain(&set.spark).chain(&set.classes).chain(&set.frame);
            let all =
                all.chain(&set.shades).chain(&set.lines).chain([&set.exact, &set.blocking]).chain([&set.fired, &set.opened, &set.near]);
            assert_ne!(set.exact, set.blocking);
            for glyph in all.chain([&set.spark_gap, &set.hatch, &set.rule, &set.capacity, &set.cursor, &set.mark, &set.swatch]) {
                assert_eq!(glyph.width(), 1, "{glyph}");
            }
            let mut classes = set.classes.to_vec();
            classes.sort_unstable();
            classes.dedup();
            assert_eq!(classes.len(), WaitClass::ALL.len());
        }
        assert!(ASCII.classes.iter().all(|c| c.is_ascii()));
    }
}
