//! Calibrations that are built in, so that estimates for their machines can be made anywhere.

/// Names for `--device`, and the files.
const RECORDED: &[(&str, &[u8])] = &[];

/// The calibration of a name, in whatever case.
pub(crate) fn find(name: &str) -> Option<&'static [u8]> {
    RECORDED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, bytes)| *bytes)
}

/// The names that there are, for messages.
pub(crate) fn names() -> String {
    match RECORDED {
        [] => "none are built in".to_owned(),
        recorded => recorded.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
    }
}
