//! The work of a convolution's kernels: tiles and clusters, steps of the inner sums, layout
//! conversions, transforms.

use flopgap_flops::Precision;
use flopgap_graph::Algorithm;

use crate::predict::inputs::kernel_names::{Named, numbers, repeated};
use crate::predict::inputs::machine::{Machine, Roof};
use crate::predict::inputs::shape::Shape;

/// Inner steps if the name does not show them: 8 elements, as in kernels without tensor cores.
const STEP: f64 = 8.0;
/// Nanoseconds that are one unit of terms without a ceiling: launches and dependent steps.
const UNIT: f64 = 1000.0;
/// A dependent step in such units.
const A_STEP: f64 = 0.1;
/// Numbers of cuDNN: `CUDNN_KNOB_TYPE_TILE_CGA_M` and `_N`.
const CLUSTER: [&str; 2] = ["knob_27", "knob_28"];
/// Kernels that bring operands into another layout, by how their names begin.
const CONVERTS: [&str; 5] =
    ["nhwcAddPadding", "nchwToNhwc", "convertTensor", "nhwcSliceC", "genericTranspose"];
/// Parts of the names of kernels that multiply.
const MULTIPLIES: [&str; 6] = ["gemm", "fprop", "convFwd", "convolve", "conv2d", "nvjet"];

/// Kernels launched and, of the one that multiplies, what a multiprocessor does one after the
/// other.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ConvolutionWork {
    /// Tiles with those that fill up clusters, split sums counted, over multiprocessors.
    pub(crate) tiles: f64,
    /// Inner steps of a tile.
    pub(crate) steps: f64,
    /// Tiles one after the other where as many blocks as fit run at a time.
    pub(crate) rounds: f64,
    /// Tiles that the busiest multiprocessor computes.
    pub(crate) most: f64,
    /// Elements that are loaded at a time; 0 where that is a whole vector.
    pub(crate) alignment: f64,
    pub(crate) terms: [f64; TERMS],
}

/// Indices of terms.
pub(crate) mod at {
    pub(crate) const LAUNCH: usize = 0;
    /// Further kernels of the step, in a graph and on a stream.
    pub(crate) const MORE: usize = 2;
    pub(crate) const INPUT: usize = 4;
    pub(crate) const WEIGHTS: usize = 5;
    pub(crate) const OUTPUT: usize = 6;
    /// Arithmetic where no blocks are known.
    pub(crate) const ARITHMETIC: usize = 7;
    /// Dependent steps: over the inner sum as it is, and over each position of the window by
    /// itself.
    pub(crate) const LATENCY: usize = 8;
    /// Arithmetic of the busiest multiprocessor, in the same two ways.
    pub(crate) const BUSIEST: usize = 10;
    /// Arithmetic of all tiles.
    pub(crate) const SPREAD: usize = 12;
    /// Results that the busiest multiprocessor writes.
    pub(crate) const STORES: usize = 13;
    pub(crate) const LOADS: usize = 14;
    pub(crate) const REDUCED: usize = 15;
    /// The larger of arithmetic and bytes.
    pub(crate) const LARGER: usize = 16;
    pub(crate) const ROUNDS: usize = 17;
    /// Sums that blocks hand to each other.
    pub(crate) const HANDED: usize = 18;
    /// Conversions before, behind, and of whatever layout.
    pub(crate) const CONVERTED: usize = 19;
    /// What is not loaded or stored in whole vectors: dependent, by the busiest multiprocessor,
    /// stores.
    pub(crate) const UNALIGNED: usize = 22;
    /// Fourier transforms of inputs, results and weights, and the products of frequencies.
    pub(crate) const FOURIER: usize = 25;
    /// Inputs read again at each position of the window.
    pub(crate) const TAPS: usize = 29;
}

/// Terms of a convolution whose kernels are known.
pub(crate) const TERMS: usize = 30;

