//! `nsys-analyze stats TRACE…`: the reports of `nsys stats`.

use std::path::PathBuf;

use flopgap_cli::Failure;
use flopgap_nsys::Report;

use crate::filter::FilterArguments;
use crate::output::{Nothing, Output, OutputArguments};
use crate::{open, warn_all};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Exports of `nsys export --type sqlite`.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Reports by nsys's names, such as `cuda_gpu_kern_sum:base,nvtx_sum`; without, those that nsys makes by default.
    #[arg(long, short, value_delimiter = ',', value_name = "REPORT")]
    report: Vec<Report>,
    #[command(flatten)]
    filter: FilterArguments,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let reports =
        if arguments.report.is_empty() { Report::DEFAULT.as_slice() } else { arguments.report.as_slice() };
    let mut output = Output::new(&arguments.output, reports.len() * arguments.traces.len())?;
    for path in &arguments.traces {
        let trace = arguments.filter.apply(open(path)?)?;
        for report in reports {
            output.report(&trace, &report.to_string(), Nothing::IsAbsence, |sink| {
                trace.report(*report, sink)
            })?;
        }
        warn_all(&trace);
    }
    output.end()
}
