//! `nsys-analyze stats TRACE…`: the reports of `nsys stats`.

use std::path::PathBuf;

use flopgap_cli::Failure;
use flopgap_nsys::{Error, Report, ReportTable};

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
    output: OutputArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let reports =
        if arguments.report.is_empty() { Report::DEFAULT.as_slice() } else { arguments.report.as_slice() };
    let mut output = Output::new(&arguments.output, reports.len() * arguments.traces.len())?;
    for path in &arguments.traces {
        let trace = open(path)?;
        // Summaries are made together and held; what has a row for every event is written as it is read.
        let summaries = reports.iter().filter(|report| !report.kind.is_trace());
        let mut made = trace.reports(summaries.map(|report| (*report, ReportTable::default()))).into_iter();
        for report in reports {
            output.report(&trace, &report.to_string(), Nothing::IsAbsence, |sink| {
                if report.kind.is_trace() {
                    return trace.report(*report, sink);
                }
                let Some((table, ended)) = made.next() else { return Ok(()) };
                ended?;
                table.replay(sink).map_err(|source| Error::Io { path: trace.path().to_owned(), source })
            })?;
        }
        warn_all(&trace);
    }
    output.end()
}
