//! The forward pass: tiles of samples through all layers.

use crate::MlpError;

use super::super::super::kernels::{Forward, OneKernel};
use super::super::super::launch::Launch;
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
            let most = multiprocessors * u32::try_from(tiling.blocks).unwrap_or(1);
            Ok(Box::new(OneKernel {
                name: KERNEL,
                kernel: programs[0].kernel(KERNEL, tiling.shared)?,
                launch: Box::new(move |batch| Launch {
                    shared: tiling.shared,
                    ..Launch::new(tiling.tiles(batch).min(most), THREADS)
                }),
            }))
        }),
    })
}
