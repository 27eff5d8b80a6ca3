//! Tables of Nsight Systems exports.

mod gpu;
mod host;
mod machine;

use std::path::Path;
use std::sync::Arc;

use arrow_schema::ArrowError;
use flopgap_kernels::Classifier;
use flopgap_nsys::{Error as NsysError, Placement, ProcessId, StringId, Trace};

use crate::column::{Column, int, looked_up, maybe_int};
use crate::info::Named;
use crate::table::Rows;
use crate::trace::Export;
use crate::{Error, Table};

/// An open export.
#[derive(Debug)]
pub(crate) struct Nsys {
    pub(crate) export: Export,
    classifier: Arc<Classifier>,
}

/// A table, and the table of the export that it is read from.
struct Known {
    info: Named,
    of: &'static [&'static str],
}

const fn known(name: &'static str, of: &'static [&'static str], about: &'static str) -> Known {
    Known { info: Named { name, about }, of }
}

const KNOWN: [Known; 13] = [
    known("kernels", &["CUPTI_ACTIVITY_KIND_KERNEL"], "Kernels that ran on a GPU."),
    known("copies", &["CUPTI_ACTIVITY_KIND_MEMCPY"], "Memory copies."),
    known("memsets", &["CUPTI_ACTIVITY_KIND_MEMSET"], "Memory sets."),
    known(
        "graphs",
        &["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"],
        "Launches of CUDA graphs that were traced as a whole.",
    ),
    known("ranges", &["NVTX_EVENTS"], "NVTX ranges and marks."),
    known("api_calls", &["CUPTI_ACTIVITY_KIND_RUNTIME"], "Calls of the CUDA runtime and driver."),
    known("os_calls", &["OSRT_API"], "Calls of the operating system's libraries."),
    known("profiler_overheads", &["PROFILER_OVERHEAD"], "Work of the profiler itself."),
    known("cpu_faults", &["CUDA_UM_CPU_PAGE_FAULT_EVENTS"], "Page faults of the CPU in unified memory."),
    known("gpu_faults", &["CUDA_UM_GPU_PAGE_FAULT_EVENTS"], "Page faults of GPUs in unified memory."),
    known("synchronizations", &["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"], "Waits for GPU work."),
    known("gpus", &["TARGET_INFO_GPU"], "The GPUs of the machine."),
    known("processes", &["PROCESSES"], "The processes of the recording."),
];

/// The tables that exports may have.
pub(crate) fn all() -> impl Iterator<Item = Named> {
    KNOWN.iter().map(|known| known.info)
}

impl Nsys {
    pub(crate) fn new(export: Export) -> Nsys {
        Nsys { export, classifier: Arc::new(Classifier::new()) }
    }

    pub(crate) fn tables(&self) -> Vec<Named> {
        let is_there =
            |known: &&Known| known.of.iter().any(|table| self.export.trace().schema().table(table).is_some());
        KNOWN.iter().filter(is_there).map(|known| known.info).collect()
    }

    /// Which version of nsys exported it, and the GPUs of the machine.
    #[cfg(feature = "parquet")]
    pub(crate) fn provenance(&self) -> Result<crate::parquet::Provenance, Error> {
        let entries = self.export.trace().export_metadata()?;
        let entry = |name: &str| {
            let found = entries.iter().find(|entry| &*entry.name == name);
            found.and_then(|entry| entry.value.as_deref()).map(str::to_owned)
        };
        let gpus = flopgap_files::present(self.export.trace().gpus())?.unwrap_or_default();
        let session = self.export.trace().session()?;
        let recorded = session.utc_ns.and_then(crate::parquet::since_1970);
        Ok(crate::parquet::Provenance {
            recorded: recorded.or_else(|| crate::parquet::spelled(session.utc.as_deref()?)),
            profiler: entry("EXPORT_PRODUCT_NAME").or_else(|| Some("NVIDIA Nsight Systems".to_owned())),
            profiler_version: entry("EXPORT_PRODUCT_VERSION"),
            gpu: crate::parquet::names(gpus.iter().filter_map(|gpu| gpu.name.as_deref())),
            ..Default::default()
        })
    }

    /// A table; `None` for an unknown name. Data that was not recorded is an error.
    pub(crate) fn table(&self, path: &Arc<Path>, name: &str) -> Result<Option<Table>, Error> {
        let Some(known) = KNOWN.iter().find(|known| known.info.name == name) else { return Ok(None) };
        let (name, about) = (known.info.name, known.info.about);
        let it = (name, about);
        Ok(Some(match name {
            "kernels" => self.made(path, it, gpu::kernels(self), Trace::kernels)?,
            "copies" => self.made(path, it, gpu::copies(), Trace::copies)?,
            "memsets" => self.made(path, it, gpu::memsets(), Trace::memsets)?,
            "graphs" => self.made(path, it, gpu::graphs(), Trace::graph_runs)?,
            "ranges" => self.made(path, it, host::ranges(), Trace::annotations)?,
            "api_calls" => self.made(path, it, host::api_calls(self), Trace::api_calls)?,
            "os_calls" => self.made(path, it, host::os_calls(self), Trace::os_calls)?,
            "profiler_overheads" => {
                self.made(path, it, host::profiler_overheads(self), Trace::profiler_overheads)?
            }
            "cpu_faults" => self.made(path, it, host::cpu_faults(self), Trace::cpu_page_faults)?,
            "gpu_faults" => self.made(path, it, gpu::faults(), Trace::gpu_page_faults)?,
            "synchronizations" => self.made(path, it, gpu::synchronizations(), Trace::synchronizations)?,
            "gpus" => self.made(path, it, machine::gpus(), |trace| listed(trace.gpus()))?,
            _ => self.made(path, it, machine::processes(), |trace| listed(trace.processes()))?,
        }))
    }

    fn made<R: Send + 'static, I: Iterator<Item = Result<R, NsysError>> + Send + 'static>(
        &self,
        path: &Arc<Path>,
        it: (&'static str, &'static str),
        columns: Vec<Column<R>>,
        open: fn(&Trace) -> Result<I, NsysError>,
    ) -> Result<Table, Error> {
        // A table that was not recorded is an error when it is requested, not when it is read.
        open(self.export.trace())?;
        let (trace, unpacked) = (self.export.trace().clone(), self.export.unpacked.clone());
        let rows = move || -> Result<Rows<R>, Error> {
            let (rows, unpacked) = (open(&trace)?, unpacked.clone());
            Ok(Box::new(rows.map(move |row| {
                let _keep = &unpacked;
                row.map_err(Error::from)
            })))
        };
        Ok(Table::new(path, it, columns, rows))
    }

    /// A string column whose rows hold ids of the export.
    fn string<R, I: Into<Option<StringId>>>(
        &self,
        name: &'static str,
        about: &str,
        id: impl Fn(&R) -> I + Clone + Send + Sync + 'static,
        of: impl Fn(&str) -> Option<String> + Clone + Send + Sync + 'static,
    ) -> Column<R> {
        let trace = self.export.trace().clone();
        looked_up(
            name,
            about,
            move |row| id(row).into().map(i64::from),
            move |id| {
                let text =
                    trace.string(StringId(id)).map_err(|error| ArrowError::from(Error::from(error)))?;
                Ok(text.and_then(|text| of(&text)).map(Arc::from))
            },
        )
    }
}

type Listed<T> = std::iter::Map<std::vec::IntoIter<T>, fn(T) -> Result<T, NsysError>>;

/// A short list as rows.
fn listed<T>(rows: Result<Vec<T>, NsysError>) -> Result<Listed<T>, NsysError> {
    let ok: fn(T) -> Result<T, NsysError> = Ok;
    rows.map(|rows| rows.into_iter().map(ok))
}

/// When a row began and ended.
fn times<R: 'static>(start: fn(&R) -> i64, end: fn(&R) -> i64) -> [Column<R>; 3] {
    [
        int("start_ns", "When it began, in nanoseconds since the recording began.", start),
        int("end_ns", "When it ended, the sum of `start_ns` and `duration_ns`.", end),
        int(
            "duration_ns",
            "From start to end; negative where the recording says that it ended before it began.",
            move |row| end(row).saturating_sub(start(row)),
        ),
    ]
}

