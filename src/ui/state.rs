//! Everything the screen knows. Plain data: only [`super::update`] changes it, on the screen's thread; drawing reads it.

pub mod camera;
pub mod layer;
pub mod line;
pub mod pane;
pub mod place;
pub mod pulse;
pub mod window;

use super::draw::layout::{Areas, areas};
use super::keymap::Keymap;
use super::pages::flow::{Face, Weigh};
use super::pages::subject::Subject;
use super::pages::{self, Page};
use crate::analysis::answer::Answer;
use crate::analysis::filter::Filter;
use crate::analysis::question::Ask;
use crate::trace::clock::{SECOND, Span, Ts};
use crate::trace::health::{Escalation, Link, WindowHealth};
use camera::{Camera, Hold};
use jiff::tz::TimeZone;
use layer::Layer;
use pane::Pane;
use place::Place;
use pulse::Pulse;
use std::time::Duration;
use window::{Awaited, Windows};

/// Slots of questions.
pub mod slot {
    use crate::session::Slot;
    /// How things stand, whatever is shown.
    pub const STATUS: Slot = 0;
    /// The chart.
    pub const CHART: Slot = 1;
    /// The page's table.
    pub const PAGE: Slot = 2;
    /// The time model of the last seconds.
    pub const SHORT: Slot = 3;
    /// The time model of the last minute.
    pub const MEDIUM: Slot = 4;
    /// The detail panel: events.
    pub const DETAIL_EVENTS: Slot = 5;
    /// The detail panel: queries.
    pub const DETAIL_QUERIES: Slot = 6;
    /// The detail panel: what it is doing now.
    pub const DETAIL_NOW: Slot = 7;
    /// How many there are.
    pub const COUNT: usize = 8;
}

/// Whether idle things are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// Only counted.
    Hidden,
    /// Listed, dimmed.
    Shown,
}

/// How long SQL text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sql {
    /// One line, cut.
    Cut,
    /// In full, wrapped, below the table.
    Wrapped,
}

/// What happens when the recording ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// The last picture stays.
    Stay,
    /// The screen is left, with the reason.
    Leave,
}

/// A word to the user that goes away by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toast {
    /// One line.
    pub text: String,
    /// When it goes away.
    pub until: Duration,
}

/// What the screen starts with.
#[derive(Debug, Clone)]
pub struct Start {
    /// The page.
    pub page: Page,
    /// The filter.
    pub filter: Filter,
    /// Length of the window, nanoseconds.
    pub window: u64,
    /// The stretch to stand still on; `None` follows time.
    pub span: Option<Span>,
    /// What stands first in the status line when the server has no name yet.
    pub title: String,
    /// Only ASCII.
    pub ascii: bool,
    /// When the recording ends.
    pub at_end: AtEnd,
    /// Zone of every time shown.
    pub zone: TimeZone,
    /// Name of the theme in use.
    pub theme: String,
    /// Exact and blocking windows that can be opened.
    pub windows: Windows,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            page: Page::Time,
            filter: Filter::default(),
            window: 300 * SECOND,
            span: None,
            title: String::new(),
            ascii: false,
            at_end: AtEnd::Stay,
            zone: TimeZone::UTC,
            theme: "dark".into(),
            windows: Windows::default(),
        }
    }
}

/// Everything the screen knows.
#[derive(Debug, Clone)]
pub struct State {
    /// What it started with.
    pub start: Start,
    /// Time since then.
    pub now: Duration,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Which key does what.
    pub keymap: Keymap,
    /// The present.
    pub pulse: Pulse,
    /// Where the user is.
    pub place: Place,
    /// Where the user came from.
    pub history: Vec<Place>,
    /// Which stretch of time is looked at.
    pub camera: Camera,
    /// The chart's cursor; only while the picture stands still.
    pub cursor: Option<Ts>,
    /// The moment gone to, while the cursor is still on it.
    pub moment: Option<Ts>,
    /// Stretch being dragged over the chart: where it began, where it is.
    pub drag: Option<(Ts, Ts)>,
    /// Questions and answers by slot.
    panes: [Pane; slot::COUNT],
    /// Number of the newest request.
    pub seq: u64,
    /// Rows of the page's answer that are shown, in their order.
    pub rows: Vec<usize>,
    /// Rows that are not shown because they are idle.
    pub hidden: usize,
    /// Top of the chart's scale.
    pub scale: Scale,
    /// Whether idle things are listed.
    pub idle: Idle,
    /// How long SQL is shown.
    pub sql: Sql,
    /// What flows are measured by.
    pub weigh: Weigh,
    /// Which face of the flow is shown.
    pub face: Face,
    /// A window that was asked for and not heard of yet.
    pub awaited: Option<Awaited>,
    /// What lies over the page.
    pub layer: Option<Layer>,
    /// A word to the user.
    pub toast: Option<Toast>,
    /// Name of the theme in use.
    pub theme: String,
    /// The row clicked last, and when.
    pub clicked: Option<(pages::RowKey, Duration)>,
    /// Grows whenever the picture may have changed.
    pub revision: u64,
}

