//! The chart: average active sessions over time, stacked by wait class, with the server's CPUs as a line. One column per bucket.

pub mod axis;
pub mod stack;

use super::draw::hits::Hits;
use super::format;
use super::text::{dot, put, put_right, row, width};
use super::theme::Theme;
use super::theme::role::Role;
use super::widgets::health;
use crate::analysis::answer::{Load, LoadBucket, Stretch};
use crate::trace::clock::{Clock, Span, Ts};
use crate::trace::marker::{Kind, Marker};
use crate::trace::record::Fidelity;
use crate::trace::wait::WaitClass;
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::StatefulWidget;
use stack::{Fill, stack};
use std::collections::BTreeMap;

/// The newest bucket is drawn once so much of it was observed.
const LEAST: f64 = 0.25;

/// What the chart shows.
#[derive(Debug)]
pub struct Chart<'a> {
    /// The buckets; `None` while there is no answer.
    pub load: Option<&'a Load>,
    /// The stretch they divide.
    pub span: Span,
    /// What was recorded at all: what lies outside is no gap.
    pub recorded: Option<Span>,
    /// Stretches seen by exact and blocking capture.
    pub precise: &'a [Stretch],
    /// Said in the middle when there is nothing to draw.
    pub notice: String,
    /// Trace time against the wall clock.
    pub clock: Clock,
    /// The zone of the time axis.
    pub zone: &'a TimeZone,
    /// CPUs of the server; 0 when unknown.
    pub cpus: u32,
    /// AAS at the top.
    pub top: f64,
    /// Whether the right edge is now.
    pub live: bool,
    /// Whether only part of the load is shown.
    pub filtered: bool,
    /// The cursor.
    pub cursor: Option<Ts>,
    /// The stretch being dragged over.
    pub drag: Option<(Ts, Ts)>,
    /// Styles.
    pub theme: &'a Theme,
}

impl StatefulWidget for &Chart<'_> {
    type State = Hits;

    fn render(self, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
        let axis = super::draw::layout::AXIS.min(area.width);
        let plot =
            Rect { x: area.x + axis, y: area.y + 1, width: area.width.saturating_sub(axis + 1), height: area.height.saturating_sub(2) };
        self.title(row(area, 0), buf);
        if plot.is_empty() {
            return;
        }
        hits.chart(plot, self.span);
        self.values(area, plot, buf);
        self.times(area, plot, buf);
        if let Some(load) = self.load {
            self.buckets(load, plot, buf);
        }
        self.say(plot, buf);
        self.marks(plot, buf);
    }
}

