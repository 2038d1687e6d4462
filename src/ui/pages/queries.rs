//! Queries by load.

use super::column::{Cell, Column, Parts, Tone, Width, count};
use super::subject::Subject;
use super::{Row, RowKey};
use crate::analysis::answer::{Latency, QueryRow, Sql};
use crate::trace::catalog::TextSource;
use crate::trace::record::QueryId;
use crate::ui::format;

/// The id as the server prints it, with a star when it is not the server's.
pub(in crate::ui) fn id(sql: &Sql) -> String {
    match (sql.query, sql.source) {
        (QueryId::NONE, _) => format::NONE.into(),
        (id, TextSource::Raw) => id.to_string(),
        (id, TextSource::Normalised) => format!("{id}*"),
    }
}

/// The text on one line.
pub(super) fn text(sql: &Sql, tone: Tone) -> Cell<'_> {
    match (sql.text.is_empty(), sql.query) {
        (true, QueryId::NONE) => Cell::dim("no query known"),
        (true, _) => Cell::dim("text not known"),
        (false, _) => Cell::Text(format::safe(&sql.text), tone),
    }
}

fn took_of(row: &QueryRow, pick: fn(&Latency) -> u64) -> Option<u64> {
    row.executions.and_then(|e| e.latency).as_ref().map(pick)
}

fn took<'a>(row: &QueryRow, pick: fn(&Latency) -> u64) -> Cell<'a> {
    took_of(row, pick).map_or_else(|| Cell::dim(format::NONE), |ns| Cell::plain(format::duration(ns)))
}

impl Row for QueryRow {
    const ORDERED: Option<&'static str> = Some("time");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::<Self>::new("query id", Width::Fit(8, 21), 0, |r, _| Cell::plain(id(&r.sql)))
            .right()
            .help("as pg_stat_statements shows it; a star: not the server's, see above"),
        Column::<Self>::new("time", Width::Fixed(8), 0, |r, _| Cell::plain(format::duration(r.time_ns)))
            .number(|a, b| a.time_ns.cmp(&b.time_ns))
            .help("load in the window"),
        Column::<Self>::new("%DB", Width::Fixed(6), 0, |r, _| Cell::plain(format::share(r.db_share)))
            .number(|a, b| a.db_share.unwrap_or(-1.0).total_cmp(&b.db_share.unwrap_or(-1.0)))
            .help("share of all DB Time, not only of what has an id"),
        Column::<Self>::new("load", Width::Share(8, 24, 2), 2, |r, s| {
            Cell::Bar(r.db_share.unwrap_or(0.0) / s.top_share, Parts::Many(&r.classes))
        })
        .help("the same as a bar, coloured by wait class; the largest row is the full length"),
        Column::<Self>::new("AAS", Width::Fixed(6), 3, |r, _| Cell::plain(format::aas(r.aas)))
            .number(|a, b| a.aas.total_cmp(&b.aas))
            .help("average active sessions in it"),
        Column::<Self>::new("execs", Width::Fixed(6), 4, |r, _| count(r.executions.map(|e| e.count)))
            .number(|a, b| a.executions.map(|e| e.count).cmp(&b.executions.map(|e| e.count)))
            .when(|s| s.executions)
            .help("executions that ended; only where every one was captured"),
        Column::<Self>::new("mean", Width::Fixed(8), 5, |r, _| took(r, |l| l.avg_ns))
            .number(|a, b| took_of(a, |l| l.avg_ns).cmp(&took_of(b, |l| l.avg_ns)))
            .when(|s| s.executions)
            .help("mean length of executions that were captured from their beginning"),
        Column::<Self>::new("p95", Width::Fixed(8), 6, |r, _| took(r, |l| l.p95_ns))
            .number(|a, b| took_of(a, |l| l.p95_ns).cmp(&took_of(b, |l| l.p95_ns)))
            .when(|s| s.executions)
            .help("95th percentile of those"),
        Column::<Self>::new("waits", Width::Fixed(6), 12, |r, _| count(r.waits))
            .number(|a, b| a.waits.cmp(&b.waits))
            .when(|s| s.exact)
            .help("waits in it that ended; only where every one was captured"),
        Column::<Self>::new("sess", Width::Fixed(5), 8, |r, _| Cell::plain(r.sessions.to_string()))
            .number(|a, b| a.sessions.cmp(&b.sessions))
            .help("sessions that ran it"),
        Column::<Self>::new("db", Width::Fit(4, 14), 10, |r, _| Cell::plain(format::safe(&r.database.show()).into_owned()))
            .name(|a, b| a.database.show().cmp(&b.database.show()))
            .help("database of the session that spent most in it"),
        Column::<Self>::new("user", Width::Fit(4, 14), 11, |r, _| Cell::plain(format::safe(&r.user.show()).into_owned()))
            .name(|a, b| a.user.show().cmp(&b.user.show()))
            .help("user of that session"),
        Column::<Self>::new("top wait", Width::Share(14, 30, 2), 9, |r, _| match &r.top {
            Some(top) => {
                Cell::Name { depth: 0, class: Some(top.event.class()), text: top.name.as_str().into(), note: "", tone: Tone::Plain }
            }
            None => Cell::dim(format::NONE),
        })
        .name(|a, b| a.top.as_ref().map(|t| &t.name).cmp(&b.top.as_ref().map(|t| &t.name)))
        .help("event with the most time, CPU* included"),
        Column::<Self>::new("over time", Width::Share(9, 96, 3), 7, |r, _| Cell::Spark(&r.spark, r.top.as_ref().map(|t| t.event.class())))
            .help("AAS over the window, each row to its own scale, in the colour of its top wait"),
        Column::<Self>::new("SQL", Width::Text(26, 30), 1, |r, _| text(&r.sql, Tone::Plain))
            .help("text as one session sent it, on one line"),
    ];

    fn key(&self) -> RowKey {
        RowKey::Query(self.sql.query)
    }

    fn subject(&self) -> Subject {
        Subject::Query(Box::new(self.sql.clone()))
    }

    fn is_idle(&self) -> bool {
        false
    }

    fn texts(&self, look: &mut dyn FnMut(&str)) {
        look(&id(&self.sql));
        look(&self.sql.text);
        look(&self.user.show());
        look(&self.database.show());
        if let Some(top) = &self.top {
            look(&top.name);
        }
    }

    fn load_ns(&self) -> u64 {
        self.time_ns
    }

    fn share(&self) -> Option<f64> {
        self.db_share
    }
}
