//! The forward pass with rows of samples and of weights as they lie in memory, and where another
//! one takes its place.

use flopgap_gpu::{GpuError, Kernel};

use crate::MlpError;
use crate::cuda::coopmat::{self, ByBatch};
use crate::cuda::kernels::{Forward, ForwardCall, KernelFacts};
use crate::cuda::launch::{Arguments, Launch};
use crate::cuda::request::Request;

use super::plan::{Chain, Plan};
use super::{FEW_SAMPLES, choose, terms};

const NAME: &str = "coopmat_simt_mlp_forward";

/// Kernels for few samples and for many.
pub(in super::super) fn forward(
    request: &Request<'_>,
) -> Result<ByBatch<coopmat::Plan<dyn Forward>>, MlpError> {
    let plan = |most: u32| -> Result<_, MlpError> {
        let plan = choose(request, Chain::Forward, most == FEW_SAMPLES)?;
        let source = request.kernel("coopmat/simt/forward.cu", &plan.tables(), &plan.constants());
        let multiprocessors = request.target.multiprocessors;
        let load = move |programs: &[_]| -> Result<Box<dyn Forward>, MlpError> {
            let [program] = programs else { unreachable!("one source") };
            let program: &crate::cuda::source::Program = program;
            let kernel = program.kernel(NAME, plan.shared)?;
            Ok(Box::new(SimtForward { kernel, plan, multiprocessors }))
        };
        Ok((most, coopmat::Plan { sources: vec![source], load: Box::new(load) }))
    };
    let many = terms::forward(request).map_or_else(|| plan(u32::MAX), |by_terms| Ok((u32::MAX, by_terms)))?;
    Ok(vec![plan(FEW_SAMPLES)?, many])
}

#[derive(Debug)]
struct SimtForward {
    kernel: Kernel,
    plan: Plan,
    multiprocessors: u32,
}

impl Forward for SimtForward {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        let arguments = Arguments::default()
            .addresses([call.parameters, call.x, call.y, call.tape.unwrap_or(0)])
            .u32(call.batch);
        let threads = u32::try_from(self.plan.block.threads).unwrap_or_default();
        let grid = self.plan.grid(call.batch, self.multiprocessors);
        // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
        // expects: `Model` checked them. It leaves out a tape at address 0.
        unsafe {
            Launch { shared: self.plan.shared, ..Launch::new(grid, threads) }.queue(
                call.stream,
                &self.kernel,
                arguments,
            )
        }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        Ok(vec![KernelFacts::of(NAME, &self.kernel, self.plan.shared)?])
    }
}
