//! The units of the GPU that do a kernel's arithmetic, if its name shows them: tensor cores or
//! shader cores, and whether its half-precision instructions are arithmetic at all.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use crate::operation::words;
use crate::taxonomy::KernelClass::{
    self, Attention, Convolution, Copy, Gemv, Index, Matmul, Random, SplitKReduce,
};
use crate::taxonomy::{
    Library::{
        self, Cublas, Cudnn, Cutlass, Deepseek, FlashAttention, Nccl, Pytorch, Tensorrt, TransformerEngine,
    },
    Precision::{self, Bf16, Fp4, Fp8, Fp16, Fp32, Fp64, Int8, Tf32},
};

/// A pattern constant of this module; all are compiled by the tests.
fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}

/// Words of a product that say where it is computed, in the lower-case name with template
/// arguments; first match wins.
const SAID: [(bool, &str); 5] = [
    // Launched along with a product: sums of partial results, schedules, transforms of filters and
    // data.
    (
        false,
        r"combine|prepare_|convert_dq|merge_?(attn_)?state|dot_do_o|_sum$|_transpose$|winograd\w*(filter|data|output)|generate_?winograd|fft2d",
    ),
    (false, r"(^|_)simt(_|\b)|opclasssimt|_ffma(_|\b)"),
    // Instructions (HMMA, WGMMA, tcgen05), CUTLASS's operator class, cuBLAS's and cuDNN's shapes,
    // and libraries that know no others.
    (
        true,
        r"nvjet|tensor_?op|tensor_?core|[hiqdb]mma|gmma|wmma|\bumma|tmaumma|tcgen05|(^|_|::)mma(_|\b)|tensor\d+x\d+x\d+|warpgroupsize|[shid](884|1688|16816|16832|161616|8816|8832|168128)(tf32)?(gemm|cudnn|fprop|dgrad|wgrad)|sm\d+_\d+x\d+x\d+_f|marlin|machete|kernel_mlp_fused|fmhasm\d",
    ),
    (true, r"\bflash_(fwd|bwd)(_splitkv|_dq_dk_dv|_kernel)|flashattn(fwd|bwd)sm|_flash_[fb]prop"),
    // BLAS letters without an instruction's shape. Complex types are products of real ones.
    (false, r"(^|_|::)[sdcz]gemm(_|\b)|[sd]cudnn(_|\b)"),
];

static SAID_SET: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(SAID.iter().map(|(_, pattern)| pattern)).expect("constant patterns compile")
});

/// PyTorch's memory-efficient attention: type and the oldest architecture that it was built for.
static FMHA: LazyLock<Regex> = LazyLock::new(|| compiled(r"\bfmha_cutlass[fb]_(f16|bf16|f32)_\w*?_sm(\d+)"));

/// `s16816gemm`, `h884cudnn`, `i16832gemm`; `tensor16x8x16`. (`s161616` is WMMA's fragment, which
/// takes two instructions.)
static INSTRUCTION: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?:^|_)[shid](884|1684|1688|16816|16832|16864|8816|8832|168128)(?:tf32)?(?:gemm|cudnn|fprop|dgrad|wgrad)|_tensor(\d+)x(\d+)x(\d+)(?:_|\b)",
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
    pub(crate) precision: Option<Precision>,
    /// The name with its template arguments, without parameters.
    pub(crate) name: &'a str,
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
            KernelClass::Other => return said.filter(|&tensor| tensor),
            _ => return Some(false),
        }
        if let Some(found) = FMHA.captures(self.name) {
            // 16 bits: from Volta on. 32 bits: since Ampere as three TF32 products.
            let architecture: u32 = found[2].parse().ok()?;
            return Some(architecture >= if &found[1] == "f32" { 80 } else { 70 });
        }
        said.or_else(|| self.by_precision())
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
            (Copy | Index | Random, library) if library != Nccl => Some(false),
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
