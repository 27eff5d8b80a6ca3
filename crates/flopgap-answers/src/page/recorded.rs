//! What was recorded.

use std::collections::{BTreeMap, BTreeSet};

use flopgap_files::present;
use flopgap_kineto::{Device, Job};
use flopgap_nsys::{
    Job as ExportsJob, Report, ReportKind, ReportOptions, ReportTable, Trace as Export, Value,
};
use flopgap_report::html::Block;
use flopgap_report::numbers::group_thousands;
use flopgap_table::Trace;
use flopgap_timings::occupancy::Occupancy;
use flopgap_trace::{Attribution, GpuActivity, Recording as _};

use super::trace::TracePage;
use crate::error::Error;
use crate::open::Opened;
use crate::sentences::time;

/// Says where and for how long it was recorded, in one line; what else a trace says about that.
pub(crate) fn machine(page: &mut TracePage, opened: &Opened) -> Result<Recorded, Error> {
    let recording = match opened.trace() {
        Trace::Nsys(trace) => Recorded::of_export(trace)?,
        Trace::Exports(job) => Recorded::of_exports(job)?,
        Trace::Kineto(job) => Recorded::of_job(job),
    };
    let duration = opened.recording().span()?;
    let duration = duration.and_then(|(start, stop)| stop.checked_sub(start));
    let tool = match opened.trace() {
        Trace::Nsys(_) | Trace::Exports(_) => {
            recording.product.as_ref().map(|version| format!("exported by nsys {version}"))
        }
        Trace::Kineto(job) => {
            job.processes().first().map(|process| format!("recorded by {}", process.profiler.name()))
        }
    };
    let lasted = duration.map(|ns| format!("recorded for {}", time(ns as f64)));
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, name) in recording.gpus.iter().filter(|(_, name)| !name.is_empty()) {
        *kinds.entry(name).or_default() += 1;
    }
    let gpus = kinds.into_iter().map(|(name, count)| match count {
        1 => name.to_owned(),
        several => format!("{several} × {name}"),
    });
    page.machine = gpus.chain(tool).chain(lasted).collect::<Vec<_>>().join(", ");
    page.overview.recorded_ns = duration;
    Ok(recording)
}

/// Tool, machine, duration and counts; `calls` is `cuda_api_sum`.
pub(crate) fn section(
    page: &mut TracePage,
    opened: &Opened,
    activity: &[GpuActivity],
    occupancy: &Occupancy,
    calls: Option<i128>,
) -> Result<(), Error> {
    let trace = opened.recording();
    let recording = machine(page, opened)?;
    let duration = page.overview.recorded_ns;
    let mut facts = vec![("file".to_owned(), recording.files)];
    let mut fact =
        |name: &str, value: Option<String>| facts.extend(value.map(|value| (name.to_owned(), value)));
    let mut gpus: Vec<String> = recording.gpus.iter().map(|(id, name)| format!("{name} ({id})")).collect();
    // What worked is there, whether its name was recorded or not.
    let used: BTreeSet<i64> = occupancy.gpus().iter().filter_map(|gpu| Some(gpu.place.gpu?.0)).collect();
    let unnamed = used.iter().filter(|id| recording.gpus.iter().all(|(known, _)| known != *id));
    gpus.extend(unnamed.map(|id| format!("name not recorded ({id})")));
    fact("GPU", (!gpus.is_empty()).then(|| gpus.join(", ")));
    fact("exported by nsys", recording.product);
    fact("schema", recording.schema);
    fact("ranks", recording.ranks);
    fact("recorded for", duration.map(|ns| time(ns as f64)));
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
    fact("CUDA API calls", calls.map(group_thousands));
    let ranges = present(trace.ranges())?;
    fact("ranges", ranges.map(|nvtx| group_thousands(nvtx.ranges.len() as u64)));
    page.overview.kernels = kernels;
    page.heading("What was recorded");
    page.push(Block::Facts(facts));
    Ok(())
}

