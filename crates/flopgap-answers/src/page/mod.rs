//! All answers on one page: what limits a step and what it consists of, passes, kernels, kinds of
//! work, attention, memory, and when the GPU was busy; two traces are compared.
//!
//! ```
//! use flopgap_answers::open;
//! use flopgap_answers::page::{PageOptions, page};
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
//! let traces = open::open_all(&[path])?;
//! let page = page(&traces, &PageOptions::default())?;
//! assert!(page.to_markdown().starts_with("# small_forward\n"));
//! # Ok::<(), flopgap_answers::Error>(())
//! ```

mod busy;
mod difference;
mod gap;
mod memory;
mod places;
mod ranks;
mod recorded;
mod sections;
mod timeline;
mod trace;
mod work;

use flopgap_flops::Attention;
use flopgap_gap::{Difference, Gap};
use flopgap_kernels::Classifier;
use flopgap_report::html::{Block, Document};

pub use trace::{Overview, Skipped, TracePage};

use crate::error::Error;
use crate::open::Opened;
use crate::part::Part;
use crate::sentences;

/// What a page shows.
#[derive(Clone, Debug)]
pub struct PageOptions {
    /// The ranges to measure instead of those that are steps or passes by their names, and what
    /// belongs to them.
    pub part: Part,
    /// Rows of long tables.
    pub top: usize,
    /// The sizes of one attention layer, against whose FLOPs attention is measured.
    pub attention: Option<Attention>,
    /// For each trace the times that were measured outside, in nanoseconds; none where there are
    /// fewer.
    pub measured: Vec<Vec<i64>>,
    /// How much of it.
    pub sections: Sections,
}

/// How much of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sections {
    /// What it begins with: steps taken apart, and when what ran.
    First,
    /// Everything.
    #[default]
    All,
}

impl Default for PageOptions {
    fn default() -> PageOptions {
        PageOptions {
            part: Part::default(),
            top: 10,
            attention: None,
            measured: Vec::new(),
            sections: Sections::All,
        }
    }
}

/// Everything that some traces answer, on one page; two are compared. What was strange in them is
/// on the page.
///
/// # Errors
/// When a trace cannot be read; [`Error::NoAnswers`] and [`Error::NoRanges`] when none of them
/// holds what was requested.
pub fn page(traces: &[Opened], options: &PageOptions) -> Result<Document, Error> {
    let measured = |at: usize| options.measured.get(at).map(Vec::as_slice).unwrap_or_default();
    let pages = traces.iter().enumerate().map(|(at, trace)| TracePage::new(trace, options, measured(at)));
    let pages: Vec<TracePage> = pages.collect::<Result<_, Error>>()?;
    if pages.iter().all(TracePage::is_empty) {
        let paths = traces.iter().map(|trace| trace.path().to_owned()).collect();
        return Err(Error::NoAnswers { paths });
    }
    // What was asked for by name is missed, not skipped.
    if !options.part.ranges.is_empty() && pages.iter().all(|page| page.unmeasured.is_some()) {
        let reasons = pages.iter().zip(traces).filter_map(|(page, trace)| {
            Some(format!("{}: {}", trace.path().display(), page.unmeasured.as_ref()?))
        });
        return Err(Error::NoRanges { reasons: reasons.collect() });
    }
    let (mut comparison, mut compared) = (Vec::new(), Vec::new());
    if let [one, other] = traces
        && options.sections == Sections::All
    {
        compared = sections::comparison([one, other], options, &Classifier::new(), &mut comparison)?;
    }
    join(pages, comparison, compared)
}

/// The comparison of two traces first, then what limits each and its answers, then what is missing,
/// then the sections of each.
fn join(
    pages: Vec<TracePage>,
    mut comparison: Vec<String>,
    mut compared: Vec<Block>,
) -> Result<Document, Error> {
    let several = pages.len() > 1;
    // A step of two beside each other, where they compare.
    let apart: Vec<&Gap> = pages.iter().filter_map(|page| page.taken_apart.as_ref()).collect();
    let subjects = subjects(&pages);
    // The timelines in which the parts of each trace can be marked.
    let marks_in = pages
        .iter()
        .zip(&subjects)
        .map(|(page, subject)| if page.shows_parts { vec![subject.clone()] } else { Vec::new() });
    let marks_in: Vec<Vec<String>> = marks_in.collect();
    let mut beside = Vec::new();
    if let ([a, b], 2) = (apart.as_slice(), pages.len())
        && let Some(found) = Difference::of(a, b)
    {
        comparison.splice(0..0, sentences::difference(&found));
        beside = difference::blocks([a, b], &found, &marks_in)?;
        compared.splice(0..0, difference::section(&found)?);
    }
    let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    let subtitle = match pages.as_slice() {
        [one] => one.machine.clone(),
        several => format!("{} traces", several.len()),
    };
    let mut document = Document { title: names.join(", "), subtitle, blocks: Vec::new() };
    // First: an answer from a recording that lost events must be read with that in mind.
    let reported = pages.iter().flat_map(|page| {
        page.reported
            .iter()
            .map(|problem| if several { format!("{}: {problem}", page.name) } else { problem.to_string() })
    });
    let reported: Vec<String> = reported.collect();
    if !reported.is_empty() {
        document.blocks.push(Block::Problems("Problems that nsys reported".to_owned(), reported));
    }
    if !comparison.is_empty() && several {
        document.blocks.push(Block::Text(format!("A ({}) against B ({})", names[0], names[1])));
        document.blocks.push(Block::List(comparison));
    }
    let falls = beside.is_empty();
    document.blocks.extend(beside);
    for (at, page) in pages.iter().enumerate() {
        // Two are compared, and called A and B there.
        match (pages.len(), at) {
            (1, _) => {}
            (2, 0) => document.blocks.push(Block::Text(format!("A: {}", page.name))),
            (2, _) => document.blocks.push(Block::Text(format!("B: {}", page.name))),
            _ => document.blocks.push(Block::Text(page.name.clone())),
        }
        if let Some(found) = &page.taken_apart {
            document.blocks.extend(gap::blocks(found, falls, &marks_in[at])?);
            if !page.answers.is_empty() {
                document.blocks.push(Block::Text("What else the trace says:".to_owned()));
            }
        }
        if !page.answers.is_empty() {
            document.blocks.push(Block::List(page.answers.clone()));
        }
    }
    for found in pages.iter().filter_map(|page| page.taken_apart.as_ref()) {
        document.blocks.extend(places::section(found)?);
    }
    document.blocks.extend(compared);
    for (page, subject) in pages.into_iter().zip(subjects) {
        document.blocks.extend(page.into_blocks(several, &subject));
    }
    Ok(document)
}

/// What the page calls each trace where it says which timeline it means: nothing where there is
/// one.
fn subjects(pages: &[TracePage]) -> Vec<String> {
    match pages {
        [_] => vec![String::new()],
        [_, _] => ["A", "B"].map(str::to_owned).into(),
        several => several.iter().map(|page| page.name.clone()).collect(),
    }
}
