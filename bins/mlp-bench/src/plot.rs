//! The fraction of the floor over the batch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flopgap_cli::Failure;
use flopgap_report::axis::AxisLabel;
use flopgap_report::chart::{Color, Plot, Series};
use flopgap_report::numbers::ValueFormat;

use crate::failed;
use crate::results::{Measurement, Results};

/// A network, a precision and a pass.
type Chart<'a> = (&'a str, &'a str, &'a str);

/// Writes a chart for each network, precision and pass into a directory, which is made if it is not
/// there, and returns their files.
///
/// # Errors
/// When the directory cannot be made, or a file cannot be written.
pub(crate) fn write(folder: &Path, results: &Results) -> Result<Vec<PathBuf>, Failure> {
    flopgap_files::create_folder(folder).map_err(failed)?;
    let mut charts: BTreeMap<Chart<'_>, Vec<&Measurement>> = BTreeMap::new();
    for measurement in
        results.measurements.iter().filter(|m| m.timing == "gpu-graph" || m.timing == "cpu" || m.is_peer())
    {
        charts
            .entry((&measurement.subject.size, &measurement.subject.precision, &measurement.subject.pass))
            .or_default()
            .push(measurement);
    }
    let mut files = Vec::new();
    for ((size, precision, pass), measurements) in charts {
        let mut lines: Vec<Series> = Vec::new();
        for m in measurements {
            let label = match m.timing.as_str() {
                "cpu" => format!("{} (host's clock)", m.subject.implementation),
                "gpu-launch" => format!("{} (between events)", m.subject.implementation),
                _ => m.subject.implementation.clone(),
            };
            let Some(part) = m.floor_fraction else { continue };
            let point = (m.subject.batch as f64, part);
            match lines.iter_mut().find(|line| line.label == label) {
                Some(line) => line.points.push(point),
                None => lines.push(Series::line(label, Color::nth(lines.len()), vec![point])),
            }
        }
        let title = format!("{size}, {precision}, {pass}: how near the floor");
        let chart = Plot::new(
            title,
            AxisLabel::new("batch").unit("samples"),
            AxisLabel::new("the floor's part of the time"),
            lines,
        )
        .map_err(failed)?
        .subtitle(&results.device)
        .ticks_at_points()
        .linear()
        .format(ValueFormat::Percent);
        let file = folder.join(format!("{size}_{precision}_{pass}.svg"));
        flopgap_files::write_atomic(&file, chart.to_svg().map_err(failed)?.as_bytes()).map_err(failed)?;
        files.push(file);
    }
    Ok(files)
}
