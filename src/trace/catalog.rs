//! Names: who the sessions are, what the queries say, what the events are called, what server it is.
//!
//! Records carry small ids; the catalog resolves them. It is changed only by [`News`], which travel beside the blocks,
//! so a reader of the same stream always ends with the same catalog.

use super::clock::Ts;
use super::record::{QueryId, SessionId};
use super::wait::{WaitClass, WaitEvent};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Microseconds since 1970-01-01 UTC. 0 = unset.
pub type UnixMicros = i64;

/// The server whose time is shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Major version, 13 to 19.
    pub major: u16,
    /// Full version as the binary states it, for example `18.4`; empty when only the major is known.
    pub version: String,
    /// `cluster_name`, empty when unset.
    pub cluster: String,
    /// Host name of the machine that recorded.
    pub host: String,
    /// Data directory, as seen from the recorder.
    pub pgdata: String,
    /// TCP port, 0 when unknown.
    pub port: u16,
    /// Process id of the postmaster (in the recorder's pid namespace).
    pub postmaster: i32,
    /// When the postmaster started.
    pub started: UnixMicros,
    /// CPUs the server may run on (affinity of the postmaster). 0 when unknown.
    pub cpus: u32,
    /// `track_activity_query_size`: longer SQL text is cut by the server. 0 when unknown.
    pub activity_size: u32,
    /// Whether the server computes query ids. `None` until one was seen or its absence is certain.
    pub query_ids: Option<bool>,
}

/// What a process of the server is. Same for all versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Not known (yet): the process has no status row.
    #[default]
    Unknown,
    /// A client backend.
    Client,
    /// A parallel worker; its leader is in [`Session::leader`].
    ParallelWorker,
    /// Another background worker.
    BackgroundWorker,
    /// autovacuum launcher.
    AutovacuumLauncher,
    /// autovacuum worker.
    AutovacuumWorker,
    /// archiver.
    Archiver,
    /// background writer.
    BackgroundWriter,
    /// checkpointer.
    Checkpointer,
    /// io worker (18 and later): does other sessions' I/O.
    IoWorker,
    /// logger.
    Logger,
    /// slotsync worker.
    SlotsyncWorker,
    /// startup: recovery.
    Startup,
    /// stats collector (13, 14).
    StatsCollector,
    /// standalone backend.
    Standalone,
    /// walreceiver.
    WalReceiver,
    /// walsender.
    WalSender,
    /// walsummarizer.
    WalSummarizer,
    /// walwriter.
    WalWriter,
    /// logical replication launcher, a background worker with a name of its own.
    LogicalLauncher,
    /// logical replication worker.
    LogicalWorker,
}

impl BackendKind {
    /// Every kind.
    pub const ALL: [Self; 21] = [
        Self::Unknown,
        Self::Client,
        Self::ParallelWorker,
        Self::BackgroundWorker,
        Self::AutovacuumLauncher,
        Self::AutovacuumWorker,
        Self::Archiver,
        Self::BackgroundWriter,
        Self::Checkpointer,
        Self::IoWorker,
        Self::Logger,
        Self::SlotsyncWorker,
        Self::Startup,
        Self::StatsCollector,
        Self::Standalone,
        Self::WalReceiver,
        Self::WalSender,
        Self::WalSummarizer,
        Self::WalWriter,
        Self::LogicalLauncher,
        Self::LogicalWorker,
    ];

    /// As `pg_stat_activity.backend_type` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Client => "client backend",
            Self::ParallelWorker => "parallel worker",
            Self::BackgroundWorker => "background worker",
            Self::AutovacuumLauncher => "autovacuum launcher",
            Self::AutovacuumWorker => "autovacuum worker",
            Self::Archiver => "archiver",
            Self::BackgroundWriter => "background writer",
            Self::Checkpointer => "checkpointer",
            Self::IoWorker => "io worker",
            Self::Logger => "logger",
            Self::SlotsyncWorker => "slotsync worker",
            Self::Startup => "startup",
            Self::StatsCollector => "stats collector",
            Self::Standalone => "standalone backend",
            Self::WalReceiver => "walreceiver",
            Self::WalSender => "walsender",
            Self::WalSummarizer => "walsummarizer",
            Self::WalWriter => "walwriter",
            Self::LogicalLauncher => "logical replication launcher",
            Self::LogicalWorker => "logical replication worker",
        }
    }

    /// The short word the original uses in its tables and JSON.
    pub fn short(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Client => "client",
            Self::ParallelWorker => "parallel_worker",
            Self::BackgroundWorker => "bg_worker",
            Self::AutovacuumLauncher => "autovac_launcher",
            Self::AutovacuumWorker => "autovac_worker",
            Self::Archiver => "archiver",
            Self::BackgroundWriter => "bgwriter",
            Self::Checkpointer => "checkpointer",
            Self::IoWorker => "io_worker",
            Self::Logger => "logger",
            Self::SlotsyncWorker => "slotsync_worker",
            Self::Startup => "startup",
            Self::StatsCollector => "stats_collector",
            Self::Standalone => "standalone",
            Self::WalReceiver => "walreceiver",
            Self::WalSender => "walsender",
            Self::WalSummarizer => "walsummarizer",
            Self::WalWriter => "walwriter",
            Self::LogicalLauncher => "logical_launcher",
            Self::LogicalWorker => "logical_worker",
        }
    }

    /// Whether "no wait" means CPU only while a command is open. Others have no command and work whenever they do not wait.
    pub fn is_gated(self) -> bool {
        matches!(self, Self::Client | Self::Unknown | Self::WalSender | Self::Standalone)
    }
}

