//! The reason why the FLOPs of a launch are unknown.

use std::fmt;

use super::Precision;
use super::chip::{self, Capability};
use super::counters::{Counters, SHADER};

/// Why the floating-point operations of a launch are not known. A number would be too small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Unknown {
    /// No counter of floating-point operations was recorded.
    NotRecorded,
    /// The kernel multiplies on the tensor cores, whose operations were not counted; the precision,
    /// where it is known.
    TensorCores(Option<Precision>),
    /// The tensor cores may have executed a product, or their pipe worked on products or HFMA2, and
    /// their operations were not counted.
    PerhapsTensorCores,
    /// The kernel computes in this precision, whose instructions were not counted.
    NotCounted(Precision),
    /// Some counters of a precision are present, but not these.
    Incomplete(Counters),
    /// The report gives different values for these counters.
    Conflicting(Counters),
    /// Half-precision instructions that may be arithmetic, constants or conversions are most of
    /// what was counted.
    HalfPrecision,
    /// The count exceeds 64 bits.
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

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::NotRecorded => f.write_str("no counter of floating-point operations was recorded"),
            Unknown::TensorCores(None) => f.write_str("the operations of the tensor cores were not counted"),
            Unknown::TensorCores(Some(precision)) => {
                let name = precision.label().trim_start_matches("tensor ");
                write!(f, "the {name} operations of the tensor cores were not counted")
            }
            Unknown::PerhapsTensorCores => f.write_str(
                "operations of the tensor cores were not counted, and neither the name nor a counter excludes them",
            ),
            Unknown::NotCounted(precision) => write!(f, "the {} operations were not counted", precision.label()),
            Unknown::Incomplete(counters) => write!(f, "the report lacks {counters}"),
            Unknown::Conflicting(counters) => write!(f, "the report gives different values for {counters}"),
            Unknown::HalfPrecision => f.write_str(
                "the half-precision instructions may be arithmetic, constants or conversions, which the counters do not distinguish",
            ),
            Unknown::Overflow => f.write_str("the sum exceeds 64 bits"),
        }
    }
}
