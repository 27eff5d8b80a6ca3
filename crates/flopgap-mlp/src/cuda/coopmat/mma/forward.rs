//! The forward pass: tiles of samples through all layers.

use flopgap_gpu::{GpuError, Kernel};

use crate::MlpError;

use super::super::super::kernels::{Forward, ForwardCall, KernelFacts};
use super::super::super::launch::{Arguments, Launch};
use super::super::super::request::Request;
use super::super::plan::Plan;
use super::{THREADS, Tiling, check};

const KERNEL: &str = "coopmat_mlp_forward_mma";

/// Persistent blocks: for large batches.
pub(in super::super) fn forward(request: &Request<'_>) -> Result<Plan<dyn Forward>, MlpError> {
    check(request)?;
    let tiling = Tiling::choose(request, false)?;
    let multiprocessors = request.target.multiprocessors;
    Ok(Plan {
        sources: vec![tiling.source(request, "coopmat/mma/forward.cu", false)],
        load: Box::new(move |programs| {
            let kernel = programs[0].kernel(KERNEL, tiling.shared)?;
            Ok(Box::new(Tiles { kernel, tiling, multiprocessors }))
        }),
    })
}

#[derive(Debug)]
struct Tiles {
    kernel: Kernel,
    tiling: Tiling,
    multiprocessors: u32,
}

impl Forward for Tiles {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        let blocks = self.multiprocessors * u32::try_from(self.tiling.blocks).unwrap_or(1);
        let mut launch = Launch::new(self.tiling.tiles(call.batch).min(blocks), THREADS);
        launch.shared = self.tiling.shared;
        let arguments = Arguments::default()
            .addresses([call.parameters, call.x, call.y, call.tape.unwrap_or(0)])
            .u32(call.batch);
        // SAFETY: these are the kernel's arguments, of the lengths that it expects; it leaves out a
        // tape at address 0.
        unsafe { launch.queue(call.stream, &self.kernel, arguments) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        Ok(vec![KernelFacts::of(KERNEL, &self.kernel, self.tiling.shared)?])
    }
}
