//! The gradients by the parameters from the deltas of all layers, with scalar multiply-adds: shared by the implementations that leave the deltas in
//! memory.

use flopgap_gpu::{GpuError, Kernel};

use crate::MlpError;

use super::implementation::{Reduction, Request};
use super::kernels::{BackwardCall, KernelFacts, zero};
use super::launch::{Arguments, Launch};
use super::source::{Program, Source, table};

const THREADS: usize = 128;
const WARPS: usize = THREADS / 32;
/// Samples that are in shared memory at a time, and how often.
const SLAB: usize = 16;
const STAGES: usize = 3;
const NAME: &str = "scalar_mlp_gradients";
const SUM: &str = "scalar_mlp_gradients_sum";
/// A range has this many samples or more, so that its sums are worth the memory that they take.
const LEAST: usize = 32;

/// How a layer's gradients are laid over a block.
#[derive(Debug, Clone, Copy)]
struct Tile {
    rows: usize,
    columns: usize,
    down: usize,
    across: usize,
}

impl Tile {
    fn height(self) -> usize {
        self.down * 4 * self.rows
    }

    fn width(self) -> usize {
        self.across * 8 * self.columns
    }

    fn count(self, outputs: usize, inputs: usize) -> usize {
        outputs.div_ceil(self.height()) * inputs.div_ceil(self.width())
    }

    /// The tile with the least work. Warps that are left over share the samples.
    fn choose(outputs: usize, inputs: usize) -> Self {
        let mut best = (f64::INFINITY, Tile { rows: 4, columns: 4, down: 1, across: 1 });
        for (down, across) in [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4)] {
            for (rows, columns) in [(8, 8), (8, 4), (4, 8), (4, 4)] {
                let tile = Tile { rows, columns, down, across };
                let terms = (rows * columns) as f64 + 0.75 * (rows + columns) as f64;
                // What a block loads for a sample, in multiply-adds of a warp.
                let loads = (tile.height() + tile.width()) as f64 / 16.0;
                let work = terms * (down * across) as f64 / WARPS as f64 + loads;
                let cost = work * tile.count(outputs, inputs) as f64;
                if cost < best.0 {
                    best = (cost, tile);
                }
            }
        }
        best.1
    }
}

/// The two kernels: before they are loaded, `K` is `()`.
#[derive(Debug, Clone)]
pub(super) struct Gradients<K = ()> {
    tiles: Vec<Tile>,
    /// Of all layers.
    count: usize,
    shared: usize,
    /// Bytes of the deltas of a sample.
    delta_bytes: usize,
    parameters: usize,
    atomic: bool,
    /// Blocks that are wanted.
    blocks: usize,
    kernels: Option<(K, K)>,
}

impl Gradients {
    pub(super) fn new(request: &Request<'_>) -> Self {
        let widths = request.network.widths();
        let tiles: Vec<Tile> = widths.windows(2).map(|pair| Tile::choose(pair[1], pair[0])).collect();
        let count =
            tiles.iter().zip(widths.windows(2)).map(|(tile, pair)| tile.count(pair[1], pair[0])).sum();
        let stage = tiles.iter().map(|tile| SLAB * (tile.height() + tile.width())).max().unwrap_or_default();
        let exchange = tiles.iter().map(|tile| tile.rows * tile.columns * 32 * tile.down * tile.across).max();
        Gradients {
            count,
            shared: 4 * (STAGES * stage).max(exchange.unwrap_or_default()),
            delta_bytes: widths[1..].iter().sum::<usize>() * request.precision.bytes(),
            parameters: request.network.parameters(),
            atomic: request.options.reduction == Reduction::Atomic,
            // Three blocks at a time on a multiprocessor, several after one another, so that the last ones even out.
            blocks: request.target.multiprocessors as usize * 12,
            tiles,
            kernels: None,
        }
    }

