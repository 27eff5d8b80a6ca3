//! Times of steps and passes.

use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_timings::Times;
use flopgap_timings::passes::{GpuTimes, Pass, Passes};

use super::ms;

/// The tables of one trace.
pub fn passes(trace: &str, passes: &Passes) -> Result<Vec<Table>, ReportError> {
    let mut tables = vec![durations(trace, passes)?];
    if passes.passes.iter().any(|pass| pass.period.is_some()) {
        tables.push(periods(trace, passes)?);
    }
    if passes.passes.iter().any(|pass| pass.gpu.is_some()) {
        tables.push(explanation(trace, passes)?);
    }
    if !passes.spreads.is_empty() {
        tables.push(spreads(trace, passes)?);
    }
    if let Some(measured) = &passes.measured {
        tables.push(against(trace, passes, measured)?);
    }
    Ok(tables)
}

/// Whether passes are those of several processes.
fn by_process(passes: &Passes) -> bool {
    passes.passes.iter().any(|pass| pass.process.is_some())
}

/// The process of a pass, or its rank in its job.
pub(crate) fn process_cell(pass: &Pass) -> Cell {
    match (pass.rank, pass.process) {
        (Some(rank), _) => Cell::text(format!("rank {rank}")),
        (None, process) => Cell::optional(process, |process| Cell::text(process.to_string())),
    }
}

/// How a table of passes begins: their names, and their processes where there are several.
fn columns(passes: &Passes) -> Vec<Column> {
    let process = by_process(passes).then(|| Column::text("process", "process").rank(0));
    std::iter::once(Column::text("pass", "pass")).chain(process).collect()
}

/// How the row of a pass begins.
fn begin(passes: &Passes, pass: &Pass) -> Vec<Cell> {
    let process = by_process(passes).then(|| process_cell(pass));
    std::iter::once(Cell::text(&pass.name)).chain(process).collect()
}

/// The work of a pass on each of its GPUs, with what distinguishes one from the others.
fn on_gpus(pass: &Pass) -> Vec<(String, &GpuTimes)> {
    match pass.gpus.as_slice() {
        [] => pass.gpu.iter().map(|gpu| ("GPU".to_owned(), gpu)).collect(),
        several => several.iter().map(|own| (format!("GPU {}", own.gpu), &own.times)).collect(),
    }
}

/// Each pass: on the host, projected onto each GPU, and the time in which the GPU was busy with it.
fn durations(trace: &str, passes: &Passes) -> Result<Table, ReportError> {
    let mut columns = columns(passes);
    columns.extend([
        Column::text("time", "time").rank(0),
        Column::number("n", "n").rank(2),
        Column::number("mean_ms", "mean").unit("ms"),
        Column::number("median_ms", "median").unit("ms").rank(0),
        Column::number("min_ms", "min").unit("ms").rank(2),
        Column::number("max_ms", "max").unit("ms").rank(2),
        Column::number("stddev_ms", "stddev").unit("ms").rank(2),
    ]);
    let mut table = Table::new(format!("Passes of {trace}"), columns)?;
    let mut row = |mut row: Vec<Cell>, time: &str, times: &Times| {
        row.extend([
            Cell::text(time),
            Cell::from(times.count),
            ms(times.mean_ns),
            ms(times.median_ns),
            ms(times.min_ns as f64),
            ms(times.max_ns as f64),
            ms(times.stddev_ns),
        ]);
        table.push(row)
    };
    for pass in &passes.passes {
        row(begin(passes, pass), "host", &pass.host)?;
        for (gpu, times) in on_gpus(pass) {
            row(begin(passes, pass), &format!("{gpu} projected"), &times.projected)?;
            row(begin(passes, pass), &format!("{gpu} busy"), &times.busy)?;
        }
    }
    if let Some(measured) = &passes.measured {
        let process = by_process(passes).then_some(Cell::Absent);
        let begin = std::iter::once(Cell::text("(outside)")).chain(process).collect();
        row(begin, "measured", measured)?;
    }
    Ok(table)
}

/// How often steps begin.
fn periods(trace: &str, passes: &Passes) -> Result<Table, ReportError> {
    let mut columns = columns(passes);
    columns.extend([
        Column::number("n", "n").rank(2),
        Column::number("per_second", "per s"),
        Column::number("median_ms", "median").unit("ms").rank(0),
        Column::number("p90_ms", "p90").unit("ms"),
        Column::number("p99_ms", "p99").unit("ms").rank(2),
        Column::number("max_ms", "max").unit("ms").rank(2),
        Column::number("outliers", "outliers"),
        Column::number("between_ms", "between").unit("ms"),
    ]);
    let mut table = Table::new(format!("Period of {trace}: from one beginning to the next"), columns)?;
    for pass in &passes.passes {
        let Some(period) = &pass.period else { continue };
        let mut row = begin(passes, pass);
        row.extend([
            Cell::from(period.times.count),
            Cell::float(period.per_second, 2),
            ms(period.times.median_ns),
            Cell::optional(period.p90_ns, |ns| ms(ns as f64)),
            Cell::optional(period.p99_ns, |ns| ms(ns as f64)),
            ms(period.times.max_ns as f64),
            Cell::from(period.outliers),
            ms(period.between.median_ns),
        ]);
        table.push(row)?;
    }
    Ok(table)
}

