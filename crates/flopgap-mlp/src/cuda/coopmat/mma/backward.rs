//! The backward pass: the gradients before every activation on tiles of samples, then the gradients
//! of the parameters, layer by layer, over ranges of samples, then their sums.

use flopgap_gpu::{GpuError, Kernel};

use crate::{MlpError, Network, slope_from_output};

use super::super::super::kernels::{Backward, BackwardCall, KernelFacts};
use super::super::super::launch::{Arguments, Launch};
use super::super::super::options::Reduction;
use super::super::super::reduce::{Reducer, SumKernel};
use super::super::super::request::Request;
use super::super::super::source::{Program, Source, table_of};
use super::super::plan::Plan;
use super::{MOST_SUMS, THREADS, Tiling, WARPS, check, pitch};

const CHAIN: &str = "coopmat_mlp_backward_mma_chain";
const GRADIENTS: &str = "coopmat_mlp_backward_mma_gradients";
pub(super) const SUM: SumKernel = SumKernel {
    name: "coopmat_mlp_backward_mma_sum",
    threads: 1024,
    parameters_of_block: 128,
    overlap: false,
};

/// Samples of a stage that a warp takes when gradients of parameters are summed.
const SLAB: usize = 32;
/// Samples for which it is worth to add one more range.
const LEAST_RANGE: u32 = 128;

/// For every network whose layers fit.
pub(in super::super) fn backward(request: &Request<'_>) -> Result<Plan<dyn Backward>, MlpError> {
    let (chain_source, chain) = ChainPlan::new(request)?;
    let gradients = Gradients::choose(request)?;
    let sources = vec![chain_source, gradients.source(request)];
    let network = request.network.clone();
    let sums_kept = !slope_from_output(network.activation(0));
    Ok(Plan {
        sources,
        load: Box::new(move |programs| {
            Ok(Box::new(ChainAndGradients {
                chain: chain.load(&programs[0])?,
                gradients_kernel: programs[1].kernel(GRADIENTS, gradients.shared)?,
                reducer: Reducer::load(&programs[1], SUM, network.parameters(), gradients.atomic)?,
                gradients,
                network,
                sums_kept,
            }))
        }),
    })
}

/// The kernel that goes down the layers, before it is compiled.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct ChainPlan {
    tiling: Tiling,
    multiprocessors: u32,
}

impl ChainPlan {
    /// Its source, too.
    pub(in super::super) fn new(request: &Request<'_>) -> Result<(Source, Self), MlpError> {
        check(request)?;
        let tiling = Tiling::choose(request, true)?;
        let source = tiling.source(request, "coopmat/mma/chain.cu", true);
        Ok((source, ChainPlan { tiling, multiprocessors: request.target.multiprocessors }))
    }

    pub(in super::super) fn load(self, program: &Program) -> Result<Chain, MlpError> {
        Ok(Chain { kernel: program.kernel(CHAIN, self.tiling.shared)?, plan: self })
    }
}

/// The kernel that goes down the layers.
#[derive(Debug)]
pub(in super::super) struct Chain {
    kernel: Kernel,
    plan: ChainPlan,
}

impl Chain {
    /// Writes `deltas`, the gradients before the activations, layer after layer, and, where the
    /// tape has sums, the outputs of hidden layers to `activations`.
    pub(in super::super) fn queue(
        &self,
        call: &BackwardCall<'_>,
        deltas: u64,
        activations: u64,
    ) -> Result<(), GpuError> {
        let ChainPlan { tiling, multiprocessors } = self.plan;
        let blocks = multiprocessors * u32::try_from(tiling.blocks).unwrap_or(1);
        let mut launch = Launch::new(tiling.tiles(call.batch).min(blocks), THREADS);
        launch.shared = tiling.shared;
        let arguments = Arguments::default()
            .addresses([call.parameters, call.y, call.dy, call.tape])
            .addresses([call.dx.unwrap_or(0), deltas, activations])
            .u32(call.batch);
        // SAFETY: these are the kernel's arguments, of the lengths that it expects; it leaves out
        // inputs at address 0.
        unsafe { launch.queue(call.stream, &self.kernel, arguments) }
    }

