//! The gradients by the parameters from the deltas of all layers, with scalar multiply-adds: shared
//! by the implementations that leave the deltas in memory.

use flopgap_gpu::{GpuError, Kernel};

use crate::{MlpError, Precision};

use super::budget;
use super::kernels::{BackwardCall, KernelFacts, zero};
use super::launch::{Arguments, Launch};
use super::options::Reduction;
use super::request::Request;
use super::source::{Program, Source, table};
use super::target::Target;

const NAME: &str = "scalar_mlp_gradients";
const SUM: &str = "scalar_mlp_gradients_sum";
/// Parameters of a block of [`SUM`], and its threads, as in `gradients.cu`.
const SUM_WIDTH: usize = 32;
const SUM_THREADS: usize = 256;
/// A range has this many samples or more, so that its sums are worth the memory that they take.
const LEAST: usize = 32;
/// Where ranges have so many samples, there are more blocks than the GPU takes at a time, so that
/// the last ones even out: so many times as many.
const LONG: usize = 2048;
const WAVES: [usize; 4] = [6, 4, 2, 1];

/// What a block is like.
#[derive(Debug, Clone, Copy)]
struct Block {
    threads: usize,
    /// Samples that are in shared memory at a time, and how often.
    slab: usize,
    stages: usize,
    /// Sums of a thread, at most.
    most: usize,
    /// Blocks that a multiprocessor has at a time.
    count: usize,
}

impl Block {
    /// The first that fits. With 128 sums of a thread only what arrives in the background does so
    /// in time: 8 warps wait for memory less well than 12.
    fn choose(widths: &[usize], precision: Precision, target: Target) -> (Self, Vec<Tile>) {
        let background = precision == Precision::F32 && target.capability.major >= 8;
        let large = [(128, 32, 2), (256, 32, 1), (128, 16, 2)].map(|(threads, slab, count)| Block {
            threads,
            slab,
            stages: 3,
            most: 128,
            count,
        });
        let small = [3, 2, 1].map(|count| Block { threads: 128, slab: 16, stages: 3, most: 64, count });
        let [.., last] = small;
        let tiles = |block: &Block| -> Vec<Tile> {
            let layers: Vec<(usize, usize)> = widths.windows(2).map(|pair| (pair[1], pair[0])).collect();
            let own: Vec<Tile> = layers.iter().map(|&layer| Tile::choose(&[layer], block)).collect();
            if own.iter().map(|tile| tile.instructions()).sum::<usize>() <= 2 * budget::KERNEL {
                return own;
            }
            vec![Tile::choose(&layers, block); layers.len()]
        };
        // A block takes a KiB of its own.
        let fits = |block: &Block, tiles: &[Tile]| {
            block.count * (block.shared(tiles) + 1024) <= target.shared_bytes + 1024
        };
        let all = large.into_iter().filter(|_| background).chain(small);
        let mut all = all.map(|block| (block, tiles(&block)));
        all.find(|(block, tiles)| fits(block, tiles)).unwrap_or_else(|| (last, tiles(&last)))
    }

