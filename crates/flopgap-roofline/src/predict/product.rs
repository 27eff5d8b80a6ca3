//! What the kernels of a product have to do, by their tile, blocks and threads, and by what their
//! names tell.

use flopgap_flops::{Activation, Precision};
use flopgap_graph::{Algorithm, Mode};

use super::kernel::Named;
use super::machine::Machine;
use super::point::Point;
use super::shape::Family;

/// Terms of a product.
pub(super) const COUNT: usize = 25;
/// Bytes of a sector, the least that memory moves, and of the four of a cache line.
const SECTOR: f64 = 32.0;
const LINE: f64 = 128.0;
/// Nanoseconds that a kernel takes to start and to end, before anything is fitted.
const START: f64 = 2000.0;
/// Nanoseconds of an inner step that waits for nothing but itself.
const STEP: f64 = 20.0;
/// Registers of a thread beside those that sum up.
const REGISTERS: f64 = 48.0;
/// Registers and threads of a multiprocessor (NVIDIA, "CUDA C++ Programming Guide", compute
/// capabilities 7.0 to 9.0).
const ALL_REGISTERS: f64 = 65_536.0;
const ALL_THREADS: f64 = 2048.0;

/// Kernels that work alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(super) enum Class {
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
    fn of(kernels: &[String]) -> Self {
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
        kernels.iter().find_map(of).map_or(Self::Other, |(_, class)| *class)
    }
}

/// A product as its time is made up of terms, in nanoseconds of the machine's ceilings.
///
/// In their order: a kernel's start (0); arithmetic, loads and waiting of inner steps, two of each
/// (1 to 6); what comes with each wave, with each tile that is stored, with functions of its
/// elements, with a bias once and with each wave, with stores that are not aligned, and with each
/// wave of a batch (7 to 13); bytes that the product needs to read and to write, and those that its
/// tiles load (14 to 16); then what comes after: split sums in a kernel of their own or in the same
/// one (17 to 21), further kernels, once and by bytes (22, 23), and blocks (24).
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub(super) class: Class,
    pub(super) precision: Precision,
    pub(super) mode: Mode,
    /// Kernels that are launched.
    pub(super) kernels: f64,
    pub(super) terms: [f64; COUNT],
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
}

impl Product {
    /// `None` for what is no product, or whose kernels are not known.
    pub(super) fn of(machine: &Machine, point: &Point<'_>) -> Option<Self> {
        let algorithm = point.algorithm.filter(|algorithm| !algorithm.kernels.is_empty())?;
        let (Family::Gemm, Some(work)) = (point.shape.family, &point.work) else { return None };
        let class = Class::of(&algorithm.kernels);
        let mut terms = [0.0; COUNT];
        terms[0] = START;
        let written = point.shape.outputs / point.shape.elements().max(1.0);
        terms[14] = point.roof.memory * (1.0 - written);
        terms[15] = point.roof.memory * written;
        let parts = match algorithm.tile {
            Some(tile) if !matches!(class, Class::Long | Class::Small | Class::Vector) => {
                let cut = Cut::of(machine, point, algorithm, (class, &work.named), tile);
                tiled(machine, point, (class, &work.named), &cut, &mut terms);
                cut.parts
            }
            _ => {
                by_rows(machine, point, (class, algorithm), &mut terms);
                algorithm.split_k.map_or(1.0, |parts| f64::from(parts.max(1)))
            }
        };
        after(machine, point, algorithm, (parts, work.named.launches), &mut terms);
        let (precision, mode) = (class_of(point.precision), point.mode);
        Some(Self { class, precision, mode, kernels: work.named.launches, terms })
    }
}

/// Kernels in both 16-bit formats have the same tiles and times.
fn class_of(precision: Precision) -> Precision {
    if precision == Precision::Bf16 { Precision::Fp16 } else { precision }
}

fn attribute(algorithm: &Algorithm, name: &str) -> f64 {
    algorithm.attributes.get(name).map_or(0.0, |&value| value as f64)
}

impl Cut {
    fn of(
        machine: &Machine,
        point: &Point<'_>,
        algorithm: &Algorithm,
        (class, named): (Class, &Named),
        tile: [u32; 2],
    ) -> Self {
        let shape = &point.shape;
        let [rows, columns] = tile.map(|size| f64::from(size.max(1)));
        let tiles = shape.batch * (shape.m / rows).ceil() * (shape.n / columns).ceil();
        let mut parts = algorithm.split_k.map_or(1.0, |parts| f64::from(parts.max(1)));
        let mut blocks = tiles * parts;
        let told = attribute(algorithm, "blocks");
        // CUTLASS rounds the length of a part up, and so has fewer parts than it was asked for.
        if matches!(class, Class::Simt | Class::Tensor) && told > 0.0 && told < blocks {
            (parts, blocks) = ((told / tiles).max(1.0), told);
        }
        let shortest = if point.precision == Precision::Fp32 { 8.0 } else { 16.0 };
        let depth = named.depth.unwrap_or(0.0).max(shortest);
        let steps = (shape.k / parts / depth).ceil().max(1.0);
        let threads = attribute(algorithm, "threads");
        let threads = if threads > 0.0 { threads } else { 128.0 };
        let full = blocks / machine.units;
        let (rounds, waves) = if class == Class::Jet {
            let staying = if told > 0.0 { told.min(machine.units) } else { machine.units };
            let rounds = (blocks / staying).ceil();
            (rounds, rounds)
        } else {
            let registers = threads * (rows * columns / threads + REGISTERS);
            let held = (ALL_REGISTERS / registers).min(ALL_THREADS / threads).floor().max(1.0);
            // Blocks of many waves do not wait for each other; the last ones leave multiprocessors
            // idle.
            let rounds = if full <= held { full.ceil() } else { full.max(1.0) + 0.5 };
            let waves = if full <= 3.0 * held { (full.ceil() / held).ceil() } else { full / held + 0.5 };
            (rounds, waves)
        };
        Self { rows, columns, depth, parts, steps, blocks, rounds, waves }
    }
}

