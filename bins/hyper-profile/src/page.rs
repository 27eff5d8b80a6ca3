//! `report.html`: the whole run on one page.

use std::path::Path;

use flopgap_cli::Failure;
use flopgap_flops::{FlopError, Pass};
use flopgap_phases::sweep::{Launches, MetricsRow, RunAnalysis};
use flopgap_phases::{Cause, PassAnalysis};
use flopgap_report::axis::AxisLabel;
use flopgap_report::html::{Block, Document, Explorer, Metric, Point, Step};
use flopgap_report::numbers;

use crate::metric::METRICS;
use crate::plots::{Measured, TILE_STEPS};
use crate::{failure, tables};

/// The origin of the numbers, in one line; empty if the run does not record it.
pub(crate) fn origin_line(analysis: &RunAnalysis) -> String {
    let Some(manifest) = &analysis.manifest else { return String::new() };
    let origin = &manifest.origin;
    let parts = [&origin.device, &origin.framework, &origin.profiler];
    parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" · ")
}

/// How many launches were not counted themselves, if there are any.
pub(crate) fn taken_over(analysis: &RunAnalysis) -> Option<String> {
    let Launches { all, taken_over } = analysis.launches;
    let [taken, all] = [taken_over, all].map(numbers::group_thousands);
    let text = format!(
        "{taken} of {all} launches have the counts of an equal launch (kernel, grid, d, m) of another network; --count-all counts all"
    );
    (taken_over > 0).then_some(text)
}

/// A point for each pass of each requested configuration, measured or not.
fn points(analysis: &RunAnalysis, measured: &Measured<'_>) -> Result<Vec<Point>, Failure> {
    let mut points = Vec::new();
    for n in measured.layers() {
        for pass in Pass::ALL {
            for (config, row) in measured.of(n, pass) {
                let part = analysis.configs.get(&config).map(|one| match pass {
                    Pass::Forward => &one.forward,
                    Pass::Backward => &one.backward,
                });
                let steps = part.map(steps).transpose()?;
                points.push(Point {
                    selection: vec![n.to_string(), pass.to_string()],
                    x: config.d as f64,
                    y: config.m as f64,
                    values: METRICS.iter().map(|metric| row.map(metric.of)).collect(),
                    refused: measured.refusal(config).map(ToString::to_string),
                    line: measured.is_tile_step(config, pass),
                    steps: steps.unwrap_or_default(),
                });
            }
        }
    }
    Ok(points)
}

/// The parts of the counted FLOPs of a pass.
fn steps(part: &PassAnalysis) -> Result<Vec<Step>, FlopError> {
    let step = |step: flopgap_phases::Step| Step {
        cause: step.cause.name().to_owned(),
        expected: matches!(step.cause, Cause::Products | Cause::Activations),
        label: step.kernel.unwrap_or_default(),
        detail: step.tile.map(|tile| tile.to_string()).unwrap_or_default(),
        times: step.launches,
        amount: step.flops,
    };
    Ok(part.breakdown()?.steps.into_iter().map(step).collect())
}

/// The page of a run.
pub(crate) fn render(
    run: &Path,
    analysis: &RunAnalysis,
    measured: &Measured<'_>,
    rows: &[MetricsRow],
) -> Result<String, Failure> {
    let page = page(run, analysis, measured, rows)?;
    page.to_html().map_err(|error| Failure::from_error(&error))
}

fn page(
    run: &Path,
    analysis: &RunAnalysis,
    measured: &Measured<'_>,
    rows: &[MetricsRow],
) -> Result<Document, Failure> {
    let name =
        run.file_name().map_or_else(|| run.display().to_string(), |name| name.to_string_lossy().into_owned());
    let explorer = Explorer {
        x: AxisLabel::new("width d"),
        y: AxisLabel::new("columns m"),
        selectors: vec!["layers n".to_owned(), "pass".to_owned()],
        metrics: METRICS
            .iter()
            .map(|metric| Metric {
                label: AxisLabel::new(metric.title).unit(metric.unit),
                explanation: metric.meaning.to_owned(),
                lines: metric.tiles,
            })
            .collect(),
        lines: Some(TILE_STEPS.to_owned()),
        total: Some(AxisLabel::new("counted").unit("FLOP")),
        points: points(analysis, measured)?,
    };
    let problems = analysis.problems.iter().chain(&analysis.warnings);
    let problems: Vec<String> = problems.map(|problem| failure::of_problem(problem).to_string()).collect();
    let mut blocks = Vec::new();
    if !problems.is_empty() {
        blocks.push(Block::Problems(format!("{} incomplete or damaged", problems.len()), problems));
    }
    blocks.extend([Block::Heading("Run".to_owned()), Block::Facts(facts(analysis))]);
    blocks.push(Block::Explorer(explorer));
    for table in [tables::summary(rows, analysis.requested().len()), tables::for_page(rows)] {
        blocks.push(Block::Table(table?));
    }
    Ok(Document {
        title: format!("Counted against theoretical FLOPs: {name}"),
        subtitle: "Square sigmoid networks of n layers, d×d weights and m columns; counters of the hardware against closed forms."
            .to_owned(),
        blocks,
    })
}

/// The manifest, and how much of the run is complete.
fn facts(analysis: &RunAnalysis) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            facts.push((name.to_owned(), value.to_owned()));
        }
    };
    if let Some(manifest) = &analysis.manifest {
        let origin = &manifest.origin;
        fact("recorded", Some(&manifest.created));
        fact("device", origin.device.as_deref());
        fact("driver", origin.driver.as_deref());
        fact("framework", origin.framework.as_deref());
        fact("profiler", origin.profiler.as_deref());
    }
    fact("counts", taken_over(analysis).as_deref());
    let incomplete = analysis.problems.iter().filter(|problem| problem.config.is_some()).count();
    let refused = analysis.refused();
    let [complete, incomplete, refused] = [analysis.configs.len(), incomplete - refused, refused]
        .map(|count| numbers::group_thousands(count as u64));
    let configurations = format!("{complete} complete, {incomplete} incomplete, {refused} refused");
    fact("configurations", Some(&configurations));
    fact("command", analysis.manifest.as_ref().and_then(|manifest| manifest.origin.command.as_deref()));
    facts
}