/// Top of the chart's scale: grows at once, shrinks only after a while, so that the picture does not pump.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scale {
    /// AAS at the top of the chart.
    pub top: f64,
    /// Since when a much lower top would do.
    pub low_since: Option<Duration>,
}

impl State {
    /// Before the first answer.
    pub fn new(start: Start, size: (u16, u16)) -> Self {
        Self {
            now: Duration::ZERO,
            size,
            keymap: Keymap::default(),
            pulse: Pulse::default(),
            place: Place::new(start.page, start.filter.clone()),
            history: Vec::new(),
            camera: Camera::at(start.window, start.span),
            cursor: None,
            moment: None,
            drag: None,
            panes: Default::default(),
            seq: 0,
            rows: Vec::new(),
            hidden: 0,
            scale: Scale::default(),
            idle: Idle::Hidden,
            sql: Sql::Cut,
            weigh: Weigh::default(),
            face: Face::default(),
            awaited: None,
            layer: None,
            toast: None,
            theme: start.theme.clone(),
            clicked: None,
            revision: 0,
            start,
        }
    }

    /// The pane of a slot.
    pub fn pane(&self, slot: crate::session::Slot) -> Option<&Pane> {
        self.panes.get(usize::from(slot))
    }

    /// The pane of a slot, to be changed.
    pub fn pane_mut(&mut self, slot: crate::session::Slot) -> Option<&mut Pane> {
        self.panes.get_mut(usize::from(slot))
    }

    /// The answer in a slot.
    pub fn answer(&self, slot: crate::session::Slot) -> Option<&Answer> {
        self.pane(slot).and_then(|p| p.answer.as_deref())
    }

    /// Where everything is on the screen.
    pub fn areas(&self) -> Areas {
        areas(self.size, self)
    }

    /// The stretch of time on the chart.
    pub fn span(&self) -> Option<Span> {
        match self.camera.hold {
            Hold::Paused(span) => Some(span),
            Hold::Live => self.live_span(),
        }
    }

    /// The stretch that ends now, on a bucket boundary of the chart, so that finished buckets never change.
    fn live_span(&self) -> Option<Span> {
        let present = self.pulse.present()?;
        let bucket = self.bucket();
        let end = present.0.div_ceil(bucket).saturating_mul(bucket);
        Some(Span::new(Ts(end) - bucket.saturating_mul(u64::from(self.buckets())), Ts(end)))
    }

    /// Buckets of the chart: one per column.
    pub fn buckets(&self) -> u16 {
        self.areas().plot().width.clamp(1, 2_000)
    }

    /// Length of a bucket, nanoseconds.
    pub fn bucket(&self) -> u64 {
        self.camera.length.div_ceil(u64::from(self.buckets())).max(1)
    }

    /// The question of the page.
    pub fn ask(&self) -> Ask {
        self.place.page.ask(self.areas().heat_columns())
    }

    /// The exact or blocking window that is open, or the last one.
    pub fn window(&self) -> Option<&WindowHealth> {
        self.pulse.answer().and_then(|a| a.health.window.as_ref())
    }

    /// Account of budget and rules, where windows open by themselves.
    pub fn budget(&self) -> Option<&Escalation> {
        self.pulse.answer().and_then(|a| a.health.escalation.as_ref())
    }

    /// Whether a window can be opened here.
    pub fn can_escalate(&self) -> bool {
        matches!(self.start.windows, Windows::Of { .. }) && *self.pulse.link() == Link::Attached && self.is_at_chart()
    }

    /// Whether there is a window to be closed.
    pub fn can_calm(&self) -> bool {
        self.can_escalate() && self.window().is_some_and(|w| w.open)
    }

    /// Whether the page is drawn in columns that left and right lead to.
    pub fn has_sides(&self) -> bool {
        self.place.page == Page::Flow && self.face == Face::Panel && self.is_at_table() && !self.rows.is_empty()
    }

    /// Whether the page has another face.
    pub fn has_faces(&self) -> bool {
        self.place.page == Page::Flow && self.is_at_table()
    }

    /// The row of the page's answer that is selected.
    pub fn selected_row(&self) -> Option<usize> {
        self.rows.get(self.place.view().index).copied()
    }

    /// Load of the selected row, nanoseconds.
    pub fn selected_load(&self) -> u64 {
        self.answer(slot::PAGE).zip(self.selected_row()).map_or(0, |(answer, row)| pages::load_ns(answer, row))
    }

