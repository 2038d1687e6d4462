//! One picture from one state. Changes nothing, asks nothing, knows no clock; says what is where so that the mouse can be understood.

pub mod hits;
pub mod layout;

use super::chart::Chart;
use super::format;
use super::pages::column::Scene;
use super::pages::flow::Face;
use super::pages::{Page, Row};
use super::state::layer::Layer;
use super::state::{Idle, State, slot};
use super::text::put;
use super::theme::Theme;
use super::theme::role::Role;
use super::widgets::crumbs::Crumbs;
use super::widgets::detail::Panel;
use super::widgets::flow;
use super::widgets::footer::Footer;
use super::widgets::health::Panel as Health;
use super::widgets::help::Help;
use super::widgets::latency::Distribution;
use super::widgets::matrix::Matrix;
use super::widgets::notice::Notice;
use super::widgets::palette::List;
use super::widgets::precise;
use super::widgets::preview::Preview;
use super::widgets::prompt::{Bottom, Moment, Window};
use super::widgets::status::Status;
use super::widgets::table::{self, Table};
use super::widgets::tabs::Tabs;
use super::widgets::themes::Picker;
use crate::analysis::answer::{Answer, Body};
use crate::trace::clock::{Span, Ts};
use crate::ui::pages::with_rows;
use hits::Hits;
use layout::{NEEDED, is_too_small};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{StatefulWidget, Widget};

/// Draws the state.
pub fn draw(frame: &mut Frame<'_>, state: &State, theme: &Theme) -> Hits {
    let hits = picture(frame, state, theme);
    if state.start.ascii {
        only_ascii(frame.buffer_mut());
    }
    hits
}

/// Replaces what the terminal cannot show: server text, units, marks.
fn only_ascii(buf: &mut Buffer) {
    for cell in &mut buf.content {
        if !cell.symbol().is_ascii() {
            let plain = match cell.symbol() {
                "µ" => "u",
                "—" | "–" => "-",
                "≥" => ">",
                "†" => "+",
                "…" => "~",
                _ => "?",
            };
            cell.set_symbol(plain);
        }
    }
}

fn picture(frame: &mut Frame<'_>, state: &State, theme: &Theme) -> Hits {
    let mut hits = Hits::default();
    let area = frame.area();
    let buf = frame.buffer_mut();
    buf.set_style(area, theme.of(Role::Text));
    if is_too_small((area.width, area.height)) {
        let headline = format!("terminal too small: need {}x{}, have {}x{}", NEEDED.0, NEEDED.1, area.width, area.height);
        let notice = Notice { headline, role: Role::Strong, more: vec!["make it larger, or press q to quit".into()], theme };
        notice.render(area, buf);
        return hits;
    }
    let areas = layout::areas((area.width, area.height), state);
    (&Status { state, theme }).render(areas.status, buf);
    if let Some(trouble) = state.trouble() {
        buf.set_style(areas.banner, theme.of(Role::Banner));
        let text = format!(" {} {}", theme.glyphs().warning, format::safe(&trouble));
        put(buf, areas.banner, 0, areas.banner.y, &text, theme.of(Role::Banner));
    }
    chart(state, theme, areas.chart, buf, &mut hits);
    (&Tabs { page: state.place.page, theme }).render(areas.tabs, buf, &mut hits);
    (&Crumbs { state, theme }).render(areas.crumbs, buf, &mut hits);
    match &state.layer {
        Some(Layer::Detail(detail)) => (&Panel { detail, state, theme }).render(areas.table, buf),
        _ => page(state, theme, areas.table, buf, &mut hits),
    }
    if let Some(sql) = state.subject().as_ref().and_then(|s| s.sql()).filter(|_| areas.preview.height > 0) {
        (&Preview { sql, theme }).render(areas.preview, buf);
    }
    (&Footer { state, theme }).render(areas.footer, buf, &mut hits);
    layer(state, theme, area, buf, &mut hits);
    hits
}

