//! Options of reports that nsys does not have.

use super::{Report, ReportKind};
use crate::{AttributeBy, Attribution};

/// How reports differ from nsys's, on request; the default is nsys's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// How `nvtx_kern_sum`, `nvtx_gpu_proj_sum` and `nvtx_gpu_proj_trace` attribute GPU work to
    /// ranges.
    pub attribution: Attribution,
    /// Whether `nvtx_sum`, `nvtx_pushpop_sum`, `nvtx_startend_sum`, `nvtx_kern_sum` and
    /// `nvtx_gpu_proj_sum` group ranges by [`fold_name`](crate::fold_name).
    pub fold_names: bool,
    /// Whether `cuda_api_sum`, `cuda_api_trace` and `cuda_api_gpu_sum` count a call once that was
    /// recorded a second time with its backtrace. nsys counts both rows.
    pub calls_once: bool,
}

impl ReportOptions {
    /// The options that change a report, and no others.
    #[must_use]
    pub fn restricted_to(self, report: Report) -> ReportOptions {
        let (attributes, groups) = match report.kind {
            ReportKind::NvtxKernSum | ReportKind::NvtxGpuProjSum => (true, true),
            ReportKind::NvtxGpuProjTrace => (true, false),
            ReportKind::NvtxSum | ReportKind::NvtxPushPopSum | ReportKind::NvtxStartEndSum => (false, true),
            _ => (false, false),
        };
        let calls = matches!(
            report.kind,
            ReportKind::CudaApiSum | ReportKind::CudaApiTrace | ReportKind::CudaApiGpuSum
        );
        ReportOptions {
            attribution: if attributes { self.attribution } else { Attribution::default() },
            fold_names: groups && self.fold_names,
            calls_once: calls && self.calls_once,
        }
    }

    /// The name of a report with what sets it apart from nsys's report of that name.
    ///
    /// ```
    /// use flopgap_nsys::{AttributeBy, Attribution, Report, ReportKind, ReportOptions};
    ///
    /// let attribution = Attribution { by: AttributeBy::Process, whole_graphs: true };
    /// let options = ReportOptions { attribution, fold_names: true, calls_once: true };
    /// assert_eq!(options.title(Report::new(ReportKind::NvtxKernSum)), "nvtx_kern_sum+process+graphs+folded");
    /// assert_eq!(options.title(Report::new(ReportKind::NvtxSum)), "nvtx_sum+folded");
    /// assert_eq!(options.title(Report::new(ReportKind::CudaApiSum)), "cuda_api_sum+once");
    /// ```
    pub fn title(self, report: Report) -> String {
        let mut title = report.to_string();
        let ReportOptions { attribution, fold_names, calls_once } = self.restricted_to(report);
        for (differs, word) in [
            (attribution.by == AttributeBy::Process, "+process"),
            (attribution.whole_graphs, "+graphs"),
            (fold_names, "+folded"),
            (calls_once, "+once"),
        ] {
            if differs {
                title.push_str(word);
            }
        }
        title
    }
}
