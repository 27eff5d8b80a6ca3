//! Attention as two batched products with a softmax between them, as `PyTorch`'s plain backend computes it.

use flopgap_flops::Precision;
use flopgap_flops::transformer::{Attention, AttentionMask};
use flopgap_gpu::Stream;
use flopgap_graph::op::Gemm;
use flopgap_graph::{Algorithm, Epilogue, Step};

use crate::error::EngineError;

use super::gemm;
use super::kernel::{Addresses, Array, Arrays, Kernel, Memory, Operand, Sample};
use super::pointwise::{activations, no_epilogue};
use super::rows;
use super::tools::{Tools, size, unsupported};

/// Queries are the input, keys and values (transposed: a row for each column of a head) the weights, one behind the other.
struct AttentionKernel {
    arrays: Arrays,
    scores: Box<dyn Kernel>,
    softmax: Box<dyn Kernel>,
    values: Box<dyn Kernel>,
    head_width: usize,
    keys: usize,
    /// Where the values begin among the weights; where probabilities and the library's workspace begin in the workspace.
    offsets: [usize; 3],
}

/// Attention in three kernels.
pub(super) fn make(
    tools: &Tools,
    sizes: &Attention,
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    no_epilogue(step)?;
    let Attention { batch, heads, kv_heads, queries, keys, head_width, mask } = *sizes;
    if kv_heads != heads {
        return Err(unsupported(step, "query heads that share keys are not there"));
    }
    if mask == AttentionMask::Causal {
        return Err(unsupported(
            step,
            "masked scores are computed here, which is not what a causal mask counts",
        ));
    }
    if precision == Precision::Int8 {
        return Err(unsupported(step, "attention is not there in int8"));
    }
    let planes = batch.saturating_mul(heads);
    let none = Epilogue::default();
    let scores = Gemm { batch: planes, m: queries, n: keys, k: head_width };
    let scores = gemm::make(tools, &scores, none, precision)?;
    let softmax = rows::softmax(tools, [planes.saturating_mul(queries), keys], step, precision)?;
    let values = Gemm { batch: planes, m: queries, n: head_width, k: keys };
    let values = gemm::make(tools, &values, none, precision)?;
    let bytes_of = |array: Option<Array>| array.map_or(0, |array| array.bytes().next_multiple_of(256));
    let elements_of = |array: Option<Array>| array.map_or(0, |array| array.elements);
    let keys_bytes = bytes_of(scores.arrays().weights);
    let numbers = scores.arrays().input.numbers;
    let weights = keys_bytes / numbers.bytes() + elements_of(values.arrays().weights);
    let score_bytes = bytes_of(Some(scores.arrays().output));
    let arrays = Arrays {
        input: scores.arrays().input,
        weights: Some(activations(weights, precision, 0.0, 1.0)),
        bias: None,
        residual: None,
        output: values.arrays().output,
    };
    let (head_width, keys) = (size(step, head_width)?, size(step, keys)?);
    let offsets = [keys_bytes, score_bytes, 2 * score_bytes];
    Ok(Box::new(AttentionKernel { arrays, scores, softmax, values, head_width, keys, offsets }))
}

/// Where one of the three kernels has its arrays.
fn at(input: u64, weights: u64, output: u64, workspace: u64) -> Addresses {
    Addresses { input, weights, output, workspace, ..Addresses::default() }
}

impl Kernel for AttentionKernel {
    fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    fn workspace(&self) -> usize {
        self.offsets[2] + self.scores.workspace().max(self.values.workspace())
    }

    fn algorithm(&self) -> Algorithm {
        let id = format!("{}, softmax, {}", self.scores.algorithm().id, self.values.algorithm().id);
        Algorithm { id, workspace: Some(self.workspace() as u64), ..Algorithm::default() }
    }

    #[expect(unsafe_code, reason = "queues kernels by address")]
    unsafe fn queue(&self, stream: &Stream, address: &Addresses) -> Result<(), EngineError> {
        let Addresses { input, weights, output, workspace, .. } = *address;
        let [values, probabilities, library] = self.offsets.map(|offset| offset as u64);
        let (scores, probabilities, library) = (workspace, workspace + probabilities, workspace + library);
        // SAFETY: the caller's promise; the workspace has room for scores, probabilities and what the library needs.
        unsafe {
            self.scores.queue(stream, &at(input, weights, scores, library))?;
            self.softmax.queue(stream, &at(scores, 0, probabilities, library))?;
            self.values.queue(stream, &at(probabilities, weights + values, output, library))
        }
    }

    fn samples(&self, memory: &dyn Memory, _: u64) -> Result<Vec<Sample>, EngineError> {
        // The first row of the first head, from the operands: its scores, probabilities and outputs.
        let (width, count) = (self.head_width, self.keys);
        let query = memory.read(Operand::Input, 0, width)?;
        let start = self.offsets[0] / self.arrays.input.numbers.bytes();
        let mut scores = Vec::with_capacity(count);
        for key in 0..count {
            let key = memory.read(Operand::Weights, key * width, width)?;
            scores.push(query.iter().zip(&key).map(|(q, k)| q * k).sum::<f64>());
        }
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - top).exp()).sum();
        let found = memory.read(Operand::Output, 0, width)?;
        let mut samples = Vec::new();
        for (column, found) in found.into_iter().enumerate() {
            let values = memory.read(Operand::Weights, start + column * count, count)?;
            let terms = scores.iter().zip(&values).map(|(score, value)| (score - top).exp() / sum * value);
            let (expected, squares) =
                terms.fold((0.0, 0.0), |(sum, squares), term| (sum + term, squares + term * term));
            samples.push(Sample { found, expected, magnitude: f64::sqrt(squares) });
        }
        Ok(samples)
    }

    fn bound(&self) -> f64 {
        // Scores and probabilities are stored between the kernels.
        4.0 * (self.scores.bound() + self.softmax.bound() + self.values.bound())
    }
}
