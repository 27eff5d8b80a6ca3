//! The chain of gradients with everything through shared memory, weights too: its source and its
//! launch.

use flopgap_gpu::cudarc::driver::sys;
use flopgap_gpu::{GpuError, Kernel};

use crate::cuda::kernels::{BackwardCall, KernelFacts};
use crate::cuda::launch::{Arguments, Launch};
use crate::cuda::request::Request;
use crate::cuda::source::{Program, Source};
use crate::{MlpError, Network, Precision, slope_from_output};

use super::map::map;
use super::{
    BARRIER, CHUNK, RESULT_ROWS, ROW_BYTES, TILE, instructions, registers_of_groups, threads, tiles,
};

const NAME: &str = "coopmat_mlp_backward_wgmma_chain_stream";

/// Columns that are computed at once at most, below the first layer and, if registers allow, below
/// the others, or else below those.
const WIDEST_PART: usize = 128;
const NARROW_PART: usize = 64;
/// Blocks of a cluster, which share the weights. With four, `xlarge` is no faster.
const CLUSTER: usize = 2;
/// Warpgroups that compute, and the samples of a block: a tile of each.
const GROUPS: usize = 2;
const BLOCK_TILE: usize = GROUPS * TILE;
/// Bytes of 64 samples, or rows of weights, by 64 columns.
const BOX: usize = CHUNK * ROW_BYTES;
/// Bytes of a place in the ring: 64 rows of the widest part or 64 columns of all samples, and its
/// two barriers.
const SLAB: usize = GROUPS * BOX + 2 * BARRIER;
const MOST_SLABS: usize = 12;
/// Bytes of two boxes of results for each warp.
const RESULTS: usize = 2 * 4 * GROUPS * RESULT_ROWS * ROW_BYTES;
/// Registers for numbers, of 232, with which nothing spills.
const MOST_REGISTERS: usize = 192;
/// More maps do not fit a kernel's 4 KiB of arguments: three for each layer, and three.
const MOST_LAYERS: usize = 9;

/// What is launched.
#[derive(Debug)]
pub(super) struct ChainStream {
    kernel: Kernel,
    shared: usize,
}

/// What is loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    shared: usize,
}

impl Plan {
    pub(super) fn load(self, program: &Program) -> Result<ChainStream, MlpError> {
        Ok(ChainStream { kernel: program.kernel(NAME, self.shared)?, shared: self.shared })
    }
}

impl ChainStream {
    pub(super) fn plan(request: &Request<'_>) -> Result<(Source, Plan), MlpError> {
        let widths = request.network.widths();
        if request.network.layers() > MOST_LAYERS {
            return Err(request.unsupported(format!(
                "the maps of more than {MOST_LAYERS} layers do not fit a kernel's arguments; mma.sync is there instead"
            )));
        }
        let fits = |hidden: &usize| registers(widths, *hidden) <= MOST_REGISTERS;
        let Some(hidden) = [WIDEST_PART, NARROW_PART].into_iter().find(fits) else {
            return Err(request.unsupported("a layer is too wide for registers; mma.sync is there instead"));
        };
        let slabs = (request.target.shared_bytes.saturating_sub(RESULTS) / SLAB).min(MOST_SLABS);
        let shared = slabs * SLAB + RESULTS;
        let [compute, copy] = registers_of_groups(GROUPS);
        let columns = widths[..widths.len() - 1].iter().enumerate().flat_map(|(layer, &width)| {
            let part = part(layer, hidden);
            (0..width).step_by(part).map(move |column| (width - column).min(part))
        });
        let body = instructions::functions(request.precision, columns) + include_str!("chain_stream.cu");
        let constants = [
            ("SLABS", slabs),
            ("BLOCKS_OF_CLUSTER", CLUSTER),
            ("WIDEST_PART", WIDEST_PART),
            ("HIDDEN_PART", hidden),
            ("SHARED_BYTES", shared),
            ("REGISTERS_TO_COMPUTE", compute),
            ("REGISTERS_TO_COPY", copy),
        ];
        let architecture = request.target.architecture().specific();
        let source = request.source_for(architecture, "coopmat/wgmma/chain_stream.cu", &body, &constants);
        Ok((source, Plan { shared }))
    }