/// How far the processes and GPUs of each pass are apart.
fn spreads(trace: &str, passes: &Passes) -> Result<Table, ReportError> {
    let mut table = Table::new(
        format!("Processes and GPUs of {trace} (means)"),
        [
            Column::text("pass", "pass"),
            Column::text("time", "time").rank(0),
            Column::number("places", "places").rank(2),
            Column::number("min_ms", "min").unit("ms").rank(2),
            Column::number("median_ms", "median").unit("ms"),
            Column::number("max_ms", "max").unit("ms").rank(0),
            Column::text("slowest", "slowest").rank(0),
        ],
    )?;
    for found in &passes.spreads {
        table.push([
            Cell::text(&found.name),
            Cell::text(found.time.as_str()),
            Cell::from(found.spread.places),
            ms(found.spread.min_ns),
            ms(found.spread.median_ns),
            ms(found.spread.max_ns),
            Cell::optional(found.spread.straggler(), |place| Cell::text(place.to_string())),
        ])?;
    }
    Ok(table)
}

/// Why host and GPU time differ.
fn explanation(trace: &str, passes: &Passes) -> Result<Table, ReportError> {
    let several = passes.passes.iter().any(|pass| !pass.gpus.is_empty());
    let mut columns = columns(passes);
    columns.extend(several.then(|| Column::text("gpu", "GPU").rank(0)));
    columns.extend([
        Column::number("host_ms", "host").unit("ms").rank(0),
        Column::number("gpu_begins_after_ms", "GPU begins after").unit("ms"),
        Column::number("gpu_ends_after_ms", "GPU ends after").unit("ms"),
        Column::number("gpu_projected_ms", "projected").unit("ms").rank(0),
        Column::number("gaps_ms", "own gaps").unit("ms"),
        Column::number("gpu_idle_ms", "GPU idle").unit("ms").rank(0),
        Column::number("host_blocked_ms", "host blocked").unit("ms"),
        Column::number("kernels", "kernels").rank(2),
        Column::number("gpu_ops", "GPU ops").rank(2),
    ]);
    let title = format!("Host and GPU of {trace}: projected = host - begins after + ends after (means)");
    let mut table = Table::new(title, columns)?;
    for pass in &passes.passes {
        for (name, gpu) in on_gpus(pass) {
            let mut row = begin(passes, pass);
            row.extend(several.then(|| Cell::text(name)));
            row.extend([
                ms(pass.host.mean_ns),
                ms(gpu.lead.mean_ns),
                ms(gpu.tail.mean_ns),
                ms(gpu.projected.mean_ns),
                ms(gpu.gaps.mean_ns),
                ms(gpu.idle.mean_ns),
                Cell::optional(pass.waiting, |waiting| ms(waiting.mean_ns)),
                Cell::float(gpu.kernels_mean, 1),
                Cell::float(gpu.operations_mean, 1),
            ]);
            table.push(row)?;
        }
    }
    Ok(table)
}

/// Each pass against the times measured outside.
fn against(trace: &str, passes: &Passes, measured: &Times) -> Result<Table, ReportError> {
    let mut columns = columns(passes);
    columns.extend([
        Column::number("measured_ms", "measured").unit("ms"),
        Column::number("host_ms", "host").unit("ms").rank(0),
        Column::number("host_difference_ms", "host - measured").unit("ms").rank(2),
        Column::number("host_change", "change").rank(0),
        Column::number("gpu_projected_ms", "projected").unit("ms").rank(0),
        Column::number("gpu_projected_difference_ms", "projected - measured").unit("ms").rank(2),
        Column::number("gpu_projected_change", "change").rank(0),
    ]);
    let mut table = Table::new(format!("{trace} against what was measured outside (means)"), columns)?;
    for pass in &passes.passes {
        let Some(against) = &pass.against else { continue };
        let mut row = begin(passes, pass);
        row.extend([
            ms(measured.mean_ns),
            ms(pass.host.mean_ns),
            ms(against.host_difference_ns),
            Cell::optional(against.host_change, |change| Cell::signed_percent(change, 2)),
            Cell::optional(pass.gpu.as_ref(), |gpu| ms(gpu.projected.mean_ns)),
            Cell::optional(against.projected_difference_ns, ms),
            Cell::optional(against.projected_change, |change| Cell::signed_percent(change, 2)),
        ]);
        table.push(row)?;
    }
    Ok(table)
}