/// A name that PostgreSQL knows by oid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Named {
    /// Oid; 0 = none (background processes).
    pub oid: u32,
    /// The name, where it could be known without a login.
    pub name: Option<Arc<str>>,
}

impl Named {
    /// The name, else `oid N`, else empty.
    pub fn show(&self) -> Cow<'_, str> {
        match (&self.name, self.oid) {
            (Some(name), _) => Cow::Borrowed(name),
            (None, 0) => Cow::Borrowed(""),
            (None, oid) => Cow::Owned(format!("oid {oid}")),
        }
    }
}

/// What a session is doing by its own account: `pg_stat_activity`'s `query` and its times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// SQL text as the server holds it, made valid UTF-8 (bad bytes as U+FFFD), control bytes kept: escape before showing.
    pub text: Arc<str>,
    /// Whether the server cut the text at `track_activity_query_size`.
    pub truncated: bool,
    /// `query_start`.
    pub query_start: UnixMicros,
    /// `xact_start`.
    pub xact_start: UnixMicros,
    /// `state_change`.
    pub state_change: UnixMicros,
    /// The query id the server shows for it.
    pub query: QueryId,
}

/// A process of the server, from its start to its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Process id in the recorder's pid namespace.
    pub pid: i32,
    /// Process id as the server knows it: differs from `pid` only in containers.
    pub server_pid: i32,
    /// `backend_start`.
    pub started: UnixMicros,
    /// What it is.
    pub kind: BackendKind,
    /// Process id of the parallel group's leader, for parallel workers.
    pub leader: Option<i32>,
    /// Database.
    pub database: Named,
    /// User.
    pub user: Named,
    /// `application_name`.
    pub application: Arc<str>,
    /// Client address as `host:port`, `[local]` for a unix socket, empty for background processes.
    pub client: Arc<str>,
    /// What it does now, or did last. Refreshed with each block, not with each tick.
    pub activity: Activity,
    /// Newest tick that saw it.
    pub seen: Ts,
    /// Whether the process has ended.
    pub gone: bool,
}

/// Where a query's text came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextSource {
    /// SQL as one session sent it, literals included.
    #[default]
    Raw,
    /// The server computes no ids: the id is ours, a hash of the text with literals removed, and the text is that.
    Normalised,
}

/// A query known by its id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// SQL text, valid UTF-8, control bytes kept: escape before showing.
    pub text: Arc<str>,
    /// Whether the server cut the text.
    pub truncated: bool,
    /// Where the text came from; [`TextSource::Normalised`] also says that the id is not the server's.
    pub source: TextSource,
}

/// Names of wait events of one server version, with what extensions registered at run time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EventNames {
    /// Major version they belong to.
    pub major: u16,
    names: BTreeMap<u32, Arc<str>>,
    pacing: FxHashSet<u32>,
}

/// Timeout events that are a background process pacing itself, not load (`spec` of the original, appendix A.1).
const PACING: [&str; 6] = [
    "BaseBackupThrottle",
    "CheckpointWriteDelay",
    "RecoveryApplyDelay",
    "RecoveryRetrieveRetryInterval",
    "VacuumDelay",
    "WalSummarizerError",
];

impl EventNames {
    /// Names for a version: `(wait_event_info, event name without class)`.
    pub fn new(major: u16, names: impl IntoIterator<Item = (u32, Arc<str>)>) -> Self {
        let mut this = Self { major, ..Self::default() };
        for (raw, name) in names {
            this.insert(WaitEvent(raw), name);
        }
        this
    }

