//! Names of wait events: built in per major version; what extensions add is read by [`super::registered`].

use super::layout::Layout;
use crate::trace::catalog::EventNames;

/// Built-in event names of a major version, if it is known.
pub fn event_names(major: u16) -> Option<EventNames> {
    Layout::of(major).map(|l| EventNames::new(major, l.events().iter().map(|(raw, name)| (*raw, (*name).into()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::wait::WaitEvent;

    fn name(major: u16, raw: u32) -> String {
        event_names(major).unwrap().name(WaitEvent(raw))
    }

    #[test]
    fn ids_shift_between_majors() {
        for (major, raw) in [
            (13, 0x0900_0001),
            (14, 0x0900_0001),
            (15, 0x0900_0002),
            (16, 0x0900_0002),
            (17, 0x0900_0002),
            (18, 0x0900_0002),
            (19, 0x0900_0003),
        ] {
            assert_eq!(name(major, raw), "Timeout:PgSleep", "{major}");
        }
    }

    #[test]
    fn lock_tags_keep_their_numbers() {
        for major in 13..=19 {
            assert_eq!(name(major, 0x0300_0000), "Lock:relation");
            assert_eq!(name(major, 0x0300_0005), "Lock:transactionid");
            assert_eq!(name(major, 0x0300_000a), "Lock:advisory");
            assert_eq!(name(major, 0x0600_0000), "Client:ClientRead");
            assert_eq!(event_names(major).unwrap().name(WaitEvent(0x0300_000b)) == "Lock:applytransaction", major >= 16, "{major}");
        }
    }

    #[test]
    fn spelling_is_that_of_the_version() {
        assert_eq!(name(16, 0x0a00_0047), "IO:WALSync");
        assert_eq!(name(18, 0x0a00_004e), "IO:WalSync");
        assert_eq!(name(18, 0x0400_0000), "BufferPin:BufferPin");
        assert_eq!(name(19, 0x0400_0000), "Buffer:BufferCleanup");
        assert_eq!(name(18, 0x0700_0000), "Extension:Extension");
        assert_eq!(name(18, 0x0100_003d), "LWLock:WALInsert");
    }
}
