//! Answers about the time of traces: the libraries' own types as JSON, of which
//! `flopgap/answers.py` makes objects, with their tables.

use std::path::{Path, PathBuf};

use flopgap_answers::open::{self, File, Opened, Reading};
use flopgap_answers::page::{PageOptions, page};
use flopgap_answers::{Error, Part, ask, sentences};
use flopgap_kernels::Classifier;
use flopgap_table::{Source, answers};
use flopgap_timings::{RangePattern, WarmUp};
use flopgap_trace::{AttributeBy, Attribution};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::{AbsentError, of_hint, of_table};
use crate::read::Input;
use crate::table::Table;

/// The part of a trace to analyze, as Python gives it: ranges, ranges of warming up, how many first
/// instances to leave out, whether to leave nothing out, whether ranges own the work of their own
/// thread alone, whether all processes and GPUs are put together.
type Look = (Vec<String>, Vec<String>, Option<u64>, bool, bool, bool);

/// An answer: JSON, its tables, its sentences, and what was strange in the traces.
type Answer = (String, Vec<Table>, Vec<String>, Vec<String>);

fn part((ranges, warm_up, skip, keep, by_thread, pool): Look) -> PyResult<Part> {
    let patterns = |texts: Vec<String>| {
        let pattern = |text: &String| text.parse::<RangePattern>();
        let patterns: Result<Vec<_>, _> = texts.iter().map(pattern).collect();
        patterns.map_err(|error| PyValueError::new_err(error.to_string()))
    };
    let by = if by_thread { AttributeBy::Thread } else { AttributeBy::Process };
    Ok(Part {
        ranges: patterns(ranges)?,
        warm_up: WarmUp { names: patterns(warm_up)?, skip, keep },
        attribution: Attribution { by, ..Part::default().attribution },
        pool,
        peaks: None,
        capture: None,
    })
}

/// What a profiler recorded of time.
fn opened(py: Python<'_>, input: Input<'_>, what: &str) -> PyResult<Opened> {
    match input {
        Input::Source(source) => {
            let source = &source.get().0;
            Opened::of(source).ok_or_else(|| no_trace(source, what))
        }
        Input::Path(path) => py.detach(|| open::open(&path).map_err(|error| refused(&path, &error, what))),
    }
}

/// Why a file was not opened. What is not a trace may have tables.
fn refused(path: &Path, error: &Error, what: &str) -> PyErr {
    match Source::open(path) {
        Ok(source) => no_trace(&source, what),
        Err(_) if path.is_dir() => of_hint(error),
        Err(error) => of_table(&error),
    }
}

fn no_trace(source: &Source, what: &str) -> PyErr {
    let (path, kind) = (source.path().display(), source.kind().in_words());
    let message = format!(
        "{path}: {what} are answered of exports of Nsight Systems and traces of torch.profiler, and this is {kind}"
    );
    let hint = format!("flopgap.read has its tables: {}", names(source));
    AbsentError::new_err((message, Some(hint)))
}

fn names(source: &Source) -> String {
    source.tables().into_iter().map(|table| table.name).collect::<Vec<_>>().join(", ")
}

/// What nsys reported and what was strange.
fn warnings(traces: &[&Opened]) -> Vec<String> {
    let of = |trace: &&Opened| {
        let path = trace.path().display().to_string();
        let problems = trace.problems().unwrap_or_default().into_iter();
        problems.map(|problem| format!("{path}: {problem}")).chain(trace.warnings()).collect::<Vec<_>>()
    };
    traces.iter().flat_map(of).collect()
}

