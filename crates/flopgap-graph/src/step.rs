//! The units of execution: operations with what is fused after them.

use flopgap_flops::{Activation, ElementType, FlopError, Precision, Work};
use serde::{Deserialize, Serialize};

use crate::op::{Op, product};

/// One operation and what an engine computes in the same kernel before the result is written.
///
/// Engines fuse in the same way (cuBLASLt and cuDNN by their epilogues, ONNX Runtime by `FusedGemm`
/// and `FusedConv`), so a step is what is measured and predicted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step {
    /// The operation.
    #[serde(flatten)]
    pub op: Op,
    /// The epilogue in the same kernel.
    #[serde(default)]
    pub epilogue: Epilogue,
}

impl Step {
    /// A step without an epilogue.
    pub fn plain(op: Op) -> Self {
        Step { op, epilogue: Epilogue::default() }
    }

    /// FLOPs and compulsory bytes of the operation with its epilogue in one kernel: operands, bias
    /// and residual read once, the result written once. A bias and a residual are 1 FLOP an element
    /// of the result, an activation what its textbook formula takes. Biases of 8-bit products are
    /// 32-bit integers.
    ///
    /// ```
    /// use flopgap_flops::{Activation, Precision};
    /// use flopgap_graph::{Epilogue, Op, Step, op::Gemm};
    ///
    /// let op = Op::Gemm(Gemm { batch: 1, m: 32, n: 512, k: 1024 });
    /// let step = Step { op, epilogue: Epilogue { bias: true, residual: false, activation: Activation::Relu } };
    /// let work = step.work(Precision::Fp16)?;
    /// assert_eq!(work.flops, 2 * 32 * 512 * 1024 + 2 * 32 * 512);
    /// assert_eq!(work.bytes_read, 2 * (32 * 1024 + 512 * 1024 + 512));
    /// # Ok::<(), flopgap_flops::FlopError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Op::work`].
    pub fn work(&self, precision: Precision) -> Result<Work, FlopError> {
        let element = precision.element();
        let mut work = self.op.work(element)?;
        let Epilogue { bias, residual, activation } = self.epilogue;
        let outputs = self.op.output_elements()?;
        let each = u64::from(bias) + u64::from(residual) + activation.flops();
        let mut fused = Work { flops: product("epilogue FLOPs", &[each, outputs])?, ..Work::default() };
        if bias {
            let width = if element == ElementType::Int8 { 4 } else { element.bytes() };
            fused.bytes_read = product("bytes read", &[self.op.channels().unwrap_or(outputs), width])?;
        }
        work = work.checked_add(&fused)?;
        if residual {
            let bytes_read = product("bytes read", &[outputs, element.bytes()])?;
            work = work.checked_add(&Work { bytes_read, ..Work::default() })?;
        }
        Ok(work)
    }

    /// A short description: `gemm 32x512x1024 +bias +relu`, `conv 8x64x56x56 64 of 3x3`.
    pub fn label(&self) -> String {
        let mut label = self.op.label();
        let Epilogue { bias, residual, activation } = self.epilogue;
        if bias {
            label.push_str(" +bias");
        }
        if residual {
            label.push_str(" +residual");
        }
        if activation != Activation::Identity {
            label.push_str(" +");
            label.push_str(activation.name());
        }
        label
    }
}

/// The functions applied to each element of a result before it is written, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Epilogue {
    /// A bias by output channel is added.
    #[serde(default)]
    pub bias: bool,
    /// Another tensor of the same shape is added (a residual connection).
    #[serde(default)]
    pub residual: bool,
    /// An activation is applied.
    #[serde(default = "identity")]
    pub activation: Activation,
}

fn identity() -> Activation {
    Activation::Identity
}

impl Default for Epilogue {
    fn default() -> Self {
        Epilogue { bias: false, residual: false, activation: Activation::Identity }
    }
}

/// A [`Step`] of a graph with the tensors it touches.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedStep {
    /// The step.
    pub step: Step,
    /// Indexes of the layers of the graph that it stands for, the operation's own first.
    pub layers: Vec<usize>,
    /// The tensor of the operation's first operand (activations).
    ///
    /// This and the other operands are tensors with memory of their own: what a step writes, an
    /// input of the graph or a parameter. Views are resolved, so the tensor may have another shape
    /// than the operation reads it with, and as many elements.
    pub input: usize,
    /// The tensor of its weights, where it has them; for a product of two activations, the second
    /// operand.
    pub weights: Option<usize>,
    /// The bias.
    pub bias: Option<usize>,
    /// The tensor added before the activation.
    pub residual: Option<usize>,
    /// Every tensor that the operation reads, in the order of the layer's inputs; not what only the
    /// epilogue reads.
    pub operands: Vec<usize>,
    /// The tensor written: that of the last layer that the step stands for.
    pub output: usize,
    /// All tensors written; more than `output` for an operation with several results, such as a
    /// split.
    pub outputs: Vec<usize>,
}

/// The configuration of the kernel that computed a step, as reported by the library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Algorithm {
    /// The library's number or name of the algorithm.
    pub id: String,
    /// Rows and columns of a tile of the result.
    pub tile: Option<[u32; 2]>,
    /// Stages of the pipeline, the library's number.
    pub stages: Option<u32>,
    /// Parts that the inner sum is split into; 1 is not split.
    pub split_k: Option<u32>,
    /// Blocks of a cluster, in each dimension.
    pub cluster: Option<[u32; 2]>,
    /// Waves of blocks, as the library's heuristic says, in thousandths.
    pub waves_thousandths: Option<u64>,
    /// Bytes of workspace it uses.
    pub workspace: Option<u64>,
    /// The kernels that compute it, by short names, in order, where the driver reports them; `name
    /// x4` is four of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// How they were launched, one for each of `kernels`, where the driver reports it; the first of
    /// several alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launches: Vec<KernelLaunch>,
    /// Other attributes: inner shape, swizzle, reduction scheme, by the library's names.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub attributes: std::collections::BTreeMap<String, i64>,
}

/// How a kernel was launched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KernelLaunch {
    /// The name with its template arguments and without its parameters, where it says more than the
    /// short one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Registers of a thread, where the driver reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Blocks that a multiprocessor holds at once, where the driver reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<u32>,
}
