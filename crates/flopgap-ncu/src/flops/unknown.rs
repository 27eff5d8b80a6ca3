//! The reason why the FLOPs of a launch are unknown.

use super::OperationType;
use super::chip::{self, Capability};
use super::counters::{Counters, SHADER};

/// Why the floating-point operations of a launch are not known. A number would be too small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Unknown {
    /// No counter of floating-point operations was recorded.
    #[error("no counter of floating-point operations was recorded")]
    NotRecorded,
    /// The kernel multiplies on the tensor cores, whose operations were not counted; the precision,
    /// where it is known.
    #[error("the {}operations of the tensor cores were not counted", named(.0.as_ref()))]
    TensorCores(Option<OperationType>),
    /// The tensor cores may have executed a product, or their pipe worked on products or HFMA2, and
    /// their operations were not counted.
    #[error(
        "operations of the tensor cores were not counted, and neither the name nor a counter excludes them"
    )]
    PerhapsTensorCores,
    /// The kernel computes in this precision, whose instructions were not counted.
    #[error("the {} operations were not counted", .0.as_str())]
    NotCounted(OperationType),
    /// Some counters of a precision are present, but not these.
    #[error("the report lacks {0}")]
    Incomplete(Counters),
    /// The report gives different values for these counters.
    #[error("the report gives different values for {0}")]
    Conflicting(Counters),
    /// Half-precision instructions that may be arithmetic, constants or conversions are most of
    /// what was counted.
    #[error(
        "the half-precision instructions may be arithmetic, constants or conversions, which the counters do not distinguish"
    )]
    HalfPrecision,
    /// The count exceeds 64 bits.
    #[error("the sum exceeds 64 bits")]
    Overflow,
}

impl Unknown {
    /// The counters to record so that the operations are known, for a GPU of this compute
    /// capability; none where recording again does not help.
    pub fn counters_to_record(self, compute_capability: Capability) -> Vec<String> {
        let shader = |operations: [&str; 3]| -> Vec<String> {
            operations
                .iter()
                .map(|op| format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"))
                .collect()
        };
        match self {
            Unknown::NotRecorded => {
                let mut counters = shader(["fadd", "fmul", "ffma"]);
                counters.extend(chip::to_record(compute_capability, None));
                counters
            }
            Unknown::TensorCores(precision) => chip::to_record(compute_capability, precision),
            Unknown::PerhapsTensorCores => chip::to_record(compute_capability, None),
            Unknown::NotCounted(precision) => SHADER
                .iter()
                .find(|(known, _)| *known == precision)
                .map_or(Vec::new(), |(_, ops)| shader(*ops)),
            Unknown::Incomplete(counters) => counters.names().collect(),
            Unknown::Conflicting(_) | Unknown::HalfPrecision | Unknown::Overflow => Vec::new(),
        }
    }
}

/// `fp16 `, where the precision is known.
fn named(precision: Option<&OperationType>) -> String {
    precision
        .map(|precision| format!("{} ", precision.as_str().trim_start_matches("tensor ")))
        .unwrap_or_default()
}
