//! What the threads share: what holds for the whole run, capture's newest account, and what the meter has added up. Each is replaced whole.

use super::meter::Totals;
use crate::capture::command::Kind;
use crate::trace::catalog::Server;
use crate::trace::health::{Health, Link};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

/// What holds for the whole run.
#[derive(Debug, Clone)]
pub struct Facts {
    /// `sampled`, `tiered`, `full`, `lightweight` or `blocking`.
    pub mode: &'static str,
    /// Version of this program.
    pub version: &'static str,
    /// What a window on demand is.
    pub kind: Kind,
    /// Windows open on demand.
    pub tiered: bool,
    /// A window is open all the time.
    pub standing: bool,
    /// A scenario is played, no server watched.
    pub playing: bool,
    /// When it began.
    pub started: SystemTime,
}

/// What the writer of a recording has done. Counters only ever grow, across files too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Records written: samples and transitions.
    pub records: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Files finished.
    pub files: u64,
    /// Writes that failed.
    pub errors: u64,
    /// Newest instant on disk, nanoseconds since 1970; 0: none yet.
    pub newest: i64,
}

/// Accounts of all windows so far, added up: each window's own begins at 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Windows {
    /// Windows seen to open.
    pub opened: u64,
    /// Records taken in.
    pub records: u64,
    /// Records lost because a ring was full.
    pub lost: u64,
    /// Processes that could not be followed.
    pub refused: u64,
    /// Processes that ended before they could be followed.
    pub missed: u64,
    /// Processes whose state was read again because a write fell into arming.
    pub repaired: u64,
    /// Reads of a process's memory that failed.
    pub faults: u64,
    /// Switches that do not follow on the one before.
    pub odd: u64,
}

/// Capture's account, and what was counted on its way.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Capture's own account.
    pub health: Health,
    /// The server, as far as known.
    pub server: Arc<Server>,
    /// The writer's account; `None`: nothing is recorded.
    pub written: Option<Written>,
    /// Windows so far.
    pub windows: Windows,
    /// Observations of processes, of all ticks.
    pub samples: u64,
    /// Processes that came or went.
    pub lifecycle: u64,
    /// Blocks the meter was too slow for.
    pub unmetered_blocks: u64,
    /// Rows in them.
    pub unmetered_records: u64,
}

/// What was served. Counters only ever grow; `clients` is how many there are.
#[derive(Debug, Default)]
pub struct Served {
    /// Clients of the socket now.
    pub clients: AtomicU64,
    /// Lines answered on the socket.
    pub requests: AtomicU64,
    /// Requests answered by HTTP.
    pub http_requests: AtomicU64,
    /// Clients sent away because there were too many.
    pub refused: AtomicU64,
    /// Clients dropped because they did not read, or did not say what they want.
    pub dropped: AtomicU64,
}

impl Served {
    /// One more.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The shared board.
#[derive(Debug)]
pub struct Board {
    /// What holds for the whole run.
    pub facts: Facts,
    /// When serving began.
    pub since: Instant,
    /// What was served.
    pub served: Served,
    account: Mutex<Arc<Account>>,
    totals: Mutex<Arc<Totals>>,
}

impl Board {
    /// An empty board.
    pub fn new(facts: Facts) -> Self {
        Self { facts, since: Instant::now(), served: Served::default(), account: Mutex::default(), totals: Mutex::default() }
    }

    /// Capture's newest account.
    pub fn account(&self) -> Arc<Account> {
        Arc::clone(&self.account.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the account, unless somebody looks at it this very moment: another one comes in a quarter of a second. Never waits.
    pub fn replace(&self, account: Account) {
        if let Ok(mut place) = self.account.try_lock() {
            *place = Arc::new(account);
        }
    }

    /// What the meter has added up.
    pub fn totals(&self) -> Arc<Totals> {
        Arc::clone(&self.totals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces what the meter has added up.
    pub fn publish(&self, totals: Totals) {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(totals);
    }

    /// Seconds since serving began.
    pub fn uptime(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }
}

/// Why nothing is sampled now; `None`: all is well.
pub fn unhealthy(health: &Health) -> Option<&str> {
    match &health.link {
        Link::Attached => None,
        Link::Starting => Some("not connected to a server yet"),
        Link::Ended { why } if why.is_empty() => Some("the capture has ended"),
        Link::Waiting { why } | Link::Ended { why } => Some(why),
    }
}
