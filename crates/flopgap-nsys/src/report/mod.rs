//! nsys's reports: the same names, columns, rows, order and digits.

mod api;
mod exec;
mod exec_sum;
mod gpu_trace;
pub(crate) mod group;
mod memory;
mod names;
mod nvtx;
mod nvtx_kernels;
mod options;
mod projection;
mod pushpop;
mod several;
mod shared;
mod summary;
mod table;
mod unified;

use std::fmt;
use std::str::FromStr;

pub use options::ReportOptions;
pub(crate) use table::Columns;
pub use table::{Column, CsvSink, ReportTable, Sink, TimeUnit, Unit, Units, Value};

use flopgap_files::{ErrorKind, Hint};

use crate::{Error, KernelName, Trace};
use shared::Shared;

macro_rules! kinds {
    ($($(#[$doc:meta])+ $kind:ident = $name:literal, $takes_name:literal;)+) => {
        /// Which report.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ReportKind {
            $($(#[$doc])+ $kind,)+
        }

        impl ReportKind {
            /// All reports.
            pub const ALL: &'static [ReportKind] = &[$(ReportKind::$kind),+];

            /// Its name in nsys.
            pub fn name(self) -> &'static str {
                match self {
                    $(ReportKind::$kind => $name,)+
                }
            }

            /// Whether it has a row for every event, not for every name: as many as the trace.
            pub fn is_trace(self) -> bool {
                self.name().ends_with("_trace")
            }

            /// Whether it can name a range with each kernel (`:nvtx-name`).
            fn names_ranges(self) -> bool {
                use ReportKind::{CudaApiGpuSum, CudaGpuKernSum, CudaGpuSum};
                matches!(self, CudaApiGpuSum | CudaGpuKernSum | CudaGpuSum)
            }

            /// Whether it shows kernels, so that `:base` and `:mangled` mean something.
            fn shows_kernels(self) -> bool {
                match self {
                    $(ReportKind::$kind => $takes_name,)+
                }
            }
        }
    };
}

kinds! {
    /// GPU time by kernel, and host time by API call.
    CudaApiGpuSum = "cuda_api_gpu_sum", true;
    /// Host time by CUDA API call.
    CudaApiSum = "cuda_api_sum", false;
    /// Every CUDA API call.
    CudaApiTrace = "cuda_api_trace", false;
    /// GPU time by kernel, grid and block.
    CudaGpuKernGbSum = "cuda_gpu_kern_gb_sum", true;
    /// GPU time by kernel.
    CudaGpuKernSum = "cuda_gpu_kern_sum", true;
    /// Bytes by kind of memory operation.
    CudaGpuMemSizeSum = "cuda_gpu_mem_size_sum", false;
    /// GPU time by kind of memory operation.
    CudaGpuMemTimeSum = "cuda_gpu_mem_time_sum", false;
    /// GPU time by kernel and kind of memory operation.
    CudaGpuSum = "cuda_gpu_sum", true;
    /// Every kernel and memory operation.
    CudaGpuTrace = "cuda_gpu_trace", true;
    /// Launch, wait and run times by kernel.
    CudaKernExecSum = "cuda_kern_exec_sum", true;
    /// Launch, wait and run time of every kernel.
    CudaKernExecTrace = "cuda_kern_exec_trace", true;
    /// NVTX ranges projected onto the GPU, by range name.
    NvtxGpuProjSum = "nvtx_gpu_proj_sum", false;
    /// Every NVTX range projected onto the GPU.
    NvtxGpuProjTrace = "nvtx_gpu_proj_trace", false;
    /// GPU time by kernel and the NVTX ranges that launched it.
    NvtxKernSum = "nvtx_kern_sum", true;
    /// Host time by push/pop range.
    NvtxPushPopSum = "nvtx_pushpop_sum", false;
    /// Every push/pop range with its place in the tree.
    NvtxPushPopTrace = "nvtx_pushpop_trace", false;
    /// Host time by start/end range.
    NvtxStartEndSum = "nvtx_startend_sum", false;
    /// Host time by NVTX range.
    NvtxSum = "nvtx_sum", false;
    /// Host time by call of the operating system's libraries.
    OsrtSum = "osrt_sum", false;
    /// CPU page faults of unified memory by instruction.
    UmCpuPageFaultsSum = "um_cpu_page_faults_sum", false;
    /// Migrations and page faults of unified memory by page, the fastest migrations first.
    UmSum = "um_sum", false;
    /// Migrations and page faults of unified memory in all.
    UmTotalSum = "um_total_sum", false;
}

/// A report to make: what it is, and which kernel names it shows.
///
/// ```
/// use flopgap_nsys::{KernelName, Report, ReportKind};
///
/// let report: Report = "cuda_gpu_kern_sum:base".parse().unwrap();
/// assert_eq!((report.kind, report.names), (ReportKind::CudaGpuKernSum, KernelName::Base));
/// assert_eq!(report.to_string(), "cuda_gpu_kern_sum:base");
/// assert!("cuda_api_sum:base".parse::<Report>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which report.
    pub kind: ReportKind,
    /// Which kernel names it shows.
    pub names: KernelName,
    /// Whether each kernel's name follows that of the innermost NVTX range around its launch, as
    /// `range/kernel` (`:nvtx-name`); only in the summaries of kernels by name.
    pub in_range: bool,
    /// How many rows at most; nothing: all of them. Only `um_sum` has a limit (`:rows=N`, −1 for
    /// all), 10 as with nsys.
    pub rows: Option<usize>,
}

impl Report {
    /// What `nsys stats` makes when no report is named, as far as this crate has it, in nsys's
    /// order.
    pub const DEFAULT: [Report; 9] = [
        Report::new(ReportKind::NvtxSum),
        Report::new(ReportKind::OsrtSum),
        Report::new(ReportKind::CudaApiSum),
        Report::new(ReportKind::CudaGpuKernSum),
        Report::new(ReportKind::CudaGpuMemTimeSum),
        Report::new(ReportKind::CudaGpuMemSizeSum),
        Report::new(ReportKind::UmSum),
        Report::new(ReportKind::UmTotalSum),
        Report::new(ReportKind::UmCpuPageFaultsSum),
    ];

    /// A report with demangled kernel names.
    pub const fn new(kind: ReportKind) -> Report {
        Report { kind, names: KernelName::Demangled, in_range: false, rows: Report::limit(kind) }
    }

    /// How many rows nsys shows at most.
    const fn limit(kind: ReportKind) -> Option<usize> {
        if matches!(kind, ReportKind::UmSum) { Some(10) } else { None }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        f.write_str(if self.in_range { ":nvtx-name" } else { "" })?;
        f.write_str(match self.names {
            KernelName::Demangled => "",
            KernelName::Base => ":base",
            KernelName::Mangled => ":mangled",
        })?;
        match self.rows {
            rows if rows == Report::limit(self.kind) => Ok(()),
            Some(rows) => write!(f, ":rows={rows}"),
            None => f.write_str(":rows=-1"),
        }
    }
}

/// A text that names no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown report `{text}`; there are {}", known())]
pub struct UnknownReport {
    text: String,
}

fn known() -> String {
    let names: Vec<&str> = ReportKind::ALL.iter().map(|kind| kind.name()).collect();
    let arguments = "those with kernels also with `:base` or `:mangled`, cuda_gpu_kern_sum, cuda_gpu_sum and cuda_api_gpu_sum with \
                     `:nvtx-name`, um_sum with `:rows=N`";
    format!("{} ({arguments})", names.join(", "))
}

impl Hint for UnknownReport {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }
}

