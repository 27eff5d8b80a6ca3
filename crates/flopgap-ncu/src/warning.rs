//! Warnings about a report, and the lines that belong to no table.

use std::fmt;
use std::path::Path;

use crate::FormatFault;

/// A problem that did not stop the reader, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The line of the file (CSV, from 1) or the byte offset (`.ncu-rep`); 0 where it concerns the
    /// whole file.
    pub position: u64,
    /// The problem, and how the reader handled it.
    pub kind: WarningKind,
}

impl Warning {
    /// The warning after the name of its file and, where it has one, its position: `report.csv:7:
    /// …`.
    pub fn of_file(&self, file: &Path) -> String {
        let between = if self.position == 0 { " " } else { "" };
        format!("{}:{between}{self}", file.display())
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            0 => self.kind.fmt(f),
            position => write!(f, "{position}: {}", self.kind),
        }
    }
}

/// A problem in a report.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarningKind {
    /// An id occurs again, apart from its first rows: reports were put together without their
    /// headers, or the rows of one launch stand apart. [`Reader`](crate::Reader) yields a launch
    /// for each place, and [`read`](crate::read) joins those of one kernel and shape.
    LaunchRepeated {
        /// ncu's id of the launch.
        id: u64,
        /// The process that launched it.
        process: Option<u64>,
    },
    /// Adjacent rows have one id and different kernels or shapes: reports were put together without
    /// their headers. Each kernel counts as a launch.
    IdShared {
        /// The id.
        id: u64,
        /// The process that has it.
        process: Option<u64>,
    },
    /// A count beyond 64 bits was kept as a rounded float.
    CountRounded,
    /// A cell of digits and separators that is not a number was skipped.
    NotANumber {
        /// The cell.
        text: String,
    },
    /// A row is cut off; its first fields were read.
    RowPartial {
        /// How many fields were read.
        fields: usize,
        /// Whether the file ends there.
        at_end: bool,
    },
    /// The file ends within a row, which was skipped.
    RowCut,
    /// A row with too few fields was skipped.
    RowShort {
        /// How many it has.
        fields: usize,
        /// How many the header requires.
        needed: usize,
    },
    /// A row with more fields than its header was skipped.
    RowLong {
        /// How many it has.
        fields: usize,
    },
    /// A summary row whose cells are under other headings than their own was skipped.
    RowDisplaced,
    /// A line beyond the reader's limit was skipped.
    LineTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// A summary by NVTX range has a launch in a row of every domain.
    RowsByDomain,
    /// The file cannot be read further.
    FileBroken {
        /// The underlying error.
        message: String,
    },
    /// ncu reported an error of its own or of the program.
    ProfilerFailed {
        /// ncu's message.
        message: String,
    },
    /// ncu reported that no kernel was profiled, or that it lacked a permission.
    Profiler {
        /// ncu's message.
        message: String,
    },
    /// A table has a header only.
    NoRows,
    /// Warnings or notes beyond the reader's limit were only counted.
    Unlisted {
        /// Their kind.
        what: Unlisted,
        /// How many.
        count: u64,
    },
    /// A damaged result of a `.ncu-rep` was skipped.
    ResultDamaged {
        /// The id that the launch would have.
        launch: u64,
        /// The damage.
        fault: FormatFault,
    },
    /// Metrics were left out because the string table of the `.ncu-rep` never names them.
    MetricsUnnamed {
        /// The launch's id.
        launch: u64,
        /// How many.
        metrics: usize,
    },
    /// Everything after a damage of a `.ncu-rep` was lost.
    RestDamaged {
        /// The damage.
        fault: FormatFault,
    },
    /// Results of an unknown kind were skipped.
    ResultsUnknown {
        /// Their length.
        bytes: u64,
    },
    /// The format of a `.ncu-rep` is newer than this reader.
    FormatNewer {
        /// The version of the file.
        version: u32,
        /// The newest version that is known.
        known: u32,
    },
}

/// Items that a reader only counts when there are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unlisted {
    /// Lines that belong to no table.
    Notes,
    /// Warnings.
    Warnings,
}

