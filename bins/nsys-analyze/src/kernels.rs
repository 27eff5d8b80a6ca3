//! `nsys-analyze kernels TRACE`: where the GPU time of a trace or a range went, by kernel and by class.

use std::path::PathBuf;

use flopgap_cli::{Exit, Failure, FormatArg};
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_nsys::{AttributeBy, Attribution, Summary};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table, TextOptions};

use crate::attribution::AttributionArguments;
use crate::{failure, open, warn_all};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// An export of `nsys export --type sqlite`.
    trace: PathBuf,
    /// Only kernels launched within NVTX ranges of this name, such as `forward` or `domain:forward`.
    #[arg(long, value_name = "NAME")]
    range: Option<String>,
    #[command(flatten)]
    attribution: AttributionArguments,
    /// Leave out kernels of these classes, such as `matmul,copy`.
    #[arg(long, value_delimiter = ',', value_name = "CLASS")]
    exclude: Vec<KernelClass>,
    /// Show at most this many kernels.
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t)]
    format: FormatArg,
}

/// A kernel of the trace.
struct Row {
    name: String,
    class: KernelClass,
    times: Summary,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let trace = open(&arguments.trace)?;
    let attribution = Attribution::from(arguments.attribution);
    let times = trace.kernel_times_by(arguments.range.as_deref(), attribution).map_err(|error| {
        let exit = if error.is_absence() { Exit::Absent } else { Exit::Failed };
        failure(&error).exit(exit)
    })?;
    warn_all(&trace);
    let classifier = Classifier::new();
    // Shares are of everything that ran, also of what is left out below.
    let all: i128 = times.iter().map(|(_, times)| times.total).sum();
    let rows = times.into_iter().map(|(name, times)| {
        let info = classifier.get(&name);
        Row { name: info.short.clone(), class: info.class, times }
    });
    let mut rows: Vec<Row> = rows.filter(|row| !arguments.exclude.contains(&row.class)).collect();
    rows.truncate(arguments.top.unwrap_or(usize::MAX));
    if rows.is_empty() {
        return Err(Failure::new(format!("{}: no kernel is left to show", arguments.trace.display()))
            .hint("the range launched none on its own thread (try --attribute process), or all are of an excluded class")
            .exit(Exit::Absent));
    }
    let mut title = match &arguments.range {
        Some(range) if attribution.by == AttributeBy::Process => {
            format!("Kernels launched within `{range}`, by process")
        }
        Some(range) => format!("Kernels launched within `{range}`"),
        None => "Kernels".to_owned(),
    };
    if attribution.whole_graphs {
        title.push_str(", with whole graphs");
    }
    let table = table(&title, &rows, all).map_err(|error| Failure::from_error(&error))?;
    let text = table.render(arguments.format.into(), &TextOptions::for_stdout());
    flopgap_cli::print(&text.map_err(|error| Failure::from_error(&error))?)
}

fn table(title: &str, rows: &[Row], all: i128) -> Result<Table, ReportError> {
    let mut table = Table::new(
        title,
        [
            Column::text("kernel", "kernel"),
            Column::text("class", "class"),
            Column::number("calls", "calls"),
            Column::number("total_ns", "total").unit("ns"),
            Column::number("mean_ns", "mean").unit("ns"),
            Column::number("share", "share"),
        ],
    )?;
    for row in rows {
        let share =
            if all > 0 { Cell::percent(row.times.total as f64 / all as f64, 2) } else { Cell::Absent };
        table.push([
            Cell::text(&row.name),
            Cell::text(row.class.as_str()),
            Cell::from(row.times.count),
            Cell::from(row.times.total),
            Cell::float(row.times.mean, 1),
            share,
        ])?;
    }
    Ok(table)
}