/// What a trace says about its recording; traces of different tools and ages say different things.
#[derive(Default)]
pub(crate) struct Recorded {
    files: String,
    /// The machine's GPUs by number, with their names.
    gpus: Vec<(i64, String)>,
    /// The version of nsys that exported it.
    product: Option<String>,
    /// The version of the export.
    schema: Option<String>,
    /// The ranks of a job.
    ranks: Option<String>,
    /// When it began, in UTC.
    began: Option<String>,
    /// The program that was recorded, with its arguments.
    command: Option<String>,
}

impl Recorded {
    fn of_export(trace: &Export) -> Result<Recorded, Error> {
        let session = trace.session()?;
        let gpus = present(trace.gpus())?.unwrap_or_default().into_iter();
        let gpus: BTreeMap<i64, String> =
            gpus.filter_map(|gpu| Some((gpu.id.0, gpu.name?.to_string()))).collect();
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
        Ok(Recorded {
            files: trace.path().display().to_string(),
            gpus: gpus.into_iter().collect(),
            product: trace.schema().product.clone(),
            schema: trace.schema().version.clone(),
            ranks: None,
            began: session.utc.map(|utc| utc.to_string()),
            command,
        })
    }

    /// What the exports of a job say; of what differs, that of the first.
    fn of_exports(job: &ExportsJob) -> Result<Recorded, Error> {
        let parts = job.traces().map(|trace| Recorded::of_export(trace));
        let parts: Vec<Recorded> = parts.collect::<Result<_, Error>>()?;
        let files = parts.iter().map(|part| part.files.as_str()).collect::<Vec<_>>().join(", ");
        let gpus: BTreeSet<(i64, String)> = parts.iter().flat_map(|part| part.gpus.clone()).collect();
        let first = parts.into_iter().next().unwrap_or_default();
        Ok(Recorded { files, gpus: gpus.into_iter().collect(), ..first })
    }

    /// Of the GPUs of a machine, those that the job used.
    fn of_job(job: &Job) -> Recorded {
        let processes = job.processes();
        let files: Vec<String> = processes.iter().map(|process| process.path.display().to_string()).collect();
        let mut gpus: BTreeMap<i64, String> = BTreeMap::new();
        for process in processes {
            let named = |device: &Device| Some((device.id?.0, device.name.clone()?));
            gpus.extend(process.devices.iter().filter_map(named));
        }
        let used: BTreeSet<i64> = job
            .gpu_activity(Attribution::default())
            .map(|activity| activity.iter().map(|gpu| gpu.device.0).collect())
            .unwrap_or_default();
        gpus.retain(|device, _| used.is_empty() || used.contains(device));
        let ranks = processes.iter().filter_map(|process| {
            let distributed = process.distributed.as_ref()?;
            Some((distributed.rank?, distributed.world_size, distributed.backend.clone()))
        });
        let ranks: Vec<_> = ranks.collect();
        let said = ranks.first().map(|(_, size, backend)| {
            let numbers: Vec<String> = ranks.iter().map(|(rank, _, _)| rank.to_string()).collect();
            let of = size.map(|size| format!(" of {size}")).unwrap_or_default();
            let by = backend.as_ref().map(|backend| format!(", by {backend}")).unwrap_or_default();
            format!("{}{of}{by}", numbers.join(", "))
        });
        Recorded {
            files: files.join(", "),
            gpus: gpus.into_iter().collect(),
            ranks: said,
            ..Recorded::default()
        }
    }
}

/// How many CUDA API calls were made.
pub(crate) fn api_calls(table: &ReportTable) -> i128 {
    let at = table.columns.iter().position(|column| column.title == "Num Calls");
    let calls = table.rows.iter().filter_map(|row| match row.get(at?) {
        Some(Value::Int(calls)) => Some(*calls),
        _ => None,
    });
    calls.sum()
}

/// A report of nsys, in which a call counts once however often it was recorded; nothing when the
/// trace does not hold its data.
pub(crate) fn report(trace: &Export, kind: ReportKind) -> Result<Option<ReportTable>, Error> {
    let mut table = ReportTable::default();
    let options = ReportOptions { calls_once: true, ..ReportOptions::default() };
    let reported = present(trace.report_with(Report::new(kind), options, &mut table))?;
    Ok(reported.map(|()| table).filter(|table| !table.rows.is_empty()))
}
