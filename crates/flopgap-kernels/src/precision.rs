//! The number format in a name.

use std::sync::LazyLock;

use regex::Regex;

use crate::operation::words;
use crate::path::Path;
use crate::taxonomy::NumberType::{self, Bf16, Fp4, Fp8, Fp16, Fp32, Fp64, Int8, Tf32};

/// A pattern constant of this module; all are compiled by the tests.
fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}

/// `nvjet_sm90_tst_`, `nvjet_sss_tf32_`: types of A and B (doubled from FP8 down), accumulator,
/// output.
static NVJET: LazyLock<Regex> = LazyLock::new(|| compiled(r"\bnvjet_(?:sm\d+[a-z]?_)?([a-z]{3,5})_(tf32_)?"));

/// `_f32f32_tf32f32_f32`: input and output storage, then multiplier and accumulator, then
/// epilogue.
static XMMA: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"_(?:f16|bf16|f32|tf32|f64|e4m3|e5m2|i8){2}_(f16|bf16|tf32|f32|f64|e4m3|e5m2|i8)(?:f16|f32|f64|i32)_(?:f16|f32|f64|i32)",
    )
});

/// The instruction of a CUTLASS 2 template, whose operand types are what it multiplies:
/// `arch::Mma<GemmShape<16, 8, 32>, 32, signed char, ...>`.
static ARCH_MMA: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"arch::(?:sparse)?mma<(?:cutlass::)?(?:gemm::)?gemmshape<[^>]*>, ?(?:\(int\))?\d+, ?([a-z_][\w: ]*)",
    )
});

/// The instruction of a CUTLASS 3 template: accumulator, then the two operands.
/// `SM90_64x128x16_F32BF16BF16_SS`, `SM80_16x8x32_S32S8S8S32_TN`.
static MMA_ATOM: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"\bsm\d+_\d+x\d+x\d+_(?:f64|f32|f16|s32)(bf16|tf32|f16|f64|f32|e4m3|e5m2|s8|u8|s4|u4)")
});

/// AMD's Tensile: indices of the output and of the operands, then the type of the operands:
/// `Cijk_Alik_Bljk_BBS_BH_...`, `Cijk_Ailk_Bljk_I8II_BH_...`. Multiplied as TF32 where it says
/// `MX`.
static TENSILE: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"^(?:custom_)?cij[kl]*_a[i-n]+_b[i-n]+_(f8|b8|i8|4xi8|[hsdczb])(?:_m(x)_)?"));

/// The kernels of `triton_kernels`: types of output, activations and weights, then the tile.
static MATMUL_OGS: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"matmul_ogs_[ntr]+_(?:mx|nv)?[bfpius]+\d+(?:e\dm\d)?x((?:mx|nv)?[bfpius]+\d+)(?:e\dm\d)?x")
});

/// The instruction shape of a tensor-core kernel with the accumulator's letter: `s1688gemm`,
/// `h884cudnn`, `d884gemm`.
static TENSOR_OP: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?:^|_)([shid])(884|1688|16816|16832|161616|8816|8832|168128|\d+x\d+x\d+)(tf32)?(?:gemm|cudnn|fprop|dgrad|wgrad)(?:_block_scaled)?(?:_([a-z0-9]+))?",
    )
});

/// `sm80_xmma_gemm_i4i4_i4i32_...`, `cutlass_tensorop_s4_i16864gemm_...`: the floats behind are
/// those of the epilogue.
static FOUR_BITS: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"_[iu]4[iu]4_|(?:^|_)i(?:8832|16864|88128|168256)(?:xor)?(?:gemm|cudnn|fprop)")
});

/// BLAS letters: `sgemm`, `dgemm`, `scudnn`. Complex types count as their real type. Only for
/// products: people write kernels named `saxpy` that take `double`.
static BLAS: LazyLock<Regex> = LazyLock::new(|| compiled(r"(?:^|_)g?([sdhczi])(?:gemm|gemv|cudnn)(?:_|$)"));

/// A format spelled out between underscores.
static SPELLED: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"_(bf16|fp16|f16|half|fp32|f32|float|float16|float32|float64|fp64|f64|double|tf32|fp8|nvfp4|mxfp4|fp4|int8|bfloat16)(?:_|$)",
    )
});

/// TensorRT-LLM's generated products: `bmm_<C>_<A><B>_<accumulator>_t128x8x512`. Operands of two
/// types meet in the wider one.
static TRTLLM_BMM: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"\bbmm_[a-z0-9]+_(?:mx)?(e2m1|e4m3|e5m2|bfloat16|fp16)(?:mx)?(e2m1|e4m3|e5m2|bfloat16|fp16)?")
});