    /// Adds or replaces one name (extensions register names while the server runs).
    pub fn insert(&mut self, event: WaitEvent, name: Arc<str>) {
        if event.class() == WaitClass::Timeout && PACING.iter().any(|p| p.eq_ignore_ascii_case(&name)) {
            self.pacing.insert(event.0);
        }
        self.names.insert(event.0, name);
    }

    /// The class as this version prints it: `BufferPin` is `Buffer` from 19 on.
    pub fn class(&self, class: WaitClass) -> &'static str {
        if class == WaitClass::Buffer && self.major >= 19 { "Buffer" } else { class.name() }
    }

    /// `Class:Event`, or `CPU*`, or `Class:0xNNNNNN` for an id this version is not known to have.
    pub fn name(&self, event: WaitEvent) -> String {
        let class = event.class();
        match (class, self.names.get(&event.0)) {
            (WaitClass::Cpu | WaitClass::OffCpu, _) => class.name().into(),
            (_, Some(name)) => format!("{}:{name}", self.class(class)),
            (WaitClass::Unknown, None) => format!("0x{:02X}:0x{:06X}", event.0 >> 24, event.0 & 0x00ff_ffff),
            (_, None) => format!("{}:0x{:06X}", self.class(class), event.0 & 0x00ff_ffff),
        }
    }

    /// Finds events by `Class:Event` in any case (`CPU*` and `cpu` too), also with the `Lock` tail some releases print, or as `Class:0xNNNNNN`.
    pub fn find(&self, text: &str) -> Option<WaitEvent> {
        match WaitClass::parse(text) {
            Some(WaitClass::Cpu) => return Some(WaitEvent::CPU),
            Some(WaitClass::OffCpu) => return Some(WaitEvent::OFF_CPU),
            _ => {}
        }
        let (class, name) = text.split_once(':')?;
        let class = WaitClass::parse(class)?;
        if let Some(hex) = name.strip_prefix("0x").or_else(|| name.strip_prefix("0X")) {
            let id = u32::from_str_radix(hex, 16).ok()?;
            let byte = self.names.keys().find(|raw| WaitEvent(**raw).class() == class)? & 0xff00_0000;
            return Some(WaitEvent(byte | (id & 0x00ff_ffff)));
        }
        let same = |a: &str| {
            a.eq_ignore_ascii_case(name)
                || (class == WaitClass::LwLock && name.len() == a.len() + 4 && name.is_char_boundary(a.len()) && {
                    let (head, tail) = name.split_at(a.len());
                    head.eq_ignore_ascii_case(a) && tail.eq_ignore_ascii_case("lock")
                })
        };
        self.names.iter().map(|(raw, n)| (WaitEvent(*raw), n)).find(|(e, n)| e.class() == class && same(n)).map(|(e, _)| e)
    }

    /// Whether the event has a name here (CPU has one).
    pub fn knows(&self, event: WaitEvent) -> bool {
        event == WaitEvent::CPU || event == WaitEvent::OFF_CPU || self.names.contains_key(&event.0)
    }

    /// The three event names most like `text`; empty when no names are known.
    pub fn nearest(&self, text: &str) -> Vec<String> {
        let tail = |s: &str| s.rsplit_once(':').map_or_else(|| s.to_owned(), |(_, t)| t.to_owned());
        let wanted = text.to_lowercase();
        let score = |name: &str| {
            let whole = strsim::normalized_damerau_levenshtein(&wanted, name);
            whole.max(strsim::normalized_damerau_levenshtein(&tail(&wanted), &tail(name)))
        };
        let mut near: Vec<(f64, String)> = self.all().map(|(_, name)| (score(&name.to_lowercase()), name)).collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        near.into_iter().take(3).map(|(_, name)| name).collect()
    }

    /// Every known event with its `Class:Event` name.
    pub fn all(&self) -> impl Iterator<Item = (WaitEvent, String)> + '_ {
        self.names.keys().map(|raw| (WaitEvent(*raw), self.name(WaitEvent(*raw))))
    }

    /// Idle by rule: the Activity class, `Client:ClientRead`, and pacing sleeps of background processes. Not load, not in DB Time.
    pub fn is_idle(&self, event: WaitEvent) -> bool {
        match event.class() {
            WaitClass::Activity => true,
            WaitClass::Client => event == WaitEvent::CLIENT_READ,
            WaitClass::Timeout => self.pacing.contains(&event.0),
            _ => false,
        }
    }
}

/// A change to the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// The server, at the first attachment and when it restarts or is upgraded.
    Server(Server),
    /// All event names of that server.
    Events(EventNames),
    /// One more event name.
    Event(WaitEvent, Arc<str>),
    /// A session appeared, or more is known about it. Replaces what was known.
    Session(SessionId, Box<Session>),
    /// What a session does now.
    Activity(SessionId, Activity),
    /// Newest tick that saw these sessions is the block's end; these did not live on.
    Gone(SessionId),
    /// A query was seen for the first time.
    Query(QueryId, Query),
}

