//! The gradients of the parameters, from what the blocks of a kernel find.

use flopgap_gpu::{GpuError, Kernel};

use super::kernels::{BackwardCall, KernelFacts, zero};
use super::launch::{Arguments, Launch};
use super::source::Program;

/// A kernel that adds up what was found, always in the same order. It takes the address of that,
/// the address of the gradients, and, unless it knows it, how many were found.
#[derive(Debug, Clone, Copy)]
pub(super) struct SumKernel {
    pub(super) name: &'static str,
    pub(super) threads: u32,
    /// Parameters that a block adds up.
    pub(super) parameters_of_block: usize,
    /// Whether it waits itself for what was queued before.
    pub(super) overlap: bool,
}

/// What becomes of the gradients that blocks find: they are added up in a fixed order by a kernel,
/// or added by the blocks themselves, atomically.
#[derive(Debug)]
pub(super) struct Reducer {
    parameters: usize,
    /// None for atomic additions.
    sum: Option<(SumKernel, Kernel)>,
}

impl Reducer {
    /// For a network of so many parameters; `program` has the kernel.
    pub(super) fn load(
        program: &Program,
        sum: SumKernel,
        parameters: usize,
        atomic: bool,
    ) -> Result<Self, GpuError> {
        let sum = if atomic { None } else { Some((sum, program.kernel(sum.name, 0)?)) };
        Ok(Reducer { parameters, sum })
    }

    /// Bytes of the workspace for the gradients of all parameters from so many blocks.
    pub(super) fn workspace(&self, blocks: u32) -> usize {
        if self.sum.is_some() { 4 * blocks as usize * self.parameters } else { 0 }
    }

    /// Where blocks leave what they find: from the workspace's begin on, or, atomically, in the
    /// gradients, which are queued to be zero.
    pub(super) fn prepare(&self, call: &BackwardCall<'_>) -> Result<u64, GpuError> {
        if self.sum.is_some() {
            return Ok(call.workspace);
        }
        // SAFETY: `gradients` has so many bytes: `Model` checked it.
        unsafe { zero(call.stream, call.gradients, 4 * self.parameters) }?;
        Ok(call.gradients)
    }

    /// Queues what is left to do when the blocks are done.
    ///
    /// # Safety
    /// The kernel must take these arguments, and what it reads must lie in the workspace, written
    /// by what was queued before.
    pub(super) unsafe fn finish(&self, call: &BackwardCall<'_>, count: Option<u32>) -> Result<(), GpuError> {
        let Some((sum, kernel)) = &self.sum else { return Ok(()) };
        let blocks = u32::try_from(self.parameters.div_ceil(sum.parameters_of_block)).unwrap_or(u32::MAX);
        let arguments = Arguments::default().addresses([call.workspace, call.gradients]);
        let arguments = count.into_iter().fold(arguments, Arguments::u32);
        let launch = Launch { overlap: sum.overlap, ..Launch::new(blocks, sum.threads) };
        // SAFETY: the caller's promise; `gradients` has a number for each parameter: `Model`
        // checked it.
        unsafe { launch.queue(call.stream, kernel, arguments) }
    }

    /// The kernel, if there is one.
    pub(super) fn facts(&self) -> Result<Option<KernelFacts>, GpuError> {
        self.sum.as_ref().map(|(sum, kernel)| KernelFacts::new(sum.name, kernel, 0)).transpose()
    }
}
