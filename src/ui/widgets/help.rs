//! Help: what the page shows, what its columns mean, what the words mean, and every key. Made from the tables of columns and actions.

use super::lines::{Line, Lines, Scrolled};
use super::popup::{Popup, centred, inside};
use crate::analysis::answer::{ActiveRow, EventRow, ModelRow, QueryRow, SessionRow};
use crate::trace::wait::WaitClass;
use crate::ui::action::{Group, TABLE, short_key};
use crate::ui::draw::hits::{Hits, Target};
use crate::ui::glyphs::{ASCII, UNICODE};
use crate::ui::pages::{Page, Row};
use crate::ui::state::State;
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{StatefulWidget, Widget};

/// What words mean, on every page.
const WORDS: [(&str, &str); 12] = [
    (
        "CPU*",
        "no wait reported while a command runs: the session is on CPU, or wants to be, or is in code that has no wait event. The star says that \
         it is inferred from the absence of a wait. It is work being done, not a wait to be tuned away.",
    ),
    ("DB Time", "time of all sessions that were not idle: CPU* and waits together. Two sessions busy for one second are two seconds."),
    ("AAS", "average active sessions: DB Time divided by the time observed. More than the server's CPUs means that sessions queue."),
    ("idle", "waiting for the client's next command, main loops of background processes, their pacing sleeps: not load, in no share."),
    (
        "sampled",
        "every session is looked at so many times a second, and each look stands for the time since the one before. Counts and lengths of single waits are not known from samples and never invented.",
    ),
    (
        "exact",
        "every transition of every session, by a hardware watchpoint on where the server notes the wait: true counts and lengths. It costs the \
         server some time per transition, so it is a window of seconds that e opens. On the chart: a heavy line on the time axis.",
    ),
    (
        "blocking",
        "every wait that leaves the CPU, with its true length, by the scheduler's own events: cheaper, but waits that spin are only sampled. On the \
         chart: a heavy dashed line on the time axis.",
    ),
    (
        "Off-CPU*",
        "no wait reported, and yet not on the CPU: runnable without one, or asleep where the server has no wait event. Known only where it was \
         measured, in windows; samples count it as CPU*.",
    ),
    ("spin %", "share of a wait's time on the CPU: spinning, or working in the kernel. Only where it was measured."),
    ("run queue", "time awake and without a CPU: the wait was over, and still the session could not run. Only where it was measured."),
    ("gap", "time that was not observed: hatched on the chart, dots in sparklines. A gap is never counted as zero load."),
    ("time", "of all sessions together, so it can exceed the window's length."),
];

/// What a wait class means.
pub fn class_about(class: WaitClass) -> &'static str {
    match class {
        WaitClass::Cpu => "on CPU, or in code without a wait event",
        WaitClass::OffCpu => {
            "no wait event and not on the CPU: runnable without one, or asleep in code without a wait event (measured in windows)"
        }
        WaitClass::Io => "reading or writing files: data, WAL, temporary files",
        WaitClass::Lock => "a heavyweight lock: rows, tables, transactions that another session holds; see who runs long transactions",
        WaitClass::LwLock => "a lightweight lock inside the server: shared structures contended by many sessions",
        WaitClass::Buffer => "exclusive access to a page that another session has pinned",
        WaitClass::Ipc => "another process of the server: parallel workers, replication, checkpoint",
        WaitClass::Client => "the client: it does not read its result or send its data fast enough",
        WaitClass::Timeout => "a time to pass: pg_sleep, vacuum delay, spin delay",
        WaitClass::Extension => "something an extension does",
        WaitClass::InjectionPoint => "an injection point of a test build",
        WaitClass::Activity => "main loop of a background process: idle",
        WaitClass::Unknown => "a class that no known version has",
    }
}

/// Help, scrolled.
#[derive(Debug)]
pub struct Help<'a> {
    /// The page it is for.
    pub page: Page,
    /// First line shown.
    pub offset: usize,
    /// Only ASCII.
    pub ascii: bool,
    /// Styles.
    pub theme: &'a Theme,
}

