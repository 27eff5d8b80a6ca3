//! Translates the information in a kernel's name into the terms of the counters.

use flopgap_kernels::{KernelClass, KernelInfo, Precision as Named};
use flopgap_ncu::{Arithmetic, Precision};

/// ncu's name for a result that is not a kernel but all work of a range or a graph.
const COMPOSITES: [&str; 2] = ["range", "graph"];

/// What the kernel computes according to its name, as an argument of
/// [`flopgap_ncu::FlopCounter::count_as`].
///
/// ```
/// use flopgap_kernels::classify;
/// use flopgap_ncu::Precision;
///
/// let product = flopgap_phases::arithmetic(&classify("nvjet_sm90_tst_128x160_64x5_2x1_v_bz_NTT"));
/// assert_eq!(product.tensor_cores, Some(true));
/// assert_eq!(product.tensor_precision, Some(Precision::TensorBf16));
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

fn on_shader_cores(precision: Named) -> Option<Precision> {
    match precision {
        Named::Fp64 => Some(Precision::Fp64),
        Named::Fp32 | Named::Tf32 => Some(Precision::Fp32),
        Named::Bf16 | Named::Fp16 => Some(Precision::Fp16),
        Named::Fp8 | Named::Fp4 | Named::Int8 => None,
    }
}

fn on_tensor_cores(precision: Named) -> Precision {
    match precision {
        Named::Fp64 => Precision::TensorFp64,
        // Tensor cores multiply 32-bit floats as TF32.
        Named::Fp32 | Named::Tf32 => Precision::TensorTf32,
        Named::Bf16 => Precision::TensorBf16,
        Named::Fp16 => Precision::TensorFp16,
        Named::Fp8 => Precision::TensorFp8,
        Named::Fp4 => Precision::TensorFp4,
        Named::Int8 => Precision::TensorInt8,
    }
}