/// And attention: `fmhaSm100fKernel_QkvBfloat16`.
static TRTLLM_FMHA: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"\bfmhasm\w+?kernel_q(?:kv)?(e2m1|e4m3|e5m2|bfloat16|fp16)"));

/// TensorFlow's generated kernels: `Mul_GPU_DT_FLOAT_DT_FLOAT_kernel`.
static TENSORFLOW: LazyLock<Regex> = LazyLock::new(|| compiled(r"_dt_(float|half|bfloat16|double)_"));

/// The precision of a kernel. `base` and the parts of `path` are in lower case; `path` is the
/// parsed lower-case name.
pub(crate) fn precision_of(path: &Path<'_>, lower: &str) -> Option<NumberType> {
    let base = path.base().unwrap_or(lower);
    // cuDNN writes `f16` for any 16-bit format in the names of kernels that it generates.
    // MIOpen's transposes write `half` for any, too.
    if base.starts_with("cudnn_generated") || base.starts_with("batched_transpose_") {
        return None;
    }
    // `cutlass::Kernel2<cutlass_80_simt_sgemm_...>`: the argument is the name.
    let name =
        path.args.filter(|args| args.starts_with("cutlass_") && !args.contains(['<', ','])).unwrap_or(base);
    // The parameters of a template are no evidence: a quantized product takes its scales as
    // `float*`.
    let types = path.args.or(path.params);
    // What multiplies comes before what is stored: the epilogue of an 8-bit product has floats.
    let operands = from_library_name(name)
        .or_else(|| types.and_then(from_instruction))
        .or_else(|| types.and_then(|types| from_first_integer(path, types)));
    match operands {
        Some(Operands::Are(precision)) => Some(precision),
        Some(Operands::OfAnotherFormat) => None,
        None => types.and_then(from_types).or_else(|| from_blas_letter(name)).or_else(|| from_spelling(name)),
    }
}

/// What a name says that a product multiplies.
#[derive(Clone, Copy)]
enum Operands {
    Are(NumberType),
    /// A format without a [`NumberType`], such as 4-bit integers.
    OfAnotherFormat,
}

impl From<Option<NumberType>> for Operands {
    fn from(precision: Option<NumberType>) -> Operands {
        precision.map_or(Operands::OfAnotherFormat, Operands::Are)
    }
}

/// The type that an instruction in the template arguments multiplies.
fn from_instruction(args: &str) -> Option<Operands> {
    if let Some(found) = ARCH_MMA.captures(args) {
        let operand = found[1].trim_end();
        return Some(match operand {
            // A complex product: of what, the next argument says.
            "cutlass::complex" | "complex" => return None,
            "signed char" | "unsigned char" | "char" | "int8_t" | "uint8_t" => Operands::Are(Int8),
            _ => words(operand).last().and_then(|(word, _)| from_type(word)).into(),
        });
    }
    MMA_ATOM.captures(args).map(|found| from_token(&found[1]).into())
}

/// The operands of a product whose template names an integer type before any other: 8 bits are
/// what it multiplies, and Composable Kernel stores bfloat16 as `unsigned short`. Of other
/// integers, the floats behind do not tell.
fn from_first_integer(path: &Path<'_>, types: &str) -> Option<Operands> {
    let is_product = |text: &str| ["gemm", "mma", "conv"].iter().any(|word| text.contains(word));
    if !path.parts.iter().any(|part| is_product(part)) && !is_product(types) {
        return None;
    }
    let mut before = "";
    for (word, _) in words(types) {
        match (before, word) {
            ("signed" | "unsigned", "char") | (_, "int8_t" | "uint8_t") => return Some(Operands::Are(Int8)),
            ("unsigned", "short") => {
                return Some(path.parts.first().is_some_and(|first| *first == "ck").then_some(Bf16).into());
            }
            (_, "integer_subbyte" | "int4b_t" | "uint4b_t") => return Some(Operands::OfAnotherFormat),
            _ if from_type(word).is_some() => return None,
            _ => before = word,
        }
    }
    None
}

/// Names in which a library encodes the format of the operands by its own grammar; `None` where
/// the name is of no such grammar or does not say.
fn from_library_name(name: &str) -> Option<Operands> {
    if let Some(found) = TENSILE.captures(name) {
        return Some(Operands::Are(match &found[1] {
            _ if found.get(2).is_some() => Tf32,
            "h" => Fp16,
            "b" => Bf16,
            "d" | "z" => Fp64,
            "f8" | "b8" => Fp8,
            "i8" | "4xi8" => Int8,
            _ => Fp32,
        }));
    }
    if let Some(found) = MATMUL_OGS.captures(name) {
        return Some(from_token(&found[1]).into());
    }
    if let Some(found) = TRTLLM_BMM.captures(name) {
        let operands = [1, 2].into_iter().filter_map(|group| from_token(found.get(group)?.as_str()));
        // The order of precisions is from wide to narrow.
        return Some(operands.min().into());
    }
    if name.contains("igemm_int8") {
        return Some(Operands::Are(Int8));
    }
    from_known_grammar(name)
        .map(Operands::Are)
        .or_else(|| FOUR_BITS.is_match(name).then_some(Operands::OfAnotherFormat))
}