    /// What the selected row, or the open detail panel, is about.
    pub fn subject(&self) -> Option<Subject> {
        if let Some(Layer::Detail(detail)) = &self.layer {
            return Some(detail.subject.clone());
        }
        pages::subject(self.answer(slot::PAGE)?, self.selected_row()?)
    }

    /// Whether there is a selected row.
    pub fn has_selection(&self) -> bool {
        self.subject().is_some()
    }

    /// Whether its SQL text is known.
    pub fn has_sql(&self) -> bool {
        self.subject().is_some_and(|s| s.sql().is_some())
    }

    /// Whether Enter leads somewhere.
    pub fn can_enter(&self) -> bool {
        self.layer.is_none() && self.has_selection()
    }

    /// Whether Backspace leads somewhere.
    pub fn can_go_back(&self) -> bool {
        self.layer.is_some() || !self.history.is_empty() || !self.place.is_whole()
    }

    /// Whether Esc does something.
    pub fn can_close(&self) -> bool {
        self.can_go_back()
    }

    /// Whether anything was recorded.
    pub fn has_data(&self) -> bool {
        self.pulse.extent().is_some()
    }

    /// Whether nothing lies over the table.
    pub fn is_at_table(&self) -> bool {
        self.layer.is_none()
    }

    /// Whether the page lists idle things when asked to.
    pub fn can_idle(&self) -> bool {
        self.is_at_table() && !matches!(self.place.page, Page::Latency | Page::Flow | Page::Health)
    }

    /// Whether nothing lies over the chart.
    fn is_at_chart(&self) -> bool {
        matches!(self.layer, None | Some(Layer::Detail(_)))
    }

    /// Whether the filter can be edited.
    pub fn can_filter(&self) -> bool {
        self.is_at_chart()
    }

    /// The instant looked at while the picture stands still: the moment gone to, else the end of the cursor's bucket.
    pub fn instant(&self) -> Option<Ts> {
        let (span, cursor) = (self.camera.held()?, self.cursor?);
        if let Some(at) = self.moment.filter(|at| (*at).min(span.end - 1) == cursor) {
            return Some(at);
        }
        let buckets = u64::from(self.buckets());
        let end = cursor + span.len() / buckets;
        // Buckets begin at whole nanoseconds: the last one may end a few later.
        Some(if end + buckets >= span.end { span.end } else { end })
    }

    /// Whether time can be stopped and moved.
    pub fn can_move(&self) -> bool {
        self.has_data() && self.is_at_chart()
    }

    /// Whether the picture can be made to follow time.
    pub fn can_follow(&self) -> bool {
        self.is_paused() && self.is_at_chart()
    }

    /// Whether the picture stands still.
    pub fn is_paused(&self) -> bool {
        self.camera.held().is_some()
    }

    /// Whether there is a window to go back to.
    pub fn has_last_window(&self) -> bool {
        self.camera.has_last() && self.is_at_chart()
    }

    /// Whether a shorter window exists.
    pub fn can_zoom_in(&self) -> bool {
        self.camera.shorter().is_some() && self.is_at_chart()
    }

    /// Whether a longer window exists.
    pub fn can_zoom_out(&self) -> bool {
        self.camera.longer().is_some() && self.is_at_chart()
    }

    /// Whether SQL can be shown below the table.
    pub fn can_wrap(&self) -> bool {
        self.layer.is_none() && (self.sql == Sql::Wrapped || self.has_sql())
    }

    /// Whether the page's rows can be ordered.
    pub fn can_sort(&self) -> bool {
        !matches!(self.place.page, Page::Time | Page::Latency | Page::Flow | Page::Health) && self.is_at_table()
    }

    /// Whether a question of the page is about to be answered, so that drawing now would only flicker.
    pub fn is_settling(&self) -> bool {
        const BRIEF: Duration = Duration::from_millis(40);
        [slot::STATUS, slot::CHART, slot::PAGE]
            .into_iter()
            .filter_map(|s| self.pane(s))
            .any(|p| p.is_pending() && p.answer.is_none() && self.now.saturating_sub(p.asked()) < BRIEF)
    }

    /// How long the loop may sleep without missing anything.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(if self.is_settling() { 10 } else { 200 })
    }

    /// Why nothing new is coming, for the banner. `None` while all is well.
    pub fn trouble(&self) -> Option<String> {
        match self.pulse.link() {
            Link::Attached => {
                if let Some(seconds) = self.pulse.silent() {
                    return Some(format!("no new data for {seconds} s: the recording thread is not keeping up or has stopped"));
                }
                None
            }
            Link::Starting => None,
            Link::Waiting { why } => Some(format!("waiting for server: {why}")),
            Link::Ended { why } if why.is_empty() => None,
            Link::Ended { why } => Some(format!("recording ended: {why}")),
        }
        .or_else(|| self.pane(slot::STATUS).and_then(|p| p.error.clone()))
    }
}
