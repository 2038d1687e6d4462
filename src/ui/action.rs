//! Everything a user can do, in one table. The keymap, the footer, the help page, the palette and `docs/KEYS.md` are all made from it.

use super::pages::Page;
use super::state::State;
use std::fmt::Write as _;

/// Something a user can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Go into the selected row.
    Enter,
    /// Go back to where the last row was entered, or close what is open.
    Back,
    /// Close what is open, drop the words that narrow the rows, or go back.
    Close,
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One screenful up.
    PageUp,
    /// One screenful down.
    PageDown,
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// Show a page.
    Show(Page),
    /// The next page.
    NextPage,
    /// The page before.
    PreviousPage,
    /// Stop or follow time.
    Pause,
    /// Follow time.
    Live,
    /// The chart's cursor to the left.
    Left,
    /// The chart's cursor to the right.
    Right,
    /// Half a window back in time.
    Earlier,
    /// Half a window forward in time.
    Later,
    /// A shorter window.
    ZoomIn,
    /// A longer window.
    ZoomOut,
    /// The window before the last zoom or move.
    LastWindow,
    /// Go to a moment.
    Jump,
    /// Open an exact or blocking window.
    Escalate,
    /// Close it.
    Calm,
    /// Edit the filter.
    Filter,
    /// Sort by the next column.
    SortNext,
    /// Sort by the column before.
    SortPrevious,
    /// Reverse the order.
    SortReverse,
    /// Show or hide what is idle.
    Idle,
    /// Measure flows by the other: count or time.
    Weigh,
    /// The other face of the page.
    Face,
    /// Everything about the selected row.
    Detail,
    /// Show long SQL in full.
    Wrap,
    /// Copy the SQL text.
    CopySql,
    /// Copy the id.
    CopyId,
    /// Help.
    Help,
    /// List of all actions.
    Palette,
    /// Choose a theme.
    Themes,
    /// Draw everything again.
    Redraw,
    /// Stop the program and give the shell back.
    Suspend,
    /// Quit, or close what is open.
    Quit,
    /// Quit at once.
    Abort,
}

/// Headings of the help page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Pages and drilling.
    Navigate,
    /// The window and the cursor.
    Time,
    /// Rows.
    Table,
    /// The program.
    Program,
}

impl Group {
    /// In the order they are listed.
    pub const ALL: [Self; 4] = [Self::Navigate, Self::Time, Self::Table, Self::Program];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Navigate => "Pages and drilling down",
            Self::Time => "Time",
            Self::Table => "Rows",
            Self::Program => "Program",
        }
    }
}

/// A word for the footer.
#[derive(Debug, Clone, Copy)]
pub struct Hint {
    /// One word.
    pub label: &'static str,
    /// An action that is the other half of it, so that one hint shows both keys.
    pub with: Option<Action>,
    /// Order in the footer; the last are left out first when there is no room.
    pub order: u8,
}

/// A row of the table.
#[derive(Debug)]
pub struct Entry {
    /// What.
    pub action: Action,
    /// Its name in configuration and documentation.
    pub name: &'static str,
    /// Keys, the first is the one shown.
    pub keys: &'static [&'static str],
    /// What it does, for the help page and the palette.
    pub title: &'static str,
    /// Where it is listed.
    pub group: Group,
    /// How the footer shows it, while it acts.
    pub hint: Option<Hint>,
    /// Whether it does anything now.
    pub acts: fn(&State) -> bool,
}

