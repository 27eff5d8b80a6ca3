//! `flopgap validate sweep`: many networks, the framework's formula and the counters against
//! theory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use flopgap_cli::{Console, Exit, Failure, OutputArgs};
use flopgap_files::{create_folder, write_atomic};
use flopgap_flops::{FlopError, Pass, SquareMlp};
use flopgap_phases::sweep::{Backend, Config, Grid, Problem, Sizes};
use flopgap_phases::{Analysis, Strictness};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};

use crate::validate::compare::{Counts, Kind, Row, Source, difference};
use crate::validate::counters::{self, Live};
use crate::validate::{PROGRAM, framework, plots};

/// The name of the table.
const FILE: &str = "analytical_vs_framework_comparison.csv";

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap validate sweep fixtures/runs/h200-pytorch -n 4 -m 64 256
  flopgap validate sweep --kineto-dir traces -o results")]
pub(crate) struct Arguments {
    /// Run directory with recorded counters [default: count on this machine's GPU]
    run: Option<PathBuf>,
    /// Directory of torch.profiler traces, named by their sizes: `kineto_n10_d1024_m128.json.gz`.
    /// Without a trace, the framework's formula is applied to the shapes of the network, and the
    /// table says so
    #[arg(long, value_name = "DIR")]
    kineto_dir: Option<PathBuf>,
    /// Layers of the network (n): `2 4 8` or `2..8:2` [default: all of a run;
    /// without a run 10]
    #[arg(long, short = 'n', num_args = 1.., value_delimiter = ',', value_name = "N")]
    layers: Vec<Sizes>,
    /// Width of each layer (d), in the same form [default: all of a run; without a run
    /// 128..2048:128]
    #[arg(long, short = 'd', num_args = 1.., value_delimiter = ',', value_name = "D")]
    width: Vec<Sizes>,
    /// Columns of the input (m), in the same form [default: all of a run; without a run 128]
    #[arg(long, short = 'm', num_args = 1.., value_delimiter = ',', value_name = "M")]
    columns: Vec<Sizes>,
    /// Device to count on without a run: a GPU by its number
    #[arg(long, default_value_t = 0, value_name = "DEVICE", value_parser = flopgap_cli::gpu)]
    device: u32,
    /// Write the table and the plots to this directory
    #[arg(long, short, default_value = "results", value_name = "DIR")]
    output: PathBuf,
    /// Write no plots, only the table
    #[arg(long)]
    no_plots: bool,
    /// Accept recordings that cannot be of their networks: launches are missing, or counts are
    /// below theory
    #[arg(long)]
    force: bool,
    /// Output format of the table on standard output
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments, live: &dyn Backend, console: Console) -> Result<(), Failure> {
    let wanted = Wanted::new(arguments)?;
    let Counted { configs: counted, requested, origin, sizes, refused } = match &arguments.run {
        Some(run) => recorded(run, &wanted, Strictness::forced_if(arguments.force), console)?,
        None => count(arguments, live, console)?,
    };
    let traces = match &arguments.kineto_dir {
        Some(folder) => traces(folder, &wanted, console)?,
        None => BTreeMap::new(),
    };
    let mut configs: BTreeSet<Config> = counted.keys().chain(traces.keys()).copied().collect();
    if configs.is_empty() {
        let failure = Failure::new("none of the requested networks is recorded").exit(Exit::Absent);
        return Err(match sizes {
            _ if refused > 0 => refusal(refused),
            Some(sizes) => failure.hint(sizes),
            None => failure,
        });
    }
    for size in wanted.missing(&configs) {
        console.warn(format_args!("no network with {size} is recorded"));
    }
    // Networks that were requested but not counted keep their rows.
    configs.extend(requested);
    let mut rows = Vec::new();
    for config in configs {
        let trace = traces.get(&config).map(PathBuf::as_path);
        rows.extend(rows_of(config, counted.get(&config), trace, console)?);
    }
    write_files(arguments, &rows, &origin, console)?;
    let format = arguments.format;
    let table = if format == Format::Table { shown(&rows) } else { whole(&rows) };
    let text = table.and_then(|table| table.render(format, &TextOptions::for_stdout()));
    OutputArgs::new(Some(format), None).write(console, &text?)?;
    match refused {
        0 => Ok(()),
        refused => Err(refusal(refused)),
    }
}

