//! What measured work needs at least, and how much of its time that is.

use std::collections::BTreeMap;

use flopgap_flops::ElementType;
use flopgap_flops::torch::{OperatorKind, OperatorWork};
use flopgap_kernels::{KernelClass, KernelInfo, Library, NumberType, Tile};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Part};
use crate::parts::Share;
use crate::peaks::Peaks;

/// What the measured work needs at least, by the definitions of the operators that launched it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// The peaks of the GPU: those of [`Options::peaks`](crate::Options::peaks) where they are of
    /// this GPU, or of its data sheet; absent where that is not known here, and of GPUs of several
    /// kinds.
    pub peaks: Option<Peaks>,
    /// FLOPs of products, convolutions and attention by the type of their factors, of all measured
    /// steps.
    pub flops: Vec<TypeFlops>,
    /// The share of the time of their kernels for which sizes are recorded: 1 where FLOPs are
    /// complete.
    pub covered: f64,
    /// Model FLOPs utilization: the time that the FLOPs of the model need at the peaks of their
    /// types, as a fraction of the measured time. Absent without peaks, and where nothing
    /// multiplies.
    pub mfu: Option<f64>,
    /// Hardware FLOPs utilization: the same with FLOPs that are done again.
    pub hfu: Option<f64>,
    /// The time of kernels beside what they need.
    pub parts: Vec<FloorPart>,
}

/// FLOPs of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeFlops {
    /// The type of the factors.
    pub number: NumberType,
    /// FLOPs of the model.
    pub model: u64,
    /// FLOPs that are done again because their results are not kept.
    pub repeated: u64,
}

/// The time of kernels of one cause beside what they need, in nanoseconds of all measured steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorPart {
    /// What the time is spent on.
    pub cause: Cause,
    /// The time of its kernels.
    pub ns: i64,
    /// The time of those whose need is known.
    pub known_ns: i64,
    /// What these need at least: FLOPs at the peak of their type, or bytes at the bandwidth of the
    /// memory, whichever takes longer. Where caches were faster, the time that was measured.
    pub floor_ns: i64,
    /// What FLOPs that are done again need, likewise.
    pub repeated_ns: i64,
    /// What kernels compute at least beyond that: the padding of tiles at the peak of their type,
    /// as far as it takes longer than the bytes, and the reductions of split-K.
    #[serde(default)]
    pub executed_ns: i64,
}

impl FloorPart {
    /// The time beyond what these kernels need, do again, and compute beyond their definitions.
    pub const fn above_ns(&self) -> i64 {
        self.known_ns - self.floor_ns - self.repeated_ns - self.executed_ns
    }
}

/// A bar of the way from a measured step to what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bar {
    /// What the definitions of operators need at the peaks.
    Needed,
    /// What is done again.
    Repeated,
    /// What kernels compute beyond definitions, where that is known: padding of tiles, reductions
    /// of split-K.
    Executed,
    /// Kernels beyond what they need.
    AboveFloor,
    /// Kernels whose need is not known.
    FloorUnknown,
    /// Communication and copies that nothing hides.
    Exposed,
    /// The GPU does nothing.
    Idle,
}

impl Bar {
    /// The bar in words, for a table or a sentence.
    pub const fn in_words(self) -> &'static str {
        match self {
            Bar::Needed => "needed at the GPU's peaks",
            Bar::Repeated => "done again instead of kept",
            Bar::Executed => "padding and split-K",
            Bar::AboveFloor => "above the floor",
            Bar::FloorUnknown => "floor unknown",
            Bar::Exposed => "exposed",
            Bar::Idle => "idle",
        }
    }
}

