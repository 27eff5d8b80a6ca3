//! Built-in calibrations, so that estimates for their machines can be made anywhere.

/// Names for `--device`, and the files.
const RECORDED: &[(&str, &[u8])] = &[
    ("h200", include_bytes!("../recorded/h200.jsonl.zst")),
    ("xeon-ort", include_bytes!("../recorded/xeon-ort.jsonl.zst")),
    ("xeon-native", include_bytes!("../recorded/xeon-native.jsonl.zst")),
];

/// The calibration of a name, ignoring case.
pub(crate) fn find(name: &str) -> Option<&'static [u8]> {
    RECORDED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, bytes)| *bytes)
}

/// The available names, for messages.
pub(crate) fn names() -> String {
    RECORDED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}
