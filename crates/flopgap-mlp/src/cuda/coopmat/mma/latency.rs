//! The forward pass of few samples: a cluster of blocks to 16 samples, each with a slice of every
//! layer.

use super::super::super::budget;
use super::super::super::kernels::{Forward, OneKernel};
use super::super::super::launch::Launch;
use super::super::super::request::Request;
use super::super::plan::Plan;
use super::check;

const KERNEL: &str = "coopmat_mlp_forward_mma_latency";

/// Samples of a cluster.
const ROWS: u32 = 16;
/// Clusters, from the one that costs least; the registers for the weights of a layer up to which
/// each is taken, and the batch up to which it was the fastest on an H200. 256 samples in clusters
/// of 6 have all multiprocessors to themselves, in clusters of 8 they have not: a cluster lies in
/// one group of multiprocessors, and those have up to 18.
const CLUSTERS: [(usize, usize, u32); 5] =
    [(1, 8, 2048), (2, 16, 2048), (4, 32, 2048), (6, 96, 256), (8, 96, 1024)];

/// The same without clusters.
const ALONE: [(usize, usize, u32); 1] = [(1, 64, 2048)];

/// Registers for the weights of two layers, one of which is loaded while the other is computed.
const MOST_WEIGHTS: usize = 176;

/// Blocks of a cluster, warps of a block.
#[derive(Debug, Clone, Copy)]
struct Split {
    cluster: usize,
    warps: usize,
    shared: usize,
}

/// What a warp has of a layer, as `Part` in `latency.cu`: registers for weights; and bytes for sums
/// of a block.
fn part(k: usize, n: usize, split: (usize, usize)) -> (usize, usize) {
    let (cluster, warps) = split;
    let slice = n.div_ceil(cluster).next_multiple_of(8);
    let chunks = k.div_ceil(32);
    let along_k = (1 << chunks.ilog2()).min(warps);
    let along_n = warps / along_k;
    let registers = 4 * (slice / 8).div_ceil(along_n) * chunks.div_ceil(along_k);
    (registers, 4 * along_k * 16 * (slice.next_multiple_of(32) + 8))
}

impl Split {
    /// For a cluster of so many blocks, if the weights take at most so many registers.
    fn of(request: &Request<'_>, cluster: usize, most: usize) -> Option<Self> {
        let widths = request.network.widths();
        let layers = request.network.layers();
        let warps = 8;
        let parts: Vec<_> = widths.windows(2).map(|pair| part(pair[0], pair[1], (cluster, warps))).collect();
        let registers = parts.iter().map(|&(registers, _)| registers).max()?;
        let together = parts.windows(2).map(|two| two[0].0 + two[1].0).max()?;
        let partial = parts.iter().map(|&(_, bytes)| bytes).max()?;
        let pitch = widths[1..layers].iter().map(|&k| k.next_multiple_of(64) + 32).max()?;
        let slice = widths[1..].iter().map(|n| n.div_ceil(cluster).next_multiple_of(8)).max()?;
        let arrivals = 8 * (layers - 1).next_multiple_of(2);
        let shared = arrivals + 2 * 2 * ROWS as usize * pitch + 4 * 32 * warps + partial;
        let fits = registers <= most
            && together <= MOST_WEIGHTS
            && slice <= 32 * warps
            && shared <= request.target.shared_bytes;
        fits.then_some(Split { cluster, warps, shared })
    }

    /// The first that fits, and further ones for larger batches.
    fn choose(request: &Request<'_>) -> Vec<(u32, Self)> {
        if request.network.layers() > budget::UNROLLED_LAYERS {
            return Vec::new();
        }
        let clusters = if request.target.capability.major >= 9 { &CLUSTERS[..] } else { &ALONE };
        let mut chosen: Vec<(u32, Self)> = Vec::new();
        for &(cluster, registers, batch) in clusters {
            let larger = chosen.last().is_none_or(|&(most, _)| batch > most);
            if let Some(split) = Split::of(request, cluster, registers).filter(|_| larger) {
                chosen.push((batch, split));
            }
        }
        chosen
    }
}

/// Where there are some: the largest batches that they are for, and the kernels.
pub(in super::super) fn latency(request: &Request<'_>) -> Vec<(u32, Plan<dyn Forward>)> {
    if check(request).is_err() {
        return Vec::new();
    }
    Split::choose(request).into_iter().map(|(batch, split)| (batch, plan(request, split))).collect()
}

fn plan(request: &Request<'_>, split: Split) -> Plan<dyn Forward> {
    let constants = [("CLUSTER", split.cluster), ("WARPS", split.warps), ("SAMPLES", ROWS as usize)];
    let overlap = request.target.capability.major >= 9;
    Plan {
        sources: vec![request.kernel("coopmat/mma/latency.cu", "", &constants)],
        load: Box::new(move |programs| {
            let number = |value: usize| u32::try_from(value).unwrap_or(1);
            let (cluster, threads, shared) = (number(split.cluster), 32 * number(split.warps), split.shared);
            Ok(Box::new(OneKernel {
                name: KERNEL,
                kernel: programs[0].kernel(KERNEL, shared)?,
                launch: Box::new(move |batch| Launch {
                    shared,
                    cluster,
                    overlap,
                    ..Launch::new(batch.div_ceil(ROWS) * cluster, threads)
                }),
            }))
        }),
    }
}
