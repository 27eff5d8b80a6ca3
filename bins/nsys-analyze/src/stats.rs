//! `flopgap nsys stats TRACE…`: the reports of `nsys stats`.

use std::io;
use std::path::PathBuf;

use flopgap_cli::Failure;
use flopgap_nsys::{Column, Error, Report, ReportOptions, ReportTable, Sink, Value};

use crate::PROGRAM;
use crate::attribution::AttributionArguments;
use crate::filter::FilterArguments;
use crate::opening::{Opener, warn_all};
use crate::output::{Nothing, Output, OutputArguments};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys stats fixtures/nsys/small_forward.sqlite.zst --report cuda_gpu_kern_sum,nvtx_sum
  flopgap nsys stats fixtures/nsys/small_forward.sqlite.zst --timeunit usec --format csv -o reports")]
pub(crate) struct Arguments {
    /// Exports of `nsys export --type sqlite`.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Reports by nsys's names, such as `cuda_gpu_kern_sum:base,nvtx_sum`; without, those that nsys
    /// makes by default.
    #[arg(long, short, value_delimiter = ',', value_name = "REPORT")]
    report: Vec<Report>,
    #[command(flatten)]
    filter: FilterArguments,
    #[command(flatten)]
    attribution: AttributionArguments,
    /// Beyond nsys: group ranges whose names differ in a number alone, such as `op_id = 123`, in
    /// summaries of NVTX ranges.
    #[arg(long)]
    fold_names: bool,
    /// Beyond nsys: count a CUDA API call once that was recorded a second time with its backtrace.
    #[arg(long)]
    calls_once: bool,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let reports =
        if arguments.report.is_empty() { Report::DEFAULT.as_slice() } else { arguments.report.as_slice() };
    let options = ReportOptions {
        attribution: arguments.attribution.into(),
        fold_names: arguments.fold_names,
        calls_once: arguments.calls_once,
    };
    let differing: Vec<String> = reports
        .iter()
        .filter(|report| options.restricted_to(**report) != ReportOptions::default())
        .map(|report| options.title(*report))
        .collect();
    if !differing.is_empty() {
        let differing = differing.join(", ");
        opener.console().note(format_args!("differs from `nsys stats` by request: {differing}"));
    } else if options != ReportOptions::default() {
        let message =
            "--attribute, --whole-graphs, --fold-names and --calls-once change none of the requested reports";
        flopgap_cli::warn(PROGRAM, message);
    }
    let mut output =
        Output::new(&arguments.output, reports.len() * arguments.traces.len(), opener.console())?;
    for path in &arguments.traces {
        let (export, file) = opener.open_nsys(path, "reports of `nsys stats`")?;
        let filtered = arguments.filter.apply(&export)?;
        let trace = filtered.as_ref().unwrap_or(&export);
        // Summaries are made together and held; what has a row for every event is written as it is
        // read.
        let summaries = reports.iter().filter(|report| !report.kind.is_trace());
        let made = trace.reports(
            summaries.map(|report| (*report, Named { report: *report, table: ReportTable::default() })),
            options,
        );
        let mut made: Vec<_> = made.into_iter().map(|(named, ended)| (named, Some(ended))).collect();
        for report in reports {
            output.report(trace, &options.title(*report), Nothing::IsAbsence, |sink| {
                let summary =
                    made.iter_mut().find(|(named, ended)| named.report == *report && ended.is_some());
                let Some((Named { table, .. }, ended)) = summary else {
                    return trace.report_with(*report, options, sink);
                };
                ended.take().unwrap_or(Ok(()))?;
                table.replay(sink).map_err(|source| Error::Output { source })
            })?;
        }
        warn_all(&file);
    }
    output.end()
}

/// A report with the rows that were made for it.
struct Named {
    report: Report,
    table: ReportTable,
}

impl Sink for Named {
    fn columns(&mut self, columns: &'static [Column]) -> io::Result<()> {
        self.table.columns(columns)
    }

    fn row(&mut self, row: &[Value]) -> io::Result<()> {
        self.table.row(row)
    }
}
