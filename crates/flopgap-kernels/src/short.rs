//! A name that fits in a table.

use std::sync::LazyLock;

use regex::Regex;

use crate::path::Path;
use crate::taxonomy::{NumberType, Tile};

/// Base names that are meaningless alone, so the namespace is added (`gemvx::kernel`).
const EMPTY: [&str; 6] = ["kernel", "Kernel", "Kernel2", "device_kernel", "globalKernel", "run"];

/// `sm80_xmma_gemm`, `sm80_xmma_fprop_implicit_gemm_indexed`: what precedes the types.
static XMMA: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^(sm\d+_xmma_[a-z_]*?)_(?:f16|bf16|f32|tf32|f64|e4m3|e5m2|i8){2}_\w+?_(?:(nn|nt|tn|tt)_|tilesize)",
    )
    .expect("a constant pattern compiles")
});

/// `Cijk_Alik_Bljk`: which operands Tensile reads transposed; types, tile and some hundred
/// characters of tuning follow.
static TENSILE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^((?:Custom_)?Cij[kl]*_A[i-n]+_B[i-n]+)_").expect("a constant pattern compiles")
});

/// The display name. The rules are documented at [`crate::KernelInfo::short`].
pub(crate) fn short_of(
    base: &str,
    path: &Path<'_>,
    operation: Option<&str>,
    precision: Option<NumberType>,
    tile: Option<Tile>,
) -> String {
    if let Some(found) = XMMA.captures(base) {
        let mut short = found[1].to_owned();
        let layout = found.get(2).map(|layout| layout.as_str().to_owned());
        let parts = [precision.map(|p| p.to_string()), layout, tile.map(|t| t.to_string())];
        for part in parts.into_iter().flatten() {
            short.push(' ');
            short.push_str(&part);
        }
        if base.contains("execute_split_k_kernel") {
            short.push_str(" split-K reduce");
        }
        return short;
    }
    if let Some(found) = TENSILE.captures(base) {
        let parts = [precision.map(|p| p.to_string()), tile.map(|t| t.to_string())];
        return parts.into_iter().flatten().fold(found[1].to_owned(), |short, part| short + " " + &part);
    }
    match operation {
        Some(name) if name.starts_with("cutlass") => name.to_owned(),
        Some(name) => format!("{base} [{name}]"),
        None if EMPTY.contains(&base) && path.parts.len() > 1 => {
            format!("{}::{base}", path.parts[path.parts.len() - 2])
        }
        None => base.to_owned(),
    }
}
