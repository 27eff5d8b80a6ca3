//! One picture for each n and pass: how far the framework's formula and the counters lie from
//! theory, over d, with a plot for each m.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flopgap_cli::Failure;
use flopgap_files::{create_folder, write_atomic};
use flopgap_flops::Pass;
use flopgap_report::axis::AxisLabel;
use flopgap_report::chart::{Color, Series, SmallMultiples};
use flopgap_report::numbers::ValueFormat;

use crate::validate::compare::{Row, difference};

/// Draws the plots into `directory` and returns their number.
pub(crate) fn write(rows: &[Row], origin: &str, directory: &Path) -> Result<usize, Failure> {
    create_folder(directory)?;
    let layers: BTreeSet<u64> = rows.iter().map(|row| row.config.n).collect();
    let mut files = 0;
    for n in layers {
        for pass in Pass::ALL {
            let of_plot: Vec<&Row> =
                rows.iter().filter(|row| row.config.n == n && row.pass == pass).collect();
            let svg = picture(&of_plot, n, pass, origin).and_then(|picture| picture.to_svg());
            let svg = svg?;
            let path = directory.join(format!("over_theory_{pass}_n{n}.svg"));
            write_atomic(&path, svg.as_bytes())?;
            files += 1;
        }
    }
    Ok(files)
}

/// A plot for each m: in a single plot, lines would hide each other.
fn picture(
    rows: &[&Row],
    n: u64,
    pass: Pass,
    origin: &str,
) -> Result<SmallMultiples, flopgap_report::ReportError> {
    let mut by_columns: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        by_columns.entry(row.config.m).or_default().push(row);
    }
    let share = |row: &Row, flops: u64| difference(flops, row.theory.total).1;
    let any_counted = rows.iter().any(|row| row.counted.is_some());
    let plots = by_columns.into_iter().map(|(m, rows)| {
        let line = |label: &str, color, value: &dyn Fn(&Row) -> Option<f64>| {
            let points = rows.iter().filter_map(|row| Some((row.config.d as f64, value(row)?)));
            let missing = rows.iter().filter(|row| value(row).is_none()).map(|row| row.config.d as f64);
            Series { missing: missing.collect(), ..Series::line(label, color, points.collect()) }
        };
        let mut lines =
            vec![line("framework's formula", Color::NEUTRAL, &|row| share(row, row.framework.total))];
        // Comparisons of traces alone have no counters that could be missing.
        if any_counted {
            let counted = |row: &Row| row.counted.and_then(|counts| share(row, counts.total));
            lines.push(line("counted", Color::nth(0), &counted));
        }
        (format!("m = {m}"), lines)
    });
    let title = format!("FLOPs against theory, {pass} pass, n={n}");
    SmallMultiples::new(title, AxisLabel::new("width d"), AxisLabel::new("above theory"), plots.collect())
        .map(|picture| picture.subtitle(origin).format(ValueFormat::Percent))
}