const fn row(action: Action, name: &'static str, keys: &'static [&'static str], title: &'static str, group: Group) -> Entry {
    Entry { action, name, keys, title, group, hint: None, acts: |_| true }
}

impl Entry {
    const fn hint(mut self, order: u8, label: &'static str) -> Self {
        self.hint = Some(Hint { label, with: None, order });
        self
    }
    const fn pair(mut self, order: u8, label: &'static str, with: Action) -> Self {
        self.hint = Some(Hint { label, with: Some(with), order });
        self
    }
    const fn when(mut self, acts: fn(&State) -> bool) -> Self {
        self.acts = acts;
        self
    }
}

use Action as A;
use Group::{Navigate, Program, Table, Time};

/// All actions.
pub static TABLE: &[Entry] = &[
    row(A::Enter, "enter", &["Enter"], "go into the selected row", Navigate).hint(0, "inside").when(State::can_enter),
    row(A::Back, "back", &["Backspace"], "back to where the row was entered", Navigate).hint(1, "back").when(State::can_go_back),
    row(A::Close, "close", &["Esc"], "close what is open, or go back", Navigate).when(State::can_close),
    row(A::Show(Page::Time), "time", &["1"], "page: time model", Navigate),
    row(A::Show(Page::Events), "events", &["2"], "page: wait events", Navigate),
    row(A::Show(Page::Sessions), "sessions", &["3"], "page: sessions", Navigate),
    row(A::Show(Page::Queries), "queries", &["4"], "page: queries", Navigate),
    row(A::Show(Page::Latency), "latency", &["5"], "page: how long waits were", Navigate),
    row(A::Show(Page::Flow), "flow", &["6"], "page: what followed what", Navigate),
    row(A::Show(Page::Active), "active", &["a"], "page: what every session is doing right now", Navigate),
    row(A::Show(Page::Health), "health", &["H"], "page: how the recorder itself is doing", Navigate),
    row(A::NextPage, "next-page", &["Tab"], "next page", Navigate),
    row(A::PreviousPage, "previous-page", &["BackTab"], "previous page (Shift-Tab)", Navigate),
    row(A::Pause, "pause", &["Space"], "stop the picture, or follow time again", Time).hint(8, "pause").when(State::can_move),
    row(A::Live, "live", &["G"], "follow time", Time).hint(7, "live").when(State::can_follow),
    row(A::Left, "left", &["Left", "h"], "chart cursor to the left; stops the picture (page Flow: the column)", Time)
        .pair(10, "cursor", A::Right)
        .when(State::can_move),
    row(A::Right, "right", &["Right", "l"], "chart cursor to the right (page Flow: the column)", Time).when(State::can_move),
    row(A::Earlier, "earlier", &["{"], "half a window back in time", Time).pair(16, "move", A::Later).when(State::can_move),
    row(A::Later, "later", &["}"], "half a window forward in time", Time).when(State::can_follow),
    row(A::ZoomIn, "zoom-in", &["+", "=", "["], "shorter window; around the cursor when stopped", Time)
        .pair(9, "zoom", A::ZoomOut)
        .when(State::can_zoom_in),
    row(A::ZoomOut, "zoom-out", &["-", "]"], "longer window", Time).when(State::can_zoom_out),
    row(A::LastWindow, "last-window", &["z"], "the window before the last zoom or move", Time)
        .hint(15, "unzoom")
        .when(State::has_last_window),
    row(A::Jump, "go-to-time", &["t"], "go to a moment, such as 14:02:03 or 10m ago", Time).when(State::can_move),
    row(A::Up, "up", &["Up", "k"], "up", Table),
    row(A::Down, "down", &["Down", "j"], "down", Table),
    row(A::PageUp, "page-up", &["PgUp", "Ctrl-u"], "one screenful up", Table),
    row(A::PageDown, "page-down", &["PgDn", "Ctrl-d"], "one screenful down", Table),
    row(A::First, "first", &["Home", "g"], "first row", Table),
    row(A::Last, "last", &["End"], "last row", Table),
    row(A::Escalate, "escalate", &["e"], "open an exact or blocking window for some seconds", Time)
        .hint(5, "exact")
        .when(State::can_escalate),
    row(A::Calm, "calm", &["E"], "close the exact or blocking window", Time).hint(2, "close window").when(State::can_calm),
    row(A::Filter, "filter", &["/"], "filter, or words that rows must contain", Table).hint(6, "filter").when(State::can_filter),
    row(A::SortNext, "sort-next", &["s", ">"], "sort by the next column", Table).hint(11, "sort").when(State::can_sort),
    row(A::SortPrevious, "sort-previous", &["<"], "sort by the column before", Table).when(State::can_sort),
    row(A::SortReverse, "sort-reverse", &["S"], "reverse the order", Table).when(State::can_sort),
    row(A::Idle, "idle", &["i"], "show or hide what is idle", Table).hint(12, "idle").when(State::can_idle),
    row(A::Weigh, "weigh", &["m"], "page Flow: by count, or by time", Table).hint(3, "count/time").when(State::has_faces),
    row(A::Face, "face", &["v"], "page Flow: as a panel, or as a matrix", Table).hint(4, "panel/matrix").when(State::has_faces),
    row(A::Detail, "detail", &["d"], "everything about the selected row", Table).hint(13, "detail").when(State::can_enter),
    row(A::Wrap, "wrap", &["w"], "show the selected row's SQL in full, wrapped", Table).hint(17, "wrap").when(State::can_wrap),
    row(A::CopySql, "copy-sql", &["y"], "copy the SQL text to the clipboard", Table).hint(14, "copy").when(State::has_sql),
    row(A::CopyId, "copy-id", &["Y"], "copy the query id, the pid or the event name", Table).when(State::has_selection),
    row(A::Help, "help", &["?", "F1"], "help for this page", Program).hint(18, "help"),
    row(A::Palette, "palette", &[":"], "list of all actions", Program),
    row(A::Themes, "themes", &["T"], "choose a theme", Program),
    row(A::Redraw, "redraw", &["Ctrl-l"], "draw everything again", Program),
    row(A::Suspend, "suspend", &["Ctrl-z"], "give the shell back; fg returns", Program),
    row(A::Quit, "quit", &["q"], "quit, or close what is open", Program).hint(19, "quit"),
    row(A::Abort, "abort", &["Ctrl-c"], "quit at once", Program),
];

impl Action {
    /// Its row in the table.
    pub fn entry(self) -> Option<&'static Entry> {
        TABLE.iter().find(|e| e.action == self)
    }

    /// The key shown for it.
    pub fn key(self) -> &'static str {
        self.entry().and_then(|e| e.keys.first()).copied().unwrap_or("")
    }
}

