//! `flopgap calibrate report`: a page that compares measurements with estimates.

mod measured;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use flopgap_calibration::accuracy::coverage;
use flopgap_calibration::judge::{self, Judged, series};
use flopgap_calibration::report::{ReportInput, ScenarioRange, document};
use flopgap_calibration::sheet::{self, Record, Role, Sheet, SheetRow, Values};
use flopgap_calibration::{Calibration, Origin, Row};
use flopgap_cli::{Console, Exit, Failure};
use flopgap_report::html::{Block, Document};
use flopgap_roofline::predict::FitSettings;

use crate::PROGRAM;
use crate::judging::{FOLDS, Judging, judging};
use crate::load::{self, Empirical, of_sheet};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap calibrate report --empirical run -o report.html
  flopgap calibrate report --empirical bins/model-calibrate/tests/it/data/branes_jetson_mlp.csv --format markdown")]
pub(crate) struct Arguments {
    /// Measurements: a calibration file, a run directory, or a CSV table
    #[arg(long, value_name = "FILE")]
    empirical: PathBuf,
    /// Estimates of the same runs by another estimator, as a CSV table [default: for a calibration,
    /// the predictor on rows that it did not see; for a table, the estimates in it]
    #[arg(long, value_name = "FILE")]
    analytical: Option<PathBuf>,
    /// Do not judge a calibration by fits to parts of it, which takes minutes for many rows: say
    /// what was measured
    #[arg(long, conflicts_with = "analytical")]
    no_fits: bool,
    /// Output format [default: by the ending of --output, without a file markdown]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Kind>,
    /// Write to this file instead of standard output, which is `-`; the plots of a Markdown
    /// document are next to it
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Machine, for a table with several: judge only its rows
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Ceilings of the machine, as `flopgap calibrate probe --output` writes them, instead of those
    /// in the file
    #[arg(long, value_name = "FILE")]
    ceilings: Option<PathBuf>,
}

/// The kinds of files that a report can be.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// For a Markdown document, with plots as files
    Markdown,
    /// One file that needs no network
    Html,
    /// Numbers unformatted
    Json,
    /// The table behind the report
    Csv,
}

impl Kind {
    fn of(path: &Path) -> Result<Kind, Failure> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "md" => Ok(Kind::Markdown),
            "html" => Ok(Kind::Html),
            "json" => Ok(Kind::Json),
            "csv" => Ok(Kind::Csv),
            _ => {
                let message = format!("{}: unknown kind of report", path.display());
                Err(Failure::new(message)
                    .exit(Exit::Usage)
                    .hint("end the name with .md, .html, .json, or .csv, or name a format with --format"))
            }
        }
    }
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let file = arguments.file();
    let kind = match (arguments.format, file) {
        (Some(kind), _) => kind,
        (None, Some(path)) => Kind::of(path)?,
        (None, None) => Kind::Markdown,
    };
    let role = if arguments.analytical.is_some() { Role::Empirical } else { Role::Both };
    let page = match load::empirical(&arguments.empirical, role, arguments.machine.as_deref(), console)? {
        Empirical::Calibration(mut calibration) => {
            load::set_ceilings(&mut calibration.header, arguments.ceilings.as_deref())?;
            match &arguments.analytical {
                None if arguments.no_fits => alone(&calibration)?,
                None => own(arguments, &calibration, console)?,
                Some(analytical) => foreign(arguments, table_of(&calibration), Some(analytical))?,
            }
        }
        Empirical::Table(table) => foreign(arguments, table, arguments.analytical.as_deref())?,
    };
    let text = page.text(kind)?;
    let Some(path) = file else { return flopgap_cli::print(&text) };
    if kind == Kind::Markdown {
        page.write_charts(path, console)?;
    }
    write(path, text.as_bytes(), console)
}

impl Arguments {
    /// The file, unless the report goes to standard output.
    fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }
}

/// A report and the table behind it.
struct Page {
    document: Document,
    identity: Vec<String>,
    rows: Vec<SheetRow>,
}

