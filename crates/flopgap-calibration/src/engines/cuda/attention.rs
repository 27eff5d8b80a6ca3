//! Attention as two batched products with a softmax between them, as `PyTorch`'s plain backend
//! computes it.

use flopgap_flops::{Attention, AttentionMask, Precision};
use flopgap_gpu::Stream;
use flopgap_graph::op::Gemm;
use flopgap_graph::{Algorithm, Epilogue, Step};

use crate::engines::error::EngineError;

use super::gemm;
use super::kernel::{Addresses, Array, Arrays, Kernel, Memory, Operand, Sample};
use super::pointwise::{activations, no_epilogue};
use super::rows::{self, Scores, softmax_of};
use super::tools::{Tools, size, unsupported};

/// Queries are the input, keys and values (transposed: a row for each column of a head) the
/// weights, one behind the other.
struct AttentionKernel {
    arrays: Arrays,
    scores: Box<dyn Kernel>,
    softmax: Box<dyn Kernel>,
    values: Box<dyn Kernel>,
    head_width: usize,
    queries: usize,
    keys: usize,
    masked: Scores,
    /// Where the values begin among the weights; where probabilities and the library's workspace
    /// begin in the workspace.
    offsets: [usize; 3],
}

/// Whether there are kernels for it.
///
/// # Errors
/// [`EngineError::Unsupported`].
pub(super) fn supported(sizes: &Attention, step: &Step, precision: Precision) -> Result<(), EngineError> {
    let Attention { heads, kv_heads, .. } = *sizes;
    if kv_heads == 0 || heads % kv_heads != 0 {
        return Err(unsupported(
            step,
            format!("{heads} query heads cannot share {kv_heads} key heads evenly"),
        ));
    }
    if sizes.value_width.is_some() {
        return Err(unsupported(step, "values must be as wide as keys"));
    }
    if precision == Precision::Int8 {
        return Err(unsupported(step, "attention does not support int8"));
    }
    no_epilogue(step)
}

/// Attention in three kernels.
pub(super) fn make(
    tools: &Tools,
    sizes: &Attention,
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    supported(sizes, step, precision)?;
    let Attention { batch, heads, kv_heads, queries, keys, head_width, mask, .. } = *sizes;
    // Query heads that share keys are rows of one product.
    let planes = batch.saturating_mul(kv_heads);
    let rows_of_plane = (heads / kv_heads).saturating_mul(queries);
    let none = Epilogue::default();
    let scores = Gemm { batch: planes, m: rows_of_plane, n: keys, k: head_width };
    let scores = gemm::make(tools, &scores, none, precision)?;
    let causal = mask == AttentionMask::Causal;
    #[expect(clippy::cast_possible_truncation, reason = "a factor in 32 bits")]
    let masked = Scores {
        scale: (1.0 / (head_width as f64).sqrt()) as f32,
        queries: if causal { size(step, queries)? } else { 0 },
    };
    let softmax =
        rows::softmax(tools, [planes.saturating_mul(rows_of_plane), keys], masked, step, precision)?;
    let values = Gemm { batch: planes, m: rows_of_plane, n: head_width, k: keys };
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
    let (head_width, queries, keys) = (size(step, head_width)?, size(step, queries)?, size(step, keys)?);
    let offsets = [keys_bytes, score_bytes, 2 * score_bytes];
    Ok(Box::new(AttentionKernel {
        arrays,
        scores,
        softmax,
        values,
        head_width,
        queries,
        keys,
        masked,
        offsets,
    }))
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
        // SAFETY: the caller's promise; the workspace has room for scores, probabilities and what
        // the library needs.
        unsafe {
            self.scores.queue(stream, &at(input, weights, scores, library))?;
            self.softmax.queue(stream, &at(scores, 0, probabilities, library))?;
            self.values.queue(stream, &at(probabilities, weights + values, output, library))
        }
    }

    fn samples(&self, memory: &dyn Memory, _: u64) -> Result<Vec<Sample>, EngineError> {
        // Rows of the first head, from the operands: scores, probabilities, outputs.
        let (width, count) = (self.head_width, self.keys);
        let start = self.offsets[0] / self.arrays.input.numbers.bytes();
        let keys = memory.read(Operand::Weights, 0, count * width)?;
        let values = memory.read(Operand::Weights, start, count * width)?;
        let mut samples = Vec::new();
        let mut rows = vec![0, self.queries / 2, self.queries - 1];
        rows.dedup();
        for row in rows {
            let query = memory.read(Operand::Input, row * width, width)?;
            let found = memory.read(Operand::Output, row * width, width)?;
            let score = |key: &[f64]| query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>();
            let scores: Vec<f64> = keys.chunks_exact(width).map(score).collect();
            let seen = self.masked.seen(row, count);
            let probabilities = softmax_of(&scores, f64::from(self.masked.scale), seen);
            for (found, values) in found.into_iter().zip(values.chunks_exact(count)) {
                let terms = probabilities.iter().zip(values).map(|(probability, value)| probability * value);
                let (expected, squares) =
                    terms.fold((0.0, 0.0), |(sum, squares), term| (sum + term, squares + term * term));
                samples.push(Sample { found, expected, magnitude: f64::sqrt(squares) });
            }
        }
        Ok(samples)
    }

    fn bound(&self) -> f64 {
        // Scores and probabilities are stored between the kernels.
        4.0 * (self.scores.bound() + self.softmax.bound() + self.values.bound())
    }
}
