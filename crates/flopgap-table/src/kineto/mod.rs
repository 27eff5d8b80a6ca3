//! Tables of `torch.profiler` traces: those of an export of nsys in the same columns, and
//! operators.

mod gpu;
mod host;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use flopgap_kernels::Classifier;
use flopgap_kineto::{GpuKind, GpuWork, Job, Thread, Trace};

use crate::column::Column;
use crate::info::Named;
use crate::table::Rows;
use crate::{Error, Table};

/// A trace that has been read.
#[derive(Debug)]
pub(crate) struct Kineto {
    pub(crate) trace: Arc<Trace>,
    /// When its first event began.
    begin: i64,
    /// The process of its calls.
    pid: Option<i64>,
    classifier: Arc<Classifier>,
    job: OnceLock<Option<Arc<Job>>>,
}

/// A row of a list of a trace.
struct Row<T: 'static> {
    trace: Arc<Trace>,
    begin: i64,
    pid: Option<i64>,
    list: fn(&Trace) -> &[T],
    at: usize,
}

impl<T> Row<T> {
    fn it(&self) -> &T {
        &(self.list)(&self.trace)[self.at]
    }

    fn since_begin(&self, time: i64) -> i64 {
        time.saturating_sub(self.begin)
    }

    fn pid(&self) -> Option<i64> {
        self.pid
    }

    fn thread(&self, place: u32) -> Option<&Thread> {
        self.trace.threads.get(place as usize)
    }
}

/// The tables in the order in which they are listed.
pub(crate) const TABLES: [Named; 6] = [
    Named { name: "operators", about: "Calls of operators of the framework, with its own FLOPs." },
    Named { name: "kernels", about: "Kernels that ran on a GPU." },
    Named { name: "copies", about: "Memory copies." },
    Named { name: "memsets", about: "Memory sets." },
    Named { name: "ranges", about: "Ranges that were marked on the host." },
    Named { name: "api_calls", about: "Calls of the CUDA runtime and driver." },
];

impl Kineto {
    pub(crate) fn open(path: &Path) -> Result<Kineto, Error> {
        let trace = Trace::options().without_shapes(true).open(path)?;
        let pid = trace.calls.first().and_then(|call| trace.threads.get(call.thread as usize)?.process);
        let begin = trace.begin().unwrap_or_default();
        Ok(Kineto {
            trace: Arc::new(trace),
            begin,
            pid,
            classifier: Arc::new(Classifier::new()),
            job: OnceLock::new(),
        })
    }

    /// The trace as `flopgap-timings` asks it.
    pub(crate) fn job(&self) -> Option<&Arc<Job>> {
        self.job.get_or_init(|| Job::of(vec![Trace::clone(&self.trace)]).ok().map(Arc::new)).as_ref()
    }

    pub(crate) fn tables(&self) -> Vec<Named> {
        let has = |kind: GpuKind| self.trace.gpu_work.iter().any(|work| work.kind == kind);
        let is_there = |table: &Named| match table.name {
            "operators" => !self.trace.operators.is_empty(),
            "kernels" => has(GpuKind::Kernel),
            "copies" => has(GpuKind::Copy),
            "memsets" => has(GpuKind::Memset),
            "ranges" => !self.trace.annotations.is_empty(),
            _ => !self.trace.calls.is_empty(),
        };
        TABLES.into_iter().filter(is_there).collect()
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn provenance(&self) -> crate::parquet::Provenance {
        let rank = self.trace.distributed.as_ref().and_then(|job| job.rank);
        crate::parquet::Provenance {
            profiler: Some("torch.profiler".to_owned()),
            gpu: crate::parquet::names(self.trace.devices.iter().filter_map(|gpu| gpu.name.as_deref())),
            recorded: self.trace.recorded().and_then(|(begin, _)| crate::parquet::since_1970(begin)),
            others: rank.map(|rank| ("rank".to_owned(), rank.to_string())).into_iter().collect(),
            ..Default::default()
        }
    }

    pub(crate) fn table(&self, path: &Arc<Path>, name: &str) -> Option<Table> {
        let it = self.tables().into_iter().find(|table| table.name == name)?;
        let it = (it.name, it.about);
        Some(match it.0 {
            "operators" => self.made(path, it, host::operators(), |trace| &trace.operators, |_| true),
            "kernels" => {
                self.work(path, it, gpu::kernels(&self.classifier), |work| work.kind == GpuKind::Kernel)
            }
            "copies" => self.work(path, it, gpu::copies(), |work| work.kind == GpuKind::Copy),
            "memsets" => self.work(path, it, gpu::memsets(), |work| work.kind == GpuKind::Memset),
            "ranges" => self.made(path, it, host::ranges(), |trace| &trace.annotations, |_| true),
            _ => self.made(path, it, host::api_calls(), |trace| &trace.calls, |_| true),
        })
    }

    fn work(
        &self,
        path: &Arc<Path>,
        it: (&'static str, &'static str),
        columns: Vec<Column<Row<GpuWork>>>,
        wanted: fn(&GpuWork) -> bool,
    ) -> Table {
        self.made(path, it, columns, |trace| &trace.gpu_work, wanted)
    }

    fn made<T: 'static>(
        &self,
        path: &Arc<Path>,
        it: (&'static str, &'static str),
        columns: Vec<Column<Row<T>>>,
        list: fn(&Trace) -> &[T],
        wanted: fn(&T) -> bool,
    ) -> Table {
        let (trace, begin, pid) = (self.trace.clone(), self.begin, self.pid);
        Table::new(path, it, columns, move || {
            let trace = trace.clone();
            let count = list(&trace).len();
            let rows = (0..count).map(move |at| Row { trace: trace.clone(), begin, pid, list, at });
            Ok(Box::new(rows.filter(move |row| wanted(row.it())).map(Ok)) as Rows<Row<T>>)
        })
    }
}
