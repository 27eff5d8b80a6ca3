//! Scalar multiply-adds, a sample a thread: layers in shared memory, a column for every thread;
//! weights in slabs that all threads read together.

use flopgap_gpu::{Context, GpuError, Kernel};

use crate::MlpError;

use super::budget;
use super::gradients::Gradients;
use super::kernels::{Backward, BackwardCall, Forward, ForwardCall, KernelFacts, Kernels};
use super::launch::{Arguments, Launch};
use super::request::Request;
use super::source::{Binaries, Program, Source};
use super::target::Target;

const FORWARD: &str = "forloop_mlp_forward";
const BACKWARD: &str = "forloop_mlp_backward";

/// Numbers of the inner sum that are in shared memory at a time, twice.
const SLAB: usize = 16;

/// Instructions of a layer on both ways beside its activations, and outputs of a thread at a time,
/// at most.
const LAYER_INSTRUCTIONS: usize = 900;
const OUTPUTS: usize = 16;

/// Up to this many samples, many threads share one.
const FEW_SAMPLES: u32 = 2048;

/// How samples are laid over a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    threads: usize,
    samples: usize,
    values_at: usize,
    values_of_odd: usize,
    shared: usize,
    blocks: u32,
    multiprocessors: u32,
}

impl Plan {
    fn new(widths: &[usize], threads: usize, samples: usize, target: Target) -> Self {
        let groups = threads / samples;
        let widest = |first: usize| widths.iter().skip(first).step_by(2).copied().max().unwrap_or_default();
        let values_at = 2 * groups * 16 * SLAB;
        let (even, odd) = (widest(0) * samples, widest(1) * samples);
        let shared = 4 * (values_at + even + odd);
        let fit = (target.shared_bytes + 1024) / (shared + 1024);
        let blocks = fit.min(1024 / threads).max(1);
        Plan {
            threads,
            samples,
            values_at,
            values_of_odd: even,
            shared,
            blocks: u32::try_from(blocks).unwrap_or(1),
            multiprocessors: target.multiprocessors,
        }
    }

    /// A thread a sample where that leaves room for two blocks on a multiprocessor; otherwise, and
    /// for few samples, some share one. An error is the reason why none fits.
    fn choose(request: &Request<'_>, few: bool) -> Result<Self, String> {
        let (target, widths) = (request.target, request.network.widths());
        let plans = [(128, 128), (256, 64), (256, 32), (128, 16), (128, 8)]
            .map(|(threads, samples)| Plan::new(widths, threads, samples, target));
        let least = plans[plans.len() - 1];
        if least.shared > target.shared_bytes {
            return Err(format!(
                "the layers of 8 samples take {} bytes of shared memory, a block has {}",
                least.shared, target.shared_bytes
            ));
        }
        let roomy = plans.into_iter().find(|plan| 2 * plan.shared <= target.shared_bytes);
        Ok(if few { least } else { roomy.unwrap_or(least) })
    }

    /// For few samples and for many: see [`of_batch`].
    pub(super) fn few_and_many(request: &Request<'_>) -> Result<[Self; 2], String> {
        Ok([Plan::choose(request, true)?, Plan::choose(request, false)?])
    }

    fn source(&self, request: &Request<'_>) -> Source {
        let alike = instructions(request) > 2 * budget::KERNEL;
        request.kernel("forloop/forloop.cu", "", &self.constants(alike))
    }