    pub(in super::super) fn facts(&self) -> Result<KernelFacts, GpuError> {
        KernelFacts::new(CHAIN, &self.kernel, self.plan.tiling.shared)
    }
}

/// How the weights of a layer are shared among blocks and warps; as `Shape` in `gradients.cu`.
#[derive(Debug, Clone, Copy)]
struct Shape {
    along_samples: usize,
    tile_out: usize,
    tile_in: usize,
    tiles: usize,
    sums: usize,
    samples: usize,
}

impl Shape {
    fn new(inputs: usize, outputs: usize, warp: usize) -> Self {
        let warps_for = |length: usize, most: usize| length.div_ceil(warp).next_power_of_two().min(most);
        let piece = |length: usize, warps: usize| {
            let tiles = length.div_ceil(warp * warps);
            length.div_ceil(tiles * warps).next_multiple_of(16)
        };
        let (along_out, along_in) = (warps_for(outputs, 2), warps_for(inputs, WARPS / 2));
        let along_samples = WARPS / along_out / along_in;
        let (m, n) = (piece(outputs, along_out), piece(inputs, along_in));
        let (tile_out, tile_in) = (m * along_out, n * along_in);
        Shape {
            along_samples,
            tile_out,
            tile_in,
            tiles: outputs.div_ceil(tile_out) * inputs.div_ceil(tile_in),
            sums: m * n / 32,
            samples: SLAB * along_samples,
        }
    }

    /// Bytes of a stage.
    fn stage(&self) -> usize {
        2 * self.samples * (pitch(self.tile_out) + pitch(self.tile_in))
    }

    /// Bytes that the sums of several warps take, and those of the biases.
    fn epilogue(&self) -> usize {
        let weights = if self.along_samples > 1 { self.tile_out * (self.tile_in + 8) } else { 0 };
        4 * weights.max(WARPS * self.tile_out)
    }

    /// Clocks for a sample, about: of the tensor cores and of what must come from the cache.
    fn cost(&self) -> f64 {
        (self.tile_out * self.tile_in) as f64 / 1260.0 + (self.tile_out + self.tile_in) as f64 / 30.0
    }
}

/// The kernel that sums the gradients of the parameters.
#[derive(Debug, Clone)]
struct Gradients {
    /// Rows and columns that a warp has, at most.
    piece: usize,
    stages: usize,
    shared: usize,
    resident: usize,
    /// For each layer, into how many ranges the samples are cut.
    ranges: Vec<usize>,
    /// For each layer, its first block; then the number of blocks.
    first_block: Vec<usize>,
    /// For each layer, where its sums begin; then their number.
    sums_at: Vec<usize>,
    atomic: bool,
}

