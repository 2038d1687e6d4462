//! A trace directory as a source of answers: finished or growing, followed while it grows. A reader; it changes nothing in the directory.

use super::Live;
use crate::analysis::answer::Answer;
use crate::analysis::question::Question;
use crate::analysis::{Source, answer};
use crate::store::dir::{Dir, Hole, Options, Skipped};
use crate::trace::Trace;
use crate::trace::catalog::EventNames;
use crate::trace::clock::Span;
use crate::trace::health::{Link, Recording};
use crate::trace::recent::Batch;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A growing directory is looked at again after this.
const AGAIN: Duration = Duration::from_millis(200);
/// A recorder writes at least its account every ten seconds. Without a sign for so long it is taken to have ended.
const ALIVE: Duration = Duration::from_secs(15);
/// Notes of a kind that an answer carries at most.
const NOTES: usize = 5;

/// Names of a major version's events, for recordings that hold none.
pub type Names = fn(u16) -> Option<EventNames>;

/// A directory being looked at.
#[derive(Debug)]
pub struct Recorded {
    dir: Dir,
    path: PathBuf,
    looked: Instant,
}

impl Recorded {
    /// Opens a directory that holds at least one readable record. The error is one line.
    pub fn open(path: &Path, names: Names) -> Result<Self> {
        let shown = path.display();
        let dir =
            Dir::open(path, Options { names, ..Options::default() }).with_context(|| format!("cannot read the trace directory {shown}"))?;
        if dir.extent().is_none() {
            match dir.skipped().first() {
                Some(Skipped { path, why }) => bail!("no trace file in {shown} can be read; {}: {why}", name(path)),
                None => bail!("{shown} holds no recording: record one with --daemon -T {shown}"),
            }
        }
        Ok(Self { dir, path: path.to_owned(), looked: Instant::now() })
    }

    /// The stretch the directory holds anything about. Its times are nanoseconds since 1970.
    pub fn extent(&self) -> Span {
        self.dir.extent().unwrap_or_default()
    }

    /// Whether a recorder is writing into it.
    pub fn grows(&self) -> bool {
        let written = std::fs::metadata(self.path.join(crate::store::names::CURRENT)).and_then(|m| m.modified()).ok();
        self.dir.grows() && written.is_some_and(|at| at.elapsed().is_ok_and(|ago| ago < ALIVE))
    }

    /// Files and bytes of the recording.
    pub fn size(&self) -> (usize, u64) {
        self.dir.size()
    }

    /// Sees what was recorded since. A directory that is gone keeps its last picture.
    pub fn refresh(&mut self) {
        if self.looked.elapsed() >= AGAIN {
            self.dir.refresh().ok();
            self.looked = Instant::now();
        }
    }

    /// What the answers about a window lack, a line each.
    fn notes(&self, window: Span) -> Vec<String> {
        let mut notes = Vec::new();
        let skipped = self.dir.skipped();
        notes.extend(skipped.iter().take(NOTES).map(|s| format!("{} is not read: {}", name(&s.path), s.why)));
        if skipped.len() > NOTES {
            notes.push(format!("{} more files are not read", skipped.len() - NOTES));
        }
        let holes: Vec<Hole> = self.dir.holes(window);
        notes.extend(holes.iter().take(NOTES).map(|h| {
            let length = crate::show::duration(h.span.len());
            if h.span.is_empty() { h.why.clone() } else { format!("{length} are not in the recording: {}", h.why) }
        }));
        if holes.len() > NOTES {
            notes.push(format!("{} more stretches are not in the recording", holes.len() - NOTES));
        }
        notes
    }
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned())
}

impl Source for Recorded {
    fn ask(&mut self, question: &Question) -> Result<Answer> {
        self.refresh();
        let window = question.window.resolve(self.dir.extent());
        self.dir.narrow(window);
        let mut answer = answer(&self.dir, question)?;
        let health = &mut answer.health;
        if !self.grows() && !matches!(health.link, Link::Ended { .. }) {
            health.link = Link::Ended { why: String::new() };
        }
        if let Some(w) = health.window.as_mut().filter(|w| w.open && matches!(health.link, Link::Ended { .. })) {
            (w.open, w.reason) = (false, "the recorder ended".into());
        }
        if window.end < self.extent().end {
            // The account is of the present.
            (health.window, health.window_error) = (None, None);
        }
        answer.health.recording =
            Some(Recording { dir: self.path.display().to_string(), notes: self.notes(window), ..Recording::default() });
        Ok(answer)
    }
}

impl Live for Recorded {
    fn absorb(&mut self, _: Batch) {}
}
