//! The interface of loops of multiply-adds.

use flopgap_flops::Precision;

use crate::Instruction;

/// A loop of multiply-adds that this CPU can run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loop {
    pub(super) precision: Precision,
    pub(super) instruction: Instruction,
    /// Multiply-adds of a step.
    pub(super) multiply_adds: u64,
    /// Runs so many steps and gives the sum of all sums. `ones`: every multiply-add adds one to it;
    /// otherwise on other numbers.
    pub(super) run: fn(steps: u32, ones: bool) -> f64,
}
