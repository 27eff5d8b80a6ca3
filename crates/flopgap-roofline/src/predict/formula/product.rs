//! The work of a product's kernels, from their tile, blocks and threads, and from their names.

use std::ops::{Index, IndexMut};

use flopgap_flops::{Activation, Precision};
use flopgap_graph::{Algorithm, KernelLaunch, Mode};

use crate::predict::formula::groups;
use crate::predict::inputs::kernel::parts_of;
use crate::predict::inputs::kernel_names::Named;
use crate::predict::inputs::machine::Machine;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::shape::Family;
use crate::predict::trees::split::mix;

/// Bytes of a sector, the least that memory moves, and of the four of a cache line.
const SECTOR: f64 = 32.0;
const LINE: f64 = 128.0;
/// Nanoseconds that a kernel takes to start and to end, before anything is fitted.
const START: f64 = 2000.0;
/// Nanoseconds of an inner step that waits for nothing but itself.
const STEP: f64 = 20.0;
/// Nanoseconds in which the same bytes are read once more by another block, before anything is
/// fitted.
const SHARED: f64 = 3.0;
/// How many times more of a cache an operand needs than a probe that reads it alone and in order.
const CROWDED: f64 = 1.3;
/// Lanes of a multiprocessor that multiply at a time.
const LANES: f64 = 128.0;
/// Registers of a thread apart from its accumulators.
const REGISTERS: f64 = 48.0;
/// Registers and threads of a multiprocessor (NVIDIA, "CUDA C++ Programming Guide", compute
/// capabilities 7.0 to 9.0).
const ALL_REGISTERS: f64 = 65_536.0;
const ALL_THREADS: f64 = 2048.0;

/// Kernels that work alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) enum Class {
    /// cuBLAS's for Hopper: as many blocks as multiprocessors stay and take tile after tile.
    Jet,
    /// CUTLASS's on tensor cores, which load by elements where rows are not aligned.
    Tensor,
    /// CUTLASS's without tensor cores.
    Simt,
    /// cuBLAS's generated ones.
    Xmma,
    /// A few rows by long sums.
    Long,
    /// A few rows, one warp for each.
    Small,
    /// A vector by a matrix.
    Vector,
    /// Any other.
    Other,
}

impl Class {
    /// With the place of the kernel that decides.
    fn of(kernels: &[String]) -> (Self, usize) {
        const WORDS: [(&str, Class); 9] = [
            ("nvjet", Class::Jet),
            ("wmma", Class::Tensor),
            ("tensorop", Class::Tensor),
            ("simt", Class::Simt),
            ("xmma", Class::Xmma),
            ("largek", Class::Long),
            ("gemmSN", Class::Small),
            ("gemv", Class::Vector),
            ("dot_kernel", Class::Vector),
        ];
        let of = |kernel: &String| WORDS.iter().find(|(word, _)| kernel.contains(word));
        let found = kernels.iter().enumerate().find_map(|(place, kernel)| Some((of(kernel)?.1, place)));
        found.unwrap_or((Self::Other, 0))
    }
}

/// The terms of a product's time. Those of one range go on at the same time as those of others, or
/// are added: see [`Products`](super::products::Products).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Term {
    /// The kernel's start.
    Start,
    /// Arithmetic of inner steps.
    Arithmetic,
    /// Loads of the same bytes by many blocks.
    SharedLoads,
    /// Loads of inner steps.
    Loads,
    /// What loads take more where rows begin within sectors or lines; where warps compute rows, the
    /// rows that one warp takes after the other.
    StrayLoads,
    /// Waiting of inner steps.
    Waiting,
    /// Arithmetic of a thread, however few threads there are; where warps compute rows, waiting for
    /// each of several rows.
    OwnArithmetic,
    /// What comes with each wave.
    Waves,
    /// What comes with each tile that is stored; where warps compute rows, what rows that begin
    /// within lines cost.
    Stores,
    /// Functions of the elements of tiles.
    Functions,
    /// A bias, once.
    Bias,
    /// A bias, with each wave.
    BiasWaves,
    /// What stores take more where rows begin within sectors or lines.
    StrayStores,
    /// What comes with each wave of a batch.
    BatchWaves,
    /// Bytes that the product needs to read.
    Read,
    /// Bytes that the product needs to write.
    Written,
    /// Bytes that the tiles load.
    TileLoads,
    /// The start of a kernel that adds split sums.
    ReductionStart,
    /// Bytes of split sums.
    Partials,
    /// Parts that a kernel of its own adds.
    ReductionParts,
    /// The begin of adding split sums in the same kernel.
    SerialStart,
    /// Parts that are added in the same kernel.
    SerialParts,
    /// Starts of further kernels.
    FurtherStarts,
    /// Bytes of further kernels.
    FurtherBytes,
    /// Blocks.
    Blocks,
}

