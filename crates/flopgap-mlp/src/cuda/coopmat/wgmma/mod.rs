//! Kernels for Hopper alone (`sm_90a`): tiles of 64 samples per warpgroup on `wgmma`, inputs by the
//! copy engine, all layers in one kernel. Hidden layers go from the sums of one product to the
//! first operand of the next in the same registers.

mod backward;
mod forward;
mod fused;
mod gradients;
mod map;
mod pair;
mod stream;

use crate::cuda::options::Accumulate;
use crate::cuda::request::Request;
use crate::cuda::tile::ptx::wgmma as instructions;
use crate::{MlpError, Precision};

pub(super) use backward::backward;
pub(super) use forward::forward;
pub(super) use fused::fused;
pub(super) use pair::pair;

/// Columns of a chunk in shared memory, and bytes of its rows, as in `tile/shared.cuh`.
const CHUNK: usize = 64;
const ROW_BYTES: usize = 128;
/// Bytes of a barrier. A place in a ring has one for each event.
const BARRIER: usize = 8;
/// Samples of a warpgroup's tile.
const TILE: usize = 64;
/// Samples of a warp's results, which the copy engine stores.
const RESULT_ROWS: usize = 16;
/// Columns of an accumulator at most; wider layers are computed in parts.
const PART: usize = 256;

/// Layers at most: those of networks of more would take the compiler longer than 10 s.
const MOST_LAYERS: usize = 14;

/// Whether there is anything here for the request.
fn check(request: &Request<'_>) -> Result<(), MlpError> {
    let capability = request.target.capability;
    if (capability.major, capability.minor) != (9, 0) {
        return Err(request.unsupported("wgmma is for sm_90a; mma.sync is there instead"));
    }
    if request.network.layers() > MOST_LAYERS {
        return Err(request.unsupported(format!(
            "every layer has code of its own, which the compiler takes too long for from {} layers on; mma.sync is there instead",
            MOST_LAYERS + 1
        )));
    }
    if request.precision == Precision::F32 || request.options.accumulate == Accumulate::F16 {
        return Err(request.unsupported("wgmma is for fp16 and bf16 with sums in 32 bits"));
    }
    Ok(())
}

/// The columns of the parts that a layer of this width is computed in: as few as there can be, of
/// chunks that are shared out evenly, as in `tile/wgmma.cuh`.
fn parts(width: usize) -> impl Iterator<Item = usize> {
    let (chunks, count) = (width.div_ceil(CHUNK), width.div_ceil(PART));
    let begin = move |part: usize| CHUNK * (part * (chunks / count) + part.min(chunks % count));
    (0..count).map(move |part| begin(part + 1).min(width) - begin(part))
}

/// The widest of them.
fn widest_part(width: usize) -> usize {
    parts(width).max().unwrap_or_default()
}

/// Registers of a thread for the numbers of a forward pass: the inputs of a layer (unless they lie
/// in shared memory), the parts of its outputs that are done, and the sums of the current part.
fn registers(widths: &[usize]) -> usize {
    let packed = |width: usize| width.div_ceil(16) * 4;
    let mut most = 0;
    for (layer, pair) in widths.windows(2).enumerate() {
        let inputs = if layer == 0 { 0 } else { packed(pair[0]) };
        let last = layer + 2 == widths.len();
        let mut done = 0;
        for columns in parts(pair[1]) {
            most = most.max(inputs + done + columns / 2);
            done += if last { 0 } else { packed(columns) };
        }
        most = most.max(inputs + done);
    }
    most
}

/// Registers of a thread of the so many warpgroups that compute, and of the further one that has
/// copies made: what `setmaxnreg` may share out of 65,536.
fn registers_of_groups(groups: usize) -> [usize; 2] {
    match groups {
        2 => [232, 40],
        3 => [160, 32],
        _ => [112, 32],
    }
}

/// Bytes of all weights in shared memory: chunks of 64 columns, rows up to a multiple of 16.
fn weights_bytes(widths: &[usize]) -> usize {
    widths.windows(2).map(|pair| pair[0].div_ceil(CHUNK) * pair[1].next_multiple_of(16) * ROW_BYTES).sum()
}

/// Threads of a block with so many warpgroups that compute.
fn threads(groups: usize) -> u32 {
    u32::try_from((groups + 1) * 128).unwrap_or(u32::MAX)
}

/// Tiles of so many samples.
fn tiles(batch: u32, samples: usize) -> u32 {
    batch.div_ceil(u32::try_from(samples).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warpgroups_do_not_ask_for_more_registers_than_their_block_starts_with() {
        for groups in 2..=4 {
            // What a thread can have when the block is launched, in steps of eight. `setmaxnreg`
            // would wait for any more forever.
            let at_launch = 65_536 / threads(groups) as usize / 8 * 8;
            let [compute, copy] = registers_of_groups(groups);
            assert!(groups * compute + copy <= (groups + 1) * at_launch, "{groups}");
        }
    }

    #[test]
    fn registers_are_those_of_the_widest_place() {
        assert_eq!(registers(&[64, 64, 16]), 32);
        // 64 of the hidden layer, 32 of the output's sums; 128 sums of the hidden layer.
        assert_eq!(registers(&[256, 256, 64]), 128);
        // 64 of the first half, 128 sums of the second.
        assert_eq!(registers(&[512, 512, 128]), 192);
        assert_eq!(registers(&[512, 256, 256, 8]), 64 + 128);
        for (width, expected) in [
            (256, &[256][..]),
            (264, &[192, 72]),
            (328, &[192, 136]),
            (512, &[256, 256]),
            (520, &[192, 192, 136]),
            (776, &[256, 192, 192, 136]),
        ] {
            assert_eq!(parts(width).collect::<Vec<_>>(), expected);
        }
        for width in (8..=1024).step_by(8) {
            assert_eq!(parts(width).sum::<usize>(), width);
            assert!(parts(width).all(|columns| (8..=PART).contains(&columns)), "{width}");
        }
    }
}
