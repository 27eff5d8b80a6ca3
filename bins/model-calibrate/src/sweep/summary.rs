//! Tables of the planned and of the measured rows of a sweep.

use std::collections::BTreeMap;

use flopgap_calibration::grid::Point;
use flopgap_calibration::run::RunPlan;
use flopgap_calibration::{Row, mode_name};
use flopgap_cli::Failure;
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};

/// Engine, kind of workload, precision, mode.
type Kind = (String, String, String, String);

fn kind(engine: &str, point: &Point) -> Kind {
    let mode = mode_name(point.mode).to_owned();
    (engine.to_owned(), point.workload.family().to_owned(), point.precision.to_string(), mode)
}

/// How many rows of each kind are planned.
pub(super) fn of_plan(plan: &RunPlan) -> Result<(), Failure> {
    let mut counts: BTreeMap<Kind, [u64; 3]> = BTreeMap::new();
    for row in &plan.rows {
        let [rows, energy, count] = counts.entry(kind(&row.engine, &row.point)).or_default();
        *rows += 1;
        *energy += u64::from(row.energy);
        *count += u64::from(row.count);
    }
    let columns = columns().into_iter().chain([
        Column::number("rows", "rows").rank(0),
        Column::number("energy", "with energy"),
        Column::number("counted", "with counters"),
    ]);
    let title = format!("{} rows", plan.rows.len());
    let rows = counts.into_iter().map(|(kind, numbers)| {
        let numbers = numbers.into_iter().map(Cell::from);
        cells(kind).into_iter().chain(numbers).collect()
    });
    print(&title, columns.collect(), rows.collect())
}

/// How many rows of each kind there are, how long they take, and how narrow their intervals are.
pub(super) fn of_rows(rows: &[Row]) -> Result<(), Failure> {
    let mut kinds: BTreeMap<Kind, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let point = Point { workload: row.workload.clone(), mode: row.mode, precision: row.precision };
        kinds.entry(kind(&row.engine, &point)).or_default().push(row);
    }
    let columns = columns().into_iter().chain([
        Column::number("rows", "rows").rank(0),
        Column::number("shortest_us", "shortest").unit("us"),
        Column::number("longest_us", "longest").unit("us"),
        Column::number("interval", "median interval"),
        Column::number("with_energy", "with energy").rank(2),
        Column::number("with_counters", "with counters").rank(2),
    ]);
    let rows = kinds.into_iter().map(|(kind, rows)| {
        let times = || rows.iter().map(|row| row.measurement.time.median_ns / 1e3);
        let having = |what: fn(&Row) -> bool| Cell::from(rows.iter().filter(|row| what(row)).count() as u64);
        let numbers = [
            Cell::from(rows.len() as u64),
            Cell::float(times().fold(f64::INFINITY, f64::min), 2),
            Cell::float(times().fold(0.0, f64::max), 2),
            Cell::optional(median_interval(&rows), |interval| Cell::percent(interval, 1)),
            having(|row| row.measurement.energy.is_some()),
            having(|row| row.measurement.counted_flops.is_some()),
        ];
        cells(kind).into_iter().chain(numbers).collect()
    });
    print("Measured", columns.collect(), rows.collect())
}

/// The median over rows of half the width of the time's interval over the time.
fn median_interval(rows: &[&Row]) -> Option<f64> {
    let half = |row: &&Row| {
        let time = row.measurement.time;
        (time.high_ns - time.low_ns) / (2.0 * time.median_ns)
    };
    let mut all: Vec<f64> = rows.iter().map(half).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("engine", "engine"),
        Column::text("workload", "workload").rank(0),
        Column::text("precision", "precision").rank(0),
        Column::text("mode", "mode").rank(0),
    ]
}

fn cells((engine, workload, precision, mode): Kind) -> Vec<Cell> {
    [engine, workload, precision, mode].into_iter().map(Cell::text).collect()
}

fn print(title: &str, columns: Vec<Column>, rows: Vec<Vec<Cell>>) -> Result<(), Failure> {
    let mut table = Table::new(title, columns)?;
    for row in rows {
        table.push(row)?;
    }
    let text = table.render(Format::Table, &TextOptions::for_stdout())?;
    flopgap_cli::print(&text)
}
