//! How the gradients of the parameters are shared among blocks.

use flopgap_gpu::{GpuError, Kernel};

use crate::cuda::kernels::{BackwardCall, KernelFacts};
use crate::cuda::launch::{Arguments, Launch};
use crate::cuda::options::Reduction;
use crate::cuda::reduce::{Reducer, SumKernel};
use crate::cuda::request::Request;
use crate::cuda::source::{Program, Source, table};
use crate::{MlpError, Network, Precision};

use super::map::map;
use super::{
    BARRIER, CHUNK, PART, ROW_BYTES, TILE, instructions, parts, registers_of_groups, threads, widest_part,
};

const GRADIENTS: &str = "coopmat_mlp_backward_wgmma_gradients";
const SUM: SumKernel = SumKernel {
    name: "coopmat_mlp_backward_wgmma_sum",
    threads: 256,
    parameters_of_block: 32,
    overlap: false,
};

/// Bytes of 64 samples by 64 columns.
const BOX: usize = TILE * ROW_BYTES;
/// Blocks of a cluster where tiles share operands. With four, `xlarge` is slower.
const CLUSTER: usize = 2;
/// Bytes of the operand of ones.
const ONES: usize = 1024;
/// Of a stage: full and empty.
const BARRIERS: usize = 2 * BARRIER;
const MOST_STAGES: usize = 8;
/// More maps do not fit a kernel's 4 KiB of arguments.
const MOST_LAYERS: usize = 14;

/// Layers of so many rows are computed by two warpgroups alternately, and leave two sums.
const ALTERNATING: usize = 64;

/// What is compiled, and how it is launched.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// For each layer, into how many ranges the samples are cut.
    ranges: Vec<usize>,
    blocks: u32,
    stages: usize,
    stage: usize,
    atomic: bool,
    /// Numbers of all sums.
    sums: usize,
    /// Blocks of a cluster, which bring what they share once.
    cluster: usize,
}

impl Plan {
    pub(super) fn new(request: &Request<'_>) -> Result<Self, MlpError> {
        let network = request.network;
        if network.layers() > MOST_LAYERS {
            return Err(request.unsupported(format!(
                "the maps of more than {MOST_LAYERS} layers do not fit a kernel's arguments; mma.sync is there instead"
            )));
        }
        let layers = layers(network.widths());
        let cluster = cluster(&layers);
        // All blocks run at once, one on a multiprocessor.
        let all: usize = layers.iter().map(|layer| layer.tiles() * layer.clocks(cluster)).sum();
        let blocks = request.target.multiprocessors as usize;
        let ranges: Vec<usize> =
            layers.iter().map(|layer| layer.ranges(blocks * layer.clocks(cluster) / all, cluster)).collect();
        let stage = layers.iter().map(|layer| layer.boxes() * BOX).max().unwrap_or_default();
        let fit = request.target.shared_bytes.saturating_sub(ONES) / (stage + BARRIERS);
        let stages = stages(&layers, fit.min(MOST_STAGES));
        let sums = layers
            .iter()
            .zip(&ranges)
            .map(|(layer, ranges)| layer.addends(*ranges) * (layer.inputs + 1) * layer.outputs)
            .sum();
        let blocks: usize = layers.iter().zip(&ranges).map(|(layer, ranges)| layer.tiles() * ranges).sum();
        let atomic = request.options.reduction == Reduction::Atomic;
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        Ok(Plan { ranges, blocks, stages, stage, atomic, sums, cluster })
    }

    fn shared(&self) -> usize {
        self.stages * (self.stage + BARRIERS) + ONES
    }

