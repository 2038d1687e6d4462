//! The thread that writes a recording. Capture hands batches over and is never waited for: what does not fit in the channel is counted and becomes a gap.

use super::pen::{Pen, Settings, Status};
use super::retain::{Limits, retain};
use crate::trace::catalog::News;
use crate::trace::clock::Span;
use crate::trace::codec::notes::Gap;
use crate::trace::marker::Marker;
use crate::trace::recent::Batch;
use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Batches that may wait: at four a second, a disk may stand still for half a minute.
const QUEUE: usize = 128;
/// What came is written after this at the latest: together with the quarter of a second that capture keeps it, it is on disk within half a second, and within
/// one on a machine that has better things to do.
const PATIENCE: Duration = Duration::from_millis(200);
/// So many rows are written at once.
const ROWS: usize = 32 << 10;
/// How often it is looked for what is too old or too much.
const TIDY: Duration = Duration::from_secs(60);
/// Names kept of batches that did not fit in the channel.
const MOST_NEWS: usize = 100_000;

enum Message {
    Batch(Box<Batch>, Option<Gap>),
    Rotate,
    End,
}

/// What did not fit in the channel.
#[derive(Default)]
struct Dropped {
    gap: Option<Gap>,
    news: Vec<News>,
    markers: Vec<Marker>,
    records: u64,
}

/// A recording under way.
pub struct Writer {
    out: Sender<Message>,
    status: Arc<Mutex<Status>>,
    dropped: Mutex<Dropped>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("status", &self.status()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

impl Writer {
    /// Takes the directory and starts the thread. The error is one line: what, to what, what next.
    pub fn start(settings: Settings, limits: Limits) -> Result<Self> {
        let pen = Pen::new(settings.clone())?;
        let status = Arc::new(Mutex::new(pen.status().clone()));
        let (out, queue) = bounded(QUEUE);
        let shared = status.clone();
        let run = move || write(pen, &queue, &shared, &settings, limits);
        let thread = thread::Builder::new().name("pgwt-writer".into()).spawn(run).context("the writer's thread cannot be started")?;
        Ok(Self { out, status, dropped: Mutex::default(), thread: Some(thread) })
    }

    /// Hands a batch over. Never waits.
    pub fn absorb(&self, batch: &Batch) {
        let mut dropped = lock(&self.dropped);
        let mut batch = batch.clone();
        if !dropped.news.is_empty() {
            let mut news = std::mem::take(&mut dropped.news);
            news.append(&mut batch.news);
            batch.news = news;
        }
        if !dropped.markers.is_empty() {
            let mut markers = std::mem::take(&mut dropped.markers);
            markers.append(&mut batch.markers);
            batch.markers = markers;
        }
        let message = Message::Batch(Box::new(batch), dropped.gap.take());
        if let Err(TrySendError::Full(Message::Batch(batch, gap)) | TrySendError::Disconnected(Message::Batch(batch, gap))) =
            self.out.try_send(message)
        {
            let blocks = || batch.block.iter().chain(&batch.intervals);
            let records = blocks().map(|b| b.len() as u64).sum::<u64>();
            let before = gap.as_ref().map(|g| g.span);
            let join = |a: Span, b: Span| Span { start: a.start.min(b.start), end: a.end.max(b.end) };
            let span = blocks().map(|b| b.span()).chain(before).reduce(join);
            dropped.gap = span.map(|span| Gap {
                span,
                records: records + gap.map_or(0, |g| g.records),
                why: "the disk did not keep up: the writer's queue was full".into(),
            });
            dropped.records += records;
            dropped.news = batch.news;
            let over = dropped.news.len().saturating_sub(MOST_NEWS);
            dropped.news.drain(..over);
            dropped.markers = batch.markers;
            let over = dropped.markers.len().saturating_sub(MOST_NEWS);
            dropped.markers.drain(..over);
        }
    }

    /// How recording is doing.
    pub fn status(&self) -> Status {
        let mut status = lock(&self.status).clone();
        let waiting = lock(&self.dropped).gap.as_ref().map_or(0, |g| g.records);
        status.lost_records += waiting;
        status
    }

    /// Ends the file; another begins with the next record.
    pub fn rotate(&self) {
        self.out.send_timeout(Message::Rotate, Duration::from_secs(5)).ok();
    }

    /// Writes what waits, ends the file and the thread.
    pub fn stop(mut self) -> Status {
        self.end();
        self.status()
    }

    fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.out.send(Message::End).ok();
            thread.join().ok();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

fn write(mut pen: Pen, queue: &Receiver<Message>, status: &Mutex<Status>, settings: &Settings, limits: Limits) {
    let mut due: Option<Instant> = None;
    let mut tidy = Instant::now();
    loop {
        let until = due.unwrap_or(tidy).min(tidy);
        match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Message::Batch(batch, gap)) => {
                if let Some(gap) = gap {
                    pen.lost(gap);
                }
                pen.absorb(*batch);
                if due.is_none() && pen.has_work() {
                    due = Some(Instant::now() + PATIENCE);
                }
            }
            Ok(Message::Rotate) => pen.rotate(),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => {
                let last = pen.close();
                *lock(status) = last;
                return;
            }
        }
        if due.is_some_and(|due| due <= Instant::now()) || pen.rows() >= ROWS {
            pen.flush();
            due = None;
        }
        if tidy <= Instant::now() {
            // A directory that cannot be listed is told by the writing into it.
            retain(&settings.dir, limits, &settings.zone, unix_now()).ok();
            tidy = Instant::now() + TIDY;
        }
        lock(status).clone_from(pen.status());
    }
}
