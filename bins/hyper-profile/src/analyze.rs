//! `flopgap profile analyze RUN`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flopgap_cli::{Console, Exit, Failure, OutputArgs};
use flopgap_files::{create_folder, write_atomic};
use flopgap_phases::Strictness;
use flopgap_phases::sweep::{Config, MetricsRow, Problem, RunAnalysis, RunError, write_metrics};
use flopgap_report::numbers::group_thousands;
use flopgap_report::table::{Format, TextOptions};

use crate::plots::{self, Measured};
use crate::{configurations, failure, page, tables};

/// Longer tables are not printed to a terminal; the summary and the files have all rows.
const LISTED: usize = 200;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap profile analyze fixtures/runs/h200-pytorch -o analysis
  flopgap profile analyze fixtures/runs/h200-default --no-plots --format csv -o analysis")]
pub(crate) struct Arguments {
    /// The run directory, which contains raw/
    run: PathBuf,
    /// Write no plots and no report.html, only the metrics
    #[arg(long)]
    no_plots: bool,
    /// Print the metrics only, and write nothing
    #[arg(long, conflicts_with_all = ["no_plots", "output"])]
    no_files: bool,
    /// Accept recordings that cannot be of their networks: launches are missing, or counts are
    /// below theory
    #[arg(long)]
    force: bool,
    /// Output format of the metrics on standard output
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,
    /// Write processed/, plots/ and report.html to this directory instead of the run directory
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Configurations whose problems were already printed while they were measured.
    #[arg(skip)]
    named: BTreeSet<Config>,
}

impl Arguments {
    /// The arguments of `analyze RUN` without options, or with `--no-plots`; the problems of
    /// `named` configurations have already been printed.
    pub(crate) fn of_run(run: &Path, no_plots: bool, named: BTreeSet<Config>) -> Arguments {
        let run = run.to_owned();
        let (force, no_files) = (false, false);
        Arguments { run, no_plots, no_files, force, format: Format::default(), output: None, named }
    }
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let progress = OnceLock::new();
    let strictness = Strictness::forced_if(arguments.force);
    let analysis = console.timed(format_args!("{}: analyzed", arguments.run.display()), || {
        flopgap_phases::sweep::analyze(&arguments.run, strictness, |_done, all| {
            progress.get_or_init(|| console.progress(all as u64, "configurations")).advance(1);
        })
    });
    if let Some(progress) = progress.get() {
        progress.finish();
    }
    let analysis = analysis.map_err(|error| failure::of_run(&error))?;
    let complete = configurations(analysis.configs.len());
    let origin = match page::origin_line(&analysis) {
        line if line.is_empty() => "its origin is not recorded".to_owned(),
        line => line,
    };
    console.detail(format_args!("{}: run directory, {complete}; {origin}", arguments.run.display()));
    let is_new = |problem: &&Problem| problem.config.is_none_or(|config| !arguments.named.contains(&config));
    let problems = Problem::grouped(analysis.problems.iter().filter(is_new));
    for problem in problems.iter().chain(&analysis.warnings) {
        console.warn(failure::of_problem(problem));
    }
    if let Some(note) = page::taken_over(&analysis) {
        console.note(note);
    }
    let refused = analysis.refused();
    analysis.require_complete(&arguments.run).map_err(|error| match refused {
        0 => failure::of_run(&error),
        _ => failure::of_run(&error).exit(Exit::Failed),
    })?;

    let mut rows: Vec<MetricsRow> = Vec::with_capacity(2 * analysis.configs.len());
    for (config, one) in &analysis.configs {
        rows.extend(MetricsRow::of(*config, one)?);
    }
    if !arguments.no_files {
        let target = arguments.output.as_deref().unwrap_or(&arguments.run);
        write_files(arguments, &analysis, &rows, target, console)?;
    }
    print(&rows, analysis.requested().len(), arguments.format, console)?;
    if refused == 0 {
        return Ok(());
    }
    let all = configurations(analysis.requested().len());
    Err(Failure::new(format!("{} of {all} refused; each is named above", group_thousands(refused as u64))))
}

fn write_files(
    arguments: &Arguments,
    analysis: &RunAnalysis,
    rows: &[MetricsRow],
    target: &Path,
    console: Console,
) -> Result<(), Failure> {
    let processed = target.join("processed");
    create_folder(&processed).map_err(RunError::from).map_err(|error| failure::of_run(&error))?;
    let metrics = processed.join("metrics.csv");
    write_metrics(&metrics, rows).map_err(|error| failure::of_run(&error))?;
    console.note(format_args!("{} in {}", configurations(analysis.configs.len()), metrics.display()));
    if arguments.no_plots {
        return Ok(());
    }
    let folder = target.join("plots");
    let measured = Measured::new(rows, analysis);
    let origin = page::origin_line(analysis);
    let files = console.timed("pictures: drawn", || plots::write(&measured, &origin, &folder, console))?;
    console.note(format_args!("{files} pictures in {}", folder.display()));
    let report = target.join("report.html");
    let html = page::render(&arguments.run, analysis, &measured, rows)?;
    write_atomic(&report, html.as_bytes())?;
    console.note(format_args!("interactive report in {}", report.display()));
    Ok(())
}

fn print(rows: &[MetricsRow], requested: usize, format: Format, console: Console) -> Result<(), Failure> {
    let options = TextOptions::for_stdout();
    let render = |table: Result<flopgap_report::table::Table, _>| {
        table.and_then(|table| table.render(format, &options)).map_err(|error| Failure::from_error(&error))
    };
    let mut text = String::new();
    if format == Format::Table {
        if rows.len() <= LISTED {
            text.push_str(&render(tables::overheads(rows))?);
            text.push('\n');
        }
        text.push_str(&render(tables::summary(rows, requested))?);
    } else {
        text.push_str(&render(tables::metrics(rows))?);
    }
    OutputArgs::new(Some(format), None).write(console, &text)
}
