//! The page of one trace while it is made.

use std::fmt;
use std::path::{Path, PathBuf};

use flopgap_cli::Failure;
use flopgap_hint::Hint as _;
use flopgap_nsys::Problem;
use flopgap_report::html::Block;
use flopgap_timings::Error;

use crate::answer::{name_of, report, unanswered};

/// What one trace answers.
pub(crate) struct OfTrace {
    pub(crate) name: String,
    path: PathBuf,
    /// Where and for how long it was recorded, in one line.
    pub(super) machine: String,
    /// The problems that nsys itself reported about the recording.
    pub(super) reported: Vec<Problem>,
    /// In sentences.
    pub(crate) answers: Vec<String>,
    /// Why steps and passes, or the requested ranges, were not measured; nothing when
    /// they were.
    pub(super) unmeasured: Option<String>,
    /// What could not be answered, and why.
    pub(crate) skipped: Vec<Skipped>,
    /// What was strange in its rows.
    warnings: Vec<String>,
    blocks: Vec<Block>,
    pub(crate) overview: Overview,
    /// Whether anything was answered beyond what was recorded.
    answered: bool,
}

/// Something that could not be answered.
#[derive(Debug, Clone)]
pub(crate) struct Skipped {
    what: String,
    why: String,
}

impl Skipped {
    pub(super) fn why(&self) -> &str {
        &self.why
    }

    /// As a line, which begins with `name` where it is given.
    pub(crate) fn line(&self, name: Option<&str>) -> String {
        let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
        format!("SKIPPED: {name}{}: {}", self.what, self.why)
    }
}

/// The figures of a trace that stand in an index of many.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Overview {
    /// For how long it was recorded, in nanoseconds.
    pub(crate) recorded_ns: Option<i64>,
    /// How many kernels ran.
    pub(crate) kernels: Option<u64>,
    /// The time in which a GPU was busy, and from its first work to its last.
    pub(crate) gpu_ns: Option<(i128, i128)>,
    /// The kernel with the most time and its share.
    pub(crate) top: Option<(String, f64)>,
    /// The share of matrix products in the work of the GPUs.
    pub(crate) matmul: Option<f64>,
}

impl OfTrace {
    pub(crate) fn new(path: &Path) -> OfTrace {
        OfTrace {
            name: name_of(path),
            path: path.to_owned(),
            machine: String::new(),
            reported: Vec::new(),
            answers: Vec::new(),
            unmeasured: None,
            skipped: Vec::new(),
            warnings: Vec::new(),
            blocks: Vec::new(),
            overview: Overview::default(),
            answered: false,
        }
    }

    /// Begins a section.
    pub(super) fn heading(&mut self, text: &str) {
        self.blocks.push(Block::Heading(text.to_owned()));
    }

    /// Adds to the section.
    pub(super) fn push(&mut self, block: Block) {
        self.answered |= !matches!(block, Block::Facts(_));
        self.blocks.push(block);
    }

    /// Adds a paragraph.
    pub(super) fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Says that something could not be answered.
    pub(super) fn skip(&mut self, what: &str, reason: impl fmt::Display) {
        let reason = reason.to_string();
        // The page is about one file: it need not be named again and again.
        let reason = reason.strip_prefix(&format!("{}: ", self.path.display())).unwrap_or(&reason);
        self.skipped.push(Skipped { what: what.to_owned(), why: reason.to_owned() });
    }

    /// Says that a report could not be written.
    pub(crate) fn skip_report(&mut self, report: flopgap_nsys::Report, reason: impl fmt::Display) {
        self.skip(&report.to_string(), reason);
    }

    /// The answer, or nothing when the trace does not hold it, which is then reported.
    pub(super) fn answer<T>(&mut self, what: &str, found: Result<T, Error>) -> Result<Option<T>, Failure> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_absence() => {
                self.skip(what, error);
                Ok(None)
            }
            Err(error) => Err(unanswered(&error)),
        }
    }

    /// Adds a table.
    pub(super) fn table(
        &mut self,
        table: Result<flopgap_report::table::Table, flopgap_report::ReportError>,
    ) -> Result<(), Failure> {
        let table = table.map_err(|error| report(&error))?;
        self.push(Block::Table(table));
        Ok(())
    }

    pub(super) fn warnings(&mut self, warnings: impl Iterator<Item = String>) {
        self.warnings.extend(warnings);
    }

    /// Whether nothing was answered.
    pub(super) fn is_empty(&self) -> bool {
        !self.answered
    }

    /// What was skipped and the sections; with the trace's name before each heading when there are
    /// several traces.
    pub(super) fn into_blocks(self, several: bool) -> Vec<Block> {
        let mut blocks = Vec::new();
        let name = |text: String| if several { format!("{}: {text}", self.name) } else { text };
        // In JSON the problems of all traces are one list, without titles: there each names its
        // trace.
        let own = several.then_some(self.name.as_str());
        let skipped: Vec<String> = self.skipped.iter().map(|skipped| skipped.line(own)).collect();
        let warnings: Vec<String> = self.warnings.into_iter().map(name).collect();
        for (title, problems) in [("Not in the trace", skipped), ("Strange rows", warnings)] {
            if !problems.is_empty() {
                blocks.push(Block::Problems(name(title.to_owned()), problems));
            }
        }
        blocks.extend(self.blocks.into_iter().map(|block| match block {
            Block::Heading(text) => Block::Heading(name(text)),
            block => block,
        }));
        blocks
    }
}
