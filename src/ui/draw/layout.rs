//! Where everything is on the screen. Pure: the same size and state give the same places, for drawing and for paging.
//!
//! ```text
//!  status line
//!  banner                       only while nothing new is coming
//!  ─ AAS ── legend ───────────
//!  chart, its last row the time axis
//!  tabs
//!  breadcrumb          coverage
//!  what a drawing is of         only on pages that are drawings
//!  column titles
//!  rows
//!  SQL of the selected row      only when asked for
//!  footer
//! ```

use crate::ui::pages::Page;
use crate::ui::state::{Sql, State, slot};
use crate::ui::widgets::precise;
use ratatui::layout::Rect;

/// Below this size nothing useful fits.
pub const SMALLEST: (u16, u16) = (60, 15);
/// The size everything is made for.
pub const NEEDED: (u16, u16) = (80, 24);
/// Columns of the chart's axis labels, with the space behind them.
pub const AXIS: u16 = 6;

/// Places, from top to bottom. A height of 0: not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Areas {
    /// The status line.
    pub status: Rect,
    /// Why nothing new is coming.
    pub banner: Rect,
    /// The chart with its title and its axis.
    pub chart: Rect,
    /// Tabs.
    pub tabs: Rect,
    /// Breadcrumb.
    pub crumbs: Rect,
    /// What the drawing is of.
    pub note: Rect,
    /// Column titles and rows.
    pub table: Rect,
    /// SQL of the selected row.
    pub preview: Rect,
    /// The footer.
    pub footer: Rect,
}

impl Areas {
    /// The chart without title and axes.
    pub fn plot(&self) -> Rect {
        let c = self.chart;
        Rect { x: c.x + AXIS.min(c.width), y: c.y + 1, width: c.width.saturating_sub(AXIS + 1), height: c.height.saturating_sub(2) }
    }

    /// Where the latency page shows its distribution over time.
    pub fn heat(&self) -> Heat {
        let screen = (self.footer.width, self.footer.bottom());
        match screen {
            (WIDE.., _) => Heat::Beside(self.table.width - ladder(self.table.width) - 2),
            (_, TALL..) => Heat::Below(self.plot().width),
            _ => Heat::Nowhere,
        }
    }

    /// Points over time that it has room for.
    pub fn heat_columns(&self) -> u16 {
        match self.heat() {
            Heat::Beside(columns) | Heat::Below(columns) => columns.max(1),
            Heat::Nowhere => 1,
        }
    }

    /// Rows of the table that fit.
    pub fn rows(&self) -> usize {
        usize::from(self.table.height.saturating_sub(1))
    }
}

/// From this width on, latency over time stands beside the distribution, and each row is one of both.
const WIDE: u16 = 120;
/// From this height on, it stands below it where there is no room beside.
const TALL: u16 = 40;
/// So many percent of a width.
pub fn percent(width: u16, percent: u32) -> u16 {
    (u32::from(width) * percent / 100) as u16
}

/// Columns of the distribution beside it.
pub fn ladder(width: u16) -> u16 {
    percent(width, 45).clamp(60, 84)
}

/// Where latency over time stands, and how many columns it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heat {
    /// On the same rows.
    Beside(u16),
    /// Under the distribution, column for column under the chart.
    Below(u16),
    /// No room.
    Nowhere,
}

/// Whether the terminal is too small for anything.
pub fn is_too_small((width, height): (u16, u16)) -> bool {
    width < SMALLEST.0 || height < SMALLEST.1
}

/// The places of a screen of this size.
pub fn areas((width, height): (u16, u16), state: &State) -> Areas {
    let banner = u16::from(state.trouble().is_some());
    let chart = (u32::from(height) * 34 / 100) as u16;
    let chart = chart.clamp(5, 26);
    let fixed = 1 + banner + chart + 1 + 1 + 1;
    let rest = height.saturating_sub(fixed);
    let preview = if state.sql == Sql::Wrapped && state.layer.is_none() && state.has_sql() {
        (rest / 3).clamp(2, 12).min(rest.saturating_sub(3))
    } else {
        0
    };
    let note = note(width, state).min(rest.saturating_sub(preview + 2));
    let mut y = 0u16;
    let mut take = |h: u16| {
        let h = h.min(height.saturating_sub(y));
        let area = Rect { x: 0, y, width, height: h };
        y += h;
        area
    };
    Areas {
        status: take(1),
        banner: take(banner),
        chart: take(chart),
        tabs: take(1),
        crumbs: take(1),
        note: take(note),
        table: take(rest.saturating_sub(preview + note)),
        preview: take(preview),
        footer: take(1),
    }
}

/// Lines about what a drawing is of. Figures of latency leave no room beside them on a narrow screen.
fn note(width: u16, state: &State) -> u16 {
    let partial = || state.answer(slot::PAGE).is_some_and(|a| precise::described(a, state).is_some());
    match state.place.page {
        Page::Latency | Page::Flow if state.layer.as_ref().is_some_and(crate::ui::state::layer::Layer::is_detail) => 0,
        Page::Latency if width < 160 && partial() => 2,
        Page::Latency | Page::Flow => 1,
        _ => 0,
    }
}
