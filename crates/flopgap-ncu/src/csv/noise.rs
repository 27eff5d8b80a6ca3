//! Lines outside of tables: ncu's own messages, and the output of the profiled program.

use std::path::Path;

use crate::error::{Error, Fault, Found};
use crate::source::Context;
use crate::warning::{Note, Unlisted, WarningKind};

use super::text::lossy;

/// Notes and warnings kept one by one; further ones are only counted.
const MAX_KEPT: usize = 1000;
/// Bytes kept of a line.
const MAX_LINE: usize = 400;

/// ncu's messages about its own failure, in order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Complaint {
    NoKernels,
    Failed,
    Permission,
}

/// Collects notes and the most significant complaint.
#[derive(Debug, Default)]
pub(super) struct Noise {
    complaint: Option<(Complaint, u64, String)>,
    /// What the lines look like, for the message when there is no table.
    first: Option<String>,
    kind: Option<Found>,
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
                let message = message.clone();
                self.warn(context, number, WarningKind::ProfilerFailed { message });
            }
            // The first message of a kind gives the cause; later ones report consequences.
            if self.complaint.as_ref().is_none_or(|(known, ..)| complaint > *known) {
                self.complaint = Some((complaint, number, message));
            }
        }
        if self.kind.is_none() {
            self.kind = kind_of(&text);
        }
        self.first.get_or_insert_with(|| text.clone());
        self.note(context, number, text);
    }

    pub(super) fn note(&mut self, context: &mut Context, line: u64, text: String) {
        if context.notes.len() < MAX_KEPT {
            context.notes.push(Note { line, text });
        } else {
            self.dropped_notes += 1;
        }
    }

    pub(super) fn warn(&mut self, context: &mut Context, position: u64, kind: WarningKind) {
        if context.warnings.len() < MAX_KEPT {
            context.warn(position, kind);
        } else {
            if kind.is_loss() {
                context.lost_at.get_or_insert(position);
            }
            self.dropped_warnings += 1;
        }
    }

    /// The end of the file: what was only counted, and what ncu said about a run that left no
    /// kernel.
    pub(super) fn finish(&mut self, context: &mut Context, has_table: bool, has_launch: bool) {
        let dropped =
            [(&mut self.dropped_notes, Unlisted::Notes), (&mut self.dropped_warnings, Unlisted::Warnings)];
        for (dropped, what) in dropped {
            let count = std::mem::take(dropped);
            if count > 0 {
                context.warn(0, WarningKind::Unlisted { what, count });
            }
        }
        if has_table && !has_launch {
            context.warn(0, WarningKind::NoRows);
        }
        if let (true, Some((Complaint::NoKernels | Complaint::Permission, line, message))) =
            (has_table, &self.complaint)
        {
            context.warn(*line, WarningKind::Profiler { message: message.clone() });
        }
    }

    /// Why a file has no table.
    pub(super) fn no_table(&self, path: &Path) -> Error {
        let line = self.complaint.as_ref().map(|(_, line, _)| *line);
        let what = match &self.complaint {
            Some((Complaint::Permission, ..)) => Fault::CounterPermission,
            Some((Complaint::Failed, _, message)) => Fault::ProfilerFailed { message: message.clone() },
            Some((Complaint::NoKernels, ..)) => Fault::NoKernels,
            None => {
                let found = match (&self.kind, &self.first) {
                    (Some(kind), _) => kind.clone(),
                    (None, Some(first)) => Found::Line { text: shorten(first, 80) },
                    (None, None) => Found::Empty,
                };
                Fault::NotAReport { found }
            }
        };
        Error { path: path.to_owned(), line, what }
    }
}

/// The probable kind of a file without a table.
fn kind_of(text: &str) -> Option<Found> {
    if text.starts_with("SQLite format 3") {
        Some(Found::Sqlite)
    } else if text.starts_with("\"Kernel Name\",") {
        Some(Found::SourcePage)
    } else if text.starts_with("Section: ") || text.starts_with("Metric Name ") {
        Some(Found::TextOutput)
    } else if text.starts_with("==PROF== Report: ") {
        Some(Found::WrittenElsewhere)
    } else if text.starts_with("{\"") || text.starts_with("[{\"") {
        Some(Found::Json)
    } else {
        broken_header(text)
    }
}

/// What distinguishes a line from a header of ncu.
fn broken_header(text: &str) -> Option<Found> {
    let (_, behind) = text.split_once("Kernel Name").or_else(|| text.split_once("Metric Name"))?;
    if !matches!(behind.trim_start_matches('"').chars().next(), None | Some(',')) {
        return Some(Found::OtherSeparator);
    }
    let has = |column: &str| text.split(',').any(|field| field.trim_matches('"') == column);
    let column = match [has("Kernel Name"), has("Metric Name"), has("Metric Value"), has("ID")] {
        [false, true, true, _] => "Kernel Name",
        [true, false, true, _] => "Metric Name",
        [true, true, false, _] => "Metric Value",
        [true, true, true, false] => "ID",
        _ => return None,
    };
    Some(Found::NoColumn { column })
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