/// What distinguishes convolutions: the kind of kernel, and its tile as well.
pub(crate) fn names(algorithm: &Algorithm) -> Option<[String; 2]> {
    let main = main_of(algorithm)?;
    let (name, times) = repeated(&algorithm.kernels[main]);
    let mut kind = kind(name);
    let named = Named::of(&algorithm.kernels);
    if let Some(side) = named.transform {
        kind = format!("fourier {side}");
    }
    if times > 1.0 {
        kind.push_str(" repeated");
    }
    let tile = algorithm.tile.map_or(String::new(), |[rows, columns]| format!(" {rows}x{columns}"));
    let fine = format!("{kind}{tile}");
    Some([kind, fine])
}

/// The kernel that multiplies: the first that is called so, else the last.
fn main_of(algorithm: &Algorithm) -> Option<usize> {
    let multiplies = |name: &String| MULTIPLIES.iter().any(|part| name.contains(part));
    let found = algorithm.kernels.iter().position(multiplies);
    found.or_else(|| algorithm.kernels.len().checked_sub(1))
}

/// A name without its tile and number formats, up to the architecture that it was written for.
fn kind(name: &str) -> String {
    let name = name.split(' ').next().unwrap_or(name);
    let mut kept: Vec<&str> = Vec::new();
    for word in name.split('_') {
        if numbers(word).len() > 1 {
            break;
        }
        let of_cutlass = kept.last() == Some(&"cutlass") && word.parse::<u32>().is_ok();
        if matches!(word, "f16" | "bf16" | "f32" | "tf32") {
            continue;
        }
        let first = kept.is_empty();
        kept.push(word);
        if of_cutlass || (!first && word.strip_prefix("sm").is_some_and(|rest| rest.parse::<u32>().is_ok())) {
            break;
        }
    }
    kept.join("_")
}

/// The tile and cluster of a kernel in rows and columns of the result.
fn tile_of(algorithm: &Algorithm, name: &str) -> (Option<[f64; 2]>, [f64; 2]) {
    let reported = algorithm.tile.map(|tile| tile.map(|side| f64::from(side.max(1))));
    let knob = |name: &str| algorithm.attributes.get(name).map_or(1.0, |&value| (value as f64).max(1.0));
    let cluster = CLUSTER.map(knob);
    // Products compute the transposed result: columns are pixels there.
    let product = name.starts_with("nvjet") || (name.contains("gemm") && !name.contains("implicit"));
    if !product {
        return (reported, cluster);
    }
    let words: Vec<Vec<f64>> = name.split('_').map(numbers).collect();
    let mut pairs = words.iter().filter_map(|word| <[f64; 2]>::try_from(word.as_slice()).ok());
    let cluster = if name.starts_with("nvjet") { pairs.nth(2).unwrap_or([1.0; 2]) } else { cluster };
    (reported.map(|[rows, columns]| [columns, rows]), [cluster[1], cluster[0]])
}

