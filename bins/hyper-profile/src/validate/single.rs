//! `flopgap validate single`: one network, every source.

use std::fmt::Write as _;
use std::path::PathBuf;

use flopgap_cli::{Console, Failure, OutputArgs};
use flopgap_flops::{FlopError, Pass};
use flopgap_phases::Strictness;
use flopgap_phases::sweep::{Backend, Config, MeterError};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};
use serde_json::{Map, Value, json};

use crate::validate::compare::{CLASSES, Comparison, Kind, difference};
use crate::validate::counters::{self, Live};
use crate::validate::{PROGRAM, findings, framework};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap validate single -n 4 -d 512 -m 64 --counters fixtures/runs/h200-default
  flopgap validate single --kineto fixtures/kineto/mlp_n10_d1024_m128.json.gz --format markdown")]
pub(crate) struct Arguments {
    /// Layers of the network (n)
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    layers: u64,
    /// Width of each layer: its inputs and outputs (d)
    #[arg(long, short = 'd', value_name = "D", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    width: u64,
    /// Columns of the input (m)
    #[arg(long, short = 'm', value_name = "M", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..))]
    columns: u64,
    /// Trace of one training step by torch.profiler, with shapes [default: the framework's formula
    /// applied to the shapes of the network]
    #[arg(long, value_name = "TRACE")]
    kineto: Option<PathBuf>,
    /// Recorded counters: a run directory, one report with NVTX ranges or one record, or three
    /// reports of the program stopped after setup, after forward, and not stopped
    #[arg(long, visible_alias = "ncu", value_name = "PATH", num_args = 1..=3)]
    counters: Vec<PathBuf>,
    /// Run the network on this machine's GPU and count, or exit with 3 [default: try without
    /// --counters]
    #[arg(long)]
    live: bool,
    /// Do not count with Nsight Compute, which otherwise runs if installed and --counters is absent
    #[arg(long)]
    no_ncu: bool,
    /// Device to count on: a GPU by its number
    #[arg(long, default_value_t = 0, value_name = "DEVICE", value_parser = flopgap_cli::gpu)]
    device: u32,
    /// Accept recordings that cannot be of this network: launches are missing, or counts are below
    /// theory
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// The installation of Nsight Compute, if any.
type FindNcu<'a> = dyn Fn() -> Result<Box<dyn Backend + 'a>, MeterError> + 'a;

pub(crate) fn run(
    arguments: &Arguments,
    live: &dyn Backend,
    ncu: &FindNcu<'_>,
    console: Console,
) -> Result<(), Failure> {
    let comparison = compare(arguments, live, ncu, console)?;
    let error = |error: FlopError| Failure::from_error(&error);
    let sentences = findings::of(&comparison).map_err(error)?;
    let result = match arguments.output.format() {
        Format::Json => json(&comparison, &sentences).map_err(error)?,
        format if format.is_csv() => rows(&comparison)
            .and_then(|table| Ok(table.render(format, &TextOptions::default())?))
            .map_err(|error| Failure::from_error(&*error))?,
        format => {
            let options = arguments.output.text();
            text(&comparison, &sentences, format, &options).map_err(|error| Failure::from_error(&*error))?
        }
    };
    arguments.output.write(console, &result)
}

fn compare(
    arguments: &Arguments,
    live: &dyn Backend,
    ncu: &FindNcu<'_>,
    console: Console,
) -> Result<Comparison, Failure> {
    let config = Config { n: arguments.layers, d: arguments.width, m: arguments.columns };
    let network = config.network()?;
    let mut sources = vec![match &arguments.kineto {
        Some(trace) => framework::of_trace(trace, console)?,
        None => framework::of_shapes(network)?,
    }];
    if !arguments.counters.is_empty() {
        let strictness = Strictness::forced_if(arguments.force);
        sources.push(counters::recorded(&arguments.counters, config, strictness, console)?);
    }
    // Before this process counts, since two cannot count at the same time.
    let by_ncu = (arguments.counters.is_empty() && !arguments.no_ncu)
        .then(|| ncu().and_then(|ncu| Live::open(&*ncu, arguments.device, console)?.try_count(config)));
    if arguments.live || arguments.counters.is_empty() {
        match Live::open(live, arguments.device, console) {
            Ok(mut live) => {
                let analysis = live.count(config)?;
                let source = counters::source(Kind::Live, live.origin, &analysis);
                sources.push(source?);
            }
            Err(error) if arguments.live => return Err(counters::live_failure(&error)),
            // What is missing is said in any case.
            Err(error) => flopgap_cli::note(PROGRAM, format_args!("no counters: {error}")),
        }
    }
    match by_ncu {
        Some(Ok((record, origin))) => {
            let analysis = counters::live_analysis(counters::NCU, &record, console)?;
            sources.push(counters::source(Kind::Ncu, origin, &analysis)?);
        }
        Some(Err(error)) => flopgap_cli::note(PROGRAM, format_args!("no ncu: {error}")),
        None => {}
    }
    Ok(Comparison { network, sources })
}

type AnyError = Box<dyn std::error::Error>;

/// A table for each pass, then the explanations, then the origin of the numbers.
fn text(
    comparison: &Comparison,
    sentences: &[String],
    format: Format,
    options: &TextOptions,
) -> Result<String, AnyError> {
    let mut out = String::new();
    for pass in Pass::ALL {
        out += &table(comparison, pass)?.render(format, options)?;
        out.push('\n');
    }
    let bullet = if format == Format::Markdown { "- " } else { "" };
    for sentence in sentences {
        let _ = writeln!(out, "{bullet}{}", format.sentences(sentence, options));
    }
    out.push('\n');
    for source in &comparison.sources {
        let origin = format!("{}: {}", source.kind.heading(), source.origin);
        let _ = writeln!(out, "{bullet}{}", format.sentences(&origin, options));
    }
    Ok(out)
}

fn table(comparison: &Comparison, pass: Pass) -> Result<Table, AnyError> {
    let title = match pass {
        Pass::Forward => format!("Forward pass: {}", comparison.network),
        Pass::Backward => format!("Loss and backward pass: {}", comparison.network),
    };
    let mut columns =
        vec![Column::text("class", "class"), Column::number("theory", "theory").unit("FLOP").rank(2)];
    for (at, source) in comparison.sources.iter().enumerate() {
        let (key, heading) = (source.kind.key(), source.kind.heading());
        // The number stays with the percentage, since its heading says whose both are.
        let rank = u8::from(at > 1);
        columns.push(Column::number(key, heading).unit("FLOP").rank(rank));
        columns.push(Column::number(format!("{key}_difference"), "difference").rank(3));
        columns.push(Column::number(format!("{key}_relative"), "relative").rank(rank));
    }
    let mut table = Table::new(title, columns)?;
    for (index, class) in CLASSES.into_iter().enumerate() {
        let row = [Cell::text(class)].into_iter().chain(numbers(comparison, pass, index)?);
        table.push(row)?;
    }
    Ok(table)
}

/// Theory, and for each source its number and the differences.
fn numbers(comparison: &Comparison, pass: Pass, class: usize) -> Result<Vec<Cell>, FlopError> {
    let theory = comparison.theory(pass)?.by_class()[class].unwrap_or_default();
    let mut cells = vec![Cell::from(theory)];
    for source in &comparison.sources {
        let Some(found) = source.of(pass).by_class()[class] else {
            cells.extend([Cell::Absent, Cell::Absent, Cell::Absent]);
            continue;
        };
        let (difference, relative) = difference(found, theory);
        cells.push(Cell::from(found));
        cells.push(Cell::Signed(difference));
        cells.push(relative.map_or(Cell::Absent, |relative| Cell::signed_percent(relative, 2)));
    }
    Ok(cells)
}

/// One row for each pass and class.
fn rows(comparison: &Comparison) -> Result<Table, AnyError> {
    let mut columns: Vec<Column> = ["n", "d", "m"].map(|key| Column::number(key, key)).into();
    columns.extend(["pass", "class"].map(|key| Column::text(key, key)));
    columns.push(Column::number("theory", "theory"));
    for source in &comparison.sources {
        let key = source.kind.key();
        columns.extend(
            [key.to_owned(), format!("{key}_difference"), format!("{key}_relative")]
                .map(|key| Column::number(key.clone(), key)),
        );
    }
    let network = comparison.network;
    let mut table = Table::new("", columns).map_err(|error: ReportError| error)?;
    for pass in Pass::ALL {
        for (index, class) in CLASSES.into_iter().enumerate() {
            let sizes = [network.layers(), network.width(), network.columns()].map(Cell::from);
            let names = [Cell::text(pass.name()), Cell::text(class)];
            table.push(sizes.into_iter().chain(names).chain(numbers(comparison, pass, index)?))?;
        }
    }
    Ok(table)
}

fn json(comparison: &Comparison, sentences: &[String]) -> Result<String, FlopError> {
    let mut document = Map::new();
    document.insert("config".to_owned(), json!(comparison.network));
    for pass in Pass::ALL {
        let mut numbers = Map::new();
        numbers.insert("theory".to_owned(), json!(comparison.theory(pass)?));
        for source in &comparison.sources {
            numbers.insert(source.kind.key().to_owned(), json!(source.of(pass)));
        }
        document.insert(pass.name().to_owned(), Value::Object(numbers));
    }
    let origins = comparison.sources.iter().map(|source| {
        let origin = json!({ "kind": source.kind, "origin": source.origin });
        (source.kind.key().to_owned(), origin)
    });
    document.insert("sources".to_owned(), Value::Object(origins.collect()));
    document.insert("findings".to_owned(), json!(sentences));
    Ok(format!("{:#}", Value::Object(document)))
}

#[cfg(test)]
mod tests {
    use flopgap_phases::Phase;
    use flopgap_phases::sweep::{Meter, Origin, Quantity, Record};

