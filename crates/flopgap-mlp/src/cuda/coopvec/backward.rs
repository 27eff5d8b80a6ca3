//! The backward pass: the weights transposed, the gradients before every activation, the gradients
//! of the weights by shares of the batch, and the sum of the shares.

use flopgap_gpu::{Context, GpuError, Kernel};

use crate::cuda::budget;
use crate::cuda::kernels::{Backward, BackwardCall, KernelFacts, zero};
use crate::cuda::launch::{Arguments, Launch};
use crate::cuda::options::{Accumulate, Options, Reduction};
use crate::cuda::request::Request;
use crate::cuda::source::{Binaries, Source};
use crate::{Activation, MlpError, Precision, slope_from_output};

use super::shape::{Rolled, Shape};

/// As in the forward pass.
const OTHERS: usize = 48;
const PIECE: usize = 16;

/// Threads of the kernel that transposes, and of the one that adds.
const HELPERS: u32 = 256;
/// Samples that a share of the batch has at least.
const LEAST: u32 = 256;

/// The kernel of the gradients before activations.
#[derive(Debug, Clone, Copy)]
struct Deltas {
    rows: usize,
    warps: usize,
    stages: usize,
    reload: bool,
    rolled: Rolled,
    shared: usize,
}

/// The kernel of the gradients of the weights.
#[derive(Debug, Clone, Copy)]
struct Gradients {
    tile: (usize, usize),
    warps: (usize, usize),
    step: usize,
    stages: usize,
    shared: usize,
}

/// Which kernels, with which constants.
#[derive(Debug)]
pub(super) struct Plan {
    shape: Shape,
    deltas: Deltas,
    gradients: Gradients,
}

impl Plan {
    pub(super) fn new(request: &Request<'_>) -> Result<Self, MlpError> {
        let shape = Shape::new(request.network, request.precision);
        Ok(Plan { deltas: deltas(request, &shape)?, gradients: gradients(request, &shape), shape })
    }

    pub(super) fn sources(&self, request: &Request<'_>) -> Vec<Source> {
        let Plan { deltas, gradients, .. } = self;
        let atomic = request.options.reduction == Reduction::Atomic;
        // Sums over samples grow with the batch: always in 32 bits.
        let exact =
            Request { options: Options { accumulate: Accumulate::F32, ..request.options }, ..*request };
        let of_deltas = |kernel: usize| {
            super::source(
                request,
                "coopvec/deltas.cu",
                Some(kernel),
                deltas.rolled,
                &[
                    ("ROWS", deltas.rows),
                    ("WARPS", deltas.warps),
                    ("THREADS", 32 * deltas.warps),
                    ("BLOCKS", 1),
                    ("STAGES", deltas.stages),
                    ("RELOAD", usize::from(deltas.reload)),
                ],
            )
        };
        vec![
            of_deltas(0),
            of_deltas(1),
            super::source(
                &exact,
                "coopvec/gradients.cu",
                None,
                Rolled::No,
                &[
                    ("ROWS", 2),
                    ("TILE_M", gradients.tile.0),
                    ("TILE_N", gradients.tile.1),
                    ("WARPS_M", gradients.warps.0),
                    ("WARPS_N", gradients.warps.1),
                    ("WARPS", gradients.warps.0 * gradients.warps.1),
                    ("THREADS", 32 * gradients.warps.0 * gradients.warps.1),
                    ("BLOCKS", 1),
                    ("STEP", gradients.step),
                    ("STAGES", gradients.stages),
                    ("ATOMIC", usize::from(atomic)),
                ],
            ),
        ]
    }