    /// Bytes of shared memory.
    fn shared(&self, tiles: &[Tile]) -> usize {
        let stage = tiles.iter().map(|tile| self.slab * (tile.height() + tile.width())).max();
        let exchange = tiles.iter().map(|tile| tile.rows * tile.columns * 32 * tile.down * tile.across).max();
        4 * (self.stages * stage.unwrap_or_default()).max(exchange.unwrap_or_default())
    }
}

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

    /// Instructions of its code, more or less: eight samples' products are unrolled, then come the
    /// parts of a block and what is written.
    fn instructions(self) -> usize {
        600 + 20 * self.rows * self.columns
    }

    fn count(self, outputs: usize, inputs: usize) -> usize {
        outputs.div_ceil(self.height()) * inputs.div_ceil(self.width())
    }

    /// The tile with the least work for layers of these outputs and inputs. Warps that are left
    /// over share the samples.
    fn choose(layers: &[(usize, usize)], block: &Block) -> Self {
        let mut best = (f64::INFINITY, Tile { rows: 4, columns: 4, down: 1, across: 1 });
        let warps = block.threads / 32;
        for (down, across) in [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (2, 4), (4, 2)] {
            // With what a multiply-add takes beside reads, more or less (`coopmat/simt/plan.rs`).
            for (rows, columns, each) in
                [(16, 8, 1.14), (8, 16, 1.14), (8, 8, 1.2), (8, 4, 1.4), (4, 8, 1.4), (4, 4, 1.7)]
            {
                let tile = Tile { rows, columns, down, across };
                if rows * columns > block.most || down * across > warps || tile.height() > block.threads {
                    continue;
                }
                let work = (rows * columns * down * across) as f64 * each / warps as f64;
                // What a block loads for a sample, in multiply-adds of a warp.
                let loads = (tile.height() + tile.width()) as f64 / 16.0;
                let count: usize = layers.iter().map(|&(outputs, inputs)| tile.count(outputs, inputs)).sum();
                let cost = (work + loads) * count as f64;
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
    block: Block,
    tiles: Vec<Tile>,
    /// Of all layers.
    count: usize,
    shared: usize,
    /// Bytes of the deltas of a sample.
    delta_bytes: usize,
    parameters: usize,
    atomic: bool,
    /// Whether rows are a sample's and its tangents.
    pairs: bool,
    /// Blocks that the GPU takes at a time.
    slots: usize,
    kernels: Option<(K, K)>,
}

impl Gradients {
    pub(super) fn new(request: &Request<'_>) -> Self {
        let widths = request.network.widths();
        let (block, tiles) = Block::choose(widths, request.precision, request.target);
        let count =
            tiles.iter().zip(widths.windows(2)).map(|(tile, pair)| tile.count(pair[1], pair[0])).sum();
        Gradients {
            count,
            shared: block.shared(&tiles),
            delta_bytes: widths[1..].iter().sum::<usize>() * request.precision.bytes(),
            parameters: request.network.parameters(),
            atomic: request.options.reduction == Reduction::Atomic,
            pairs: false,
            slots: request.target.multiprocessors as usize * block.count,
            block,
            tiles,
            kernels: None,
        }
    }

    /// For rows that are in turns a sample's numbers and their tangents; deltas lie the other way
    /// round.
    pub(super) fn of_pairs(request: &Request<'_>) -> Self {
        Gradients { pairs: true, ..Gradients::new(request) }
    }

    /// Whether layers share their code. Two or three do not, whatever their tiles.
    fn alike(&self) -> bool {
        self.tiles.iter().map(|tile| tile.instructions()).sum::<usize>() > 2 * budget::KERNEL
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
            ("THREADS", self.block.threads),
            ("BLOCKS", self.block.count),
            ("SLAB", self.block.slab),
            ("STAGES", self.block.stages),
            ("EXCHANGE", self.shared / 4),
            ("ATOMIC", usize::from(self.atomic)),
            ("PAIRS", usize::from(self.pairs)),
        ];
        let alike = format!("#define ALIKE {}\n", u8::from(self.alike()));
        request.kernel("gradients/gradients.cu", &(alike + &tables), &constants)
    }

    pub(super) fn load(&self, program: &Program) -> Result<Gradients<Kernel>, MlpError> {
        let Gradients { block, tiles, count, shared, delta_bytes, parameters, atomic, pairs, slots, .. } =
            self.clone();
        let kernels = Some((program.kernel(NAME, shared)?, program.kernel(SUM, 0)?));
        Ok(Gradients { block, tiles, count, shared, delta_bytes, parameters, atomic, pairs, slots, kernels })
    }
}

impl<K> Gradients<K> {
    /// Ranges of samples, at most: no fewer for more samples.
    fn most_ranges(&self, batch: usize) -> usize {
        let most = batch * self.count / (self.slots * LONG);
        let waves = WAVES.into_iter().find(|&waves| waves <= most).unwrap_or(1);
        (self.slots * waves / self.count).clamp(1, batch.div_ceil(LEAST))
    }

    /// Ranges of samples, and the samples of each.
    fn ranges(&self, batch: u32) -> (usize, usize) {
        let batch = batch as usize;
        let each = batch.div_ceil(self.most_ranges(batch)).next_multiple_of(self.block.slab);
        (batch.div_ceil(each), each)
    }

    /// Bytes that the deltas take; then come the sums of the ranges.
    fn deltas(&self, batch: u32) -> usize {
        (batch as usize * self.delta_bytes).next_multiple_of(256)
    }

    pub(super) fn workspace(&self, batch: u32) -> usize {
        // Fewer samples can come to as many ranges.
        self.deltas(batch) + self.most_ranges(batch as usize) * self.parameters * 4
    }
}

impl Gradients<Kernel> {
    /// Queues both kernels. The deltas lie where the workspace begins, layer after layer, each
    /// `batch x outputs`.
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
            .u32(number(ranges)?)
            .u32(number(each)?);
        let launch = Launch {
            shared: self.shared,
            ..Launch::new(number(ranges * self.count)?, number(self.block.threads)?)
        };
        // SAFETY: these are the kernel's arguments; `workspace` has room for the deltas and the
        // sums of so many ranges.
        unsafe { launch.queue(call.stream, kernel, arguments) }?;
        if direct {
            return Ok(());
        }
        let arguments = Arguments::default().addresses([partial, call.gradients]).u32(number(ranges)?);
        let blocks = number(self.parameters.div_ceil(SUM_WIDTH))?;
        // SAFETY: these are the kernel's arguments, of the lengths that it expects.
        unsafe { Launch::new(blocks, number(SUM_THREADS)?).queue(call.stream, sum, arguments) }
    }

    pub(super) fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let Some((kernel, sum)) = &self.kernels else { return Ok(Vec::new()) };
        let mut facts = vec![KernelFacts::new(NAME, kernel, self.shared)?];
        if !self.atomic {
            facts.push(KernelFacts::new(SUM, sum, 0)?);
        }
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use crate::cuda::{Implementation, Options};
    use flopgap_gpu::ComputeCapability;

    fn gradients(size: Size, precision: Precision, major: u32) -> Gradients {
        let network = size.network();
        let options = Options::new(Implementation::Coopmat);
        let target = Target::nominal(ComputeCapability { major, minor: 0 });
        Gradients::new(&Request { network: &network, precision, options, target })
    }

    #[test]
    fn blocks_are_those_that_were_measured() {
        let of = |size, precision, major| {
            let of = gradients(size, precision, major);
            (of.block.threads, of.block.slab, of.block.most, of.block.count, of.count)
        };
        assert_eq!(of(Size::Small, Precision::F32, 9), (128, 32, 128, 2, 2));
        assert_eq!(of(Size::Medium, Precision::F32, 9), (128, 32, 128, 2, 2));
        assert_eq!(of(Size::Large, Precision::F32, 9), (256, 32, 128, 1, 3));
        assert_eq!(of(Size::XLarge, Precision::F32, 9), (128, 32, 128, 2, 20));
        assert_eq!(of(Size::XLarge, Precision::F16, 9), (128, 16, 64, 3, 40), "copies that wait");
    }

    #[test]
    fn ranges_cover_the_batch_and_fit_the_workspace_of_a_larger_one() {
        for size in Size::ALL {
            let gradients = gradients(size, Precision::F32, 9);
            let mut most = 0;
            for batch in [1, 31, 32, 33, 257, 4097, 65_536, 100_001, 1 << 20, (1 << 31) - 1] {
                let (ranges, each) = gradients.ranges(batch);
                assert!(ranges * each >= batch as usize && (ranges - 1) * each < batch as usize, "{batch}");
                assert!(ranges <= gradients.most_ranges(batch as usize), "{batch}");
                assert!(gradients.most_ranges(batch as usize) >= most, "{batch}");
                most = gradients.most_ranges(batch as usize);
            }
        }
    }
}
