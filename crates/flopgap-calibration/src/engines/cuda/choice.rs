//! Chooses the kernel of a step.

use flopgap_flops::Precision;
use flopgap_graph::{Op, Step};

use crate::engines::error::EngineError;

use super::kernel::Kernel;
use super::tools::{Tools, unsupported};
use super::{attention, conv, gemm, pointwise, pool, rows};

/// Chooses what computes a step.
///
/// # Errors
/// [`EngineError::Unsupported`] where nothing does; the libraries'.
pub(super) fn kernel(
    tools: &Tools,
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    match &step.op {
        Op::Gemm(sizes) => gemm::make(tools, sizes, step.epilogue, precision),
        Op::Conv(sizes) => conv::make(tools, sizes, step, precision),
        Op::Pool(sizes) => pool::make(tools, sizes, step, precision),
        Op::Elementwise(sizes) => pointwise::elementwise(tools, sizes, step, precision),
        Op::Copy { elements } => pointwise::copy(tools, *elements, step, precision),
        Op::Softmax { rows, columns } => {
            let all = rows::Scores { scale: 1.0, queries: 0 };
            rows::softmax(tools, [*rows, *columns], all, step, precision)
        }
        Op::Norm(norm) => rows::norm(tools, norm, step, precision),
        Op::Reduce { inputs, outputs } => rows::reduce(tools, [*inputs, *outputs], step, precision),
        Op::Gather { rows, width } => rows::gather(tools, [*rows, *width], step, precision),
        Op::Attention(sizes) => attention::make(tools, sizes, step, precision),
        Op::Empty => pointwise::empty(tools, step, precision),
        _ => Err(unsupported(step, "no kernel supports this operation")),
    }
}
