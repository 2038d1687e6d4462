//! PostgreSQL's `wait_event_info`: a 32-bit value, class in the top byte, event in the low 16 bits, 0 = no wait reported.

use serde::{Deserialize, Serialize};

/// A `wait_event_info` value as the server stores it. 0 means the process reports no wait: running, or in code without a wait event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitEvent(pub u32);

impl WaitEvent {
    /// No wait reported.
    pub const CPU: Self = Self(0);
    /// Never recorded: what analysis calls the part of a measured stretch without a wait in which the process was not on the CPU.
    pub const OFF_CPU: Self = Self(0x00ff_ffff);
    /// `Client:ClientRead`, waiting for the next command. The id is the same in 13 to 19.
    pub const CLIENT_READ: Self = Self(0x0600_0000);

    /// The class in the top byte.
    pub fn class(self) -> WaitClass {
        match self.0 >> 24 {
            0x00 if self == Self::CPU => WaitClass::Cpu,
            0x00 if self == Self::OFF_CPU => WaitClass::OffCpu,
            0x01 => WaitClass::LwLock,
            0x03 => WaitClass::Lock,
            0x04 => WaitClass::Buffer,
            0x05 => WaitClass::Activity,
            0x06 => WaitClass::Client,
            0x07 => WaitClass::Extension,
            0x08 => WaitClass::Ipc,
            0x09 => WaitClass::Timeout,
            0x0a => WaitClass::Io,
            0x0b => WaitClass::InjectionPoint,
            _ => WaitClass::Unknown,
        }
    }

    /// Whether the value could have been written by a server: 0, or a class PostgreSQL 13 to 19 has, with bits 16..23 clear.
    pub fn is_plausible(self) -> bool {
        self.class() != WaitClass::Unknown && self.0 & 0x00ff_0000 == 0
    }
}

/// Wait event classes of PostgreSQL, and CPU for "no wait".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitClass {
    /// No wait reported. Where on-CPU time was measured: on the CPU without a wait.
    Cpu,
    /// No wait reported and not on the CPU: runnable without a CPU, or asleep in code without a wait event. Known only where on-CPU time was measured.
    OffCpu,
    /// `IO`.
    Io,
    /// `Lock`: heavyweight locks.
    Lock,
    /// `LWLock`.
    LwLock,
    /// `BufferPin`; `Buffer` from 19 on.
    Buffer,
    /// `IPC`.
    Ipc,
    /// `Client`.
    Client,
    /// `Timeout`.
    Timeout,
    /// `Extension`.
    Extension,
    /// `InjectionPoint`, 17 and later test builds.
    InjectionPoint,
    /// `Activity`: main loops of background processes. Idle.
    Activity,
    /// A class byte no known version has.
    Unknown,
}

impl WaitClass {
    /// Every class, in the fixed order of stacking and of tables with equal values.
    pub const ALL: [Self; 13] = [
        Self::Cpu,
        Self::OffCpu,
        Self::Io,
        Self::Lock,
        Self::LwLock,
        Self::Buffer,
        Self::Ipc,
        Self::Client,
        Self::Timeout,
        Self::Extension,
        Self::InjectionPoint,
        Self::Activity,
        Self::Unknown,
    ];

    /// Position in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The class as a user writes it; `CPU*` carries a star because it is inferred from the absence of a wait.
    /// The `Buffer` class prints as the server's own version does, see [`super::catalog::EventNames::class`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU*",
            Self::OffCpu => "Off-CPU*",
            Self::Io => "IO",
            Self::Lock => "Lock",
            Self::LwLock => "LWLock",
            Self::Buffer => "BufferPin",
            Self::Ipc => "IPC",
            Self::Client => "Client",
            Self::Timeout => "Timeout",
            Self::Extension => "Extension",
            Self::InjectionPoint => "InjectionPoint",
            Self::Activity => "Activity",
            Self::Unknown => "Unknown",
        }
    }

    /// Reads a class name in any case; `cpu` and `cpu*`, `buffer` and `bufferpin` are the same.
    pub fn parse(text: &str) -> Option<Self> {
        let t = text.trim_end_matches('*');
        if t.eq_ignore_ascii_case("buffer") {
            return Some(Self::Buffer);
        }
        if t.eq_ignore_ascii_case("offcpu") {
            return Some(Self::OffCpu);
        }
        Self::ALL.into_iter().find(|c| c.name().trim_end_matches('*').eq_ignore_ascii_case(t))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_bytes_decode() {
        let table = [
            (0x0000_0000, WaitClass::Cpu),
            (0x0100_0007, WaitClass::LwLock),
            (0x0200_0000, WaitClass::Unknown),
            (0x0300_0005, WaitClass::Lock),
            (0x0400_0000, WaitClass::Buffer),
            (0x0500_0001, WaitClass::Activity),
            (0x0600_0000, WaitClass::Client),
            (0x0700_0000, WaitClass::Extension),
            (0x0800_0001, WaitClass::Ipc),
            (0x0900_0002, WaitClass::Timeout),
            (0x0a00_0015, WaitClass::Io),
            (0x0b00_0001, WaitClass::InjectionPoint),
            (0x0c00_0001, WaitClass::Unknown),
            (0x0000_0001, WaitClass::Unknown),
        ];
        for (raw, class) in table {
            assert_eq!(WaitEvent(raw).class(), class, "{raw:#x}");
        }
    }

    #[test]
    fn names_parse_back_in_any_case() {
        for class in WaitClass::ALL {
            assert_eq!(WaitClass::parse(class.name()), Some(class));
            assert_eq!(WaitClass::parse(&class.name().to_lowercase()), Some(class));
            assert_eq!(WaitClass::ALL.get(class.index()), Some(&class));
        }
        assert_eq!(WaitClass::parse("cpu"), Some(WaitClass::Cpu));
        assert_eq!(WaitClass::parse("nonsense"), None);
    }
}
