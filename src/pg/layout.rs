//! Where PostgreSQL keeps what, per major version: byte offsets inside its shared structures, its enums, its wait events.
//!
//! The numbers come from `data/pg/*.json` (Linux, 64 bit, default build options). They are claims until [`super::proof`] has compared them
//! with the running server. Member names are PostgreSQL's own in snake case; `size` is `sizeof`.

use crate::trace::catalog::BackendKind;
use crate::trace::record::State;

/// `PGPROC`: one per process that takes part in locking, in one array.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct PgProc {
    pub size: usize,
    pub pid: usize,
    /// `procLatch.owner_pid`: equals `pid` while the slot is in use. 13 to 16 leave dead pids in free slots.
    pub proc_latch_owner_pid: usize,
    pub wait_event_info: usize,
    pub database_id: usize,
    pub role_id: usize,
    /// 13 to 16: index of the status row plus one; -1 for auxiliary processes.
    pub backend_id: Option<usize>,
    /// 17 and later. Not the index: auxiliary processes have -1 here.
    pub vxid_proc_number: Option<usize>,
    pub pgprocno: Option<usize>,
    pub pgxactoff: Option<usize>,
    /// 13 to 17.
    pub is_background_worker: Option<usize>,
    /// 18.
    pub is_regular_backend: Option<usize>,
    /// 19.
    pub backend_type: Option<usize>,
    pub status_flags: Option<usize>,
    /// 14 and later; 13 keeps both in `PGXACT`.
    pub xid: Option<usize>,
    pub xmin: Option<usize>,
    pub lw_waiting: usize,
    /// 0 exclusive, 1 shared, 2 wait until free.
    pub lw_wait_mode: usize,
    pub wait_status: usize,
    /// `LOCK *`, 0 when not waiting for a heavyweight lock.
    pub wait_lock: usize,
    pub wait_proc_lock: usize,
    pub wait_lock_mode: usize,
    pub held_locks: usize,
    /// 14 and later.
    pub wait_start: Option<usize>,
    /// 13 to 18: the node in a lock's wait queue.
    pub links: Option<usize>,
    /// 19: the node in a lock's wait queue.
    pub wait_link: Option<usize>,
    /// 16 list heads of 16 bytes.
    pub my_proc_locks: usize,
    /// 13 to 17: 64 bits in place. 18 and later: pointer.
    pub fp_lock_bits: usize,
    /// 13 to 17: 16 oids in place. 18 and later: pointer.
    pub fp_rel_id: usize,
    pub fp_vxidlock: usize,
    pub fp_local_transaction_id: usize,
    pub lock_group_leader: usize,
    pub lock_group_members: usize,
    pub lock_group_link: usize,
}

/// `PROC_HDR`, the shared memory area `Proc Header`.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ProcHdr {
    pub size: usize,
    pub all_procs: usize,
    pub all_proc_count: usize,
    /// 13 only.
    pub all_pg_xact: Option<usize>,
    /// 14 and later.
    pub xids: Option<usize>,
    pub startup_buffer_pin_wait_buf_id: usize,
}

/// `PGXACT`, 13 only.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct PgXact {
    pub size: usize,
    pub xid: usize,
    pub xmin: usize,
}

/// `PgBackendStatus`: what `pg_stat_activity` shows, written under a change count.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct PgBackendStatus {
    pub size: usize,
    pub st_changecount: usize,
    pub st_procpid: usize,
    pub st_backend_type: usize,
    pub st_proc_start_timestamp: usize,
    pub st_xact_start_timestamp: usize,
    pub st_activity_start_timestamp: usize,
    pub st_state_start_timestamp: usize,
    pub st_databaseid: usize,
    pub st_userid: usize,
    /// `struct sockaddr_storage` in place.
    pub st_clientaddr: usize,
    pub st_clienthostname: usize,
    pub st_ssl: usize,
    pub st_gss: usize,
    pub st_state: usize,
    pub st_appname: usize,
    pub st_activity_raw: usize,
    pub st_progress_command: usize,
    pub st_progress_command_target: usize,
    /// 20 × `int64`.
    pub st_progress_param: usize,
    /// 14 and later.
    pub st_query_id: Option<usize>,
    /// 18 and later.
    pub st_plan_id: Option<usize>,
}

