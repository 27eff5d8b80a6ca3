//! What got slower and what faster.

use std::collections::{BTreeMap, BTreeSet};

use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_timings::diff::{Change, Diff, Measure, PlaceDiff, Quantity, Side};

use super::{KernelNames, ms, us};

/// Two traces before and after a change: the times of steps and passes, of each place, and at most
/// `top` kernels and as many ranges.
pub fn diff(found: &Diff, names: KernelNames, top: usize) -> Result<Vec<Table>, ReportError> {
    let mut tables = Vec::new();
    if !found.judged.is_empty() {
        tables.push(steps(found)?);
    }
    for place in &found.places {
        tables.push(times(found, place)?);
    }
    tables.extend([kernels(found, names, top)?, ranges(found, top)?]);
    Ok(tables)
}

/// Each time of steps and passes, with the interval of its change.
fn steps(found: &Diff) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Medians of steps and passes; 98% interval of the change",
        [
            Column::text("range", "range"),
            Column::text("time", "time").rank(0),
            Column::number("n_before", "n").rank(3),
            Column::number("n_after", "after").rank(3),
            Column::number("median_before_ms", "before").unit("ms"),
            Column::number("median_after_ms", "after").unit("ms"),
            Column::number("change", "change").rank(0),
            Column::number("low", "from").rank(0),
            Column::number("high", "to").rank(0),
        ],
    )?;
    for judged in &found.judged {
        let [before, after] = &judged.samples;
        let medians = Quantity { before: Some(before.median_ns), after: Some(after.median_ns) };
        let change = judged.shift.map_or(medians.fraction(), |shift| Some(shift.change));
        table.push([
            Cell::text(judged.pass.as_ref().unwrap_or(&found.scope[1])),
            Cell::text(match judged.by {
                Measure::Period => "period",
                Measure::Wall => "wall",
                Measure::Projected => "GPU projected",
                _ => "GPU busy",
            }),
            Cell::from(before.count),
            Cell::from(after.count),
            ms(before.median_ns),
            ms(after.median_ns),
            changed(change),
            changed(judged.shift.map(|shift| shift.low)),
            changed(judged.shift.map(|shift| shift.high)),
        ])?;
    }
    Ok(table)
}

fn changed(fraction: Option<f64>) -> Cell {
    Cell::optional(fraction, |fraction| Cell::signed_percent(fraction, 2))
}

/// The times and the work of the scope in one place.
fn times(found: &Diff, place: &PlaceDiff) -> Result<Table, ReportError> {
    let scope = match (&found.instances, &found.scope) {
        ([None, None], _) => "Everything recorded".to_owned(),
        (_, [before, after]) if before == after => format!("One `{after}`"),
        (_, [before, after]) => format!("One `{before}` before, one `{after}` after"),
    };
    let title = match place.place {
        [Some(before), Some(after)] if before == after => format!("{scope}, {after}"),
        [Some(before), Some(after)] => format!("{scope}, {before} before, {after} after"),
        _ => scope,
    };
    let mut table = Table::new(
        title,
        [
            Column::text("what", "what"),
            Column::number("before", "before"),
            Column::number("after", "after"),
            Column::number("difference", "difference").rank(2),
            Column::number("change", "change").rank(0),
        ],
    )?;
    let mut row = |what: &str, quantity: Quantity, cell: &dyn Fn(f64) -> Cell| {
        table.push([
            Cell::text(what),
            Cell::optional(quantity.before, cell),
            Cell::optional(quantity.after, cell),
            Cell::optional(quantity.difference(), cell),
            changed(quantity.fraction()),
        ])
    };
    for (what, quantity) in [
        ("wall time (µs)", place.wall_ns),
        ("GPU projected (µs)", place.projected_ns),
        ("GPU busy (µs)", place.busy_ns),
        ("own gaps (µs)", place.gaps_ns),
        ("GPU overlap (µs)", place.overlap_ns),
        ("durations of operations (µs)", place.operations_ns),
    ] {
        row(what, quantity, &us)?;
    }
    for (what, quantity) in [
        ("kernel launches", place.kernels),
        ("copies", place.copies),
        ("copied bytes", place.copied_bytes),
        ("sets", place.sets),
        ("set bytes", place.set_bytes),
    ] {
        row(what, quantity, &|count| Cell::float(count, usize::from(count.fract() != 0.0)))?;
    }
    Ok(table)
}

/// What the place of a row is, where there are several.
fn place_of(found: &Diff, at: usize) -> Cell {
    let [before, after] = found.places[at].place;
    Cell::optional(after.or(before), |place| Cell::text(place.to_string()))
}

