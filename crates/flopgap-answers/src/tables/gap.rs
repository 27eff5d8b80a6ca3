//! A step taken apart.

use flopgap_gap::{Executed, ExecutedKernel, Gap};
use flopgap_kernels::classify;
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};

use super::ms;
use crate::sentences::gap::what;

/// The parts of a step, what they consist of, and what to change.
pub fn gap(name: &str, found: &Gap) -> Result<Vec<Table>, ReportError> {
    let mut tables = vec![parts(name, found)?, details(found)?];
    if let Some(executed) = &found.executed {
        tables.push(kernels(found, executed)?);
    }
    tables.push(advice(found)?);
    Ok(tables)
}

fn parts(name: &str, found: &Gap) -> Result<Table, ReportError> {
    let mut table = Table::new(
        format!("A step of {name} ({}) taken apart", found.step),
        [
            Column::text("part", "part"),
            Column::text("cause", "cause"),
            Column::text("limit", "limit").rank(1),
            Column::number("time_ms", "time").unit("ms"),
            Column::number("share", "share"),
            Column::number("pieces", "pieces").rank(2),
            Column::number("known_ms", "floor known").unit("ms").rank(3),
            Column::number("floor_ms", "floor").unit("ms").rank(3),
        ],
    )?;
    let floors = found.floor.iter().filter(|floor| floor.peaks.is_some()).flat_map(|floor| &floor.parts);
    for part in &found.parts {
        let floor = floors.clone().find(|own| own.cause == part.cause && own.known_ns > 0);
        let need = |ns: Option<i64>| ns.map_or(Cell::Absent, |ns| ms(found.each(ns)));
        table.push([
            Cell::text(part.part.as_str()),
            Cell::text(part.cause.in_words()),
            Cell::text(part.limit.as_str()),
            ms(found.each(part.ns)),
            Cell::percent(found.share(part.ns), 2),
            Cell::float(part.pieces as f64 / found.measured.max(1) as f64, 1),
            need(floor.map(|own| own.known_ns)),
            need(floor.map(|own| own.floor_ns + own.repeated_ns)),
        ])?;
    }
    Ok(table)
}

fn details(found: &Gap) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "What the parts consist of",
        [
            Column::text("cause", "cause"),
            Column::text("what", "kernel, copy or call"),
            Column::text("by", "in").rank(1),
            Column::number("time_ms", "time").unit("ms"),
            Column::number("share", "share"),
        ],
    )?;
    let mut rows: Vec<_> =
        found.parts.iter().flat_map(|part| part.details.iter().map(move |detail| (part, detail))).collect();
    rows.sort_by_key(|(_, detail)| std::cmp::Reverse(detail.ns));
    for (part, detail) in rows.into_iter().take(DETAILS) {
        let text = |text: &Option<String>| Cell::text(text.as_deref().unwrap_or_default());
        table.push([
            Cell::text(part.cause.in_words()),
            text(&detail.what),
            text(&detail.by),
            ms(found.each(detail.ns)),
            Cell::percent(found.share(detail.ns), 2),
        ])?;
    }
    Ok(table)
}

/// What each kernel executed, by counters.
fn kernels(found: &Gap, executed: &Executed) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "What the kernels of a step executed, by counters",
        [
            Column::text("kernel", "kernel"),
            Column::number("launches", "launches"),
            Column::number("counted", "counted").rank(2),
            Column::number("time_ms", "time").unit("ms"),
            Column::number("gflop", "executed").unit("GFLOP"),
            Column::number("most_gflop", "at most").unit("GFLOP").rank(3),
            Column::number("moved_mb", "moved").unit("MB").rank(1),
            Column::number("tflops", "rate").unit("TFLOP/s").rank(1),
            Column::number("gbs", "bandwidth").unit("GB/s").rank(1),
            Column::number("bound_ms", "at the peaks").unit("ms").rank(2),
        ],
    )?;
    for ExecutedKernel { name, sums, flops, dram_bytes } in executed.kernels.iter().take(DETAILS) {
        let each = |sum: u64| sum as f64 / found.measured.max(1) as f64;
        let known = |cell: Cell| if sums.counted > 0 { cell } else { Cell::Absent };
        // A sum over nanoseconds is billions a second.
        let rate = |sum: u64| sum as f64 / sums.counted_ns.max(1) as f64;
        table.push([
            Cell::text(classify(name).short),
            Cell::float(each(sums.launches), 1),
            Cell::float(each(sums.counted), 1),
            ms(found.each(sums.ns)),
            known(Cell::float(each(flops[0]) / 1e9, 3)),
            known(Cell::float(each(flops[1]) / 1e9, 3)),
            known(Cell::float(each(*dram_bytes) / 1e6, 3)),
            known(Cell::float(rate(flops[0]) / 1e3, 3)),
            known(Cell::float(rate(*dram_bytes), 1)),
            sums.bound_ns.map_or(Cell::Absent, |ns| known(ms(found.each(ns)))),
        ])?;
    }
    Ok(table)
}

/// How many details a table shows; JSON has all.
const DETAILS: usize = 20;

fn advice(found: &Gap) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "What to change, by the upper bound of its gain",
        [
            Column::text("advice", "advice"),
            Column::number("bound_ms", "at most").unit("ms"),
            Column::number("share", "of a step"),
            Column::prose("what", "what to change").rank(1),
        ],
    )?;
    for advice in &found.advice {
        table.push([
            Cell::text(advice.kind.as_str()),
            ms(advice.bound_ns as f64),
            Cell::percent(advice.share, 2),
            Cell::text(what(advice.kind, &found.gpus)),
        ])?;
    }
    Ok(table)
}
