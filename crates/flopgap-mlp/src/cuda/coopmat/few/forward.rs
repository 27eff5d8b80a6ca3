//! Outputs of few samples in 32 bits: a cluster of blocks to some samples, each block with a slice
//! of every layer.

use crate::Precision;
use crate::cuda::budget;
use crate::cuda::coopmat::plan::Plan;
use crate::cuda::kernels::{Forward, OneKernel};
use crate::cuda::launch::Launch;
use crate::cuda::request::Request;
use crate::cuda::source::table;

use super::{NOMINAL_BATCH, THREADS, WARPS};

const KERNEL: &str = "coopmat_mlp_forward_few";

/// The largest batch that it is for. Beyond, tiles of more samples read the weights less often.
const MOST_BATCH: u32 = 512;

/// Sums of a thread at most.
const MOST_SUMS: usize = 40;

/// Stages of a warp's ring at most.
const MOST_STAGES: usize = 3;

/// How a network is cut, and what a block has in shared memory: as in `forward.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    /// Blocks of a cluster.
    cluster: usize,
    /// Samples of a cluster.
    samples: usize,
    /// Numbers of the inner dimension in a stage of a warp's ring.
    step: usize,
    stages: usize,
    /// Columns of a block in the widest layer.
    slice: usize,
    shared: usize,
}

/// Columns of a layer that a block has.
fn slice(outputs: usize, cluster: usize) -> usize {
    outputs.div_ceil(cluster).next_multiple_of(8)
}

impl Shape {
    /// With the longest ring that fits.
    fn choose(widths: &[usize], most_shared: usize, multiprocessors: u32) -> Option<Self> {
        let layers = widths.len() - 1;
        let inner = widths[..layers].iter().copied().max()?;
        // Clusters of narrow layers are small: their blocks would have little to do beside what
        // they hand on.
        let cluster = if inner > 128 { 8 } else { 4 };
        // All clusters are to run at once. Multiprocessors are grouped, and those that are left
        // over in each group have none: one cluster less.
        let at_once = (multiprocessors as usize / cluster).saturating_sub(1).max(1);
        let samples = NOMINAL_BATCH.div_ceil(at_once).next_multiple_of(4).max(16);
        let slices = || widths[1..].iter().map(|&outputs| slice(outputs, cluster));
        let widest = slices().max()?;
        let share = inner.div_ceil(WARPS).next_multiple_of(8);
        let step = if share >= 16 { 16 } else { 8 };
        let arrivals = 4 * (layers - 1).next_multiple_of(2) / 2;
        let partial = WARPS * samples * (widest.next_multiple_of(32) + 8);
        let rest =
            arrivals + 2 * samples * (inner.next_multiple_of(32) + 4) + partial + slices().sum::<usize>();
        let stage = WARPS * widest * step;
        let of_layers = layers * share.div_ceil(step);
        let stages = ((most_shared / 4).checked_sub(rest)? / stage).min(MOST_STAGES).min(of_layers);
        let sums = samples / 4 * (widest / 8);
        let shared = 4 * (rest + stages * stage);
        (stages > 0 && sums <= MOST_SUMS).then_some(Shape {
            cluster,
            samples,
            step,
            stages,
            slice: widest,
            shared,
        })
    }
}

/// On architectures with clusters, where a block's part of a network fits: the largest batch that
/// it is for, and the kernel.
pub(in super::super) fn forward(request: &Request<'_>) -> Option<(u32, Plan<dyn Forward>)> {
    let widths = request.network.widths();
    if request.precision != Precision::F32
        || request.target.capability.major < 9
        || request.network.layers() > budget::UNROLLED_LAYERS
    {
        return None;
    }
    let shape = Shape::choose(widths, request.target.shared_bytes, request.target.multiprocessors)?;
    let slices: Vec<usize> = widths[1..].iter().map(|&outputs| slice(outputs, shape.cluster)).collect();
    let inner = widths[..widths.len() - 1].iter().copied().max().unwrap_or_default();
    let constants = [
        ("WARPS", WARPS),
        ("CLUSTER", shape.cluster),
        ("SAMPLES", shape.samples),
        ("STEP", shape.step),
        ("STAGES", shape.stages),
        ("SLICE", shape.slice),
        ("WIDEST_INNER", inner),
    ];
    let source = request.kernel("coopmat/few/forward.cu", &table("slice", &slices), &constants);
    let plan: Plan<dyn Forward> = Plan {
        sources: vec![source],
        load: Box::new(move |programs| {
            let number = |value: usize| u32::try_from(value).unwrap_or(1);
            let (cluster, samples, shared) = (number(shape.cluster), number(shape.samples), shape.shared);
            Ok(Box::new(OneKernel {
                name: KERNEL,
                kernel: programs[0].kernel(KERNEL, shared)?,
                launch: Box::new(move |batch| Launch {
                    shared,
                    cluster,
                    overlap: true,
                    ..Launch::new(batch.div_ceil(samples) * cluster, THREADS)
                }),
            }))
        }),
    };
    Some((MOST_BATCH, plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 227 * 1024;

    #[test]
    fn all_clusters_run_at_once() {
        let wide = Shape::choose(&[512, 512, 128], MOST, 132).unwrap();
        assert_eq!((wide.cluster, wide.samples, wide.slice, wide.stages), (8, 20, 64, 3));
        assert!(wide.shared <= MOST, "{wide:?}");
        assert!(NOMINAL_BATCH.div_ceil(wide.samples) <= 15);
        let narrow = Shape::choose(&[64, 64, 16], MOST, 132).unwrap();
        assert_eq!((narrow.cluster, narrow.samples, narrow.step), (4, 16, 8));
    }

    #[test]
    fn a_block_has_columns_of_every_layer_that_make_up_its_outputs() {
        for outputs in (8..=512).step_by(8) {
            for cluster in [4, 8] {
                let columns = slice(outputs, cluster);
                assert!(columns.is_multiple_of(8) && columns * cluster >= outputs, "{outputs} {cluster}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_goes_another_way() {
        assert_eq!(Shape::choose(&[512, 512, 128], 99 * 1024, 170), None);
        assert_eq!(Shape::choose(&[512, 1024, 128], MOST, 132), None);
        let fits = Shape::choose(&[256, 256, 64], 99 * 1024, 170).unwrap();
        assert!(fits.stages >= 1 && fits.shared <= 99 * 1024, "{fits:?}");
    }
}
