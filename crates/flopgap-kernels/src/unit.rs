//! The units of the GPU that do a kernel's arithmetic, if its name shows them: tensor cores or
//! shader cores, and whether its half-precision instructions are arithmetic at all.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use crate::operation::words;
use crate::taxonomy::KernelClass::{
    self, Attention, Convolution, Copy, Gemv, Index, Layout, Matmul, Random, Recurrence, SplitKReduce,
};
use crate::taxonomy::{
    Library::{
        self, Aiter, ComposableKernel, Cublas, Cudnn, Cutlass, Deepseek, FlashAttention, Nccl, Pytorch,
        Sglang, Tensorrt, TransformerEngine, Unknown, Vllm,
    },
    NumberType::{self, Bf16, Fp4, Fp8, Fp16, Fp32, Fp64, Int8, Tf32},
};

/// A pattern constant of this module; all are compiled by the tests.
fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}

/// Words of a product that say where it is computed, in the lower-case name with template
/// arguments; first match wins.
const SAID: [(bool, &str); 6] = [
    // Launched along with a product: sums of partial results, schedules, transforms of filters and
    // data.
    (
        false,
        r"combine|prepare_|convert_?dq|bwd_?preprocess|bwd_?postprocess|merge_?(attn_)?state|dot_do_o|_sum$|_transpose$|winograd\w*(filter|data|output)|generate_?winograd|fft2d",
    ),
    (false, r"(^|_)simt(_|\b)|opclasssimt|mmasimt|_ffma(_|\b)"),
    // Tensile's matrix instruction. Its products without one run on the shader cores.
    (true, r"^(custom_)?cij[kl]*_a\w*_mi\d+x\d+x|xdlops|_xdl_|(^|_)mfma|^igemm_\w+_gtcx"),
    // Instructions (HMMA, WGMMA, tcgen05), CUTLASS's operator class, cuBLAS's and cuDNN's shapes,
    // and libraries that know no others.
    (
        true,
        r"nvjet|tensor_?op|tensor_?core|[hiqdb]mma|gmma|wmma|\bumma|tmaumma|tcgen05|(^|_|::)mma(_|\b)|tensor\d+x\d+x\d+|warpgroupsize|[shid](884|1688|16816|16832|161616|8816|8832|168128)(tf32)?(gemm|cudnn|fprop|dgrad|wgrad)|sm\d+_\d+x\d+x\d+_f|marlin|machete|kernel_mlp_fused|fmhasm\d",
    ),
    (true, r"\bflash_(fwd|bwd)(_splitkv|_dq_dk_dv|_kernel)|flashattn(fwd|bwd)sm|_flash_[fb]prop"),
    // BLAS letters without an instruction's shape. Complex types are products of real ones.
    // cuBLAS's `igemm` multiplies bytes with DP4A.
    (false, r"(^|_|::)g?[sdcz]gemm(_|\b)|_igemm_int8|[sd]cudnn(_|\b)"),
];

static SAID_SET: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(SAID.iter().map(|(_, pattern)| pattern)).expect("constant patterns compile")
});

/// Words of a product, which may be fused into a kernel of any class.
static PRODUCT: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"gemm|mat_?mul|(^|_|::)[bq]?mm(_|\b)|mma|(^|_)dot(_|\b)|attn|attention|mlp|ffn|(^|_)linear(_|\b)|lora|proj(_|\b)|gate_?up|conv([1-3]d|_|\b)",
    )
});

/// Words of layers that hold products, and the halves of a pass: Triton's users call anything
/// `_fwd_kernel`.
static LAYER: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"(^|_|::)m[hql]a(_|\b)|moe|expert|(^|_)(fwd|bwd|forward|backward)(_|\b)|chunk|lstm|gru|rnn")
});

/// Bare names of CUTLASS's launchers.
const LAUNCHERS: [&str; 3] = ["Kernel", "Kernel2", "device_kernel"];

/// PyTorch's memory-efficient attention: type and the oldest architecture that it was built for.
static FMHA: LazyLock<Regex> = LazyLock::new(|| compiled(r"\bfmha_cutlass[fb]_(f16|bf16|f32)_\w*?_sm(\d+)"));

/// `s16816gemm`, `h884cudnn`, `i16832gemm`; `tensor16x8x16`. (`s161616` is WMMA's fragment, which
/// takes two instructions.)
static INSTRUCTION: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?:^|_)[shid](884|1684|1688|16816|16832|16864|8816|8832|168128)(?:tf32)?(?:gemm|cudnn|fprop|dgrad|wgrad)|_tensor(\d+)x(\d+)x(\d+)(?:_|\b)",
    )
});

/// The instruction of a warp in a CUTLASS template, of version 2 (`arch::Mma<GemmShape<16, 8, 32>,
/// 32, ...>`) or 3 (`SM80_16x8x16_F32BF16BF16F32_TN`).
static TEMPLATE_INSTRUCTION: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"arch::mma<(?:cutlass::)?(?:gemm::)?gemmshape<(?:\(int\))?(8|16), ?(?:\(int\))?(\d+), ?(?:\(int\))?(\d+)>|\bsm(?:75|80|89|120)_(\d+)x(\d+)x(\d+)_[fs]\d",
    )
});