/// Kernels whose blocks compute tiles.
fn tiled(
    machine: &Machine,
    point: &Point<'_>,
    (class, named): (Class, &Named),
    cut: &Cut,
    terms: &mut [f64; COUNT],
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
    terms[1] = cut.rounds * cut.steps * 2.0 * area * cut.depth * a_flop;
    terms[3] = cut.rounds * cut.steps * sides * loads * a_byte * machine.units;
    // Rows that begin within sectors or lines touch more of them.
    terms[4] = terms[3] * astray(point.shape.k * element);
    terms[5] = cut.waves * cut.steps * STEP * (cut.depth / 32.0).sqrt();
    terms[7] = cut.waves * 300.0;
    terms[8] = cut.rounds * area * element * a_byte * machine.units;
    let costly = !matches!(point.step.epilogue.activation, Activation::Identity | Activation::Relu);
    if costly && named.launches <= 1.0 {
        terms[9] = cut.rounds * area * a_flop * 100.0;
    }
    if point.step.epilogue.bias {
        (terms[10], terms[11]) = (150.0, cut.waves * 100.0);
    }
    terms[12] = terms[8] * astray(point.shape.n * element);
    if point.shape.batch > 1.0 {
        terms[13] = cut.waves * 200.0;
    }
    terms[16] = cut.blocks * sides * cut.steps * a_byte;
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
    (class, algorithm): (Class, &Algorithm),
    terms: &mut [f64; COUNT],
) {
    let told = attribute(algorithm, "blocks");
    let counted = algorithm.waves_thousandths.map_or(0.0, |waves| waves as f64 / 1000.0);
    let parts = algorithm.split_k.map_or(1.0, |parts| f64::from(parts.max(1)));
    let blocks = match (algorithm.tile, told) {
        (_, told) if told > 0.0 => told,
        (Some([rows, columns]), _) => {
            let [rows, columns] = [rows, columns].map(|size| f64::from(size.max(1)));
            point.shape.batch * (point.shape.m / rows).ceil() * (point.shape.n / columns).ceil() * parts
        }
        _ => counted * machine.units * 4.0,
    };
    let threads = attribute(algorithm, "threads");
    let threads = if threads > 0.0 { threads } else { 128.0 };
    let (m, k) = (point.shape.m, point.shape.k / parts);
    let held = (blocks / machine.units).max(1.0);
    // Nanoseconds of an element of a sum: where warps wait for each other, and where each waits for
    // itself.
    let (busy, waiting) = match class {
        Class::Long => (12.0, 40.0),
        Class::Small => (0.9, 0.5),
        _ => (0.08, 0.25),
    };
    terms[3] = busy * held * k;
    terms[5] = waiting * k * 128.0 / threads;
    // Tiles have all rows of the few that there are; warps take one after the other.
    if class != Class::Long {
        terms[4] = terms[3] * m / 4.0;
        terms[6] = terms[5] * m;
    }
    terms[24] = held * 30.0;
}

/// What comes after the products.
fn after(
    machine: &Machine,
    point: &Point<'_>,
    algorithm: &Algorithm,
    (parts, launches): (f64, f64),
    terms: &mut [f64; COUNT],
) {
    let has = |word: &str| algorithm.kernels.iter().any(|kernel| kernel.contains(word));
    let outputs = point.shape.outputs;
    let mut further = launches - 1.0;
    if parts > 1.0 || has("splitKreduce") || has("split-K reduce") {
        terms[18] = 4.0 * outputs * parts / machine.nearest();
        if has("splitKreduce") {
            (terms[17], terms[19]) = (1000.0, parts * 10.0);
            further -= 1.0;
        } else {
            let serial = (outputs / (machine.units * 1024.0)).ceil().max(1.0);
            (terms[20], terms[21]) = (1000.0, parts * serial * 100.0);
            further -= f64::from(u8::from(has("split-K reduce")));
        }
    }
    if further > 0.0 {
        let bytes = 2.0 * outputs * point.precision.element().bytes() as f64;
        (terms[22], terms[23]) = (1000.0 * further, further * bytes / machine.bandwidth(bytes));
    }
}