/// When a row ran on a GPU.
fn times_on_gpu<R: 'static>(at: fn(&R) -> &Placement) -> [Column<R>; 3] {
    [
        int("start_ns", "When it began on the GPU, in nanoseconds since the recording began.", move |row| {
            at(row).start
        }),
        int("end_ns", "When it ended on the GPU, the sum of `start_ns` and `duration_ns`.", move |row| {
            at(row).end
        }),
        int(
            "duration_ns",
            "From start to end; negative where the recording says that it ended before it began.",
            move |row| at(row).duration(),
        ),
    ]
}

/// Where a row ran, and for whom.
fn place_on_gpu<R: 'static>(at: fn(&R) -> &Placement) -> [Column<R>; 6] {
    [
        maybe_int("pid", "The process; absent in trimmed exports.", move |row| {
            at(row).process.map(ProcessId::pid)
        }),
        int("device", "The GPU, as the process numbers them.", move |row| at(row).device.into()),
        int("context", "The CUDA context.", move |row| at(row).context.into()),
        maybe_int(
            "green_context",
            "The green context; 0 where there is none, absent before 2023.4.",
            move |row| at(row).green_context.map(i64::from),
        ),
        int("stream", "The stream.", move |row| at(row).stream.into()),
        maybe_int(
            "correlation",
            "Ties it to the call that asked for it (`api_calls.correlation`), within its process.",
            move |row| at(row).correlation.map(i64::from),
        ),
    ]
}