fn layer(state: &State, theme: &Theme, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
    match &state.layer {
        Some(Layer::Help(offset)) => {
            (&Help { page: state.place.page, offset: *offset, ascii: state.start.ascii, theme }).render(area, buf, hits);
        }
        Some(Layer::Palette(palette)) => (&List { palette, state, theme }).render(area, buf, hits),
        Some(Layer::Themes(themes)) => (&Picker { themes, theme }).render(area, buf, hits),
        Some(Layer::Prompt(prompt)) => {
            (&Bottom { prompt, rows: state.rows.len(), theme }).render(area, buf);
        }
        Some(Layer::Window(asking)) => (&Window { asking, last: state.window(), budget: state.budget(), theme }).render(area, buf),
        Some(Layer::Jump(jump)) => {
            let recorded = state.pulse.answer().and_then(|a| Some((a.clock, a.extent?))).map_or_else(String::new, |(clock, e)| {
                let at = |ts| crate::show::moment(clock.wall(ts), &state.start.zone);
                format!("{} to {}", at(e.start), at(present(state, e.end)))
            });
            (&Moment { jump, recorded: &recorded, theme }).render(area, buf);
        }
        Some(Layer::Detail(_)) | None => {}
    }
}

fn chart(state: &State, theme: &Theme, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
    let answer = state.answer(slot::CHART);
    let load = answer.and_then(|a| match &a.body {
        Body::Load(load) => Some(load),
        _ => None,
    });
    let newest = state.pulse.answer();
    let chart = Chart {
        load,
        span: answer.map(|a| a.window).or_else(|| state.span()).unwrap_or_default(),
        recorded: answer.and_then(|a| a.extent).map(|e| Span::new(e.start, present(state, e.end))),
        precise: answer.map_or(&[], |a| a.coverage.precise.as_slice()),
        notice: chart_notice(state, answer),
        clock: answer.or(newest).map(|a| a.clock).unwrap_or_default(),
        zone: &state.start.zone,
        cpus: newest.map_or(0, |a| a.server.cpus),
        top: state.scale.top.max(1.0),
        live: !state.is_paused(),
        filtered: !state.place.crumbs.is_empty(),
        cursor: state.cursor,
        drag: state.drag,
        theme,
    };
    (&chart).render(area, buf, hits);
}

/// Up to when time without data is a gap: now, while data should be coming.
fn present(state: &State, end: Ts) -> Ts {
    if state.trouble().is_some() { state.pulse.present().unwrap_or(end) } else { end }
}

fn chart_notice(state: &State, answer: Option<&Answer>) -> String {
    match answer {
        None if state.pulse.extent().is_none() => String::new(),
        None => state.pane(slot::CHART).and_then(|p| p.error.clone()).unwrap_or_else(|| format!("reading {}", window(state))),
        Some(a) if a.coverage.observed_ns() == 0 => format!("no data {}", window(state)),
        Some(_) => String::new(),
    }
}

/// `12:00:00–12:05:00`.
fn window(state: &State) -> String {
    let clock = state.pulse.answer().map(|a| a.clock).unwrap_or_default();
    let at = |ts| format::clock(clock.wall(ts), &state.start.zone, true);
    state.span().map_or_else(String::new, |s| format!("{} to {}", at(s.start), at(s.end)))
}

fn page(state: &State, theme: &Theme, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
    if state.place.page == Page::Health && state.pulse.answer().is_some() {
        return (&Health { state, theme }).render(area, buf);
    }
    let answer = state.answer(slot::PAGE);
    if let Some(notice) = notice(state, theme, answer) {
        notice.render(area, buf);
        return;
    }
    let Some(answer) = answer else { return };
    match (&answer.body, state.face) {
        (Body::Latency(view), _) => (&Distribution { view, answer, state, theme }).render(area, buf),
        (Body::Flow(flow), Face::Panel) => (&flow::Panel { flow, answer, state, theme }).render(area, buf, hits),
        (Body::Flow(flow), Face::Matrix) => (&Matrix { flow, answer, state, theme }).render(area, buf, hits),
        _ => {}
    }
    with_rows!(&answer.body, rows => {
        let table = Table { rows, order: &state.rows, view: state.place.view(), scene: scene(rows, answer, state), theme };
        (&table).render(area, buf, hits);
    }, ());
}

/// Titles of the columns on the screen that rows can be ordered by, from left to right.
pub fn sortable(state: &State) -> Vec<&'static str> {
    let Some(answer) = state.answer(slot::PAGE) else { return Vec::new() };
    let area = state.areas().table;
    with_rows!(&answer.body, rows => table::sortable(rows, &state.rows, &scene(rows, answer, state), area), Vec::new())
}

