//! What every session was doing at the last tick of the window.

use super::column::{Cell, Column, Scene, Tone, Width};
use super::sessions::{pid, who_texts};
use super::subject::Subject;
use super::{Row, RowKey};
use crate::analysis::answer::{ActiveRow, Doing};
use crate::trace::catalog::UnixMicros;
use crate::trace::record::State;
use crate::ui::format;

impl ActiveRow {
    fn tone(&self) -> Tone {
        if self.doing == Doing::Idle { Tone::Dim } else { Tone::Plain }
    }

    fn is_running(&self) -> bool {
        self.state.in_command()
    }
}

/// How long ago `since` was at the end of the window; nothing when unset.
fn age<'a>(since: UnixMicros, scene: &Scene<'a>, tone: Tone) -> Cell<'a> {
    if since == 0 {
        return Cell::dim(format::NONE);
    }
    let micros = u64::try_from(scene.wall.saturating_sub(since)).unwrap_or(0);
    Cell::Text(format::duration(micros.saturating_mul(1_000)).into(), tone)
}

fn query_age<'a>(row: &ActiveRow, scene: &Scene<'a>) -> Cell<'a> {
    age(if row.is_running() { row.query_start } else { 0 }, scene, row.tone())
}

fn state(state: State) -> &'static str {
    match state {
        State::IdleInTransaction => "idle in xact",
        State::IdleInTransactionAborted => "xact aborted",
        State::Fastpath => "fastpath",
        other => other.name(),
    }
}

impl Row for ActiveRow {
    const ORDERED: Option<&'static str> = None;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::<Self>::new("pid", Width::Fit(5, 10), 0, |r, _| pid(&r.who))
            .number(|a, b| a.who.pid.cmp(&b.who.pid))
            .help("process id on this machine"),
        Column::<Self>::new("kind", Width::Fit(6, 20), 9, |r, _| Cell::Text(r.who.kind.name().into(), r.tone()))
            .name(|a, b| a.who.kind.name().cmp(b.who.kind.name()))
            .help("backend type"),
        Column::<Self>::new("user", Width::Fit(4, 14), 5, |r, _| {
            Cell::Text(format::safe(&r.who.user.show()).into_owned().into(), r.tone())
        })
        .name(|a, b| a.who.user.show().cmp(&b.who.user.show()))
        .help("user"),
        Column::<Self>::new("db", Width::Fit(4, 14), 6, |r, _| {
            Cell::Text(format::safe(&r.who.database.show()).into_owned().into(), r.tone())
        })
        .name(|a, b| a.who.database.show().cmp(&b.who.database.show()))
        .help("database"),
        Column::<Self>::new("app", Width::Fit(4, 16), 8, |r, _| Cell::Text(format::safe(&r.who.application), r.tone()))
            .name(|a, b| a.who.application.cmp(&b.who.application))
            .help("application_name"),
        Column::<Self>::new("state", Width::Fixed(12), 4, |r, _| Cell::Text(state(r.state).into(), r.tone()))
            .name(|a, b| a.state.cmp(&b.state))
            .help("pg_stat_activity.state"),
        Column::<Self>::new("event", Width::Share(20, 34, 4), 0, |r, _| Cell::Name {
            depth: 0,
            class: Some(r.event.class()),
            text: r.name.as_str().into(),
            note: "",
            tone: r.tone(),
        })
        .name(|a, b| a.name.cmp(&b.name))
        .help("what it waits for; CPU*: no wait reported while a command runs"),
        Column::<Self>::new("for", Width::Fixed(9), 0, |r, _| {
            let at_least = if r.for_at_least { "≥" } else { "" };
            Cell::Text(format!("{at_least}{}", format::duration(r.for_ns)).into(), r.tone())
        })
        .number(|a, b| a.for_ns.cmp(&b.for_ns))
        .help("how long it has been seen in it without a break; at least that when the recording began in the middle"),
        Column::<Self>::new("query", Width::Fixed(8), 2, query_age)
            .number(|a, b| b.query_start.cmp(&a.query_start))
            .help("age of the command it runs"),
        Column::<Self>::new("xact", Width::Fixed(8), 3, |r, s| age(r.xact_start, s, r.tone()))
            .number(|a, b| b.xact_start.cmp(&a.xact_start))
            .help("age of its transaction"),
        Column::<Self>::new("time", Width::Fixed(8), 7, |r, _| Cell::Text(format::duration(r.time_ns).into(), r.tone()))
            .number(|a, b| a.time_ns.cmp(&b.time_ns))
            .help("its load in the window"),
        Column::<Self>::new("SQL", Width::Text(14, 30), 1, |r, _| {
            if r.sql.text.is_empty() {
                Cell::Empty
            } else {
                super::queries::text(&r.sql, if r.is_running() { Tone::Plain } else { Tone::Dim })
            }
        })
        .help("the command it runs; dimmed: the last one it ran"),
    ];

    fn key(&self) -> RowKey {
        RowKey::Session(self.who.session)
    }

    fn subject(&self) -> Subject {
        Subject::Session(Box::new(self.who.clone()), Some(Box::new(self.sql.clone())))
    }

    fn is_idle(&self) -> bool {
        self.doing == Doing::Idle
    }

    fn texts(&self, look: &mut dyn FnMut(&str)) {
        who_texts(&self.who, look);
        look(self.state.name());
        look(&self.name);
        look(&self.sql.text);
    }

    fn load_ns(&self) -> u64 {
        self.time_ns
    }

    fn share(&self) -> Option<f64> {
        None
    }
}