/// How many [`Term`]s there are.
pub(crate) const COUNT: usize = Term::Blocks as usize + 1;

/// Nanoseconds of each [`Term`] at the machine's ceilings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Terms(pub(crate) [f64; COUNT]);

impl Index<Term> for Terms {
    type Output = f64;

    fn index(&self, term: Term) -> &f64 {
        &self.0[term as usize]
    }
}

impl IndexMut<Term> for Terms {
    fn index_mut(&mut self, term: Term) -> &mut f64 {
        &mut self.0[term as usize]
    }
}

/// A product by known kernels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    pub(crate) class: Class,
    /// A number for the kernel that computes the products, whatever is fused with it.
    pub(crate) kernel: u64,
    pub(crate) precision: Precision,
    pub(crate) mode: Mode,
    /// Kernels that are launched.
    pub(crate) kernels: f64,
    pub(crate) terms: Terms,
}

/// How a kernel divides its work.
struct Cut {
    rows: f64,
    columns: f64,
    depth: f64,
    /// Parts that sums are split into.
    parts: f64,
    /// Inner steps of a tile.
    steps: f64,
    blocks: f64,
    /// Tiles that a multiprocessor computes.
    rounds: f64,
    /// Waves of as many blocks as a multiprocessor holds.
    waves: f64,
    /// Threads of a block.
    threads: f64,
    /// Blocks, or clusters of them, that load the same rows or columns at a time.
    sharing: f64,
}

impl Product {
    /// `None` for steps that are not products, or whose kernels are unknown.
    pub(crate) fn of(machine: &Machine, point: &Point<'_>) -> Option<Self> {
        let algorithm = point.algorithm.filter(|algorithm| !algorithm.kernels.is_empty())?;
        let (Family::Gemm, Some(work)) = (point.shape.family, &point.work) else { return None };
        let (class, place) = Class::of(&algorithm.kernels);
        let launch = algorithm.launches.get(place);
        let mut terms = Terms([0.0; COUNT]);
        // Long sums clear the result first, and their blocks then add to it.
        terms[Term::Start] = if class == Class::Long { 3.0 * START } else { START };
        let written = point.shape.outputs / point.shape.elements().max(1.0);
        (terms[Term::Read], terms[Term::Written]) = moved(machine, point.roof.bytes, written);
        let parts = match algorithm.tile {
            Some(tile) if !matches!(class, Class::Long | Class::Small | Class::Vector) => {
                let cut = Cut::new(machine, point, (algorithm, launch), (class, &work.named), tile);
                tiled(machine, point, (class, &work.named), &cut, &mut terms);
                cut.parts
            }
            _ => {
                by_rows(machine, point, (class, algorithm, launch), &mut terms);
                parts_of(algorithm)
            }
        };
        after(machine, point, algorithm, (parts, work.named.launches), &mut terms);
        let (precision, mode) = (groups::class(point.precision), point.mode);
        let kernel = number_of(&algorithm.kernels[place], launch);
        Some(Self { class, kernel, precision, mode, kernels: work.named.launches, terms })
    }
}

/// Nanoseconds in which so many bytes are read and written, of which a share is written.
///
/// Reads are as fast as the level of the memory hierarchy is that holds all; writes within the last
/// cache are no faster than those beyond it.
fn moved(machine: &Machine, bytes: f64, written: f64) -> (f64, f64) {
    let read = bytes * (1.0 - written) / machine.bandwidth(bytes * CROWDED);
    (read, bytes * written / machine.bandwidth(f64::MAX))
}

