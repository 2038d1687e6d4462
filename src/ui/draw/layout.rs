//! Where everything is on the screen. Pure: the same size and state give the same places, for drawing and for paging.
//!
//! ```text
//!  status line
//!  banner                       only while nothing new is coming
//!  ─ AAS ── legend ───────────
//!  chart, its last row the time axis
//!  tabs
//!  breadcrumb          coverage
//!  column titles
//!  rows
//!  SQL of the selected row      only when asked for
//!  footer
//! ```

use crate::ui::state::{Sql, State};
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

    /// Rows of the table that fit.
    pub fn rows(&self) -> usize {
        usize::from(self.table.height.saturating_sub(1))
    }
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
        table: take(rest.saturating_sub(preview)),
        preview: take(preview),
        footer: take(1),
    }
}