fn scene<'a, R: Row>(rows: &[R], answer: &'a Answer, state: &'a State) -> Scene<'a> {
    let glance = |s| match state.answer(s) {
        Some(Answer { body: Body::TimeModel(model), coverage, .. }) => Some((coverage.observed_ns() > 0).then_some(model)),
        _ => None,
    };
    let (short, medium) = (glance(slot::SHORT), glance(slot::MEDIUM));
    let top_share = rows.iter().filter_map(Row::share).fold(0.0, f64::max);
    let (exact, measured, executions) = match &answer.body {
        Body::Events { events } => {
            (events.iter().any(|e| e.waits.is_some() || e.latency.is_some()), events.iter().any(|e| e.measured.is_some()), false)
        }
        Body::Sessions { sessions } => (sessions.iter().any(|s| s.waits.is_some()), sessions.iter().any(|s| s.measured.is_some()), false),
        Body::Queries { queries } => (queries.iter().any(|q| q.waits.is_some()), false, queries.iter().any(|q| q.executions.is_some())),
        _ => (false, false, false),
    };
    let wall = answer.clock.wall(answer.extent.map_or(answer.window.end, |e| e.end.min(answer.window.end))) / 1_000;
    Scene { answer, short, medium, top_share: if top_share > 0.0 { top_share } else { 1.0 }, wall, exact, measured, executions }
}

/// Why there are no rows, when there are none.
fn notice<'a>(state: &State, theme: &'a Theme, answer: Option<&Answer>) -> Option<Notice<'a>> {
    let place = &state.place;
    let make = |headline: String, role, more: Vec<String>| Some(Notice { headline, role, more, theme });
    let pane = state.pane(slot::PAGE)?;
    if let Some(error) = &pane.error {
        let more = if place.crumbs.is_empty() { vec![] } else { vec!["Backspace goes back, / edits the filter".into()] };
        return make(format::safe(error).into_owned(), Role::Bad, more);
    }
    let Some(answer) = answer else {
        return match (state.pulse.extent(), state.trouble()) {
            (None, Some(trouble)) => make(format!("no data: {}", format::safe(&trouble)), Role::Warn, vec![]),
            (None, None) => make("no data yet: looking for the server".into(), Role::Dim, vec![]),
            (Some(_), _) => make(format!("reading {}", window(state)), Role::Dim, vec![]),
        };
    };
    if answer.coverage.observed_ns() == 0 {
        let why =
            state.trouble().map_or_else(|| "nothing was recorded then: G follows time again".into(), |t| format::safe(&t).into_owned());
        return make(format!("no data {}", window(state)), Role::Warn, vec![why]);
    }
    if matches!(answer.body, Body::Latency(_) | Body::Flow(_)) {
        return precise::notice(state, theme, answer);
    }
    let nothing = match &answer.body {
        // The two totals are always there; without load they say all there is to say.
        Body::TimeModel(model) => answer.db_time_ns == 0 && !place.crumbs.is_empty() && answer.idle_ns == 0 || model.rows.is_empty(),
        _ => state.rows.is_empty(),
    };
    if !nothing && !state.rows.is_empty() {
        return None;
    }
    if !place.words.is_empty() && answer.total_rows > 0 {
        let words = place.words.iter().map(|w| format!("\"{}\"", format::safe(w))).collect::<Vec<_>>().join(" and ");
        return make(
            format!("no row contains {words}"),
            Role::Warn,
            vec![format!("{} rows without it; Esc drops the words", answer.total_rows)],
        );
    }
    if !place.crumbs.is_empty() && answer.db_time_ns == 0 && state.hidden == 0 {
        let filter = place.crumbs.iter().map(|c| format::safe(&c.label).into_owned()).collect::<Vec<_>>().join(", ");
        return make(
            format!("nothing matches the filter: {filter}"),
            Role::Warn,
            vec![format!("{}; Backspace goes back, / edits the filter", window(state))],
        );
    }
    let idle = match (state.hidden, state.idle) {
        (n, Idle::Hidden) if n > 0 => format!("{n} idle {} hidden: i shows them", if n == 1 { "row is" } else { "rows are" }),
        _ => {
            let seen = answer.extent.map_or(answer.window, |e| answer.window.clip(e));
            let at = |ts| format::clock(answer.clock.wall(ts), &state.start.zone, true);
            format!("{} to {}: the server was observed and had nothing to do", at(seen.start), at(seen.end))
        }
    };
    let headline = match place.page {
        Page::Active | Page::Sessions => "no active sessions",
        Page::Time | Page::Events | Page::Latency | Page::Flow | Page::Health => "no load",
        Page::Queries => "no load of any query",
    };
    make(headline.into(), Role::Dim, vec![idle])
}
