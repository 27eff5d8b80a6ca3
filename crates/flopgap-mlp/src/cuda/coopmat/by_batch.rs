//! Passes of which each takes batches of some sizes.

use flopgap_gpu::{Context, GpuError};

use crate::MlpError;
use crate::cuda::kernels::{Backward, BackwardCall, Forward, ForwardCall, KernelFacts};

use super::plan::Plan;
use crate::cuda::source::Binaries;

/// The passes for batches of up to so many samples, each from where the one before ends. The last
/// is for `u32::MAX`.
pub(super) type ByBatch<Pass> = Vec<(u32, Pass)>;

/// Compiles and loads them.
pub(super) fn load_all<Pass: ?Sized>(
    plans: ByBatch<Plan<Pass>>,
    binaries: &Binaries,
    context: &Context,
) -> Result<ByBatch<Box<Pass>>, MlpError> {
    let load = |(most, plan): (u32, Plan<Pass>)| {
        let programs = plan.sources.iter().map(|source| source.load(binaries, context));
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

/// The passes that a batch of up to this many samples can come to, each with the most samples that
/// it then gets.
fn up_to<Pass: ?Sized>(passes: &ByBatch<Box<Pass>>, batch: u32) -> impl Iterator<Item = (u32, &Pass)> {
    let before = passes.iter().take_while(move |&&(most, _)| most < batch).count();
    passes.iter().take(before + 1).map(move |(most, pass)| (batch.min(*most), &**pass))
}

/// The forward pass that takes a batch computes it.
#[derive(Debug)]
pub(super) struct ForwardByBatch(pub(super) ByBatch<Box<dyn Forward>>);

impl Forward for ForwardByBatch {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        of_batch(&self.0, call.batch).queue(call)
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        let facts = self.0.iter().map(|(_, pass)| pass.facts()).collect::<Result<Vec<_>, _>>()?;
        Ok(facts.into_iter().flatten().collect())
    }
}

/// The same backward.
#[derive(Debug)]
pub(super) struct BackwardByBatch(pub(super) ByBatch<Box<dyn Backward>>);

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
