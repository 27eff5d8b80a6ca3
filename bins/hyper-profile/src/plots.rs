//! One surface for each metric, pass and n.

use std::path::Path;

use flopgap_cli::Failure;
use flopgap_flops::Pass;
use flopgap_fs::{create_folder, write_atomic};
use flopgap_report::ReportError;
use flopgap_report::progress::Progress;
use flopgap_report::surface::{AxisLabel, Size, Surface};
use flopgap_sweep::MetricsRow;
use rayon::prelude::*;

use crate::metric::{METRICS, Metric};

/// Draws every surface of a run into `folder`, as SVG and as PNG; how many files were written.
pub(crate) fn write(rows: &[MetricsRow], origin: &str, folder: &Path) -> Result<usize, Failure> {
    create_folder(folder).map_err(|error| Failure::from_error(&error).maybe_hint(error.hint()))?;
    let mut layers: Vec<u64> = rows.iter().map(|row| row.n).collect();
    layers.dedup(); // rows are ordered by n
    let pictures: Vec<(&Metric, Pass, u64)> = METRICS
        .iter()
        .flat_map(|metric| Pass::ALL.into_iter().map(move |pass| (metric, pass)))
        .flat_map(|(metric, pass)| layers.iter().map(move |&n| (metric, pass, n)))
        .collect();
    let progress = Progress::new(pictures.len() as u64, "surfaces");
    pictures.par_iter().try_for_each(|&(metric, pass, n)| {
        let surface = surface(rows, origin, metric, pass, n).map_err(|error| Failure::from_error(&error))?;
        let name = format!("{}_{pass}_n{n}", metric.key);
        let svg = surface.to_svg(Size::default()).map_err(|error| Failure::from_error(&error))?;
        let png = surface.to_png(Size::default()).map_err(|error| Failure::from_error(&error))?;
        for (ending, bytes) in [("svg", svg.as_bytes()), ("png", &png)] {
            write_atomic(&folder.join(format!("{name}.{ending}")), bytes)
                .map_err(|error| Failure::from_error(&error).maybe_hint(error.hint()))?;
        }
        progress.advance(1);
        Ok::<(), Failure>(())
    })?;
    progress.finish();
    Ok(2 * pictures.len())
}

fn surface(
    rows: &[MetricsRow],
    origin: &str,
    metric: &Metric,
    pass: Pass,
    n: u64,
) -> Result<Surface, ReportError> {
    let points = rows
        .iter()
        .filter(|row| row.n == n && row.pass == pass)
        .map(|row| (row.d as f64, row.m as f64, Some((metric.of)(row))));
    let layers = if n == 1 { "layer" } else { "layers" };
    Ok(Surface::from_points(
        format!("{}, {pass} pass, {n} {layers}", metric.title),
        AxisLabel::new("width d"),
        AxisLabel::new("columns m"),
        AxisLabel::new(metric.key).unit(metric.unit),
        points,
    )?
    .subtitle(origin))
}
