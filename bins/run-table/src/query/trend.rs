//! A trend as a chart.

use std::path::Path;

use flopgap_cli::{Console, Failure};
use flopgap_report::axis::AxisLabel;
use flopgap_report::chart::{Color, Plot, Series};
use polars::prelude::AnyValue;

use super::data::Rows;

/// Draws the mean, least and largest time by run, numbered from 1 in the order of the answer.
pub(super) fn draw(rows: &Rows, name: &str, path: &Path, console: Console) -> Result<(), Failure> {
    let failed = |error: flopgap_report::ReportError| Failure::from_error(&error);
    let lines = [("mean", "mean_ns"), ("shortest", "min_ns"), ("longest", "max_ns")];
    let lines: Result<Vec<Series>, Failure> = lines
        .iter()
        .enumerate()
        .map(|(at, (label, column))| {
            let column = rows.frame.column(column).map_err(|error| Failure::from_error(&error))?;
            let points = (0..column.len()).filter_map(|row| {
                let microseconds = number(&column.get(row).ok()?)? / 1e3;
                Some(((row + 1) as f64, microseconds))
            });
            Ok(Series::line(*label, Color::nth(at), points.collect()))
        })
        .collect();
    let title = format!("Time of {name} by run");
    let (x, y) =
        (AxisLabel::new("run, in the order of recording"), AxisLabel::new("time of a call").unit("µs"));
    let plot = Plot::new(title, x, y, lines?).map_err(failed)?;
    let svg = plot.ticks_at_points().linear().to_svg().map_err(failed)?;
    flopgap_files::write_atomic(path, svg.as_bytes())?;
    console.note(format_args!("wrote {}", path.display()));
    Ok(())
}

fn number(value: &AnyValue<'_>) -> Option<f64> {
    match value {
        AnyValue::Int64(value) => Some(*value as f64),
        AnyValue::Decimal(value, _, 0) => Some(*value as f64),
        AnyValue::Float64(value) => Some(*value),
        _ => None,
    }
}
