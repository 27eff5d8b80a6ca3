//! The backward pass: the gradients before every activation on tiles of samples, then the gradients
//! of the parameters, over ranges of samples, then their sums.

use flopgap_gpu::{GpuError, Kernel};

use crate::cuda::kernels::{Backward, BackwardCall, KernelFacts};
use crate::cuda::launch::{Arguments, Launch};
use crate::cuda::request::Request;
use crate::cuda::source::{Program, Source};
use crate::{Activation, MlpError, Network, Precision, slope_from_output};

use super::super::mma;
use super::super::plan::Plan;
use super::gradients::{self, Gradients};
use super::stream::ChainStream;
use super::{PART, TILE, check, instructions, parts, tiles, weights_bytes, widest_part};

const CHAIN: &str = "coopmat_mlp_backward_wgmma_chain";

/// Up to so many registers for numbers, there are three or four warpgroups: enough to hide loads
/// behind one another.
const MOST_OF_THREE_GROUPS: usize = 96;

/// The backward pass: narrow networks with their weights in shared memory, others with everything
/// through it; either way where that one way is not there; down layers that are too wide for both,
/// by `mma.sync`.
pub(in super::super) fn backward(request: &Request<'_>) -> Result<Plan<dyn Backward>, MlpError> {
    check(request)?;
    let narrow = registers(request.network) <= MOST_OF_THREE_GROUPS;
    let [first, second] = if narrow { [resident, streamed] } else { [streamed, resident] };
    first(request).or_else(|_| second(request)).or_else(|_| wide(request))
}

fn resident(request: &Request<'_>) -> Result<Plan<dyn Backward>, MlpError> {
    let network = request.network;
    // Registers that are left for numbers, so that what the forward pass kept is loaded early.
    let (groups, registers) = match registers(network) {
        0..=72 => (4, 104),
        73..=MOST_OF_THREE_GROUPS => (3, 136),
        97..=200 => (2, 216),
        _ => return Err(request.unsupported("a layer is too wide for registers; mma.sync is there instead")),
    };
    let shared = weights_bytes(network.widths());
    if shared > request.target.shared_bytes {
        return Err(request.unsupported(format!(
            "{shared} bytes of weights do not fit {} of shared memory; mma.sync is there instead",
            request.target.shared_bytes
        )));
    }
    let columns = network.widths()[..network.layers()].iter().flat_map(|&width| parts(width));
    let body = instructions::functions(request.precision, columns) + include_str!("chain.cu");
    let constants = [("GROUPS", groups), ("REGISTERS", registers), ("SHARED_BYTES", shared)];
    let architecture = request.target.architecture().specific();
    let chain = request.source_for(architecture, "coopmat/wgmma/chain.cu", &body, &constants);
    let gradients = gradients::Plan::new(request)?;
    let sources = vec![chain, gradients.source(request)];
    let threads = u32::try_from(groups * 128).unwrap_or(u32::MAX);
    let load = move |program: &Program| {
        Ok(Chain::Resident { kernel: program.kernel(CHAIN, shared)?, shared, threads })
    };
    Ok(plan(request, sources, gradients, load))
}

fn streamed(request: &Request<'_>) -> Result<Plan<dyn Backward>, MlpError> {
    if sums_kept(request.network) {
        return Err(request.unsupported(
            "the slope of this activation spills registers where weights are streamed; mma.sync is there instead",
        ));
    }
    let (chain, stream) = ChainStream::plan(request)?;
    let gradients = gradients::Plan::new(request)?;
    let sources = vec![chain, gradients.source(request)];
    Ok(plan(request, sources, gradients, move |program| Ok(Chain::Streamed(stream.load(program)?))))
}

fn wide(request: &Request<'_>) -> Result<Plan<dyn Backward>, MlpError> {
    let (chain, wide) = mma::ChainPlan::new(request)?;
    let gradients = gradients::Plan::new(request)?;
    let sources = vec![chain, gradients.source(request)];
    Ok(plan(request, sources, gradients, move |program| Ok(Chain::Wide(wide.load(program)?))))
}

fn plan(
    request: &Request<'_>,
    sources: Vec<Source>,
    gradients: gradients::Plan,
    chain: impl FnOnce(&Program) -> Result<Chain, MlpError> + 'static,
) -> Plan<dyn Backward> {
    let (network, precision, blocks) =
        (request.network.clone(), request.precision, request.target.multiprocessors);
    Plan {
        sources,
        load: Box::new(move |programs| {
            Ok(Box::new(ChainAndGradients {
                chain: chain(&programs[0])?,
                blocks,
                sums: gradients.bytes().next_multiple_of(256),
                gradients: gradients.load(&programs[1], &network)?,
                sums_kept: sums_kept(&network),
                network,
                precision,
            }))
        }),
    }
}

/// Whether the tape has the sums of the hidden layers, and not their outputs.
fn sums_kept(network: &Network) -> bool {
    !slope_from_output(network.activation(0))
}