    use super::*;

    /// FAKE counters: the closed forms, with a FLOP too many in each pass. Nothing is measured.
    struct Fake;

    impl Backend for Fake {
        fn origin(&self, device: u32) -> Result<Origin, MeterError> {
            Ok(Origin { device: Some(format!("FAKE device {device}")), ..Origin::default() })
        }

        fn open(&self, device: u32) -> Result<Box<dyn Meter + '_>, MeterError> {
            if device > 0 {
                return Err(MeterError::Unavailable { what: format!("no fake device {device}"), hint: None });
            }
            Ok(Box::new(Fake))
        }
    }

    impl Meter for Fake {
        fn measure(&mut self, config: Config) -> Result<Record, MeterError> {
            let mut record = Record::new(config, &Quantity::FP32);
            let Config { n, d, m } = config;
            for (phase, products) in [(Phase::Forward, n), (Phase::Backward, 2 * n - 1)] {
                for product in 0..products {
                    let one_too_many = u64::from(product == 0);
                    record.push(phase, "sgemm_128x32", [1; 3], [32, 1, 1], &[one_too_many, 0, d * d * m]);
                    record.push(phase, "sigmoid", [1; 3], [32, 1, 1], &[d * m, 0, 0]);
                }
            }
            Ok(record)
        }
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(line: &str) -> Arguments {
        let words = std::iter::once("single").chain(line.split_whitespace());
        <Line as clap::Parser>::parse_from(words).arguments
    }

