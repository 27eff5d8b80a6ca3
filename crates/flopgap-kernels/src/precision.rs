//! The number format in a name.

use std::sync::LazyLock;

use regex::Regex;

use crate::operation::words;
use crate::path::Path;
use crate::taxonomy::Precision::{self, Bf16, Fp4, Fp8, Fp16, Fp32, Fp64, Int8, Tf32};

/// A pattern constant of this module; all are compiled by the tests.
fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}

/// `nvjet_sm90_tst_`, `nvjet_sss_tf32_`: types of A and B (doubled from FP8 down), accumulator,
/// output.
static NVJET: LazyLock<Regex> = LazyLock::new(|| compiled(r"\bnvjet_(?:sm\d+[a-z]?_)?([a-z]{3,5})_(tf32_)?"));

/// `_f32f32_tf32f32_f32`: input and output storage, then multiplier and accumulator, then epilogue.
static XMMA: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"_(?:f16|bf16|f32|tf32|f64|e4m3|e5m2|i8){2}_(f16|bf16|tf32|f32|f64|e4m3|e5m2|i8)(?:f16|f32|f64|i32)_(?:f16|f32|f64|i32)",
    )
});

/// The instruction shape of a tensor-core kernel with the accumulator's letter: `s1688gemm`,
/// `h884cudnn`, `d884gemm`.
static TENSOR_OP: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?:^|_)([shid])(884|1688|16816|16832|161616|8816|8832|168128|\d+x\d+x\d+)(tf32)?(?:gemm|cudnn|fprop|dgrad|wgrad)(?:_block_scaled)?(?:_([a-z0-9]+))?",
    )
});

/// BLAS letters: `sgemm`, `dgemm`, `scudnn`. Complex types count as their real type. Only for
/// products: people write kernels named `saxpy` that take `double`.
static BLAS: LazyLock<Regex> = LazyLock::new(|| compiled(r"(?:^|_)([sdhczi])(?:gemm|gemv|cudnn)(?:_|$)"));

/// A format spelled out between underscores.
static SPELLED: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"_(bf16|fp16|f16|half|fp32|f32|float|float16|float32|float64|fp64|f64|double|tf32|fp8|nvfp4|mxfp4|fp4|int8|bfloat16)(?:_|$)",
    )
});

/// TensorRT-LLM's generated kernels: `bmm_<C>_<A><B>_<accumulator>_t128x8x512`,
/// `fmhaSm100fKernel_QkvBfloat16`.
static TRTLLM: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"\bbmm_[a-z0-9]+_(?:mx)?(e2m1|e4m3|e5m2|bfloat16|fp16)|\bfmhasm\w+?kernel_q(?:kv)?(e2m1|e4m3|e5m2|bfloat16|fp16)",
    )
});

/// TensorFlow's generated kernels: `Mul_GPU_DT_FLOAT_DT_FLOAT_kernel`.
static TENSORFLOW: LazyLock<Regex> = LazyLock::new(|| compiled(r"_dt_(float|half|bfloat16|double)_"));

/// The precision of a kernel. `base` and the parts of `path` are in lower case; `path` is the
/// parsed lower-case name.
pub(crate) fn precision_of(path: &Path<'_>, lower: &str) -> Option<Precision> {
    let base = path.base().unwrap_or(lower);
    // cuDNN writes `f16` for any 16-bit format in the names of kernels that it generates.
    if base.starts_with("cudnn_generated") {
        return None;
    }
    // `cutlass::Kernel2<cutlass_80_simt_sgemm_...>`: the argument is the name.
    let name =
        path.args.filter(|args| args.starts_with("cutlass_") && !args.contains(['<', ','])).unwrap_or(base);
    // The parameters of a template are no evidence: a quantized product takes its scales as
    // `float*`.
    let types = path.args.or(path.params);
    from_library_name(name)
        .or_else(|| types.and_then(from_types))
        .or_else(|| from_blas_letter(name))
        .or_else(|| from_spelling(name))
}

