//! Answers about the time of traces: the libraries' own types as JSON, of which
//! `flopgap/answers.py` makes objects, with their tables.

use std::path::PathBuf;

use flopgap_cli::{Exit, Failure};
use flopgap_kernels::Classifier;
use flopgap_table::{Source, answers};
use flopgap_timings::compare::scopes;
use flopgap_timings::{RangePattern, Ranges, Scope, WarmUp};
use flopgap_trace::{AttributeBy, Attribution, Recording};
use nsys_analyze::sentences;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::{AbsentError, InputError, of_timings};
use crate::read::Input;
use crate::table::Table;

/// The part of a trace to analyze, as Python gives it: ranges, ranges of warming up, how many first
/// instances to leave out, whether to leave nothing out, whether ranges own the work of their own
/// thread alone, whether all processes and GPUs are put together.
type Look = (Vec<String>, Vec<String>, Option<u64>, bool, bool, bool);

/// An answer: JSON, its tables, its sentences, and what was strange in the traces.
type Answer = (String, Vec<Table>, Vec<String>, Vec<String>);

/// A [`Look`], read.
struct Wanted {
    ranges: Vec<RangePattern>,
    warm_up: WarmUp,
    attribution: Attribution,
    pool: bool,
}

impl Wanted {
    fn of((ranges, warm_up, skip, keep, by_thread, pool): Look) -> PyResult<Wanted> {
        let patterns = |texts: Vec<String>| {
            let pattern = |text: &String| text.parse::<RangePattern>();
            let patterns: Result<Vec<_>, _> = texts.iter().map(pattern).collect();
            patterns.map_err(|error| PyValueError::new_err(error.to_string()))
        };
        let by = if by_thread { AttributeBy::Thread } else { AttributeBy::Process };
        Ok(Wanted {
            ranges: patterns(ranges)?,
            warm_up: WarmUp { names: patterns(warm_up)?, skip, keep },
            // Graphs that were traced as a whole are work like any other.
            attribution: Attribution { by, whole_graphs: true },
            pool,
        })
    }

    fn scope(&self, ranges: Ranges) -> Scope {
        Scope { ranges, warm_up: self.warm_up.clone(), attribution: self.attribution, pool: self.pool }
    }

    /// The requested ranges.
    fn named(&self) -> Option<Scope> {
        (!self.ranges.is_empty()).then(|| self.scope(Ranges::Named(self.ranges.clone())))
    }

    /// For two traces: the requested ranges, else the steps where both mark some, else
    /// everything.
    fn of_both(
        &self,
        a: &dyn Recording,
        b: &dyn Recording,
        all: bool,
    ) -> Result<Scope, flopgap_timings::Error> {
        match self.named() {
            Some(scope) => Ok(scope),
            None if all => Ok(self.scope(Ranges::All)),
            None => scopes(a, b, &self.scope(Ranges::Steps)),
        }
    }
}

/// What a profiler recorded of time.
fn recording<'a>(source: &'a Source, what: &str) -> PyResult<&'a dyn Recording> {
    source.recording().ok_or_else(|| {
        let (path, kind) = (source.path().display(), source.kind().in_words());
        let message = format!(
            "{path}: {what} are answered of exports of Nsight Systems and traces of torch.profiler, and this is {kind}"
        );
        let hint = format!("flopgap.read has its tables: {}", names(source));
        AbsentError::new_err((message, Some(hint)))
    })
}

fn names(source: &Source) -> String {
    source.tables().into_iter().map(|table| table.name).collect::<Vec<_>>().join(", ")
}

/// What nsys reported and what was strange.
fn warnings(sources: &[&Source]) -> Vec<String> {
    let of = |source: &&Source| {
        let problems = source.nsys().and_then(|trace| trace.problems().ok()).unwrap_or_default();
        let path = source.path().display().to_string();
        let problems = problems.into_iter().map(move |problem| format!("{path}: {problem}"));
        problems.chain(source.warnings()).collect::<Vec<_>>()
    };
    sources.iter().flat_map(of).collect()
}

