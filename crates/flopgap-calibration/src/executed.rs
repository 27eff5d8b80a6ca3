//! FLOPs that the kernels of a product execute, which are more than the product needs.
//!
//! A kernel multiplies whole tiles, including what lies beyond the edges of the matrix, and
//! counters count it. Where the tile, the split and the kernels of a product are recorded, the
//! count follows from them. Its form was read from the counters of an H200 (SM90) under cuBLASLt
//! 13.1; nothing is fitted. The splits of CUTLASS are those of its `GemmUniversal`: parts of `k` in
//! multiples of 16 bytes.

use flopgap_flops::{Activation, Precision};
use flopgap_graph::{Algorithm, Op, Step};

/// Kernels that multiply the tiles of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// cuBLAS' own for SM90: clusters of tiles, with splits of equal length.
    Nvjet,
    /// CUTLASS: partial sums are scaled as they are written; the last split is shorter.
    Cutlass,
    /// XMMA: splits of equal length.
    Xmma,
}

/// What runs after the multiplying kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    Nothing,
    /// Sums of the splits, with bias.
    Reduction,
    /// Integer sums to 8-bit integers.
    Requantization,
}

/// FLOPs that the recorded kernels of a product execute: multiply-adds over whole tiles, and the
/// operations on 32-bit floats that follow (scale, bias, sums of splits).
///
/// `None` for other operations, where tile or kernels are not recorded or not known, and where a
/// residual or an activation other than `ReLU` follows, as their instructions are not known.
pub fn executed_flops(step: &Step, precision: Precision, algorithm: &Algorithm) -> Option<u64> {
    let Op::Gemm(gemm) = &step.op else { return None };
    let epilogue = &step.epilogue;
    if epilogue.residual || !matches!(epilogue.activation, Activation::Identity | Activation::Relu) {
        return None;
    }
    let (kernel, others) = algorithm.kernels.split_first()?;
    let (family, tile_k) = parse(kernel)?;
    let follows = follows(others)?;
    let [tile_m, tile_n] = algorithm.tile?.map(u64::from);
    if tile_m == 0 || tile_n == 0 || gemm.k == 0 {
        return None;
    }
    let (down, across) = (gemm.m.div_ceil(tile_m), gemm.n.div_ceil(tile_n));
    let tiles = gemm.batch.checked_mul(down)?.checked_mul(across)?;
    let splits = splits(algorithm, family, kernel, tiles);

    // Blocks of a cluster start together: those beyond the edge multiply, but write nothing.
    let cluster = algorithm.cluster.filter(|_| family == Family::Nvjet).unwrap_or([1, 1]);
    let whole = |tiles: u64, blocks: u32| tiles.checked_next_multiple_of(u64::from(blocks.max(1)));
    let run = whole(down, cluster[0])?.checked_mul(whole(across, cluster[1])?)?.checked_mul(gemm.batch)?;
    let area = tile_m.checked_mul(tile_n)?;
    let inner = padded_k(gemm.k, tile_k, splits, (family, precision))?;
    let products = run.checked_mul(area)?.checked_mul(inner)?.checked_mul(2)?;

    let padded = tiles.checked_mul(area)?;
    let outputs = gemm.batch.checked_mul(gemm.m)?.checked_mul(gemm.n)?;
    let bias = u64::from(epilogue.bias);
    let sums = splits.checked_add(1 + bias)?;
    let after = match (follows, family) {
        (Follows::Requantization, _) => outputs.checked_mul(2)?,
        (Follows::Reduction, Family::Nvjet) => outputs.checked_mul(sums)?,
        (Follows::Reduction, Family::Cutlass) => {
            outputs.checked_mul(sums)?.checked_add(padded.checked_mul(splits)?)?
        }
        (Follows::Reduction, Family::Xmma) => padded.checked_mul(sums)?,
        (Follows::Nothing, Family::Nvjet) => {
            let scale = if precision == Precision::Int8 { 2 } else { 0 };
            padded.checked_mul(bias + scale)?
        }
        (Follows::Nothing, _) => padded.checked_mul(2)?,
    };
    products.checked_add(after)
}

/// FLOPs that the recorded kernels of all steps execute; `None` unless those of each are known.
pub(crate) fn executed_by_all(steps: &[Step], precision: Precision, algorithms: &[Algorithm]) -> Option<u64> {
    if steps.is_empty() || steps.len() != algorithms.len() {
        return None;
    }
    let mut all = steps.iter().zip(algorithms);
    all.try_fold(0_u64, |sum, (step, algorithm)| sum.checked_add(executed_flops(step, precision, algorithm)?))
}

