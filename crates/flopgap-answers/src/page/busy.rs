//! When each GPU was busy over the whole recording.

use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_timings::Place;
use flopgap_timings::occupancy::{GpuOccupancy, Occupancy};
use flopgap_trace::GpuActivity;

use super::trace::TracePage;
use super::work;
use crate::error::Error;
use crate::sentences::page as page_sentences;
use crate::tables::ms;

/// How many gaps are listed.
pub(crate) const GAPS: usize = 5;

/// How busy each GPU was over the whole recording, and its longest gaps.
pub(crate) fn section(
    page: &mut TracePage,
    activity: &[GpuActivity],
    occupancy: &Occupancy,
    gaps: &[work::Described],
) -> Result<(), Error> {
    let gpus = occupancy.gpus();
    let extent = |gpu: &GpuOccupancy| i128::from(gpu.end_ns) - i128::from(gpu.start_ns);
    page.overview.gpu_ns =
        Some((gpus.iter().map(|gpu| i128::from(gpu.busy_ns)).sum(), gpus.iter().map(extent).sum()));
    for gpu in &gpus {
        let longest = gaps.iter().map(|described| described.gap).find(|gap| gap.gpu == gpu.place);
        page.answers.push(page_sentences::busy(gpu, longest.as_ref().map(work::Gap::length)));
    }
    page.heading("GPU busy and idle");
    page.table(activity_table(activity, occupancy))?;
    if gaps.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(
        "The longest intervals in which nothing ran on a GPU",
        [
            Column::number("gpu", "GPU"),
            Column::number("start_ms", "from").unit("ms"),
            Column::number("length_ms", "for").unit("ms").rank(0),
            Column::text("after", "after"),
            Column::text("before", "before").rank(0),
        ],
    )?;
    for work::Described { gap, before, after } in gaps {
        let row = [
            gpu_cell(&gap.gpu),
            ms(gap.start as f64),
            ms(gap.length() as f64),
            Cell::text(before),
            Cell::text(after),
        ];
        table.push(row)?;
    }
    page.table(Ok(table))
}

/// The number of a GPU; with its process where the recording does not say which GPU it is.
fn gpu_cell(gpu: &Place) -> Cell {
    match gpu.gpu {
        Some(number) if gpu.process.is_none() => Cell::Id(number.0),
        _ => Cell::text(gpu.to_string()),
    }
}

fn activity_table(activity: &[GpuActivity], occupancy: &Occupancy) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "From the first operation to the last",
        [
            Column::number("pid", "process"),
            Column::number("gpu", "GPU").rank(0),
            Column::number("extent_ms", "first to last").unit("ms"),
            Column::number("busy_ms", "busy").unit("ms").rank(2),
            Column::number("idle_ms", "idle").unit("ms"),
            Column::number("busy_share", "busy").rank(0),
            Column::number("kernels_ms", "kernels").unit("ms").rank(2),
            Column::number("copies_ms", "copies").unit("ms").rank(3),
            Column::number("sets_ms", "sets").unit("ms").rank(3),
        ],
    )?;
    for gpu in occupancy.gpus() {
        let extent = gpu.end_ns.saturating_sub(gpu.start_ns);
        // A GPU may have worked for several processes.
        let is_of = |own: &&GpuActivity| occupancy.place(own.process, own.device) == gpu.place;
        let processes: Vec<i64> =
            activity.iter().filter(is_of).filter_map(|own| Some(own.process?.pid())).collect();
        let sum =
            |time: fn(&GpuActivity) -> i128| ms(activity.iter().filter(is_of).map(time).sum::<i128>() as f64);
        table.push([
            match processes.as_slice() {
                [] => Cell::Absent,
                [one] => Cell::Id(*one),
                several => Cell::text(several.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
            },
            gpu.place.gpu.map_or(Cell::Absent, |gpu| Cell::Id(gpu.0)),
            ms(extent as f64),
            ms(gpu.busy_ns as f64),
            ms(extent.saturating_sub(gpu.busy_ns) as f64),
            Cell::percent(gpu.busy_ns as f64 / extent as f64, 2),
            sum(|own| own.kernel_time),
            sum(|own| own.copy_time),
            sum(|own| own.set_time),
        ])?;
    }
    Ok(table)
}
