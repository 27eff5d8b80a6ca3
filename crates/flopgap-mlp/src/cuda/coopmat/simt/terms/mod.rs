//! Chains with both factors by the inner sum: a small kernel writes the weights out so, then all
//! layers of a tile of samples go through one kernel. More samples than a few are needed to make
//! good for the first kernel, and widths that its tiles divide well.

use flopgap_gpu::{GpuError, Kernel, Stream};

use crate::cuda::coopmat;
use crate::cuda::kernels::{Forward, ForwardCall, KernelFacts};
use crate::cuda::launch::{Arguments, Launch};
use crate::cuda::request::Request;
use crate::cuda::source::{Program, Source};
use crate::cuda::target::Target;
use crate::{MlpError, Network, slope_from_output};

use super::code_of;
use super::plan::{Block, Chain, Plan};

const FORWARD: &str = "coopmat_simt_mlp_forward_terms";
const BACKWARD: &str = "coopmat_simt_mlp_backward_terms";
const TRANSPOSE: &str = "coopmat_simt_mlp_transpose";

/// Instructions that these kernels may have: half as many as the others, because their products are
/// longer.
const MOST_CODE: usize = super::MOST_CODE / 2;

/// Threads of a block of [`TRANSPOSE`], as in `transpose.cu`.
const THREADS_TO_TRANSPOSE: usize = 256;

/// With less of the multiply-adds for products of the network, rows as they lie are taken: on an
/// H200, plans with 0.51 and 0.53 (72-136-24, 24-40-56-8 on 64 samples) were slower than those,
/// plans with 0.68 and 0.69 (8-64-64-64-8, 64-328-200) were faster.
const LEAST_EFFICIENCY: f64 = 0.65;

/// Warps of a multiprocessor, at least: two of a scheduler, so that one multiplies while the other
/// waits. With fewer nothing was measured.
const LEAST_WARPS: usize = 8;

/// Blocks, the best first; none where nothing was found that beats rows as they lie.
fn blocks(widest: usize, chain: Chain) -> Vec<Block> {
    let block =
        |threads, samples, most| Block { threads, samples, slab: 16, stages: 2, most, resident: false };
    let resident = |block: Block| Block { resident: true, ..block };
    // Larger tiles of samples are no faster for many samples, and leave more multiprocessors
    // without work for fewer.
    match widest {
        ..=64 => vec![resident(block(128, 128, 64)), block(128, 64, 64)],
        // On the way back there is more to wait for beside the products: twelve warps do so better
        // than eight.
        65..=128 if chain.backward() => vec![block(128, 64, 64)],
        65..=128 => vec![block(128, 128, 128), block(128, 64, 64)],
        129..=256 if chain.backward() => vec![block(128, 64, 128), block(128, 64, 64)],
        129..=256 => vec![block(128, 64, 128)],
        _ => vec![block(256, 64, 128)],
    }
}

fn choose(network: &Network, chain: Chain, target: Target) -> Option<Plan> {
    let mut widths = network.widths().to_vec();
    if chain.backward() {
        // For sm_100 and newer the compiler spills registers of the way back.
        if target.capability.major >= 10 {
            return None;
        }
        widths.reverse();
    }
    let widest = widths.iter().copied().max().unwrap_or_default();
    // Beside 128 sums there are no registers for the longer activations, or for their slopes: they
    // would spill.
    let long = (0..network.layers()).any(|layer| !slope_from_output(network.activation(layer)));
    let good = |plan: &Plan| {
        let wide = plan.block.most == 128;
        !(wide && long && (plan.block.samples == 128 || chain.backward()))
            && plan.blocks * plan.block.threads >= 32 * LEAST_WARPS
            && plan.efficiency() >= LEAST_EFFICIENCY
            && code_of(plan, network, chain) <= MOST_CODE
    };
    let fits = |block| Plan::new(&widths, block, chain, target).filter(good);
    blocks(widest, chain).into_iter().find_map(fits)
}

/// A chain that has been chosen: what is compiled for it.
pub(super) struct Chosen {
    pub(super) source: Source,
    plan: Plan,
    name: &'static str,
    multiprocessors: u32,
}

/// The chain, where it is the faster one for many samples.
pub(super) fn chain(request: &Request<'_>, chain: Chain) -> Option<Chosen> {
    let plan = choose(request.network, chain, request.target)?;
    let (name, path) = if chain.backward() {
        (BACKWARD, "coopmat/simt/terms/backward.cu")
    } else {
        (FORWARD, "coopmat/simt/terms/forward.cu")
    };
    let mut constants = plan.constants().to_vec();
    constants.push(("BACKWARD", usize::from(chain.backward())));
    let source = request.kernel(path, &plan.tables(), &constants);
    Some(Chosen { source, plan, name, multiprocessors: request.target.multiprocessors })
}