/// `LOCK`: one per locked object, in the hash `LOCK hash`.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Lock {
    pub size: usize,
    pub tag: usize,
    pub grant_mask: usize,
    pub wait_mask: usize,
    pub proc_locks: usize,
    pub wait_procs: usize,
    pub requested: usize,
    pub n_requested: usize,
    pub granted: usize,
    pub n_granted: usize,
}

/// `PROCLOCK`: one per lock and holder or waiter.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ProcLock {
    pub size: usize,
    pub tag: usize,
    pub tag_my_lock: usize,
    pub tag_my_proc: usize,
    pub group_leader: usize,
    pub hold_mask: usize,
    pub release_mask: usize,
    pub lock_link: usize,
    pub proc_link: usize,
}

/// `PGShmemHeader` at the start of the segment.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct PgShmemHeader {
    pub size: usize,
    pub magic: usize,
    pub creator_pid: usize,
    pub totalsize: usize,
    pub device: usize,
    pub inode: usize,
    /// 13 to 18: `HASHHDR *` of the index of named areas.
    pub index: Option<usize>,
    /// 19: where `ShmemAllocatorData` begins.
    pub content_offset: Option<usize>,
}

/// `ShmemAllocatorData`, 19 and later.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ShmemAllocatorData {
    pub free_offset: usize,
    pub index: usize,
}

/// `HASHHDR` of a dynahash table.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct HashHdr {
    pub size: usize,
    pub dsize: usize,
    pub nsegs: usize,
    pub max_bucket: usize,
    pub keysize: usize,
    pub entrysize: usize,
    pub ssize: Option<usize>,
    pub sshift: Option<usize>,
    /// 19: pointer to the directory; before, the directory follows the header.
    pub dir: Option<usize>,
}

/// `ShmemIndexEnt`: an entry of the index of named areas.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ShmemIndexEnt {
    pub size: usize,
    /// `char[48]`.
    pub key: usize,
    pub location: usize,
    pub entry_size: usize,
    pub allocated_size: usize,
}

/// `WaitEventCustomEntryByInfo`, 17 and later.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct WaitEventCustomEntry {
    pub size: usize,
    pub wait_event_info: usize,
    /// `char[64]`.
    pub wait_event_name: usize,
}

/// `NamedLWLockTranche`, 13 to 18: an array that the process-private `NamedLWLockTrancheArray` points to.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct NamedTranche {
    pub size: usize,
    pub tranche_id: usize,
    pub tranche_name: usize,
}

/// `LWLockTrancheShmemData`, 19 and later: the area `LWLock tranches`.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct LwLockTranches {
    pub size: usize,
    pub user_defined: usize,
    pub num_user_defined: usize,
    pub elem_size: usize,
    /// `char[64]`.
    pub elem_name: usize,
    pub elem_count: usize,
}

/// All of a major version.
#[derive(Debug, Clone)]
pub struct Layout {
    /// 13 to 19.
    pub major: u16,
    /// `PGPROC`.
    pub proc: PgProc,
    /// `PROC_HDR`.
    pub proc_hdr: ProcHdr,
    /// `PGXACT`, 13 only.
    pub xact: Option<PgXact>,
    /// `PgBackendStatus`.
    pub status: PgBackendStatus,
    /// `LOCK`.
    pub lock: Lock,
    /// `PROCLOCK`.
    pub proclock: ProcLock,
    /// `PGShmemHeader`.
    pub header: PgShmemHeader,
    /// `HASHHDR`.
    pub hash: HashHdr,
    /// `ShmemIndexEnt`.
    pub index_ent: ShmemIndexEnt,
    /// `ShmemAllocatorData`, 19.
    pub allocator: Option<ShmemAllocatorData>,
    /// `WaitEventCustomEntryByInfo`, 17 and later.
    pub custom_event: Option<WaitEventCustomEntry>,
    /// `NamedLWLockTranche`, 13 to 18.
    pub named_tranche: Option<NamedTranche>,
    /// `LWLockTrancheShmemData`, 19.
    pub tranches: Option<LwLockTranches>,
    /// `allProcCount` − `MaxBackends`.
    pub proc_slots_beyond_backends: usize,
    /// Rows of the status array − `MaxBackends`.
    pub status_slots_beyond_backends: usize,
    /// First LWLock tranche id that extensions get.
    pub first_user_tranche: u32,
    backend_types: &'static [&'static str],
    backend_states: &'static [&'static str],
    events: &'static [(u32, &'static str)],
}

