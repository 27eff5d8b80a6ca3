//! Creates several reports of one trace at once.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::shared::Shared;
use super::{Report, ReportKind, ReportOptions, Sink};
use crate::{Error, Trace};

impl Trace {
    /// Makes several reports, each into a sink of its own, on as many threads as the machine has
    /// processors for; what they have in common is read once. Gives the sinks back in their order,
    /// each with how its report ended ([`Trace::report`]).
    ///
    /// ```
    /// use flopgap_nsys::{CsvSink, Report, ReportKind, ReportOptions, Trace, Units};
    ///
    /// # let database = zstd::decode_all(std::fs::File::open("../../fixtures/nsys/small_forward.sqlite.zst")?)?;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("small_forward.sqlite");
    /// # std::fs::write(&path, database)?;
    /// let trace = Trace::open(&path)?;
    /// let reports = [ReportKind::NvtxSum, ReportKind::CudaGpuKernSum, ReportKind::UmCpuPageFaultsSum].map(Report::new);
    /// let reports = reports.map(|report| (report, CsvSink::new(Vec::new(), Units::default())));
    /// let made = trace.reports(reports, ReportOptions::default());
    /// let lines = made.into_iter().map(|(csv, ended)| {
    ///     // What the trace does not hold is an error of that report alone.
    ///     ended.ok().map(|()| csv.into_inner().iter().filter(|byte| **byte == b'\n').count())
    /// });
    /// assert_eq!(lines.collect::<Vec<_>>(), [Some(9), Some(17), None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reports<S: Sink + Send>(
        &self,
        reports: impl IntoIterator<Item = (Report, S)>,
        options: ReportOptions,
    ) -> Vec<(S, Result<(), Error>)> {
        let shared = Shared::default();
        let mut waiting: Vec<(usize, Report, S)> =
            reports.into_iter().enumerate().map(|(place, (report, sink))| (place, report, sink)).collect();
        let asked = waiting.len();
        // The most expensive are started first, so that none of them is left to one thread at the
        // end.
        waiting.sort_by_key(|(_, report, _)| cost(report.kind));
        let waiting = Mutex::new(waiting);
        let work = || {
            let mut made = Vec::new();
            loop {
                let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some((place, report, mut sink)) = next else { return made };
                let ended = self.make(report, options, &shared, &mut sink);
                made.push((place, (sink, ended)));
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(asked);
        let mut made = if threads < 2 {
            work()
        } else {
            thread::scope(|scope| {
                let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
                let mut made = work();
                for worker in workers {
                    made.extend(worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
                }
                made
            })
        };
        made.sort_by_key(|(place, _)| *place);
        made.into_iter().map(|(_, made)| made).collect()
    }
}

/// Reports in order of their cost, on a trace that has all tables.
fn cost(kind: ReportKind) -> u8 {
    match kind {
        ReportKind::NvtxKernSum | ReportKind::NvtxGpuProjSum | ReportKind::NvtxGpuProjTrace => 6,
        ReportKind::CudaGpuTrace | ReportKind::NvtxPushPopTrace | ReportKind::CudaKernExecTrace => 5,
        ReportKind::CudaKernExecSum | ReportKind::CudaApiTrace => 4,
        ReportKind::NvtxSum | ReportKind::NvtxPushPopSum | ReportKind::NvtxStartEndSum => 3,
        ReportKind::CudaApiSum | ReportKind::CudaApiGpuSum | ReportKind::CudaGpuSum => 2,
        ReportKind::CudaGpuKernSum | ReportKind::CudaGpuKernGbSum => 1,
        _ => 0,
    }
}
