//! The numeric codes of an export, and nsys's names for them.
//!
//! The names are built in because exports before 2022.4 have no tables of them.

use std::fmt;

/// Declares the codes of a column with nsys's names for them.
macro_rules! codes {
    ($(#[$about:meta])* $name:ident { $($code:literal $variant:ident $label:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $(
                #[doc = concat!($label, " (", stringify!($code), ").")]
                $variant,
            )*
            /// A code that has no name here.
            Other(i64),
        }

        impl $name {
            /// What a code of an export means.
            #[inline]
            pub fn of(code: i64) -> $name {
                match code {
                    $($code => $name::$variant,)*
                    other => $name::Other(other),
                }
            }

            /// The code in an export.
            #[inline]
            pub fn code(self) -> i64 {
                match self {
                    $($name::$variant => $code,)*
                    $name::Other(code) => code,
                }
            }

            /// Its name; `None` for a code that has none.
            pub fn label(self) -> Option<&'static str> {
                match self {
                    $($name::$variant => Some($label),)*
                    $name::Other(_) => None,
                }
            }
        }

        /// Its name, or the code where that has none.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.label() {
                    Some(label) => f.pad(label),
                    None => self.code().fmt(f),
                }
            }
        }
    };
}

codes! {
    /// Between what a copy moves data (`copyKind`), as nsys spells it.
    CopyKind {
        0 Unknown "Unknown",
        1 HostToDevice "Host-to-Device",
        2 DeviceToHost "Device-to-Host",
        3 HostToArray "Host-to-Array",
        4 ArrayToHost "Array-to-Host",
        5 ArrayToArray "Array-to-Array",
        6 ArrayToDevice "Array-to-Device",
        7 DeviceToArray "Device-to-Array",
        8 DeviceToDevice "Device-to-Device",
        9 HostToHost "Host-to-Host",
        10 PeerToPeer "Peer-to-Peer",
        11 UnifiedHostToDevice "Unified Host-to-Device",
        12 UnifiedDeviceToHost "Unified Device-to-Host",
        13 UnifiedDeviceToDevice "Unified Device-to-Device",
    }
}

codes! {
    /// A kind of memory (`memKind`, `srcKind`, `dstKind`), as nsys spells it.
    MemoryKind {
        0 Pageable "Pageable",
        1 Pinned "Pinned",
        2 Device "Device",
        3 Array "Array",
        4 Managed "Managed",
        5 DeviceStatic "Device Static",
        6 ManagedStatic "Managed Static",
        7 Unknown "Unknown",
    }
}

codes! {
    /// What a synchronization waits for (`syncType`), as nsys spells it.
    SyncKind {
        0 Unknown "Unknown",
        1 Event "Event sync",
        2 StreamWait "Stream wait sync",
        3 Stream "Stream sync",
        4 Context "Context sync",
    }
}

codes! {
    /// How a GPU touched a page that faulted (`faultAccessType`), as nsys spells it.
    AccessKind {
        0 Unknown "Unknown",
        1 Read "Read",
        2 Write "Write",
        3 Atomic "Atomic",
        4 Prefetch "Prefetch",
    }
}

codes! {
    /// How severe a diagnostic is (`severity`), as nsys spells it.
    Severity {
        0 Unknown "Unknown",
        1 Info "Info",
        2 Warning "Warning",
        3 Error "Error",
        4 Verbose "Verbose",
    }
}

codes! {
    /// Whose clock the time of a diagnostic is (`timestampType`).
    DiagnosticClock {
        1 Target "Target",
        2 Host "Host",
    }
}

codes! {
    /// Which part of nsys reported a diagnostic (`source`).
    DiagnosticSource {
        1 Process "Process",
        2 Daemon "Daemon",
        3 Analysis "Analysis",
    }
}

codes! {
    /// What recorded a call of the CUDA APIs (`eventClass`).
    ApiClass {
        0 Runtime "Runtime API",
        1 Driver "Driver API",
        67 Backtrace "Backtrace",
    }
}

codes! {
    /// What an event of the operating system's libraries is (`eventClass`): other codes than that
    /// of a call are states of the thread, such as waiting.
    OsClass {
        27 Call "Call",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_kept_and_those_without_a_name_are_shown_as_numbers() {
        for code in (-2..100).chain([i64::MIN, i64::MAX]) {
            assert_eq!(CopyKind::of(code).code(), code);
            assert_eq!(CopyKind::of(code).label().is_some(), (0..14).contains(&code), "{code}");
            assert_eq!(ApiClass::of(code).code(), code);
        }
        assert_eq!(format!("{:>9}|{}", MemoryKind::of(1), MemoryKind::of(-8)), "   Pinned|-8");
    }
}