impl ConvolutionWork {
    /// The work of the kernels; `None` if none is known.
    pub(crate) fn of(
        machine: &Machine,
        (shape, roof): (&Shape, &Roof),
        (precision, in_graph): (Precision, bool),
        algorithm: &Algorithm,
    ) -> Option<Self> {
        let main = main_of(algorithm)?;
        let (name, repeats) = repeated(&algorithm.kernels[main]);
        let named = Named::of(&algorithm.kernels);
        let element = precision.element().bytes() as f64;
        let a_byte = if roof.bytes > 0.0 { roof.memory / roof.bytes } else { 0.0 };
        let a_flop = 1.0 / machine.peak(precision);
        let mut work = Self::default();
        work.around((shape, element * a_byte), in_graph, (algorithm, main));
        let terms = &mut work.terms;
        if let Some(side) = named.transform {
            work.fourier(shape, side, (a_flop, a_byte));
            return Some(work);
        }

        let launch = algorithm.launches.get(main);
        let attribute = |name: &str| algorithm.attributes.get(name).map(|&value| value as f64);
        let grid = |grid: &[u32; 3]| grid.iter().map(|&size| f64::from(size)).product::<f64>();
        let blocks = launch.map(|launch| grid(&launch.grid)).or_else(|| attribute("blocks"));
        let waves = algorithm.waves_thousandths.map(|waves| waves as f64 / 1000.0);
        let reported =
            waves.zip(blocks).map(|(waves, blocks)| (blocks / waves.max(1e-3) / machine.units).round());
        let resident =
            launch.and_then(|launch| launch.resident).map(f64::from).or(reported).unwrap_or(1.0).max(1.0);
        let (tile, cluster) = tile_of(algorithm, name);
        let vector = 16.0 / element;
        // Channels that a kernel before has filled up with zeros.
        let padded = launched(&algorithm.kernels[..main], &["nhwcAddPadding"]) > 0.0;
        let filled = |size: f64| if padded { (size / vector).ceil() * vector } else { size };
        let channels = filled(shape.inputs_of_group());
        let sum = shape.window * channels;
        let groups = if repeats > 1.0 { 1.0 } else { shape.batch };
        let ([rows, columns], tiles) = match (tile, blocks) {
            (Some(tile), _) => {
                let count = |size: f64, side: f64, by: f64| ((size / side).ceil() / by).ceil() * by;
                let tiles =
                    count(shape.m, tile[0], cluster[0]) * count(shape.n, tile[1], cluster[1]) * groups;
                // Small groups share tiles.
                let shared = groups > 1.0 && blocks.is_some_and(|blocks| blocks < tiles);
                (tile, blocks.filter(|_| shared).unwrap_or(tiles))
            }
            // Without a tile, each block computes as much as the others.
            (None, Some(blocks)) => ([(shape.m * shape.n * groups / blocks.max(1.0)).sqrt(); 2], blocks),
            (None, None) => {
                terms[at::ARITHMETIC] = shape.flops * a_flop;
                terms[at::TAPS] = shape.m * shape.k * shape.batch * element * a_byte;
                return Some(work);
            }
        };
        let depth = named.depth.filter(|_| tile.is_some()).unwrap_or(STEP).max(STEP);
        let handed = launched(&algorithm.kernels, &["init_device"]) > 0.0;
        let found = blocks.filter(|_| repeats <= 1.0).unwrap_or(tiles);
        let split = match algorithm.split_k {
            Some(parts) if parts > 1 => f64::from(parts),
            _ if found >= 2.0 * tiles => (found / tiles).round(),
            _ => 1.0,
        };
        let (rounds, most) = if found < tiles {
            // Blocks that stay compute several tiles, or equal shares of all.
            let each = tiles / found.max(1.0);
            let each = if handed { each } else { each.ceil() };
            (each, each)
        } else {
            let all = tiles * split / machine.units;
            (repeats * (all / resident).ceil(), repeats * all.ceil())
        };
        let by_sum = sum / split / depth;
        let by_window = shape.window * (channels / depth).ceil() / split;
        let steps = [by_sum.ceil().max(1.0), by_window.ceil().max(1.0)];
        let all = repeats * tiles * split;
        let area = 2.0 * rows * columns * depth * a_flop;
        for (way, steps) in steps.into_iter().enumerate() {
            terms[at::LATENCY + way] = UNIT * A_STEP * steps * rounds;
            terms[at::BUSIEST + way] = steps * most * area * machine.units;
        }
        terms[at::SPREAD] = all * by_sum * area;
        terms[at::STORES] = most * rows * columns * element * a_byte * machine.units;
        terms[at::LOADS] = all * (rows + columns) * by_sum * depth * element * a_byte;
        if split > 1.0 {
            terms[at::REDUCED] = 4.0 * shape.m * shape.n * groups * split * a_byte;
        }
        terms[at::LARGER] = terms[at::BUSIEST].max(roof.memory);
        terms[at::ROUNDS] = UNIT * A_STEP * rounds;
        if handed {
            terms[at::HANDED] = UNIT + 4.0 * found * rows * columns * a_byte;
        }
        let loaded = named.alignment.unwrap_or(vector).min(aligned(channels, vector));
        let stored = aligned(filled(shape.n), vector);
        if loaded < vector {
            let each = UNIT * A_STEP * sum / split / loaded;
            terms[at::UNALIGNED] = each * rounds;
            terms[at::UNALIGNED + 1] = each * most;
        }
        if stored < vector {
            terms[at::UNALIGNED + 2] = most * rows * columns / stored;
        }
        if tile.is_none() {
            terms[at::TAPS] = shape.m * shape.k * shape.batch * element * a_byte;
        }
        let alignment = if loaded < vector { loaded } else { 0.0 };
        Some(Self { tiles: all / machine.units, steps: steps[1], rounds, most, alignment, ..work })
    }