/// The requested sizes; an axis without sizes takes all.
struct Wanted([Option<BTreeSet<u64>>; 3]);

impl Wanted {
    fn new(arguments: &Arguments) -> Result<Wanted, Failure> {
        let axis = |name, written: &[Sizes]| -> Result<_, Failure> {
            if written.is_empty() {
                return Ok(None);
            }
            let values = Sizes::join(name, written)?;
            Ok(Some(values.into_iter().collect()))
        };
        Ok(Wanted([
            axis("n", &arguments.layers)?,
            axis("d", &arguments.width)?,
            axis("m", &arguments.columns)?,
        ]))
    }

    /// Requested sizes that no configuration has: `n=3`.
    fn missing(&self, configs: &BTreeSet<Config>) -> Vec<String> {
        let mut missing = Vec::new();
        for (axis, (name, sizes)) in ["n", "d", "m"].into_iter().zip(&self.0).enumerate() {
            let there: BTreeSet<u64> =
                configs.iter().map(|config| [config.n, config.d, config.m][axis]).collect();
            let absent = sizes.iter().flatten().filter(|&size| !there.contains(size));
            missing.extend(absent.map(|size| format!("{name}={size}")));
        }
        missing
    }

    fn takes(&self, config: Config) -> bool {
        let sizes = [config.n, config.d, config.m];
        self.0.iter().zip(sizes).all(|(axis, size)| axis.as_ref().is_none_or(|axis| axis.contains(&size)))
    }
}

/// The counts.
struct Counted {
    configs: BTreeMap<Config, Analysis>,
    /// The requested networks, with their counts.
    requested: BTreeSet<Config>,
    /// Where the counts come from.
    origin: String,
    /// The networks that can be selected.
    sizes: Option<String>,
    /// Requested networks whose records were refused.
    refused: usize,
}

fn refusal(refused: usize) -> Failure {
    let networks = if refused == 1 { "network was" } else { "networks were" };
    Failure::new(format!("the counters of {refused} requested {networks} refused; each is named above"))
}

fn recorded(
    run: &Path,
    wanted: &Wanted,
    strictness: Strictness,
    console: Console,
) -> Result<Counted, Failure> {
    let mut analysis = counters::of_run(run, strictness, console)?;
    let name = run.file_name().unwrap_or(run.as_os_str());
    let origin = counters::run_origin(Path::new(name), &analysis);
    let concerned = |config: Option<Config>| config.is_none_or(|config| wanted.takes(config));
    let problems = analysis.problems.iter().chain(&analysis.warnings);
    let problems = Problem::grouped(problems.filter(|problem| concerned(problem.config)));
    console.warn_all(problems.iter().map(Failure::of));
    let sizes = counters::sizes(&analysis);
    let refused =
        analysis.problems.iter().filter(|problem| problem.is_refusal() && concerned(problem.config)).count();
    let requested = analysis.requested().into_iter().filter(|config| wanted.takes(*config)).collect();
    analysis.configs.retain(|config, _| wanted.takes(*config));
    Ok(Counted { configs: analysis.configs, requested, origin, sizes: Some(sizes), refused })
}

/// Counts every network of the grid on this machine.
fn count(arguments: &Arguments, live: &dyn Backend, console: Console) -> Result<Counted, Failure> {
    let axis = |name, written: &[Sizes], default: Vec<u64>| {
        if written.is_empty() { Ok(default) } else { Sizes::join(name, written) }
    };
    let standard = Grid::standard();
    let grid = axis("n", &arguments.layers, vec![10]).and_then(|n| {
        let (d, m) = (axis("d", &arguments.width, standard.d)?, axis("m", &arguments.columns, vec![128])?);
        let grid = Grid { n, d, m };
        grid.check().map(|()| grid)
    });
    let grid = grid?;
    let mut live = match Live::open(live, arguments.device, console) {
        Ok(live) => live,
        // Traces alone are also a comparison.
        Err(error) if arguments.kineto_dir.is_some() => {
            // What is missing is said in any case.
            flopgap_cli::note(PROGRAM, format_args!("no counters: {error}"));
            let (configs, requested) = (BTreeMap::new(), BTreeSet::new());
            return Ok(Counted { configs, requested, origin: String::new(), sizes: None, refused: 0 });
        }
        Err(error) => return Err(counters::live_failure(&error)),
    };
    let mut counted = BTreeMap::new();
    for config in grid.configs() {
        if let Some(analysis) = live.count_or_skip(config)? {
            counted.insert(config, analysis);
        }
    }
    let (requested, origin) = (grid.configs().collect(), live.origin);
    Ok(Counted { configs: counted, requested, origin, sizes: None, refused: 0 })
}