/// Where help is.
pub fn place(screen: Rect) -> Rect {
    centred(screen, 110, screen.height.saturating_sub(2))
}

/// The last line that may be the first shown.
pub fn bottom(state: &State) -> usize {
    let inner = inside(place(Rect::new(0, 0, state.size.0, state.size.1)));
    lines(state.place.page, inner.width, state.start.ascii).len().saturating_sub(usize::from(inner.height))
}

fn lines(page: Page, width: u16, ascii: bool) -> Vec<Line> {
    let mut out = Lines::new(width, Role::Popup, Role::PopupTitle);
    out.heading(&format!("Page {}", page.title()));
    out.text(Role::Popup, page.about());
    if !matches!(page, Page::Latency | Page::Flow | Page::Health) {
        out.heading("Columns");
    }
    match page {
        Page::Time => columns::<ModelRow>(&mut out),
        Page::Events => columns::<EventRow>(&mut out),
        Page::Sessions => columns::<SessionRow>(&mut out),
        Page::Queries => columns::<QueryRow>(&mut out),
        Page::Active => columns::<ActiveRow>(&mut out),
        Page::Latency | Page::Flow | Page::Health => {}
    }
    out.heading("Words");
    for (word, meaning) in WORDS {
        out.entry(Role::PopupKey, word, 10, None, meaning);
    }
    out.heading("Wait classes, as they are stacked from the bottom");
    for class in WaitClass::ALL {
        out.entry(Role::PopupKey, class.name(), 16, Some(class), class_about(class));
    }
    out.heading("Marks along the top of the chart");
    let glyphs = if ascii { &ASCII } else { &UNICODE };
    for (glyph, meaning) in [
        (
            glyphs.fired,
            "a rule saw something wrong and a window was opened; dimmer: there was no budget left, or the pause after the last one had not passed",
        ),
        (glyphs.opened, "somebody opened a window"),
        (glyphs.near, "a rule was near: half of what it takes"),
    ] {
        out.entry(Role::PopupKey, glyph, 10, None, meaning);
    }
    for group in Group::ALL {
        out.heading(group.title());
        for entry in TABLE.iter().filter(|e| e.group == group) {
            let keys: Vec<_> = entry.keys.iter().map(|k| short_key(k, ascii)).collect();
            out.entry(Role::PopupKey, &keys.join(" "), 14, None, entry.title);
        }
    }
    out.heading("Filter");
    out.text(
        Role::Popup,
        "key=value, all of which must hold; a,b is either; != is not. Keys: class event pid query db user app client kind session. A class, \
         Class:Event, a pid or a query id may stand alone. Any other word narrows the rows listed to those that contain it.",
    );
    for example in ["class=Lock,LWLock db=shop", "event=Lock:transactionid user!=batch", "query=-4185925123159566327", "update accounts"] {
        out.entry(Role::PopupKey, example, 40, None, "");
    }
    out.heading("Mouse");
    out.text(
        Role::Popup,
        "click selects, double click enters, the wheel scrolls; tabs, column titles, hints and steps of the breadcrumb can be clicked; a drag \
         over the chart zooms into it, a click puts the cursor there. Hold Shift to select text as usual.",
    );
    out.lines
}

fn columns<R: Row>(out: &mut Lines) {
    for column in R::COLUMNS {
        out.entry(Role::PopupKey, column.title, 10, None, column.help);
    }
}

impl StatefulWidget for &Help<'_> {
    type State = Hits;

    fn render(self, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
        let frame = place(area);
        hits.add(frame, Target::Popup);
        (&Popup { title: "Help", foot: "up down PgUp PgDn scroll, esc closes", theme: self.theme }).render(frame, buf);
        let inner = inside(frame);
        let lines = lines(self.page, inner.width, self.ascii);
        (&Scrolled { lines: &lines, offset: self.offset, base: self.theme.of(Role::Popup), theme: self.theme }).render(inner, buf);
    }
}