/// A key as hints show it: short.
pub fn short_key(key: &'static str, ascii: bool) -> &'static str {
    match key {
        "Enter" => "enter",
        "Backspace" => "bksp",
        "Space" => "space",
        "Esc" => "esc",
        "Left" if ascii => "<-",
        "Right" if ascii => "->",
        "Left" => "←",
        "Right" => "→",
        "Up" if !ascii => "↑",
        "Down" if !ascii => "↓",
        other => other,
    }
}

/// The page `docs/KEYS.md`.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Keys\n\nMade from the table of actions in `src/ui/action.rs`; a test compares them, and `PGWT_BLESS=1 cargo test keys_page` writes this\n\
         page anew. The same table makes the footer, the help page (`?`) and the palette (`:`).\n",
    );
    for group in Group::ALL {
        let _ = write!(out, "\n## {}\n\n| keys | name | does |\n| --- | --- | --- |\n", group.title());
        for entry in TABLE.iter().filter(|e| e.group == group) {
            let keys: Vec<String> = entry.keys.iter().map(|k| format!("`{k}`")).collect();
            let _ = writeln!(out, "| {} | {} | {} |", keys.join(" "), entry.name, entry.title);
        }
    }
    out.push_str(
        "\n## Mouse\n\n| gesture | does |\n| --- | --- |\n| click a row | select it |\n| double click a row | go into it |\n\
         | click a column title | sort by it, again: reverse |\n| click a tab, a step of the breadcrumb, a hint | go there, go back to it, do it |\n\
         | wheel | move through the rows |\n| click the chart | put the cursor there |\n| drag over the chart | zoom into that stretch |\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_hint_has_its_own_place() {
        let mut names: Vec<_> = TABLE.iter().map(|e| e.name).collect();
        let mut orders: Vec<_> = TABLE.iter().filter_map(|e| e.hint.map(|h| h.order)).collect();
        let (n, m) = (names.len(), orders.len());
        names.sort_unstable();
        names.dedup();
        orders.sort_unstable();
        orders.dedup();
        assert_eq!((names.len(), orders.len()), (n, m));
    }

    #[test]
    fn every_page_has_an_action() {
        for page in Page::ALL {
            assert!(Action::Show(page).entry().is_some(), "{page:?}");
        }
    }

    #[test]
    fn keys_page_is_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/KEYS.md");
        if std::env::var_os("PGWT_BLESS").is_some() {
            std::fs::write(path, markdown()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), markdown(), "run: PGWT_BLESS=1 cargo test keys_page");
    }
}