/// A number for a kernel by its name, without what is fused with it, and by what its launch says
/// where the name is the same for several.
fn number_of(name: &str, launch: Option<&KernelLaunch>) -> u64 {
    let words = name.split('_').filter(|word| !word.ends_with("bias"));
    let template = launch.and_then(|launch| arguments(launch.name.as_deref()?)).unwrap_or_default();
    let reported = launch.map_or([0; 2], |launch| [launch.threads, launch.registers.unwrap_or(0)]);
    let text = words.chain(template).flat_map(str::bytes).map(u64::from);
    text.chain(reported.map(u64::from)).fold(0, mix)
}

/// The first arguments of a kernel's template: a type, sizes and switches. Those after the first
/// that is a template itself tell how operands lie.
fn arguments(name: &str) -> Option<Vec<&str>> {
    let (_, arguments) = name.split_once('<')?;
    let simple = |argument: &&str| !argument.contains(['<', '>']);
    Some(arguments.split(',').map(str::trim).take_while(simple).collect())
}

fn attribute(algorithm: &Algorithm, name: &str) -> f64 {
    algorithm.attributes.get(name).map_or(0.0, |&value| value as f64)
}

impl Cut {
    fn new(
        machine: &Machine,
        point: &Point<'_>,
        (algorithm, launch): (&Algorithm, Option<&KernelLaunch>),
        (class, named): (Class, &Named),
        tile: [u32; 2],
    ) -> Self {
        let shape = &point.shape;
        let [rows, columns] = tile.map(|size| f64::from(size.max(1)));
        let tiles = shape.tiles(rows, columns);
        let mut parts = parts_of(algorithm);
        let mut blocks = tiles * parts;
        let (reported, threads) = launched(algorithm, launch);
        // CUTLASS rounds the length of a part up, and so has fewer parts than it was requested.
        if matches!(class, Class::Simt | Class::Tensor) && reported > 0.0 && reported < blocks {
            (parts, blocks) = ((reported / tiles).max(1.0), reported);
        }
        let shortest = if point.precision == Precision::Fp32 { 8.0 } else { 16.0 };
        let depth = named.depth.unwrap_or(0.0).max(shortest);
        let steps = (shape.k / parts / depth).ceil().max(1.0);
        let full = blocks / machine.units;
        let (rounds, waves) = if class == Class::Jet {
            let staying = if reported > 0.0 { reported.min(machine.units) } else { machine.units };
            let rounds = (blocks / staying).ceil();
            (rounds, rounds)
        } else {
            let registers = threads * (rows * columns / threads + REGISTERS);
            let resident = (ALL_REGISTERS / registers).min(ALL_THREADS / threads).floor().max(1.0);
            let resident = launch.and_then(|launch| launch.resident).map_or(resident, f64::from).max(1.0);
            // Blocks of many waves do not wait for each other; the last ones leave multiprocessors
            // idle.
            let rounds = if full <= resident { full.ceil() } else { full.max(1.0) + 0.5 };
            let waves =
                if full <= 3.0 * resident { (full.ceil() / resident).ceil() } else { full / resident + 0.5 };
            (rounds, waves)
        };
        let (down, across) = ((shape.m / rows).ceil(), (shape.n / columns).ceil());
        let cluster = algorithm.cluster.map_or(1.0, |[x, y]| f64::from(x.max(y).max(1)));
        let sharing = down.max(across).min(machine.units) / cluster;
        Self { rows, columns, depth, parts, steps, blocks, rounds, waves, threads, sharing }
    }
}

/// Blocks, 0 where it is unknown, and threads of a block.
fn launched(algorithm: &Algorithm, launch: Option<&KernelLaunch>) -> (f64, f64) {
    let reported = [attribute(algorithm, "blocks"), attribute(algorithm, "threads")];
    let [blocks, threads] = launch.map_or(reported, |launch| {
        [launch.grid.iter().map(|&blocks| f64::from(blocks)).product(), f64::from(launch.threads)]
    });
    (blocks, if threads > 0.0 { threads } else { 128.0 })
}

