//! The backward pass of a network with one hidden layer that is small enough: one kernel that
//! computes the hidden layer again and holds the gradients of the parameters in registers, and a
//! second one that adds up what the blocks found.

use flopgap_gpu::{GpuError, Kernel};

use crate::{MlpError, slope_from_output};

use super::super::super::kernels::{Backward, BackwardCall, KernelFacts};
use super::super::super::launch::{Arguments, Launch};
use super::super::super::options::Reduction;
use super::super::super::reduce::Reducer;
use super::super::super::request::Request;
use super::super::plan::Plan;
use super::backward::SUM;
use super::{check, pitch};

const KERNEL: &str = "coopmat_mlp_backward_mma_fused";

/// A tile of samples in a block, and blocks on a multiprocessor.
#[derive(Debug, Clone, Copy)]
struct Tiling {
    warps: usize,
    tile: usize,
    blocks: usize,
    shared: usize,
    /// Registers of a thread for the gradients of the first and the second layer.
    most: (usize, usize),
}

/// How warps share the gradients of a layer, as `best_split` in `fused.cu`: bytes that their sums
/// take at the end; none if they need more than `most` registers of a thread. Those that share the
/// samples of a tile have 16 each, at least.
fn epilogue(inputs: usize, outputs: usize, warps: usize, tile: usize, most: usize) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    for out in (0..=warps.ilog2()).map(|power| 1 << power) {
        for along in (0..=(warps / out).ilog2()).map(|power| 1 << power) {
            let (m, n) =
                (outputs.div_ceil(out).next_multiple_of(16), inputs.div_ceil(along).next_multiple_of(16));
            let cost = m * out * n * along / 64 * (m + n) * 64 / (m * n);
            let turns = warps / out / along;
            if turns <= tile / 16 && m * n / 32 <= most && best.is_none_or(|(least, _)| cost < least) {
                let weights = if turns > 1 { m * out * (n * along + 8) } else { 0 };
                best = Some((cost, 4 * weights.max(turns * m * out)));
            }
        }
    }
    best.map(|(_, bytes)| bytes)
}

impl Tiling {
    fn choose(request: &Request<'_>) -> Option<Self> {
        let &[inputs, hidden, outputs] = request.network.widths() else { return None };
        let most = request.target.shared_bytes;
        [(4, 64, 3), (4, 64, 2), (8, 128, 1), (8, 64, 1)].into_iter().find_map(|(warps, tile, blocks)| {
            let weights =
                hidden.next_multiple_of(16) * pitch(inputs) + outputs.next_multiple_of(16) * pitch(hidden);
            let samples = tile * (2 * pitch(inputs) + 2 * pitch(hidden) + 4 * pitch(outputs));
            // Fragments of thin layers reach a little beyond.
            let needed = 2 * (weights + samples) + 512;
            let most_registers = if warps == 4 { (32, 16) } else { (64, 16) };
            let first = epilogue(inputs, hidden, warps, tile, most_registers.0)?;
            let second = epilogue(hidden, outputs, warps, tile, most_registers.1)?;
            let shared = needed.max(first).max(second);
            let fits = shared <= most && blocks * (shared + 1024) <= most + 1024;
            fits.then_some(Tiling { warps, tile, blocks, shared, most: most_registers })
        })
    }
}

/// For a network with one hidden layer, where the slopes follow from the outputs and everything
/// fits.
pub(in super::super) fn fused(request: &Request<'_>) -> Option<Plan<dyn Backward>> {
    check(request).ok()?;
    let tiling = Tiling::choose(request)?;
    let network = request.network;
    if !(0..network.layers()).all(|layer| slope_from_output(network.activation(layer))) {
        return None;
    }
    let atomic = request.options.reduction == Reduction::Atomic;
    let parameters = network.parameters();
    let most_blocks = request.target.multiprocessors as usize * tiling.blocks;
    let constants = [
        ("WARPS", tiling.warps),
        ("TILE", tiling.tile),
        ("BLOCKS", tiling.blocks),
        ("MOST_FIRST", tiling.most.0),
        ("MOST_SECOND", tiling.most.1),
        ("ATOMIC", usize::from(atomic)),
    ];
    let functions = format!(
        "__device__ constexpr u64 ranges_of(int) {{ return {most_blocks}; }}\n\
         __device__ constexpr u64 stride_of(int) {{ return PARAMETERS; }}\n\
         __device__ constexpr u64 sums_at(int layer) {{ return weights_at(layer); }}\n"
    );
    Some(Plan {
        sources: vec![request.kernel("coopmat/mma/fused.cu", &functions, &constants)],
        load: Box::new(move |programs| {
            Ok::<_, MlpError>(Box::new(Fused {
                kernel: programs[0].kernel(KERNEL, tiling.shared)?,
                reducer: Reducer::load(&programs[0], SUM, parameters, atomic)?,
                tiling,
                most_blocks,
            }))
        }),
    })
}

#[derive(Debug)]
struct Fused {
    kernel: Kernel,
    reducer: Reducer,
    tiling: Tiling,
    most_blocks: usize,
}

impl Fused {
    fn blocks(&self, batch: u32) -> u32 {
        let tiles = (batch as usize).div_ceil(self.tiling.tile);
        u32::try_from(tiles.min(self.most_blocks)).unwrap_or(u32::MAX)
    }
}

impl Backward for Fused {
    fn keeps(&self, _batch: u32) -> bool {
        false
    }

    fn workspace(&self, batch: u32) -> usize {
        self.reducer.workspace(self.blocks(batch))
    }

    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        let found = self.reducer.prepare(call)?;
        let blocks = self.blocks(call.batch);
        let mut launch = Launch::new(blocks, 32 * u32::try_from(self.tiling.warps).unwrap_or(1));
        launch.shared = self.tiling.shared;
        let arguments = Arguments::default()
            .addresses([call.parameters, call.x, call.y, call.dy, call.dx.unwrap_or(0), found])
            .u32(call.batch);
        // SAFETY: these are the kernel's arguments, of the lengths that it expects; it leaves out
        // inputs' gradients at address 0.
        unsafe { launch.queue(call.stream, &self.kernel, arguments) }?;
        // SAFETY: these are the kernel's arguments; what every block found was written.
        unsafe { self.reducer.finish(call, Some(blocks)) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let mut facts = vec![KernelFacts::new(KERNEL, &self.kernel, self.tiling.shared)?];
        facts.extend(self.reducer.facts()?);
        Ok(facts)
    }
}
