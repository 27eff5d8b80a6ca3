//! A step taken apart.

use flopgap_gap::Gap;
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};

use super::ms;
use crate::sentences::gap::what;

/// The parts of a step, what they consist of, and what to change.
pub fn gap(name: &str, found: &Gap) -> Result<Vec<Table>, ReportError> {
    Ok(vec![parts(name, found)?, details(found)?, advice(found)?])
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