/// The traces of a directory by the network in their names.
fn traces(folder: &Path, wanted: &Wanted, console: Console) -> Result<BTreeMap<Config, PathBuf>, Failure> {
    let error = |error: std::io::Error| Failure::new(format!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(error)?;
    paths.sort();
    let mut traces = BTreeMap::new();
    for path in paths {
        let Some(config) = path.file_name().and_then(|name| config_of(name.to_str()?)) else { continue };
        if !wanted.takes(config) {
            continue;
        }
        if let Some(first) = traces.get(&config) {
            let first: &PathBuf = first;
            let message =
                format!("{}: skipped: {} is the trace of {config}", path.display(), first.display());
            console.warn(message);
        } else {
            traces.insert(config, path);
        }
    }
    if traces.is_empty() {
        let message = format!(
            "{}: no trace of these networks\n  hint: name a trace after its network: kineto_n10_d1024_m128.json.gz",
            folder.display()
        );
        console.warn(message);
    }
    Ok(traces)
}

/// The sizes at the end of a trace's name.
fn config_of(name: &str) -> Option<Config> {
    let stem = [".json", ".json.gz", ".json.zst"].iter().find_map(|ending| name.strip_suffix(ending))?;
    let stem = stem.strip_suffix(".pt.trace").unwrap_or(stem);
    let mut starts = std::iter::once(0).chain(stem.match_indices('_').map(|(at, _)| at + 1));
    starts.find_map(|start| Config::from_name(&stem[start..]))
}

fn rows_of(
    config: Config,
    analysis: Option<&Analysis>,
    trace: Option<&Path>,
    console: Console,
) -> Result<[Row; 2], Failure> {
    let error = |error: FlopError| Failure::from_error(&error);
    let network = config.network().map_err(error)?;
    let framework: Source = match trace {
        Some(trace) => of_trace(trace, config, network, console)?,
        None => framework::of_shapes(network)?,
    };
    let counted = analysis
        .map(|analysis| counters::source(Kind::Recorded, String::new(), analysis))
        .transpose()
        .map_err(error)?;
    let row = |pass| -> Result<Row, FlopError> {
        Ok(Row {
            config,
            pass,
            theory: Counts::all(&network.theory(pass)?)?,
            framework: *framework.of(pass),
            framework_kind: framework.kind,
            counted: counted.as_ref().map(|counted| *counted.of(pass)),
        })
    };
    Ok([row(Pass::Forward).map_err(error)?, row(Pass::Backward).map_err(error)?])
}

/// The numbers of a trace, with a warning where its matrix products are not those of the network
/// that it is named after.
fn of_trace(path: &Path, config: Config, network: SquareMlp, console: Console) -> Result<Source, Failure> {
    let (named, found) = (framework::of_shapes(network)?, framework::of_trace(path, console)?);
    let differs = |pass| found.of(pass).gemm != named.of(pass).gemm;
    if Pass::ALL.into_iter().any(differs) {
        let message = format!(
            "{}: its matrix products are not those of one step of {config}, as its name says",
            path.display()
        );
        console.warn(message);
    }
    Ok(found)
}

fn write_files(arguments: &Arguments, rows: &[Row], origin: &str, console: Console) -> Result<(), Failure> {
    create_folder(&arguments.output)?;
    let path = arguments.output.join(FILE);
    let csv = whole(rows).and_then(|table| table.to_csv())?;
    write_atomic(&path, csv.as_bytes())?;
    console.note(format_args!("{} rows in {}", rows.len(), path.display()));
    if !arguments.no_plots {
        let folder = arguments.output.join("plots");
        let files = console.timed("plots: drawn", || plots::write(rows, origin, &folder))?;
        console.note(format_args!("{files} plots in {}", folder.display()));
    }
    Ok(())
}

/// The table's name for the origin of the framework's number.
fn source_name(kind: Kind) -> &'static str {
    if kind == Kind::FrameworkTrace { "trace" } else { "shapes" }
}