fn from_known_grammar(name: &str) -> Option<NumberType> {
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
        if &found[1] == "i" {
            return (&found[2] != "8832").then_some(Int8);
        }
        if let Some(precision) = from_token(behind).filter(|&p| p != Fp32) {
            return Some(precision);
        }
        if let Some(precision) = SPELLED.captures(name).and_then(|spelled| from_token(&spelled[1])) {
            return Some(if precision == Fp32 { Tf32 } else { precision });
        }
        return match (&found[1], &found[2]) {
            ("d", _) => Some(Fp64),
            ("h", _) | (_, "884" | "16816" | "161616") => Some(Fp16),
            ("s", "1688") => Some(Tf32),
            _ => None,
        };
    }
    if let Some(found) = TRTLLM_FMHA.captures(name) {
        return from_token(&found[1]);
    }
    TENSORFLOW.captures(name).and_then(|found| from_token(&found[1]))
}

fn from_blas_letter(name: &str) -> Option<NumberType> {
    // MIOpen's implicit products.
    if ["igemm_fwd", "igemm_bwd", "igemm_wrw"].iter().any(|start| name.starts_with(start)) {
        return None;
    }
    Some(match &BLAS.captures(name)?[1] {
        "d" | "z" => Fp64,
        "s" | "c" => Fp32,
        "h" => Fp16,
        _ => Int8,
    })
}

/// Names that simply spell a format out.
fn from_spelling(name: &str) -> Option<NumberType> {
    SPELLED.captures(name).and_then(|found| from_token(&found[1])).or_else(|| {
        let starts = ["fp8_", "fp4_"].iter().position(|start| name.starts_with(start))?;
        Some(if starts == 0 { Fp8 } else { Fp4 })
    })
}

/// The first floating-point type among template arguments or parameters.
fn from_types(text: &str) -> Option<NumberType> {
    words(text).find_map(|(word, _)| from_type(word))
}

fn from_type(word: &str) -> Option<NumberType> {
    Some(match word {
        "float" | "float2" | "float4" => Fp32,
        "double" | "double2" => Fp64,
        "half" | "half2" | "__half" | "__half2" | "half_t" | "_float16" => Fp16,
        "__nv_bfloat16" | "__nv_bfloat162" | "bfloat16" | "bfloat16_t" | "__hip_bfloat16"
        | "hip_bfloat16" | "__bf16" => Bf16,
        "tfloat32_t" => Tf32,
        "float8_e4m3fn"
        | "float8_e5m2"
        | "float_e4m3_t"
        | "float_e5m2_t"
        | "__nv_fp8_e4m3"
        | "__nv_fp8_e5m2"
        | "float8_e4m3fnuz"
        | "float8_e5m2fnuz"
        | "__hip_fp8_e4m3"
        | "__hip_fp8_e4m3_fnuz" => Fp8,
        "float_e2m1_t" | "nv_float4_t" | "mx_float4_t" | "__nv_fp4_e2m1" => Fp4,
        // `Ampere_hmma_tf32_traits` and `Volta_hmma_fp32_traits` of xmma: the second accumulates
        // FP16 products in FP32.
        _ if word.contains("_hmma_tf32") => Tf32,
        _ if word.contains("_hmma_") => Fp16,
        _ => return None,
    })
}

fn from_token(token: &str) -> Option<NumberType> {
    Some(match token {
        "f64" | "fp64" | "float64" | "double" => Fp64,
        "f32" | "fp32" | "float32" | "float" => Fp32,
        "tf32" => Tf32,
        "bf16" | "bfloat16" => Bf16,
        "f16" | "fp16" | "float16" | "half" => Fp16,
        "f8" | "fp8" | "mxfp8" | "e4m3" | "e5m2" => Fp8,
        "f4" | "fp4" | "nvfp4" | "mxfp4" | "e2m1" => Fp4,
        "i8" | "s8" | "u8" | "int8" => Int8,
        _ if token.starts_with('u') && token.ends_with("xf4") => Fp4,
        _ if token.starts_with('u') && token.ends_with("xf8") => Fp8,
        _ => return None,
    })
}
