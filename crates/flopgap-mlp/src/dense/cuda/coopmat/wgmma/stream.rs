//! The chain of gradients where the weights do not fit in shared memory: its source and its launch.

use flopgap_gpu::cudarc::driver::sys;
use flopgap_gpu::{GpuError, Kernel};

use crate::MlpError;
use crate::dense::cuda::implementation::Request;
use crate::dense::cuda::kernels::KernelFacts;
use crate::dense::cuda::launch::Launch;
use crate::dense::cuda::source::{Program, Source};
use crate::dense::{Network, Precision};

use super::backward::CHAIN_COMMON;
use super::map::map;
use super::{CHUNK, COMMON, ROW_BYTES, TILE, instructions, registers_of_groups, threads, tiles};

const NAME: &str = "coopmat_mlp_backward_wgmma_chain_stream";

/// Columns below the first layer, and below the others, that are computed at once.
const WIDEST_PART: usize = 128;
const HIDDEN_PART: usize = 64;
/// Samples of a block: two warpgroups' tiles.
const BLOCK_TILE: usize = 2 * TILE;
/// Rows of weights that a block of the cluster of two brings for both.
const HALF: usize = CHUNK / 2;
/// Bytes of a place in the ring: 64 rows of the widest part, and its two barriers.
const SLAB: usize = WIDEST_PART / CHUNK * CHUNK * ROW_BYTES + 16;
const MOST_SLABS: usize = 12;
/// Registers for numbers, of 232, with which nothing spills.
const MOST_REGISTERS: usize = 192;
/// More maps do not fit a kernel's 4 KiB of arguments.
const MOST_LAYERS: usize = 30;

/// What is launched.
#[derive(Debug)]
pub(super) struct ChainStream {
    pub(super) kernel: Kernel,
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
        if request.network.layers() > MOST_LAYERS || registers(widths) > MOST_REGISTERS {
            return Err(request.unsupported(
                "weights that do not fit shared memory leave too few registers for so wide a layer, or its layers are too many; \
                 mma.sync is there instead",
            ));
        }
        let slabs = (request.target.shared_bytes / SLAB).min(MOST_SLABS);
        let shared = slabs * SLAB;
        let [compute, copy] = registers_of_groups(2);
        let columns = widths[..widths.len() - 1].iter().enumerate().flat_map(|(layer, &width)| {
            (0..width).step_by(part(layer)).map(move |column| (width - column).min(part(layer)))
        });
        let body = instructions::functions(request.precision, columns)
            + COMMON
            + CHAIN_COMMON
            + include_str!("chain_stream.cu");
        let constants = [
            ("SLABS", slabs),
            ("WIDEST_PART", WIDEST_PART),
            ("HIDDEN_PART", HIDDEN_PART),
            ("SHARED_BYTES", shared),
            ("REGISTERS_TO_COMPUTE", compute),
            ("REGISTERS_TO_COPY", copy),
        ];
        let architecture = request.target.architecture().specific();
        let source = request.source_for(architecture, "coopmat/wgmma/chain_stream.cu", &body, &constants);
        Ok((source, Plan { shared }))
    }

    /// Maps of the weights, layer by layer.
    pub(super) fn weights(
        &self,
        network: &Network,
        precision: Precision,
        parameters: u64,
    ) -> Result<Vec<sys::CUtensorMap>, GpuError> {
        let widths = network.widths();
        let of = |layer: usize| {
            let address = parameters + (network.weights(layer).start * precision.bytes()) as u64;
            map(precision, address, widths[layer + 1], widths[layer], HALF)
        };
        (0..network.layers()).map(of).collect()
    }

    pub(super) fn launch(&self, multiprocessors: u32, batch: u32) -> Launch {
        let blocks = (multiprocessors & !1).min(tiles(batch, BLOCK_TILE).next_multiple_of(2)).max(2);
        Launch { shared: self.shared, ..Launch::new(blocks, threads(2)) }
    }

    pub(super) fn facts(&self) -> Result<KernelFacts, GpuError> {
        KernelFacts::of(NAME, &self.kernel, self.shared)
    }
}

fn part(layer: usize) -> usize {
    if layer == 0 { WIDEST_PART } else { HIDDEN_PART }
}

/// Registers of a thread for numbers: the gradients above a layer, the sums of a part below it, and all parts of a hidden layer when they are done.
fn registers(widths: &[usize]) -> usize {
    let packed = |width: usize| width.div_ceil(16) * 4;
    let of = |(layer, pair): (usize, &[usize])| {
        packed(pair[1]) + pair[0].min(part(layer)) / 2 + if layer == 0 { 0 } else { packed(pair[0]) }
    };
    widths.windows(2).enumerate().map(of).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_those_of_the_widest_place() {
        assert_eq!(registers(&[512, 512, 128]), 192);
        // Two hidden layers of 512 are there at once.
        assert!(registers(&[512, 512, 512, 8]) > MOST_REGISTERS);
    }
}