    /// Queues the kernel, which writes `deltas`: the gradients before the activations, layer after
    /// layer. What the tape has of the hidden layers must be their outputs.
    pub(super) fn queue(
        &self,
        call: &BackwardCall<'_>,
        network: &Network,
        precision: Precision,
        deltas: u64,
        multiprocessors: u32,
    ) -> Result<(), GpuError> {
        let arguments = Arguments::default()
            .maps(maps(call, network, precision, deltas)?)
            .u32(call.batch)
            .u32(u32::from(call.dx.is_some()));
        let cluster = u32::try_from(CLUSTER).unwrap_or(u32::MAX);
        let blocks = (multiprocessors / cluster * cluster)
            .min(tiles(call.batch, BLOCK_TILE).next_multiple_of(cluster))
            .max(cluster);
        let launch = Launch { shared: self.shared, ..Launch::new(blocks, threads(GROUPS)) };
        // SAFETY: these are the kernel's arguments; the maps are of arrays of the lengths that
        // `Model` checked and of the workspace, which has room for `deltas`. Without `dx`, the
        // kernel leaves out the inputs.
        unsafe { launch.queue(call.stream, &self.kernel, arguments) }
    }

    pub(super) fn facts(&self) -> Result<KernelFacts, GpuError> {
        KernelFacts::new(NAME, &self.kernel, self.shared)
    }
}

/// The maps, in the order of `Maps` in `chain_stream.cu`.
fn maps(
    call: &BackwardCall<'_>,
    network: &Network,
    precision: Precision,
    deltas: u64,
) -> Result<Vec<sys::CUtensorMap>, GpuError> {
    let (widths, layers, batch) = (network.widths(), network.layers(), call.batch as usize);
    let bytes = |elements: usize| (elements * precision.bytes()) as u64;
    // Where the samples of a layer's outputs begin in what lies layer after layer.
    let at = |layer: usize| bytes(widths[1..=layer].iter().sum::<usize>() * batch);
    let loaded = |address: u64, width: usize| map(precision, address, batch, width, BLOCK_TILE);
    let stored = |address: u64, width: usize| map(precision, address, batch, width, RESULT_ROWS);
    let outputs = network.outputs();
    // With sums of the outputs on the tape, they come after the hidden layers.
    let kept =
        if slope_from_output(network.activation(layers - 1)) { call.y } else { call.tape + at(layers - 1) };
    let mut maps = Vec::new();
    for layer in 0..layers {
        let address = call.parameters + bytes(network.weights(layer).start);
        maps.push(map(precision, address, widths[layer + 1], widths[layer], CHUNK / CLUSTER)?);
    }
    // A map must have some address, also when nothing is written there.
    maps.push(stored(call.dx.unwrap_or(call.x), widths[0])?);
    maps.push(loaded(call.dy, outputs)?);
    maps.push(loaded(kept, outputs)?);
    for layer in 0..layers {
        maps.push(stored(deltas + at(layer), widths[layer + 1])?);
    }
    for layer in 0..layers - 1 {
        maps.push(loaded(call.tape + at(layer), widths[layer + 1])?);
    }
    Ok(maps)
}

fn part(layer: usize, hidden: usize) -> usize {
    if layer == 0 { WIDEST_PART } else { hidden }
}

/// Registers of a thread for numbers, hidden layers in parts of so many columns: the gradients
/// above a layer, the sums of a part below it, and all parts of a hidden layer when they are done.
fn registers(widths: &[usize], hidden: usize) -> usize {
    let packed = |width: usize| width.div_ceil(16) * 4;
    let of = |(layer, pair): (usize, &[usize])| {
        packed(pair[1]) + pair[0].min(part(layer, hidden)) / 2 + if layer == 0 { 0 } else { packed(pair[0]) }
    };
    widths.windows(2).enumerate().map(of).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_those_of_the_widest_place() {
        assert_eq!(registers(&[512, 512, 128], NARROW_PART), 192);
        assert!(registers(&[512, 512, 128], WIDEST_PART) > MOST_REGISTERS);
        assert_eq!(registers(&[256, 256, 64], WIDEST_PART), 16 + 64 + 64);
        // Two hidden layers of 512 are there at once.
        assert!(registers(&[512, 512, 512, 8], NARROW_PART) > MOST_REGISTERS);
    }
}
