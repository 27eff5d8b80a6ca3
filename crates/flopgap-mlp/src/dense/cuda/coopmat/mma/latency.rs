//! The forward pass of few samples: a cluster of blocks to 16 samples, each with a slice of every layer.

use flopgap_gpu::{GpuError, Kernel};

use super::super::super::implementation::Request;
use super::super::super::kernels::{Forward, ForwardCall, KernelFacts};
use super::super::super::launch::{Arguments, Launch};
use super::super::Plan;
use super::{check, source};

const KERNEL: &str = "coopmat_mlp_forward_mma_latency";

/// Samples of a cluster.
const ROWS: u32 = 16;
/// More layers are unrolled into too much code.
const MOST_LAYERS: usize = 8;
/// Registers for the weights of a layer.
const MOST_WEIGHTS: usize = 64;

/// Registers for the weights of a layer that are few: two loads.
const FEW_WEIGHTS: usize = 8;

/// Blocks of a cluster, warps of a block.
#[derive(Debug, Clone, Copy)]
struct Split {
    cluster: usize,
    warps: usize,
    shared: usize,
}

/// What a warp has of a layer, as `Part` in `latency.cu`: registers for weights; and bytes for sums of a block.
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
    /// The smallest cluster in which the weights of a layer take few registers, or the largest one.
    fn choose(request: &Request<'_>) -> Option<Self> {
        let widths = request.network.widths();
        let layers = request.network.layers();
        if layers > MOST_LAYERS {
            return None;
        }
        let clusters: &[usize] = if request.target.capability.major >= 9 { &[1, 2, 4, 8] } else { &[1] };
        let possible = clusters.iter().filter_map(|&cluster| {
            let warps = 8;
            let parts = || widths.windows(2).map(|pair| part(pair[0], pair[1], (cluster, warps)));
            let registers = parts().map(|(registers, _)| registers).max()?;
            let partial = parts().map(|(_, bytes)| bytes).max()?;
            let hidden = widths[1..layers].iter().map(|&k| 2 * 16 * (k.next_multiple_of(64) + 32)).max()?;
            let slice = widths[1..].iter().map(|n| n.div_ceil(cluster).next_multiple_of(8)).max()?;
            let shared = 2 * hidden + 4 * 32 * warps + partial;
            let fits =
                registers <= MOST_WEIGHTS && slice <= 32 * warps && shared <= request.target.shared_bytes;
            fits.then_some((registers, Split { cluster, warps, shared }))
        });
        // Weights that come in few loads come early; a cluster costs less than more of them.
        let mut last = None;
        for (registers, split) in possible {
            last = Some(split);
            if registers <= FEW_WEIGHTS {
                break;
            }
        }
        last
    }
}

/// Where there is one: the largest batch that it is for, and the kernel.
pub(in super::super) fn latency(request: &Request<'_>) -> Option<(u32, Plan<dyn Forward>)> {
    check(request).ok()?;
    let split = Split::choose(request)?;
    let constants = [("CLUSTER", split.cluster), ("WARPS", split.warps)];
    let clusters = format!("#define CLUSTERS {}\n", u8::from(split.cluster > 1));
    let files = ["clusters", &clusters, "latency.cu", include_str!("latency.cu")];
    let overlap = request.target.capability.major >= 9;
    let plan: Plan<dyn Forward> = Plan {
        sources: vec![source(request, "latency.cu", &files, &constants)],
        load: Box::new(move |programs| {
            Ok(Box::new(Latency { kernel: programs[0].kernel(KERNEL, split.shared)?, split, overlap }))
        }),
    };
    Some((MOST_BATCH, plan))
}

/// Beyond, tiles of more samples read the weights less often.
const MOST_BATCH: u32 = 2048;

#[derive(Debug)]
struct Latency {
    kernel: Kernel,
    split: Split,
    overlap: bool,
}

impl Forward for Latency {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        let number = |value: usize| u32::try_from(value).unwrap_or(1);
        let cluster = number(self.split.cluster);
        let mut launch = Launch::new(call.batch.div_ceil(ROWS) * cluster, 32 * number(self.split.warps));
        launch.shared = self.split.shared;
        launch.cluster = cluster;
        launch.overlap = self.overlap;
        let arguments = Arguments::default()
            .addresses([call.parameters, call.x, call.y, call.tape.unwrap_or(0)])
            .u32(call.batch);
        // SAFETY: these are the kernel's arguments, of the lengths that it expects; it leaves out a tape at address 0.
        unsafe { launch.queue(call.stream, &self.kernel, arguments) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        Ok(vec![KernelFacts::of(KERNEL, &self.kernel, self.split.shared)?])
    }
}