fn json(data: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(data).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Steps and passes.
#[pyfunction]
pub(crate) fn passes(py: Python<'_>, input: Input<'_>, look: Look, measured: Vec<i64>) -> PyResult<Answer> {
    let (source, wanted) = (input.open(py)?, Wanted::of(look)?);
    let trace = recording(&source, "passes")?;
    let options = flopgap_timings::passes::Options {
        ranges: wanted.ranges,
        warm_up: wanted.warm_up,
        attribution: wanted.attribution,
        measured,
        no_instances: false,
        pool: wanted.pool,
    };
    let found =
        py.detach(|| flopgap_timings::passes::passes(trace, &options)).map_err(|error| of_timings(&error))?;
    let tables = vec![Table(answers::passes(source.path(), &found))];
    Ok((json(&found)?, tables, sentences::passes(&found), warnings(&[&source])))
}

/// Kernels by the time that they take.
#[pyfunction]
pub(crate) fn kernels(py: Python<'_>, input: Input<'_>, look: Look) -> PyResult<Answer> {
    let (source, wanted) = (input.open(py)?, Wanted::of(look)?);
    let trace = recording(&source, "kernels by time")?;
    let scope = wanted.named().unwrap_or_else(|| wanted.scope(Ranges::All));
    let found = py
        .detach(|| flopgap_timings::kernels::kernels(trace, &scope, &Classifier::new()))
        .map_err(|error| of_timings(&error))?;
    let tables = vec![Table(answers::kernels(source.path(), &found))];
    Ok((json(&found)?, tables, sentences::kernels(&found), warnings(&[&source])))
}

/// Two traces by kind of work.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, a: Input<'_>, b: Input<'_>, look: Look, all: bool) -> PyResult<Answer> {
    let (a, b, wanted) = (a.open(py)?, b.open(py)?, Wanted::of(look)?);
    let traces = (recording(&a, "comparisons")?, recording(&b, "comparisons")?);
    let found = py.detach(|| {
        let scope = wanted.of_both(traces.0, traces.1, all)?;
        flopgap_timings::compare::compare((traces.0, &scope), (traces.1, &scope), &Classifier::new())
    });
    let found = found.map_err(|error| of_timings(&error))?;
    let tables = vec![Table(answers::comparison(a.path(), &found))];
    Ok((json(&found)?, tables, sentences::compare(&found), warnings(&[&a, &b])))
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
    let (before, after, wanted) = (before.open(py)?, after.open(py)?, Wanted::of(look)?);
    let traces = (recording(&before, "differences")?, recording(&after, "differences")?);
    let options = flopgap_timings::diff::Options { keep_layers };
    let found = py.detach(|| {
        let scope = wanted.of_both(traces.0, traces.1, all)?;
        let classifier = Classifier::new();
        flopgap_timings::diff::diff((traces.0, &scope), (traces.1, &scope), options, &classifier)
    });
    let found = found.map_err(|error| of_timings(&error))?;
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
    let wanted = Wanted::of(look)?;
    let options = nsys_analyze::PageOptions {
        ranges: wanted.ranges,
        top,
        warm_up: wanted.warm_up,
        attribute: wanted.attribution.by,
        pool: wanted.pool,
        measured,
    };
    let page = py.detach(|| {
        // A compressed export is unpacked while it is read, and only so long.
        let sources: Result<Vec<Source>, _> = paths.iter().map(Source::open).collect();
        let sources = sources.map_err(|error| crate::errors::of_table(&error))?;
        let mut files = Vec::new();
        for source in &sources {
            files.push(recording(source, "summaries")?.path().to_owned());
        }
        nsys_analyze::page(&files, &options).map_err(|failure| of_failure(&failure))
    })?;
    let other = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    Ok((
        page.to_html().map_err(|error| other(&error))?,
        page.to_markdown(),
        page.to_json().map_err(|error| other(&error))?,
    ))
}

fn of_failure(failure: &Failure) -> PyErr {
    let arguments = (failure.message(), (!failure.hints().is_empty()).then(|| failure.hints().join("; ")));
    match failure.code() {
        Exit::Absent => AbsentError::new_err(arguments),
        _ => InputError::new_err(arguments),
    }
}