/// Names in which a library encodes the format by its own grammar.
fn from_library_name(name: &str) -> Option<Precision> {
    if let Some(found) = NVJET.captures(name) {
        if found.get(2).is_some() {
            return Some(Tf32);
        }
        return match found[1].as_bytes()[0] {
            b'd' => Some(Fp64),
            b's' => Some(Fp32),
            b't' => Some(Bf16),
            b'h' => Some(Fp16),
            b'q' => Some(Fp8),
            b'o' => Some(Fp4),
            _ => None,
        };
    }
    if let Some(found) = XMMA.captures(name) {
        return from_token(&found[1]);
    }
    if let Some(found) = TENSOR_OP.captures(name) {
        if found.get(3).is_some() {
            return Some(Tf32);
        }
        // `ampere_bf16_s16816gemm_bf16_...`, `cutlass3x_..._gemm_f8_f8_f32`,
        // `..._block_scaled_ue4m3xf4_...`.
        let behind = found.get(4).map_or("", |token| token.as_str());
        if let Some(precision) = from_token(behind).filter(|&p| p != Fp32) {
            return Some(precision);
        }
        if let Some(precision) = SPELLED.captures(name).and_then(|spelled| from_token(&spelled[1])) {
            return Some(if precision == Fp32 { Tf32 } else { precision });
        }
        return match (&found[1], &found[2]) {
            ("d", _) => Some(Fp64),
            ("i", _) => Some(Int8),
            ("h", _) | (_, "884" | "16816" | "161616") => Some(Fp16),
            ("s", "1688") => Some(Tf32),
            _ => None,
        };
    }
    if let Some(found) = TRTLLM.captures(name) {
        return found.get(1).or_else(|| found.get(2)).and_then(|token| from_token(token.as_str()));
    }
    TENSORFLOW.captures(name).and_then(|found| from_token(&found[1]))
}

fn from_blas_letter(name: &str) -> Option<Precision> {
    Some(match &BLAS.captures(name)?[1] {
        "d" | "z" => Fp64,
        "s" | "c" => Fp32,
        "h" => Fp16,
        _ => Int8,
    })
}

/// Names that simply spell a format out.
fn from_spelling(name: &str) -> Option<Precision> {
    SPELLED.captures(name).and_then(|found| from_token(&found[1])).or_else(|| {
        let starts = ["fp8_", "fp4_"].iter().position(|start| name.starts_with(start))?;
        Some(if starts == 0 { Fp8 } else { Fp4 })
    })
}

/// The first floating-point type among template arguments or parameters.
fn from_types(text: &str) -> Option<Precision> {
    words(text).find_map(|(word, _)| from_type(word))
}

fn from_type(word: &str) -> Option<Precision> {
    Some(match word {
        "float" | "float2" | "float4" => Fp32,
        "double" | "double2" => Fp64,
        "half" | "half2" | "__half" | "__half2" | "half_t" => Fp16,
        "__nv_bfloat16" | "__nv_bfloat162" | "bfloat16" | "bfloat16_t" => Bf16,
        "tfloat32_t" => Tf32,
        "float8_e4m3fn" | "float8_e5m2" | "float_e4m3_t" | "float_e5m2_t" | "__nv_fp8_e4m3"
        | "__nv_fp8_e5m2" => Fp8,
        "float_e2m1_t" | "nv_float4_t" | "mx_float4_t" | "__nv_fp4_e2m1" => Fp4,
        // `Ampere_hmma_tf32_traits` and `Volta_hmma_fp32_traits` of xmma: the second accumulates
        // FP16 products in FP32.
        _ if word.contains("_hmma_tf32") => Tf32,
        _ if word.contains("_hmma_") => Fp16,
        _ => return None,
    })
}

fn from_token(token: &str) -> Option<Precision> {
    Some(match token {
        "f64" | "fp64" | "float64" | "double" => Fp64,
        "f32" | "fp32" | "float32" | "float" => Fp32,
        "tf32" => Tf32,
        "bf16" | "bfloat16" => Bf16,
        "f16" | "fp16" | "float16" | "half" => Fp16,
        "f8" | "fp8" | "e4m3" | "e5m2" => Fp8,
        "f4" | "fp4" | "nvfp4" | "mxfp4" | "e2m1" => Fp4,
        "i8" | "s8" | "int8" => Int8,
        _ if token.starts_with('u') && token.ends_with("xf4") => Fp4,
        _ if token.starts_with('u') && token.ends_with("xf8") => Fp8,
        _ => return None,
    })
}
