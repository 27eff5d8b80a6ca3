//! What a file is, and what is asked about it.

use std::path::Path;

use flopgap_answers::{Opened, Part, open as trace};
use flopgap_cli::Failure;
use flopgap_gap::gap;
use flopgap_table::Source;
use serde_json::{Map, Value, json};

use crate::content::{self, Content};

/// What a file is: its kind, its tables, of a trace the GPUs and steps, and the tools that answer.
pub(super) fn open(path: &Path) -> Result<Value, Failure> {
    let content = content::of(path)?;
    let mut answer = Map::new();
    answer.insert("file".to_owned(), path.display().to_string().into());
    answer.insert("is".to_owned(), in_words(content).into());
    answer.insert("tools".to_owned(), tools(content).into());
    let opened = if content == Content::Trace { Some(trace::open(path)?) } else { None };
    if let Some(trace) = &opened {
        answer.insert("trace".to_owned(), of_trace(trace));
    }
    // An export that is open is not unpacked again.
    let own = opened.as_ref().and_then(Opened::source);
    if let Some(source) = own.or_else(|| Source::open(path).ok()) {
        let tables = source.tables();
        let tables = tables.iter().map(|table| (table.name.to_string(), Value::from(&*table.about)));
        answer.insert("tables".to_owned(), Value::Object(tables.collect()));
    }
    Ok(answer.into())
}

fn of_trace(trace: &Opened) -> Value {
    let activity = trace.recording().gpu_activity(Part::default().attribution).unwrap_or_default();
    let start = activity.iter().map(|gpu| gpu.start).min();
    let end = activity.iter().map(|gpu| gpu.end).max();
    let mut about = Map::new();
    about.insert("kernels".to_owned(), activity.iter().map(|gpu| gpu.kernels).sum::<u64>().into());
    if let (Some(start), Some(end)) = (start, end) {
        about.insert("gpu_work_spans_ns".to_owned(), (end - start).into());
    }
    match gap(trace.recording(), &flopgap_gap::Options::default()) {
        Ok(gap) => {
            about.insert("gpus".to_owned(), gap.gpus.into());
            about.insert("steps".to_owned(), json!({
                "name": gap.step, "found_by": gap.found_by, "measured": gap.measured, "mean_ns": gap.step_ns,
            }));
        }
        Err(error) => {
            about.insert("no_steps".to_owned(), error.to_string().into());
        }
    }
    about.insert("warnings".to_owned(), trace.warnings().into());
    about.into()
}

fn in_words(content: Content) -> &'static str {
    match content {
        Content::Trace => "a trace of Nsight Systems or torch.profiler",
        Content::Recording => "a recording of Nsight Systems, which nsys must export",
        Content::Report => "reports of Nsight Compute",
        Content::Record => "counts of one network by hyper-profile",
        Content::Run => "a run directory of hyper-profile",
        Content::Model => "a model",
        Content::Language => "the configuration of a language model",
        Content::Calibration => "measurements of networks on a machine",
        Content::Bench => "results of flopgap bench",
        Content::DataSet => "a data set of run-table",
    }
}

fn tools(content: Content) -> Vec<&'static str> {
    match content {
        Content::Trace => vec!["gap", "kernels", "diff", "rows"],
        Content::Recording => vec!["gap", "kernels"],
        Content::Report => vec!["kernels", "diff", "rows"],
        Content::Record => vec!["kernels"],
        Content::Model | Content::Language => vec!["estimate"],
        Content::Bench => vec!["diff", "rows"],
        Content::Run | Content::Calibration => vec!["rows"],
        Content::DataSet => Vec::new(),
    }
}
