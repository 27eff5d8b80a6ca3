//! Translates the information in a kernel's name into the terms of the counters.

use flopgap_kernels::{KernelClass, KernelInfo, NumberType};
use flopgap_ncu::{Arithmetic, OperationType};

/// ncu's name for a result that is not a kernel but all work of a range or a graph.
const COMPOSITES: [&str; 2] = ["range", "graph"];

/// What the kernel computes according to its name, as an argument of
/// [`flopgap_ncu::FlopCounter::count_as`].
///
/// ```
/// use flopgap_kernels::classify;
/// use flopgap_ncu::OperationType;
///
/// let product = flopgap_phases::arithmetic(&classify("nvjet_sm90_tst_128x160_64x5_2x1_v_bz_NTT"));
/// assert_eq!(product.tensor_cores, Some(true));
/// assert_eq!(product.tensor_precision, Some(OperationType::TensorBf16));
/// ```
pub fn arithmetic(info: &KernelInfo) -> Arithmetic {
    let moves = matches!(
        info.class,
        KernelClass::Copy
            | KernelClass::Layout
            | KernelClass::Index
            | KernelClass::Random
            | KernelClass::Communication
    );
    Arithmetic {
        tensor_cores: info.tensor_cores,
        is_product: info.may_multiply && info.tensor_cores != Some(false),
        is_composite: COMPOSITES.contains(&info.base.as_str()) && info.class == KernelClass::Other,
        precision: info.precision.filter(|_| !moves).and_then(on_shader_cores),
        tensor_precision: info.precision.map(on_tensor_cores),
        instruction: info.instruction,
        half_arithmetic: info.half_arithmetic,
    }
}

fn on_shader_cores(precision: NumberType) -> Option<OperationType> {
    match precision {
        NumberType::Fp64 => Some(OperationType::Fp64),
        NumberType::Fp32 | NumberType::Tf32 => Some(OperationType::Fp32),
        NumberType::Bf16 | NumberType::Fp16 => Some(OperationType::Fp16),
        NumberType::Fp8 | NumberType::Fp4 | NumberType::Int8 => None,
    }
}

fn on_tensor_cores(precision: NumberType) -> OperationType {
    match precision {
        NumberType::Fp64 => OperationType::TensorFp64,
        // Tensor cores multiply 32-bit floats as TF32.
        NumberType::Fp32 | NumberType::Tf32 => OperationType::TensorTf32,
        NumberType::Bf16 => OperationType::TensorBf16,
        NumberType::Fp16 => OperationType::TensorFp16,
        NumberType::Fp8 => OperationType::TensorFp8,
        NumberType::Fp4 => OperationType::TensorFp4,
        NumberType::Int8 => OperationType::TensorInt8,
    }
}
