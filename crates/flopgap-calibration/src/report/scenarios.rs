//! The cost of spilling from one level of memory to the next.

use flopgap_flops::Precision;
use flopgap_report::ReportError;
use flopgap_report::html::Block;
use flopgap_report::numbers::binary_bytes;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_roofline::Ceilings;

use super::ReportInput;
use crate::accuracy::{Errors, median};
use crate::grid::{Caches, Scenario};
use crate::judge::Judged;
use crate::row::Origin;

/// The working sets of a memory scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioRange {
    /// `L1_fit`, `L2_fit`, `L3_fit`, `DRAM_spill`.
    pub name: String,
    /// Bytes that a working set exceeds.
    pub above: u64,
    /// Bytes that it has at most; `None` for the last.
    pub up_to: Option<u64>,
    /// FLOPs for each byte from which on arithmetic takes longer than this level, where the machine
    /// was probed.
    pub ridge: Option<f64>,
}

impl ScenarioRange {
    /// The scenarios of a machine whose origin reports its caches; none where it does not.
    /// Thresholds are of fp32 by the widest unit there is, where the machine was probed.
    pub fn of(origin: &Origin, ceilings: Option<&Ceilings>) -> Vec<ScenarioRange> {
        let caches = Caches::new(origin);
        let range = |scenario: Scenario| {
            let (above, up_to) = caches.range(scenario).ok()?;
            let up_to = (scenario != Scenario::DramSpill).then_some(up_to);
            let ridge = ceilings.and_then(|ceilings| ridge(ceilings, scenario));
            Some(ScenarioRange { name: scenario.name().to_owned(), above, up_to, ridge })
        };
        Scenario::ALL.into_iter().filter_map(range).collect()
    }

    fn holds(&self, bytes: f64) -> bool {
        bytes > self.above as f64 && self.up_to.is_none_or(|most| bytes <= most as f64)
    }

    fn size(&self) -> String {
        match (self.above, self.up_to) {
            (0, Some(most)) => format!("≤ {}", binary_bytes(most)),
            (above, Some(most)) => format!("{} – {}", binary_bytes(above), binary_bytes(most)),
            (above, None) => format!("> {}", binary_bytes(above)),
        }
    }
}

/// The fp32 peak over the bandwidth of the level that a scenario is named after; the last level is
/// what all caches spill to.
fn ridge(ceilings: &Ceilings, scenario: Scenario) -> Option<f64> {
    let level = match scenario {
        Scenario::DramSpill => ceilings.levels.last(),
        cache => {
            let name = cache.name().trim_end_matches("_fit");
            ceilings.levels.iter().find(|level| level.name == name)
        }
    }?;
    let single = ceilings.peaks.iter().filter(|peak| peak.precision == Precision::Fp32);
    let peak = single.map(|peak| peak.ops_per_second.value).reduce(f64::max)?;
    Some(peak / level.read)
}

/// Runs of which launches are more than this share say little about memory.
const LAUNCHES: f64 = 0.5;
/// FLOPs for each byte from which on a run counts as compute-bound.
const COMPUTE: f64 = 10.0;

pub(super) fn push(input: &ReportInput<'_>, blocks: &mut Vec<Block>) -> Result<(), ReportError> {
    if input.scenarios.is_empty() || input.judged.iter().all(|row| row.working_set.is_none()) {
        return Ok(());
    }
    blocks.push(Block::Heading("Memory scenario transitions".to_owned()));
    blocks.push(Block::Text(
        "Slowdown is the measured time beyond launches for each byte of the working set (median), relative to \
         the first scenario that has such rows. It is taken from runs with fewer than 10 FLOPs for each byte, \
         of which launches are at most half: others say little about memory. The threshold is the measured \
         ridge point of the level."
            .to_owned(),
    ));
    let mut table = Table::new(
        "Scenarios",
        [
            Column::text("scenario", "scenario"),
            Column::text("working_set", "working set"),
            Column::number("rows", "rows"),
            Column::number("taken", "rows taken"),
            Column::number("per_byte", "ns per KiB"),
            Column::number("slowdown", "observed slowdown"),
            Column::number("threshold", "fp32 compute-bound above").unit("FLOP/B"),
            Column::number("mape", "MAPE†"),
        ],
    )?;
    let mut baseline = None;
    for scenario in &input.scenarios {
        let rows: Vec<&Judged> = input
            .judged
            .iter()
            .filter(|row| row.working_set.is_some_and(|bytes| scenario.holds(bytes)))
            .collect();
        let costs: Vec<f64> = rows.iter().filter_map(|row| per_byte(row)).collect();
        let count = costs.len() as u64;
        let cost = median(costs);
        let slowdown = cost.map(|cost| cost / *baseline.get_or_insert(cost));
        let errors = Errors::of(rows.iter().map(|row| row.time.tuple()));
        table.push([
            Cell::text(scenario.name.clone()),
            Cell::text(scenario.size()),
            Cell::from(rows.len() as u64),
            Cell::from(count),
            Cell::optional(cost, |cost| Cell::float(1024.0 * cost, 2)),
            Cell::optional(slowdown, |slowdown| Cell::float(slowdown, 2)),
            Cell::optional(scenario.ridge, |ridge| Cell::float(ridge, 1)),
            Cell::optional(errors, |errors| Cell::percent(errors.mape, 1)),
        ])?;
    }
    blocks.push(Block::Table(table));
    Ok(())
}

/// Nanoseconds beyond launches for each byte of the working set.
fn per_byte(row: &Judged) -> Option<f64> {
    let launch = row.launch.unwrap_or(0.0);
    let bytes = row.working_set.filter(|bytes| *bytes > 0.0)?;
    let moves = launch <= LAUNCHES * row.time.measured && row.intensity()? < COMPUTE;
    moves.then(|| (row.time.measured - launch) / bytes)
}