fn kernels(found: &Diff, names: KernelNames, top: usize) -> Result<Table, ReportError> {
    let several = found.places.len() > 1;
    let mut columns = vec![Column::text("kernel", "kernel"), Column::text("class", "class").rank(2)];
    columns.extend(several.then(|| Column::text("place", "place").rank(0)));
    columns.extend([
        Column::number("launches_before", "launches before").rank(3),
        Column::number("launches_after", "after").rank(3),
        Column::number("each_before_us", "time before").unit("µs"),
        Column::number("each_after_us", "after").unit("µs"),
        Column::number("difference_us", "difference").unit("µs").rank(0),
        Column::number("change", "change").rank(0),
        Column::number("per_launch", "per launch").rank(2),
        Column::number("per_byte", "per byte").rank(2),
    ]);
    let of = if found.instances == [None, None] { "everything recorded" } else { "one instance" };
    let mut table = Table::new(format!("Kernels before and after, of {of}"), columns)?;
    let launches = |side: Side| Cell::float(side.each_calls, usize::from(side.each_calls.fract() != 0.0));
    let shown = &found.kernels[..top.min(found.kernels.len())];
    // A kernel has a row for each place, under one name.
    let both: BTreeSet<(&str, &str)> =
        shown.iter().map(|kernel| (kernel.name.as_str(), kernel.short.as_str())).collect();
    let both: Vec<_> = both.into_iter().collect();
    let called: BTreeMap<&str, String> = both.iter().map(|(name, _)| *name).zip(names.shown(&both)).collect();
    for kernel in shown {
        let Change { before, after } = kernel.time;
        let per_byte = |side: Side| Some(side.each_ns / side.each_bytes.filter(|bytes| *bytes > 0.0)?);
        let bytes = Quantity { before: before.and_then(per_byte), after: after.and_then(per_byte) };
        let change = match (before, after) {
            (None, _) => Cell::text("new"),
            (_, None) => Cell::text("gone"),
            _ => changed(kernel.time.fraction()),
        };
        let mut row = vec![Cell::text(&called[kernel.name.as_str()]), Cell::text(kernel.class.as_str())];
        row.extend(several.then(|| place_of(found, kernel.place)));
        row.extend([
            Cell::optional(before, launches),
            Cell::optional(after, launches),
            Cell::optional(before, |side| us(side.each_ns)),
            Cell::optional(after, |side| us(side.each_ns)),
            us(kernel.time.difference_ns()),
            change,
            changed(kernel.time.per_call()),
            changed(bytes.fraction()),
        ]);
        table.push(row)?;
    }
    Ok(table)
}

fn ranges(found: &Diff, top: usize) -> Result<Table, ReportError> {
    let several = found.ranges.iter().any(|range| range.process != [None, None]);
    let mut columns = vec![Column::text("range", "range")];
    columns.extend(several.then(|| Column::text("process", "process").rank(0)));
    columns.extend([
        Column::text("time", "time").rank(0),
        Column::number("n_before", "n before").rank(2),
        Column::number("n_after", "after").rank(2),
        Column::number("mean_before_us", "mean before").unit("µs"),
        Column::number("mean_after_us", "after").unit("µs"),
        Column::number("difference_us", "difference").unit("µs"),
        Column::number("change", "change").rank(0),
    ]);
    let mut table = Table::new("Ranges before and after: means of n instances", columns)?;
    for range in found.ranges.iter().take(top) {
        let mut row = |time: &str, change: &Change| {
            let Change { before, after } = *change;
            let difference = match (before, after) {
                (None, None) => return Ok(()),
                (None, _) => Cell::text("new"),
                (_, None) => Cell::text("gone"),
                _ => changed(change.fraction()),
            };
            let mut row = vec![Cell::text(&range.name)];
            let process = range.process[1].or(range.process[0]);
            row.extend(several.then(|| Cell::optional(process, |process| Cell::text(process.to_string()))));
            row.extend([
                Cell::text(time),
                Cell::optional(before, |side| Cell::from(side.calls)),
                Cell::optional(after, |side| Cell::from(side.calls)),
                Cell::optional(before, |side| us(side.each_ns)),
                Cell::optional(after, |side| us(side.each_ns)),
                us(change.difference_ns()),
                difference,
            ]);
            table.push(row)
        };
        row("wall", &range.wall)?;
        for gpu in &range.gpus {
            let number = gpu.gpu[1].or(gpu.gpu[0]).map(|number| format!("GPU {number}"));
            let number = number.as_deref().unwrap_or("GPU");
            row(&format!("{number} projected"), &gpu.projected)?;
            row(&format!("{number} busy"), &gpu.busy)?;
            row(&format!("{number} own gaps"), &gpu.gaps)?;
            let overlaps = |side: Option<Side>| side.is_some_and(|side| side.total_ns != 0);
            if overlaps(gpu.overlap.before) || overlaps(gpu.overlap.after) {
                row(&format!("{number} overlap"), &gpu.overlap)?;
            }
        }
    }
    Ok(table)
}
