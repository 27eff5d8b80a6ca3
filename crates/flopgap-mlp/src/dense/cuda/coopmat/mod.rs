//! Tiles of the whole batch on all units: which kernels compute a network, by precision, architecture, sizes and batch.
//!
//! Every part offers passes as [`Plan`]s; forward and backward passes of different parts go together, because the tape has one layout. To add a
//! part, give it a folder with `forward(&Request) -> Result<Plan<dyn Forward>, MlpError>` or the like for `Backward`, and a place in
//! [`forward`] or [`backward`] below.

mod few;
mod mma;
mod simt;
mod wgmma;

use std::fmt;

use flopgap_gpu::compile::Compiler;
use flopgap_gpu::{Context, GpuError};

use crate::MlpError;
use crate::dense::Precision;

use super::implementation::Request;
use super::kernels::{Backward, BackwardCall, Forward, ForwardCall, KernelFacts, Kernels};
use super::source::{Program, Source};

/// A pass that has been chosen: what is compiled for it, and how it is made of the loaded programs, which come in the order of the sources.
pub(super) struct Plan<Pass: ?Sized> {
    pub(super) sources: Vec<Source>,
    pub(super) load: Box<Load<Pass>>,
}

type Load<Pass> = dyn FnOnce(&[Program]) -> Result<Box<Pass>, MlpError>;

impl<Pass: ?Sized> fmt::Debug for Plan<Pass> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("sources", &self.sources).finish_non_exhaustive()
    }
}

/// How the blocks of a cluster hand on hidden layers.
const CLUSTER_CUH: &str = include_str!("cluster.cuh");

/// The passes for batches of up to so many samples, each from where the one before ends. The last is for `u32::MAX`.
type ByBatch<Pass> = Vec<(u32, Pass)>;

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

/// Samples up to which `mma.sync` has the faster backward pass in one kernel.
const FEW: u32 = 1024;

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
            // Where the whole pass fits one kernel, no tape is written or read: that beats passes of several kernels.
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
    compiler: &Compiler,
    context: &Context,
) -> Result<Kernels, MlpError> {
    Ok(Kernels {
        forward: Box::new(ForwardByBatch(load_all(forward(request)?, compiler, context)?)),
        backward: Box::new(BackwardByBatch(load_all(backward(request)?, compiler, context)?)),
    })
}

fn load_all<Pass: ?Sized>(
    plans: ByBatch<Plan<Pass>>,
    compiler: &Compiler,
    context: &Context,
) -> Result<ByBatch<Box<Pass>>, MlpError> {
    let load = |(most, plan): (u32, Plan<Pass>)| {
        let programs = plan.sources.iter().map(|source| source.load(compiler, context));
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        Ok((most, (plan.load)(&programs)?))
    };
    plans.into_iter().map(load).collect()
}

/// The pass that takes this batch.
fn of_batch<Pass: ?Sized>(passes: &ByBatch<Box<Pass>>, batch: u32) -> &Pass {
    let index = passes.iter().position(|&(most, _)| batch <= most).unwrap_or(passes.len() - 1);
    &passes[index].1
}

/// The passes that a batch of up to this many samples can come to, each with the most samples that it then gets.
fn up_to<Pass: ?Sized>(passes: &ByBatch<Box<Pass>>, batch: u32) -> impl Iterator<Item = (u32, &Pass)> {
    let before = passes.iter().take_while(move |&&(most, _)| most < batch).count();
    passes.iter().take(before + 1).map(move |(most, pass)| (batch.min(*most), &**pass))
}

#[derive(Debug)]
struct ForwardByBatch(ByBatch<Box<dyn Forward>>);

impl Forward for ForwardByBatch {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        of_batch(&self.0, call.batch).queue(call)
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let facts = self.0.iter().map(|(_, pass)| pass.facts()).collect::<Result<Vec<_>, _>>()?;
        Ok(facts.into_iter().flatten().collect())
    }
}

#[derive(Debug)]
struct BackwardByBatch(ByBatch<Box<dyn Backward>>);

impl Backward for BackwardByBatch {
    fn keeps(&self, batch: u32) -> bool {
        of_batch(&self.0, batch).keeps(batch)
    }

    fn keeps_up_to(&self, batch: u32) -> bool {
        up_to(&self.0, batch).any(|(most, pass)| pass.keeps(most))
    }

    fn workspace(&self, batch: u32) -> usize {
        up_to(&self.0, batch).map(|(most, pass)| pass.workspace(most)).max().unwrap_or_default()
    }

    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        of_batch(&self.0, call.batch).queue(call)
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let facts = self.0.iter().map(|(_, pass)| pass.facts()).collect::<Result<Vec<_>, _>>()?;
        Ok(facts.into_iter().flatten().collect())
    }
}
