//! Which of the forward kernels computes a network, and its launch.

use flopgap_gpu::{GpuError, Kernel};

use crate::activation::facts;
use crate::cuda::kernels::{Forward, ForwardCall, KernelFacts};
use crate::cuda::launch::{Arguments, Launch};
use crate::cuda::request::Request;
use crate::{MlpError, Network, Precision};

use super::super::plan::Plan;
use super::map::map;
use super::{
    BARRIER, CHUNK, PART, ROW_BYTES, TILE, check, instructions, parts, registers, registers_of_groups,
    threads, tiles, weights_bytes, widest_part,
};

const RESIDENT: &str = "coopmat_mlp_forward_wgmma";
const STREAM: &str = "coopmat_mlp_forward_wgmma_stream";

/// About so many chunks in the ring: more bring nothing, as 128 KiB are on their way then.
const MOST_STAGES: usize = 16;
const MOST_SLABS: usize = 8;
/// Warpgroups that compute: one alone would wait for every product.
const LEAST_GROUPS: usize = 2;
/// Registers for numbers, of 232, with which a stream of weights spills nothing, or next to
/// nothing: up to 212 bytes a thread at some widths from 520 on.
const MOST_STREAMING: usize = 192;
/// Divisions of a thread at most where weights are streamed. Each is a branch of its own, and
/// beside nearly all registers NVRTC 13.0 takes 15 s for 256 of them, 43 s for 384 and five minutes
/// for 768.
const MOST_DIVISIONS: usize = 128;
/// Samples of a block that has weights streamed: two warpgroups' tiles.
const STREAM_TILE: usize = 2 * TILE;
/// Of a place in a ring: full and empty.
const BARRIERS: usize = 2 * BARRIER;

/// The forward pass: weights in shared memory where they fit, otherwise through it.
pub(in super::super) fn forward(request: &Request<'_>) -> Result<Plan<dyn Forward>, MlpError> {
    check(request)?;
    match resident(request) {
        Err(MlpError::Unsupported { .. }) => stream(request),
        plan => plan,
    }
}

fn resident(request: &Request<'_>) -> Result<Plan<dyn Forward>, MlpError> {
    let network = request.network;
    let widths = network.widths();
    let chunks = network.inputs().div_ceil(CHUNK);
    // One further warpgroup has copies made; these have what registers there are. An instruction
    // must do with those that a thread has when the block is launched: 30 beside its sums, of 96,
    // 128 and 168.
    let groups = match registers(widths) {
        0..=64 => 4,
        65..=96 => 3,
        97..=192 => 2,
        _ => return Err(request.unsupported("a layer is too wide for registers; mma.sync is there instead")),
    };
    let weights = weights_bytes(widths);
    let biases = 2 * widths[1..].iter().sum::<usize>();
    let stage = TILE * ROW_BYTES + BARRIERS;
    let fit = request.target.shared_bytes.saturating_sub(weights + biases) / stage;
    let (groups, stages) = ring(groups, chunks, fit);
    if groups < LEAST_GROUPS {
        return Err(request.unsupported(format!(
            "{weights} bytes of weights leave no room for samples in {} of shared memory; mma.sync is there instead",
            request.target.shared_bytes
        )));
    }
    let shared = stages * stage + weights + biases;
    let [compute, copy] = registers_of_groups(groups);
    let columns = widths[1..].iter().flat_map(|&width| parts(width));
    let body = instructions::functions(request.precision, columns) + include_str!("forward.cu");
    let constants = [
        ("GROUPS", groups),
        ("STAGES", stages),
        ("SHARED_BYTES", shared),
        ("REGISTERS_TO_COMPUTE", compute),
        ("REGISTERS_TO_COPY", copy),
    ];
    let architecture = request.target.architecture().specific();
    let source = request.source_for(architecture, "coopmat/wgmma/forward.cu", &body, &constants);
    let (precision, inputs, blocks) = (request.precision, network.inputs(), request.target.multiprocessors);
    Ok(Plan {
        sources: vec![source],
        load: Box::new(move |programs| {
            let kernel = programs[0].kernel(RESIDENT, shared)?;
            Ok(Box::new(Resident { kernel, precision, inputs, shared, blocks, threads: threads(groups) }))
        }),
    })
}

/// Of so many warpgroups that take tiles of so many chunks in turn, those whose tiles a ring of up
/// to `fit` chunks holds at once, and the chunks of the ring: whole turns of all of them, so that a
/// place in it always has chunks for the same warpgroup. A warpgroup waits for a place by the
/// parity of its use, which distinguishes a use from the next only: it must have waited for the use
/// before itself.
fn ring(groups: usize, chunks: usize, fit: usize) -> (usize, usize) {
    let groups = groups.min(fit / chunks);
    let turn = (groups * chunks).max(1);
    (groups, ((MOST_STAGES + turn / 2) / turn).max(1).min(fit / turn) * turn)
}

