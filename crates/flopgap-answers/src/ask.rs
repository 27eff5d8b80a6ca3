//! Questions about traces. An answer is numbers, their tables, and what they say; where a table
//! depends on how it is shown, such as that of kernels, [`tables`] has its options.
//!
//! ```
//! use flopgap_answers::{Part, ask, open};
//!
//! # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys");
//! let a = open::open(format!("{fixtures}/small_forward.sqlite.zst"))?;
//! let b = open::open(format!("{fixtures}/small_training_step.sqlite.zst"))?;
//! let scope = Part::default().of_both(a.recording(), b.recording())?;
//! let answer = ask::compare([&a, &b], [&scope, &scope])?;
//! assert_eq!(answer.data.rows[0].work.to_string(), "matmul");
//! assert!(answer.sentences[0].starts_with("Matrix products take "), "{:?}", answer.sentences);
//! # Ok::<(), flopgap_answers::Error>(())
//! ```

use flopgap_files::present;
use flopgap_flops::Attention;
use flopgap_gap::{Difference, Gap, WithCapture};
use flopgap_kernels::Classifier;
use flopgap_report::table::Table;
use flopgap_timings::attention::{AttentionTimes, Names, attention as attention_times};
use flopgap_timings::compare::{Comparison, compare as comparison};
use flopgap_timings::passes::{Passes, passes as times_of_passes};
use flopgap_timings::{Ranges, Scope};

use crate::error::Error;
use crate::open::Opened;
use crate::part::Part;
use crate::{sentences, tables};

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// Its numbers, unrounded; times are in nanoseconds.
    pub data: T,
    /// Its numbers as tables.
    pub tables: Vec<Table>,
    /// What they say, a sentence each.
    pub sentences: Vec<String>,
}

/// How long steps and passes took, on the host, on the GPU, and compared with times that were
/// measured outside, in nanoseconds.
///
/// # Errors
/// When the trace has no such ranges, or cannot be read.
pub fn passes(trace: &Opened, part: &Part, measured: Vec<i64>) -> Result<Answer<Passes>, Error> {
    let data = times_of_passes(trace.recording(), &part.passes(measured))?;
    let tables = tables::passes(&trace.name(), &data)?;
    Ok(Answer { tables, sentences: sentences::passes(&data), data })
}

/// What the parts of attention take for their FLOPs.
///
/// # Errors
/// When the trace has no such ranges, or cannot be read.
pub fn attention(
    trace: &Opened,
    part: &Part,
    sizes: Attention,
    names: Names,
) -> Result<Answer<AttentionTimes>, Error> {
    let data = attention_times(trace.recording(), &part.attention(sizes, names), &Classifier::new())?;
    Ok(Answer { tables: tables::attention(&data)?, sentences: sentences::attention(&data), data })
}

/// What the steps consist of, why the GPU does nothing, and what to change first.
///
/// # Errors
/// When the trace has no GPU work or no such ranges, or cannot be read.
pub fn gap(trace: &Opened, part: &Part) -> Result<Answer<Gap>, Error> {
    let data = taken_apart(trace, part, 0)?;
    Ok(Answer { tables: tables::gap(&trace.name(), &data)?, sentences: sentences::gap(&data), data })
}

/// The answer of [`gap`] without its tables and sentences, with at most so many of its last pieces.
pub(crate) fn taken_apart(trace: &Opened, part: &Part, pieces: usize) -> Result<Gap, Error> {
    let steps = part.named().map_or(Ranges::Steps, |scope| scope.ranges);
    let options = flopgap_gap::Options { steps, peaks: part.peaks.clone(), pieces };
    Ok(match &part.capture {
        Some(capture) => {
            let both = WithCapture::new(trace.recording(), capture.recording()).map_err(Error::Trace)?;
            flopgap_gap::gap(&both, &options)?
        }
        None => flopgap_gap::gap(trace.recording(), &options)?,
    })
}

/// By which causes a step of one trace takes longer than that of another; nothing where they do
/// not compare, or one of them has no GPU work or no such ranges.
///
/// # Errors
/// When a trace cannot be read.
pub fn difference(traces: [&Opened; 2], part: &Part) -> Result<Option<Answer<Difference>>, Error> {
    let mut gaps = Vec::new();
    for trace in traces {
        gaps.extend(present(taken_apart(trace, part, 0))?);
    }
    let [before, after] = gaps.as_slice() else { return Ok(None) };
    difference_of([before, after])
}

/// As [`difference`], of traces that were taken apart; nothing where they do not compare.
///
/// # Errors
/// When the table cannot be made.
pub fn difference_of([before, after]: [&Gap; 2]) -> Result<Option<Answer<Difference>>, Error> {
    let Some(data) = Difference::of(before, after) else { return Ok(None) };
    let tables = vec![tables::difference(&data)?];
    Ok(Some(Answer { tables, sentences: sentences::difference(&data), data }))
}

/// How the GPU time of two traces differs by kind of work, of a scope of each.
///
/// # Errors
/// When a trace has no work in its scope, or cannot be read.
pub fn compare([a, b]: [&Opened; 2], scopes: [&Scope; 2]) -> Result<Answer<Comparison>, Error> {
    let classifier = Classifier::new();
    let data = comparison((a.recording(), scopes[0]), (b.recording(), scopes[1]), &classifier)?;
    Ok(Answer { tables: tables::comparison(&data)?, sentences: sentences::compare(&data), data })
}
