//! The pictures of a run: heatmaps of each metric, and a surface for each metric, pass and n.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flopgap_cli::{Console, Failure};
use flopgap_files::{create_folder, write_atomic};
use flopgap_flops::Pass;
use flopgap_phases::sweep::{Config, MetricsRow, Problem, RunAnalysis};
use flopgap_report::ReportError;
use flopgap_report::axis::AxisLabel;
use flopgap_report::heatmap::{Cell, Heatmaps, Panel};
use flopgap_report::surface::Surface;
use rayon::prelude::*;

use crate::metric::{METRICS, Metric};

/// What the lines in heatmaps mean.
pub(crate) const TILE_STEPS: &str =
    "a tile of a recorded kernel is full: it needs another one for the next number of columns";

/// The data behind pictures: every requested configuration, with its two rows if it was measured.
pub(crate) struct Measured<'a> {
    rows: BTreeMap<(Config, Pass), &'a MetricsRow>,
    requested: BTreeSet<Config>,
    all: &'a [MetricsRow],
    analysis: &'a RunAnalysis,
}

impl<'a> Measured<'a> {
    pub(crate) fn new(rows: &'a [MetricsRow], analysis: &'a RunAnalysis) -> Self {
        let by_config = rows.iter().map(|row| ((row.config(), row.pass), row)).collect();
        Measured { rows: by_config, requested: analysis.requested(), all: rows, analysis }
    }

    /// Why a configuration was refused, if it was.
    pub(crate) fn refusal(&self, config: Config) -> Option<&'a Problem> {
        let problems = self.analysis.problems.iter();
        problems.filter(|problem| problem.is_refusal()).find(|problem| problem.config == Some(config))
    }

    /// Whether a product of a configuration would need another tile for the next number of columns
    /// in the run.
    pub(crate) fn is_tile_step(&self, config: Config, pass: Pass) -> bool {
        let more = self.requested.iter().map(|other| other.m).filter(|m| *m > config.m);
        let (Some(next), Some(one)) = (more.min(), self.analysis.configs.get(&config)) else { return false };
        let part = if pass == Pass::Forward { &one.forward } else { &one.backward };
        part.needs_another_tile(config.m, next)
    }

    /// The requested layers.
    pub(crate) fn layers(&self) -> Vec<u64> {
        let layers: BTreeSet<u64> = self.requested.iter().map(|config| config.n).collect();
        layers.into_iter().collect()
    }

    /// Every configuration of a depth, with its rows if measured.
    pub(crate) fn of(&self, n: u64, pass: Pass) -> impl Iterator<Item = (Config, Option<&'a MetricsRow>)> {
        let configs = self.requested.iter().filter(move |config| config.n == n);
        configs.map(move |config| (*config, self.rows.get(&(*config, pass)).copied()))
    }

    /// The points of a picture: width, columns, and the value if measured.
    fn points(&self, metric: &Metric, pass: Pass, n: u64) -> Vec<(f64, f64, Option<f64>)> {
        let value = |row: Option<&MetricsRow>| row.map(metric.of);
        self.of(n, pass).map(|(config, row)| (config.d as f64, config.m as f64, value(row))).collect()
    }
}

enum Picture<'m> {
    Heatmaps(&'m Metric),
    Surface(&'m Metric, Pass, u64),
}

/// Draws every picture of a run into `directory`, as SVG and PNG, and returns the number of files.
pub(crate) fn write(
    measured: &Measured<'_>,
    origin: &str,
    directory: &Path,
    console: Console,
) -> Result<usize, Failure> {
    create_folder(directory)?;
    let layers = measured.layers();
    let mut pictures: Vec<Picture<'_>> = METRICS.iter().map(Picture::Heatmaps).collect();
    for metric in &METRICS {
        for pass in Pass::ALL {
            let measured_at = |n: &&u64| measured.of(**n, pass).any(|(_, row)| row.is_some());
            pictures.extend(layers.iter().filter(measured_at).map(|&n| Picture::Surface(metric, pass, n)));
        }
    }
    let progress = console.progress(pictures.len() as u64, "pictures");
    pictures.par_iter().try_for_each(|picture| {
        let (name, svg, png) = draw(measured, origin, picture)?;
        for (ending, bytes) in [("svg", svg.as_bytes()), ("png", &png)] {
            write_atomic(&directory.join(format!("{name}.{ending}")), bytes)?;
        }
        progress.advance(1);
        Ok::<(), Failure>(())
    })?;
    progress.finish();
    Ok(2 * pictures.len())
}

/// Name, SVG and PNG of a picture.
fn draw(
    measured: &Measured<'_>,
    origin: &str,
    picture: &Picture<'_>,
) -> Result<(String, String, Vec<u8>), ReportError> {
    match *picture {
        Picture::Heatmaps(metric) => {
            let heatmaps = heatmaps(measured, origin, metric)?;
            let name = format!("heatmap_{}", metric.key);
            Ok((name, heatmaps.to_svg()?, heatmaps.to_png()?))
        }
        Picture::Surface(metric, pass, n) => {
            let surface = surface(measured, origin, metric, pass, n)?;
            let name = format!("{}_{pass}_n{n}", metric.key);
            Ok((name, surface.to_svg()?, surface.to_png()?))
        }
    }
}

fn heatmaps(measured: &Measured<'_>, origin: &str, metric: &Metric) -> Result<Heatmaps, ReportError> {
    let panels = Pass::ALL
        .into_iter()
        .flat_map(|pass| measured.layers().into_iter().map(move |n| panel(measured, metric, pass, n)));
    let heatmaps = Heatmaps::new(
        format!("{}, every network of the run", metric.title),
        AxisLabel::new("width d"),
        AxisLabel::new("columns m"),
        AxisLabel::new(metric.key).unit(metric.unit),
        panels.collect(),
    )?;
    let heatmaps = heatmaps.subtitle(origin).scale(metric.scale(measured.all));
    Ok(if metric.tiles { heatmaps.lines(TILE_STEPS) } else { heatmaps })
}

fn panel(measured: &Measured<'_>, metric: &Metric, pass: Pass, n: u64) -> Panel {
    let cells = measured.of(n, pass).map(|(config, row)| Cell {
        x: config.d as f64,
        y: config.m as f64,
        value: row.map(metric.of),
        refused: measured.refusal(config).is_some(),
        line: metric.tiles && measured.is_tile_step(config, pass),
    });
    Panel { row: format!("{pass} pass"), column: format!("n = {n}"), cells: cells.collect() }
}

fn surface(
    measured: &Measured<'_>,
    origin: &str,
    metric: &Metric,
    pass: Pass,
    n: u64,
) -> Result<Surface, ReportError> {
    let layers = if n == 1 { "layer" } else { "layers" };
    let surface = Surface::from_points(
        format!("{}, {pass} pass, {n} {layers}", metric.title),
        AxisLabel::new("width d"),
        AxisLabel::new("columns m"),
        AxisLabel::new(metric.key).unit(metric.unit),
        measured.points(metric, pass, n),
    )?;
    Ok(surface.subtitle(origin).scale(metric.scale(measured.all)))
}