/// The bars of some parts, from need to waste; they add up to the parts.
pub(crate) fn waterfall(parts: &[Share], floor: Option<&Floor>) -> Vec<(Bar, i64)> {
    let of = |part: Part| parts.iter().filter(|own| own.part == part).map(|own| own.ns).sum::<i64>();
    let known = floor.filter(|floor| floor.peaks.is_some()).map_or(&[][..], |floor| &floor.parts);
    let sum = |ns: fn(&FloorPart) -> i64| known.iter().map(ns).sum::<i64>();
    let (needed, repeated) = (sum(|part| part.floor_ns), sum(|part| part.repeated_ns));
    let executed = sum(|part| part.executed_ns);
    let (known, above) = (sum(|part| part.known_ns), sum(FloorPart::above_ns));
    let bars = [
        (Bar::Needed, needed),
        (Bar::Repeated, repeated),
        (Bar::Executed, executed),
        (Bar::AboveFloor, above),
        (Bar::FloorUnknown, of(Part::Busy) - known),
        (Bar::Exposed, of(Part::Exposed)),
        (Bar::Idle, of(Part::Idle)),
    ];
    bars.into_iter().filter(|(_, ns)| *ns != 0).collect()
}

/// An operator, and what it launched in measured time.
#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    /// How often: once, or with each replay of the graph that it was captured in.
    times: u64,
    /// The launch of the last such replay.
    replay: Option<u32>,
    /// Its work is done again.
    is_repeated: bool,
    /// With what its kernels multiply, by their names.
    number: Option<NumberType>,
    /// Bytes of an element of its lists of tensors, by the names of its kernels.
    element_bytes: Option<u64>,
    tiles: Tiles,
}

/// The tiles in which the kernels of an operator multiply, by their names.
#[derive(Clone, Copy, Debug, Default)]
enum Tiles {
    /// None multiplies.
    #[default]
    None,
    /// All in one.
    One(Tile),
    /// In several, or a name does not say it.
    Unknown,
}

/// Collects what ran by operator.
#[derive(Debug)]
pub(crate) struct Floors {
    owners: Vec<Owner>,
    /// The time that counts, by operator and cause, and whether it is a reduction of split-K.
    ns: FxHashMap<(u32, Cause, bool), i64>,
}

impl Floors {
    /// For so many operators.
    pub(crate) fn new(operators: usize) -> Floors {
        Floors { owners: vec![Owner::default(); operators], ns: FxHashMap::default() }
    }

    /// An operator has a kernel in measured time.
    pub(crate) fn launched(
        &mut self,
        owner: u32,
        kernel: Option<&KernelInfo>,
        is_repeated: bool,
        replay: Option<u32>,
    ) {
        let Some(owner) = self.owners.get_mut(owner as usize) else { return };
        if owner.times == 0 || owner.replay != replay {
            owner.times += 1;
            owner.replay = replay;
        }
        owner.is_repeated |= is_repeated;
        if let Some(number) = kernel.and_then(multiplies) {
            // The fastest: no floor is too high.
            owner.number = owner.number.max(Some(number));
        }
        if let Some(kernel) = kernel.filter(|kernel| kernel.class == KernelClass::Matmul) {
            owner.tiles = match (owner.tiles, tile(kernel)) {
                (Tiles::None, Some(tile)) => Tiles::One(tile),
                (Tiles::One(known), Some(tile)) if known == tile => Tiles::One(tile),
                _ => Tiles::Unknown,
            };
        }
        if let Some(bytes) = kernel.and_then(element_bytes) {
            owner.element_bytes = Some(owner.element_bytes.map_or(bytes, |known| known.min(bytes)));
        }
    }

    /// A kernel of an operator takes time that counts.
    pub(crate) fn ran(&mut self, owner: u32, cause: Cause, kernel: Option<&KernelInfo>, ns: i64) {
        let is_reduction = kernel.is_some_and(|kernel| kernel.class == KernelClass::SplitKReduce);
        *self.ns.entry((owner, cause, is_reduction)).or_default() += ns;
    }

