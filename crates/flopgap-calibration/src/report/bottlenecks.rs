//! The bottlenecks of runs: how many runs each one bounds, and above which intensity arithmetic
//! does.

use std::collections::BTreeMap;

use flopgap_report::ReportError;
use flopgap_report::html::Block;
use flopgap_report::numbers::binary_bytes;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_roofline::Ceilings;

use super::ReportInput;
use super::words::{error_cells, error_columns};
use crate::accuracy::{Errors, median};
use crate::judge::Judged;

pub(super) fn push(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    let mut groups = BTreeMap::<&str, Vec<&Judged>>::new();
    for row in input.judged {
        if let Some(bottleneck) = &row.bottleneck {
            groups.entry(bottleneck).or_default().push(row);
        }
    }
    if groups.is_empty() {
        return Ok(());
    }
    blocks.push(Block::Heading("Bottleneck analysis".to_owned()));
    let columns = [
        Column::text("bottleneck", "bound by"),
        Column::number("share", "of all configs"),
        Column::number("intensity", "FLOPs per byte (median)"),
    ];
    let mut table = Table::new("Configs by bottleneck", columns.into_iter().chain(error_columns()))?;
    let total: usize = groups.values().map(Vec::len).sum();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    for (bottleneck, rows) in groups {
        let intensity = median(rows.iter().filter_map(|row| row.intensity()).collect());
        let errors = Errors::of(rows.iter().map(|row| row.time.tuple()));
        let cells = [
            Cell::text(bottleneck),
            Cell::percent(rows.len() as f64 / total as f64, 0),
            Cell::optional(intensity, |intensity| Cell::float(intensity, 1)),
        ];
        table.push(cells.into_iter().chain(error_cells(errors)))?;
    }
    blocks.push(Block::Table(table));
    if let Some(ceilings) = input.ceilings {
        let table = ridges(ceilings)?;
        if !table.is_empty() {
            blocks.push(Block::Table(table));
        }
    }
    Ok(())
}

/// The intensities at which arithmetic takes as long as each level of memory: measured peak over
/// bandwidth.
fn ridges(ceilings: &Ceilings) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Ridge points, measured: compute-bound above",
        [
            Column::text("precision", "precision"),
            Column::text("unit", "units"),
            Column::number("peak", "peak").unit("GFLOP/s"),
            Column::text("level", "level"),
            Column::text("size", "size"),
            Column::number("bandwidth", "read").unit("GB/s"),
            Column::number("ridge", "ridge").unit("FLOP/B"),
        ],
    )?;
    for peak in &ceilings.peaks {
        for level in &ceilings.levels {
            let ops = peak.ops_per_second.value;
            table.push([
                Cell::text(peak.precision.name()),
                Cell::text(if peak.tensor { "tensor" } else { "vector" }),
                Cell::float(ops / 1e9, 0),
                Cell::text(level.name.clone()),
                Cell::optional(level.bytes, |bytes| Cell::text(binary_bytes(bytes))),
                Cell::float(level.read / 1e9, 0),
                Cell::float(ops / level.read, 1),
            ])?;
        }
    }
    Ok(table)
}
