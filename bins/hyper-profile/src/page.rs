//! `report.html`: the whole run on one page.

use std::path::Path;

use flopgap_report::ReportError;
use flopgap_report::html::{Explorer, Metric, Point, ReportPage};
use flopgap_report::numbers::{self, ValueFormat};
use flopgap_report::surface::AxisLabel;
use flopgap_sweep::{MetricsRow, RunAnalysis};

use crate::metric::METRICS;
use crate::tables;

/// Where the numbers come from, in one line; empty when the run does not say.
pub(crate) fn origin_line(analysis: &RunAnalysis) -> String {
    let Some(manifest) = &analysis.manifest else { return String::new() };
    let origin = &manifest.origin;
    let parts = [&origin.device, &origin.framework, &origin.profiler];
    parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" · ")
}

/// The page of a run.
pub(crate) fn render(run: &Path, analysis: &RunAnalysis, rows: &[MetricsRow]) -> Result<String, ReportError> {
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
                format: ValueFormat::Number,
            })
            .collect(),
        points: rows
            .iter()
            .map(|row| Point {
                selection: vec![row.n.to_string(), row.pass.to_string()],
                x: row.d as f64,
                y: row.m as f64,
                values: METRICS.iter().map(|metric| Some((metric.of)(row))).collect(),
            })
            .collect(),
    };
    let page = ReportPage {
        title: format!("Counted against theoretical FLOPs: {name}"),
        subtitle: "Square sigmoid networks of n layers, d×d weights and m columns; counters of the hardware against closed forms."
            .to_owned(),
        facts: facts(analysis),
        explorer: Some(explorer),
        tables: vec![tables::summary(rows, analysis.asked_for().len())?, tables::for_page(rows)?],
        problems: analysis.problems.iter().chain(&analysis.warnings).map(ToString::to_string).collect(),
    };
    page.to_html()
}

/// What the manifest says, and how much of the run is there.
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
    let incomplete = analysis.problems.iter().filter(|problem| problem.config.is_some()).count();
    let [complete, incomplete] =
        [analysis.configs.len(), incomplete].map(|count| numbers::group_thousands(count as u64));
    fact("configurations", Some(&format!("{complete} complete, {incomplete} incomplete")));
    fact("command", analysis.manifest.as_ref().and_then(|manifest| manifest.origin.command.as_deref()));
    facts
}
