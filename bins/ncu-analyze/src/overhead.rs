//! `flopgap ncu overhead`: the sections of the MLP notebook from recorded counters.

use std::error::Error;
use std::path::{Path, PathBuf};

use flopgap_cli::{Console, Failure, OutputArgs};
use flopgap_flops::{ClassFlops, Decomposition, Pass, SquareMlp};
use flopgap_kernels::Classifier;
use flopgap_phases::{Analysis, PassAnalysis, PhaseError, Phases, Recording, Share, Strictness};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};

use crate::input::Input;
use crate::{PROGRAM, failure};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap ncu overhead -n 10 -d 1024 -m 128 --setup fixtures/notebook/setup.csv \\
      --forward fixtures/notebook/forward.csv --forward-backward fixtures/notebook/forward_backward.csv
  flopgap ncu overhead -n 4 -d 512 -m 64 --forward-backward report.ncu-rep --format json")]
pub(crate) struct Arguments {
    /// Layers of the network (n)
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    layers: u64,
    /// Width of each layer: its inputs and outputs (d)
    #[arg(long, short = 'd', value_name = "D", value_parser = clap::value_parser!(u64).range(1..))]
    width: u64,
    /// Columns of the input (m)
    #[arg(long, short = 'm', value_name = "M", value_parser = clap::value_parser!(u64).range(1..))]
    columns: u64,
    /// Report of the program stopped after setup
    #[arg(long, value_name = "FILE", requires = "forward")]
    setup: Option<PathBuf>,
    /// Report of the program stopped after the forward pass
    #[arg(long, value_name = "FILE", requires = "setup")]
    forward: Option<PathBuf>,
    /// Report of the whole program; sufficient alone if it has NVTX ranges setup, forward and
    /// backward
    #[arg(long, value_name = "FILE")]
    forward_backward: PathBuf,
    /// Accept recordings that cannot be of this network: launches are missing, or counts are below
    /// theory
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let reports =
        [arguments.setup.as_deref(), arguments.forward.as_deref(), Some(&arguments.forward_backward)];
    Input::at_most_one_stdin(reports.into_iter().flatten())?;
    let network = SquareMlp::new(arguments.layers, arguments.width, arguments.columns)?;
    let analysis =
        console.timed("reports: read", || analyze(network, arguments)).map_err(|error| failure(&error))?;
    flopgap_cli::warn_all(PROGRAM, &analysis.contradictions);
    flopgap_cli::warn_all(PROGRAM, &analysis.warnings);
    let result = match arguments.output.format() {
        Format::Json => {
            serde_json::to_string_pretty(&analysis).map_err(|error| Failure::from_error(&error))?
        }
        format if format.is_csv() => rows(&analysis)
            .and_then(|table| Ok(table.render(format, &TextOptions::default())?))
            .map_err(|error| Failure::from_error(&*error))?,
        format => tables(&analysis, format, &arguments.output.text())
            .map_err(|error| Failure::from_error(&*error))?,
    };
    arguments.output.write(console, &result)
}

fn analyze(network: SquareMlp, arguments: &Arguments) -> Result<Analysis, PhaseError> {
    let classifier = Classifier::new();
    let load = |path: &Path| -> Result<Recording, PhaseError> {
        Recording::read(arguments.input.open(path)?, path, &classifier)
            .inspect(|recording| flopgap_cli::warn_all(PROGRAM, &recording.warnings))
    };
    let strictness = Strictness::forced_if(arguments.force);
    let whole = load(&arguments.forward_backward)?;
    match (&arguments.setup, &arguments.forward) {
        (Some(setup), Some(forward)) => {
            let setup = Recording::or_empty(load(setup), setup)?;
            Analysis::new(network, &Phases::by_sequence(&setup, &load(forward)?, &whole)?, strictness)
        }
        _ => Analysis::new(network, &Phases::by_ranges(&whole)?, strictness),
    }
}

type AnyError = Box<dyn Error>;

/// One table for each pass and one for the overheads of both.
fn tables(analysis: &Analysis, format: Format, options: &TextOptions) -> Result<String, AnyError> {
    let mut sections = Vec::new();
    for (pass, part) in passes(analysis) {
        sections.push(flops_table(analysis.config, pass, part)?.render(format, options)?);
        if let Some(other) = other_table(pass, part)? {
            sections.push(other.render(format, options)?);
        }
    }
    sections.push(factors_table(analysis)?.render(format, options)?);
    Ok(sections.join("\n"))
}

fn passes(analysis: &Analysis) -> [(Pass, &PassAnalysis); 2] {
    [(Pass::Forward, &analysis.forward), (Pass::Backward, &analysis.backward)]
}