    pub(super) fn load(
        &self,
        request: &Request<'_>,
        binaries: &Binaries,
        context: &Context,
    ) -> Result<Box<dyn Backward>, MlpError> {
        let sources = self.sources(request);
        let [deltas, deltas_dx, gradients] =
            [0, 1, 2].map(|index: usize| sources[index].load(binaries, context));
        let (deltas, deltas_dx, gradients) = (deltas?, deltas_dx?, gradients?);
        let multiprocessors = request.target.multiprocessors;
        let pass =
            |program: &super::super::source::Program, name: &'static str, threads: u32, shared: usize| {
                let kernel = program.kernel(name, shared)?;
                let blocks = super::filling(&kernel, multiprocessors, threads, shared)?;
                let launch =
                    Launch { shared, overlap: super::overlap(request), ..Launch::new(blocks, threads) };
                Ok::<_, MlpError>(Pass { name, kernel, launch })
            };
        let threads = |warps: usize| u32::try_from(32 * warps).unwrap_or_default();
        let (m, n) = self.gradients.warps;
        let network = request.network;
        let hidden: usize = network.widths()[1..network.layers()].iter().sum();
        let tiles = |edge: usize| -> u32 {
            let count = |pair: &[usize]| pair[0].div_ceil(edge) * pair[1].div_ceil(edge);
            network.widths().windows(2).map(count).sum::<usize>().try_into().unwrap_or(u32::MAX)
        };
        let (tile_m, tile_n) = self.gradients.tile;
        let gradient_tiles: usize =
            network.widths().windows(2).map(|pair| pair[1].div_ceil(tile_m) * pair[0].div_ceil(tile_n)).sum();
        let gradient_tiles = u32::try_from(gradient_tiles).unwrap_or(u32::MAX);
        let gradients =
            pass(&gradients, "coopvec_mlp_backward_gradients", threads(m * n), self.gradients.shared)
                .map(|first| (first, gradients))?;
        let (gradients, program) = gradients;
        let output = network.activation(network.layers() - 1);
        let of_output = if output == Activation::Identity { 0 } else { network.outputs() };
        let samples = 8 * self.deltas.rows * if self.deltas.stages == 0 { 1 } else { self.deltas.warps };
        Ok(Box::new(CoopvecBackward {
            transpose: pass(&deltas, "coopvec_mlp_transpose", HELPERS, 0)?,
            transpose_tiles: tiles(32),
            deltas: [
                pass(&deltas, "coopvec_mlp_backward_deltas", threads(self.deltas.warps), self.deltas.shared)?,
                pass(
                    &deltas_dx,
                    "coopvec_mlp_backward_deltas_dx",
                    threads(self.deltas.warps),
                    self.deltas.shared,
                )?,
            ],
            samples: u32::try_from(samples).unwrap_or_default(),
            shares: (gradients.launch.grid.0 / gradient_tiles).max(1),
            gradient_tiles,
            step: u32::try_from(self.gradients.step).unwrap_or_default(),
            gradients,
            add: pass(&program, "coopvec_mlp_backward_add", HELPERS, 0)?,
            atomic: request.options.reduction == Reduction::Atomic,
            parameters: network.parameters(),
            bytes: self.shape.bytes,
            kept_deltas: hidden + of_output,
            kept_outputs: if slope_from_output(network.activation(0)) { 0 } else { hidden },
        }))
    }
}

fn deltas(request: &Request<'_>, shape: &Shape) -> Result<Deltas, MlpError> {
    let limit = request.target.shared_bytes;
    // Sums on the tape, which outputs are computed from beside the slopes, take more.
    let of_sums = !slope_from_output(request.network.activation(0));
    let others = match (shape.bytes, of_sums) {
        (4, _) => OTHERS + 56,
        (_, true) => OTHERS + 16,
        _ => OTHERS,
    };
    let fits = |rows: usize, reload: bool| {
        rows * (shape.backward_registers(reload) + PIECE) + others <= budget::REGISTERS
    };
    // As in the forward pass.
    let candidates: &[usize] = if shape.bytes == 4 { &[2, 1] } else { &[4, 2] };
    let choice = candidates
        .iter()
        .flat_map(|&rows| [(rows, false), (rows, true)])
        .find(|&(rows, reload)| fits(rows, reload));
    let Some((rows, reload)) = choice else {
        let rows = candidates[candidates.len() - 1];
        return Err(request.unsupported(format!(
            "a lane keeps the gradients of a layer in registers, {} here at least: too many; coopmat keeps them in shared memory",
            rows * shape.backward_registers(true)
        )));
    };
    // The gradients of a layer that are read again take loops.
    let instructions = |(rolled, reload): (Rolled, bool)| shape.backward_instructions(rows, reload, rolled);
    let ways = [(Rolled::No, reload), (Rolled::Layers, true), (Rolled::Operands, true)];
    let Some((rolled, reload)) =
        ways.into_iter().find(|&way| super::is_short(request, instructions(way), way.0))
    else {
        return Err(budget::exceeded(request, instructions((Rolled::Operands, true))));
    };
    let slabs = shape.backward_slabs();
    let shared = |stages: usize| shape.bytes * if stages == 0 { slabs.all } else { stages * slabs.largest };
    let small = 2 * shared(0) <= limit && rows * (shape.backward_registers(reload) + PIECE) + others <= 168;
    match [0, 4, 3, 2].into_iter().find(|&stages| shared(stages) <= limit) {
        Some(stages) => {
            let warps = if small { 4 } else { 8 };
            Ok(Deltas { rows, warps, stages, reload, rolled, shared: shared(stages) })
        }
        None => Err(request.unsupported(format!(
            "two pieces of a layer's weights take {} bytes of shared memory, a block has {limit}; coopmat cuts them smaller",
            shared(2)
        ))),
    }
}

fn gradients(request: &Request<'_>, shape: &Shape) -> Gradients {
    let edge = |widths: &[usize]| if widths.iter().any(|&width| width >= 128) { 128 } else { 64 };
    let layers = shape.layers();
    let tile = (edge(&shape.widths[1..]), edge(&shape.widths[..layers]));
    let (warps, step) = match (request.precision, tile) {
        (Precision::F32, _) => ((4, 2), 16),
        (_, (64, 64)) => ((2, 2), 32),
        (_, (128, 64)) => ((4, 2), 32),
        _ => ((2, 4), 32),
    };
    let stage = step * (tile.0 + tile.1) * shape.bytes;
    let stages = (request.target.shared_bytes / stage).clamp(2, 4);
    Gradients { tile, warps, step, stages, shared: stages * stage }
}

