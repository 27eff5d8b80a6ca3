//! The backward pass: the chain of deltas, then the gradients by the parameters.

use flopgap_gpu::{GpuError, Kernel};

use crate::MlpError;
use crate::dense::cuda::coopmat::{self, ByBatch};
use crate::dense::cuda::gradients::Gradients;
use crate::dense::cuda::implementation::Request;
use crate::dense::cuda::kernels::{Backward, BackwardCall, KernelFacts};
use crate::dense::cuda::launch::{Arguments, Launch};
use crate::dense::cuda::source::Program;

use super::plan::{Chain, Plan};
use super::{FEW_SAMPLES, SHAPE, TILES, choose};

const NAME: &str = "coopmat_simt_mlp_backward";

/// Kernels for few samples and for many.
pub(in super::super) fn backward(
    request: &Request<'_>,
) -> Result<ByBatch<coopmat::Plan<dyn Backward>>, MlpError> {
    let widths: Vec<usize> = request.network.widths().iter().rev().copied().collect();
    let plan = |most: u32| -> Result<_, MlpError> {
        let plan = choose(&widths, Chain::Backward, request.target, most == FEW_SAMPLES);
        let plan = plan.ok_or_else(|| {
            request
                .unsupported("the deltas of 4 samples do not fit the shared memory; naive has no such limit")
        })?;
        let body = format!("{}\n{TILES}\n{SHAPE}\n{}", plan.tables(), include_str!("backward.cu"));
        let source = request.source("coopmat_simt_backward.cu", &body, &plan.constants());
        let gradients = Gradients::new(request);
        let sources = vec![source, gradients.source(request)];
        let multiprocessors = request.target.multiprocessors;
        let load = move |programs: &[Program]| -> Result<Box<dyn Backward>, MlpError> {
            let kernel = programs[0].kernel(NAME, plan.shared)?;
            let gradients = gradients.load(&programs[1])?;
            Ok(Box::new(SimtBackward { kernel, plan, gradients, multiprocessors }))
        };
        Ok((most, coopmat::Plan { sources, load: Box::new(load) }))
    };
    Ok(vec![plan(FEW_SAMPLES)?, plan(u32::MAX)?])
}

#[derive(Debug)]
struct SimtBackward {
    kernel: Kernel,
    plan: Plan,
    gradients: Gradients<Kernel>,
    multiprocessors: u32,
}

impl Backward for SimtBackward {
    fn keeps(&self, _batch: u32) -> bool {
        true
    }

    fn workspace(&self, batch: u32) -> usize {
        self.gradients.workspace(batch)
    }

    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        let arguments = Arguments::default()
            .addresses([call.parameters, call.y, call.dy, call.tape, call.dx.unwrap_or(0), call.workspace])
            .u32(call.batch);
        let threads = u32::try_from(self.plan.block.threads).unwrap_or_default();
        let grid = self.plan.grid(call.batch, self.multiprocessors);
        let launch = Launch { shared: self.plan.shared, ..Launch::new(grid, threads) };
        // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it expects: `Model` checked them, and the workspace
        // begins with room for all deltas. It leaves out `dx` at address 0.
        unsafe { launch.queue(call.stream, &self.kernel, arguments) }?;
        self.gradients.queue(call)
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let mut facts = vec![KernelFacts::of(NAME, &self.kernel, self.plan.shared)?];
        facts.extend(self.gradients.facts()?);
        Ok(facts)
    }
}