fn flops_table(network: SquareMlp, pass: Pass, part: &PassAnalysis) -> Result<Table, AnyError> {
    let title = match pass {
        Pass::Forward => format!("Forward pass: {network}"),
        Pass::Backward => format!("Loss and backward pass: {network}"),
    };
    let mut table = Table::new(
        title,
        [
            Column::text("class", "class"),
            Column::number("measured", "measured").unit("FLOP").rank(0),
            Column::number("theory", "theory").unit("FLOP"),
            Column::number("difference", "difference").unit("FLOP").rank(2),
            Column::number("difference_fraction", "difference").rank(0),
        ],
    )?;
    let Decomposition { measured, theory, .. } = &part.decomposition;
    let classes = |flops: &ClassFlops| [flops.gemm, flops.split_k, flops.activation, flops.other];
    let totals = (measured.total()?, theory.total()?);
    let names = ["GEMM", "split-K", "activation", "other"];
    let lines = names.into_iter().zip(classes(measured).into_iter().zip(classes(theory)));
    for (name, (measured, theory)) in lines.chain([("total", totals)]) {
        let difference = i128::from(measured) - i128::from(theory);
        table.push([
            Cell::text(name),
            Cell::from(measured),
            Cell::from(theory),
            Cell::Signed(difference),
            // There is no percentage relative to a theory of 0.
            if theory == 0 {
                Cell::Absent
            } else {
                Cell::signed_percent(difference as f64 / theory as f64, 2)
            },
        ])?;
    }
    Ok(table)
}

/// The kernels that no class claims, when there are any.
fn other_table(pass: Pass, part: &PassAnalysis) -> Result<Option<Table>, ReportError> {
    let mut table = Table::new(
        format!("Kernels in `other`, {pass}"),
        [
            Column::text("kernel", "kernel"),
            Column::text("class", "class").rank(2),
            Column::number("launches", "launches"),
            Column::number("flops", "work").unit("FLOP").rank(0),
        ],
    )?;
    for kernel in part.kernels.iter().filter(|kernel| kernel.share == Share::Other) {
        table.push([
            Cell::text(&kernel.kernel),
            Cell::text(kernel.class.as_str()),
            Cell::from(kernel.launches),
            Cell::from(kernel.flops),
        ])?;
    }
    Ok((!table.is_empty()).then_some(table))
}

fn factors_table(analysis: &Analysis) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Overheads",
        [
            Column::text("factor", "factor"),
            Column::number("forward", "forward"),
            Column::number("backward", "backward"),
            Column::prose("meaning", "meaning"),
        ],
    )?;
    let [forward, backward] = [&analysis.forward.decomposition, &analysis.backward.decomposition];
    for (name, value, meaning) in [
        ("epsilon", (forward.factors.epsilon, backward.factors.epsilon), "GEMM above theory, relative"),
        ("rho", (forward.factors.rho, backward.factors.rho), "split-K FLOPs for each activation element"),
        ("kappa", (forward.factors.kappa, backward.factors.kappa), "activation above theory, relative"),
        ("omega", (forward.factors.omega, backward.factors.omega), "everything above theory, relative"),
    ] {
        let row = [Cell::text(name), Cell::float(value.0, 4), Cell::float(value.1, 4), Cell::text(meaning)];
        table.push(row)?;
    }
    table.push([
        Cell::text("reconstructed"),
        Cell::from(forward.reconstructed),
        Cell::from(backward.reconstructed),
        Cell::text("FLOPs that the closed form gives back with these factors"),
    ])?;
    table.push([
        Cell::text("difference"),
        Cell::Signed(forward.difference),
        Cell::Signed(backward.difference),
        Cell::text("reconstructed minus measured"),
    ])?;
    Ok(table)
}

/// One row for each pass, with the columns of a run directory's `metrics.csv`.
fn rows(analysis: &Analysis) -> Result<Table, AnyError> {
    let mut table = Table::new(
        "",
        [
            "n",
            "d",
            "m",
            "pass",
            "gemm",
            "split_k",
            "activation",
            "other",
            "total",
            "theory_gemm",
            "theory_activation",
        ]
        .into_iter()
        .chain(["epsilon", "rho", "kappa", "omega", "reconstructed"])
        .map(|key| Column::number(key, key)),
    )?;
    let network = analysis.config;
    for (pass, part) in passes(analysis) {
        let Decomposition { measured, theory, factors, reconstructed, .. } = &part.decomposition;
        table.push([
            Cell::from(network.layers()),
            Cell::from(network.width()),
            Cell::from(network.columns()),
            Cell::text(pass.name()),
            Cell::from(measured.gemm),
            Cell::from(measured.split_k),
            Cell::from(measured.activation),
            Cell::from(measured.other),
            Cell::from(measured.total()?),
            Cell::from(theory.gemm),
            Cell::from(theory.activation),
            Cell::float(factors.epsilon, 4),
            Cell::float(factors.rho, 4),
            Cell::float(factors.kappa, 4),
            Cell::float(factors.omega, 4),
            Cell::from(*reconstructed),
        ])?;
    }
    Ok(table)
}
