//! One plot for each n and pass: how far the framework's formula and the counters lie from theory, over d.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flopgap_cli::Failure;
use flopgap_flops::Pass;
use flopgap_fs::{create_folder, write_atomic};
use flopgap_report::chart::{Colour, Line, LineChart};
use flopgap_report::numbers::ValueFormat;
use flopgap_report::surface::AxisLabel;

use crate::compare::{Row, difference};

/// Draws the plots into `folder`; how many there are.
pub(crate) fn write(rows: &[Row], origin: &str, folder: &Path) -> Result<usize, Failure> {
    let write_error = |error: flopgap_fs::WriteError| Failure::from_error(&error).maybe_hint(error.hint());
    create_folder(folder).map_err(write_error)?;
    let layers: BTreeSet<u64> = rows.iter().map(|row| row.config.n).collect();
    let mut files = 0;
    for n in layers {
        for pass in Pass::ALL {
            let of_plot: Vec<&Row> =
                rows.iter().filter(|row| row.config.n == n && row.pass == pass).collect();
            let svg = plot(&of_plot, n, pass, origin).and_then(|chart| chart.to_svg());
            let svg = svg.map_err(|error| Failure::from_error(&error))?;
            let path = folder.join(format!("over_theory_{pass}_n{n}.svg"));
            write_atomic(&path, svg.as_bytes()).map_err(write_error)?;
            files += 1;
        }
    }
    Ok(files)
}

fn plot(rows: &[&Row], n: u64, pass: Pass, origin: &str) -> Result<LineChart, flopgap_report::ReportError> {
    let mut framework: BTreeMap<u64, f64> = BTreeMap::new();
    let mut counted: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows {
        let d = row.config.d as f64;
        let share = |flops| difference(flops, row.theory.total).1;
        if let Some(share) = share(row.framework.total) {
            // The same for all m but for what a trace adds; the largest shows it.
            let largest = framework.entry(row.config.d).or_insert(share);
            *largest = largest.max(share);
        }
        if let Some(share) = row.counted.and_then(|counts| share(counts.total)) {
            counted.entry(row.config.m).or_default().push((d, share));
        }
    }
    let mut lines: Vec<Line> = counted
        .into_iter()
        .enumerate()
        .map(|(index, (m, points))| Line {
            label: format!("counted, m={m}"),
            colour: Colour::nth(index),
            points,
        })
        .collect();
    lines.push(Line {
        label: "framework's formula".to_owned(),
        colour: Colour::NEUTRAL,
        points: framework.into_iter().map(|(d, share)| (d as f64, share)).collect(),
    });
    let title = format!("FLOPs against theory, {pass} pass, n={n}");
    LineChart::new(title, AxisLabel::new("width d"), AxisLabel::new("above theory"), lines)
        .map(|chart| chart.subtitle(origin).format(ValueFormat::Percent))
}
