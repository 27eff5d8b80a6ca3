//! Classes, libraries, precisions and tiles of kernels.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{EnumCount as _, VariantArray as _};

/// The kind of work that a kernel does.
///
/// The classes split a step the way its floating-point work is counted: a closed form exists for
/// matrix products, attention and convolutions, and everything else is work around them. The
/// crate's README says what belongs in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::Display, strum::IntoStaticStr, strum::EnumCount, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum KernelClass {
    /// Matrix times matrix, batched and grouped forms included, with whatever its epilogue fuses.
    Matmul,
    /// Matrix times vector.
    Gemv,
    /// The second kernel of a split-K matrix product: it adds up the partial products.
    SplitKReduce,
    /// Arithmetic per element: activations and their gradients, bias, comparisons, selection,
    /// quantization.
    Elementwise,
    /// Many values to few: sums, means, norms of a vector, arg-max, prefix sums, pooling windows,
    /// loss values.
    Reduction,
    /// Softmax and log-softmax, forward and backward.
    Softmax,
    /// Layer, RMS, batch, group and instance normalization, forward and backward.
    Norm,
    /// Attention in one kernel: scores, softmax and weighted sum, and the helpers that only
    /// attention launches.
    Attention,
    /// Convolution by any algorithm, its data and weight gradients included.
    Convolution,
    /// A state carried along a sequence: recurrent networks, state-space models (Mamba), linear
    /// attention with its chunks and scans.
    Recurrence,
    /// Movement chosen by data: embedding, gather, scatter, sort, top-k, cache writes, expert
    /// routing.
    Index,
    /// A fused optimizer step (Adam, SGD, LAMB and kin).
    Optimizer,
    /// Movement without arithmetic that keeps the order of elements: copy, cast, fill, concatenate,
    /// im2col, memcpy, memset.
    Copy,
    /// Movement without arithmetic whose purpose is another order of elements in memory:
    /// transposes, permuted dimensions, NCHW to NHWC and back.
    Layout,
    /// Random numbers: initialization, sampling from a distribution, dropout.
    Random,
    /// Collectives and point-to-point messages between GPUs.
    Communication,
    /// No rule claims the name. Its FLOPs must still be reported.
    Other,
}

impl KernelClass {
    /// Every class, in the order in which reports list them.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().expect("all variants");

    /// The name in files and on the command line; the same as serde writes.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The origin of the kernel, if the name shows it.
///
/// cuBLAS, cuDNN and PyTorch ship kernels generated from CUTLASS; a name that says CUTLASS is
/// reported as [`Library::Cutlass`] in any distribution, because the name does not say more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::IntoStaticStr, strum::EnumCount, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Library {
    /// The CUDA runtime or driver itself: memcpy and memset.
    Cuda,
    /// cuBLAS and cuBLASLt.
    Cublas,
    /// CUTLASS templates, in any library.
    Cutlass,
    /// cuDNN.
    Cudnn,
    /// PyTorch's own kernels (`at::native`, `c10`) and the memory-efficient attention that it
    /// ships.
    Pytorch,
    /// TensorFlow's own kernels and Eigen's GPU evaluator.
    Tensorflow,
    /// XLA's fusions (JAX, TensorFlow).
    Xla,
    /// Triton, when the name says so (`triton_...`, as Inductor writes it).
    Triton,
    /// TensorRT (Myelin included) and TensorRT-LLM.
    Tensorrt,
    /// NCCL, and RCCL, whose kernels have the same names.
    Nccl,
    /// NVSHMEM.
    Nvshmem,
    /// FlashAttention 2 and 3, also as vendored by PyTorch and vLLM.
    FlashAttention,
    /// FlashInfer.
    FlashInfer,
    /// vLLM's own kernels.
    Vllm,
    /// SGLang's own kernels.
    Sglang,
    /// NVIDIA Transformer Engine.
    TransformerEngine,
    /// DeepSeek's DeepGEMM and DeepEP, in any namespace.
    Deepseek,
    /// FBGEMM's kernels for embedding tables.
    Fbgemm,
    /// cuRAND's host API.
    Curand,
    /// Thrust and CUB.
    Thrust,
    /// CuPy.
    Cupy,
    /// Numba and the other just-in-time compilers that share its mangling.
    Numba,
    /// AMD's generator of matrix products (`Cijk_...`), with which hipBLASLt and rocBLAS are made.
    Tensile,
    /// rocBLAS's kernels beside Tensile's.
    Rocblas,
    /// AMD's Composable Kernel, in any library.
    ComposableKernel,
    /// AMD's AITER.
    Aiter,
    /// AMD's MIOpen.
    Miopen,
    /// The name does not say.
    Unknown,
}

