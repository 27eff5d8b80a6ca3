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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WarningKind {
    /// An id occurs again, apart from its first rows: reports were put together without their
    /// headers, or the rows of one launch stand apart. [`Reader`](crate::Reader) yields a launch
    /// for each place, and [`read`](crate::read) joins those of one kernel and shape.
    #[error(
        "launch {id}{} occurs again, apart from its first rows: reports were put together without their headers, or the \
         rows of one launch stand apart",
        of_process(*process)
    )]
    LaunchRepeated {
        /// ncu's id of the launch.
        id: u64,
        /// The process that launched it.
        process: Option<u64>,
    },
    /// Adjacent rows have one id and different kernels or shapes: reports were put together without
    /// their headers. Each kernel counts as a launch.
    #[error(
        "launch {id}{} stands for several kernels: reports were put together without their headers, so each kernel \
         counts as a launch of its own",
        of_process(*process)
    )]
    IdShared {
        /// The id.
        id: u64,
        /// The process that has it.
        process: Option<u64>,
    },
    /// A count beyond 64 bits was kept as a rounded float.
    #[error("count exceeds 64 bits; kept as a rounded float")]
    CountRounded,
    /// A cell of digits and separators that is not a number was skipped.
    #[error("`{text}` is not a number; skipped")]
    NotANumber {
        /// The cell.
        text: String,
    },
    /// A row is cut off; its first fields were read.
    #[error(
        "row is cut off{}; {fields} of its fields were read",
        if *at_end { " by the end of the file" } else { "" }
    )]
    RowPartial {
        /// How many fields were read.
        fields: usize,
        /// Whether the file ends there.
        at_end: bool,
    },
    /// The file ends within a row, which was skipped.
    #[error("row is cut off by the end of the file; skipped, so its launch may lack metrics")]
    RowCut,
    /// A row with too few fields was skipped.
    #[error("row is cut off after {fields} fields where {needed} are needed; skipped")]
    RowShort {
        /// How many it has.
        fields: usize,
        /// How many the header requires.
        needed: usize,
    },
    /// A row with more fields than its header was skipped.
    #[error("row has {fields} fields, more than its header; skipped")]
    RowLong {
        /// How many it has.
        fields: usize,
    },
    /// A summary row whose cells are under other headings than their own was skipped.
    #[error(
        "cells of this summary row are not under their headings, as ncu prints them with --page raw --print-summary \
         per-gpu; skipped"
    )]
    RowDisplaced,
    /// A line beyond the reader's limit was skipped.
    #[error("line exceeds {limit} bytes; skipped")]
    LineTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// A summary by NVTX range has a launch in a row of every domain.
    #[error(
        "summary by NVTX range lists a launch once for every domain of its ranges; rows of different domains must not be \
         added"
    )]
    RowsByDomain,
    /// The file cannot be read further.
    #[error("file is cut off or damaged here ({message}); everything before was read")]
    FileBroken {
        /// The underlying error.
        message: String,
    },
    /// ncu reported an error of its own or of the program.
    #[error("ncu reported an error: {message}")]
    ProfilerFailed {
        /// ncu's message.
        message: String,
    },
    /// ncu reported that no kernel was profiled, or that it lacked a permission.
    #[error("ncu reported: {message}")]
    Profiler {
        /// ncu's message.
        message: String,
    },
    /// A table has a header only.
    #[error("table has no rows")]
    NoRows,
    /// Warnings or notes beyond the reader's limit were only counted.
    #[error("{count} more {what} are not listed")]
    Unlisted {
        /// Their kind.
        what: Unlisted,
        /// How many.
        count: u64,
    },
    /// A damaged result of a `.ncu-rep` was skipped.
    #[error("launch {launch} is damaged: {fault}; skipped")]
    ResultDamaged {
        /// The id that the launch would have.
        launch: u64,
        /// The damage.
        fault: FormatFault,
    },
    /// Metrics were left out because the string table of the `.ncu-rep` never names them.
    #[error(
        "{metrics} {} of launch {launch} {} no name in the string table; skipped",
        have(*metrics)[0], have(*metrics)[1]
    )]
    MetricsUnnamed {
        /// The launch's id.
        launch: u64,
        /// How many.
        metrics: usize,
    },
    /// Everything after a damage of a `.ncu-rep` was lost.
    #[error("{fault}; launches before it were read, the rest is lost")]
    RestDamaged {
        /// The damage.
        fault: FormatFault,
    },
    /// Results of an unknown kind were skipped.
    #[error("block has {bytes} bytes of results of an unknown kind; skipped")]
    ResultsUnknown {
        /// Their length.
        bytes: u64,
    },
    /// The format of a `.ncu-rep` is newer than this reader.
    #[error(
        "file format has version {version}, newer than {known}, the newest known; its additions are not read"
    )]
    FormatNewer {
        /// The version of the file.
        version: u32,
        /// The newest version that is known.
        known: u32,
    },
}

/// Items that a reader only counts when there are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::Display)]
#[strum(serialize_all = "lowercase")]
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
        matches!(
            self,
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
                | WarningKind::ResultsUnknown { .. }
        )
    }
}

fn of_process(process: Option<u64>) -> String {
    process.map(|process| format!(" of process {process}")).unwrap_or_default()
}

fn have(metrics: usize) -> [&'static str; 2] {
    if metrics == 1 { ["metric", "has"] } else { ["metrics", "have"] }
}

/// A line that belongs to no table: a message of ncu, or output of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The line, from 1.
    pub line: u64,
    /// Its text, shortened, without control characters.
    pub text: String,
}