    pub(super) fn source(&self, request: &Request<'_>) -> Source {
        let of =
            |name, value: fn(&Tile) -> usize| table(name, &self.tiles.iter().map(value).collect::<Vec<_>>());
        let tables = [
            of("tile_rows", |tile| tile.rows),
            of("tile_columns", |tile| tile.columns),
            of("warps_down", |tile| tile.down),
            of("warps_across", |tile| tile.across),
        ]
        .concat();
        let constants = [
            ("THREADS", THREADS),
            ("SLAB", SLAB),
            ("STAGES", STAGES),
            ("TILES", self.count),
            ("EXCHANGE", self.shared / 4),
        ];
        let body = format!(
            "#define ATOMIC {}\n{tables}\n{}\n{}",
            u8::from(self.atomic),
            include_str!("../coopmat/simt/tiles.cuh"),
            include_str!("gradients.cu")
        );
        request.source("gradients.cu", &body, &constants)
    }

    pub(super) fn load(&self, program: &Program) -> Result<Gradients<Kernel>, MlpError> {
        let Gradients { tiles, count, shared, delta_bytes, parameters, atomic, blocks, .. } = self.clone();
        let kernels = Some((program.kernel(NAME, shared)?, program.kernel(SUM, 0)?));
        Ok(Gradients { tiles, count, shared, delta_bytes, parameters, atomic, blocks, kernels })
    }
}

impl<K> Gradients<K> {
    /// Ranges of samples, and the samples of each.
    fn ranges(&self, batch: u32) -> (usize, usize) {
        let batch = batch as usize;
        let most = (self.blocks / self.count).clamp(1, batch.div_ceil(LEAST));
        let each = batch.div_ceil(most).next_multiple_of(SLAB);
        (batch.div_ceil(each), each)
    }

    /// Bytes that the deltas take; then come the sums of the ranges.
    fn deltas(&self, batch: u32) -> usize {
        (batch as usize * self.delta_bytes).next_multiple_of(256)
    }

    pub(super) fn workspace(&self, batch: u32) -> usize {
        // Fewer samples can come to as many ranges.
        let most = (self.blocks / self.count).clamp(1, (batch as usize).div_ceil(LEAST));
        self.deltas(batch) + most * self.parameters * 4
    }
}

impl Gradients<Kernel> {
    /// Queues both kernels. The deltas lie where the workspace begins, layer after layer, each `batch x outputs`.
    pub(super) fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        let Some((kernel, sum)) = &self.kernels else { return Ok(()) };
        let (ranges, each) = self.ranges(call.batch);
        let partial = call.workspace + self.deltas(call.batch) as u64;
        let direct = self.atomic || ranges == 1;
        if self.atomic {
            // SAFETY: `gradients` has so many bytes: `Model` checked it.
            unsafe { zero(call.stream, call.gradients, self.parameters * 4) }?;
        }
        let number = |value: usize| {
            u32::try_from(value).map_err(|_| GpuError::TooLarge { what: "blocks of a kernel", value })
        };
        let sums = if direct { call.gradients } else { partial };
        let arguments = Arguments::default()
            .addresses([call.x, call.tape, call.workspace, sums])
            .u32(call.batch)
            .u32(number(each)?);
        let launch =
            Launch { shared: self.shared, ..Launch::new(number(ranges * self.count)?, number(THREADS)?) };
        // SAFETY: these are the kernel's arguments; `workspace` has room for the deltas and the sums of so many ranges.
        unsafe { launch.queue(call.stream, kernel, arguments) }?;
        if direct {
            return Ok(());
        }
        let arguments = Arguments::default().addresses([partial, call.gradients]).u32(number(ranges)?);
        let blocks = number(self.parameters.div_ceil(4 * 32))?;
        // SAFETY: these are the kernel's arguments, of the lengths that it expects.
        unsafe { Launch::new(blocks, 256).queue(call.stream, sum, arguments) }
    }

    pub(super) fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let Some((kernel, sum)) = &self.kernels else { return Ok(Vec::new()) };
        let mut facts = vec![KernelFacts::of(NAME, kernel, self.shared)?];
        if !self.atomic {
            facts.push(KernelFacts::of(SUM, sum, 0)?);
        }
        Ok(facts)
    }
}
