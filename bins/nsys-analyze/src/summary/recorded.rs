//! What was recorded.

use std::collections::BTreeMap;

use flopgap_cli::Failure;
use flopgap_hint::Hint as _;
use flopgap_nsys::{Error, GpuActivity, Report, ReportKind, ReportOptions, ReportTable, Trace, Value};
use flopgap_report::html::Block;
use flopgap_report::numbers::group_thousands;

use super::page::OfTrace;
use crate::failure;
use crate::sentences::time;

/// Tool, machine, duration and counts; `calls` is `cuda_api_sum`.
pub(super) fn section(
    page: &mut OfTrace,
    trace: &Trace,
    activity: &[GpuActivity],
    calls: Option<&ReportTable>,
) -> Result<(), Failure> {
    let recording = Recording::read(trace).map_err(|error| failure(&error))?;
    let mut facts = vec![("file".to_owned(), trace.path().display().to_string())];
    let mut fact =
        |name: &str, value: Option<String>| facts.extend(value.map(|value| (name.to_owned(), value)));
    let gpus: Vec<String> = recording.gpus.iter().map(|(id, name)| format!("{name} ({id})")).collect();
    fact("GPU", (!gpus.is_empty()).then(|| gpus.join(", ")));
    fact("exported by nsys", trace.schema().product.clone());
    fact("schema", trace.schema().version.clone());
    fact("recorded for", recording.duration.map(|ns| time(ns as f64)));
    fact("began (UTC)", recording.began);
    fact("program", recording.command);
    let sum = |count: fn(&GpuActivity) -> u64| {
        (!activity.is_empty()).then(|| activity.iter().map(count).sum::<u64>()).filter(|sum| *sum > 0)
    };
    let kernels = sum(|gpu| gpu.kernels);
    fact("kernels", kernels.map(group_thousands));
    fact("CUDA graphs as a whole", sum(|gpu| gpu.graphs).map(group_thousands));
    fact("memory copies", sum(|gpu| gpu.copies).map(group_thousands));
    fact("memory sets", sum(|gpu| gpu.sets).map(group_thousands));
    fact("CUDA API calls", calls.map(api_calls).map(group_thousands));
    let ranges = match trace.nvtx_ranges() {
        Ok(nvtx) => Some(nvtx.ranges.len() as u64),
        Err(error) if error.is_absence() => None,
        Err(error) => return Err(failure(&error)),
    };
    fact("NVTX ranges", ranges.map(group_thousands));
    let tool = trace.schema().product.as_ref().map(|version| format!("exported by nsys {version}"));
    let duration = recording.duration.map(|ns| format!("recorded for {}", time(ns as f64)));
    let gpus = recording.gpus.iter().map(|(_, name)| name.clone());
    page.machine = gpus.chain(tool).chain(duration).collect::<Vec<_>>().join(", ");
    page.overview.recorded_ns = recording.duration;
    page.overview.kernels = kernels;
    page.heading("What was recorded");
    page.push(Block::Facts(facts));
    Ok(())
}

/// What a trace says about its recording; exports of different ages say different things.
struct Recording {
    /// The machine's GPUs by number, with their names.
    gpus: Vec<(i64, String)>,
    /// For how long nsys recorded, in nanoseconds.
    duration: Option<i64>,
    /// When it began, in UTC.
    began: Option<String>,
    /// The program that was recorded, with its arguments.
    command: Option<String>,
}

impl Recording {
    fn read(trace: &Trace) -> Result<Recording, Error> {
        let session = trace.session()?;
        let gpus = match trace.gpus() {
            Err(error) if error.is_absence() => Vec::new(),
            gpus => gpus?,
        };
        let gpus: BTreeMap<i64, String> =
            gpus.into_iter().filter_map(|gpu| Some((gpu.id, gpu.name?.to_string()))).collect();
        let mut words: BTreeMap<u32, String> = BTreeMap::new();
        for entry in trace.capture_metadata()? {
            let word = entry.name.strip_prefix("PROCESS_0:");
            let place = word.and_then(|word| match word {
                "COMMAND" => Some(0),
                word => word.strip_prefix("ARGUMENT_")?.parse::<u32>().ok()?.checked_add(1),
            });
            if let (Some(place), Some(value)) = (place, entry.value) {
                words.insert(place, value.to_string());
            }
        }
        let command = words.contains_key(&0).then(|| words.into_values().collect::<Vec<_>>().join(" "));
        Ok(Recording {
            gpus: gpus.into_iter().collect(),
            duration: session.span.and_then(|(start, stop)| stop.checked_sub(start)),
            began: session.utc.map(|utc| utc.to_string()),
            command,
        })
    }
}

/// How many CUDA API calls were made.
fn api_calls(table: &ReportTable) -> i128 {
    let at = table.columns.iter().position(|column| column.title == "Num Calls");
    let calls = table.rows.iter().filter_map(|row| match row.get(at?) {
        Some(Value::Int(calls)) => Some(*calls),
        _ => None,
    });
    calls.sum()
}

/// A report of nsys, in which a call counts once however often it was recorded; nothing when the
/// trace does not hold its data.
pub(super) fn report(trace: &Trace, kind: ReportKind) -> Result<Option<ReportTable>, Failure> {
    let mut table = ReportTable::default();
    let options = ReportOptions { calls_once: true, ..ReportOptions::default() };
    match trace.report_with(Report::of(kind), options, &mut table) {
        Ok(()) if table.rows.is_empty() => Ok(None),
        Ok(()) => Ok(Some(table)),
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(failure(&error)),
    }
}