    pub(super) fn source(&self, request: &Request<'_>) -> Source {
        let last = self.ranges.len() - 1;
        let widths = request.network.widths();
        let columns = widths[..=last].iter().flat_map(|&width| parts(width)).chain([8]);
        let mut body = instructions::functions(request.precision, columns);
        body += &table("ranges_of", &self.ranges);
        let body = body + include_str!("gradients.cu");
        let [compute, copy] = registers_of_groups(2);
        let constants = [
            ("STAGES", self.stages),
            ("STAGE_BYTES", self.stage),
            ("SHARED_BYTES", self.shared()),
            ("ATOMIC", usize::from(self.atomic)),
            ("CLUSTER", self.cluster),
            ("REGISTERS_TO_COMPUTE", compute),
            ("REGISTERS_TO_COPY", copy),
        ];
        let architecture = request.target.architecture().specific();
        request.source_for(architecture, "coopmat/wgmma/gradients.cu", &body, &constants)
    }

    /// Bytes of the sums in the workspace.
    pub(super) fn bytes(&self) -> usize {
        if self.atomic { 0 } else { 4 * self.sums }
    }

    pub(super) fn load(self, program: &Program, network: &Network) -> Result<Gradients, MlpError> {
        let products = program.kernel(GRADIENTS, self.shared())?;
        let reducer = Reducer::load(program, SUM, network.parameters(), self.atomic)?;
        Ok(Gradients { products, reducer, plan: self })
    }
}

/// A matrix of weights.
#[derive(Debug, Clone, Copy)]
struct Layer {
    inputs: usize,
    outputs: usize,
}

fn layers(widths: &[usize]) -> Vec<Layer> {
    widths.windows(2).map(|pair| Layer { inputs: pair[0], outputs: pair[1] }).collect()
}

impl Layer {
    fn alternates(self) -> bool {
        self.outputs <= ALTERNATING
    }

    /// Tiles along the outputs, and along the inputs.
    fn sides(self) -> [usize; 2] {
        [self.outputs.div_ceil(2 * TILE), self.inputs.div_ceil(PART)]
    }

    fn tiles(self) -> usize {
        self.sides().iter().product()
    }

    /// What a cluster of so many blocks has along the outputs, along the inputs, and of ranges; as
    /// in `gradients.cu`.
    fn shares(self, cluster: usize) -> [usize; 3] {
        let [rows, parts] = self.sides();
        let rows = divisor(rows, cluster);
        let parts = divisor(parts, cluster / rows);
        [rows, parts, cluster / rows / parts]
    }

    /// About so many ranges, at least one, for clusters that are whole.
    fn ranges(self, about: usize, cluster: usize) -> usize {
        let [_, _, ranges] = self.shares(cluster);
        (about / ranges * ranges).max(ranges)
    }

    /// Boxes of a stage: of the gradients before the activation, and of the inputs.
    fn boxes(self) -> usize {
        let rows = if self.alternates() { 1 } else { 2 };
        rows + widest_part(self.inputs).div_ceil(CHUNK)
    }

    /// Clocks for 64 samples, about: of the tensor cores, or of the boxes that a block brings.
    fn clocks(self, cluster: usize) -> usize {
        let columns = widest_part(self.inputs);
        let [rows, parts, _] = self.shares(cluster);
        let turns = self.alternates();
        let products = columns * if turns { 2 } else { 4 };
        let copies = 150 * if turns { 1 } else { 2 } / parts + 150 * columns.div_ceil(CHUNK) / rows;
        products.max(copies)
    }

    /// Sums that are added up at last.
    fn addends(self, ranges: usize) -> usize {
        if self.alternates() { 2 * ranges } else { ranges }
    }
}

/// Of so many stages, those that are used. Warpgroups that take turns wait for a stage by the
/// parity of its use, which distinguishes a use from the next only: the use before must have been
/// the same warpgroup's.
fn stages(layers: &[Layer], fit: usize) -> usize {
    if layers.iter().any(|layer| layer.alternates()) { fit / 2 * 2 } else { fit }
}

