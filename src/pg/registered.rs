//! Wait event names that are only known at run time: what extensions registered, and their LWLock tranches.
//!
//! 17 and later keep the names of custom events in a shared hash table, 19 the names of tranches in a shared area. 13 to 18 have an array of
//! the tranches requested at start. Tranches an extension makes later on 13 to 18 have a name in private memory only: they stay numbers.

use super::elf;
use super::layout::Layout;
use super::memory::Segment;
use super::process::ProcFs;
use super::shmem::{self, Index, Named};
use crate::trace::wait::{WaitClass, WaitEvent};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Class byte of LWLock waits.
const LWLOCK: u32 = 0x0100_0000;
/// A tranche name on 13 to 18 has no fixed length; `NAMEDATALEN` elsewhere.
const NAME: usize = 64;
/// More tranches than any server requests.
const MOST_TRANCHES: u32 = 4096;

/// Reads names as they are registered.
#[derive(Debug)]
pub struct Registered {
    layout: &'static Layout,
    custom: Option<Named>,
    tranches: Option<Named>,
    known: FxHashMap<u32, Arc<str>>,
}

impl Registered {
    /// Finds where the names are and reads those registered so far. What cannot be read is left out: events without a name show as numbers.
    pub fn open(proc_fs: &ProcFs, postmaster: i32, segment: &Segment, index: &Index, layout: &'static Layout) -> Self {
        let custom = layout.custom_event.as_ref().and_then(|_| index.get("WaitEventCustom hash by wait event information"));
        let tranches = layout.tranches.as_ref().and_then(|_| index.get("LWLock tranches"));
        let mut this = Self { layout, custom, tranches, known: FxHashMap::default() };
        if layout.named_tranche.is_some() {
            this.known.extend(requested(proc_fs, postmaster, segment, layout).unwrap_or_default());
        }
        this.look(segment);
        this
    }

    /// All names so far.
    pub fn known(&self) -> impl Iterator<Item = (WaitEvent, Arc<str>)> + '_ {
        self.known.iter().map(|(raw, name)| (WaitEvent(*raw), Arc::clone(name)))
    }

    /// Names registered since the last call. A few microseconds when mapped; call it when an unknown id is seen, or every few seconds.
    pub fn look(&mut self, segment: &Segment) -> Vec<(WaitEvent, Arc<str>)> {
        let mut found = self.custom_events(segment);
        found.extend(self.shared_tranches(segment));
        let mut news = Vec::new();
        for (raw, name) in found {
            if name.is_empty() || self.known.get(&raw).is_some_and(|known| **known == *name) {
                continue;
            }
            let name: Arc<str> = name.into();
            self.known.insert(raw, Arc::clone(&name));
            news.push((WaitEvent(raw), name));
        }
        news
    }

    fn custom_events(&self, segment: &Segment) -> Vec<(u32, String)> {
        let (Some(area), Some(entry)) = (self.custom, &self.layout.custom_event) else { return Vec::new() };
        let Ok(walk) = shmem::walk(segment, self.layout, area.addr) else { return Vec::new() };
        let read = |at: u64| {
            let raw = segment.u32(at + entry.wait_event_info as u64)?;
            let mine = matches!(WaitEvent(raw).class(), WaitClass::Extension | WaitClass::InjectionPoint) && WaitEvent(raw).is_plausible();
            let name = segment.c_string(at + entry.wait_event_name as u64, NAME)?;
            mine.then(|| (raw, String::from_utf8_lossy(&name).into_owned()))
        };
        walk.entries.into_iter().filter_map(read).collect()
    }

    fn shared_tranches(&self, segment: &Segment) -> Vec<(u32, String)> {
        let (Some(area), Some(t)) = (self.tranches, &self.layout.tranches) else { return Vec::new() };
        if area.len < t.size {
            return Vec::new();
        }
        let count = segment.u32(area.addr + t.num_user_defined as u64).unwrap_or_default().min(t.elem_count as u32);
        (0..count)
            .filter_map(|i| {
                let name = segment.c_string(area.addr + (t.user_defined + i as usize * t.elem_size + t.elem_name) as u64, NAME)?;
                Some((LWLOCK | (self.layout.first_user_tranche + i), String::from_utf8_lossy(&name).into_owned()))
            })
            .collect()
    }
}

/// 13 to 18: `NamedLWLockTrancheArray`, filled before the first backend starts. The array's address is private to the server's processes.
fn requested(proc_fs: &ProcFs, postmaster: i32, segment: &Segment, layout: &Layout) -> Option<Vec<(u32, Arc<str>)>> {
    let entry = layout.named_tranche.as_ref()?;
    let at = elf::addresses(proc_fs, postmaster, &["NamedLWLockTrancheArray", "NamedLWLockTrancheRequests"]).ok()?;
    let [Some(array), Some(count)] = at[..] else { return None };
    let (mut pointer, mut number) = ([0; 8], [0; 4]);
    segment.copy_private(array, &mut pointer)?;
    segment.copy_private(count, &mut number)?;
    let (array, count) = (u64::from_ne_bytes(pointer), u32::from_ne_bytes(number).min(MOST_TRANCHES));
    let mut names = Vec::new();
    for i in 0..u64::from(count) {
        let at = array.checked_add(i * entry.size as u64)?;
        let id = segment.u32(at.wrapping_add(entry.tranche_id as u64))?;
        let name = segment.c_string(segment.u64(at.wrapping_add(entry.tranche_name as u64))?, NAME)?;
        if id >= layout.first_user_tranche && id <= 0xffff && !name.is_empty() {
            names.push((LWLOCK | id, String::from_utf8_lossy(&name).into()));
        }
    }
    Some(names)
}
