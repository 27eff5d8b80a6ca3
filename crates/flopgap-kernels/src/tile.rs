//! The output tile in a name.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::taxonomy::Tile;

/// The spellings of a tile, first match wins; groups `m`, `n` and, where there is one, `k`.
/// Searched in the lower-case name with template arguments and without parameters.
const SPELLINGS: &[&str] = &[
    // nvjet_sm90_tst_128x160_64x5_...: M x N, then K x stages.
    r"\bnvjet_[a-z0-9_]*?_(?P<m>\d+)x(?P<n>\d+)(?:_(?P<k>\d+)x\d+)?_",
    // sm80_xmma_..._tilesize128x128x8_...
    r"_tilesize(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)",
    // cutlass3x_..._s64x256x32gemm_..._64x256x128_1x1x1_...: the instruction shape comes first,
    // inside a word.
    r"\bcutlass3x_\w*?_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_",
    // cudnn_generated_..._128x64x64_4x1x1_...: queries x keys x head dimension, then warps.
    r"\bcudnn_generated_\w*?_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_",
    // TensorRT-LLM: bmm_..._t128x8x512u2_...
    r"\bbmm_\w*?_t(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)",
    // ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_nn: K x stages.
    r"(?:gemm|cudnn)\w*?_(?P<m>\d+)x(?P<n>\d+)_\w*?_?stages_(?P<k>\d+)x\d+_",
    // Cijk_Alik_Bljk_BBS_BH_..._MT256x128x64_MI16x16x1_...: macro tile M x N x K.
    r"^(?:custom_)?cij[kl]*_a\w*?_mt(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_",
    // _matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1: the last is the number of slices.
    r"matmul_ogs_\w*?_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)x\d+",
    // cutlass_80_simt_sgemm_128x64_8x5_nt_align1: K x stages. Also
    // cutlass_tensorop_..._128x64_32x5_...
    r"\bcutlass_\w*?_(?P<m>\d+)x(?P<n>\d+)_(?P<k>\d+)x\d+",
    // ampere_sgemm_128x64_nn, volta_scudnn_128x64_relu_..., trt_turing_h1688cudnn_256x64_ldg8_...
    r"(?:gemm|cudnn)(?:_[a-z][a-z0-9]*)*?_(?P<m>\d+)x(?P<n>\d+)(?:_|$)",
    // fmha_cutlassF_f32_aligned_64x64_rf_sm80: queries x keys.
    r"\bfmha_cutlass[fb]_\w*?_(?P<m>\d+)x(?P<n>\d+)_",
    // Flash_fwd_kernel_traits<head dimension, queries, keys, warps, ...>
    r"\bflash_(?:fwd|bwd)_kernel_traits<(?:\(int\))?\d+, (?:\(int\))?(?P<m>\d+), (?:\(int\))?(?P<n>\d+),",
    // The threadblock shape is the first that a CUTLASS 2 kernel names.
    r"\bgemmshape<(?:\(int\))?(?P<m>\d+), ?(?:\(int\))?(?P<n>\d+), ?(?:\(int\))?(?P<k>\d+)>",
    // xmma's templates: Cta_tile<Ampere, 128, 128, 16, ...>
    r"\bcta_tile<[a-z_:]+(?:<int=\d+>)?, (?:int=)?(?P<m>\d+), (?:int=)?(?P<n>\d+), (?:int=)?(?P<k>\d+),",
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    // The patterns are constants, and the tests compile them.
    SPELLINGS.iter().map(|pattern| Regex::new(pattern).expect("a constant pattern compiles")).collect()
});

/// Three compile-time integers in a row, as CUTLASS 3 writes cluster and tile shapes.
static CUTE_SHAPE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"tuple<cute::c<(?:\(int\))?(\d+)>, ?cute::c<(?:\(int\))?(\d+)>, ?cute::c<(?:\(int\))?(\d+)> ?>",
    )
    .expect("a constant pattern compiles")
});

/// The tile of a lower-case name.
pub(crate) fn tile_of(name: &str) -> Option<Tile> {
    PATTERNS
        .iter()
        .find_map(|pattern| pattern.captures(name))
        .and_then(|found| named(&found))
        .or_else(|| cute(name))
}

fn named(found: &Captures<'_>) -> Option<Tile> {
    let number = |group| found.name(group)?.as_str().parse().ok();
    Some(Tile { m: number("m")?, n: number("n")?, k: number("k") })
}

/// CUTLASS 3: the cluster shape comes first, then the tile; a cluster has at most 16 blocks, a tile
/// at least 8 rows.
fn cute(name: &str) -> Option<Tile> {
    CUTE_SHAPE.captures_iter(name).find_map(|found| {
        let [m, n, k] = [1, 2, 3].map(|group| found[group].parse::<u32>().ok());
        let (m, n, k) = (m?, n?, k?);
        (m >= 8 && n >= 8 && k >= 8).then_some(Tile { m, n, k: Some(k) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spelling() {
        for (name, expected) in [
            ("nvjet_sm90_tst_128x160_64x5_2x1_v_bz_ntt", Some("128x160x64")),
            (
                "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_warpsize2x2x1",
                Some("128x128x8"),
            ),
            (
                "cutlass3x_sm100_tensorop_s64x256x32gemm_f8_f8_f32_f16_f16_64x256x128_1x1x1_0_tnn",
                Some("64x256x128"),
            ),
            ("bmm_e2m1_e2m1e2m1_fp32_ba16_bb16_bc16_t128x8x512_s5_et128x8", Some("128x8x512")),
            ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_nn", Some("128x64x32")),
            ("ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_relu_f2f_stages_64x5_tn", Some("64x64x64")),
            ("cutlass::kernel2<cutlass_80_simt_sgemm_128x64_8x5_nt_align1>", Some("128x64x8")),
            ("ampere_sgemm_32x32_sliced1x4_tn", Some("32x32")),
            ("volta_scudnn_128x64_relu_small_nn_v1", Some("128x64")),
            ("fmha_cutlassf_f32_aligned_64x64_rf_sm80", Some("64x64")),
            (
                "flash::flash_fwd_kernel<flash_fwd_kernel_traits<(int)64, (int)128, (int)64, (int)4>>",
                Some("128x64"),
            ),
            ("cutlass::kernel<cutlass::gemm::gemmshape<(int)128, (int)256, (int)32>>", Some("128x256x32")),
            (
                "f<cute::tuple<cute::c<2>, cute::c<1>, cute::c<1>>, cute::tuple<cute::c<128>,cute::c<64>,cute::c<64> >>",
                Some("128x64x64"),
            ),
            ("cublaslt::splitkreduce_kernel<32, 16, int, float>", None),
            ("ampere_sgemm_99999999999x64_nn", None),
        ] {
            assert_eq!(tile_of(name).map(|tile| tile.to_string()).as_deref(), expected, "{name}");
        }
    }
}
