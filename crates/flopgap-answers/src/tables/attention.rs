//! Attention: time against FLOPs.

use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_timings::attention::AttentionTimes;

use super::us;

/// Attention: each part's time and FLOPs, the products against softmax, and what runs in the
/// ranges.
pub fn attention(found: &AttentionTimes) -> Result<Vec<Table>, ReportError> {
    [parts(found), ratios(found), contents(found)].into_iter().collect()
}

/// Each part's time and FLOPs.
fn parts(found: &AttentionTimes) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Attention, one layer (means)",
        [
            Column::text("part", "part"),
            Column::text("range", "range").rank(2),
            Column::number("n", "n").rank(3),
            Column::number("flops", "FLOPs"),
            Column::number("range_us", "range").unit("µs").rank(2),
            Column::number("own_us", "own kernels").unit("µs").rank(0),
            Column::number("own_tflops", "achieved").unit("TFLOP/s").rank(0),
            Column::number("range_tflops", "over the range").unit("TFLOP/s").rank(2),
        ],
    )?;
    for (name, part) in found.parts() {
        let tera = |rate: f64| Cell::float(rate / 1e12, 3);
        table.push([
            Cell::text(name),
            Cell::text(&part.range),
            Cell::optional(part.shares.instances, Cell::from),
            Cell::from(part.flops),
            us(part.range_ns),
            Cell::optional(part.own_ns, us),
            Cell::optional(part.flops_per_second(), tera),
            Cell::optional(part.range_flops_per_second(), tera),
        ])?;
    }
    Ok(table)
}

/// The products against softmax.
fn ratios(found: &AttentionTimes) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Both products over softmax",
        [Column::text("of", "of"), Column::number("ratio", "ratio")],
    )?;
    for (name, ratio) in [
        ("FLOPs", found.flop_ratio()),
        ("time of their own kernels", found.time_ratio()),
        ("time of the ranges", found.range_time_ratio()),
    ] {
        table.push([Cell::text(name), Cell::optional(ratio, |ratio| Cell::float(ratio, 2))])?;
    }
    Ok(table)
}

/// What runs in each range, so that a reader sees when it is more than its name says.
fn contents(found: &AttentionTimes) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "What runs in the ranges (one instance)",
        [
            Column::text("part", "part"),
            Column::text("work", "work").rank(0),
            Column::number("calls", "calls").rank(2),
            Column::number("time_us", "time").unit("µs"),
            Column::number("share", "share").rank(0),
        ],
    )?;
    for (name, part) in found.parts() {
        for share in &part.shares.shares {
            table.push([
                Cell::text(name),
                Cell::text(share.work.as_str()),
                Cell::float(part.shares.each(i128::from(share.calls)), 1),
                us(part.shares.each(share.total_ns)),
                Cell::percent(share.share, 2),
            ])?;
        }
    }
    Ok(table)
}
