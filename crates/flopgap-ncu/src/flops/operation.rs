//! Kinds of arithmetic.

use strum::{EnumCount as _, VariantArray as _};

/// An arithmetic that is counted by itself: a type, on the shader cores or on the tensor cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[derive(strum::EnumCount, strum::VariantArray)]
pub enum OperationType {
    /// Double precision on the shader cores: DADD, DMUL, DFMA.
    Fp64,
    /// Single precision on the shader cores: FADD, FMUL, FFMA, and on Blackwell the packed FADD2,
    /// FMUL2, FFMA2.
    Fp32,
    /// Half precision on the shader cores, packed in twos: HADD, HMUL, HFMA.
    Fp16,
    /// Tensor operations on FP64.
    TensorFp64,
    /// Tensor operations on TF32.
    TensorTf32,
    /// Tensor operations on BF16.
    TensorBf16,
    /// Tensor operations on FP16.
    TensorFp16,
    /// Tensor operations on FP8.
    TensorFp8,
    /// Tensor operations on FP4.
    TensorFp4,
    /// Tensor operations on FP4 or FP6, which some GPUs count together.
    TensorFp4Fp6,
    /// Tensor operations on FP4, FP6 or FP8, which some GPUs count together.
    TensorFp4Fp6Fp8,
    /// Tensor operations on 8-bit integers: operations, but not floating-point ones.
    TensorInt8,
    /// Tensor operations on 4-bit integers.
    TensorInt4,
    /// Tensor operations on bits.
    TensorInt1,
}

impl OperationType {
    /// All of them.
    pub const ALL: [OperationType; OperationType::COUNT] =
        *OperationType::VARIANTS.first_chunk().expect("all variants");

    /// Whether its operations are floating-point operations.
    pub fn is_float(self) -> bool {
        !matches!(self, OperationType::TensorInt8 | OperationType::TensorInt4 | OperationType::TensorInt1)
    }

    /// Whether the tensor cores execute it.
    pub fn is_tensor(self) -> bool {
        !matches!(self, OperationType::Fp64 | OperationType::Fp32 | OperationType::Fp16)
    }

    /// A short name: `fp32`, `tensor bf16`.
    pub fn as_str(self) -> &'static str {
        match self {
            OperationType::Fp64 => "fp64",
            OperationType::Fp32 => "fp32",
            OperationType::Fp16 => "fp16",
            OperationType::TensorFp64 => "tensor fp64",
            OperationType::TensorTf32 => "tensor tf32",
            OperationType::TensorBf16 => "tensor bf16",
            OperationType::TensorFp16 => "tensor fp16",
            OperationType::TensorFp8 => "tensor fp8",
            OperationType::TensorFp4 => "tensor fp4",
            OperationType::TensorFp4Fp6 => "tensor fp4-fp6",
            OperationType::TensorFp4Fp6Fp8 => "tensor fp4-fp6-fp8",
            OperationType::TensorInt8 => "tensor int8",
            OperationType::TensorInt4 => "tensor int4",
            OperationType::TensorInt1 => "tensor int1",
        }
    }

    pub(super) fn index(self) -> usize {
        self as usize
    }
}
