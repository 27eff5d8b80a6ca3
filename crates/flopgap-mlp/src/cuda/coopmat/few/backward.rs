//! Gradients of few samples: a launch for each layer, whose tiles of both kinds of gradients are
//! spread over all multiprocessors.

use flopgap_gpu::{GpuError, Kernel};

use crate::cuda::budget;
use crate::cuda::coopmat::Plan;
use crate::cuda::coopmat::mma;
use crate::cuda::kernels::{Backward, BackwardCall, KernelFacts};
use crate::cuda::launch::{Arguments, Launch};
use crate::cuda::options::Accumulate;
use crate::cuda::request::Request;
use crate::cuda::source::table;
use crate::{MlpError, Network, Precision};

use super::{NOMINAL_BATCH, THREADS, Tile, WARPS, most_shared};

const KERNEL: &str = "coopmat_mlp_backward_few";

/// The largest batch that these tiles are for. On an H200, 512 samples of wide layers took less so
/// than 256 by the passes for many; narrower ones did not.
fn most_batch(widest: usize, precision: Precision) -> u32 {
    let wide = if precision == Precision::F32 { 512 } else { 128 };
    if widest >= wide { 512 } else { 256 }
}

/// A layer's code beside its slopes, in instructions of a slope, and what the compiler takes
/// seconds for: 7 s were eight wide layers with gelu.
const LAYER_CODE: usize = 30;
const MOST_CODE: usize = 560;

/// The tiles of a layer.
#[derive(Debug, Clone, Copy)]
struct Step {
    inputs: usize,
    outputs: usize,
    /// Of the gradients by what the layer took: samples and inputs.
    below: Tile,
    /// Of the gradients by its weights: outputs and inputs.
    gradient: Tile,
}

impl Step {
    /// The smallest tiles with which every multiprocessor has one at most, or the largest ones.
    fn choose(inputs: usize, outputs: usize, precision: Precision, multiprocessors: u32) -> Self {
        let tile = |(rows, columns)| Tile::new(rows, columns, precision);
        let all = [
            ((32, 32), (32, 32)),
            ((32, 64), (32, 32)),
            ((32, 64), (32, 64)),
            ((32, 64), (64, 64)),
            ((64, 64), (64, 64)),
        ]
        .map(|(below, gradient)| Step {
            inputs,
            outputs,
            below: tile(below),
            gradient: tile(gradient),
        });
        let one_each = all.iter().find(|step| step.blocks(NOMINAL_BATCH, true) <= multiprocessors as usize);
        *one_each.unwrap_or(&all[all.len() - 1])
    }

    fn blocks(&self, batch: usize, below: bool) -> usize {
        let below = if below { self.below.count(batch, self.inputs) } else { 0 };
        self.gradient.count(self.outputs, self.inputs) + below
    }

    fn shared(&self, most: usize) -> usize {
        let below = self.below.shared(true, self.outputs, most);
        below.max(self.gradient.shared(false, NOMINAL_BATCH, most))
    }
}