impl Gradients {
    fn choose(request: &Request<'_>) -> Result<Self, MlpError> {
        let network = request.network;
        let most = request.target.shared_bytes;
        let of_warps = |piece: usize| {
            let shapes: Vec<Shape> =
                network.widths().windows(2).map(|pair| Shape::new(pair[0], pair[1], piece)).collect();
            let stage = shapes.iter().map(Shape::stage).max().unwrap_or_default();
            let epilogue = shapes.iter().map(Shape::epilogue).max().unwrap_or_default();
            [4, 3, 2]
                .map(|stages| (piece, stages, (stages * stage).max(epilogue)))
                .into_iter()
                .find(|&(_, _, shared)| shared <= most)
                .map(|choice| (choice, shapes))
        };
        let Some(((piece, stages, shared), shapes)) = [64, 32].into_iter().find_map(of_warps) else {
            return Err(request
                .unsupported(format!("two stages of samples do not fit {most} bytes of shared memory")));
        };
        let light = shapes.iter().all(|shape| shape.sums <= MOST_SUMS / 2);
        let resident = if light && 2 * (shared + 1024) <= most + 1024 { 2 } else { 1 };
        let blocks = (request.target.multiprocessors as usize * resident) as f64;
        let all: f64 = shapes.iter().map(|shape| shape.tiles as f64 * shape.cost()).sum();
        let (mut ranges, mut first_block, mut sums_at) = (Vec::new(), vec![0], vec![0]);
        for (layer, shape) in shapes.iter().enumerate() {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small positive number"
            )]
            let count = ((blocks * shape.cost() / all) as usize).max(1);
            ranges.push(count);
            first_block.push(first_block[layer] + count * shape.tiles);
            let size = network.biases(layer).end - network.weights(layer).start;
            sums_at.push(sums_at[layer] + count * size);
        }
        let atomic = request.options.reduction == Reduction::Atomic;
        Ok(Gradients { piece, stages, shared, resident, ranges, first_block, sums_at, atomic })
    }

    fn source(&self, request: &Request<'_>) -> Source {
        let sizes: Vec<usize> =
            request.network.widths().windows(2).map(|pair| (pair[0] + 1) * pair[1]).collect();
        let layers = self.ranges.len();
        let functions = [
            ("ranges_of", &self.ranges[..]),
            ("first_block", &self.first_block[..layers]),
            ("sums_at", &self.sums_at[..layers]),
            ("stride_of", &sizes),
        ]
        .map(|(name, values)| table_of("u64", name, values))
        .concat();
        let constants = [
            ("WARPS", WARPS),
            ("PIECE", self.piece),
            ("SLAB", SLAB),
            ("STAGES", self.stages),
            ("BLOCKS", self.resident),
            ("ATOMIC", usize::from(self.atomic)),
        ];
        request.kernel("coopmat/mma/gradients.cu", &functions, &constants)
    }

    fn blocks(&self) -> u32 {
        u32::try_from(self.first_block[self.first_block.len() - 1]).unwrap_or(u32::MAX)
    }

    /// Bytes of the sums of all ranges.
    fn bytes(&self) -> usize {
        if self.atomic { 0 } else { 4 * self.sums_at[self.sums_at.len() - 1] }
    }
}

#[derive(Debug)]
struct ChainAndGradients {
    chain: Chain,
    gradients_kernel: Kernel,
    reducer: Reducer,
    gradients: Gradients,
    network: Network,
    /// Whether the tape has the sums of the hidden layers, and not their outputs.
    sums_kept: bool,
}

/// Where the parts of the workspace begin.
struct Workspace {
    deltas: usize,
    activations: usize,
    end: usize,
}

impl ChainAndGradients {
    fn parts(&self, batch: u32) -> Workspace {
        let bytes = |elements: usize| (2 * elements * batch as usize).next_multiple_of(256);
        let widths = self.network.widths();
        let deltas = self.gradients.bytes().next_multiple_of(256);
        let activations = deltas + bytes(widths[1..].iter().sum());
        let hidden: usize = widths[1..widths.len() - 1].iter().sum();
        let end = activations + if self.sums_kept { bytes(hidden) } else { 0 };
        Workspace { deltas, activations, end }
    }
}

impl Backward for ChainAndGradients {
    fn keeps(&self, _batch: u32) -> bool {
        true
    }

    fn workspace(&self, batch: u32) -> usize {
        self.parts(batch).end
    }

    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        let parts = self.parts(call.batch);
        let deltas = call.workspace + parts.deltas as u64;
        let activations = if self.sums_kept { call.workspace + parts.activations as u64 } else { call.tape };

        self.chain.queue(call, deltas, activations)?;
        let found = self.reducer.prepare(call)?;
        let most_ranges = call.batch.div_ceil(LEAST_RANGE);
        let mut launch = Launch::new(self.gradients.blocks(), THREADS);
        launch.shared = self.gradients.shared;
        let arguments = Arguments::default()
            .addresses([call.x, activations, deltas, found])
            .u32(call.batch)
            .u32(most_ranges);
        // SAFETY: these are the kernel's arguments; the workspace has what `workspace` asked for.
        unsafe { launch.queue(call.stream, &self.gradients_kernel, arguments) }?;
        // SAFETY: these are the kernel's arguments; the sums of all ranges that it reads were
        // written.
        unsafe { self.reducer.finish(call, Some(most_ranges)) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let mut facts = vec![
            self.chain.facts()?,
            KernelFacts::new(GRADIENTS, &self.gradients_kernel, self.gradients.shared)?,
        ];
        facts.extend(self.reducer.facts()?);
        Ok(facts)
    }
}
