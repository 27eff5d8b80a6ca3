//! Measurements of other programs.

use std::fs;
use std::path::Path;

use flopgap_cli::Failure;
use flopgap_mlp::cuda::Implementation;

use crate::cpu;
use crate::results::{Clock, PeerLine};

/// Reads lines of JSON; lines that are no object are left out, so that a program's other output
/// does not disturb.
///
/// # Errors
/// When the file cannot be read; with the line, when an object lacks a field, has a time that none
/// is, a clock that there is not, or the name of one of our own implementations.
pub(crate) fn read(path: &Path) -> Result<Vec<PeerLine>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("{}: cannot be read: {error}", path.display())))?;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with('{')) {
        let failure = |what: String| Failure::new(format!("{}, line {}: {what}", path.display(), index + 1));
        let line: PeerLine = serde_json::from_str(line).map_err(|error| {
            failure(described(&error))
                .hint("a line is an object with impl, size, precision, pass, batch and median_us")
        })?;
        check(&line).map_err(failure)?;
        lines.push(line);
    }
    Ok(lines)
}

/// The error without the line, which is 1 for each of many documents.
fn described(error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    match text.strip_suffix(&format!(" at line {} column {column}", error.line())) {
        Some(what) => format!("{what} (column {column})"),
        None => text,
    }
}

/// Values that would be shown wrongly, or not at all.
fn check(line: &PeerLine) -> Result<(), String> {
    if !(line.median_us.is_finite() && line.median_us > 0.0) {
        return Err(format!("the median is {} us", line.median_us));
    }
    let name = &line.subject.implementation;
    if name == cpu::NAME || name.parse::<Implementation>().is_ok() {
        return Err(format!(
            "the name {name:?} belongs to an implementation of this program; choose another"
        ));
    }
    let clocks = Clock::ALL.map(Clock::name);
    match &line.timing {
        Some(timing) if !clocks.contains(&timing.as_str()) => {
            Err(format!("invalid timing {timing:?}; expected one of {}", clocks.join(", ")))
        }
        _ => Ok(()),
    }
}