/// BLAS's letter for half precision, and what NCCL adds up.
static HALF: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"(^|_)h(gemm|gemv|axpy|dot|scal)(_|\b)|nccl\w*_(sum|prod|premulsum|sumpostdiv)_b?f16")
});

/// The inputs of the decision: class, library, precision and lower-case name with template
/// arguments.
pub(crate) struct Subject<'a> {
    pub(crate) class: KernelClass,
    pub(crate) library: Library,
    pub(crate) precision: Option<NumberType>,
    /// The name with its template arguments, without parameters.
    pub(crate) name: &'a str,
    /// The bare name, not in lower case.
    pub(crate) base: &'a str,
    /// The whole name.
    pub(crate) whole: &'a str,
}

impl Subject<'_> {
    /// See [`KernelInfo::tensor_cores`](crate::KernelInfo::tensor_cores).
    pub(crate) fn tensor_cores(&self) -> Option<bool> {
        let said = SAID_SET.matches(self.name).iter().next().map(|index| SAID[index].0);
        match self.class {
            Matmul | Attention | Convolution => {}
            // A user's kernel may be anything; it uses tensor cores if its name says so.
            KernelClass::Other | Recurrence => return said.filter(|&tensor| tensor),
            _ if self.holds_no_product() => return Some(false),
            _ => return said.filter(|&tensor| tensor),
        }
        if let Some(found) = FMHA.captures(self.name) {
            // 16 bits: from Volta on. 32 bits: since Ampere as three TF32 products.
            let architecture: u32 = found[2].parse().ok()?;
            return Some(architecture >= if &found[1] == "f32" { 80 } else { 70 });
        }
        said.or_else(|| self.by_precision())
    }

    /// Whether a kernel of a class that is no product holds none besides: one of a library whose
    /// kernels do one thing, or one whose name mentions no part of a layer. A user's
    /// `softmax_matmul` may be anything.
    fn holds_no_product(&self) -> bool {
        !matches!(self.library, Unknown | Vllm | Sglang | Aiter | ComposableKernel)
            || !PRODUCT.is_match(self.name)
    }

    /// See [`KernelInfo::may_multiply`](crate::KernelInfo::may_multiply).
    pub(crate) fn may_multiply(&self) -> bool {
        match self.class {
            Matmul | Attention | Convolution | Recurrence => true,
            KernelClass::Other => {
                // ncu's `--print-kernel-base function` leaves these of any CUTLASS product.
                LAUNCHERS.contains(&self.base) || PRODUCT.is_match(self.name) || LAYER.is_match(self.name)
            }
            _ => !self.holds_no_product(),
        }
    }

    /// Where the name says nothing else: the libraries compute narrow types on tensor cores only,
    /// and wide ones only with a name that says so.
    fn by_precision(&self) -> Option<bool> {
        let libraries = [Cublas, Cudnn, Cutlass, Deepseek, FlashAttention, Tensorrt, TransformerEngine]
            .contains(&self.library);
        match self.precision? {
            Tf32 | Fp8 | Fp4 => Some(true),
            Bf16 | Fp16 | Int8 => libraries.then_some(true),
            Fp32 | Fp64 => matches!(self.library, Cublas | Cudnn).then_some(false),
        }
    }

    /// See [`KernelInfo::instruction`](crate::KernelInfo::instruction).
    pub(crate) fn instruction(&self) -> Option<[u32; 3]> {
        if let Some(found) = TEMPLATE_INSTRUCTION.captures(self.name) {
            let size =
                |group: usize| found.get(group).or_else(|| found.get(group + 3))?.as_str().parse().ok();
            return Some([size(1)?, size(2)?, size(3)?]);
        }
        let found = INSTRUCTION.captures(self.name)?;
        let Some(spelled) = found.get(1) else {
            let size = |group: usize| found[group].parse().ok();
            return Some([size(2)?, size(3)?, size(4)?]);
        };
        Some(match spelled.as_str() {
            "884" => [8, 8, 4],
            "1684" => [16, 8, 4],
            "1688" => [16, 8, 8],
            "16816" => [16, 8, 16],
            "16832" => [16, 8, 32],
            "16864" => [16, 8, 64],
            "8816" => [8, 8, 16],
            "8832" => [8, 8, 32],
            _ => [16, 8, 128],
        })
    }

    /// See [`KernelInfo::half_arithmetic`](crate::KernelInfo::half_arithmetic).
    pub(crate) fn half_arithmetic(&self) -> Option<bool> {
        if HALF.is_match(self.whole) {
            return Some(true);
        }
        let mut types = words(self.whole);
        let (mut narrow, mut single) = (false, false);
        for (word, _) in types.by_ref() {
            narrow |= word.contains("half")
                || word.contains("bfloat16")
                || word.split('_').any(|part| matches!(part, "f16" | "bf16" | "fp16" | "float16"));
            single |= word == "float";
        }
        match (self.class, self.library) {
            // Movement and integers.
            (Copy | Layout | Index | Random, library) if library != Nccl => Some(false),
            // PyTorch computes 16-bit types in 32 bits (`opmath_type`): HADD widens its inputs
            // there.
            (class, Pytorch) if class != Attention => Some(false),
            // cuBLAS names the type that it computes in.
            (Gemv | SplitKReduce, Cublas) if single => Some(false),
            _ if !narrow && matches!(self.precision, Some(Fp32 | Fp64 | Tf32)) => Some(false),
            _ => None,
        }
    }
}
