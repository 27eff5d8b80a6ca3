//! The plots of the report.

use std::collections::BTreeMap;

use flopgap_report::ReportError;
use flopgap_report::axis::AxisLabel;
use flopgap_report::chart::{Color, Guide, Plot, Series};
use flopgap_report::html::Block;
use flopgap_report::numbers::ValueFormat;
use flopgap_roofline::Ceilings;

use super::ReportInput;
use crate::judge::Judged;

pub(super) fn push(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    let mut charts = Vec::new();
    if !input.judged.is_empty() {
        charts.push(predicted(input)?);
        charts.extend(roofline(input)?);
        charts.push(errors(input)?);
    }
    charts.extend(input.ceilings.map(bandwidth).transpose()?.flatten());
    if charts.is_empty() {
        return Ok(());
    }
    blocks.push(Block::Heading("Plots".to_owned()));
    for (name, chart) in charts {
        let file =
            if input.charts.is_empty() { String::new() } else { format!("{}{name}.svg", input.charts) };
        blocks.push(Block::Plot(chart.file(file)));
    }
    Ok(())
}

type Named = (&'static str, Plot);

/// Points by precision, each precision in one color on all charts.
fn by_precision(judged: &[Judged], point: impl Fn(&Judged) -> Option<(f64, f64)>) -> Vec<Series> {
    let mut groups = BTreeMap::<&str, Vec<(f64, f64)>>::new();
    for row in judged {
        groups.entry(&row.precision).or_default().extend(point(row));
    }
    groups
        .into_iter()
        .enumerate()
        .map(|(index, (precision, points))| {
            let label = if precision.is_empty() { "runs" } else { precision };
            Series::points(label, Color::nth(index), points)
        })
        .collect()
}

fn line(label: &str, from: (f64, f64), to: (f64, f64), dashed: bool) -> Guide {
    Guide { label: label.to_owned(), points: vec![from, to], dashed, named: false }
}

fn named(guide: Guide) -> Guide {
    Guide { named: true, ..guide }
}

fn predicted(input: &ReportInput<'_>) -> Result<Named, ReportError> {
    let micro = |row: &Judged| Some((row.time.measured / 1e3, row.time.estimated / 1e3));
    // Power laws through all that may be measured, from a picosecond to a day.
    let by = |factor: f64| ((1e-6, 1e-6 * factor), (1e11, 1e11 * factor));
    let (equal, above, below) = (by(1.0), by(1.1), by(0.9));
    let chart = Plot::new(
        "Estimated against measured time",
        AxisLabel::new("measured").unit("µs"),
        AxisLabel::new("estimated").unit("µs"),
        by_precision(input.judged, micro),
    )?
    .subtitle(format!("{} runs; {}", input.judged.len(), input.estimator))
    .same_scale()
    .guides(vec![
        line("equal", equal.0, equal.1, false),
        line("±10%", above.0, above.1, true),
        line("", below.0, below.1, true),
    ]);
    Ok(("estimated", chart))
}

fn roofline(input: &ReportInput<'_>) -> Result<Option<Named>, ReportError> {
    let point = |row: &Judged| {
        let work = row.work.filter(|work| *work > 0.0)?;
        // FLOPs in a nanosecond are GFLOP/s.
        Some((row.intensity()?, work / row.time.measured))
    };
    let groups = by_precision(input.judged, point);
    if groups.iter().all(|group| group.points.is_empty()) {
        return Ok(None);
    }
    let mut guides = Vec::new();
    let mut reaching = Vec::new();
    if let Some(ceilings) = input.ceilings {
        let run = |precision: &str| input.judged.iter().any(|row| row.precision == precision);
        let least = groups.iter().flat_map(|group| &group.points).map(|point| point.0).reduce(f64::min);
        for peak in ceilings.peaks.iter().filter(|peak| run(peak.precision.name())) {
            let (giga, units) =
                (peak.ops_per_second.value / 1e9, if peak.tensor { "tensor" } else { "vector" });
            let label = format!("peak {} {units}", peak.precision);
            guides.push(named(line(&label, (1e-6, giga), (1e9, giga), false)));
            reaching.extend(least.map(|least| (least, giga)));
        }
        for level in &ceilings.levels {
            let giga = level.read / 1e9;
            guides.push(named(line(&level.name, (1e-6, 1e-6 * giga), (1e9, 1e9 * giga), true)));
        }
    }
    let subtitle =
        if input.ceilings.is_some() { "ceilings as measured" } else { "the ceilings were not probed" };
    let chart = Plot::new(
        "Roofline",
        AxisLabel::new("intensity").unit("FLOP/B"),
        AxisLabel::new("reached").unit("GFLOP/s"),
        groups,
    )?
    .subtitle(subtitle)
    .reaching(reaching)
    .guides(guides);
    Ok(Some(("roofline", chart)))
}

fn errors(input: &ReportInput<'_>) -> Result<Named, ReportError> {
    let by_work = input.judged.iter().any(|row| row.work.is_some_and(|work| work > 0.0));
    let point = |row: &Judged| {
        let place = if by_work { row.work.filter(|work| *work > 0.0)? } else { row.time.measured / 1e3 };
        Some((place, row.time.error()))
    };
    let across =
        if by_work { AxisLabel::new("work").unit("FLOP") } else { AxisLabel::new("measured").unit("µs") };
    let level = |label: &str, error: f64, dashed| line(label, (1e-6, error), (1e24, error), dashed);
    let chart = Plot::new(
        "Error by size",
        across,
        AxisLabel::new("error of the estimate"),
        by_precision(input.judged, point),
    )?
    .subtitle("above 0: estimated too slow")
    .format(ValueFormat::Percent)
    .linear()
    .guides(vec![level("none", 0.0, false), level("±10%", 0.1, true), level("", -0.1, true)]);
    Ok(("errors", chart))
}

fn bandwidth(ceilings: &Ceilings) -> Result<Option<Named>, ReportError> {
    if ceilings.bandwidth.is_empty() {
        return Ok(None);
    }
    let group = |index, label: &str, of: fn(&flopgap_roofline::Bandwidth) -> f64| {
        let points = ceilings.bandwidth.iter().map(|at| (at.bytes as f64 / 1024.0, of(at) / 1e9)).collect();
        Series::line(label, Color::nth(index), points)
    };
    let chart = Plot::new(
        "Bandwidth over the working set, measured",
        AxisLabel::new("working set").unit("KiB"),
        AxisLabel::new("bandwidth").unit("GB/s"),
        vec![
            group(0, "read", |at| at.read.value),
            group(1, "write", |at| at.write.value),
            group(2, "copy", |at| at.copy.value),
        ],
    )?
    .subtitle(ceilings.device.clone());
    Ok(Some(("bandwidth", chart)))
}
