//! A directory whose server was upgraded: the same wait event has other numbers in other major versions, and one number other names. Everything read from it
//! uses the numbers of its newest version; events that version does not have get numbers of their own.

use super::{Dir, Entry, digests};
use crate::store::sidecars;
use crate::trace::block::Block;
use crate::trace::catalog::{EventNames, News};
use crate::trace::codec::notes;
use crate::trace::wait::WaitEvent;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// Numbers of one version as those of another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Renumbered {
    major: u16,
    to: FxHashMap<u32, u32>,
    /// Names of events the other version does not have, by the number given to them.
    own: Vec<(WaitEvent, Arc<str>)>,
}

/// What it is called within its class.
fn short(name: &str) -> Arc<str> {
    name.split_once(':').map_or(name, |(_, n)| n).into()
}

impl Renumbered {
    fn new(old: &EventNames, new: &EventNames) -> Self {
        let mut this = Self { major: old.major, ..Self::default() };
        let mut all: Vec<(WaitEvent, String)> = old.all().collect();
        all.sort_unstable_by_key(|(event, _)| event.0);
        for (event, name) in all {
            if new.name(event) == name {
                continue;
            }
            let number = new.find(&name).unwrap_or_else(|| {
                let own = this.private(event);
                this.own.push((own, short(&name)));
                own
            });
            this.to.insert(event.0, number.0);
        }
        // What the new version names and the old one does not know is not that.
        let strange: Vec<WaitEvent> = new.all().map(|(e, _)| e).filter(|e| !old.knows(*e)).collect();
        for event in strange {
            this.to.insert(event.0, this.private(event).0);
        }
        this
    }

    /// A number no server uses: servers leave the second byte zero.
    fn private(&self, event: WaitEvent) -> WaitEvent {
        WaitEvent(event.0 | (u32::from(self.major) & 0xff) << 16)
    }

    pub(super) fn number(&self, event: WaitEvent) -> WaitEvent {
        self.to.get(&event.0).map_or(event, |to| WaitEvent(*to))
    }

    pub(super) fn block(&self, block: Block) -> Block {
        if self.to.is_empty() {
            return block;
        }
        let mut columns = block.columns();
        columns.event.iter_mut().for_each(|e| *e = self.number(*e));
        columns.block().unwrap_or(block)
    }

    pub(super) fn news(&self, news: News) -> News {
        match news {
            News::Events(names) => {
                let numbered = names.all().map(|(event, name)| (self.number(event).0, short(&name)));
                News::Events(EventNames::new(names.major, numbered))
            }
            News::Event(event, name) => News::Event(self.number(event), name),
            other => other,
        }
    }
}

impl Dir {
    /// Learns how versions before the newest one number their events. What was read by other numbers is forgotten.
    pub(super) fn renumber(&mut self) {
        let newest = self.files.last().map_or(0, |e| e.file.header.major());
        let mut last_of: BTreeMap<u16, &Entry> = self.files.iter().map(|e| (e.file.header.major(), e)).collect();
        last_of.remove(&0);
        if last_of.len() < 2 && self.majors.is_empty() {
            return;
        }
        let known = |e: &Entry| Some(self.events_of(e)).filter(|names| names.all().next().is_some());
        // A file that was begun just now does not name its events yet: the next look finds them.
        let Some(new) = last_of.remove(&newest).and_then(known) else { return };
        let others = last_of.into_iter().filter(|(major, _)| *major != newest);
        let majors: BTreeMap<u16, Renumbered> = others.filter_map(|(major, e)| Some((major, Renumbered::new(&known(e)?, &new)))).collect();
        if majors != self.majors {
            self.majors = majors;
            self.learned.clear();
            let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
            for entry in &self.files {
                inner.forget_blocks(entry.id);
            }
            inner.shelf = digests::Shelf::default();
        }
    }

    /// How the events of a file are numbered, if not as in the newest one.
    pub(super) fn renumbered(&self, entry: &Entry) -> Option<&Renumbered> {
        self.majors.get(&entry.file.header.major())
    }

    /// Names of events that only other versions have. They belong behind the names of a version.
    pub(super) fn other_names(&self) -> impl Iterator<Item = News> + '_ {
        self.majors.values().flat_map(|r| r.own.iter().map(|(event, name)| News::Event(*event, Arc::clone(name))))
    }

    /// The names of events a file goes by.
    fn events_of(&self, entry: &Entry) -> EventNames {
        let index = self.index(entry);
        if !index.ours() {
            return self.foreign_events(entry);
        }
        let mut names = EventNames::default();
        for one in index.names.iter().filter_map(|group| entry.file.note(*group, notes::read_names).ok()).flatten() {
            match one {
                News::Events(all) => names = all,
                News::Event(event, name) => names.insert(event, name),
                _ => {}
            }
        }
        names
    }

    /// Of a file of another program: the names beside it if they are of its version, else what is known of that.
    pub(super) fn foreign_events(&self, entry: &Entry) -> EventNames {
        let major = entry.file.header.major();
        match (sidecars::events(&self.path), (self.options.names)(major)) {
            (Some(beside), _) if beside.major == major || beside.major == 0 => beside,
            (_, Some(known)) => known,
            (Some(beside), None) => beside,
            (None, None) => EventNames::new(major, []),
        }
    }
}