impl WarningKind {
    /// Whether launches or metrics are lost with it, so that a sum over the report may be too
    /// small.
    pub fn is_loss(&self) -> bool {
        match self {
            WarningKind::NotANumber { .. }
            | WarningKind::RowPartial { .. }
            | WarningKind::RowCut
            | WarningKind::RowShort { .. }
            | WarningKind::RowLong { .. }
            | WarningKind::RowDisplaced
            | WarningKind::LineTooLong { .. }
            | WarningKind::FileBroken { .. }
            | WarningKind::ResultDamaged { .. }
            | WarningKind::MetricsUnnamed { .. }
            | WarningKind::RestDamaged { .. }
            | WarningKind::ResultsUnknown { .. } => true,
            WarningKind::LaunchRepeated { .. }
            | WarningKind::IdShared { .. }
            | WarningKind::CountRounded
            | WarningKind::RowsByDomain
            | WarningKind::ProfilerFailed { .. }
            | WarningKind::Profiler { .. }
            | WarningKind::NoRows
            | WarningKind::Unlisted { .. }
            | WarningKind::FormatNewer { .. } => false,
        }
    }
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WarningKind::LaunchRepeated { id, process } => {
                write!(f, "launch {id}")?;
                if let Some(process) = process {
                    write!(f, " of process {process}")?;
                }
                f.write_str(
                    " occurs again, apart from its first rows: reports were put together without their \
                     headers, or the rows of one launch stand apart",
                )
            }
            WarningKind::IdShared { id, process } => {
                write!(f, "launch {id}")?;
                if let Some(process) = process {
                    write!(f, " of process {process}")?;
                }
                f.write_str(
                    " stands for several kernels: reports were put together without their headers, so \
                     each kernel counts as a launch of its own",
                )
            }
            WarningKind::CountRounded => f.write_str("count exceeds 64 bits; kept as a rounded float"),
            WarningKind::NotANumber { text } => write!(f, "`{text}` is not a number; skipped"),
            WarningKind::RowPartial { fields, at_end } => {
                let by = if *at_end { " by the end of the file" } else { "" };
                write!(f, "row is cut off{by}; {fields} of its fields were read")
            }
            WarningKind::RowCut => {
                f.write_str("row is cut off by the end of the file; skipped, so its launch may lack metrics")
            }
            WarningKind::RowShort { fields, needed } => {
                write!(f, "row is cut off after {fields} fields where {needed} are needed; skipped")
            }
            WarningKind::RowLong { fields } => {
                write!(f, "row has {fields} fields, more than its header; skipped")
            }
            WarningKind::RowDisplaced => f.write_str(
                "cells of this summary row are not under their headings, as ncu prints them with \
                 --page raw --print-summary per-gpu; skipped",
            ),
            WarningKind::LineTooLong { limit } => write!(f, "line exceeds {limit} bytes; skipped"),
            WarningKind::RowsByDomain => f.write_str(
                "summary by NVTX range lists a launch once for every domain of its ranges; rows of \
                 different domains must not be added",
            ),
            WarningKind::FileBroken { message } => {
                write!(f, "file is cut off or damaged here ({message}); everything before was read")
            }
            WarningKind::ProfilerFailed { message } => write!(f, "ncu reported an error: {message}"),
            WarningKind::Profiler { message } => write!(f, "ncu reported: {message}"),
            WarningKind::NoRows => f.write_str("table has no rows"),
            WarningKind::Unlisted { what, count } => {
                let what = match what {
                    Unlisted::Notes => "notes",
                    Unlisted::Warnings => "warnings",
                };
                write!(f, "{count} more {what} are not listed")
            }
            WarningKind::ResultDamaged { launch, fault } => {
                write!(f, "launch {launch} is damaged: {fault}; skipped")
            }
            WarningKind::MetricsUnnamed { launch, metrics } => {
                let (noun, verb) = if *metrics == 1 { ("metric", "has") } else { ("metrics", "have") };
                write!(f, "{metrics} {noun} of launch {launch} {verb} no name in the string table; skipped")
            }
            WarningKind::RestDamaged { fault } => {
                write!(f, "{fault}; launches before it were read, the rest is lost")
            }
            WarningKind::ResultsUnknown { bytes } => {
                write!(f, "block has {bytes} bytes of results of an unknown kind; skipped")
            }
            WarningKind::FormatNewer { version, known } => write!(
                f,
                "file format has version {version}, newer than {known}, the newest known; its additions are not read"
            ),
        }
    }
}

/// A line that belongs to no table: a message of ncu, or output of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The line, from 1.
    pub line: u64,
    /// Its text, shortened, without control characters.
    pub text: String,
}
