//! The backward pass of a network with one hidden layer that is small enough: one kernel that
//! computes the hidden layer again and holds the gradients of the parameters in registers, and a
//! second one that adds up what the blocks found.

use flopgap_gpu::{GpuError, Kernel};

use crate::cuda::kernels::{Backward, BackwardCall, KernelFacts};
use crate::cuda::launch::{Arguments, Launch};
use crate::cuda::options::Reduction;
use crate::cuda::reduce::{Reducer, SumKernel};
use crate::cuda::request::Request;
use crate::{Activation, MlpError, Network, Precision, slope_from_output};

use super::super::plan::Plan;
use super::map::map;
use super::{BARRIER, CHUNK, ROW_BYTES, TILE, check, instructions, registers_of_groups, threads, tiles};

const KERNEL: &str = "coopmat_mlp_backward_wgmma_fused";
/// The same that also computes the gradients by the inputs.
const KERNEL_DX: &str = "coopmat_mlp_backward_wgmma_fused_dx";
const SUM: SumKernel = SumKernel {
    name: "coopmat_mlp_backward_wgmma_fused_sum",
    threads: 1024,
    parameters_of_block: 128,
    overlap: true,
};

/// Bytes of 64 samples by 64 columns.
const BOX: usize = TILE * ROW_BYTES;
/// Of a stage: full, empty and ready.
const BARRIERS: usize = 3 * BARRIER;
/// More stages bring nothing.
const MOST_STAGES: usize = 8;
/// Bytes of the sums of the outputs' biases: 8 for each of 64 threads.
const BIASES: usize = 64 * 8 * 4;
/// Warpgroups that compute: registers suffice for two.
const GROUPS: usize = 2;
/// Inputs and outputs whose gradients fit the registers of a warpgroup, beside all else.
const MOST_COLUMNS: usize = 160;
/// Samples of a warp: rows of a box of gradients by the inputs.
const WARP_ROWS: usize = 16;

/// How a block is made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    /// Warpgroups that share a tile, 64 columns of the hidden layer each.
    team: usize,
    stages: usize,
    shared: usize,
}

impl Shape {
    /// None where registers or shared memory do not suffice.
    fn choose(network: &Network, shared_bytes: usize) -> Option<Self> {
        let &[inputs, hidden, outputs] = network.widths() else { return None };
        let team = hidden.div_ceil(CHUNK);
        // The threads that prepare the gradients by more outputs would spill.
        if team > GROUPS || inputs + outputs > MOST_COLUMNS || outputs > CHUNK {
            return None;
        }
        let (inputs_chunks, outputs_chunks) = (inputs.div_ceil(CHUNK), outputs.div_ceil(CHUNK));
        let outputs_read = if network.activation(1) == Activation::Identity { 1 } else { 2 };
        let stage = (inputs_chunks + outputs_read * outputs_chunks) * BOX;
        let weights = team * (inputs_chunks * CHUNK + outputs.next_multiple_of(16)) * ROW_BYTES;
        // Gradients before the hidden layer's activation, twice, and those by the inputs.
        let rest = weights + 3 * GROUPS * BOX + BIASES;
        let stages = (shared_bytes.saturating_sub(rest) / (stage + BARRIERS)).min(MOST_STAGES);
        let shared = rest + stages * (stage + BARRIERS);
        // A team leaves a stage only when it has begun with its next tile, which must not wait for
        // that.
        (stages >= 2 && stages > GROUPS / team).then_some(Shape { team, stages, shared })
    }
}