/// The kernel that goes down the layers.
#[derive(Debug)]
enum Chain {
    /// All weights in shared memory.
    Resident { kernel: Kernel, shared: usize, threads: u32 },
    /// Weights and samples through shared memory.
    Streamed(ChainStream),
    /// The same by `mma.sync`, with a tile's numbers in shared memory, not in registers.
    Wide(mma::Chain),
}

/// Registers of a thread for the numbers of the chain: the gradients above a layer, and the sums
/// below it, of which a layer in several parts keeps those that are done; where the tape has sums,
/// those, too, from which outputs are computed. At the outputs, their gradients and, for the slope
/// of their activation, as much again.
fn registers(network: &Network) -> usize {
    let widths = network.widths();
    let of = |(layer, pair): (usize, &[usize])| {
        let widest = widest_part(pair[0]);
        let done = if layer == 0 || pair[0] <= PART { 0 } else { widest / 4 };
        let sums = if layer > 0 && sums_kept(network) { widest / 4 } else { 0 };
        pair[1].div_ceil(16) * 4 + widest / 2 + done + sums
    };
    let of_outputs = if network.activation(network.layers() - 1) == Activation::Identity { 1 } else { 2 };
    let outputs = of_outputs * network.outputs().div_ceil(16) * 4 + 16;
    widths.windows(2).enumerate().map(of).max().unwrap_or_default().max(outputs)
}

#[derive(Debug)]
struct ChainAndGradients {
    chain: Chain,
    blocks: u32,
    gradients: Gradients,
    /// Bytes of the workspace for sums, in front of the gradients before the activations.
    sums: usize,
    /// Whether the tape has the sums of the hidden layers, and not their outputs.
    sums_kept: bool,
    network: Network,
    precision: Precision,
}

impl ChainAndGradients {
    fn bytes(&self, widths: &[usize], batch: u32) -> usize {
        (widths.iter().sum::<usize>() * self.precision.bytes() * batch as usize).next_multiple_of(256)
    }

    /// Bytes of the gradients before the activations, and of the outputs of hidden layers where the
    /// tape has their sums.
    fn deltas_and_activations(&self, batch: u32) -> [usize; 2] {
        let (widths, layers) = (self.network.widths(), self.network.layers());
        let activations = if self.sums_kept { self.bytes(&widths[1..layers], batch) } else { 0 };
        [self.bytes(&widths[1..], batch), activations]
    }
}

impl Backward for ChainAndGradients {
    fn keeps(&self, _batch: u32) -> bool {
        true
    }

    fn workspace(&self, batch: u32) -> usize {
        self.sums + self.deltas_and_activations(batch).iter().sum::<usize>()
    }

    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        let deltas = call.workspace + self.sums as u64;
        let above = deltas + self.deltas_and_activations(call.batch)[0] as u64;
        let activations = if self.sums_kept { above } else { call.tape };
        match &self.chain {
            Chain::Resident { kernel, shared, threads } => {
                let blocks = self.blocks.min(tiles(call.batch, TILE));
                let launch = Launch { shared: *shared, ..Launch::new(blocks, *threads) };
                let arguments = Arguments::default()
                    .addresses([call.parameters, call.y, call.dy, call.tape])
                    .addresses([call.dx.unwrap_or(0), deltas, activations])
                    .u32(call.batch);
                // SAFETY: these are the kernel's arguments, of the lengths that it expects: `Model`
                // checked them, and the workspace has what `workspace` asked for. It leaves out
                // inputs at address 0.
                unsafe { launch.queue(call.stream, kernel, arguments) }?;
            }
            Chain::Streamed(chain) => {
                chain.queue(call, &self.network, self.precision, deltas, self.blocks)?;
            }
            Chain::Wide(chain) => chain.queue(call, deltas, activations)?,
        }
        self.gradients.queue(call, &self.network, self.precision, deltas, activations)
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let mut facts = vec![match &self.chain {
            Chain::Resident { kernel, shared, .. } => KernelFacts::new(CHAIN, kernel, *shared)?,
            Chain::Streamed(chain) => chain.facts()?,
            Chain::Wide(chain) => chain.facts()?,
        }];
        facts.extend(self.gradients.facts()?);
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_those_of_the_widest_place() {
        let of = |widths: &[usize]| registers(&Network::new(widths).unwrap());
        assert_eq!(of(&[64, 64, 16]), 16 + 32);
        assert_eq!(of(&[256, 256, 64]), 64 + 128);
        // The upper half of the hidden layer, while the lower one is there.
        assert_eq!(of(&[64, 512, 64]), 16 + 128 + 64);
        // Sums that the tape has, and the gradients by many outputs with what their slopes follow
        // from.
        let network = Network::new(&[24, 104, 16]).unwrap().with_activation(Activation::Silu);
        assert_eq!(registers(&network), 4 + 52 + 26);
        let network = Network::new(&[32, 8, 232]).unwrap().with_output_activation(Activation::Sigmoid);
        assert_eq!(registers(&network), 2 * 60 + 16);
    }
}
