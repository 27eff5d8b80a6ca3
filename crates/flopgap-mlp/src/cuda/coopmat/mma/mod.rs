//! 16-bit precisions on `mma.sync`, for every architecture from `sm_75` on.

mod backward;
mod forward;
mod fused;
mod latency;

use crate::{MlpError, Network, Precision};

use super::super::budget;
use super::super::request::Request;
use super::super::source::Source;

pub(super) use backward::{Chain, ChainPlan, backward};
pub(super) use forward::forward;
pub(super) use fused::fused;
pub(super) use latency::latency;

/// Warps of a block.
const WARPS: usize = 8;
const THREADS: u32 = 32 * 8;

/// Sums that a thread holds, at most.
const MOST_SUMS: usize = 128;

/// Refuses what these instructions do not have.
pub(super) fn check(request: &Request<'_>) -> Result<(), MlpError> {
    let major = request.target.capability.major;
    match request.precision {
        Precision::F32 => Err(request.unsupported("these kernels take 16-bit numbers; forloop has fp32")),
        Precision::Bf16 if major < 8 => Err(request
            .unsupported("the tensor cores have no bfloat16 before sm_80; fp16 is there, naive has bf16")),
        Precision::F16 | Precision::Bf16 => Ok(()),
    }
}

/// As `pitch` in `tile/padded.cuh`.
const fn pitch(columns: usize) -> usize {
    columns.next_multiple_of(16) + 8
}

/// A tile of samples goes through the layers so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tiling {
    /// Samples of a tile.
    tile: usize,
    /// Columns that are summed at a time.
    chunk: usize,
    /// Stages of the ring that weights come in; 0 if all of them are in shared memory.
    stages: usize,
    /// Bytes of shared memory.
    shared: usize,
    /// Blocks that a multiprocessor is to hold at once.
    blocks: usize,
}

/// Numbers along the inner dimension that a slab of weights has.
const SLAB: usize = 32;

/// Instructions of a pass through all layers, more or less. Layers one after the other with the
/// same widths share their code.
fn instructions(network: &Network) -> usize {
    // Of a layer beside its activation, and numbers of a thread that the slope of one is computed
    // for.
    const LAYER: usize = 600;
    const NUMBERS: usize = 14;
    let widths = network.widths();
    (0..network.layers())
        .filter(|&layer| {
            layer == 0
                || layer + 1 == network.layers()
                || widths[layer - 1..=layer] != widths[layer..layer + 2]
        })
        .map(|layer| {
            let of = network.activation(layer);
            LAYER + NUMBERS * (budget::slope(of) + budget::activation(of))
        })
        .sum()
}

impl Tiling {
    /// The first that fits, from the best on. The backward pass goes through the layers from the
    /// last.
    fn choose(request: &Request<'_>, backward: bool) -> Result<Self, MlpError> {
        let code = instructions(request.network);
        if code > 2 * budget::KERNEL {
            return Err(budget::exceeded(request, code));
        }
        let widths = request.network.widths();
        let layers = request.network.layers();
        let sizes = [(128, 256), (64, 256), (32, 256), (32, 128), (16, 128)];
        let candidates = sizes.into_iter().flat_map(|(tile, chunk)| {
            let resident = (tile >= 64).then_some(0);
            resident.into_iter().chain([4, 3, 2]).map(move |stages| (tile, chunk, stages))
        });
        for (tile, chunk, stages) in candidates {
            let outer = |layer: usize| if backward { widths[layer] } else { widths[layer + 1] };
            let inner = |step: usize| if backward { widths[layers - step] } else { widths[step] };
            let of_chunk = |columns: usize| columns.div_ceil(columns.div_ceil(chunk)).next_multiple_of(16);
            let widest = (0..layers).map(|layer| of_chunk(outer(layer))).max().unwrap_or_default();
            let weights = match stages {
                0 => (0..layers).map(|l| widths[l + 1].next_multiple_of(16) * pitch(widths[l])).sum(),
                _ if backward => stages * SLAB * pitch(widest),
                _ => stages * widest * (SLAB + 8),
            };
            let buffer = |parity: usize| {
                (parity..layers).step_by(2).map(|step| pitch(inner(step))).max().unwrap_or_default() * tile
            };
            // The backward pass has the outputs beside the gradients by them.
            let outputs = if backward { pitch(request.network.outputs()) * tile } else { 0 };
            let shared = 2 * (weights + buffer(0) + buffer(1) + outputs);
            if shared <= request.target.shared_bytes {
                let twice = 2 * (shared + 1024) <= request.target.shared_bytes + 1024;
                // The backward pass has more at hand.
                let most = if backward { MOST_SUMS / 4 } else { MOST_SUMS / 2 };
                let light = tile * widest / (32 * WARPS) <= most;
                let blocks = if twice && light { 2 } else { 1 };
                return Ok(Tiling { tile, chunk, stages, shared, blocks });
            }
        }
        let widest = widths.iter().max().copied().unwrap_or_default();
        Err(request.unsupported(format!(
            "16 samples of layers as wide as {widest} do not fit the {} KiB of shared memory of a block; naive takes \
             wider ones",
            request.target.shared_bytes / 1024
        )))
    }

    /// Tiles of a batch.
    fn tiles(&self, batch: u32) -> u32 {
        batch.div_ceil(u32::try_from(self.tile).unwrap_or(u32::MAX))
    }

    /// A source with these constants.
    fn source(&self, request: &Request<'_>, path: &str, backward: bool) -> Source {
        let constants = [
            ("BACKWARD", usize::from(backward)),
            ("TILE", self.tile),
            ("CHUNK", self.chunk),
            ("SLAB", SLAB),
            ("RESIDENT", usize::from(self.stages == 0)),
            ("STAGES", self.stages.max(2)),
            ("BLOCKS", self.blocks),
            ("WARPS", WARPS),
        ];
        request.kernel(path, "", &constants)
    }
}