impl FromStr for Report {
    type Err = UnknownReport;

    fn from_str(text: &str) -> Result<Report, UnknownReport> {
        let unknown = || UnknownReport { text: text.to_owned() };
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let kind = *ReportKind::ALL.iter().find(|kind| kind.name() == name).ok_or_else(unknown)?;
        let mut report = Report::new(kind);
        for argument in parts {
            match argument.split_once('=') {
                None if argument == "nvtx-name" && kind.names_ranges() => report.in_range = true,
                None if argument == "base" && kind.shows_kernels() => report.names = KernelName::Base,
                None if argument == "mangled" && kind.shows_kernels() => report.names = KernelName::Mangled,
                Some(("rows", rows)) if Report::limit(kind).is_some() => {
                    report.rows = usize::try_from(rows.parse::<i64>().map_err(|_| unknown())?).ok();
                }
                _ => return Err(unknown()),
            }
        }
        Ok(report)
    }
}

impl Trace {
    /// Makes a report, row by row.
    ///
    /// # Errors
    /// [`Error::NoTable`] and [`Error::NoColumn`] when the trace does not hold what the report
    /// needs ([`Error::is_absence`]); then nothing was written.
    pub fn report(&self, report: Report, sink: &mut dyn Sink) -> Result<(), Error> {
        self.report_with(report, ReportOptions::default(), sink)
    }

