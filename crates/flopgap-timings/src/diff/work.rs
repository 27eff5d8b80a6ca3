//! Whether two traces do the same work, and how their times compare for it.

use serde::{Deserialize, Serialize};

use super::{KernelChange, Operation, Side};
use crate::scope::Part;
use crate::times::change;

/// What both traces ran, for the launches and bytes of the trace after.
///
/// With `n` launches of a kernel after, of mean duration `m` before and after, `before_ns = Σ n
/// m_before` and `after_ns = Σ n m_after` over the kernels of both. Copies and memsets count by
/// their bytes where these are known. What only one trace ran is work that differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LikeForLike {
    /// The time that the launches of the trace after would have taken at the speed of the trace
    /// before.
    pub before_ns: f64,
    /// The time that they took.
    pub after_ns: f64,
}

impl LikeForLike {
    pub(super) fn new(kernels: &[KernelChange]) -> LikeForLike {
        let mut sums = LikeForLike::default();
        for kernel in kernels {
            let (Some(before), Some(after)) = (kernel.time.before, kernel.time.after) else { continue };
            // Bytes known on one side only cannot be compared.
            let bytes =
                before.each_bytes.zip(after.each_bytes).filter(|(one, other)| *one > 0.0 && *other > 0.0);
            let (of_before, of_after) = bytes.unwrap_or((before.each_calls, after.each_calls));
            sums.before_ns += before.each_ns * of_after / of_before;
            sums.after_ns += after.each_ns;
        }
        sums
    }

    /// By how much it is slower, as a fraction; `None` when the traces have no kernel in common.
    pub fn fraction(&self) -> Option<f64> {
        change(self.before_ns, self.after_ns)
    }
}

/// What the work of a trace is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Counted {
    /// Launches of all kernels.
    #[serde(rename = "kernel launches")]
    Launches,
    /// Memory copies.
    #[serde(rename = "copies")]
    Copies,
    /// The bytes that they copied.
    #[serde(rename = "copied bytes")]
    CopiedBytes,
    /// Memory sets.
    #[serde(rename = "sets")]
    Sets,
    /// The bytes that they set.
    #[serde(rename = "set bytes")]
    SetBytes,
    /// Kernels that only one of the traces has.
    #[serde(rename = "kernels that only one has")]
    KernelsOfOne,
    /// Launches of the kernels that both traces have, and launch unequally often.
    #[serde(rename = "launches of kernels that both have")]
    SharedLaunches,
}

/// Something of which the traces hold different amounts, in one instance of the scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkDifference {
    /// What.
    pub what: Counted,
    /// Of how many kernels, for [`Counted::SharedLaunches`].
    pub kernels: Option<u64>,
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
}

/// Differences in the work of two traces, to the last launch and byte.
pub(super) fn differences(parts: [&Part; 2], kernels: &[KernelChange]) -> Vec<WorkDifference> {
    let mut found = Vec::new();
    let mut compare = |what: Counted, sums: [Option<u128>; 2]| {
        let [Some(before), Some(after)] = sums else { return };
        let instances = parts.map(|part| u128::from(part.instances.unwrap_or(1)));
        // As fractions, so that no rounding makes equals differ.
        if before.checked_mul(instances[1]) != after.checked_mul(instances[0]) {
            let each = |sum: u128, at: usize| sum as f64 / instances[at] as f64;
            found.push(WorkDifference {
                what,
                kernels: None,
                before: each(before, 0),
                after: each(after, 1),
            });
        }
    };
    let launches = |part: &Part| part.kernels.iter().map(|(_, times)| u128::from(times.count)).sum();
    compare(Counted::Launches, parts.map(|part| Some(launches(part))));
    compare(Counted::Copies, parts.map(|part| Some(part.copies.map_or(0, |times| u128::from(times.count)))));
    compare(Counted::CopiedBytes, parts.map(|part| part.copied_bytes));
    compare(Counted::Sets, parts.map(|part| Some(part.sets.map_or(0, |times| u128::from(times.count)))));
    compare(Counted::SetBytes, parts.map(|part| part.set_bytes));
    let names =
        |only: &dyn Fn(&KernelChange) -> bool| kernels.iter().filter(|kernel| only(kernel)).count() as f64;
    let is_kernel = |kernel: &KernelChange| kernel.operation == Operation::Kernel;
    let gone = names(&|kernel| is_kernel(kernel) && kernel.time.after.is_none());
    let new = names(&|kernel| is_kernel(kernel) && kernel.time.before.is_none());
    if gone + new > 0.0 {
        found.push(WorkDifference { what: Counted::KernelsOfOne, kernels: None, before: gone, after: new });
    }
    let launches = |side: Option<Side>| side.map_or(0, |side| u128::from(side.calls));
    let instances = parts.map(|part| u128::from(part.instances.unwrap_or(1)));
    let other = kernels.iter().filter(|kernel| {
        let (before, after) = (launches(kernel.time.before), launches(kernel.time.after));
        is_kernel(kernel)
            && before > 0
            && after > 0
            && before.checked_mul(instances[1]) != after.checked_mul(instances[0])
    });
    let other: Vec<&KernelChange> = other.collect();
    if !other.is_empty() {
        let sum = |side: fn(&KernelChange) -> Option<Side>| -> f64 {
            other.iter().filter_map(|kernel| side(kernel)).map(|side| side.each_calls).sum()
        };
        found.push(WorkDifference {
            what: Counted::SharedLaunches,
            kernels: Some(other.len() as u64),
            before: sum(|kernel| kernel.time.before),
            after: sum(|kernel| kernel.time.after),
        });
    }
    found
}