    #[test]
    fn live_counters_stand_beside_the_formula() {
        let comparison = compare(&arguments("-n 3 -d 4 -m 5 --live"), &Fake, &no_ncu, "test".into()).unwrap();
        let kinds: Vec<_> = comparison.sources.iter().map(|source| source.kind).collect();
        assert_eq!(kinds, [Kind::FrameworkShapes, Kind::Live]);
        // By hand: 2 · 4 · 4 · 5 = 160 a product; three forward, five backward; and the fake's one
        // addition.
        let live = &comparison.sources[1];
        assert_eq!((live.forward.gemm, live.backward.gemm), (Some(481), Some(801)));
        assert_eq!(comparison.sources[0].backward.total, 800);
        assert_eq!(live.origin, "counted now: FAKE device 0");
        let sentences = findings::of(&comparison).unwrap();
        assert!(sentences[1].contains("+1 (+0.21%) from matrix products on padding"), "{sentences:?}");
    }

    #[test]
    fn live_counters_are_needed_only_when_asked_for() {
        let without = compare(&arguments("--device 1"), &Fake, &no_ncu, "test".into()).unwrap();
        assert_eq!(without.sources.len(), 1);
        assert!(compare(&arguments("--device 1 --live"), &Fake, &no_ncu, "test".into()).is_err());
    }

    fn no_ncu() -> Result<Box<dyn Backend + 'static>, MeterError> {
        Err(MeterError::Unavailable { what: "no fake ncu".to_owned(), hint: None })
    }

    #[test]
    fn ncu_counts_once_more_where_it_is_installed() {
        let ncu = || Ok(Box::new(Fake) as Box<dyn Backend>);
        let kinds = |line: &str| -> Vec<Kind> {
            let comparison = compare(&arguments(line), &Fake, &ncu, "test".into()).unwrap();
            comparison.sources.iter().map(|source| source.kind).collect()
        };
        assert_eq!(kinds("-n 3 -d 4 -m 5"), [Kind::FrameworkShapes, Kind::Live, Kind::Ncu]);
        assert_eq!(kinds("-n 3 -d 4 -m 5 --no-ncu"), [Kind::FrameworkShapes, Kind::Live]);
        // What ncu cannot do is not an error: the others are compared.
        assert_eq!(kinds("--device 1"), [Kind::FrameworkShapes]);
        let comparison = compare(&arguments("-n 3 -d 4 -m 5"), &Fake, &ncu, "test".into()).unwrap();
        assert_eq!(comparison.sources[2].forward, comparison.sources[1].forward);
        assert_eq!(comparison.sources[2].kind.heading(), "ncu");
    }
}
