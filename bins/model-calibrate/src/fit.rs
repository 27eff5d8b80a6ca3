//! `flopgap calibrate fit CALIBRATION`: how well a predictor does on rows that it has not seen.

use std::path::PathBuf;
use std::time::Instant;

use flopgap_calibration::accuracy::{Coverage, Errors};
use flopgap_calibration::judge::{FitRequest, Fitted, Judged};
use flopgap_calibration::mode_name;
use flopgap_calibration::report::beats_baselines;
use flopgap_cli::{Console, Failure, OutputArgs};
use flopgap_flops::Precision;
use flopgap_graph::Mode;
use flopgap_report::ReportError;
use flopgap_report::html::{Block, Document};
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};
use flopgap_roofline::predict::{Baseline, FitSettings};

use crate::judging::{FOLDS, JudgedSeries, judging};
use crate::load::{self, of_judge};

/// An efficiency so high that times do not depend on the work.
const NO_ROOF: f64 = 1e3;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap calibrate fit bins/model-calibrate/tests/it/data/branes_jetson_mlp.csv")]
pub(crate) struct Arguments {
    /// Measured rows: a calibration file, a run directory, or a CSV table whose columns describe
    /// what was run
    calibration: PathBuf,
    /// Machine, for a table with several: fit only its rows
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Ceilings of the machine, as `flopgap calibrate probe --output` writes them, instead of those
    /// in the file
    #[arg(long, value_name = "FILE")]
    ceilings: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let mut calibration = load::calibration(&arguments.calibration, arguments.machine.as_deref(), console)?;
    load::set_ceilings(&mut calibration.header, arguments.ceilings.as_deref())?;
    let settings = FitSettings::default();
    let judging = judging(&calibration, &arguments.calibration, &settings, console)?;
    let header = &calibration.header;
    let request = FitRequest { ceilings: header.ceilings.as_ref(), settings: &settings };
    let mut tables = vec![overview(&judging.series)?];
    for series in &judging.series {
        let name = series.series.to_string();
        let start = Instant::now();
        // `estimate` uses a fit to all rows, which judges nothing.
        let fitted = Fitted::fit(&series.rows, request).map_err(|error| of_judge(&error))?;
        let seconds = start.elapsed().as_secs_f64();
        console.note(format_args!("{name}: {} rows fitted in {seconds:.2} s", fitted.rows()));
        tables.push(constants(&name, &fitted, &series.rows)?);
    }
    arguments.output.write(console, &print(tables, &arguments.output)?)
}

fn print(tables: Vec<Table>, output: &OutputArgs) -> Result<String, ReportError> {
    let format = output.format();
    match format {
        // A table is one file, so only the most informative table is printed.
        Format::Csv | Format::CsvEscaped => tables[0].render(format, &TextOptions::default()),
        Format::Json => {
            let blocks = tables.into_iter().map(Block::Table).collect();
            Document { title: "Fit".to_owned(), blocks, ..Document::default() }.to_json()
        }
        Format::Table | Format::Markdown => {
            let options = output.text();
            let texts: Result<Vec<String>, _> =
                tables.iter().map(|table| table.render(format, &options)).collect();
            Ok(texts?.join("\n"))
        }
    }
}

fn overview(all: &[JudgedSeries<'_>]) -> Result<Table, ReportError> {
    let baselines =
        [("roofline", "roofline"), ("efficiency", "one efficiency"), ("launch", "launch + roofline/eff.")];
    let columns = [
        Column::text("series", "series"),
        Column::number("rows", "rows").rank(2),
        Column::number("mape", "MAPE").rank(0),
        Column::number("median", "median").rank(2),
        Column::number("p90", "p90").rank(2),
        Column::number("coverage", "in the 90% interval"),
    ];
    let columns = columns.into_iter().chain(baselines.map(|(key, name)| Column::number(key, name)));
    let columns = columns.chain([
        Column::number("repeatability", "repeatability").rank(3),
        Column::text("verdict", "beats baselines").rank(0),
    ]);
    let mut table =
        Table::new(format!("Rows estimated by fits that did not see them ({FOLDS} parts)"), columns)?;
    for series in all {
        let judged = &series.judged;
        let errors = Errors::of(judged.iter().map(|row| row.time.tuple()));
        let intervals =
            judged.iter().filter_map(|row| row.interval.map(|(low, high)| (row.time.measured, low, high)));
        let mut cells = vec![
            Cell::text(series.series.to_string()),
            Cell::from(judged.len() as u64),
            Cell::optional(errors, |errors| Cell::percent(errors.mape, 1)),
            Cell::optional(errors, |errors| Cell::percent(errors.median, 1)),
            Cell::optional(errors, |errors| Cell::percent(errors.p90, 1)),
            Cell::optional(Coverage::new(intervals).share(), |share| Cell::percent(share, 1)),
        ];
        for index in 0..Baseline::ALL.len() {
            let pair = |row: &Judged| Some((row.time.measured, row.baselines?[index]));
            let errors = Errors::of(judged.iter().filter_map(pair));
            cells.push(Cell::optional(errors, |errors| Cell::percent(errors.mape, 1)));
        }
        cells.push(Cell::optional(series.repeatability, |distance| Cell::percent(distance, 1)));
        let word = match beats_baselines(judged) {
            Some(true) => "yes",
            Some(false) => "no: not recommended",
            None => "-",
        };
        cells.push(Cell::text(word));
        table.push(cells)?;
    }
    Ok(table)
}

/// The constants of the best baseline, by mode and precision.
fn constants(
    series: &str,
    fitted: &Fitted,
    rows: &[&flopgap_calibration::Row],
) -> Result<Table, ReportError> {
    let mut table = Table::new(
        format!("Constants of the baselines: {series}"),
        [
            Column::text("mode", "mode"),
            Column::text("precision", "precision").rank(0),
            Column::number("rows", "rows").rank(2),
            Column::number("launch_us", "launch").unit("µs").rank(0),
            Column::number("was", "efficiency was").rank(2),
            Column::number("efficiency", "update to").rank(0),
        ],
    )?;
    for mode in [Mode::Call, Mode::Stream, Mode::Graph] {
        for precision in Precision::ALL {
            let count = rows.iter().filter(|row| row.mode == mode && row.precision == precision).count();
            if count > 0 {
                let constants = fitted.predictor().constants(mode, precision);
                table.push([
                    Cell::text(mode_name(mode)),
                    Cell::text(precision.name()),
                    Cell::from(count as u64),
                    Cell::float(constants.launch_ns / 1e3, 2),
                    Cell::float(1.0, 2),
                    // Where launches explain all of it, no share of a roofline is known.
                    if constants.efficiency < NO_ROOF {
                        Cell::float(constants.efficiency, 2)
                    } else {
                        Cell::Absent
                    },
                ])?;
            }
        }
    }
    Ok(table)
}
