//! The time model: DB Time, CPU* apart from the waits, wait classes with their events, idle time at the end.

use super::column::{Cell, Column, Glance, Parts, Scene, Tone, Width};
use super::subject::Subject;
use super::{Row, RowKey};
use crate::analysis::answer::{ModelKey, ModelRow};
use crate::trace::wait::{WaitClass, WaitEvent};
use crate::ui::format;

impl ModelRow {
    fn is_apart(&self) -> bool {
        matches!(self.key, ModelKey::Idle | ModelKey::IdleEvent(_))
    }

    fn class(&self) -> Option<WaitClass> {
        match self.key {
            ModelKey::DbTime | ModelKey::Idle => None,
            ModelKey::Class(class) => Some(class),
            ModelKey::Event(event) | ModelKey::IdleEvent(event) => Some(event.class()),
        }
    }

    fn tone(&self) -> Tone {
        match self.key {
            ModelKey::DbTime => Tone::Strong,
            ModelKey::Class(_) | ModelKey::Event(_) => Tone::Plain,
            ModelKey::Idle | ModelKey::IdleEvent(_) => Tone::Dim,
        }
    }
}

fn name<'a>(row: &'a ModelRow, _: &Scene<'a>) -> Cell<'a> {
    let note = match row.key {
        ModelKey::Class(WaitClass::Cpu) => "running, not waiting",
        ModelKey::Idle => "not load",
        _ => "",
    };
    // Events stand under their class, whose swatch says it for all of them.
    let class = if row.depth < 2 { row.class() } else { None };
    Cell::Name { depth: row.depth, class, text: row.name.as_str().into(), note, tone: row.tone() }
}

fn of<'a>(row: &ModelRow, glance: Option<Glance<'_>>) -> Cell<'a> {
    let Some(model) = glance.flatten() else { return Cell::dim(format::NONE) };
    let aas = model.rows.iter().find(|r| r.key == row.key).map_or(0.0, |r| r.aas);
    Cell::Text(format::aas(aas).into(), row.tone())
}

impl Row for ModelRow {
    const ORDERED: Option<&'static str> = None;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::<Self>::new("name", Width::Share(24, 46, 6), 0, name).help("wait class or event, as the server names it"),
        Column::<Self>::new("time", Width::Fixed(8), 0, |r, _| Cell::Text(format::duration(r.time_ns).into(), r.tone()))
            .right()
            .help("time of all sessions in the window"),
        Column::<Self>::new("%DB", Width::Fixed(6), 0, |r, _| Cell::Text(format::share(r.db_share).into(), r.tone()))
            .right()
            .help("share of DB Time; idle time has none"),
        Column::<Self>::new("load", Width::Share(8, 24, 3), 2, |r, _| match (r.db_share, r.class()) {
            (Some(share), Some(class)) => Cell::Bar(share, Parts::One(class)),
            _ => Cell::Empty,
        })
        .help("the same as a bar"),
        Column::<Self>::new("AAS", Width::Fixed(6), 1, |r, _| Cell::Text(format::aas(r.aas).into(), r.tone()))
            .right()
            .help("average active sessions over the window: time / observed time"),
        Column::<Self>::new("AAS 1m", Width::Fixed(6), 4, |r, s| of(r, s.medium))
            .right()
            .when(|s| s.medium.is_some())
            .help("the same over the last minute of the window"),
        Column::<Self>::new("AAS 5s", Width::Fixed(6), 3, |r, s| of(r, s.short))
            .right()
            .when(|s| s.short.is_some())
            .help("the same over the last 5 seconds of the window"),
        Column::<Self>::new("over time", Width::Share(9, 96, 4), 5, |r, _| Cell::Spark(&r.spark, r.class()))
            .help("AAS over the window, each row to its own scale; dots were not observed"),
    ];

    fn key(&self) -> RowKey {
        RowKey::Model(self.key)
    }

    fn subject(&self) -> Subject {
        match self.key {
            ModelKey::DbTime => Subject::Everything,
            ModelKey::Idle => Subject::Idle,
            ModelKey::Class(class) => Subject::Class(class, self.name.clone()),
            ModelKey::Event(event) | ModelKey::IdleEvent(event) => Subject::Event(event, self.name.clone()),
        }
    }

    fn is_idle(&self) -> bool {
        matches!(self.key, ModelKey::IdleEvent(_))
    }

    fn texts(&self, look: &mut dyn FnMut(&str)) {
        look(&self.name);
    }

    fn group(&self) -> u8 {
        match self.key {
            ModelKey::DbTime => 0,
            _ if self.is_apart() => 3,
            _ if self.class() == Some(WaitClass::Cpu) => 1,
            _ => 2,
        }
    }

    fn is_redundant(&self) -> bool {
        self.key == ModelKey::Event(WaitEvent::CPU)
    }

    fn load_ns(&self) -> u64 {
        if self.is_apart() { 0 } else { self.time_ns }
    }

    fn share(&self) -> Option<f64> {
        self.db_share
    }
}