/// Every column, as in the file.
fn whole(rows: &[Row]) -> Result<Table, ReportError> {
    let number = |key: &str| Column::number(key, key.replace('_', " "));
    let text = |key: &str| Column::text(key, key.replace('_', " "));
    let sizes = ["n", "d", "m"].map(number);
    let theory = ["analytical_gemm", "analytical_activation", "analytical_flops"].map(number);
    let framework = ["framework_difference", "framework_relative"].map(number);
    let counted = ["gemm", "split_k", "activation", "other", "flops", "difference", "relative"];
    let columns = sizes
        .into_iter()
        .chain([text("pass")])
        .chain(theory)
        .chain([number("framework_flops"), text("framework_source")])
        .chain(framework)
        .chain(counted.map(|key| number(&format!("counted_{key}"))));
    let mut table = Table::new("FLOPs by theory, by the framework's formula and as counted", columns)?;
    for row in rows {
        let [gemm, _, activation, _, total] =
            row.theory.by_class().map(|flops| Cell::optional(flops, Cell::from));
        let against = |flops: u64| {
            let (difference, relative) = difference(flops, row.theory.total);
            [Cell::Signed(difference), Cell::optional(relative, |relative| Cell::float(relative, 6))]
        };
        let counted = match &row.counted {
            Some(counted) => {
                let classes = counted.by_class().map(|flops| Cell::optional(flops, Cell::from));
                classes.into_iter().chain(against(counted.total)).collect()
            }
            None => vec![Cell::Absent; 7],
        };
        table.push(
            [row.config.n, row.config.d, row.config.m]
                .map(Cell::from)
                .into_iter()
                .chain([Cell::text(row.pass.name()), gemm, activation, total])
                .chain([Cell::from(row.framework.total), Cell::text(source_name(row.framework_kind))])
                .chain(against(row.framework.total))
                .chain(counted),
        )?;
    }
    Ok(table)
}

/// The columns that fit a terminal.
fn shown(rows: &[Row]) -> Result<Table, ReportError> {
    let sizes = ["n", "d", "m"].map(|key| Column::number(key, key).rank(0));
    let columns = sizes.into_iter().chain([
        Column::text("pass", "pass"),
        Column::number("analytical_flops", "theory").unit("FLOP").rank(2),
        Column::number("framework_relative", "framework").rank(0),
        Column::text("framework_source", "from").rank(2),
        Column::number("counted_flops", "counted").unit("FLOP").rank(1),
        Column::number("counted_relative", "counted").rank(0),
    ]);
    let mut table = Table::new("The framework's formula and the counters against theory", columns)?;
    for row in rows {
        let relative = |flops: u64| {
            Cell::optional(difference(flops, row.theory.total).1, |share| Cell::signed_percent(share, 2))
        };
        table.push([row.config.n, row.config.d, row.config.m].map(Cell::from).into_iter().chain([
            Cell::text(row.pass.name()),
            Cell::from(row.theory.total),
            relative(row.framework.total),
            Cell::text(source_name(row.framework_kind)),
            Cell::optional(row.counted.map(|counted| counted.total), Cell::from),
            row.counted.map_or(Cell::Absent, |counted| relative(counted.total)),
        ]))?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_names_of_traces() {
        let config = Some(Config { n: 10, d: 1024, m: 128 });
        for name in
            ["n10_d1024_m128.json", "kineto_n10_d1024_m128.json.gz", "my_net_n10_d1024_m128.pt.trace.json"]
        {
            assert_eq!(config_of(name), config, "{name}");
        }
        for name in ["n10_d1024_m128.csv", "n10_d1024_m128_2.json", "trace.json"] {
            assert_eq!(config_of(name), None, "{name}");
        }
    }
}