/// Blocks of a cluster: several where nearly all tiles share an operand with another. The others
/// gain nothing from it, and all wait for whole clusters.
fn cluster(layers: &[Layer]) -> usize {
    let tiles: usize = layers.iter().map(|layer| layer.tiles()).sum();
    let alone = layers.iter().filter(|layer| layer.tiles() == 1).count();
    if 4 * alone < tiles { CLUSTER } else { 1 }
}

fn divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// The kernels.
#[derive(Debug)]
pub(super) struct Gradients {
    products: Kernel,
    reducer: Reducer,
    plan: Plan,
}

impl Gradients {
    /// Queues the sums over the batch of the products of `deltas` (the gradients before the
    /// activations) and the inputs of the layers, hidden ones at `activations`; both lie layer
    /// after layer.
    pub(super) fn queue(
        &self,
        call: &BackwardCall<'_>,
        network: &Network,
        precision: Precision,
        deltas: u64,
        activations: u64,
    ) -> Result<(), GpuError> {
        let (batch, widths) = (call.batch as usize, network.widths());
        let row = |width: usize| (width * batch * precision.bytes()) as u64;
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let mut below = 0;
        for layer in 0..network.layers() {
            let address = if layer == 0 { call.x } else { activations + below - row(widths[layer]) };
            inputs.push(map(precision, address, batch, widths[layer], TILE)?);
            outputs.push(map(precision, deltas + below, batch, widths[layer + 1], TILE)?);
            below += row(widths[layer + 1]);
        }
        inputs.append(&mut outputs);
        let found = self.reducer.prepare(call)?;
        let launch = Launch { shared: self.plan.shared(), ..Launch::new(self.plan.blocks, threads(2)) };
        let arguments = Arguments::default().maps(inputs).addresses([found]).u32(call.batch);
        // SAFETY: these are the kernel's arguments; the workspace begins with room for its sums.
        unsafe { launch.queue(call.stream, &self.products, arguments) }?;
        // SAFETY: these are the kernel's arguments; every sum that it reads was written.
        unsafe { self.reducer.finish(call, None) }
    }

    pub(super) fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let mut facts = vec![KernelFacts::new(GRADIENTS, &self.products, self.plan.shared())?];
        facts.extend(self.reducer.facts()?);
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_for_layers_of_several_tiles() {
        assert_eq!(cluster(&layers(&[512, 512, 128])), 2);
        assert_eq!(cluster(&layers(&[512, 256, 256, 256, 64])), 2);
        assert_eq!(cluster(&layers(&[256, 256, 64])), 1);
        assert_eq!(cluster(&layers(&[64, 64, 16])), 1);
    }

    #[test]
    fn a_stage_is_for_one_of_two_that_take_turns() {
        assert_eq!([8, 7, 5, 4].map(|fit| stages(&layers(&[256, 64, 16]), fit)), [8, 6, 4, 4]);
        assert_eq!([7, 5].map(|fit| stages(&layers(&[192, 192, 72]), fit)), [7, 5]);
    }

    #[test]
    fn clusters_share_an_operand_or_have_ranges_of_their_own() {
        let wide = Layer { inputs: 512, outputs: 512 };
        assert_eq!((wide.sides(), wide.shares(2), wide.shares(1)), ([4, 2], [2, 1, 1], [1, 1, 1]));
        let last = Layer { inputs: 512, outputs: 128 };
        assert_eq!((last.sides(), last.shares(2)), ([1, 2], [1, 2, 1]));
        let alone = Layer { inputs: 256, outputs: 64 };
        assert_eq!((alone.shares(2), alone.ranges(7, 2), alone.ranges(1, 2)), ([1, 1, 2], 6, 2));
        // Every layer's blocks are whole clusters.
        for (inputs, outputs, about) in [(8, 8, 3), (328, 200, 5), (512, 392, 0), (768, 264, 9)] {
            let layer = Layer { inputs, outputs };
            assert_eq!(layer.tiles() * layer.ranges(about, CLUSTER) % CLUSTER, 0, "{inputs} {outputs}");
        }
    }
}
