//! Rows of a table as judged runs.

use flopgap_flops::Precision;
use flopgap_graph::{Step, Workload};

use super::{Judged, Pair};
use crate::sheet::{Record, Sheet};

/// FLOPs for each byte from which on a run counts as compute-bound.
const COMPUTE: f64 = 10.0;

/// The rows of a table that have both a measured and an estimated time.
pub fn of_sheet(sheet: &Sheet) -> Vec<Judged> {
    let column = |name: &str| sheet.identity.iter().position(|column| column == name);
    let (batch, precision) = (column("batch_size"), column("precision"));
    let kept = |skipped: &[Option<usize>], record: &Record| {
        let cells = record.identity.iter().enumerate();
        let cells = cells.filter(|(index, cell)| !skipped.contains(&Some(*index)) && !cell.is_empty());
        cells.map(|(_, cell)| cell.as_str()).collect::<Vec<_>>().join(" ")
    };
    let text = |record: &Record, name: &str| {
        column(name).map(|index| record.identity[index].clone()).unwrap_or_default()
    };
    let judged = |record: &Record| {
        let (measured, estimated) = (&record.measured, &record.estimated);
        let pair = |measured: Option<f64>, estimated: Option<f64>, unit: f64| {
            let (measured, estimated) = measured.zip(estimated)?;
            (measured > 0.0).then_some(Pair { measured: measured * unit, estimated: estimated * unit })
        };
        let time = pair(measured.time_ms, estimated.time_ms, 1e6)?;
        let exact = record.workload.as_ref().and_then(|workload| exact(workload, record));
        let intensity = record.intensity.or_else(|| {
            let (_, flops, bytes) = exact?;
            (bytes > 0.0).then(|| flops / bytes)
        });
        let by_intensity = intensity
            .map(|intensity| if intensity > COMPUTE { "compute".to_owned() } else { "memory".to_owned() });
        Some(Judged {
            label: kept(&[precision], record),
            model: kept(&[batch, precision], record),
            family: record.workload.as_ref().map(|workload| workload.family().to_owned()).unwrap_or_default(),
            engine: text(record, "engine"),
            mode: text(record, "mode"),
            precision: record.precision.clone().unwrap_or_default(),
            batch: record.batch,
            time,
            interval: record.interval_ms.map(|(low, high)| (low * 1e6, high * 1e6)),
            memory: pair(measured.memory_mb, estimated.memory_mb, 1e6),
            // Where nothing was counted, the closed form of the products stands for it.
            flops: pair(measured.flops.or(exact.map(|exact| exact.0)), estimated.flops, 1.0),
            energy: pair(measured.energy_j, estimated.energy_j, 1.0),
            work: exact.map(|exact| exact.1),
            bytes: exact.map(|exact| exact.2),
            regime: record.bottleneck.clone().or(by_intensity.clone()),
            bottleneck: record.bottleneck.clone().or(by_intensity),
            ..Judged::default()
        })
    };
    sheet.records.iter().filter_map(judged).collect()
}

/// By the closed forms: FLOPs of products and convolutions alone, all FLOPs, and bytes. `None`
/// where a size or the precision makes no sense.
fn exact(workload: &Workload, record: &Record) -> Option<(f64, f64, f64)> {
    let precision: Precision = record.precision.as_deref()?.parse().ok()?;
    let steps: Vec<Step> = workload.steps().ok()?;
    let (mut products, mut flops, mut bytes) = (0.0, 0.0, 0.0);
    for step in &steps {
        let work = step.work(precision).ok()?;
        products += 2.0 * step.op.multiply_adds().ok()? as f64;
        flops += work.flops as f64;
        bytes += (work.bytes_read + work.bytes_written) as f64;
    }
    Some((products, flops, bytes))
}
