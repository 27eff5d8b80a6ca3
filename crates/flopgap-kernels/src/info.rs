//! Reads a name.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::library::library_of;
use crate::normalize::normalize;
use crate::operation::{operation, wrapped};
use crate::path::{Path, base_of, memory_operation, resolve};
use crate::precision::precision_of;
use crate::rules::class_of;
use crate::short::short_of;
use crate::taxonomy::{KernelClass, Library, NumberType, Tile};
use crate::tile::tile_of;
use crate::unit::Subject;

/// The information in a kernel's name.
///
/// Only the name is read. What it does not say is `None` (or [`KernelClass::Other`],
/// [`Library::Unknown`]); nothing is guessed from what usually goes with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KernelInfo {
    /// The kind of work.
    pub class: KernelClass,
    /// Who wrote the kernel.
    pub library: Library,
    /// The number format it computes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<NumberType>,
    /// The output tile of one thread block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tile: Option<Tile>,
    /// Whether it multiplies on the tensor cores: `true` where the name proves it, `false` where it
    /// excludes it. `None` if the name does not say: users' own products, Triton's and XLA's. What
    /// [may multiply](Self::may_multiply) may then use them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor_cores: Option<bool>,
    /// Rows, columns and depth (m, n, k) of one tensor-core instruction of a warp, where the name
    /// has them: `s16816gemm`, `tensor16x8x16`. One such instruction is 2 m n k operations.
    /// Hopper's instructions of four warps and Blackwell's of a whole block have sizes that no name
    /// gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<[u32; 3]>,
    /// Whether it may hold a product: a product, attention, convolution or recurrence, or a name
    /// such as `_fwd_kernel` that leaves it open. Where the tensor cores are neither proven nor
    /// excluded, only counters tell whether such a kernel used them; another kernel with an unknown
    /// answer has a name that says nothing at all.
    pub may_multiply: bool,
    /// Whether half-precision instructions of the shader cores (HADD, HMUL, HFMA) are arithmetic of
    /// this kernel. Compilers also load constants with HFMA and widen 16-bit values with HADD:
    /// `Some(false)` where the kernel computes in another type or not at all, `None` where the name
    /// does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_arithmetic: Option<bool>,
    /// The bare name, by which launches of two recordings are compared; see
    /// [`base_name`](crate::base_name).
    pub base: String,
    /// A display name, the same for every spelling of one kernel:
    ///
    /// - a generic kernel shows its operation: `vectorized_elementwise_kernel [sigmoid]`,
    ///   `reduce_kernel [sum]`;
    /// - a launcher of a CUTLASS kernel shows that kernel:
    ///   `cutlass_80_simt_sgemm_128x64_8x5_nt_align1`; of another class, that class: `device_kernel
    ///   [FlashAttnFwdSm90]`;
    /// - cuBLAS's and cuDNN's xmma names keep architecture, operation, precision, layout, tile and
    ///   split-K: `sm80_xmma_gemm fp32 nn 128x128x8 split-K`;
    /// - Tensile's names keep operands, precision and tile: `Cijk_Alik_Bljk bf16 256x128x64`;
    /// - a name that says nothing takes its namespace along: `gemvx::kernel`;
    /// - every other kernel shows its [`base`](Self::base).
    ///
    /// Kernels that differ only in types or template sizes may share one display name.
    pub short: String,
}

/// Read a kernel's name: demangled or mangled (`_Z...`), as any profiler spells it.
///
/// Accepts any text. Takes some tens of microseconds; [`Classifier`](crate::Classifier) remembers
/// the answers.
///
/// ```
/// use flopgap_kernels::{KernelClass, Library, NumberType, classify};
///
/// let info = classify("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nt_align1>(T1::Params)");
/// assert_eq!(info.class, KernelClass::Matmul);
/// assert_eq!(info.library, Library::Cutlass);
/// assert_eq!(info.precision, Some(NumberType::Fp32));
/// assert_eq!(info.tile.unwrap().to_string(), "128x64x8");
/// ```
pub fn classify(name: &str) -> KernelInfo {
    let text = normalize(name);
    let path = Path::parse(&text);
    let operation = operation(&path);
    let lower = text.to_ascii_lowercase();
    let lower_path = Path::parse(&lower);
    let subject = subject(&text, &path, operation.as_deref());
    let precision = precision_of(&lower_path, &lower);
    let with_args = subject_with_args(&lower_path, &lower);
    let tile = tile_of(&with_args);
    let (class, library) = (class_of(&subject), library_of(&subject, &lower));
    let base = resolve(Cow::Borrowed(base_of(&text))).into_owned();
    let unit = Subject { class, library, precision, name: &with_args, base: &base, whole: &lower };
    let short = short_of(&base, &path, operation.as_deref(), precision, tile);
    let (tensor_cores, instruction) = (unit.tensor_cores(), unit.instruction());
    let (may_multiply, half_arithmetic) = (unit.may_multiply(), unit.half_arithmetic());
    KernelInfo {
        class,
        library,
        precision,
        tile,
        tensor_cores,
        instruction,
        may_multiply,
        half_arithmetic,
        base,
        short,
    }
}

/// The text that the rules match; see [`crate::rules`].
fn subject(text: &str, path: &Path<'_>, operation: Option<&str>) -> String {
    if memory_operation(text).is_some() || path.parts.is_empty() {
        return text.to_ascii_lowercase();
    }
    let mut subject = path.parts.join("::");
    if let Some(operation) = operation {
        subject.push_str(" [");
        subject.push_str(operation);
        subject.push(']');
    }
    if let Some(args) = wrapped(path) {
        subject.push_str(" <");
        subject.push_str(args);
        subject.push('>');
    }
    subject.make_ascii_lowercase();
    subject
}

/// The name with its template arguments and without parameters.
fn subject_with_args(path: &Path<'_>, lower: &str) -> String {
    match (path.parts.is_empty(), path.args) {
        (true, _) => lower.to_owned(),
        (false, None) => path.parts.join("::"),
        (false, Some(args)) => format!("{}<{args}>", path.parts.join("::")),
    }
}

/// The subject of a raw name, for the tests of the tables.
#[cfg(test)]
pub(crate) fn subject_of(name: &str) -> String {
    let text = normalize(name);
    let path = Path::parse(&text);
    subject(&text, &path, operation(&path).as_deref())
}