/// The family of a kernel and its tile along `k`, from its name.
///
/// `nvjet_sm90_hsh_64x16_64x16_4x1_v_bz_TNT` has tiles of 64×16, 64 along `k` in 16 stages;
/// `cutlass_80_simt_sgemm_64x64_8x5_tn_align1` of 64×64, 8 along `k` in 5 stages;
/// `sm80_xmma_gemm fp32 tn 32x32x8` of 32×32, 8 along `k`.
fn parse(kernel: &str) -> Option<(Family, u64)> {
    if kernel.contains("_xmma_gemm ") {
        let sizes: Option<Vec<u64>> =
            kernel.rsplit(' ').next()?.split('x').map(|size| size.parse().ok()).collect();
        return match sizes?[..] {
            [_, _, k] if k > 0 => Some((Family::Xmma, k)),
            _ => None,
        };
    }
    let family = if kernel.starts_with("nvjet_") {
        Family::Nvjet
    } else if kernel.starts_with("cutlass_") {
        Family::Cutlass
    } else {
        return None;
    };
    let pair = |part: &str| {
        let (first, second) = part.split_once('x')?;
        Some((first.parse::<u64>().ok()?, second.parse::<u64>().ok()?))
    };
    let mut parts = kernel.split('_').skip_while(|part| pair(part).is_none());
    parts.next()?;
    let (k, _) = pair(parts.next()?)?;
    (k > 0).then_some((family, k))
}

fn follows(kernels: &[String]) -> Option<Follows> {
    let names: Vec<&str> = kernels.iter().map(String::as_str).collect();
    let sums = |name: &str| name == "splitKreduce_kernel" || name.ends_with(" split-K reduce");
    match names[..] {
        [] => Some(Follows::Nothing),
        ["requantize"] => Some(Follows::Requantization),
        [name] if sums(name) => Some(Follows::Reduction),
        [name, "requantize"] if sums(name) => Some(Follows::Requantization),
        _ => None,
    }
}

/// Splits that were launched. cuBLASLt starts fewer than it reports where `k` is short; its grid
/// shows how many.
fn splits(algorithm: &Algorithm, family: Family, kernel: &str, tiles: u64) -> u64 {
    let reported = u64::from(algorithm.split_k.unwrap_or(1).max(1));
    // Blocks of kernels for SM90 take one tile after the other: there, their number says nothing.
    if family == Family::Nvjet || kernel.starts_with("sm90") {
        return reported;
    }
    let blocks = algorithm.attributes.get("blocks").and_then(|&blocks| u64::try_from(blocks).ok());
    match blocks {
        Some(blocks) if tiles > 0 && blocks >= tiles && blocks.is_multiple_of(tiles) => {
            reported.min(blocks / tiles)
        }
        _ => reported,
    }
}

/// `k` with its padding, over all splits.
fn padded_k(k: u64, tile: u64, splits: u64, (family, precision): (Family, Precision)) -> Option<u64> {
    if family != Family::Cutlass || splits == 1 {
        return k.div_ceil(tile).div_ceil(splits).checked_mul(splits)?.checked_mul(tile);
    }
    let align = match precision {
        Precision::Int8 => 16,
        Precision::Fp16 | Precision::Bf16 => 8,
        _ => 4,
    };
    let part = k.div_ceil(splits).checked_next_multiple_of(align)?;
    let (whole, rest) = (k / part, k % part);
    let steps = whole.checked_mul(part.div_ceil(tile))?.checked_add(rest.div_ceil(tile))?;
    steps.checked_mul(tile)
}

#[cfg(test)]
mod tests {
    use flopgap_graph::Epilogue;
    use flopgap_graph::op::Gemm;

    use super::*;

