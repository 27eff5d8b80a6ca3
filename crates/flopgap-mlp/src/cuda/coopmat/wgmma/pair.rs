//! The backward pass of a wider network with one hidden layer: one kernel whose pairs of blocks
//! read the tape and hold the gradients of the parameters in registers, and a second one that adds
//! up what the pairs found.

use flopgap_gpu::{GpuError, Kernel};

use crate::activation::is_piecewise_linear;
use crate::cuda::kernels::{Backward, BackwardCall, KernelFacts};
use crate::cuda::launch::{Arguments, Launch};
use crate::cuda::options::Reduction;
use crate::cuda::reduce::{Reducer, SumKernel};
use crate::cuda::request::Request;
use crate::{MlpError, Network, Precision, slope_from_output};

use super::super::plan::Plan;
use super::map::map;
use super::{BARRIER, CHUNK, PART, RESULT_ROWS, ROW_BYTES, TILE, check, instructions, tiles};

const KERNEL: &str = "coopmat_mlp_backward_wgmma_pair";
const SUM: SumKernel = SumKernel {
    name: "coopmat_mlp_backward_wgmma_pair_sum",
    threads: 256,
    parameters_of_block: 128,
    overlap: false,
};

/// Columns of the inputs and of the hidden layer that a block has.
const HALF: usize = 128;
/// Two warpgroups for sums and one that goes down the layers, and the registers of a thread of
/// either.
const THREADS: u32 = 3 * 128;
const REGISTERS_TO_ADD: usize = 192;
const REGISTERS_TO_DESCEND: usize = 120;
/// Bytes of 64 samples by 64 columns.
const BOX: usize = TILE * ROW_BYTES;
/// Inputs, hidden layer and its gradients from both blocks, and the outputs' gradients: of a tile.
const STAGE: usize = (2 + 2 + 4 + 1) * BOX;
/// The block's columns of the weights.
const WEIGHTS: usize = 2 * (2 * HALF + CHUNK) * ROW_BYTES;
/// Ones, and seven barriers for each stage.
const REST: usize = 1024 + 2 * 7 * BARRIER;
const SHARED: usize = WEIGHTS + 2 * STAGE + REST;

/// Whether two blocks have room for the network, and both have something to do.
fn fits(network: &Network) -> bool {
    let &[inputs, hidden, outputs] = network.widths() else { return false };
    let wide = HALF + 1..=2 * HALF;
    // The slope of the hidden layer must follow from what is multiplied, its outputs; further
    // functions at the outputs need more registers.
    let of_hidden = slope_from_output(network.activation(0));
    let of_outputs = is_piecewise_linear(network.activation(1));
    wide.contains(&inputs) && wide.contains(&hidden) && outputs <= CHUNK && of_hidden && of_outputs
}

/// For a network with one hidden layer that fits, and sums in a fixed order.
pub(in super::super) fn pair(request: &Request<'_>) -> Option<Plan<dyn Backward>> {
    check(request).ok()?;
    let network = request.network.clone();
    let deterministic = request.options.reduction == Reduction::Deterministic;
    if !deterministic || !fits(&network) || request.target.shared_bytes < SHARED {
        return None;
    }
    let constants = [
        ("SHARED_BYTES", SHARED),
        ("REGISTERS_TO_ADD", REGISTERS_TO_ADD),
        ("REGISTERS_TO_DESCEND", REGISTERS_TO_DESCEND),
    ];
    let body = instructions::functions(request.precision, [8, CHUNK, HALF, PART]) + include_str!("pair.cu");
    let architecture = request.target.architecture().specific();
    let source = request.source_for(architecture, "coopmat/wgmma/pair.cu", &body, &constants);
    let (precision, pairs) = (request.precision, request.target.multiprocessors / 2);
    Some(Plan {
        sources: vec![source],
        load: Box::new(move |programs| {
            Ok::<_, MlpError>(Box::new(Pair {
                kernel: programs[0].kernel(KERNEL, SHARED)?,
                reducer: Reducer::load(&programs[0], SUM, network.parameters(), false)?,
                network,
                precision,
                pairs,
            }))
        }),
    })
}

#[derive(Debug)]
struct Pair {
    kernel: Kernel,
    reducer: Reducer,
    network: Network,
    precision: Precision,
    /// At most.
    pairs: u32,
}

impl Pair {
    fn pairs(&self, batch: u32) -> u32 {
        self.pairs.min(tiles(batch, TILE))
    }
}

impl Backward for Pair {
    fn keeps(&self, _batch: u32) -> bool {
        true
    }

    fn workspace(&self, batch: u32) -> usize {
        self.pairs(batch) as usize * self.network.parameters() * 4
    }

    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        let inputs = self.network.inputs();
        let of = |address, columns, rows| map(self.precision, address, call.batch as usize, columns, rows);
        let maps = vec![
            of(call.x, inputs, TILE)?,
            of(call.tape, self.network.widths()[1], TILE)?,
            // A map must have some address, also when nothing is written there.
            of(call.dx.unwrap_or(call.x), inputs, RESULT_ROWS)?,
        ];
        let pairs = self.pairs(call.batch);
        let launch = Launch { shared: SHARED, ..Launch::new(2 * pairs, THREADS) };
        let arguments = Arguments::default()
            .maps(maps)
            .addresses([call.parameters, call.y, call.dy, call.workspace])
            .u32(call.batch)
            .u32(u32::from(call.dx.is_some()));
        // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
        // expects: `Model` checked them. The workspace has room for what every pair finds. Without
        // `dx`, the kernel leaves out the inputs' gradients.
        unsafe { launch.queue(call.stream, &self.kernel, arguments) }?;
        // SAFETY: these are the kernel's arguments; what every pair found was written.
        unsafe { self.reducer.finish(call, Some(pairs)) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let mut facts = vec![KernelFacts::new(KERNEL, &self.kernel, SHARED)?];
        facts.extend(self.reducer.facts()?);
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activation;

    #[test]
    fn two_blocks_have_room_for_what_one_has_not() {
        let of = |widths: &[usize]| Network::new(widths).unwrap();
        assert!(fits(&of(&[256, 256, 64])) && fits(&of(&[136, 200, 8])));
        for widths in
            [&[256, 128, 64][..], &[128, 256, 64], &[264, 256, 64], &[256, 256, 72], &[256, 256, 256, 64]]
        {
            assert!(!fits(&of(widths)), "{widths:?}");
        }
        assert!(!fits(&of(&[256, 256, 64]).with_activation(Activation::Gelu)));
        assert_eq!(SHARED, 230_512);
    }
}
