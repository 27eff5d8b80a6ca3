//! The metrics of a run as tables.

use flopgap_flops::Pass;
use flopgap_phases::sweep::MetricsRow;
use flopgap_report::ReportError;
use flopgap_report::numbers::group_thousands;
use flopgap_report::table::{Cell, Column, Table};

use crate::metric::METRICS;

/// Every row and column of `metrics.csv`.
pub(crate) fn metrics(rows: &[MetricsRow]) -> Result<Table, ReportError> {
    with_counts(rows, false)
}

/// The same for the page, where the overheads come before the counts: they are what the page is
/// about, and stand to the left on every screen.
pub(crate) fn for_page(rows: &[MetricsRow]) -> Result<Table, ReportError> {
    with_counts(rows, true)
}

fn in_order<T>(mut counts: Vec<T>, mut overheads: Vec<T>, overheads_first: bool) -> Vec<T> {
    if overheads_first {
        std::mem::swap(&mut counts, &mut overheads);
    }
    counts.append(&mut overheads);
    counts
}

fn with_counts(rows: &[MetricsRow], overheads_first: bool) -> Result<Table, ReportError> {
    let sizes = ["n", "d", "m"].map(|key| Column::number(key, key));
    let counts = ["gemm", "split_k", "activation", "other", "total", "theory_gemm", "theory_activation"];
    let counts = counts.map(|key| Column::number(key, key.replace('_', " "))).to_vec();
    let overheads = METRICS.iter().map(|metric| Column::number(metric.key, metric.key)).collect();
    let columns = sizes.into_iter().chain([Column::text("pass", "pass")]).chain(in_order(
        counts,
        overheads,
        overheads_first,
    ));
    let mut table = Table::new("Counted and theoretical FLOPs", columns)?;
    for row in rows {
        let counts = [
            row.gemm,
            row.split_k,
            row.activation,
            row.other,
            row.total,
            row.theory_gemm,
            row.theory_activation,
        ];
        let counts = counts.map(Cell::from).to_vec();
        let overheads = METRICS.iter().map(|metric| Cell::float((metric.of)(row), 4)).collect();
        let sizes = [row.n, row.d, row.m].map(Cell::from).into_iter();
        table.push(sizes.chain([Cell::text(row.pass.name())]).chain(in_order(
            counts,
            overheads,
            overheads_first,
        )))?;
    }
    Ok(table)
}

/// Only the overheads, which fit a terminal.
pub(crate) fn overheads(rows: &[MetricsRow]) -> Result<Table, ReportError> {
    let columns = ["n", "d", "m"]
        .map(|key| Column::number(key, key).rank(0))
        .into_iter()
        .chain([
            Column::text("pass", "pass").rank(0),
            Column::number("total", "counted").unit("FLOP").rank(2),
        ])
        .chain(METRICS.iter().map(|metric| Column::number(metric.key, metric.key).rank(0)));
    let mut table = Table::new("Overheads by configuration", columns)?;
    for row in rows {
        table.push(
            [row.n, row.d, row.m]
                .map(Cell::from)
                .into_iter()
                .chain([Cell::text(row.pass.name()), Cell::from(row.total)])
                .chain(METRICS.iter().map(|metric| Cell::float((metric.of)(row), 4))),
        )?;
    }
    Ok(table)
}

/// Least, median and largest value of each overhead over the run, with the configurations where
/// they occur, and over how many of the configurations that were requested.
pub(crate) fn summary(rows: &[MetricsRow], requested: usize) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Overheads over the run",
        [
            Column::text("pass", "pass"),
            Column::text("metric", "metric").rank(0),
            Column::number("least", "least").rank(1),
            Column::text("least_at", "at (n, d, m)").rank(2),
            Column::number("median", "median").rank(0),
            Column::number("most", "most").rank(1),
            Column::text("most_at", "at (n, d, m)").rank(2),
            Column::text("over", "networks").rank(1),
        ],
    )?;
    for pass in Pass::ALL {
        for metric in &METRICS {
            let mut of_pass: Vec<&MetricsRow> = rows.iter().filter(|row| row.pass == pass).collect();
            of_pass.sort_by(|a, b| (metric.of)(a).total_cmp(&(metric.of)(b)));
            let (Some(least), Some(most)) = (of_pass.first(), of_pass.last()) else { continue };
            let at = |row: &MetricsRow| Cell::text(format!("({}, {}, {})", row.n, row.d, row.m));
            table.push([
                Cell::text(pass.name()),
                Cell::text(metric.key),
                Cell::float((metric.of)(least), 4),
                at(least),
                Cell::float(median(&of_pass, metric.of), 4),
                Cell::float((metric.of)(most), 4),
                at(most),
                Cell::text(over(of_pass.len(), requested)),
            ])?;
        }
    }
    Ok(table)
}

/// `1,280`, or `1,200 of 1,280` where some were not measured.
fn over(measured: usize, requested: usize) -> String {
    let [measured_text, all] = [measured, requested].map(|count| group_thousands(count as u64));
    if measured == requested { all } else { format!("{measured_text} of {all}") }
}

/// The median of sorted rows; the mean of the middle two where their number is even.
fn median(sorted: &[&MetricsRow], of: fn(&MetricsRow) -> f64) -> f64 {
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    f64::midpoint(of(low), of(high))
}