    /// The floor of all that ran; none where nothing is known of any operator.
    pub(crate) fn floor(
        self,
        works: &[(usize, OperatorWork)],
        peaks: Option<Peaks>,
        parts: &[Share],
    ) -> Option<Floor> {
        if works.is_empty() {
            return None;
        }
        let mut flops: BTreeMap<NumberType, (u64, u64)> = BTreeMap::new();
        // What each operator needs, what it does again, and its padding, where that is known.
        let mut needs: Vec<Option<[f64; 3]>> = Vec::with_capacity(works.len());
        for ((_, work), owner) in works.iter().zip(&self.owners) {
            let number = match work.element {
                Some(element) => Some(number(element, owner.number, peaks.as_ref())),
                None => owner.number.filter(|_| work.kind != OperatorKind::Memory),
            };
            if let Some(number) = number.filter(|_| owner.times > 0) {
                let sums = flops.entry(number).or_default();
                let (model, repeated) =
                    if owner.is_repeated { (0, work.flops) } else { (work.flops, work.repeated_flops) };
                sums.0 = sums.0.saturating_add(model.saturating_mul(owner.times));
                sums.1 = sums.1.saturating_add(repeated.saturating_mul(owner.times));
            }
            let bytes = match work.elements {
                0 => Some(work.bytes),
                elements => {
                    let each = number.map_or(owner.element_bytes, bytes);
                    each.map(|each| work.bytes.saturating_add(elements.saturating_mul(each)))
                }
            };
            // What began before measured time counts once, too.
            let times = owner.times.max(1) as f64;
            let need = |bytes| need(work, bytes, number, owner, peaks.as_ref()).map(|ns| ns * times);
            needs.push(bytes.map(need));
        }
        let mut by_owner: BTreeMap<u32, Vec<(Cause, i64)>> = BTreeMap::new();
        let mut known: BTreeMap<Cause, [i64; 4]> = BTreeMap::new();
        for ((owner, cause, is_reduction), ns) in self.ns {
            if !is_reduction {
                by_owner.entry(owner).or_default().push((cause, ns));
            } else if needs[owner as usize].is_some() {
                // No definition has it.
                let sums = known.entry(cause).or_default();
                sums[0] += ns;
                sums[3] += ns;
            }
        }
        for (owner, mut causes) in by_owner {
            let Some(mut left) = needs[owner as usize] else { continue };
            // What an operator needs is that of its main kernels first.
            causes.sort_by_key(|(cause, ns)| (std::cmp::Reverse(*ns), *cause));
            for (cause, ns) in causes {
                let sums = known.entry(cause).or_default();
                sums[0] += ns;
                let mut free = ns;
                for (left, sum) in left.iter_mut().zip(&mut sums[1..]) {
                    #[expect(clippy::cast_possible_truncation, reason = "at most the time measured")]
                    let own = left.min(free as f64) as i64;
                    *sum += own;
                    *left -= own as f64;
                    free -= own;
                }
            }
        }
        let flops: Vec<TypeFlops> = flops
            .into_iter()
            .filter(|(_, (model, repeated))| model + repeated > 0)
            .map(|(number, (model, repeated))| TypeFlops { number, model, repeated })
            .collect();
        let floor_parts: Vec<FloorPart> = parts
            .iter()
            .filter(|part| part.part == Part::Busy)
            .map(|part| {
                let known = known.get(&part.cause).copied().unwrap_or_default();
                let [known_ns, floor_ns, repeated_ns, executed_ns] = known;
                FloorPart { cause: part.cause, ns: part.ns, known_ns, floor_ns, repeated_ns, executed_ns }
            })
            .collect();
        let multiplying = floor_parts.iter().filter(|part| multiplies_by_class(part.cause));
        let (all, with_sizes) =
            multiplying.fold((0, 0), |(all, known), part| (all + part.ns, known + part.known_ns));
        let total: i64 = parts.iter().map(|part| part.ns).sum();
        let utilization = |flops_of: fn(&TypeFlops) -> u64| {
            let peaks = peaks.as_ref().filter(|_| !flops.is_empty())?;
            let seconds: Option<f64> =
                flops.iter().map(|own| Some(flops_of(own) as f64 / peaks.peak(own.number)?)).sum();
            Some(seconds? / (total.max(1) as f64 / 1e9))
        };
        let mfu = utilization(|own| own.model);
        let hfu = utilization(|own| own.model.saturating_add(own.repeated));
        let covered = if all == 0 { 1.0 } else { with_sizes as f64 / all as f64 };
        Some(Floor { mfu, hfu, flops, covered, parts: floor_parts, peaks })
    }
}