    struct Case {
        sizes: [u64; 4],
        epilogue: (bool, Activation),
        precision: Precision,
        tile: [u32; 2],
        split_k: u32,
        cluster: Option<[u32; 2]>,
        blocks: i64,
        kernels: &'static [&'static str],
    }

    impl Case {
        fn step(&self) -> Step {
            let [batch, m, n, k] = self.sizes;
            let (bias, activation) = self.epilogue;
            let epilogue = Epilogue { bias, activation, ..Epilogue::default() };
            Step { op: Op::Gemm(Gemm { batch, m, n, k }), epilogue }
        }

        fn algorithm(&self) -> Algorithm {
            Algorithm {
                tile: Some(self.tile),
                split_k: Some(self.split_k),
                cluster: self.cluster,
                kernels: self.kernels.iter().map(|&name| name.to_owned()).collect(),
                attributes: [("blocks".to_owned(), self.blocks)].into(),
                ..Algorithm::default()
            }
        }

        fn executed(&self) -> Option<u64> {
            executed_flops(&self.step(), self.precision, &self.algorithm())
        }
    }

    const RELU: (bool, Activation) = (true, Activation::Relu);
    const NONE: (bool, Activation) = (false, Activation::Identity);

    /// Counted on an H200.
    fn cases() -> Vec<(Case, u64)> {
        let case = |sizes, epilogue, precision, (tile, split_k, cluster, blocks), kernels| Case {
            sizes,
            epilogue,
            precision,
            tile,
            split_k,
            cluster,
            blocks,
            kernels,
        };
        vec![
            (
                case(
                    [1, 16, 2048, 4096],
                    RELU,
                    Precision::Fp16,
                    ([16, 64], 3, Some([1, 4]), 96),
                    &["nvjet_sm90_hsh_64x16_64x16_4x1_v_bz_splitK_relubias_TNT", "splitKreduce_kernel"],
                ),
                276_987_904,
            ),
            (
                case(
                    [1, 128, 64, 2048],
                    (true, Activation::Identity),
                    Precision::Fp32,
                    ([64, 64], 32, None, 64),
                    &["cutlass_80_simt_sgemm_64x64_8x5_tn_align1", "splitKreduce_kernel"],
                ),
                34_095_104,
            ),
            (
                case(
                    [1, 64, 768, 1000],
                    RELU,
                    Precision::Fp32,
                    ([32, 32], 8, None, 384),
                    &["sm80_xmma_gemm fp32 tn 32x32x8", "sm80_xmma_gemm fp32 tn 32x32x8 split-K reduce"],
                ),
                101_154_816,
            ),
            (
                case(
                    [69, 1, 80, 2048],
                    NONE,
                    Precision::Bf16,
                    ([8, 128], 1, Some([1, 1]), 69),
                    &["nvjet_sm90_tst_128x8_64x12_1x1_h_bz_TNT"],
                ),
                289_406_976,
            ),
            (
                case(
                    [1, 64, 768, 64],
                    RELU,
                    Precision::Int8,
                    ([8, 64], 1, Some([4, 2]), 96),
                    &["nvjet_sm90_bsb_64x8_128x16_2x4_h_bz_relubias_TNT"],
                ),
                12_730_368,
            ),
            // A cluster of 4 where 69 tiles are.
            (
                case(
                    [1, 3, 4400, 5312],
                    NONE,
                    Precision::Int8,
                    ([8, 64], 1, Some([1, 4]), 72),
                    &["nvjet_sm90_bsb_64x8_128x16_4x1_v_bz_TNT"],
                ),
                396_432_384,
            ),
            // Splits of 76, the last of 56.
            (
                case(
                    [1, 2, 192, 588],
                    RELU,
                    Precision::Tf32,
                    ([64, 64], 8, None, 32),
                    &["cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4", "splitKreduce_kernel"],
                ),
                15_437_568,
            ),
        ]
    }

    #[test]
    fn counters_see_whole_tiles() {
        for (case, counted) in cases() {
            assert_eq!(case.executed(), Some(counted), "{:?} {:?}", case.sizes, case.kernels);
        }
    }

    #[test]
    fn splits_that_were_not_launched_do_nothing() {
        let kernels: &[&str] = &["cutlass_80_simt_sgemm_64x64_8x5_tn_align1", "splitKreduce_kernel"];
        let (mut case, counted) = cases().swap_remove(1);
        assert_eq!((case.kernels, case.blocks), (kernels, 64));
        case.split_k = 132;
        assert_eq!(case.executed(), Some(counted));
    }

    #[test]
    fn what_is_not_known_has_no_estimate() {
        let (known, _) = cases().swap_remove(3);
        let algorithm = known.algorithm();
        let of = |step: &Step, algorithm: &Algorithm| executed_flops(step, known.precision, algorithm);
        assert!(of(&known.step(), &algorithm).is_some());
        for kernels in [&["gemvx::kernel"][..], &[], &["nvjet_sm90_tst"], &["nvjet_sm90_tst_1x1_0x1_v"]] {
            let kernels = kernels.iter().map(|&name| name.to_owned()).collect();
            let unknown = Algorithm { kernels, ..algorithm.clone() };
            assert_eq!(of(&known.step(), &unknown), None, "{unknown:?}");
        }
        let mut with_unary = algorithm.clone();
        with_unary.kernels.push("unary".to_owned());
        assert_eq!(of(&known.step(), &with_unary), None);
        assert_eq!(of(&known.step(), &Algorithm { tile: None, ..algorithm.clone() }), None);
        assert_eq!(of(&known.step(), &Algorithm { tile: Some([0, 8]), ..algorithm.clone() }), None);
        let mut gelu = known.step();
        gelu.epilogue.activation = Activation::Gelu;
        assert_eq!(of(&gelu, &algorithm), None);
        let huge = Step { op: Op::Gemm(Gemm { batch: u64::MAX, m: 9, n: 9, k: 9 }), ..known.step() };
        assert_eq!(of(&huge, &algorithm), None);
    }
}
