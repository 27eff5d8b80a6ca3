//! Lines that are no table: ncu's own messages, and whatever the profiled program prints.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::model::Warning;
use crate::source::Context;

use super::text::lossy;

/// Notes and warnings kept one by one; further ones are only counted.
const MAX_KEPT: usize = 1000;
/// Bytes kept of a line.
const MAX_LINE: usize = 400;

/// What ncu said about its own failure, in the order in which it outweighs other messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Complaint {
    NoKernels,
    Failed,
    Permission,
}

/// Collects notes and the most telling complaint.
#[derive(Debug, Default)]
pub(super) struct Noise {
    complaint: Option<(Complaint, u64, String)>,
    /// What the lines look like, for the message when there is no table.
    first: Option<String>,
    kind: Option<&'static str>,
    dropped_notes: u64,
    dropped_warnings: u64,
}

impl Noise {
    /// Takes a line that is no row. An `==ERROR==` becomes a warning, anything else a note.
    pub(super) fn line(&mut self, line: &[u8], number: u64, context: &mut Context) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let text = excerpt(line);
        let from = |needle: &str| text.find(needle).map(|at| text[at..].to_owned());
        let complaint = if let Some(message) = from("ERR_NVGPUCTRPERM") {
            Some((Complaint::Permission, message))
        } else if let Some(message) = from("==ERROR==") {
            Some((Complaint::Failed, message["==ERROR==".len()..].trim().to_owned()))
        } else if let Some(message) =
            from("LibraryNotLoaded").or_else(|| from("failed to connect to the CUDA driver"))
        {
            Some((Complaint::Failed, message))
        } else {
            from("No kernels were profiled").map(|message| (Complaint::NoKernels, message))
        };
        if let Some((complaint, message)) = complaint {
            if complaint == Complaint::Failed {
                self.warn(context, number, format!("ncu reported an error: {message}"));
            }
            // The first message of a kind says why; what follows it says what became of it.
            if self.complaint.as_ref().is_none_or(|(known, ..)| complaint > *known) {
                self.complaint = Some((complaint, number, message));
            }
        }
        self.kind = self.kind.or_else(|| kind_of(&text));
        self.first.get_or_insert_with(|| text.clone());
        self.note(context, number, text);
    }

    pub(super) fn note(&mut self, context: &mut Context, position: u64, message: String) {
        if context.notes.len() < MAX_KEPT {
            context.notes.push(Warning { position, message });
        } else {
            self.dropped_notes += 1;
        }
    }

    pub(super) fn warn(&mut self, context: &mut Context, position: u64, message: String) {
        if context.warnings.len() < MAX_KEPT {
            context.warnings.push(Warning { position, message });
        } else {
            self.dropped_warnings += 1;
        }
    }

    /// Warns of something with which launches or metrics are lost.
    pub(super) fn warn_of_loss(&mut self, context: &mut Context, position: u64, message: String) {
        context.lost_at.get_or_insert(position);
        self.warn(context, position, message);
    }

    /// The end of the file: what was only counted, and what ncu said about a run that left no kernel.
    pub(super) fn finish(&mut self, context: &mut Context, has_table: bool, has_launch: bool) {
        let dropped = [(&mut self.dropped_notes, "notes"), (&mut self.dropped_warnings, "warnings")];
        for (count, what) in dropped {
            if *count > 0 {
                let message = format!("{count} further {what} are not listed");
                context.warnings.push(Warning { position: 0, message });
                *count = 0;
            }
        }
        if has_table && !has_launch {
            let message = "the table has no rows".to_owned();
            context.warnings.push(Warning { position: 0, message });
        }
        if let (true, Some((Complaint::NoKernels | Complaint::Permission, line, message))) =
            (has_table, &self.complaint)
        {
            context.warnings.push(Warning { position: *line, message: format!("ncu reported: {message}") });
        }
    }

    /// Why a file has no table.
    pub(super) fn no_table(&self, path: &Path) -> Error {
        let path = PathBuf::from(path);
        match &self.complaint {
            Some((Complaint::Permission, line, _)) => Error::CounterPermission { path, line: *line },
            Some((Complaint::Failed, line, message)) => {
                Error::ProfilerFailed { path, line: *line, message: message.clone() }
            }
            Some((Complaint::NoKernels, line, _)) => Error::NoKernels { path, line: *line },
            None => {
                let what = match (self.kind, &self.first) {
                    (Some(kind), _) => kind.to_owned(),
                    (None, Some(first)) => format!("its first line is {:?}", shorten(first, 80)),
                    (None, None) => "it is empty".to_owned(),
                };
                Error::NotAReport { path, what }
            }
        }
    }
}

/// What a file without a table probably is.
fn kind_of(text: &str) -> Option<&'static str> {
    if text.starts_with("SQLite format 3") {
        Some("it is an SQLite database, perhaps an export of Nsight Systems")
    } else if text.starts_with("\"Kernel Name\",") {
        Some("it is ncu's source page, which holds instructions and no launches; use `--page raw`")
    } else if text.starts_with("Section: ") || text.starts_with("Metric Name ") {
        Some("it is ncu's text output; add `--csv`")
    } else if text.starts_with("==PROF== Report: ") {
        Some("ncu wrote the results to an .ncu-rep instead; read that file")
    } else if text.starts_with("{\"") || text.starts_with("[{\"") {
        Some("it is JSON")
    } else {
        broken_header(text)
    }
}

/// What keeps a line that looks like a header of ncu from being one.
fn broken_header(text: &str) -> Option<&'static str> {
    let (_, behind) = text.split_once("Kernel Name").or_else(|| text.split_once("Metric Name"))?;
    if !matches!(behind.trim_start_matches('"').chars().next(), None | Some(',')) {
        return Some("its fields are not separated by commas, as those of ncu's CSV are");
    }
    let has = |column: &str| text.split(',').any(|field| field.trim_matches('"') == column);
    match [has("Kernel Name"), has("Metric Name"), has("Metric Value"), has("ID")] {
        [false, true, true, _] => Some("its table has no column `Kernel Name`"),
        [true, false, true, _] => Some("its table has no column `Metric Name`"),
        [true, true, false, _] => Some("its table has no column `Metric Value`"),
        [true, true, true, false] => Some("its table has no column `ID`, which tells launches apart"),
        _ => None,
    }
}

/// The line, shortened, with control characters replaced.
pub(super) fn excerpt(line: &[u8]) -> String {
    let cut = &line[..line.len().min(MAX_LINE)];
    let text = lossy(cut);
    let clean: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if line.len() > MAX_LINE { clean + "..." } else { clean }
}

fn shorten(text: &str, chars: usize) -> String {
    let short: String = text.chars().take(chars).collect();
    if short.len() < text.len() { short + "..." } else { short }
}
