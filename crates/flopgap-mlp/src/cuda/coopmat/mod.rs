//! Tiles of the whole batch on all units: which kernels compute a network, by precision,
//! architecture, sizes and batch.
//!
//! Every part offers passes as [`Plan`]s; forward and backward passes of different parts go
//! together, because the tape has one layout. To add a part, give it a folder with
//! `forward(&Request) -> Result<Plan<dyn Forward>, MlpError>` or the like for `Backward`, and a
//! place in [`forward`] or [`backward`] below.

mod by_batch;
mod few;
mod mma;
mod plan;
mod simt;
mod wgmma;

use flopgap_gpu::Context;

use crate::{MlpError, Precision};

use super::kernels::{Backward, Forward, Kernels};
use super::request::Request;
use super::source::{Binaries, Source};

use by_batch::{BackwardByBatch, ByBatch, ForwardByBatch, load_all};
use plan::Plan;

/// Which kernels compute the outputs.
fn forward(request: &Request<'_>) -> Result<ByBatch<Plan<dyn Forward>>, MlpError> {
    match request.precision {
        Precision::F32 => Ok(few::forward(request).into_iter().chain(simt::forward(request)?).collect()),
        Precision::F16 | Precision::Bf16 => {
            let few = mma::latency(request);
            let many = wgmma::forward(request).or_else(|_| mma::forward(request))?;
            Ok(few.into_iter().chain([(u32::MAX, many)]).collect())
        }
    }
}

/// Samples up to which `mma.sync` has the backward pass in one kernel. At 1,024 samples `wgmma`
/// takes 0.83 (small) and 0.49 (medium) of its time.
const FEW: u32 = 512;

/// Which kernels compute the gradients.
fn backward(request: &Request<'_>) -> Result<ByBatch<Plan<dyn Backward>>, MlpError> {
    let few = few::backward(request);
    let many = backward_of_many(request)?;
    Ok(few.into_iter().chain(many).collect())
}

/// The same, but for few samples.
fn backward_of_many(request: &Request<'_>) -> Result<ByBatch<Plan<dyn Backward>>, MlpError> {
    match request.precision {
        Precision::F32 => simt::backward(request),
        Precision::F16 | Precision::Bf16 => {
            // Where the whole pass fits one kernel, no tape is written or read: that beats passes
            // of several kernels.
            let few = mma::fused(request);
            if let Some(many) = wgmma::fused(request) {
                let few = few.map(|plan| (FEW, plan)).into_iter();
                return Ok(few.chain([(u32::MAX, many)]).collect());
            }
            let of_several = || wgmma::backward(request).or_else(|_| mma::backward(request));
            let whole = few.or_else(|| wgmma::pair(request)).map_or_else(of_several, Ok)?;
            Ok(vec![(u32::MAX, whole)])
        }
    }
}

pub(super) fn sources(request: &Request<'_>) -> Result<Vec<Source>, MlpError> {
    let (forward, backward) = (forward(request)?, backward(request)?);
    let forward = forward.into_iter().flat_map(|(_, plan)| plan.sources);
    Ok(forward.chain(backward.into_iter().flat_map(|(_, plan)| plan.sources)).collect())
}

pub(super) fn load(
    request: &Request<'_>,
    binaries: &Binaries,
    context: &Context,
) -> Result<Kernels, MlpError> {
    Ok(Kernels {
        forward: Box::new(ForwardByBatch(load_all(forward(request)?, binaries, context)?)),
        backward: Box::new(BackwardByBatch(load_all(backward(request)?, binaries, context)?)),
    })
}
