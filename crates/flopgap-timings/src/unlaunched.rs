//! GPU work that belongs to no range, because its launch was not recorded.

use serde::{Deserialize, Serialize};

/// GPU work of a trace whose launch was not recorded, as when the recording began between the call
/// and the kernel. It is in no number about ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlaunched {
    /// How many kernels; graphs that were traced as a whole do not count.
    pub kernels: u64,
    /// The sum of their durations.
    pub kernel_ns: i128,
    /// How many kernels, copies, memsets and whole graphs.
    pub operations: u64,
    /// The sum of their durations.
    pub total_ns: i128,
}

impl From<flopgap_trace::Unlaunched> for Unlaunched {
    fn from(found: flopgap_trace::Unlaunched) -> Unlaunched {
        Unlaunched {
            kernels: found.kernels,
            kernel_ns: found.kernel_time,
            operations: found.operations,
            total_ns: found.time,
        }
    }
}