/// Kernels whose blocks compute tiles.
fn tiled(
    machine: &Machine,
    point: &Point<'_>,
    (class, named): (Class, &Named),
    cut: &Cut,
    terms: &mut Terms,
) {
    let element = point.precision.element().bytes() as f64;
    let a_flop = machine.units / machine.peak(point.precision);
    let a_byte = 1.0 / machine.nearest();
    let area = cut.rows * cut.columns;
    let sides = (cut.rows + cut.columns) * cut.depth * element;
    // Unaligned rows are loaded by so few elements at a time.
    let loads = match (class, named.alignment) {
        (Class::Tensor, Some(alignment)) => 8.0 / alignment.max(1.0),
        _ => 1.0,
    };
    terms[Term::Arithmetic] = cut.rounds * cut.steps * 2.0 * area * cut.depth * a_flop;
    // What all blocks load is in few places, which serve one block after the other.
    terms[Term::SharedLoads] = cut.waves * cut.steps * cut.sharing * SHARED;
    terms[Term::Loads] = cut.rounds * cut.steps * sides * loads * a_byte * machine.units;
    // Rows that begin within sectors or lines touch more of them.
    terms[Term::StrayLoads] = terms[Term::Loads] * astray(point.shape.k * element);
    // Other kernels than those for Hopper wait for all their threads at each step.
    let step = if class == Class::Jet { STEP } else { 5.0 * STEP };
    terms[Term::Waiting] = cut.waves * cut.steps * step * (cut.depth / 32.0).sqrt();
    if class != Class::Jet {
        // A thread's own arithmetic, however few threads there are.
        terms[Term::OwnArithmetic] =
            cut.waves * cut.steps * 2.0 * area * cut.depth * a_flop * LANES / cut.threads;
    }
    terms[Term::Waves] = cut.waves * 300.0;
    terms[Term::Stores] = cut.rounds * area * element * a_byte * machine.units;
    let costly = !matches!(point.step.epilogue.activation, Activation::Identity | Activation::Relu);
    if costly && named.launches <= 1.0 {
        terms[Term::Functions] = cut.rounds * area * a_flop * 100.0;
    }
    if point.step.epilogue.bias {
        (terms[Term::Bias], terms[Term::BiasWaves]) = (150.0, cut.waves * 100.0);
    }
    terms[Term::StrayStores] = terms[Term::Stores] * astray(point.shape.n * element);
    if point.shape.batch > 1.0 {
        terms[Term::BatchWaves] = cut.waves * 200.0;
    }
    terms[Term::TileLoads] = cut.blocks * sides * cut.steps * a_byte;
}

/// How far a row of so many bytes lets the next one begin within a sector, or within a line.
fn astray(bytes: f64) -> f64 {
    match bytes {
        bytes if bytes % SECTOR > 0.0 => 0.3,
        bytes if bytes % LINE > 0.0 => 0.1,
        _ => 0.0,
    }
}

/// Kernels whose warps compute rows.
fn by_rows(
    machine: &Machine,
    point: &Point<'_>,
    (class, algorithm, launch): (Class, &Algorithm, Option<&KernelLaunch>),
    terms: &mut Terms,
) {
    let (reported, threads) = launched(algorithm, launch);
    let counted = algorithm.waves_thousandths.map_or(0.0, |waves| waves as f64 / 1000.0);
    let parts = parts_of(algorithm);
    let blocks = match (algorithm.tile, reported) {
        (_, reported) if reported > 0.0 => reported,
        (Some([rows, columns]), _) => {
            let [rows, columns] = [rows, columns].map(|size| f64::from(size.max(1)));
            point.shape.tiles(rows, columns) * parts
        }
        _ => counted * machine.units * 4.0,
    };
    let k = point.shape.k / parts;
    // Warps compute so many rows at a time, and more of them in blocks of their own.
    let of_template = || arguments(launch?.name.as_deref()?)?.get(5)?.parse::<f64>().ok();
    let m = if class == Class::Small { of_template() } else { None }.unwrap_or(point.shape.m);
    let full = (blocks / machine.units).max(1.0);
    let resident = launch.and_then(|launch| launch.resident).map_or(1.0, f64::from);
    // The busiest multiprocessor decides, until blocks begin where others have ended.
    let busiest = if full <= resident { full.ceil() } else { full + 0.5 };
    // Nanoseconds of an element of a sum: where warps wait for each other, and where each waits for
    // itself.
    let (busy, waiting) = match class {
        Class::Long => (12.0, 40.0),
        Class::Small => (0.9, 0.5),
        _ => (0.08, 0.25),
    };
    terms[Term::Waiting] = waiting * k * 128.0 / threads;
    if class == Class::Long {
        // Tiles have all rows of the few that there are; blocks do not load while they compute.
        terms[Term::OwnArithmetic] = busy * busiest * k;
    } else {
        // Warps take one row after the other.
        (terms[Term::Loads], terms[Term::StrayLoads]) = (busy * busiest * k, busy * busiest * k * m / 4.0);
        terms[Term::OwnArithmetic] = terms[Term::Waiting] * m;
    }
    // Rows that begin within lines are loaded in more of them.
    let element = point.precision.element().bytes() as f64;
    terms[Term::Stores] = busy * busiest * k * astray(point.shape.k * element);
    terms[Term::Blocks] = busiest * 30.0;
}

