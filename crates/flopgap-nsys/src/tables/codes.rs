//! The numeric codes of an export, and nsys's names for them.

/// Copies that are migrations of unified memory, by `copyKind`.
pub(crate) const MIGRATED_TO_DEVICE: i64 = 11;
pub(crate) const MIGRATED_TO_HOST: i64 = 12;
pub(crate) const BETWEEN_DEVICES: i64 = 13;

/// Other copies, by `copyKind`.
pub(crate) const HOST_TO_DEVICE: i64 = 1;
pub(crate) const DEVICE_TO_DEVICE: i64 = 8;

/// Kinds of memory.
pub(crate) const PAGEABLE: i64 = 0;
pub(crate) const PINNED: i64 = 1;
pub(crate) const MANAGED: i64 = 4;

/// Between what a copy of this `copyKind` moves data, as nsys spells it; `None` for an unknown
/// number.
///
/// The labels are built in because exports before 2022.4 have no table of them.
pub fn copy_label(kind: i64) -> Option<&'static str> {
    Some(match kind {
        0 => "Unknown",
        1 => "Host-to-Device",
        2 => "Device-to-Host",
        3 => "Host-to-Array",
        4 => "Array-to-Host",
        5 => "Array-to-Array",
        6 => "Array-to-Device",
        7 => "Device-to-Array",
        8 => "Device-to-Device",
        9 => "Host-to-Host",
        10 => "Peer-to-Peer",
        11 => "Unified Host-to-Device",
        12 => "Unified Device-to-Host",
        13 => "Unified Device-to-Device",
        _ => return None,
    })
}

/// The name of a kind of memory, as nsys spells it; `None` for an unknown number.
pub fn memory_label(kind: i64) -> Option<&'static str> {
    Some(match kind {
        0 => "Pageable",
        1 => "Pinned",
        2 => "Device",
        3 => "Array",
        4 => "Managed",
        5 => "Device Static",
        6 => "Managed Static",
        7 => "Unknown",
        _ => return None,
    })
}

/// What a synchronization waits for (`syncType`), as nsys spells it; `None` for an unknown number.
pub fn sync_label(kind: i64) -> Option<&'static str> {
    Some(match kind {
        0 => "Unknown",
        1 => "Event sync",
        2 => "Stream wait sync",
        3 => "Stream sync",
        4 => "Context sync",
        _ => return None,
    })
}

/// How a stream was made, as nsys spells it; `None` for an unknown number.
pub fn stream_label(kind: i64) -> Option<&'static str> {
    Some(match kind {
        0 => "Unknown stream type",
        1 => "Default stream",
        2 => "Non-blocking stream",
        3 => "Null stream",
        _ => return None,
    })
}

/// How a GPU touched a page that faulted, as nsys spells it; `None` for an unknown number.
pub fn access_label(kind: i64) -> Option<&'static str> {
    Some(match kind {
        0 => "Unknown",
        1 => "Read",
        2 => "Write",
        3 => "Atomic",
        4 => "Prefetch",
        _ => return None,
    })
}

/// Why unified memory moved; `None` for an unknown number. As nsys spells it, but for its
/// "prefecth".
pub fn migration_label(cause: i64) -> Option<&'static str> {
    Some(match cause {
        0 => "Unknown",
        1 => "User prefetch",
        2 => "Page fault",
        3 => "Speculative prefetch",
        4 => "Eviction",
        5 => "Access counters",
        _ => return None,
    })
}

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Unknown,
    Info,
    Warning,
    Error,
    Verbose,
}

impl Severity {
    /// Nothing for an unknown number.
    pub(crate) fn of(code: i64) -> Option<Severity> {
        Some(match code {
            0 => Severity::Unknown,
            1 => Severity::Info,
            2 => Severity::Warning,
            3 => Severity::Error,
            4 => Severity::Verbose,
            _ => return None,
        })
    }
}

/// How bad a diagnostic is, as nsys spells it; nothing for an unknown number.
pub fn severity_label(severity: i64) -> Option<&'static str> {
    Severity::of(severity).map(|severity| match severity {
        Severity::Unknown => "Unknown",
        Severity::Info => "Info",
        Severity::Warning => "Warning",
        Severity::Error => "Error",
        Severity::Verbose => "Verbose",
    })
}