impl Chosen {
    pub(super) fn load(self, program: &Program) -> Result<ByTerms, MlpError> {
        let Chosen { plan, name, multiprocessors, .. } = self;
        let transpose = program.kernel(TRANSPOSE, 0)?;
        let kernel = program.kernel(name, plan.shared)?;
        Ok(ByTerms { transpose, kernel, plan, name, multiprocessors })
    }
}

/// The forward pass, where it is the faster one for many samples.
pub(super) fn forward(request: &Request<'_>) -> Option<coopmat::Plan<dyn Forward>> {
    let chosen = chain(request, Chain::ForwardByTerms)?;
    let sources = vec![chosen.source.clone()];
    let load = move |programs: &[Program]| -> Result<Box<dyn Forward>, MlpError> {
        Ok(Box::new(chosen.load(&programs[0])?))
    };
    Some(coopmat::Plan { sources, load: Box::new(load) })
}

/// The arranged weights are a variable of the program, so every model has its own. Parameters may
/// change from call to call: they are written in each. Passes of a model on several streams write
/// the same numbers.
#[derive(Debug)]
pub(super) struct ByTerms {
    transpose: Kernel,
    kernel: Kernel,
    plan: Plan,
    name: &'static str,
    multiprocessors: u32,
}

impl ByTerms {
    /// Queues both kernels.
    ///
    /// # Safety
    /// `arguments` must be those of the chain's kernel for so many samples.
    pub(super) unsafe fn queue(
        &self,
        stream: &Stream,
        parameters: u64,
        arguments: Arguments<'_>,
        batch: u32,
    ) -> Result<(), GpuError> {
        let number = |value: usize| {
            u32::try_from(value).map_err(|_| GpuError::TooLarge { what: "blocks of a kernel", value })
        };
        let transpose = Launch::new(
            number(self.plan.arranged().div_ceil(THREADS_TO_TRANSPOSE))?,
            number(THREADS_TO_TRANSPOSE)?,
        );
        // SAFETY: this is the kernel's argument, of the length that it expects.
        unsafe { transpose.queue(stream, &self.transpose, Arguments::default().addresses([parameters])) }?;
        let grid = self.plan.grid(batch, self.multiprocessors);
        let launch =
            Launch { shared: self.plan.shared, ..Launch::new(grid, number(self.plan.block.threads)?) };
        // SAFETY: the caller's promise.
        unsafe { launch.queue(stream, &self.kernel, arguments) }
    }

    pub(super) fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        Ok(vec![
            KernelFacts::new(TRANSPOSE, &self.transpose, 0)?,
            KernelFacts::new(self.name, &self.kernel, self.plan.shared)?,
        ])
    }
}

impl Forward for ByTerms {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        let arguments = Arguments::default()
            .addresses([call.parameters, call.x, call.y, call.tape.unwrap_or(0)])
            .u32(call.batch);
        // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
        // expects: `Model` checked them. It leaves out a tape at address 0.
        unsafe { ByTerms::queue(self, call.stream, call.parameters, arguments, call.batch) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        ByTerms::facts(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use flopgap_gpu::ComputeCapability;

    #[test]
    fn plans_are_those_that_were_measured() {
        let target = Target::nominal(ComputeCapability { major: 9, minor: 0 });
        let plan = |widths: &[usize]| {
            let plan = choose(&Network::new(widths).unwrap(), Chain::ForwardByTerms, target)?;
            Some((plan.block.threads, plan.block.samples, plan.blocks, plan.shared))
        };
        let of = |size: Size| plan(size.network().widths());
        assert_eq!(of(Size::Small), Some((128, 128, 3, 71_488)));
        assert_eq!(of(Size::Medium), Some((128, 128, 2, 101_504)));
        assert_eq!(of(Size::Large), Some((128, 64, 2, 112_384)));
        assert_eq!(of(Size::XLarge), Some((256, 64, 1, 216_064)));
        assert_eq!(plan(&[24, 40, 56, 8]), None, "tiles divide these badly");
        assert_eq!(plan(&[72, 136, 24]), None, "tiles divide these badly");
        assert_eq!(plan(&[64, 4096, 64]), None, "no room in shared memory");
        assert!(plan(&[8, 64, 64, 64, 8]).is_some());
        let back = |size: Size| {
            let plan = choose(&size.network(), Chain::BackwardByTerms, target)?;
            Some((plan.block.threads, plan.block.samples, plan.blocks, plan.shared))
        };
        assert_eq!(back(Size::Small), Some((128, 128, 3, 54_272)));
        assert_eq!(back(Size::Medium), Some((128, 64, 3, 51_200)));
        assert_eq!(back(Size::Large), Some((128, 64, 2, 102_400)));
        assert_eq!(back(Size::XLarge), Some((256, 64, 1, 204_800)));
    }
}
