//! The page of one trace.

use std::fmt;
use std::path::PathBuf;

use flopgap_files::Hint as _;
use flopgap_gap::Gap;
use flopgap_nsys::Problem;
use flopgap_report::ReportError;
use flopgap_report::html::{Block, Document};
use flopgap_report::table::Table;

use super::join;
use crate::error::Error;
use crate::open::Opened;

/// What one trace answers: sentences, figures and the sections of its page.
///
/// ```
/// use flopgap_answers::open;
/// use flopgap_answers::page::{PageOptions, TracePage};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
/// let page = TracePage::new(&open::open(path)?, &PageOptions::default(), &[])?;
/// let (kernel, share) = page.overview.top.as_ref().expect("a kernel");
/// assert_eq!((kernel.as_str(), (share * 1000.0).round()), ("sm80_xmma_gemm fp32 tn 128x128x8", 524.0));
/// # Ok::<(), flopgap_answers::Error>(())
/// ```
#[derive(Debug)]
pub struct TracePage {
    /// What the page calls it: at first the name of its file, and of how many ranks it is.
    pub name: String,
    path: PathBuf,
    /// Where and for how long it was recorded, in one line.
    pub(crate) machine: String,
    /// The problems that nsys itself reported about the recording.
    pub(crate) reported: Vec<Problem>,
    /// Its steps taken apart; absent without GPU work.
    pub(crate) taken_apart: Option<Gap>,
    /// Whether its timeline shows into which parts its steps are divided.
    pub(crate) shows_parts: bool,
    /// In sentences.
    pub(crate) answers: Vec<String>,
    /// Why steps and passes, or the requested ranges, were not measured; nothing when
    /// they were.
    pub(crate) unmeasured: Option<String>,
    /// What could not be answered, and why.
    pub skipped: Vec<Skipped>,
    /// What was strange in its rows.
    warnings: Vec<String>,
    blocks: Vec<Block>,
    /// The figures that stand in an index of many.
    pub overview: Overview,
    /// Whether anything was answered beyond what was recorded.
    answered: bool,
}

/// Something that could not be answered.
#[derive(Clone, Debug)]
pub struct Skipped {
    what: String,
    why: String,
}

impl Skipped {
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    /// As a line, which begins with `name` where it is given.
    pub fn line(&self, name: Option<&str>) -> String {
        let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
        format!("SKIPPED: {name}{}: {}", self.what, self.why)
    }
}

/// The figures of a trace that stand in an index of many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// For how long it was recorded, in nanoseconds.
    pub recorded_ns: Option<i64>,
    /// How many kernels ran.
    pub kernels: Option<u64>,
    /// The time in which a GPU was busy, and from its first work to its last.
    pub gpu_ns: Option<(i128, i128)>,
    /// The kernel with the most time and its share.
    pub top: Option<(String, f64)>,
    /// The share of matrix products in the work of the GPUs.
    pub matmul: Option<f64>,
}

impl TracePage {
    /// A page without sections.
    pub(super) fn empty(trace: &Opened) -> Result<TracePage, Error> {
        Ok(TracePage {
            name: trace.title(),
            path: trace.path().to_owned(),
            machine: String::new(),
            reported: trace.problems()?,
            taken_apart: None,
            shows_parts: false,
            answers: Vec::new(),
            unmeasured: None,
            skipped: Vec::new(),
            warnings: Vec::new(),
            blocks: Vec::new(),
            overview: Overview::default(),
            answered: false,
        })
    }

    /// Adds what was strange in the rows of its trace.
    pub(super) fn warn(&mut self, trace: &Opened) {
        let strip = format!("{}: ", trace.path().display());
        let warnings = trace.warnings().into_iter();
        self.warnings.extend(
            warnings.map(|warning| warning.strip_prefix(&strip).map(str::to_owned).unwrap_or(warning)),
        );
    }

    /// The page of this trace alone.
    ///
    /// # Errors
    /// When a chart cannot be made.
    pub fn into_document(self) -> Result<Document, Error> {
        join(vec![self], Vec::new(), Vec::new())
    }

    /// Begins a section.
    pub(crate) fn heading(&mut self, text: &str) {
        self.blocks.push(Block::Heading(text.to_owned()));
    }

    /// Adds to the section.
    pub(crate) fn push(&mut self, block: Block) {
        self.answered |= !matches!(block, Block::Facts(_));
        self.blocks.push(block);
    }

    /// Adds a paragraph.
    pub(crate) fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Says that something could not be answered, which the page lists.
    pub fn skip(&mut self, what: &str, reason: impl fmt::Display) {
        let reason = reason.to_string();
        // The page is about one file: it need not be named again and again.
        let reason = reason.strip_prefix(&format!("{}: ", self.path.display())).unwrap_or(&reason);
        self.skipped.push(Skipped { what: what.to_owned(), why: reason.to_owned() });
    }

    /// The answer, or nothing when the trace does not hold it, which is then reported.
    pub(crate) fn answer<T>(
        &mut self,
        what: &str,
        found: Result<T, flopgap_timings::Error>,
    ) -> Result<Option<T>, Error> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_absence() => {
                self.skip(what, error);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Adds a table.
    pub(crate) fn table(&mut self, table: Result<Table, ReportError>) -> Result<(), Error> {
        self.push(Block::Table(table?));
        Ok(())
    }

    /// Whether nothing was answered.
    pub(crate) fn is_empty(&self) -> bool {
        !self.answered
    }

    /// What was skipped and the sections; with the trace's name before each heading when there are
    /// several traces. By `subject`, waterfalls find its timeline.
    pub(crate) fn into_blocks(self, several: bool, subject: &str) -> Vec<Block> {
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
            Block::Timeline(timeline) => Block::Timeline(timeline.subject(subject)),
            block => block,
        }));
        blocks
    }
}
