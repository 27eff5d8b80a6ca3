//! The forward pass with rows of samples and of weights as they lie in memory, and where another
//! one takes its place.

use crate::MlpError;
use crate::cuda::coopmat::{self, ByBatch};
use crate::cuda::kernels::{Forward, OneKernel};
use crate::cuda::launch::Launch;
use crate::cuda::request::Request;
use crate::cuda::source::Program;

use super::plan::Chain;
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
        let load = move |programs: &[Program]| -> Result<Box<dyn Forward>, MlpError> {
            let threads = u32::try_from(plan.block.threads).unwrap_or_default();
            Ok(Box::new(OneKernel {
                name: NAME,
                kernel: programs[0].kernel(NAME, plan.shared)?,
                launch: Box::new(move |batch| Launch {
                    shared: plan.shared,
                    ..Launch::new(plan.grid(batch, multiprocessors), threads)
                }),
            }))
        };
        Ok((most, coopmat::Plan { sources: vec![source], load: Box::new(load) }))
    };
    let many = terms::forward(request).map_or_else(|| plan(u32::MAX), |by_terms| Ok((u32::MAX, by_terms)))?;
    Ok(vec![plan(FEW_SAMPLES)?, many])
}