impl Page {
    fn text(&self, kind: Kind) -> Result<String, Failure> {
        Ok(match kind {
            Kind::Markdown => self.document.to_markdown(),
            Kind::Html => self.document.to_html()?,
            Kind::Json => flopgap_cli::json_document("flopgap-calibrate-report", &self.document.to_json()?),
            Kind::Csv => sheet::to_csv(&self.identity, &self.rows),
        })
    }

    fn write_charts(&self, path: &Path, console: Console) -> Result<(), Failure> {
        for block in &self.document.blocks {
            if let Block::Plot(chart) = block
                && !chart.file_name().is_empty()
            {
                let svg = chart.to_svg()?;
                write(&path.with_file_name(chart.file_name()), svg.as_bytes(), console)?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8], console: Console) -> Result<(), Failure> {
    flopgap_files::write_atomic(path, bytes)?;
    console.note(format_args!("wrote {}", path.display()));
    Ok(())
}

/// The prefix of the names of charts next to a page: `report-` for `report.md`.
fn charts(output: Option<&Path>) -> String {
    let stem = output.and_then(Path::file_stem).and_then(|stem| stem.to_str());
    stem.map(|stem| format!("{stem}-")).unwrap_or_default()
}

/// What a calibration holds.
fn alone(calibration: &Calibration) -> Result<Page, Failure> {
    let header = &calibration.header;
    let judge =
        "How well it predicts rows that it did not see: without `--no-fits`, or `flopgap --all FILE`.";
    let document = Document {
        title: format!("Calibration: {}", header.origin.device),
        subtitle: format!("{} rows, measured from {}", calibration.rows.len(), header.created),
        blocks: vec![
            Block::Facts(facts(calibration)),
            Block::Table(measured::measured(&calibration.rows)?),
            Block::Text(judge.to_owned()),
        ],
    };
    let table = table_of(calibration);
    Ok(Page { document, identity: table.identity, rows: table.records.iter().map(SheetRow::from).collect() })
}

/// A calibration judged by our predictor on rows that it did not see.
fn own(arguments: &Arguments, calibration: &Calibration, console: Console) -> Result<Page, Failure> {
    let header = &calibration.header;
    let settings = FitSettings::default();
    let Judging { series, warnings } = judging(calibration, &arguments.empirical, &settings, console)?;
    let mut judged = Vec::new();
    let mut rows = Vec::new();
    let mut coverages = Vec::new();
    let mut repeatability = Vec::new();
    for one in series {
        let name = one.series.to_string();
        coverages.push((name.clone(), coverage(&one.judged)));
        judged.extend(one.judged);
        rows.extend(one.judged_rows);
        repeatability.push((name, one.repeatability));
    }
    let input = ReportInput {
        title: format!("Calibration report: {}", header.origin.device),
        subtitle: format!("{} rows, measured from {}", calibration.rows.len(), header.created),
        facts: facts(calibration),
        warnings,
        estimator: format!(
            "the predictor's, for rows that it did not see ({FOLDS} parts, each estimated by a fit to the others)"
        ),
        own: true,
        judged: &judged,
        coverage: coverages,
        repeatability,
        ceilings: header.ceilings.as_ref(),
        scenarios: ScenarioRange::of(&header.origin, header.ceilings.as_ref()),
        charts: charts(arguments.file()),
    };
    let document = document(&input)?;
    let table = table(&header.origin, rows.into_iter().zip(judged.iter().map(Some)));
    Ok(Page { document, identity: table.identity, rows: table.records.iter().map(SheetRow::from).collect() })
}

/// A table judged by its own estimates, or by those of another.
fn foreign(arguments: &Arguments, table: Sheet, analytical: Option<&Path>) -> Result<Page, Failure> {
    let table = match analytical {
        None => table,
        Some(path) => {
            let device = arguments.machine.as_deref();
            let estimates = sheet::read(path, Role::Analytical, device).map_err(|error| of_sheet(&error))?;
            sheet::join(table, estimates, path).map_err(|error| of_sheet(&error))?
        }
    };
    let judged = judge::of_sheet(&table);
    let mut warnings: Vec<String> = table.warnings.iter().map(ToString::to_string).collect();
    let counted = table.records.iter().any(|record| record.measured.flops.is_some());
    if !counted && judged.iter().any(|row| row.flops.is_some()) {
        warnings.push(
            "the table has no counted FLOPs; the closed form of all products and convolutions replaces them"
                .to_owned(),
        );
    }
    flopgap_cli::warn_all(PROGRAM, &warnings);
    let name =
        |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let devices: Vec<String> = table.devices().into_iter().map(|(device, _)| device).collect();
    let from = analytical.unwrap_or(&arguments.empirical);
    let input = ReportInput {
        title: format!("Calibration report: {}", name(&arguments.empirical)),
        subtitle: format!("{} rows, device {}", judged.len(), devices.join(", ")),
        warnings,
        estimator: format!("those of {}", name(from)),
        judged: &judged,
        coverage: vec![(String::new(), coverage(&judged))],
        charts: charts(arguments.file()),
        ..ReportInput::default()
    };
    let document = document(&input)?;
    let rows = table.records.iter().map(SheetRow::from).collect();
    Ok(Page { document, identity: table.identity, rows })
}

fn facts(calibration: &Calibration) -> Vec<(String, String)> {
    let header = &calibration.header;
    let origin = &header.origin;
    let mut facts = vec![
        ("device".to_owned(), origin.device.clone()),
        ("kind".to_owned(), origin.kind.clone()),
        ("measured".to_owned(), header.created.clone()),
        ("rows".to_owned(), calibration.rows.len().to_string()),
    ];
    for (series, rows) in series(&calibration.rows) {
        facts.push((format!("rows of {series}"), rows.len().to_string()));
    }
    facts.extend(origin.properties.iter().map(|(name, value)| (name.clone(), value.clone())));
    facts.extend(origin.versions.iter().map(|(name, value)| (name.clone(), value.clone())));
    facts
}

/// The measurements of a calibration as a table.
fn table_of(calibration: &Calibration) -> Sheet {
    table(&calibration.header.origin, calibration.rows.iter().map(|row| (row, None)))
}

/// Rows as a table, with our estimates where there are some.
fn table<'a>(origin: &Origin, rows: impl IntoIterator<Item = (&'a Row, Option<&'a Judged>)>) -> Sheet {
    let mut identity = Vec::new();
    let mut records = Vec::new();
    for (index, (row, judged)) in rows.into_iter().enumerate() {
        let (names, cells) = sheet::identity_of(row, origin, &row.workload.label());
        identity = names;
        let measurement = &row.measurement;
        let estimated = judged.map_or_else(Values::default, |judged| Values {
            time_ms: Some(judged.time.estimated / 1e6),
            memory_mb: judged.memory.map(|pair| pair.estimated / 1e6),
            flops: judged.work,
            energy_j: judged.energy.map(|pair| pair.estimated),
        });
        records.push(Record {
            line: index as u64 + 2,
            identity: cells,
            workload: Some(row.workload.clone()),
            device: Some(origin.kind.clone()),
            precision: Some(row.precision.to_string()),
            batch: row.workload.batch(),
            measured: Values {
                time_ms: Some(measurement.time.median_ns / 1e6),
                memory_mb: measurement.memory_bytes.map(|bytes| bytes as f64 / 1e6),
                flops: measurement.counted_flops.map(|flops| flops as f64),
                energy_j: measurement.energy.map(|energy| energy.joules),
            },
            estimated,
            interval_ms: judged.and_then(|judged| judged.interval).map(|(low, high)| (low / 1e6, high / 1e6)),
            bottleneck: judged.and_then(|judged| judged.bottleneck.clone()),
            intensity: None,
        });
    }
    Sheet { identity, records, warnings: Vec::new() }
}