/// The nanoseconds that an operator needs, those of what it does again, and those of its padding.
fn need(
    work: &OperatorWork,
    bytes: u64,
    number: Option<NumberType>,
    owner: &Owner,
    peaks: Option<&Peaks>,
) -> [f64; 3] {
    let Some(peaks) = peaks else { return [0.0; 3] };
    let peak = number.and_then(|number| peaks.peak(number));
    let computing = |flops: u64| peak.map_or(0.0, |peak| flops as f64 / peak * 1e9);
    let moving = bytes as f64 / peaks.bytes * 1e9;
    let own = computing(work.flops).max(moving);
    let again = computing(work.repeated_flops);
    let padded = match (owner.tiles, work.result) {
        (Tiles::One(tile), Some(result)) if work.kind != OperatorKind::Attention => {
            (computing(work.flops) * padding(tile, result)).max(moving)
        }
        _ => own,
    };
    if owner.is_repeated { [0.0, own + again, padded - own] } else { [own, again, padded - own] }
}

/// How many times as much whole tiles have at least as a result of these rows and columns. Which of
/// the two a tile's first extent is along depends on the layout: the less counts.
fn padding(tile: Tile, [rows, columns]: [u32; 2]) -> f64 {
    let along = |size: u32, tile: u32| {
        let tiles = u64::from(size).div_ceil(u64::from(tile.max(1)));
        (tiles * u64::from(tile)) as f64 / f64::from(size.max(1))
    };
    let one = along(rows, tile.m) * along(columns, tile.n);
    one.min(along(rows, tile.n) * along(columns, tile.m)).max(1.0)
}

/// The tile of a product, where a block of the kernel's library computes it whole also at an edge
/// of the result.
fn tile(kernel: &KernelInfo) -> Option<Tile> {
    kernel.tile.filter(|_| matches!(kernel.library, Library::Cublas | Library::Cutlass))
}

/// Bytes of an element of the lists of tensors that a kernel works on, by its name.
fn element_bytes(kernel: &KernelInfo) -> Option<u64> {
    // Other kernels' types may be those that they compute in.
    bytes(kernel.precision.filter(|_| kernel.base == "multi_tensor_apply_kernel")?)
}

/// Bytes of an element; none of a fraction of one.
const fn bytes(number: NumberType) -> Option<u64> {
    match number {
        NumberType::Fp64 => Some(8),
        NumberType::Fp32 | NumberType::Tf32 => Some(4),
        NumberType::Bf16 | NumberType::Fp16 => Some(2),
        NumberType::Fp8 | NumberType::Int8 => Some(1),
        NumberType::Fp4 => None,
    }
}

/// With what a kernel multiplies, by its name.
fn multiplies(kernel: &KernelInfo) -> Option<NumberType> {
    use KernelClass::{Attention, Convolution, Gemv, Matmul};
    if !matches!(kernel.class, Matmul | Gemv | Convolution | Attention) {
        return None;
    }
    match (kernel.precision?, kernel.tensor_cores) {
        (NumberType::Fp32, Some(true)) => Some(NumberType::Tf32),
        // Where the name does not say it, both are possible.
        (NumberType::Fp32, None) => None,
        (number, _) => Some(number),
    }
}