    /// [`Trace::report`] with options that nsys does not have.
    ///
    /// # Errors
    /// As [`Trace::report`].
    pub fn report_with(
        &self,
        report: Report,
        options: ReportOptions,
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        self.make(report, options, &Shared::default(), sink)
    }

    fn make(
        &self,
        report: Report,
        options: ReportOptions,
        shared: &Shared,
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        let (names, options) = (report.names, options.restricted_to(report));
        match report.kind {
            ReportKind::CudaApiSum => api::sum(self, options, sink),
            ReportKind::CudaApiTrace => api::trace(self, options, sink),
            ReportKind::CudaGpuKernGbSum => summary::kernels_by_shape(self, names, sink),
            ReportKind::CudaGpuKernSum => summary::kernels(self, shared, report, sink),
            ReportKind::CudaGpuMemSizeSum => memory::sizes(self, shared, sink),
            ReportKind::CudaGpuMemTimeSum => memory::times_of(self, shared, sink),
            ReportKind::CudaApiGpuSum | ReportKind::CudaGpuSum => {
                summary::gpu(self, shared, report, options, sink)
            }
            ReportKind::CudaGpuTrace => gpu_trace::trace(self, names, sink),
            ReportKind::CudaKernExecSum => exec_sum::sum(self, names, sink),
            ReportKind::CudaKernExecTrace => exec::trace(self, names, sink),
            ReportKind::NvtxGpuProjSum => projection::sum(self, options, sink),
            ReportKind::NvtxGpuProjTrace => projection::trace(self, options, sink),
            ReportKind::NvtxKernSum => nvtx_kernels::kernels(self, names, options, sink),
            ReportKind::NvtxPushPopSum => nvtx::sum(self, shared, nvtx::Styles::PushPop, options, sink),
            ReportKind::NvtxPushPopTrace => pushpop::trace(self, sink),
            ReportKind::NvtxStartEndSum => nvtx::sum(self, shared, nvtx::Styles::StartEnd, options, sink),
            ReportKind::NvtxSum => nvtx::sum(self, shared, nvtx::Styles::Both, options, sink),
            ReportKind::OsrtSum => api::osrt(self, sink),
            ReportKind::UmCpuPageFaultsSum => unified::cpu_faults(self, sink),
            ReportKind::UmSum => unified::pages(self, report.rows, sink),
            ReportKind::UmTotalSum => unified::totals(self, sink),
        }
    }

    /// Runs the writing half of a report: errors of its sink are [`Error::Output`].
    #[expect(clippy::unused_self, reason = "it is a part of making a report of this trace")]
    pub(crate) fn writing(&self, body: impl FnOnce() -> std::io::Result<()>) -> Result<(), Error> {
        body().map_err(|source| Error::Output { source })
    }
}