/// The work after the products.
fn after(
    machine: &Machine,
    point: &Point<'_>,
    algorithm: &Algorithm,
    (parts, launches): (f64, f64),
    terms: &mut Terms,
) {
    let has = |word: &str| algorithm.kernels.iter().any(|kernel| kernel.contains(word));
    let outputs = point.shape.outputs;
    let mut further = launches - 1.0;
    if parts > 1.0 || has("splitKreduce") || has("split-K reduce") {
        terms[Term::Partials] = 4.0 * outputs * parts / machine.nearest();
        if has("splitKreduce") {
            (terms[Term::ReductionStart], terms[Term::ReductionParts]) = (1000.0, parts * 10.0);
            further -= 1.0;
        } else {
            let serial = (outputs / (machine.units * 1024.0)).ceil().max(1.0);
            (terms[Term::SerialStart], terms[Term::SerialParts]) = (1000.0, parts * serial * 100.0);
            further -= f64::from(u8::from(has("split-K reduce")));
        }
    }
    if further > 0.0 {
        let bytes = 2.0 * outputs * point.precision.element().bytes() as f64;
        let (read, write) = moved(machine, bytes, 0.5);
        (terms[Term::FurtherStarts], terms[Term::FurtherBytes]) =
            (1000.0 * further, further * (read + write));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_the_same_with_what_is_fused_and_another_with_other_arguments() {
        let number = |name: &str| number_of(name, None);
        let alone = number("nvjet_sm90_hsh_64x8_64x16_2x4_h_bz_TNT");
        assert_eq!(alone, number("nvjet_sm90_hsh_64x8_64x16_2x4_h_bz_relubias_TNT"));
        assert_ne!(alone, number("nvjet_sm90_hsh_8x64_64x16_2x4_h_bz_TNT"));
        let small = |name: &str| {
            let launch = KernelLaunch { name: Some(name.to_owned()), threads: 128, ..Default::default() };
            number_of("gemmSN_TN_kernel", Some(&launch))
        };
        let of_four = small("gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true, Batched<float const>>");
        assert_eq!(of_four, small("gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true, Pointer<float>>"));
        assert_ne!(of_four, small("gemmSN_TN_kernel<float, 128, 16, 2, 4, 6, 7, false, Batched<float>>"));
    }

    #[test]
    fn arguments_end_before_the_first_template() {
        let name = "gemmSN_TN_kernel<float, 128, 16, 2, 4, 8, 9, false, Batched<float const>>";
        let reported = arguments(name).unwrap();
        assert_eq!((reported.len(), reported[5]), (8, "8"));
        assert_eq!(arguments("gemv2T_kernel_val"), None);
    }

    #[test]
    fn launches_tell_more_than_attributes() {
        let mut algorithm = Algorithm::default();
        assert_eq!(launched(&algorithm, None), (0.0, 128.0));
        algorithm.attributes.extend([("blocks".to_owned(), 7), ("threads".to_owned(), 256)]);
        assert_eq!(launched(&algorithm, None), (7.0, 256.0));
        let launch = KernelLaunch { grid: [14, 2, 16], threads: 64, ..Default::default() };
        assert_eq!(launched(&algorithm, Some(&launch)), (448.0, 64.0));
    }
}
