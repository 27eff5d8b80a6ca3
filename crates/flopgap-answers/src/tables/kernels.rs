//! Kernels with their times.

use flopgap_kernels::distinct_names;
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_timings::kernels::{KernelTimes, Kernels, Pair, PlaceKernels};

/// How the kernels of a table are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelNames {
    /// So that a row fits in a line, with what distinguishes rows whose short name is the same.
    Short,
    /// As recorded: for CSV, which programs read.
    Full,
}

impl KernelNames {
    /// The names of some kernels, given their full and their short ones.
    pub fn shown(self, kernels: &[(&str, &str)]) -> Vec<String> {
        match self {
            KernelNames::Short => distinct_names(kernels),
            KernelNames::Full => kernels.iter().map(|(name, _)| (*name).to_owned()).collect(),
        }
    }

    fn of_kernels(self, kernels: &[KernelTimes]) -> Vec<String> {
        let both: Vec<_> =
            kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.short.as_str())).collect();
        self.shown(&both)
    }
}

/// Some kernels with their times. Where several processes or GPUs ran them, their least, middle and
/// largest time, and which is the slowest.
pub fn kernels(
    title: &str,
    names: KernelNames,
    found: &Kernels,
    shown: &[KernelTimes],
) -> Result<Table, ReportError> {
    if found.places.is_empty() {
        return together(title, names, shown);
    }
    let mut table = Table::new(
        format!("{title}: each of {} places", found.places.len()),
        [
            Column::text("kernel", "kernel"),
            Column::text("class", "class").rank(2),
            Column::number("calls_least", "calls, least").rank(3),
            Column::number("calls_most", "most").rank(3),
            Column::number("total_least_ns", "total, least").unit("ns").rank(2),
            Column::number("total_median_ns", "median").unit("ns").rank(2),
            Column::number("total_most_ns", "most").unit("ns").rank(1),
            Column::number("share", "share").rank(0),
            Column::text("slowest", "slowest").rank(0),
        ],
    )?;
    for (kernel, name) in shown.iter().zip(names.of_kernels(shown)) {
        let Some(spread) = found.spread(Some(&kernel.name)) else { continue };
        let calls = || {
            let own = |place: &PlaceKernels| {
                let found = place.kernels.iter().find(|own| own.name == kernel.name);
                found.map_or(0, |own| own.times.count)
            };
            found.places.iter().map(own)
        };
        table.push([
            Cell::text(name),
            Cell::text(kernel.class.as_str()),
            Cell::optional(calls().min(), Cell::from),
            Cell::optional(calls().max(), Cell::from),
            Cell::float(spread.min_ns, 0),
            Cell::float(spread.median_ns, usize::from(spread.median_ns.fract() != 0.0)),
            Cell::float(spread.max_ns, 0),
            Cell::percent(kernel.share, 2),
            Cell::optional(spread.straggler(), |place| Cell::text(place.to_string())),
        ])?;
    }
    Ok(table)
}

/// Kernels with their times, wherever they ran.
fn together(title: &str, names: KernelNames, shown: &[KernelTimes]) -> Result<Table, ReportError> {
    let mut table = Table::new(
        title,
        [
            Column::text("kernel", "kernel"),
            Column::text("class", "class"),
            Column::number("calls", "calls"),
            Column::number("total_ns", "total").unit("ns").rank(0),
            Column::number("mean_ns", "mean").unit("ns").rank(2),
            Column::number("median_ns", "median").unit("ns").rank(3),
            Column::number("share", "share").rank(0),
        ],
    )?;
    for (kernel, name) in shown.iter().zip(names.of_kernels(shown)) {
        table.push([
            Cell::text(name),
            Cell::text(kernel.class.as_str()),
            Cell::from(kernel.times.count),
            Cell::from(kernel.times.total_ns),
            Cell::float(kernel.times.mean_ns, 1),
            Cell::float(kernel.times.median_ns, 1),
            Cell::percent(kernel.share, 2),
        ])?;
    }
    Ok(table)
}

/// Two traces side by side.
pub fn kernel_pairs(pairs: &[Pair], names: KernelNames) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "Kernels of A and B",
        [
            Column::text("kernel", "kernel"),
            Column::text("class", "class").rank(2),
            Column::number("calls_a", "calls A").rank(3),
            Column::number("calls_b", "calls B").rank(3),
            Column::number("total_a_ns", "total A").unit("ns"),
            Column::number("total_b_ns", "total B").unit("ns"),
            Column::number("mean_a_ns", "mean A").unit("ns").rank(2),
            Column::number("mean_b_ns", "mean B").unit("ns").rank(2),
            Column::number("share_a", "share A").rank(0),
            Column::number("share_b", "share B").rank(0),
        ],
    )?;
    let both: Vec<_> = pairs.iter().map(|pair| (pair.name.as_str(), pair.short.as_str())).collect();
    for (pair, name) in pairs.iter().zip(names.shown(&both)) {
        let sides = [pair.a.as_ref(), pair.b.as_ref()];
        let [calls_a, calls_b] = sides.map(|side| Cell::optional(side, |side| Cell::from(side.times.count)));
        let [total_a, total_b] =
            sides.map(|side| Cell::optional(side, |side| Cell::from(side.times.total_ns)));
        let [mean_a, mean_b] =
            sides.map(|side| Cell::optional(side, |side| Cell::float(side.times.mean_ns, 1)));
        let [share_a, share_b] = sides.map(|side| Cell::optional(side, |side| Cell::percent(side.share, 2)));
        table.push([
            Cell::text(name),
            Cell::text(pair.class.as_str()),
            calls_a,
            calls_b,
            total_a,
            total_b,
            mean_a,
            mean_b,
            share_a,
            share_b,
        ])?;
    }
    Ok(table)
}