/// For every network of up to eight layers, with sums in 32 bits.
pub(in super::super) fn backward(request: &Request<'_>) -> Result<(u32, Plan<dyn Backward>), MlpError> {
    let network = request.network;
    if request.precision != Precision::F32 {
        mma::check(request)?;
    }
    // Every layer has code of its own; that of few instructions for the slopes leaves room for more
    // layers.
    let code: usize =
        (0..network.layers()).map(|layer| LAYER_CODE + budget::slope(network.activation(layer))).sum();
    if network.layers() > budget::UNROLLED_LAYERS
        || code > MOST_CODE
        || request.options.accumulate == Accumulate::F16
    {
        return Err(request.unsupported("few samples: up to eight layers, five with gelu, sums in 32 bits"));
    }
    let step =
        |pair: &[usize]| Step::choose(pair[0], pair[1], request.precision, request.target.multiprocessors);
    let steps: Vec<Step> = network.widths().windows(2).map(step).collect();
    let shared = steps.iter().map(|step| step.shared(most_shared(request))).max().unwrap_or_default();
    let mut text = String::new();
    let mut of = |name, value: fn(&Step) -> usize| {
        text.push_str(&table(name, &steps.iter().map(value).collect::<Vec<_>>()));
    };
    of("below_m", |step| step.below.rows);
    of("below_n", |step| step.below.columns);
    of("below_warp_m", |step| step.below.warp_rows);
    of("below_warp_n", |step| step.below.warp_columns);
    of("gradient_m", |step| step.gradient.rows);
    of("gradient_n", |step| step.gradient.columns);
    of("gradient_warp_m", |step| step.gradient.warp_rows);
    of("gradient_warp_n", |step| step.gradient.warp_columns);
    let constants = [("WARPS", WARPS), ("SHARED", shared), ("NOMINAL_BATCH", NOMINAL_BATCH)];
    let source = request.kernel("coopmat/few/backward.cu", &text, &constants);
    let (network, overlap) = (network.clone(), request.target.capability.major >= 9);
    let bytes = request.precision.bytes();
    let plan: Plan<dyn Backward> = Plan {
        sources: vec![source],
        load: Box::new(move |programs| {
            let kernel = programs[0].kernel(KERNEL, shared)?;
            Ok(Box::new(ByLayer { kernel, steps, network, bytes, shared, overlap }))
        }),
    };
    let widest = request.network.widths().iter().copied().max().unwrap_or_default();
    Ok((most_batch(widest, request.precision), plan))
}

#[derive(Debug)]
struct ByLayer {
    kernel: Kernel,
    steps: Vec<Step>,
    network: Network,
    /// Bytes of a number.
    bytes: usize,
    shared: usize,
    overlap: bool,
}

impl Backward for ByLayer {
    fn keeps(&self, _batch: u32) -> bool {
        true
    }

    fn workspace(&self, batch: u32) -> usize {
        let hidden: usize = self.network.widths()[1..self.network.layers()].iter().sum();
        hidden * self.bytes * batch as usize
    }

    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        for (layer, step) in self.steps.iter().enumerate().rev() {
            let below = layer > 0 || call.dx.is_some();
            let blocks = step.blocks(call.batch as usize, below);
            let blocks = u32::try_from(blocks)
                .map_err(|_| GpuError::TooLarge { what: "blocks of a kernel", value: blocks })?;
            let launch =
                Launch { shared: self.shared, overlap: self.overlap, ..Launch::new(blocks, THREADS) };
            let arguments = Arguments::default()
                .addresses([call.parameters, call.x, call.y, call.dy, call.tape])
                .addresses([call.dx.unwrap_or(0), call.workspace, call.gradients])
                .u32(call.batch)
                .u32(u32::try_from(layer).unwrap_or_default());
            // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
            // expects: `Model` checked them, and the workspace has room for the gradients before
            // the activations of all hidden layers. Without `dx` no block is for it.
            unsafe { launch.queue(call.stream, &self.kernel, arguments) }?;
        }
        Ok(())
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        Ok(vec![KernelFacts::new(KERNEL, &self.kernel, self.shared)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_multiprocessor_has_a_tile_at_most() {
        for (inputs, outputs) in [(64, 64), (256, 64), (512, 512), (512, 128)] {
            for precision in [Precision::F32, Precision::F16] {
                let step = Step::choose(inputs, outputs, precision, 132);
                assert!(step.blocks(NOMINAL_BATCH, true) <= 132, "{step:?}");
                assert!(step.shared(100 * 1024) <= 100 * 1024, "{step:?}");
            }
        }
        let step = Step::choose(512, 512, Precision::F16, 132);
        assert_eq!((step.below.groups(), step.gradient.groups()), (2, 2));
        assert_eq!(step.blocks(NOMINAL_BATCH, false), 64);
    }
}
