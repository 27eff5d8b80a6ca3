//! What other programs measured.

use std::fs;
use std::path::Path;

use flopgap_cli::Failure;

use crate::results::PeerLine;

/// Reads lines of JSON; lines that are no object are left out, so that a program's other output does not disturb.
///
/// # Errors
/// When the file cannot be read, or an object lacks a field or has a time that none is, with the line.
pub(crate) fn read(path: &Path) -> Result<Vec<PeerLine>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("{}: cannot be read: {error}", path.display())))?;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with('{')) {
        let failure = |what: String| Failure::new(format!("{}, line {}: {what}", path.display(), index + 1));
        let line: PeerLine = serde_json::from_str(line).map_err(|error| {
            failure(error.to_string())
                .hint("a line is an object with impl, size, precision, pass, batch and median_us")
        })?;
        if !(line.median_us.is_finite() && line.median_us > 0.0) {
            return Err(failure(format!("the median is {} us", line.median_us)));
        }
        lines.push(line);
    }
    Ok(lines)
}