    /// Launches, the bytes of the operands and conversions of their layouts.
    fn around(
        &mut self,
        (shape, an_element): (&Shape, f64),
        in_graph: bool,
        (algorithm, main): (&Algorithm, usize),
    ) {
        let terms = &mut self.terms;
        let (mode, launches) = (usize::from(!in_graph), Named::of(&algorithm.kernels).launches);
        terms[at::LAUNCH + mode] = UNIT;
        terms[at::MORE + mode] = UNIT * (launches - 1.0).max(0.0);
        terms[at::INPUT] = (shape.inputs - shape.unread) * an_element;
        terms[at::WEIGHTS] = shape.weights * an_element;
        terms[at::OUTPUT] = shape.outputs * an_element;
        let behind = (algorithm.kernels.len() - main - 1) as f64;
        terms[at::CONVERTED] = shape.inputs * an_element * launched(&algorithm.kernels[..main], &CONVERTS);
        terms[at::CONVERTED + 1] = shape.outputs * an_element * behind;
        terms[at::CONVERTED + 2] =
            shape.inputs * an_element * launched(&algorithm.kernels, &["tensorTransform"]);
    }

    /// Tiles overlap by the window; half of a real transform's frequencies tell the others
    /// (Vasilache et al., 2014).
    fn fourier(&mut self, shape: &Shape, side: f64, (a_flop, a_byte): (f64, f64)) {
        let reach = (side + 1.0 - shape.window.sqrt()).max(1.0);
        let tiles = shape.images * shape.sides.iter().map(|extent| (extent / reach).ceil()).product::<f64>();
        let frequencies = side * (side / 2.0 + 1.0);
        let (inputs, outputs) = (shape.inputs_of_group() * shape.batch, shape.n * shape.batch);
        let a_number = 8.0 * frequencies * a_byte;
        self.terms[at::FOURIER] = a_number * tiles * inputs;
        self.terms[at::FOURIER + 1] = a_number * tiles * outputs;
        self.terms[at::FOURIER + 2] = a_number * shape.inputs_of_group() * outputs;
        self.terms[at::FOURIER + 3] = 8.0 * frequencies * tiles * shape.inputs_of_group() * outputs * a_flop;
    }
}

/// How many kernels are launched whose names begin in one of these ways.
fn launched(kernels: &[String], of: &[&str]) -> f64 {
    let begins = |name: &&String| of.iter().any(|start| name.starts_with(start));
    kernels.iter().filter(begins).map(|name| repeated(name).1).sum()
}

