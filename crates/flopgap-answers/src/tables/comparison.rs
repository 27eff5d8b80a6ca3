//! Two traces by kind of work.

use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_timings::compare::Comparison;
use flopgap_timings::shares::Shares;

use super::ms;

/// The tables of a comparison: those of each process on each GPU, where there are several.
pub fn comparison(found: &Comparison) -> Result<Vec<Table>, ReportError> {
    if found.places.is_empty() {
        return [shares(found), busy(found)].into_iter().collect();
    }
    found.places.iter().flat_map(|own| [shares(own), busy(own)]).collect()
}

/// Which process on which GPU, to end a title.
fn place(found: &Comparison) -> String {
    match [found.a.place, found.b.place] {
        [Some(a), Some(b)] if a == b => format!(", {a}"),
        [Some(a), Some(b)] => format!(", A on {a}, B on {b}"),
        _ => String::new(),
    }
}

/// Each kind of work in both traces.
fn shares(found: &Comparison) -> Result<Table, ReportError> {
    let mut table = Table::new(
        format!("GPU time by kind of work{}", place(found)),
        [
            Column::text("work", "work"),
            Column::number("calls_a", "calls A").rank(3),
            Column::number("calls_b", "calls B").rank(3),
            Column::number("time_a_ms", "time A").unit("ms").rank(2),
            Column::number("time_b_ms", "time B").unit("ms").rank(2),
            Column::number("share_a", "share A"),
            Column::number("share_b", "share B"),
            Column::number("change_points", "change").unit("points").rank(0),
        ],
    )?;
    for row in &found.rows {
        table.push([
            Cell::text(row.work.as_str()),
            Cell::float(row.calls[0], 1),
            Cell::float(row.calls[1], 1),
            ms(row.total_ns[0]),
            ms(row.total_ns[1]),
            Cell::percent(row.share[0], 2),
            Cell::percent(row.share[1], 2),
            Cell::float(row.change() * 100.0, 2),
        ])?;
    }
    Ok(table)
}

/// How long the GPU worked and rested in both traces.
fn busy(found: &Comparison) -> Result<Table, ReportError> {
    let mut table = Table::new(
        format!("GPU busy and idle{}", place(found)),
        [
            Column::text("gpu", "GPU"),
            Column::number("time_a_ms", "A").unit("ms"),
            Column::number("time_b_ms", "B").unit("ms"),
            Column::number("share_a", "share A").rank(0),
            Column::number("share_b", "share B").rank(0),
        ],
    )?;
    let mut row = |name: &str, of: &dyn Fn(&Shares) -> i128| {
        let share = |side: &Shares| (side.clock_ns > 0).then(|| of(side) as f64 / side.clock_ns as f64);
        table.push([
            Cell::text(name),
            ms(found.a.each(of(&found.a))),
            ms(found.b.each(of(&found.b))),
            Cell::optional(share(&found.a), |share| Cell::percent(share, 2)),
            Cell::optional(share(&found.b), |share| Cell::percent(share, 2)),
        ])
    };
    row("busy", &|side| side.gpu_busy_ns)?;
    row("idle", &Shares::idle_ns)?;
    let whole = found.a.instances.is_none() && found.b.instances.is_none();
    row(if whole { "first to last operation" } else { "on the clock" }, &|side| side.clock_ns)?;
    Ok(table)
}