/// All names of a trace.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// The server.
    pub server: Server,
    /// Names of its wait events.
    pub events: EventNames,
    /// Sessions by id.
    pub sessions: FxHashMap<SessionId, Session>,
    /// Queries by id.
    pub queries: FxHashMap<QueryId, Query>,
    order: std::collections::VecDeque<QueryId>,
    /// Query texts forgotten to keep [`MAX_QUERIES`].
    pub evicted_queries: u64,
}

/// Query texts kept at most; the oldest is forgotten first, and counted.
pub const MAX_QUERIES: usize = 50_000;

impl Catalog {
    /// Takes in one change.
    pub fn learn(&mut self, news: News) {
        match news {
            News::Server(server) => self.server = server,
            News::Events(events) => self.events = events,
            News::Event(event, name) => self.events.insert(event, name),
            News::Session(id, session) => {
                self.sessions.insert(id, *session);
            }
            News::Activity(id, activity) => {
                if let Some(s) = self.sessions.get_mut(&id) {
                    s.activity = activity;
                }
            }
            News::Gone(id) => {
                if let Some(s) = self.sessions.get_mut(&id) {
                    s.gone = true;
                }
            }
            News::Query(id, query) => {
                if self.queries.insert(id, query).is_none() {
                    self.order.push_back(id);
                }
                while self.queries.len() > MAX_QUERIES {
                    let Some(old) = self.order.pop_front() else { break };
                    self.queries.remove(&old);
                    self.evicted_queries += 1;
                }
            }
        }
    }

    /// Marks the sessions of a block as seen at its end.
    pub fn saw(&mut self, sessions: &[SessionId], at: Ts) {
        for id in sessions {
            if let Some(s) = self.sessions.get_mut(id) {
                s.seen = s.seen.max(at);
            }
        }
    }

    /// Forgets ended sessions nobody has seen since `before`.
    pub fn forget_sessions(&mut self, before: Ts) {
        self.sessions.retain(|_, s| !s.gone || s.seen >= before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> EventNames {
        EventNames::new(
            18,
            [
                (0x0100_0007, "WALInsert".into()),
                (0x0300_0005, "transactionid".into()),
                (0x0900_0001, "CheckpointWriteDelay".into()),
                (0x0900_0002, "PgSleep".into()),
                (0x0400_0000, "BufferPin".into()),
            ],
        )
    }

    #[test]
    fn unknown_ids_stay_visible() {
        let n = names();
        assert_eq!(n.name(WaitEvent(0x0900_0002)), "Timeout:PgSleep");
        assert_eq!(n.name(WaitEvent(0x0900_0042)), "Timeout:0x000042");
        assert_eq!(n.name(WaitEvent(0x0c00_0042)), "0x0C:0x000042");
        assert_eq!(n.name(WaitEvent::CPU), "CPU*");
    }

    #[test]
    fn finds_in_any_spelling() {
        let n = names();
        assert_eq!(n.find("timeout:pgsleep"), Some(WaitEvent(0x0900_0002)));
        assert_eq!(n.find("LWLock:WALInsertLock"), Some(WaitEvent(0x0100_0007)));
        assert_eq!(n.find("Timeout:0x000042"), Some(WaitEvent(0x0900_0042)));
        assert_eq!(n.find("cpu"), Some(WaitEvent::CPU));
        assert_eq!(n.find("Lock:nothing"), None);
        assert_eq!(n.find("nothing"), None);
    }

    #[test]
    fn pacing_is_idle_by_name_not_by_id() {
        let n = names();
        assert!(n.is_idle(WaitEvent(0x0900_0001)));
        assert!(!n.is_idle(WaitEvent(0x0900_0002)));
        assert!(n.is_idle(WaitEvent::CLIENT_READ));
        assert!(n.is_idle(WaitEvent(0x0500_0003)));
        assert!(!n.is_idle(WaitEvent::CPU));
    }

    #[test]
    fn query_texts_are_bounded_and_the_loss_is_counted() {
        let mut c = Catalog::default();
        for i in 0..(MAX_QUERIES as i64 + 3) {
            c.learn(News::Query(QueryId(i + 1), Query::default()));
        }
        assert_eq!(c.queries.len(), MAX_QUERIES);
        assert_eq!(c.evicted_queries, 3);
        assert!(!c.queries.contains_key(&QueryId(1)));
    }
}