fn stream(request: &Request<'_>) -> Result<Plan<dyn Forward>, MlpError> {
    let network = request.network;
    let widths = network.widths();
    let no = |reason: &str| Err(request.unsupported(format!("{reason}; mma.sync is there instead")));
    let boxes: Vec<usize> = widths[1..].iter().map(|&width| box_rows(width)).collect();
    if widths[2] > PART || registers_streaming(widths) > MOST_STREAMING {
        return no("a layer is too wide for registers");
    }
    if divisions(network) > MOST_DIVISIONS {
        return no("the divisions of its activation take the compiler minutes beside so many registers");
    }
    let biases = 2 * widths[1..].iter().sum::<usize>();
    let chunks = network.inputs().div_ceil(CHUNK);
    let rows = widths[1..].iter().map(|&width| widest_part(width)).max().unwrap_or_default();
    let rows = rows.next_multiple_of(16);
    let Some((places, slabs)) = rings(chunks, rows, request.target.shared_bytes.saturating_sub(biases))
    else {
        return no("biases leave no room for weights in shared memory");
    };
    let shared = places * INPUT_PLACE + slabs * slab_bytes(rows) + biases;
    let [compute, copy] = registers_of_groups(2);
    let columns = widths[1..].iter().flat_map(|&width| parts(width));
    let body = instructions::functions(request.precision, columns) + include_str!("forward_stream.cu");
    let constants = [
        ("INPUT_PLACES", places),
        ("SLABS", slabs),
        ("SLAB_ROWS", rows),
        ("SHARED_BYTES", shared),
        ("REGISTERS_TO_COMPUTE", compute),
        ("REGISTERS_TO_COPY", copy),
    ];
    let architecture = request.target.architecture().specific();
    let source = request.source_for(architecture, "coopmat/wgmma/forward_stream.cu", &body, &constants);
    let (network, precision, blocks) =
        (request.network.clone(), request.precision, request.target.multiprocessors);
    Ok(Plan {
        sources: vec![source],
        load: Box::new(move |programs| {
            let kernel = programs[0].kernel(STREAM, shared)?;
            Ok(Box::new(Stream { kernel, precision, network, boxes, shared, blocks }))
        }),
    })
}

/// Divisions of a thread for a tile: each number of a layer whose activation has one.
fn divisions(network: &Network) -> usize {
    let divides = |layer: &usize| facts(network.activation(*layer)).cuda.divides;
    (0..network.layers()).filter(divides).map(|layer| network.widths()[layer + 1] / 2).sum()
}

/// Bytes of a chunk of a tile's inputs, and of its barriers.
const INPUT_PLACE: usize = STREAM_TILE * ROW_BYTES + BARRIERS;

/// Bytes of so many rows of weights, and of their barriers.
fn slab_bytes(rows: usize) -> usize {
    rows * ROW_BYTES + BARRIERS
}

/// Places for chunks of inputs and for slabs of weights: all of a tile's inputs, or, where these
/// leave no room for three slabs, as many as slabs, with which they then come. With two slabs
/// beside its inputs, a network of 576 columns takes 1.14 to 1.22 times as long.
fn rings(chunks: usize, rows: usize, room: usize) -> Option<(usize, usize)> {
    let slabs = |room: usize, place: usize| (room / place).min(MOST_SLABS);
    let beside_all = slabs(room.saturating_sub(chunks * INPUT_PLACE), slab_bytes(rows));
    let with_each = slabs(room, slab_bytes(rows) + INPUT_PLACE);
    match (beside_all, with_each) {
        (3.., _) => Some((chunks, beside_all)),
        (_, 2..) => Some((with_each.min(chunks), with_each)),
        _ => None,
    }
}

/// Rows of a layer's weights that are copied at once: what divides the halves of all parts, as in
/// `forward_stream.cu`.
fn box_rows(width: usize) -> usize {
    let divisor = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let half = |columns: usize| columns.next_multiple_of(if width <= PART { 16 } else { CHUNK }) / 2;
    parts(width).map(half).fold(0, divisor)
}

/// As [`registers`], where the second layer is computed from every part of the first as it comes.
fn registers_streaming(widths: &[usize]) -> usize {
    let sums = widths[2] / 2;
    let part = widest_part(widths[1]);
    let first = if widths[1] > PART { sums + part / 2 } else { sums.max(part / 2) };
    let rest = if widths.len() > 3 { registers(&widths[1..]) } else { 0 };
    first.max(sums + part / 4).max(rest)
}