/// For a network with one hidden layer, where the slopes follow from the outputs and everything
/// fits.
pub(in super::super) fn fused(request: &Request<'_>) -> Option<Plan<dyn Backward>> {
    check(request).ok()?;
    let network = request.network.clone();
    if !(0..network.layers()).all(|layer| slope_from_output(network.activation(layer))) {
        return None;
    }
    let shape = Shape::choose(&network, request.target.shared_bytes)?;
    let atomic = request.options.reduction == Reduction::Atomic;
    let [compute, copy] = registers_of_groups(GROUPS);
    let constants = [
        ("TEAM", shape.team),
        ("TEAMS", GROUPS / shape.team),
        ("STAGES", shape.stages),
        ("SHARED_BYTES", shape.shared),
        ("ATOMIC", usize::from(atomic)),
        ("REGISTERS_TO_COMPUTE", compute),
        ("REGISTERS_TO_COPY", copy),
    ];
    let columns = [CHUNK, network.inputs(), network.outputs()];
    let body = instructions::functions(request.precision, columns) + include_str!("fused.cu");
    let architecture = request.target.architecture().specific();
    let source = request.source_for(architecture, "coopmat/wgmma/fused.cu", &body, &constants);
    let (precision, blocks) = (request.precision, request.target.multiprocessors);
    Some(Plan {
        sources: vec![source],
        load: Box::new(move |programs| {
            Ok::<_, MlpError>(Box::new(Fused {
                kernel: programs[0].kernel(KERNEL, shape.shared)?,
                kernel_dx: programs[0].kernel(KERNEL_DX, shape.shared)?,
                reducer: Reducer::load(&programs[0], SUM, network.parameters(), atomic)?,
                shape,
                network,
                precision,
                blocks,
            }))
        }),
    })
}

#[derive(Debug)]
struct Fused {
    kernel: Kernel,
    kernel_dx: Kernel,
    reducer: Reducer,
    shape: Shape,
    network: Network,
    precision: Precision,
    /// At most.
    blocks: u32,
}

impl Fused {
    fn blocks(&self, batch: u32) -> u32 {
        self.blocks.min(tiles(batch, TILE))
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
        let (inputs, outputs) = (self.network.inputs(), self.network.outputs());
        let of = |address, columns, rows| map(self.precision, address, call.batch as usize, columns, rows);
        let mut maps =
            vec![of(call.x, inputs, TILE)?, of(call.dy, outputs, TILE)?, of(call.y, outputs, TILE)?];
        // The kernel without gradients by the inputs does not use the last map.
        maps.push(of(call.dx.unwrap_or(call.x), inputs, WARP_ROWS)?);
        let blocks = self.blocks(call.batch);
        let launch =
            Launch { shared: self.shape.shared, overlap: true, ..Launch::new(blocks, threads(GROUPS)) };
        let kernel = if call.dx.is_some() { &self.kernel_dx } else { &self.kernel };
        let arguments = Arguments::default().maps(maps).addresses([call.parameters, found]).u32(call.batch);
        // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
        // expects: `Model` checked them. The workspace has room for what every block finds.
        unsafe { launch.queue(call.stream, kernel, arguments) }?;
        // SAFETY: these are the kernel's arguments; what every block found was written.
        unsafe { self.reducer.finish(call, Some(blocks)) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let mut facts = vec![
            KernelFacts::new(KERNEL, &self.kernel, self.shape.shared)?,
            KernelFacts::new(KERNEL_DX, &self.kernel_dx, self.shape.shared)?,
        ];
        facts.extend(self.reducer.facts()?);
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_has_all_of_the_hidden_layer_and_its_gradients_fit() {
        let of = |widths: &[usize]| Shape::choose(&Network::new(widths).unwrap(), 227 * 1024);
        // 40,960 of weights, 51,200 beside them, and stages of three boxes.
        let medium = Shape { team: 2, stages: 5, shared: 92_160 + 5 * 24_600 };
        assert_eq!(of(&[128, 128, 32]), Some(medium));
        assert_eq!(of(&[64, 64, 16]).map(|shape| shape.team), Some(1));
        assert_eq!(of(&[256, 256, 64]), None, "four warpgroups");
        assert_eq!(of(&[64, 104, 72]), None, "too many outputs for the threads that prepare");
        assert_eq!(of(&[152, 64, 16]), None, "too many gradients for registers");
        assert_eq!(of(&[64, 64, 64, 16]), None, "two hidden layers");
    }
}