/// The largest power of two that divides a size, at most `most`.
fn aligned(size: f64, most: f64) -> f64 {
    let mut power = 1.0;
    while power < most && size >= 2.0 * power && size % (2.0 * power) == 0.0 {
        power *= 2.0;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn algorithm(kernels: &[&str], tile: Option<[u32; 2]>) -> Algorithm {
        let kernels = kernels.iter().map(|&name| name.to_owned()).collect();
        Algorithm { kernels, tile, ..Algorithm::default() }
    }

    #[test]
    fn kinds_of_kernels_go_by_their_names() {
        let kind_of = |kernels: &[&str]| names(&algorithm(kernels, None)).unwrap()[0].clone();
        let cases = [
            (
                vec!["nhwcAddPaddingKernel x2", "sm90_xmma_fprop_implicit_gemm fp16 128x128x64"],
                "sm90_xmma_fprop_implicit_gemm",
            ),
            (vec!["nvjet_sm90_hsh_64x8_64x16_2x4_h_bz_relubias_TNT"], "nvjet_sm90"),
            (
                vec!["cutlass_80_tensorop_s1688gemm_128x64_32x6_tn_align4", "splitKreduce_kernel"],
                "cutlass_80",
            ),
            (
                vec!["cudnn_generated_fort_native_sm80_convFwd_pointwise_knob_28_128x32x128_1_0"],
                "cudnn_generated_fort_native_sm80",
            ),
            (vec!["flip_filter", "fft2d_r2c_16x16 x2", "gemvx::kernel", "fft2d_c2r_16x16"], "fourier 16"),
            (vec!["convolve_common_engine_int8_NHWC x24"], "convolve_common_engine_int8_NHWC repeated"),
        ];
        for (kernels, expected) in cases {
            assert_eq!(kind_of(&kernels), expected);
        }
        assert_eq!(names(&algorithm(&[], None)), None, "nothing is known");
        let [_, fine] = names(&algorithm(&["conv2d_grouped_direct_kernel"], Some([64, 32]))).unwrap();
        assert_eq!(fine, "conv2d_grouped_direct_kernel 64x32");
    }

    /// 16 tiles of 256 rows, 6 of 64 columns.
    fn shape() -> Shape {
        use flopgap_graph::{Epilogue, Op, Step, op::Conv};
        let op = Op::Conv(Conv {
            batch: 1,
            inputs: 968,
            outputs: 344,
            groups: 1,
            image: vec![64, 64],
            kernel: vec![3, 3],
            stride: vec![1, 1],
            dilation: vec![1, 1],
            padding: vec![[1, 1]; 2],
            transposed: false,
            output_padding: vec![0, 0],
        });
        Shape::of(&Step { op, epilogue: Epilogue::default() })
    }

    fn work(algorithm: &Algorithm) -> ConvolutionWork {
        let (machine, shape) = (Machine::new(None, Some(100), &[]), shape());
        let roof = machine.roof(&shape, Precision::Fp16);
        ConvolutionWork::of(&machine, (&shape, &roof), (Precision::Fp16, true), algorithm).unwrap()
    }

    fn is(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * expected.max(1.0), "{found} instead of {expected}");
    }

    #[test]
    fn tiles_fill_up_clusters() {
        let mut of = algorithm(&["sm90_xmma_fprop_implicit_gemm fp16 256x64x32"], Some([256, 64]));
        of.attributes = [("knob_27", 1), ("knob_28", 5), ("blocks", 110)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        // 160 tiles, as ten columns are two clusters; 110 blocks that stay need two rounds for
        // them.
        let found = work(&of);
        is(found.tiles, 1.6);
        is(found.rounds, 2.0);
        is(found.steps, 9.0 * 31.0);
        // Where blocks hand over their sums, all compute as much.
        of.kernels.insert(0, "init_device_workspace_kernel".to_owned());
        is(work(&of).rounds, 160.0 / 110.0);
    }

    #[test]
    fn more_blocks_than_tiles_divide_the_sums() {
        let mut of = algorithm(&["sm80_xmma_fprop_implicit_gemm fp16 256x64x32"], Some([256, 64]));
        of.attributes = [("blocks".to_owned(), 3 * 96)].into();
        let found = work(&of);
        is(found.tiles, 2.88);
        is(found.steps, 3.0 * 31.0);
        is(found.rounds, 3.0);
        assert!(found.terms[at::REDUCED] > 0.0);
    }

    #[test]
    fn channels_are_loaded_in_vectors_once_they_are_padded() {
        let odd = Shape { k: 9.0 * 967.0, ..shape() };
        let machine = Machine::new(None, Some(100), &[]);
        let roof = machine.roof(&odd, Precision::Fp16);
        let of = |kernels: &[&str]| {
            let algorithm = algorithm(kernels, Some([256, 64]));
            ConvolutionWork::of(&machine, (&odd, &roof), (Precision::Fp16, true), &algorithm).unwrap()
        };
        let kernel = "sm80_xmma_fprop_implicit_gemm fp16 256x64x32";
        is(of(&[kernel]).alignment, 1.0);
        assert!(of(&[kernel]).terms[at::UNALIGNED] > 0.0);
        let padded = of(&["nhwcAddPaddingKernel x2", kernel]);
        is(padded.terms[at::UNALIGNED], 0.0);
        assert!(padded.terms[at::CONVERTED] > 0.0 && padded.terms[at::MORE] > 0.0);
    }
}
