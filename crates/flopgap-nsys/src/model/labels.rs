//! The words for the numbers of an export, as nsys spells them.

/// Between what a copy of this `copyKind` moves data, as nsys spells it; nothing for an unknown number.
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

/// The name of a kind of memory, as nsys spells it; nothing for an unknown number.
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
