//! What a style is for. A role without a style of its own takes that of its parent: `table.header.sorted`, `table.header`, `text`.

macro_rules! roles {
    ($($variant:ident = $name:literal, $about:literal;)*) => {
        /// What a style is for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Role { $(#[doc = $about] $variant),* }

        impl Role {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name in theme files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

roles! {
    Text = "text", "Everything that has no other role.";
    Dim = "text.dim", "Less important.";
    Strong = "text.strong", "More important.";
    Warn = "text.warn", "Needs attention.";
    Bad = "text.bad", "Wrong.";
    Status = "status", "The status line.";
    StatusServer = "status.server", "The server in it.";
    StatusLive = "status.live", "The picture follows time.";
    StatusPaused = "status.paused", "The picture stands still.";
    StatusWindow = "status.window", "An exact or blocking window is open.";
    StatusWarn = "status.warn", "Losses, in the status line.";
    Banner = "banner", "Why nothing new is coming.";
    Rule = "rule", "Lines that divide the screen.";
    Tab = "tab", "A page's tab.";
    TabKey = "tab.key", "Its key.";
    TabActive = "tab.active", "The tab of the page shown.";
    Crumb = "crumb", "A step of the breadcrumb.";
    CrumbLast = "crumb.last", "The last step.";
    CrumbWords = "crumb.words", "Words that rows must contain.";
    Header = "table.header", "Column titles.";
    HeaderSorted = "table.header.sorted", "The title of the column that orders the rows.";
    Selected = "table.selected", "The selected row.";
    RowGap = "table.gap", "A point of a sparkline that was not observed.";
    Axis = "chart.axis", "Axis labels.";
    Exact = "chart.exact", "A stretch seen by exact capture.";
    Blocking = "chart.blocking", "A stretch seen by blocking capture.";
    Heat = "chart.heat", "Bars and cells of distributions.";
    Capacity = "chart.capacity", "The CPU-capacity line.";
    Gap = "chart.gap", "Time that was not observed.";
    Cursor = "chart.cursor", "The chart's cursor.";
    Drag = "chart.drag", "The stretch being dragged over.";
    Hint = "hint", "A hint in the footer.";
    HintKey = "hint.key", "Its key.";
    Toast = "toast", "A word to the user.";
    Popup = "popup", "What lies over the page.";
    PopupFrame = "popup.frame", "Its frame.";
    PopupTitle = "popup.title", "Its headings.";
    PopupKey = "popup.key", "Keys in it.";
    PopupSelected = "popup.selected", "The selected line in it.";
    Prompt = "prompt", "Text being typed.";
    PromptError = "prompt.error", "What is wrong with it.";
}

impl Role {
    /// Where a style is taken from when there is none for this role.
    pub fn parent(self) -> Option<Self> {
        let mut name = self.name();
        while let Some((head, _)) = name.rsplit_once('.') {
            name = head;
            if let Some(role) = Self::find(name) {
                return Some(role);
            }
        }
        (self != Self::Text).then_some(Self::Text)
    }

    /// The role of a name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|r| r.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_ends_at_text() {
        for role in Role::ALL {
            let mut steps = 0;
            let mut at = *role;
            while let Some(parent) = at.parent() {
                at = parent;
                steps += 1;
                assert!(steps < 5);
            }
            assert_eq!(at, Role::Text);
        }
        assert_eq!(Role::HeaderSorted.parent(), Some(Role::Header));
        assert_eq!(Role::Header.parent(), Some(Role::Text));
    }
}