/// The type at whose peak an operator multiplies.
fn number(element: ElementType, kernels: Option<NumberType>, peaks: Option<&Peaks>) -> NumberType {
    match element {
        ElementType::Fp32 => match kernels {
            Some(number @ (NumberType::Fp32 | NumberType::Tf32)) => number,
            // The faster of the two that the GPU has.
            _ if peaks.is_some_and(|peaks| peaks.peak(NumberType::Tf32).is_none()) => NumberType::Fp32,
            _ => NumberType::Tf32,
        },
        ElementType::Fp64 => NumberType::Fp64,
        ElementType::Fp16 => NumberType::Fp16,
        ElementType::Bf16 => NumberType::Bf16,
        ElementType::Fp8 => NumberType::Fp8,
        ElementType::Int8 => NumberType::Int8,
    }
}

/// Whether kernels of a cause multiply, or may do so.
const fn multiplies_by_class(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::TensorCores
            | Cause::CudaCores
            | Cause::Matmul
            | Cause::Convolution
            | Cause::Attention
            | Cause::Recurrence
            | Cause::WholeGraph
    )
}

#[cfg(test)]
mod tests {
    use flopgap_kernels::classify;

    use super::*;

    /// Against counting the elements of all tiles that have any of the result.
    #[test]
    fn padding_is_what_whole_tiles_have_more() {
        let counted = |tile: [u32; 2], result: [u32; 2]| {
            let along = |size: u32, tile: u32| (0..size).step_by(tile as usize).map(|_| tile).sum::<u32>();
            f64::from(along(result[0], tile[0]) * along(result[1], tile[1]))
                / f64::from(result[0] * result[1])
        };
        for (m, n) in [(128, 64), (256, 128), (64, 48), (320, 128)] {
            for result in [[128, 64], [1, 1], [129, 65], [1000, 1000], [64, 320], [511, 2049]] {
                let least = counted([m, n], result).min(counted([n, m], result));
                let found = padding(Tile { m, n, k: None }, result);
                assert!((found - least).abs() < 1e-12, "{m}x{n} {result:?}: {found} {least}");
            }
        }
    }

    /// Products of 512 x 512 x 512 on an H200 by the counters of `fixtures/ncu/h200_gemms_raw.csv`:
    /// blocks of a cluster have tiles beyond the result, so that more is counted than whole tiles
    /// have.
    #[test]
    fn no_more_padding_than_counters_say() {
        for (name, counted) in [
            ("nvjet_sm90_tst_64x48_64x15_2x4_h_bz_NNT", 301_989_888.0),
            (
                "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align4>(T1::Params)",
                268_435_456.0,
            ),
            (
                "sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize32x64x32_stage3_warpsize2x2x1_tensor16x8x16_execute_kernel__5x_cublas",
                268_435_456.0,
            ),
        ] {
            let tile = tile(&classify(name)).unwrap();
            let least = 2.0 * 512.0_f64.powi(3) * padding(tile, [512, 512]);
            assert!(least <= counted, "{name}: {least} {counted}");
            assert!(least > 0.9 * counted, "{name}: {least} {counted}");
        }
        let other = "triton_mm_128x64x32_kernel";
        assert_eq!(tile(&classify(other)), None);
    }

    #[test]
    fn elements_of_lists_are_as_names_of_kernels_say() {
        let list = |functor: &str| {
            let name = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::";
            let name =
                format!("{name}(anonymous namespace)::TensorListMetadata<2>, at::native::{functor}>(T1, T2)");
            element_bytes(&classify(&name))
        };
        assert_eq!(
            list("BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>, std::plus<float>, float"),
            Some(2)
        );
        assert_eq!(list("BinaryOpScalarFunctor<float, 1, 1, 0>, std::plus<float>, float"), Some(4));
        assert_eq!(list("FusedAdamMathFunctor<double, 4, (at::native::ADAM_MODE)1, false>"), Some(8));
        let other =
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)";
        assert_eq!(element_bytes(&classify(other)), None);
    }
}
