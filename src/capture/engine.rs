//! The capture thread: drains a [`Capture`], seals a block every quarter of a second, hands it over without ever waiting for the reader.
//!
//! A full channel costs the block, which is counted; names are kept and go with the next one, so they are never lost.

use super::{Capture, Feed, Progress};
use crate::trace::block::FULL;
use crate::trace::catalog::News;
use crate::trace::health::Link;
use crate::trace::marker::Marker;
use crate::trace::recent::Batch;
use anyhow::Context;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A block is handed over at least this often.
pub const SEAL_EVERY: Duration = Duration::from_millis(250);
/// Batches that may wait for the reader: about a minute.
const QUEUE: usize = 256;

/// Sees every batch on the capture thread before it is handed over, also those that the reader is too slow for. Must not wait.
pub type Tap = Box<dyn FnMut(&mut Batch) + Send>;

/// A running capture thread. Dropping it stops the thread and waits for it.
#[derive(Debug)]
pub struct Engine {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts capturing. Batches come out of the receiver until the capture ends or the engine is dropped.
    pub fn start<C: Capture>(make: impl FnOnce() -> anyhow::Result<C> + Send + 'static) -> anyhow::Result<(Self, Receiver<Batch>)> {
        Self::tapped(make, None)
    }

    /// The same, with a tap.
    pub fn tapped<C: Capture>(
        make: impl FnOnce() -> anyhow::Result<C> + Send + 'static,
        tap: Option<Tap>,
    ) -> anyhow::Result<(Self, Receiver<Batch>)> {
        let (stop, stopped) = bounded(0);
        let (out, batches) = bounded(QUEUE);
        let (ready, outcome) = bounded(1);
        let thread = std::thread::Builder::new()
            .name("capture".into())
            .spawn(move || match make() {
                Ok(capture) => {
                    let _ = ready.send(Ok(()));
                    run(capture, Outbox { tap, ..Outbox::default() }, &out, &stopped);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            })
            .context("cannot start the capture thread")?;
        let engine = Self { stop: Some(stop), thread: Some(thread) };
        outcome.recv().context("the capture thread ended before it began")??;
        Ok((engine, batches))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What could not be handed over yet, and what was lost.
#[derive(Default)]
struct Outbox {
    tap: Option<Tap>,
    /// Names that did not reach the reader yet; the tap has them.
    news: Vec<News>,
    /// So with these.
    markers: Vec<Marker>,
    dropped_blocks: u64,
    dropped_records: u64,
}

impl Outbox {
    /// Seals and hands over. `false` when nobody listens any more.
    fn send(&mut self, capture: &mut impl Capture, feed: &mut Feed, ended: Option<String>, out: &Sender<Batch>) -> bool {
        capture.refresh(feed);
        let block = feed.builder.seal().map(Arc::new);
        let intervals = feed.intervals.seal().into_iter().map(Arc::new).collect();
        let mut health = capture.health();
        health.dropped_blocks = self.dropped_blocks;
        health.dropped_records = self.dropped_records;
        if let Some(why) = ended {
            health.link = Link::Ended { why };
        }
        let (news, markers, learned) = (std::mem::take(&mut feed.news), std::mem::take(&mut feed.markers), feed.learned.take());
        let mut batch = Batch { block, intervals, news, markers, learned, health, clock: capture.clock() };
        if let Some(tap) = &mut self.tap {
            tap(&mut batch);
        }
        if !self.news.is_empty() {
            self.news.append(&mut batch.news);
            std::mem::swap(&mut self.news, &mut batch.news);
        }
        if !self.markers.is_empty() {
            self.markers.append(&mut batch.markers);
            std::mem::swap(&mut self.markers, &mut batch.markers);
        }
        match out.try_send(batch) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(batch)) => {
                (self.news, self.markers) = (batch.news, batch.markers);
                for block in batch.block.into_iter().chain(batch.intervals) {
                    self.dropped_blocks += 1;
                    self.dropped_records += block.len() as u64;
                }
                true
            }
        }
    }
}

fn run(mut capture: impl Capture, mut outbox: Outbox, out: &Sender<Batch>, stopped: &Receiver<()>) {
    let mut feed = Feed::default();
    // The first picture is to be there at once: the first tick is handed over alone.
    let mut due = Instant::now();
    loop {
        let patience = due.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), Duration::from_millis(50));
        let progress = capture.drain(&mut feed, patience);
        let ended = match progress {
            Ok(Progress::More) => None,
            Ok(Progress::Ended) => Some(String::new()),
            Err(error) => Some(format!("{error:#}")),
        };
        let full = feed.builder.len() >= FULL && feed.builder.len() >= 4 * capture.health().backends as usize;
        let full = full || feed.intervals.len() >= 4 * FULL;
        if ended.is_some() || full || (Instant::now() >= due && (!feed.builder.is_empty() || due.elapsed() >= SEAL_EVERY)) {
            let last = ended.is_some();
            if !outbox.send(&mut capture, &mut feed, ended, out) || last {
                return;
            }
            due = Instant::now() + SEAL_EVERY;
        }
        if !matches!(stopped.try_recv(), Err(crossbeam_channel::TryRecvError::Empty)) {
            // The last quarter of a second is recorded, too.
            capture.finish(&mut feed);
            outbox.send(&mut capture, &mut feed, Some(String::new()), out);
            return;
        }
    }
}