include!(concat!(env!("OUT_DIR"), "/layouts.rs"));

/// First word of every PostgreSQL segment.
pub const SHMEM_MAGIC: u32 = 679_834_894;

/// PostgreSQL counts time from 2000-01-01 UTC; this is that moment in microseconds since 1970.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

impl Layout {
    /// The layout of a major version, if it is known.
    pub fn of(major: u16) -> Option<&'static Self> {
        LAYOUTS.iter().find(|l| l.major == major)
    }

    /// Lowest and highest major version known.
    pub fn known() -> (u16, u16) {
        (LAYOUTS.first().map_or(0, |l| l.major), LAYOUTS.last().map_or(0, |l| l.major))
    }

    /// `BackendType` as this version numbers it. `None` for a number the version does not have.
    pub fn backend_kind(&self, raw: u32) -> Option<BackendKind> {
        self.backend_types.get(raw as usize).map(|name| match *name {
            "B_BACKEND" | "B_DEAD_END_BACKEND" => BackendKind::Client,
            "B_AUTOVAC_LAUNCHER" => BackendKind::AutovacuumLauncher,
            "B_AUTOVAC_WORKER" => BackendKind::AutovacuumWorker,
            "B_BG_WORKER" => BackendKind::BackgroundWorker,
            "B_BG_WRITER" => BackendKind::BackgroundWriter,
            "B_CHECKPOINTER" => BackendKind::Checkpointer,
            "B_STARTUP" => BackendKind::Startup,
            "B_WAL_RECEIVER" => BackendKind::WalReceiver,
            "B_WAL_SENDER" => BackendKind::WalSender,
            "B_WAL_WRITER" => BackendKind::WalWriter,
            "B_WAL_SUMMARIZER" => BackendKind::WalSummarizer,
            "B_ARCHIVER" => BackendKind::Archiver,
            "B_STATS_COLLECTOR" => BackendKind::StatsCollector,
            "B_LOGGER" => BackendKind::Logger,
            "B_IO_WORKER" => BackendKind::IoWorker,
            "B_SLOTSYNC_WORKER" => BackendKind::SlotsyncWorker,
            "B_STANDALONE_BACKEND" => BackendKind::Standalone,
            _ => BackendKind::Unknown,
        })
    }

    /// `BackendState` as this version numbers it, for a process of this kind. `None` for a number the version does not have.
    /// A client that has not reported any state yet is [`State::Starting`]; a background process never reports one: [`State::None`].
    pub fn state(&self, raw: u32, kind: BackendKind) -> Option<State> {
        self.backend_states.get(raw as usize).map(|name| match *name {
            "STATE_UNDEFINED" if kind == BackendKind::Client => State::Starting,
            "STATE_STARTING" => State::Starting,
            "STATE_IDLE" => State::Idle,
            "STATE_RUNNING" => State::Active,
            "STATE_IDLEINTRANSACTION" => State::IdleInTransaction,
            "STATE_FASTPATH" => State::Fastpath,
            "STATE_IDLEINTRANSACTION_ABORTED" => State::IdleInTransactionAborted,
            "STATE_DISABLED" => State::Disabled,
            _ => State::None,
        })
    }

    /// Built-in wait events: value and name without class.
    pub fn events(&self) -> &'static [(u32, &'static str)] {
        self.events
    }

    /// Whether extensions register wait events by name (17 and later); before, every event of theirs is called `Extension`.
    pub fn has_custom_events(&self) -> bool {
        self.custom_event.is_some()
    }
}