/// All weights in shared memory.
#[derive(Debug)]
struct Resident {
    kernel: Kernel,
    precision: Precision,
    inputs: usize,
    shared: usize,
    blocks: u32,
    threads: u32,
}

impl Forward for Resident {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        let x = map(self.precision, call.x, call.batch as usize, self.inputs, TILE)?;
        let arguments = Arguments::default()
            .maps(vec![x])
            .addresses([call.parameters, call.y, call.tape.unwrap_or(0)])
            .u32(call.batch);
        let blocks = self.blocks.min(tiles(call.batch, TILE));
        let launch = Launch { shared: self.shared, overlap: true, ..Launch::new(blocks, self.threads) };
        // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
        // expects: `Model` checked them. It leaves out a tape at address 0.
        unsafe { launch.queue(call.stream, &self.kernel, arguments) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        Ok(vec![KernelFacts::new(RESIDENT, &self.kernel, self.shared)?])
    }
}

/// Weights through shared memory, by clusters of two blocks.
#[derive(Debug)]
struct Stream {
    kernel: Kernel,
    precision: Precision,
    network: Network,
    boxes: Vec<usize>,
    shared: usize,
    blocks: u32,
}

impl Forward for Stream {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        let (network, precision) = (&self.network, self.precision);
        let widths = network.widths();
        let mut maps = vec![map(precision, call.x, call.batch as usize, network.inputs(), STREAM_TILE)?];
        for (layer, &rows) in self.boxes.iter().enumerate() {
            let address = call.parameters + (network.weights(layer).start * precision.bytes()) as u64;
            maps.push(map(precision, address, widths[layer + 1], widths[layer], rows)?);
        }
        let arguments = Arguments::default()
            .maps(maps)
            .addresses([call.parameters, call.y, call.tape.unwrap_or(0)])
            .u32(call.batch);
        let blocks = (self.blocks & !1).min(tiles(call.batch, STREAM_TILE).next_multiple_of(2)).max(2);
        let launch = Launch { shared: self.shared, overlap: true, ..Launch::new(blocks, threads(2)) };
        // SAFETY: as above; the weights' maps are of the parameters.
        unsafe { launch.queue(call.stream, &self.kernel, arguments) }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        Ok(vec![KernelFacts::new(STREAM, &self.kernel, self.shared)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_holds_whole_turns() {
        assert_eq!(ring(4, 1, 26), (4, 16));
        assert_eq!(ring(4, 8, 26), (3, 24));
        assert_eq!(ring(3, 3, 26), (3, 18));
        // The large network: all that fits beside its weights.
        assert_eq!(ring(2, 4, 8), (2, 8));
        assert_eq!(ring(2, 4, 15), (2, 8));
        assert_eq!(ring(2, 4, 7).0, 1);
        for (groups, chunks, fit) in (2..=4).flat_map(|groups| {
            (1..=16).flat_map(move |chunks| (1..=28).map(move |fit| (groups, chunks, fit)))
        }) {
            let (taking, stages) = ring(groups, chunks, fit);
            assert!(taking <= groups && stages <= fit, "{groups} {chunks} {fit}");
            if taking >= LEAST_GROUPS {
                assert!(stages > 0 && stages % (taking * chunks) == 0, "{groups} {chunks} {fit}: {stages}");
            }
        }
    }

    #[test]
    fn boxes_divide_the_halves_of_all_parts() {
        assert_eq!([8, 128, 200, 256].map(box_rows), [8, 64, 104, 128]);
        assert_eq!([512, 328, 272, 264, 384, 448].map(box_rows), [128, 96, 32, 32, 96, 32]);
    }

    #[test]
    fn inputs_stay_where_they_leave_room() {
        let room = 227 * 1024 - 2048;
        assert_eq!(rings(8, 256, room), Some((8, 3)));
        assert_eq!(rings(10, 256, room), Some((4, 4)));
        assert_eq!(rings(16, 256, room), Some((4, 4)));
        assert_eq!(rings(13, 128, room), Some((7, 7)));
        assert_eq!(rings(2, 256, 90 * 1024), None);
    }

    #[test]
    fn registers_of_a_stream_are_those_of_one_part_and_the_second_layer() {
        assert_eq!(registers_streaming(&[512, 512, 128]), 128 + 64);
        assert_eq!(registers_streaming(&[512, 256, 64]), 128);
        assert_eq!(registers_streaming(&[512, 256, 256, 64]), 64 + 128);
    }
}