impl Chart<'_> {
    fn bucket_at(&self, at: Ts) -> Option<&LoadBucket> {
        let load = self.load?;
        let i = (at.since(self.span.start) as f64 / load.bucket_ns.max(1.0)) as usize;
        load.buckets.get(i.min(load.buckets.len().saturating_sub(1)))
    }

    fn title(&self, area: Rect, buf: &mut Buffer) {
        let rule = self.theme.of(Role::Rule);
        let glyph = self.theme.glyphs().rule;
        for x in area.left()..area.right() {
            dot(buf, x, area.y, glyph, rule);
        }
        let zone = zone_name(self.zone, self.clock.wall(self.span.end));
        let right = Rect { width: area.width.saturating_sub(2), ..area };
        let end = put_right(buf, right, &format!(" {zone} "), self.theme.of(Role::Axis));
        let room = Rect { width: end.saturating_sub(area.x), ..area };
        let strong = self.theme.of(Role::Strong);
        let mut x = put(buf, room, area.x + 1, area.y, if self.filtered { " AAS, filtered " } else { " AAS " }, strong);
        if let Some(at) = self.cursor {
            let time = format::clock(self.clock.wall(at), self.zone, true);
            x = put(buf, room, x, area.y, &format!("at {time} "), self.theme.of(Role::Cursor));
            let plot =
                Rect { x: area.x + super::draw::layout::AXIS, width: area.width.saturating_sub(super::draw::layout::AXIS + 1), ..area };
            if let Some(marker) = self.happened(plot).get(&self.column(at, plot)) {
                let half = usize::from(area.width) / 2;
                let sentence = crate::show::marked(marker);
                let text = super::text::fit(&sentence, half, self.theme.glyphs().ellipsis);
                x = put(buf, room, x, area.y, &format!("{text} "), self.theme.of(health::role(marker)));
            }
        }
        if self.cpus > 0 && f64::from(self.cpus) > self.top {
            let up = self.theme.glyphs().up;
            x = put(buf, room, x, area.y, &format!("{} cpu {up} ", self.cpus), self.theme.of(Role::Capacity));
        }
        self.legend(room, x, buf);
    }

    /// Classes that are on the chart, with their values at the cursor.
    fn legend(&self, area: Rect, mut x: u16, buf: &mut Buffer) {
        let Some(load) = self.load else { return };
        let at = self.cursor.and_then(|c| self.bucket_at(c));
        if at.is_some_and(|b| b.observed <= 0.0) {
            put(buf, area, x, area.y, "not observed ", self.theme.of(Role::Warn));
            return;
        }
        for (i, class) in WaitClass::ALL.into_iter().enumerate() {
            let peak = load.buckets.iter().filter_map(|b| b.aas.get(i)).fold(0.0f64, |a, b| a.max(*b));
            if peak <= 0.0 {
                continue;
            }
            let value = at.and_then(|b| b.aas.get(i)).map_or_else(String::new, |v| format!("{} ", format::aas(*v)));
            let text = format!(" {} {value}", class.name());
            if usize::from(area.right().saturating_sub(x)) < width(&text) + 1 {
                put(buf, area, x, area.y, self.theme.glyphs().ellipsis, self.theme.of(Role::Axis));
                return;
            }
            let (glyph, style) = self.theme.swatch(class);
            x = put(buf, area, x, area.y, glyph, style);
            x = put(buf, area, x, area.y, &text, self.theme.of(Role::Text));
        }
    }

    fn values(&self, area: Rect, plot: Rect, buf: &mut Buffer) {
        let style = self.theme.of(Role::Axis);
        let label = |n: u16, text: &str, style: Style, buf: &mut Buffer| {
            let place = Rect { x: area.x, y: plot.y + n, width: plot.x.saturating_sub(area.x + 1), height: 1 };
            put_right(buf, place, text, style);
        };
        let line = self.capacity_row(plot);
        let levels = axis::levels(self.top, plot.height);
        for (n, v) in levels.into_iter().chain([(0, self.top)]).filter(|(n, _)| Some(*n) != line) {
            label(n, &axis::value(v), style, buf);
        }
        if let Some(n) = line {
            let text = format!("{} cpu", self.cpus);
            let text = if text.len() > 5 { format!("{}cpu", self.cpus) } else { text };
            label(n, &text, self.theme.of(Role::Capacity), buf);
        }
    }

    /// Row of the plot that the CPU line goes through.
    fn capacity_row(&self, plot: Rect) -> Option<u16> {
        let cpus = f64::from(self.cpus);
        if self.cpus == 0 || cpus > self.top || plot.height == 0 {
            return None;
        }
        let below = (cpus / self.top * f64::from(plot.height)).round() as u16;
        Some(plot.height - below.clamp(1, plot.height))
    }

    fn times(&self, area: Rect, plot: Rect, buf: &mut Buffer) {
        let style = self.theme.of(Role::Axis);
        let y = plot.bottom();
        let line = Rect { y, height: 1, ..plot };
        put_right(buf, Rect { x: area.x, y, width: plot.x.saturating_sub(area.x + 1), height: 1 }, "0", style);
        self.precise(line, buf);
        let room = if self.live { plot.right().saturating_sub(5) } else { plot.right() };
        for mark in axis::marks(self.span, plot.width, self.clock, self.zone) {
            let x = plot.x + mark.column;
            let text = format!("{}{}", self.theme.glyphs().mark, mark.label);
            let end = x + u16::try_from(width(&text)).unwrap_or(u16::MAX);
            let under_cursor = self.cursor.is_some_and(|c| (x..=end).contains(&self.column(c, plot)));
            if end <= room && !under_cursor && !self.hides_a_stretch(x, end, plot) {
                put(buf, line, x, y, &text, style);
            }
        }
        if self.live {
            let now = Rect { x: plot.right().saturating_sub(4), width: plot.width.min(4), ..line };
            put_right(buf, now, " now", style);
        }
    }

    /// Lines on the time axis under what was seen by exact and blocking capture.
    fn precise(&self, line: Rect, buf: &mut Buffer) {
        for stretch in self.precise {
            let glyphs = self.theme.glyphs();
            let (glyph, role) = match stretch.fidelity {
                Fidelity::Blocking => (glyphs.blocking, Role::Blocking),
                _ => (glyphs.exact, Role::Exact),
            };
            let Some((from, to)) = self.columns(stretch.span, line) else { continue };
            (from..=to).for_each(|x| dot(buf, x, line.y, glyph, self.theme.of(role)));
        }
    }

    /// Whether a label in these columns would leave nothing to be seen of a stretch.
    fn hides_a_stretch(&self, from: u16, end: u16, plot: Rect) -> bool {
        let hidden = |(a, b): (u16, u16)| from <= a && b < end;
        self.precise.iter().filter_map(|s| self.columns(s.span, plot)).any(hidden)
    }

    /// The first and the last column a stretch lies in.
    fn columns(&self, span: Span, plot: Rect) -> Option<(u16, u16)> {
        let inside = self.span.clip(span);
        (!inside.is_empty()).then(|| (self.column(inside.start, plot), self.column(inside.end - 1, plot)))
    }

    fn buckets(&self, load: &Load, plot: Rect, buf: &mut Buffer) {
        let line = self.capacity_row(plot);
        for column in 0..plot.width {
            let x = plot.x + column;
            let i = usize::from(column) * load.buckets.len() / usize::from(plot.width.max(1));
            let Some(bucket) = load.buckets.get(i) else { continue };
            let start = self.span.start + (load.bucket_ns * i as f64) as u64;
            let inside = self.recorded.is_some_and(|r| r.meets(Span::new(start, start + (load.bucket_ns.max(1.0)) as u64)));
            // The newest bucket of a live picture has just begun: too little to draw.
            let begun = self.live && i + 1 == load.buckets.len() && bucket.observed < LEAST;
            if bucket.observed <= 0.0 || begun {
                if inside && !begun {
                    for y in plot.top()..plot.bottom() {
                        dot(buf, x, y, self.theme.glyphs().hatch, self.theme.of(Role::Gap));
                    }
                }
                continue;
            }
            let cells = stack(&bucket.aas, self.top, usize::from(plot.height));
            for (n, fill) in (0..plot.height).rev().zip(cells) {
                self.cell(buf, (x, plot.y + n), fill, line == Some(n));
            }
        }
    }

    fn cell(&self, buf: &mut Buffer, (x, y): (u16, u16), fill: Fill, capacity: bool) {
        let theme = self.theme;
        let glyphs = theme.glyphs();
        let line = theme.of(Role::Capacity);
        match (fill, capacity) {
            (Fill::Empty, false) => {}
            (Fill::Empty, true) => dot(buf, x, y, glyphs.capacity, line),
            _ if !theme.blends() => {
                let half = fill.eighths() >= 4 || (fill.eighths() > 0 && y + 1 == buf.area.bottom());
                match fill.main() {
                    Some(class) if half || capacity => dot(buf, x, y, theme.fill(class), Style::new().fg(theme.class(class))),
                    Some(class) => dot(buf, x, y, glyphs.rising.get(fill.eighths()).unwrap_or(&" "), Style::new().fg(theme.class(class))),
                    None => {}
                }
            }
            (Fill::Part(class, 8), true) => dot(buf, x, y, glyphs.capacity, line.bg(theme.class(class))),
            (Fill::Part(class, n), _) => {
                dot(buf, x, y, glyphs.rising.get(n).unwrap_or(&" "), Style::new().fg(theme.class(class)));
            }
            (Fill::Two(..), true) => {
                let class = fill.main().unwrap_or(WaitClass::Unknown);
                dot(buf, x, y, glyphs.capacity, line.bg(theme.class(class)));
            }
            (Fill::Two(lower, n, upper), false) => {
                let style = Style::new().fg(theme.class(lower)).bg(theme.class(upper));
                dot(buf, x, y, glyphs.rising.get(n).unwrap_or(&" "), style);
            }
        }
    }

    fn say(&self, plot: Rect, buf: &mut Buffer) {
        if self.notice.is_empty() {
            return;
        }
        let text = super::text::fit(&self.notice, usize::from(plot.width.saturating_sub(2)), self.theme.glyphs().ellipsis);
        let text = format!(" {text} ");
        let x = plot.x + plot.width.saturating_sub(u16::try_from(width(&text)).unwrap_or(0)) / 2;
        put(buf, plot, x, plot.y + plot.height / 2, &text, self.theme.of(Role::Dim));
    }

    fn marks(&self, plot: Rect, buf: &mut Buffer) {
        if let Some((a, b)) = self.drag {
            let (from, to) = (self.column(a.min(b), plot), self.column(a.max(b), plot));
            let style = self.theme.of(Role::Drag);
            for y in plot.top()..=plot.bottom() {
                for x in from..=to {
                    if let Some(cell) = buf.cell_mut((x, y)).filter(|c| c.symbol() == " " || y == plot.bottom()) {
                        cell.set_style(style);
                    }
                }
            }
        }
        for (x, marker) in self.happened(plot) {
            let glyphs = self.theme.glyphs();
            let glyph = match marker.kind {
                Kind::Fire => glyphs.fired,
                Kind::Opened | Kind::Closed => glyphs.opened,
                Kind::Near => glyphs.near,
            };
            dot(buf, x, plot.top(), glyph, self.theme.of(health::role(marker)));
        }
        if let Some(at) = self.cursor.filter(|at| *at >= self.span.start && *at < self.span.end) {
            let x = self.column(at, plot);
            let style = self.theme.of(Role::Cursor);
            for y in plot.top()..plot.bottom() {
                let Some(cell) = buf.cell_mut((x, y)) else { continue };
                // A filled cell keeps its colour, behind the line.
                let bg = cell.fg;
                let filled = cell.symbol() == self.theme.glyphs().rising[8] && self.theme.blends();
                cell.set_symbol(self.theme.glyphs().cursor).set_style(if filled { style.bg(bg) } else { style });
            }
            dot(buf, x, plot.bottom(), self.theme.glyphs().up, style);
        }
    }

    /// What happened about windows, in the columns where it is marked: of several things in one column the one that matters most.
    fn happened(&self, plot: Rect) -> BTreeMap<u16, &Marker> {
        let mut found: BTreeMap<u16, &Marker> = BTreeMap::new();
        let inside = |m: &&Marker| m.kind != Kind::Closed && m.is_in(self.span);
        for marker in self.load.iter().flat_map(|l| &l.markers).filter(inside) {
            let place = found.entry(self.column(marker.at - 1, plot)).or_insert(marker);
            if weight(marker) > weight(place) {
                *place = marker;
            }
        }
        found
    }

    fn column(&self, at: Ts, plot: Rect) -> u16 {
        let share = at.since(self.span.start) as f64 / self.span.len().max(1) as f64;
        // The half guards against an instant computed from a bucket's start falling into the bucket before.
        plot.x + ((share * f64::from(plot.width) + 0.01) as u16).min(plot.width.saturating_sub(1))
    }
}

/// How much a marker matters.
fn weight(marker: &Marker) -> u8 {
    match (marker.kind, marker.granted) {
        (Kind::Fire, true) => 3,
        (Kind::Fire, false) => 2,
        (Kind::Opened | Kind::Closed, _) => 1,
        (Kind::Near, _) => 0,
    }
}

fn zone_name(zone: &TimeZone, wall_ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(wall_ns))
        .map_or_else(|_| String::new(), |at| zone.to_offset_info(at).abbreviation().to_string())
}
