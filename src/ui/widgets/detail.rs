//! The detail panel: everything about one session, query, event or class, in place of the table.

use super::help::class_about;
use super::lines::{Line, Lines, Piece, Scrolled};
use crate::analysis::answer::{ActiveRow, Answer, Body, Sql, Who};
use crate::trace::catalog::{TextSource, UnixMicros};
use crate::ui::format;
use crate::ui::pages::subject::Subject;
use crate::ui::state::layer::Detail;
use crate::ui::state::{State, slot};
use crate::ui::text::{dot, fit, put, row};
use crate::ui::theme::Theme;
use crate::ui::theme::role::Role;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

/// Events and queries listed at most.
pub const LISTED: usize = 12;
/// Cells of the column of names.
const NAMES: usize = 14;

/// The panel.
#[derive(Debug)]
pub struct Panel<'a> {
    /// What it is about.
    pub detail: &'a Detail,
    /// Where its answers are.
    pub state: &'a State,
    /// Styles.
    pub theme: &'a Theme,
}

/// The last line that may be the first shown.
pub fn bottom(detail: &Detail, state: &State) -> usize {
    let area = state.areas().table;
    lines(detail, state, area.width.saturating_sub(2)).len().saturating_sub(usize::from(area.height.saturating_sub(1)))
}

impl Widget for &Panel<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let title = row(area, 0);
        buf.set_style(title, self.theme.of(Role::Header));
        let text = format!(" {}", format::safe(&self.detail.subject.label()));
        put(
            buf,
            title,
            title.x,
            title.y,
            &fit(&text, usize::from(area.width), self.theme.glyphs().ellipsis),
            self.theme.of(Role::HeaderSorted),
        );
        let inner = Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height: area.height - 1 };
        let lines = lines(self.detail, self.state, inner.width);
        (&Scrolled { lines: &lines, offset: self.detail.offset, base: self.theme.of(Role::Text), theme: self.theme }).render(inner, buf);
        let x = area.right().saturating_sub(1);
        if self.detail.offset > 0 {
            dot(buf, x, inner.y, self.theme.glyphs().ascending, self.theme.of(Role::Dim));
        }
        if lines.len() > self.detail.offset + usize::from(inner.height) && inner.height > 1 {
            dot(buf, x, inner.bottom() - 1, self.theme.glyphs().descending, self.theme.of(Role::Dim));
        }
    }
}

fn lines(detail: &Detail, state: &State, width: u16) -> Vec<Line> {
    let mut out = Lines::new(width, Role::Text, Role::Strong);
    match &detail.subject {
        Subject::Session(who, sql) => session(&mut out, who, sql.as_deref(), state),
        Subject::Query(sql) => query(&mut out, sql),
        Subject::Class(class, _) => out.text(Role::Text, class_about(*class)),
        Subject::Event(event, _) => {
            out.text(Role::Text, &format!("{}: {}", event.class().name(), class_about(event.class())));
            fact(&mut out, "raw value", &format!("0x{:08X}", event.0));
        }
        Subject::Everything => out.text(Role::Text, "All load: the time of all sessions that were not idle, on CPU and waiting."),
        Subject::Idle => {
            out.text(Role::Text, "Waiting for the next command, main loops of background processes, their pacing sleeps: no load.");
        }
    }
    load(&mut out, state);
    events(&mut out, state);
    queries(&mut out, state, width);
    out.lines
}

fn fact(out: &mut Lines, name: &str, value: &str) {
    if !value.is_empty() {
        out.entry(Role::Dim, name, NAMES, None, value);
    }
}

/// The newest known answer row about a session.
fn now(state: &State) -> Option<(&ActiveRow, &Answer)> {
    let answer = state.answer(slot::DETAIL_NOW)?;
    let Body::Active { active, .. } = &answer.body else { return None };
    active.first().map(|row| (row, answer))
}

