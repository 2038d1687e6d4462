//! What a record counts as: load, idle time, an I/O worker's own time, or nothing. The one rule, used by every answer and by the rules that open windows. Pure.

use super::catalog::{BackendKind, EventNames};
use super::record::State;
use super::wait::WaitEvent;

/// What the time of a record counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meaning {
    /// Part of DB Time.
    Load,
    /// Waiting for work: no part of DB Time, listed apart.
    Idle,
    /// An I/O worker doing other sessions' I/O (which those sessions wait for): never load.
    IoWorkerBusy,
    /// An I/O worker waiting for work.
    IoWorkerIdle,
    /// No wait and no command: between two commands, starting, ending. Observed, but neither load nor idle time.
    Nothing,
}

impl Meaning {
    /// What a process of `kind` that was seen in `state` with `event` was doing.
    pub fn of(kind: BackendKind, state: State, event: WaitEvent, names: &EventNames) -> Self {
        let idle = event != WaitEvent::CPU && names.is_idle(event);
        match kind {
            BackendKind::IoWorker if idle => Self::IoWorkerIdle,
            BackendKind::IoWorker => Self::IoWorkerBusy,
            _ if idle => Self::Idle,
            _ if event != WaitEvent::CPU => Self::Load,
            BackendKind::Unknown => Self::Nothing,
            _ if kind.is_gated() && state.in_command() => Self::Load,
            _ if kind.is_gated() || state == State::Starting => Self::Nothing,
            _ => Self::Load,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::wait::WaitClass;

    const CPU: WaitEvent = WaitEvent::CPU;
    const READ: WaitEvent = WaitEvent(0x0a00_0015);
    const MAIN: WaitEvent = WaitEvent(0x0500_0003);
    const PACING: WaitEvent = WaitEvent(0x0900_0001);

    fn of(kind: BackendKind, state: State, event: WaitEvent) -> Meaning {
        let names = EventNames::new(18, [(PACING.0, "CheckpointWriteDelay".into())]);
        Meaning::of(kind, state, event, &names)
    }

    #[test]
    fn no_wait_is_cpu_only_while_there_is_work() {
        use BackendKind as K;
        for state in [State::Active, State::Fastpath, State::Disabled] {
            assert_eq!(of(K::Client, state, CPU), Meaning::Load, "{state:?}");
            assert_eq!(of(K::Unknown, state, CPU), Meaning::Nothing, "{state:?}");
        }
        for state in [State::Idle, State::IdleInTransaction, State::IdleInTransactionAborted, State::Starting, State::None] {
            assert_eq!(of(K::Client, state, CPU), Meaning::Nothing, "{state:?}");
            assert_eq!(of(K::WalSender, state, CPU), Meaning::Nothing, "{state:?}");
        }
        for kind in [K::Checkpointer, K::ParallelWorker, K::AutovacuumWorker, K::Logger, K::Startup] {
            assert_eq!(of(kind, State::None, CPU), Meaning::Load, "{kind:?}");
            assert_eq!(of(kind, State::Starting, CPU), Meaning::Nothing, "{kind:?}");
        }
    }

    #[test]
    fn waits_count_whatever_the_state_unless_idle_by_rule() {
        assert_eq!(of(BackendKind::Client, State::Idle, READ), Meaning::Load);
        assert_eq!(of(BackendKind::Unknown, State::Starting, READ), Meaning::Load);
        assert_eq!(of(BackendKind::Client, State::Active, WaitEvent::CLIENT_READ), Meaning::Idle);
        assert_eq!(of(BackendKind::Checkpointer, State::None, PACING), Meaning::Idle);
        assert_eq!(of(BackendKind::Checkpointer, State::None, MAIN), Meaning::Idle);
        assert_eq!(MAIN.class(), WaitClass::Activity);
    }

    #[test]
    fn io_workers_are_never_load() {
        assert_eq!(of(BackendKind::IoWorker, State::None, READ), Meaning::IoWorkerBusy);
        assert_eq!(of(BackendKind::IoWorker, State::None, CPU), Meaning::IoWorkerBusy);
        assert_eq!(of(BackendKind::IoWorker, State::None, MAIN), Meaning::IoWorkerIdle);
    }
}
