//! The worker that answers one viewer's questions from live batches: owns the trace, newest question per slot wins.
//!
//! Runs on its own thread. It never blocks capture (capture drops and counts when this worker does not keep up) nor the screen (questions and
//! replies travel by channels). What the viewer wants of the capture itself goes past the worker, straight to it.

use crate::analysis::answer::Answer;
use crate::analysis::question::Question;
use crate::analysis::{Local, Source};
use crate::trace::recent::{Batch, Recent};

use anyhow::Context;

pub mod recorded;

use crossbeam_channel::{Receiver, Sender, select, unbounded};
use std::collections::BTreeMap;
use std::thread::JoinHandle;

pub use crate::capture::command::{Command, Kind, Order};

/// A place on the screen that a question belongs to. A newer question for the same slot replaces an unanswered older one.
pub type Slot = u8;

/// A question with its place and number.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where the answer goes.
    pub slot: Slot,
    /// Grows with every request; a reply with an older number than the slot's newest is dropped by the viewer.
    pub seq: u64,
    /// The question.
    pub question: Question,
}

/// What comes back.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The request's slot.
    pub slot: Slot,
    /// The request's number.
    pub seq: u64,
    /// The answer, or one line saying why there is none.
    pub answer: Result<Box<Answer>, String>,
}

/// A source that grows while it is asked.
pub trait Live: Source + Send + 'static {
    /// Takes in what capture handed over.
    fn absorb(&mut self, batch: Batch);
}

impl Live for Local<Recent> {
    fn absorb(&mut self, batch: Batch) {
        self.0.absorb(batch);
    }
}

/// The worker's other end.
#[derive(Debug)]
pub struct Worker {
    requests: Option<Sender<Request>>,
    commands: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a worker over a live trace; each reply is given to `reply` on the worker's thread.
    pub fn live(mut source: impl Live, batches: Receiver<Batch>, reply: impl Fn(Reply) + Send + 'static) -> anyhow::Result<Self> {
        let (requests, inbox) = unbounded::<Request>();
        let thread = std::thread::Builder::new()
            .name("session".into())
            .spawn(move || {
                let mut batches = Some(batches);
                loop {
                    let mut pending: BTreeMap<Slot, Request> = BTreeMap::new();
                    let never = crossbeam_channel::never();
                    select! {
                        recv(inbox) -> request => match request {
                            Ok(r) => { pending.insert(r.slot, r); }
                            Err(_) => return,
                        },
                        recv(batches.as_ref().unwrap_or(&never)) -> batch => match batch {
                            Ok(b) => source.absorb(b),
                            Err(_) => batches = None,
                        },
                    }
                    // Data first, so that an answer is as fresh as it can be; then the newest question of each slot.
                    if let Some(b) = &batches {
                        b.try_iter().for_each(|b| source.absorb(b));
                    }
                    inbox.try_iter().for_each(|r| {
                        pending.insert(r.slot, r);
                    });
                    for (_, request) in pending {
                        let answer = source.ask(&request.question).map(Box::new).map_err(|e| format!("{e:#}"));
                        reply(Reply { slot: request.slot, seq: request.seq, answer });
                    }
                }
            })
            .context("cannot start the session thread")?;
        Ok(Self { requests: Some(requests), commands: None, thread: Some(thread) })
    }

    /// With the way to the capture, for [`Self::command`].
    #[must_use]
    pub fn with_commands(mut self, commands: Sender<Order>) -> Self {
        self.commands = Some(commands);
        self
    }

    /// Tells the capture what is wanted of it. False when nobody listens. What came of it is in the health of later answers.
    pub fn command(&self, command: Command) -> bool {
        self.commands.as_ref().is_some_and(|c| c.send(command.into()).is_ok())
    }

    /// Asks. Never blocks.
    pub fn ask(&self, request: Request) {
        if let Some(requests) = &self.requests {
            // The worker only ends when this sender is dropped, so a failed send means it panicked; joining reports that.
            let _ = requests.send(request);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
