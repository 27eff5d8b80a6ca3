//! Kinds that a machine has no table of: the utilization of another machine, at its own peaks.

use std::collections::BTreeMap;

use flopgap_graph::language::Kernel;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::class::Class;
use super::table::{part, quantile};
use super::{Basis, KernelEstimate, Machine, REFERENCE, named};
use crate::floor::Floor;

/// What bounds a kernel at the peaks of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Starting it.
    Launch,
    /// Arithmetic.
    Compute,
    /// Bytes: of the memory, or of a collective between GPUs.
    Memory,
}

impl Bound {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Compute => "compute",
            Self::Memory => "memory",
        }
    }

    /// What bounds a kernel, by the times to start it, of its arithmetic and of its bytes.
    pub fn of_times(start: f64, compute: f64, bytes: f64) -> Self {
        if start > compute.max(bytes) {
            Self::Launch
        } else if compute > bytes {
            Self::Compute
        } else {
            Self::Memory
        }
    }

    pub(crate) fn of(floor: Floor) -> Self {
        Self::of_times(floor.start, floor.compute, floor.bytes)
    }
}

/// How times on a machine compare with those that its peaks and the reference's utilization
/// suggest, over kernels that both measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Kernels.
    pub rows: usize,
    /// Mean relative error of a transfer.
    pub mape: f64,
    /// Measured over transferred: median, 5th and 95th percentile.
    pub ratio: [f64; 3],
}

/// One row in so many is compared.
const SAMPLE: u64 = 16;

/// The cost of a node of a CUDA graph, measured by flopgap on an H200.
pub(super) const NODE_SECONDS: f64 = 0.5e-6;

/// Times of copies, gathers, element-wise functions and norms in 16 bits on an H200, over
/// [`NODE_SECONDS`] twice and the bytes at the peak: median, 5th and 95th percentile of the 265 in
/// a graph of `fixtures/calibration/h200.jsonl.zst`.
const STREAMED: [f64; 3] = [1.486, 1.094, 4.461];

impl Machine {
    /// The time of a kernel that only moves bytes: `None` where it is not known how times are
    /// transferred to this machine.
    pub(super) fn streamed(&self, bytes: u64) -> Option<KernelEstimate> {
        let transfer = match self.transfer(Bound::Memory) {
            Some(transfer) => transfer.ratio,
            None if self.name == REFERENCE => [1.0; 3],
            None => return None,
        };
        let moving = bytes as f64 / self.peaks.bytes_per_second;
        let floor = (2.0 * NODE_SECONDS + moving) * 1e9;
        let [nanoseconds, low, high] = [0, 1, 2].map(|place| floor * STREAMED[place] * transfer[place]);
        let bound = if moving > 2.0 * NODE_SECONDS { Bound::Memory } else { Bound::Launch };
        Some(KernelEstimate { nanoseconds, low, high, bound, basis: Basis::Bandwidth })
    }
}

/// How well the reference's times are transferred to a machine, by what bounds a kernel there.
pub(super) fn judge(machine: &Machine, reference: &Machine) -> BTreeMap<String, Transfer> {
    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (class, table) in &machine.tables {
        if matches!(class, Class::Collective(_)) {
            continue;
        }
        let one = |row: &super::Row| {
            let floor = Floor::of(&row.kernel, *class, &machine.peaks);
            let suggested = suggestion(reference, machine, *class, &row.kernel)?;
            Some((Bound::of(floor).name(), row.nanoseconds / suggested))
        };
        let sampled: Vec<_> = table.rows.iter().filter(|row| part(&row.kernel) % SAMPLE == 1).collect();
        for (bound, ratio) in sampled.into_par_iter().filter_map(one).collect::<Vec<_>>() {
            ratios.entry(bound).or_default().push(ratio);
        }
    }
    let judged = ratios.into_iter().map(|(bound, mut ratios)| {
        ratios.sort_by(f64::total_cmp);
        let error: f64 = ratios.iter().map(|ratio| (1.0 / ratio - 1.0).abs()).sum();
        let ratio = [0.5, 0.05, 0.95].map(|at| quantile(&ratios, at));
        (bound.to_owned(), Transfer { rows: ratios.len(), mape: error / ratios.len() as f64, ratio })
    });
    judged.collect()
}

/// Nanoseconds at the reference's utilization.
fn suggestion(reference: &Machine, machine: &Machine, class: Class, kernel: &Kernel) -> Option<f64> {
    let [there, ..] = reference.tables.get(&class)?.at(kernel, class, &reference.peaks)?;
    let [ours, theirs] = [machine, reference].map(|of| Floor::of(kernel, class, &of.peaks).seconds());
    Some(there * ours / theirs)
}

/// A time transferred from the reference, with the interval that such transfers need.
pub(super) fn moved(machine: &Machine, class: Class, kernel: &Kernel) -> Option<[f64; 3]> {
    let reference = named(REFERENCE).filter(|reference| reference.name != machine.name)?;
    let suggested = suggestion(reference, machine, class, kernel)?;
    let bound = Bound::of(Floor::of(kernel, class, &machine.peaks));
    Some(machine.transfer(bound)?.ratio.map(|ratio| suggested * ratio))
}
