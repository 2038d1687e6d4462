//! Sessions by load.

use super::column::{Cell, Column, Parts, Width, by_part, count, part};
use super::subject::Subject;
use super::{Row, RowKey};
use crate::analysis::answer::{SessionRow, Who};
use crate::ui::format;
use std::cmp::Ordering;

/// The cell of a process id: dim once the process has ended.
pub(super) fn pid(who: &Who) -> Cell<'_> {
    if who.gone { Cell::dim(format!("{} †", who.pid)) } else { Cell::plain(who.pid.to_string()) }
}

/// Texts a user may look for in a session.
pub(super) fn who_texts(who: &Who, look: &mut dyn FnMut(&str)) {
    look(&who.pid.to_string());
    if who.server_pid != who.pid {
        look(&who.server_pid.to_string());
    }
    look(who.kind.name());
    look(&who.user.show());
    look(&who.database.show());
    look(&who.application);
    look(&who.client);
}

fn by_share(a: Option<f64>, b: Option<f64>) -> Ordering {
    a.unwrap_or(-1.0).total_cmp(&b.unwrap_or(-1.0))
}

impl Row for SessionRow {
    const ORDERED: Option<&'static str> = Some("time");
    const COLUMNS: &'static [Column<Self>] = &[
        Column::<Self>::new("pid", Width::Fit(5, 10), 0, |r, _| pid(&r.who))
            .number(|a, b| a.who.pid.cmp(&b.who.pid))
            .help("process id on this machine; † has ended"),
        Column::<Self>::new("kind", Width::Fit(6, 20), 11, |r, _| Cell::plain(r.who.kind.name()))
            .name(|a, b| a.who.kind.name().cmp(b.who.kind.name()))
            .help("backend type"),
        Column::<Self>::new("user", Width::Fit(4, 16), 2, |r, _| Cell::plain(format::safe(&r.who.user.show()).into_owned()))
            .name(|a, b| a.who.user.show().cmp(&b.who.user.show()))
            .help("user, or its oid where the name is not known"),
        Column::<Self>::new("db", Width::Fit(4, 16), 4, |r, _| Cell::plain(format::safe(&r.who.database.show()).into_owned()))
            .name(|a, b| a.who.database.show().cmp(&b.who.database.show()))
            .help("database"),
        Column::<Self>::new("app", Width::Fit(4, 20), 8, |r, _| Cell::plain(format::safe(&r.who.application)))
            .name(|a, b| a.who.application.cmp(&b.who.application))
            .help("application_name"),
        Column::<Self>::new("client", Width::Fit(6, 22), 13, |r, _| Cell::plain(format::safe(&r.who.client)))
            .name(|a, b| a.who.client.cmp(&b.who.client))
            .help("client address"),
        Column::<Self>::new("time", Width::Fixed(8), 0, |r, _| Cell::plain(format::duration(r.time_ns)))
            .number(|a, b| a.time_ns.cmp(&b.time_ns))
            .help("its load in the window: on CPU and waiting, not idle"),
        Column::<Self>::new("%DB", Width::Fixed(6), 0, |r, _| Cell::plain(format::share(r.db_share)))
            .number(|a, b| by_share(a.db_share, b.db_share))
            .help("share of DB Time"),
        Column::<Self>::new("load", Width::Share(8, 30, 3), 3, |r, s| {
            Cell::Bar(r.db_share.unwrap_or(0.0) / s.top_share, Parts::Many(&r.classes))
        })
        .help("the same as a bar, coloured by wait class; the largest row is the full length"),
        Column::<Self>::new("AAS", Width::Fixed(6), 5, |r, _| Cell::plain(format::aas(r.aas)))
            .number(|a, b| a.aas.total_cmp(&b.aas))
            .help("its share of the time it could have been active: 1 is always"),
        Column::<Self>::new("CPU%", Width::Fixed(6), 9, |r, _| Cell::plain(format::share(r.cpu_share)))
            .number(|a, b| by_share(a.cpu_share, b.cpu_share))
            .help("share of its load on CPU*"),
        Column::<Self>::new("wait%", Width::Fixed(6), 12, |r, _| Cell::plain(format::share(r.wait_share)))
            .number(|a, b| by_share(a.wait_share, b.wait_share))
            .help("share of its load in waits"),
        Column::<Self>::new("waits", Width::Fixed(6), 7, |r, _| count(r.waits))
            .number(|a, b| a.waits.cmp(&b.waits))
            .when(|s| s.exact)
            .help("waits that ended; only where every one was captured"),
        Column::<Self>::new("runq%", Width::Fixed(6), 10, |r, _| part(r.measured.as_ref(), |m| m.runq_ns))
            .number(|a, b| by_part(a.measured.as_ref(), b.measured.as_ref(), |m| m.runq_ns))
            .when(|s| s.measured)
            .help("share of its time in the run queue: awake, without a CPU; only where it was measured"),
        Column::<Self>::new("top wait", Width::Share(22, 34, 4), 1, |r, _| match &r.top {
            Some(top) => Cell::Name {
                depth: 0,
                class: Some(top.event.class()),
                text: top.name.as_str().into(),
                note: "",
                tone: super::column::Tone::Plain,
            },
            None => Cell::dim("idle"),
        })
        .name(|a, b| a.top.as_ref().map(|t| &t.name).cmp(&b.top.as_ref().map(|t| &t.name)))
        .help("event it spent most load in, CPU* included"),
        Column::<Self>::new("over time", Width::Share(9, 96, 3), 6, |r, _| Cell::Spark(&r.spark, r.top.as_ref().map(|t| t.event.class())))
            .help("AAS over the window, each row to its own scale, in the colour of its top wait; dots were not observed"),
    ];

    fn key(&self) -> RowKey {
        RowKey::Session(self.who.session)
    }

    fn subject(&self) -> Subject {
        Subject::Session(Box::new(self.who.clone()), None)
    }

    fn is_idle(&self) -> bool {
        self.time_ns == 0
    }

    fn texts(&self, look: &mut dyn FnMut(&str)) {
        who_texts(&self.who, look);
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