/// A `TimestampTz` as microseconds since 1970; 0 (unset) stays 0.
pub fn unix_micros(timestamp: i64) -> i64 {
    if timestamp == 0 { 0 } else { timestamp.saturating_add(POSTGRES_EPOCH) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_equal_numbers_written_by_hand() {
        let size = |m| Layout::of(m).map(|l| (l.proc.size, l.proc.wait_event_info, l.proc.pid, l.proc.proc_latch_owner_pid, l.status.size));
        assert_eq!(size(13), Some((856, 684, 52, 44, 424)));
        assert_eq!(size(14), Some((880, 712, 64, 48, 432)));
        assert_eq!(size(15), Some((880, 712, 64, 48, 432)));
        assert_eq!(size(16), Some((880, 712, 64, 48, 432)));
        assert_eq!(size(17), Some((888, 712, 60, 48, 432)));
        assert_eq!(size(18), Some((832, 712, 60, 48, 440)));
        assert_eq!(size(19), Some((896, 856, 24, 340, 440)));
        assert_eq!(Layout::known(), (13, 19));
        assert!(Layout::of(12).is_none() && Layout::of(20).is_none());
    }

    #[test]
    fn members_of_some_versions_only() {
        let l = |m| Layout::of(m).unwrap();
        assert_eq!((l(13).status.st_query_id, l(14).status.st_query_id, l(18).status.st_plan_id), (None, Some(424), Some(432)));
        assert_eq!((l(13).proc.wait_start, l(14).proc.wait_start, l(19).proc.wait_start), (None, Some(136), Some(464)));
        assert_eq!((l(16).proc.backend_id, l(17).proc.backend_id), (Some(76), None));
        assert_eq!((l(18).proc.links, l(18).proc.wait_link), (Some(0), None));
        assert_eq!((l(19).proc.links, l(19).proc.wait_link), (None, Some(432)));
        assert_eq!((l(18).header.index, l(19).header.content_offset), (Some(32), Some(16)));
        assert!(l(13).xact.is_some() && l(14).xact.is_none());
        assert!(!l(16).has_custom_events() && l(17).has_custom_events());
        assert_eq!([13, 14, 15, 16, 17, 18, 19].map(|m| l(m).first_user_tranche), [73, 72, 75, 77, 92, 95, 100]);
        assert_eq!([13, 14, 15, 16, 17, 18, 19].map(|m| l(m).proc_slots_beyond_backends), [4, 5, 5, 5, 6, 38, 38]);
        assert_eq!([13, 14, 15, 16, 17, 18, 19].map(|m| l(m).status_slots_beyond_backends), [7, 8, 6, 6, 6, 38, 38]);
    }

    #[test]
    fn enums_decode_per_version() {
        let l = |m| Layout::of(m).unwrap();
        assert_eq!(l(13).backend_kind(12), Some(BackendKind::StatsCollector));
        assert_eq!(l(15).backend_kind(12), Some(BackendKind::Logger));
        assert_eq!(l(16).backend_kind(4), Some(BackendKind::Client));
        assert_eq!(l(17).backend_kind(1), Some(BackendKind::Client));
        assert_eq!(l(18).backend_kind(12), Some(BackendKind::IoWorker));
        assert_eq!(l(18).backend_kind(99), None);
        assert_eq!(l(17).state(2, BackendKind::Client), Some(State::Active));
        assert_eq!(l(18).state(2, BackendKind::Client), Some(State::Idle));
        assert_eq!(l(18).state(3, BackendKind::Client), Some(State::Active));
        assert_eq!(l(17).state(0, BackendKind::Client), Some(State::Starting));
        assert_eq!(l(17).state(0, BackendKind::Checkpointer), Some(State::None));
        assert_eq!(l(17).state(7, BackendKind::Client), None);
    }

    #[test]
    fn every_name_of_the_enums_is_understood() {
        for l in LAYOUTS {
            for (raw, name) in l.backend_types.iter().enumerate().skip(1) {
                assert_ne!(l.backend_kind(raw as u32), Some(BackendKind::Unknown), "{name} of {}", l.major);
            }
            for (raw, name) in l.backend_states.iter().enumerate().skip(1) {
                assert_ne!(l.state(raw as u32, BackendKind::Client), Some(State::None), "{name} of {}", l.major);
            }
        }
    }

    #[test]
    fn timestamps() {
        assert_eq!(unix_micros(0), 0);
        assert_eq!(unix_micros(1), 946_684_800_000_001);
        assert_eq!(unix_micros(i64::MAX), i64::MAX);
    }
}