impl Library {
    /// Every library.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().expect("all variants");

    /// The name in files; the same as serde writes.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The number format that a kernel multiplies (matrix products) or reads first (everything else).
///
/// For a matrix product this is the type that enters the multiplier: a TF32 kernel stores FP32 and
/// multiplies [`NumberType::Tf32`]; a kernel with FP16 inputs and FP32 accumulation is
/// [`NumberType::Fp16`]. For a template it is the first floating-point type among the arguments.
/// Complex types count as their real type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::IntoStaticStr, strum::EnumCount, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum NumberType {
    /// IEEE binary64.
    Fp64,
    /// IEEE binary32.
    Fp32,
    /// 32-bit storage, 10 mantissa bits in the multiplier.
    Tf32,
    /// bfloat16.
    Bf16,
    /// IEEE binary16.
    Fp16,
    /// E4M3 or E5M2.
    Fp8,
    /// E2M1, with whatever block scales.
    Fp4,
    /// 8-bit integers.
    Int8,
}

impl NumberType {
    /// Every precision, widest first.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().expect("all variants");

    /// The name in files; the same as serde writes.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The output tile that one thread block (or cluster pair) computes, in elements.
///
/// `m` and `n` are in the order in which the name gives them; cuBLAS is column-major, so that `m`
/// there runs along the columns of a row-major framework's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tile {
    /// First extent.
    pub m: u32,
    /// Second extent.
    pub n: u32,
    /// Depth of one step along the summed dimension, where the name gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<u32>,
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.m, self.n)?;
        match self.k {
            Some(k) => write!(f, "x{k}"),
            None => Ok(()),
        }
    }
}

/// An unknown name, found by `FromStr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    kind: &'static str,
    name: String,
    known: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no {}; known: {}", self.name, self.kind, self.known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

fn look_up<T: Copy>(
    kind: &'static str,
    name: &str,
    all: &[T],
    as_str: fn(T) -> &'static str,
) -> Result<T, UnknownName> {
    all.iter().copied().find(|&value| as_str(value) == name).ok_or_else(|| UnknownName {
        kind,
        name: name.to_owned(),
        known: all.iter().map(|&value| as_str(value)).collect(),
    })
}

impl FromStr for KernelClass {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        look_up("kernel class", name, &Self::ALL, Self::as_str)
    }
}

impl FromStr for Library {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        look_up("library", name, &Self::ALL, Self::as_str)
    }
}

impl FromStr for NumberType {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        look_up("precision", name, &Self::ALL, Self::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_serde_and_parse_back() {
        for class in KernelClass::ALL {
            assert_eq!(serde_json::to_string(&class).unwrap(), format!("\"{class}\""));
            assert_eq!(class.as_str().parse(), Ok(class));
        }
        for library in Library::ALL {
            assert_eq!(serde_json::to_string(&library).unwrap(), format!("\"{library}\""));
            assert_eq!(library.as_str().parse(), Ok(library));
        }
        for precision in NumberType::ALL {
            assert_eq!(serde_json::to_string(&precision).unwrap(), format!("\"{precision}\""));
            assert_eq!(precision.as_str().parse(), Ok(precision));
        }
    }

    #[test]
    fn an_unknown_name_says_what_is_known() {
        let message = "gemm".parse::<KernelClass>().unwrap_err().to_string();
        assert!(message.starts_with("`gemm` is no kernel class; known: matmul, gemv, "), "{message}");
    }
}
