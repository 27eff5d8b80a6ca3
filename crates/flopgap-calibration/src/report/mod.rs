//! The report: a page that compares measurements with estimates.
//!
//! [`document`] makes a [`Document`] of judged rows from any estimator: this crate's predictor
//! on rows that it did not see, or the table of another estimator. A section for which there are no
//! numbers is left out.

mod bottlenecks;
mod effects;
mod plots;
mod scenarios;
mod summary;
mod updates;
mod words;
mod worst;

use flopgap_report::ReportError;
use flopgap_report::html::{Block, Document};
use flopgap_roofline::Ceilings;

pub use scenarios::ScenarioRange;
pub use words::{duration, megabytes};

use crate::accuracy::Coverage;
use crate::judge::Judged;

/// The contents of a report.
#[derive(Debug, Clone, Default)]
pub struct ReportInput<'a> {
    /// Heading.
    pub title: String,
    /// A line below it.
    pub subtitle: String,
    /// The machine, the software, the files.
    pub facts: Vec<(String, String)>,
    /// Warnings shown before everything else.
    pub warnings: Vec<String>,
    /// The estimator, as a noun phrase: `the predictor, on rows that it did not see`.
    pub estimator: String,
    /// Whether the estimates are from this crate's predictor, whose baselines are then shown for
    /// comparison.
    pub own: bool,
    /// Measured runs with their estimates.
    pub judged: &'a [Judged],
    /// Coverage of the intervals in each regime, by series.
    pub coverage: Vec<(String, Vec<(String, Coverage)>)>,
    /// How far repeated measurements differ, by series.
    pub repeatability: Vec<(String, Option<f64>)>,
    /// Ceilings of the machine.
    pub ceilings: Option<&'a Ceilings>,
    /// Which working sets each memory scenario holds.
    pub scenarios: Vec<ScenarioRange>,
    /// What the names of charts next to a page in Markdown begin with; empty: there are none.
    pub charts: String,
}

/// Makes the page.
///
/// # Errors
/// [`ReportError`] when a table or chart cannot be made, which would be a defect of this crate.
pub fn document(input: &ReportInput<'_>) -> Result<Document, ReportError> {
    let mut blocks = Vec::new();
    if !input.warnings.is_empty() {
        blocks.push(Block::Problems("Before reading on".to_owned(), input.warnings.clone()));
    }
    if !input.facts.is_empty() {
        blocks.push(Block::Facts(input.facts.clone()));
    }
    summary::push(input, &mut blocks)?;
    bottlenecks::push(input, &mut blocks)?;
    updates::push(input, &mut blocks)?;
    scenarios::push(input, &mut blocks)?;
    effects::push(input, &mut blocks)?;
    worst::push(input, &mut blocks)?;
    plots::push(input, &mut blocks)?;
    Ok(Document { title: input.title.clone(), subtitle: input.subtitle.clone(), blocks })
}

/// Whether the estimates have a smaller mean error than every baseline, on the rows that have
/// baselines. `None` where none has.
pub fn beats_baselines(judged: &[Judged]) -> Option<bool> {
    let with = || judged.iter().filter(|row| row.baselines.is_some());
    let mape = |estimate: &dyn Fn(&Judged) -> f64| {
        let errors = with().map(|row| ((estimate(row) - row.time.measured) / row.time.measured).abs());
        errors.sum::<f64>() / with().count() as f64
    };
    with().next()?;
    let own = mape(&|row| row.time.estimated);
    Some((0..3).all(|baseline| own < mape(&|row| row.baselines.map_or(f64::NAN, |times| times[baseline]))))
}
