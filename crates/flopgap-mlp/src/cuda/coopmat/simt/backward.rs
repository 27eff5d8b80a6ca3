//! The backward pass: the chain of deltas, then the gradients by the parameters.

use flopgap_gpu::{GpuError, Kernel};

use crate::MlpError;
use crate::cuda::coopmat::{self, ByBatch};
use crate::cuda::gradients::Gradients;
use crate::cuda::kernels::{Backward, BackwardCall, KernelFacts};
use crate::cuda::launch::{Arguments, Launch};
use crate::cuda::request::Request;
use crate::cuda::source::Program;

use super::plan::{Chain, Plan};
use super::{FEW_SAMPLES, choose, terms};

const NAME: &str = "coopmat_simt_mlp_backward";

/// Kernels for few samples and for many.
pub(in super::super) fn backward(
    request: &Request<'_>,
) -> Result<ByBatch<coopmat::Plan<dyn Backward>>, MlpError> {
    let plan = |most: u32| -> Result<_, MlpError> {
        let gradients = Gradients::new(request);
        if most > FEW_SAMPLES
            && let Some(chosen) = terms::chain(request, Chain::BackwardByTerms)
        {
            let sources = vec![chosen.source.clone(), gradients.source(request)];
            let load = move |programs: &[Program]| -> Result<Box<dyn Backward>, MlpError> {
                let deltas = Deltas::ByTerms(chosen.load(&programs[0])?);
                Ok(Box::new(SimtBackward { deltas, gradients: gradients.load(&programs[1])? }))
            };
            return Ok((most, coopmat::Plan { sources, load: Box::new(load) }));
        }
        let plan = choose(request, Chain::Backward, most == FEW_SAMPLES)?;
        let source = request.kernel("coopmat/simt/backward.cu", &plan.tables(), &plan.constants());
        let sources = vec![source, gradients.source(request)];
        let multiprocessors = request.target.multiprocessors;
        let load = move |programs: &[Program]| -> Result<Box<dyn Backward>, MlpError> {
            let deltas =
                Deltas::AsTheyLie { kernel: programs[0].kernel(NAME, plan.shared)?, plan, multiprocessors };
            Ok(Box::new(SimtBackward { deltas, gradients: gradients.load(&programs[1])? }))
        };
        Ok((most, coopmat::Plan { sources, load: Box::new(load) }))
    };
    Ok(vec![plan(FEW_SAMPLES)?, plan(u32::MAX)?])
}

/// What computes the deltas.
#[derive(Debug)]
enum Deltas {
    /// From weights as they lie.
    AsTheyLie {
        kernel: Kernel,
        plan: Plan,
        multiprocessors: u32,
    },
    ByTerms(terms::ByTerms),
}

#[derive(Debug)]
struct SimtBackward {
    deltas: Deltas,
    gradients: Gradients<Kernel>,
}

impl Backward for SimtBackward {
    fn keeps(&self, _batch: u32) -> bool {
        true
    }

    fn workspace(&self, batch: u32) -> usize {
        self.gradients.workspace(batch)
    }

    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        let arrays = [call.y, call.dy, call.tape, call.dx.unwrap_or(0), call.workspace];
        match &self.deltas {
            Deltas::ByTerms(chain) => {
                let arguments = Arguments::default().addresses(arrays).u32(call.batch);
                // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
                // expects: `Model` checked them, and the workspace begins with room for all deltas.
                // It leaves out `dx` at address 0.
                unsafe { chain.queue(call.stream, call.parameters, arguments, call.batch) }?;
            }
            Deltas::AsTheyLie { kernel, plan, multiprocessors } => {
                let arguments =
                    Arguments::default().addresses([call.parameters]).addresses(arrays).u32(call.batch);
                let threads = u32::try_from(plan.block.threads).unwrap_or_default();
                let grid = plan.grid(call.batch, *multiprocessors);
                let launch = Launch { shared: plan.shared, ..Launch::new(grid, threads) };
                // SAFETY: as above.
                unsafe { launch.queue(call.stream, kernel, arguments) }?;
            }
        }
        self.gradients.queue(call)
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let mut facts = match &self.deltas {
            Deltas::ByTerms(chain) => chain.facts()?,
            Deltas::AsTheyLie { kernel, plan, .. } => vec![KernelFacts::new(NAME, kernel, plan.shared)?],
        };
        facts.extend(self.gradients.facts()?);
        Ok(facts)
    }
}