fn json(data: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(data).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Steps and passes.
#[pyfunction]
pub(crate) fn passes(py: Python<'_>, input: Input<'_>, look: Look, measured: Vec<i64>) -> PyResult<Answer> {
    let (trace, part) = (opened(py, input, "passes")?, part(look)?);
    let found = py.detach(|| ask::passes(&trace, &part, measured)).map_err(|error| of_hint(&error))?;
    let tables = vec![Table(answers::passes(trace.path(), &found.data))];
    Ok((json(&found.data)?, tables, found.sentences, warnings(&[&trace])))
}

/// Kernels by the time that they take.
#[pyfunction]
pub(crate) fn kernels(py: Python<'_>, input: Input<'_>, look: Look) -> PyResult<Answer> {
    let (trace, scope) = (opened(py, input, "kernels by time")?, part(look)?.scope());
    let found = py
        .detach(|| flopgap_timings::kernels::kernels(trace.recording(), &scope, &Classifier::new()))
        .map_err(|error| of_hint(&error))?;
    let tables = vec![Table(answers::kernels(trace.path(), &found))];
    Ok((json(&found)?, tables, sentences::kernels(&found), warnings(&[&trace])))
}

/// Steps taken apart.
#[pyfunction]
pub(crate) fn gap(
    py: Python<'_>,
    input: Input<'_>,
    ranges: Vec<String>,
    capture: Option<Input<'_>>,
) -> PyResult<Answer> {
    let trace = opened(py, input, "steps taken apart")?;
    let capture = capture.map(|input| opened(py, input, "captures")).transpose()?;
    let part = Part {
        capture: capture.map(std::sync::Arc::new),
        ..part((ranges, vec![], None, false, false, false))?
    };
    let found = py.detach(|| ask::gap(&trace, &part)).map_err(|error| of_hint(&error))?;
    Ok((json(&found.data)?, Vec::new(), found.sentences, warnings(&[&trace])))
}

/// Two traces by kind of work.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, a: Input<'_>, b: Input<'_>, look: Look, all: bool) -> PyResult<Answer> {
    let (a, b) = (opened(py, a, "comparisons")?, opened(py, b, "comparisons")?);
    let part = part(look)?;
    let found = py.detach(|| {
        let (one, other) = (a.recording(), b.recording());
        let scope = if all { part.scope() } else { part.of_both(one, other)? };
        ask::compare([&a, &b], [&scope, &scope])
    });
    let found = found.map_err(|error| of_hint(&error))?;
    let tables = vec![Table(answers::comparison(a.path(), &found.data))];
    Ok((json(&found.data)?, tables, found.sentences, warnings(&[&a, &b])))
}

/// Two traces before and after a change.
#[pyfunction]
pub(crate) fn diff(
    py: Python<'_>,
    before: Input<'_>,
    after: Input<'_>,
    look: Look,
    all: bool,
    keep_layers: bool,
) -> PyResult<Answer> {
    #[derive(Serialize)]
    struct Data<'a> {
        #[serde(flatten)]
        diff: &'a flopgap_timings::diff::Diff,
        same_work: bool,
        verdict: String,
    }
    let (before, after) = (opened(py, before, "differences")?, opened(py, after, "differences")?);
    let part = part(look)?;
    let options = flopgap_timings::diff::Options { keep_layers };
    let found = py.detach(|| {
        let (one, other) = (before.recording(), after.recording());
        let scope = if all { part.scope() } else { part.of_both(one, other)? };
        flopgap_timings::diff::diff((one, &scope), (other, &scope), options, &Classifier::new())
    });
    let found = found.map_err(|error| of_hint(&error))?;
    let path = after.path();
    let tables =
        vec![Table(answers::kernel_changes(path, &found)), Table(answers::range_changes(path, &found))];
    let data = Data { diff: &found, same_work: found.same_work(), verdict: sentences::verdict(&found) };
    Ok((json(&data)?, tables, sentences::diff(&found), warnings(&[&before, &after])))
}

/// The page of traces: as HTML, Markdown and JSON.
#[pyfunction]
pub(crate) fn summary(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    look: Look,
    measured: Vec<i64>,
    top: usize,
) -> PyResult<(String, String, String)> {
    let measured = vec![measured; paths.len()];
    let options = PageOptions { part: part(look)?, top, measured, ..PageOptions::default() };
    let page = py.detach(|| {
        let read = |path: &PathBuf| File::read(path).map_err(|error| refused(path, &error, "summaries"));
        let files = paths.iter().map(read).collect::<PyResult<Vec<File>>>()?;
        let traces = open::together(files, Reading::AsRecorded).map_err(|error| of_hint(&error))?.traces;
        page(&traces, &options).map_err(|error| of_hint(&error))
    })?;
    let other = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    Ok((
        page.to_html().map_err(|error| other(&error))?,
        page.to_markdown(),
        page.to_json().map_err(|error| other(&error))?,
    ))
}