fn session(out: &mut Lines, who: &Who, sql: Option<&Sql>, state: &State) {
    let now = now(state);
    let text_of = |text: &str| format::safe(text).into_owned();
    let mut facts = vec![
        ("kind", who.kind.name().to_owned()),
        ("user", text_of(&who.user.show())),
        ("database", text_of(&who.database.show())),
        ("application", text_of(&who.application)),
        ("client", text_of(&who.client)),
    ];
    if who.started != 0 {
        facts.push(("started", format::moment(who.started.saturating_mul(1_000), &state.start.zone)));
    }
    if who.server_pid != who.pid && who.server_pid != 0 {
        facts.push(("server's pid", who.server_pid.to_string()));
    }
    facts.extend(who.leader.map(|leader| ("leader", format!("pid {leader}"))));
    if who.gone {
        facts.push(("ended", "the process is gone".into()));
    }
    if let Some((row, answer)) = now {
        let end = answer.extent.map_or(answer.window.end, |e| e.end.min(answer.window.end));
        let wall = answer.clock.wall(end) / 1_000;
        let age = |since: UnixMicros| format::duration(u64::try_from(wall.saturating_sub(since)).unwrap_or(0).saturating_mul(1_000));
        let at_least = if row.for_at_least { "at least " } else { "" };
        facts.push(("now", format!("{}, {} for {at_least}{}", row.state.name(), row.name, format::duration(row.for_ns))));
        if row.state.in_command() && row.query_start != 0 {
            facts.push(("command", format!("running for {}", age(row.query_start))));
        }
        if row.xact_start != 0 {
            facts.push(("transaction", format!("open for {}", age(row.xact_start))));
        }
    }
    out.facts(&facts, NAMES);
    let sql = now.map(|(row, _)| &row.sql).or(sql).filter(|s| !s.text.is_empty());
    if let Some(sql) = sql {
        let ended = now.is_some_and(|(row, _)| !row.state.in_command());
        text(out, sql, if ended { "Last SQL" } else { "SQL" });
    }
}

fn query(out: &mut Lines, sql: &Sql) {
    fact(out, "query id", &crate::ui::pages::queries::id(sql));
    if sql.source == TextSource::Normalised {
        fact(out, "", "the server computes no ids (compute_query_id): this one is a hash of the text without its literals");
    }
    if sql.text.is_empty() {
        let known = sql.query == crate::trace::record::QueryId::NONE;
        fact(
            out,
            "text",
            if known {
                "load without a query id: utility commands, or ids are not computed"
            } else {
                "not known: no session was seen running it"
            },
        );
    } else {
        text(out, sql, "SQL");
    }
}

fn text(out: &mut Lines, sql: &Sql, title: &str) {
    out.heading(&if sql.truncated { format!("{title}, cut by the server (track_activity_query_size)") } else { title.to_owned() });
    out.text(Role::Text, &format::block(&sql.text));
}

fn load(out: &mut Lines, state: &State) {
    let Some(answer) = state.answer(slot::DETAIL_EVENTS) else { return };
    let at = |ts| format::clock(answer.clock.wall(ts), &state.start.zone, true);
    out.heading(&format!("Load {} to {}", at(answer.window.start), at(answer.window.end)));
    let aas = answer.aas().map_or_else(|| format::NONE.into(), format::aas);
    let load = format!("{}, AAS {aas}", format::duration(answer.db_time_ns));
    out.facts(&[("time", load), ("idle", format::duration(answer.idle_ns))], NAMES);
}

fn events(out: &mut Lines, state: &State) {
    let Some(Body::Events { events }) = state.answer(slot::DETAIL_EVENTS).map(|a| &a.body) else { return };
    if events.is_empty() {
        return;
    }
    out.heading("Share by event");
    for e in events.iter().take(LISTED) {
        out.line(vec![
            Piece::Text(
                if e.idle { Role::Dim } else { Role::Text },
                format!("{:>6} {:>9}  ", format::share(e.db_share), format::duration(e.time_ns)),
            ),
            Piece::Swatch(e.class),
            Piece::Text(if e.idle { Role::Dim } else { Role::Text }, format!(" {}{}", e.name, if e.idle { " (idle)" } else { "" })),
        ]);
    }
}

fn queries(out: &mut Lines, state: &State, width: u16) {
    let Some(Body::Queries { queries }) = state.answer(slot::DETAIL_QUERIES).map(|a| &a.body) else { return };
    if queries.is_empty() {
        return;
    }
    out.heading("Queries");
    for q in queries.iter().take(LISTED) {
        let head =
            format!("{:>6} {:>9}  {:>21} ", format::share(q.db_share), format::duration(q.time_ns), crate::ui::pages::queries::id(&q.sql));
        let room = usize::from(width).saturating_sub(head.len());
        let line = format::safe(&q.sql.text);
        out.line(vec![Piece::Text(Role::Text, head), Piece::Text(Role::Dim, fit(&line, room, "…").into_owned())]);
    }
}