#[derive(Debug)]
struct Pass {
    name: &'static str,
    kernel: Kernel,
    launch: Launch,
}

#[derive(Debug)]
struct CoopvecBackward {
    transpose: Pass,
    transpose_tiles: u32,
    /// Without and with the gradients by the inputs.
    deltas: [Pass; 2],
    /// Samples of a warp of theirs, or of a block whose warps go together.
    samples: u32,
    gradients: Pass,
    gradient_tiles: u32,
    /// How many shares the batch is cut into at most, and what the samples of one are a multiple
    /// of.
    shares: u32,
    step: u32,
    add: Pass,
    atomic: bool,
    parameters: usize,
    bytes: usize,
    /// Numbers of a sample in the workspace.
    kept_deltas: usize,
    kept_outputs: usize,
}

/// Where things lie in the workspace, and its length.
#[derive(Debug)]
struct Layout {
    deltas: u64,
    outputs: u64,
    partials: u64,
    end: u64,
}

impl CoopvecBackward {
    fn most_shares(&self, batch: u32) -> u32 {
        self.shares.min(batch.div_ceil(LEAST))
    }

    /// The transposed weights come first.
    fn layout(&self, batch: u32) -> Layout {
        let aligned = |bytes: usize| bytes.next_multiple_of(256) as u64;
        let deltas = aligned(self.parameters * self.bytes);
        let outputs = deltas + aligned(self.kept_deltas * batch as usize * self.bytes);
        let partials = outputs + aligned(self.kept_outputs * batch as usize * self.bytes);
        let shares = if self.atomic { 0 } else { self.most_shares(batch) as usize };
        Layout { deltas, outputs, partials, end: partials + aligned(shares * self.parameters * 4) }
    }
}

impl Backward for CoopvecBackward {
    fn keeps(&self, _batch: u32) -> bool {
        true
    }

    fn workspace(&self, batch: u32) -> usize {
        usize::try_from(self.layout(batch).end).unwrap_or(usize::MAX)
    }

    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        let layout = self.layout(call.batch);
        let [deltas, outputs, partials] =
            [layout.deltas, layout.outputs, layout.partials].map(|offset| call.workspace + offset);
        let queue = |pass: &Pass, grid: (u32, u32, u32), arguments: Arguments<'_>| {
            let launch = Launch { grid, ..pass.launch };
            // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
            // expects: `Model` checked them, and the workspace has the length that `workspace`
            // gave.
            unsafe { launch.queue(call.stream, &pass.kernel, arguments) }
        };
        if self.atomic {
            // SAFETY: `gradients` has so many floats: `Model` checked it.
            unsafe { zero(call.stream, call.gradients, self.parameters * 4) }?;
        }
        let arguments = Arguments::default().addresses([call.parameters, call.workspace]);
        // Only kernels can be overlapped, not the zeros.
        let launch =
            Launch { overlap: self.transpose.launch.overlap && !self.atomic, ..self.transpose.launch };
        let launch = Launch { grid: (self.transpose_tiles, 1, 1), ..launch };
        // SAFETY: as above.
        unsafe { launch.queue(call.stream, &self.transpose.kernel, arguments) }?;

        let pass = &self.deltas[usize::from(call.dx.is_some())];
        let arguments = Arguments::default()
            .addresses([call.workspace, call.x, call.y, call.dy, call.tape, deltas, outputs])
            .addresses([call.dx.unwrap_or(0)])
            .u32(call.batch);
        queue(pass, (call.batch.div_ceil(self.samples).min(pass.launch.grid.0), 1, 1), arguments)?;

        let length = call.batch.div_ceil(self.most_shares(call.batch)).next_multiple_of(self.step);
        let shares = call.batch.div_ceil(length);
        let hidden = if self.kept_outputs == 0 { call.tape } else { outputs };
        let sums = if self.atomic { call.gradients } else { partials };
        let arguments = Arguments::default()
            .addresses([call.x, hidden, call.dy, deltas, sums])
            .u32(call.batch)
            .u32(length);
        queue(&self.gradients, (self.gradient_tiles, shares, 1), arguments)?;
        if !self.atomic {
            let arguments = Arguments::default().addresses([partials, call.gradients]).u32(shares);
            let blocks = u32::try_from(self.parameters.div_ceil(4 * 32)).unwrap_or(u32::MAX);
            queue(&self.add, (blocks, 1, 1), arguments)?;
        }
        Ok(())
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let all = [&self.transpose, &self.deltas[0], &self.deltas[1], &self.gradients, &self.add];
        let used = if self.atomic { &all[..4] } else { &all[..] };
        used.iter().map(|pass| KernelFacts::new(pass.name, &pass.kernel, pass.launch.shared)).collect()
    }
}