    /// What `layers.cuh` needs; whether all layers share their code.
    pub(super) fn constants(&self, alike: bool) -> [(&'static str, usize); 6] {
        [
            ("THREADS", self.threads),
            ("SAMPLES", self.samples),
            ("SLAB", SLAB),
            ("VALUES_AT", self.values_at),
            ("VALUES_OF_ODD", self.values_of_odd),
            ("ALIKE", usize::from(alike)),
        ]
    }

    /// Bytes of shared memory of a block.
    pub(super) fn shared(&self) -> usize {
        self.shared
    }

    pub(super) fn launch(&self, batch: u32) -> Launch {
        let tiles = batch.div_ceil(u32::try_from(self.samples).unwrap_or(1));
        let grid = tiles.min(self.multiprocessors * self.blocks);
        Launch { shared: self.shared, ..Launch::new(grid, u32::try_from(self.threads).unwrap_or_default()) }
    }
}

/// Instructions of both kernels with code for each layer, more or less.
pub(super) fn instructions(request: &Request<'_>) -> usize {
    let network = request.network;
    let of_layer = |layer| {
        let activation = network.activation(layer);
        LAYER_INSTRUCTIONS + OUTPUTS * (budget::activation(activation) + budget::slope(activation))
    };
    (0..network.layers()).map(of_layer).sum()
}

/// The kernels for few samples and for many.
fn plans(request: &Request<'_>) -> Result<[Plan; 2], MlpError> {
    let refuse = |reason: String| request.unsupported(reason + "; naive takes wider ones");
    Plan::few_and_many(request).map_err(refuse)
}

pub(super) fn sources(request: &Request<'_>) -> Result<Vec<Source>, MlpError> {
    let mut sources: Vec<Source> = plans(request)?.iter().map(|plan| plan.source(request)).collect();
    sources.push(Gradients::new(request).source(request));
    Ok(sources)
}

pub(super) fn load(
    request: &Request<'_>,
    binaries: &Binaries,
    context: &Context,
) -> Result<Kernels, MlpError> {
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    for plan in plans(request)? {
        let program: Program = plan.source(request).load(binaries, context)?;
        forward.push((plan, program.kernel(FORWARD, plan.shared)?));
        backward.push((plan, program.kernel(BACKWARD, plan.shared)?));
    }
    let gradients = Gradients::new(request);
    let gradients = gradients.load(&gradients.source(request).load(binaries, context)?)?;
    Ok(Kernels {
        forward: Box::new(ForloopForward(forward)),
        backward: Box::new(ForloopBackward { kernels: backward, gradients }),
    })
}

/// What is for this batch, of what is for few samples and for many.
pub(super) fn of_batch<T>(few_and_many: &[T], batch: u32) -> &T {
    &few_and_many[usize::from(batch > FEW_SAMPLES)]
}

fn facts_of(name: &str, kernels: &[(Plan, Kernel)]) -> Result<Vec<KernelFacts>, GpuError> {
    kernels.iter().map(|(plan, kernel)| KernelFacts::new(name, kernel, plan.shared)).collect()
}

#[derive(Debug)]
struct ForloopForward(Vec<(Plan, Kernel)>);

impl Forward for ForloopForward {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        let (plan, kernel) = of_batch(&self.0, call.batch);
        let arguments = Arguments::default()
            .addresses([call.parameters, call.x, call.y, call.tape.unwrap_or(0)])
            .u32(call.batch);
        // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
        // expects: `Model` checked them. It leaves out a tape at address 0.
        unsafe { plan.launch(call.batch).queue(call.stream, kernel, arguments) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        facts_of(FORWARD, &self.0)
    }
}

#[derive(Debug)]
struct ForloopBackward {
    kernels: Vec<(Plan, Kernel)>,
    gradients: Gradients<Kernel>,
}

impl Backward for ForloopBackward {
    fn keeps(&self, _batch: u32) -> bool {
        true
    }

    fn workspace(&self, batch: u32) -> usize {
        self.gradients.workspace(batch)
    }

    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        let (plan, kernel) = of_batch(&self.kernels, call.batch);
        let arguments = Arguments::default()
            .addresses([call.parameters, call.y, call.dy, call.tape, call.dx.unwrap_or(0), call.workspace])
            .u32(call.batch);
        // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
        // expects: `Model` checked them, and the workspace begins with room for all deltas. It
        // leaves out `dx` at address 0.
        unsafe { plan.launch(call.batch).queue(call.stream, kernel, arguments) }?;
        self.gradients.queue(call)
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let mut facts = facts_of(BACKWARD, &self.kernels)?;
        facts.extend(self.gradients.facts()?);
        Ok(facts)
    }
}
