//! How a chain of products is laid over a block: tiles of sums by threads, and what lies where in shared memory.

use crate::dense::cuda::implementation::Target;
use crate::dense::cuda::source::table;

/// Threads of a warp over samples and over outputs; as in `shape.cuh`.
const LANES_DOWN: usize = 4;
const LANES_ACROSS: usize = 8;

/// Registers of a multiprocessor, threads of it that use half of them when each has 255.
const THREADS_OF_LARGE_TILES: usize = 256;

/// What a block is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// Threads.
    pub(super) threads: usize,
    /// Samples of a tile.
    pub(super) samples: usize,
    /// Numbers of the inner sum that go through the ring at a time.
    pub(super) slab: usize,
    /// Slabs in the ring.
    pub(super) stages: usize,
    /// Sums of a thread, at most.
    pub(super) most: usize,
    /// Whether all weights stay in shared memory.
    pub(super) resident: bool,
}

/// Which way the chain goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chain {
    /// From the inputs to the outputs; inputs go through the ring.
    Forward,
    /// From the outputs to the inputs; what it begins with lies with the values.
    Backward,
}

/// The plan of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) block: Block,
    /// Bytes of shared memory.
    pub(super) shared: usize,
    /// Blocks that a multiprocessor has at a time.
    pub(super) blocks: usize,
    steps: Vec<Step>,
    values_at: usize,
    values_of_even: usize,
}

/// A product of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    inner: usize,
    outer: usize,
    rows: usize,
    columns: usize,
    across: usize,
}

impl Step {
    /// Outputs of a pass.
    fn width(&self) -> usize {
        self.across * LANES_ACROSS * self.columns
    }

    fn passes(&self) -> usize {
        self.outer.div_ceil(self.width())
    }

    /// The shape with the least work; what a smaller tile costs more was measured on an H200.
    fn choose(inner: usize, outer: usize, block: &Block, chain: Chain) -> Option<Self> {
        let columns: &[usize] = if chain == Chain::Forward { &[8, 4, 2, 1] } else { &[8, 4] };
        let warps = block.threads / 32;
        let mut best: Option<(f64, Step)> = None;
        for across in (0..=warps.ilog2()).map(|power| 1 << power) {
            let down = warps / across * LANES_DOWN;
            if !block.samples.is_multiple_of(down) {
                continue;
            }
            let rows = block.samples / down;
            // With more, a thread's factors do not fit its registers beside the sums.
            if rows > 16 {
                continue;
            }
            for &columns in columns {
                if rows * columns > block.most {
                    continue;
                }
                let step = Step { inner, outer, rows, columns, across };
                // Every term takes rows * columns multiply-adds, and as many reads as both have fours.
                let cost = (rows * columns) as f64 + 1.5 * (rows as f64 + columns as f64) / 4.0 + 1.0;
                let cost = cost * step.passes() as f64;
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, step));
                }
            }
        }
        best.map(|(_, step)| step)
    }
}

/// Floats between the rows of samples: an odd multiple of 8.
fn pitch(numbers: usize) -> usize {
    if numbers.is_multiple_of(16) { numbers + 8 } else { numbers }
}

impl Plan {
    /// The plan for these widths, from what the chain takes to what it gives; none if it does not fit the shared memory.
    pub(super) fn new(widths: &[usize], block: Block, chain: Chain, target: Target) -> Option<Self> {
        let steps = widths.windows(2).map(|pair| Step::choose(pair[0], pair[1], &block, chain));
        let steps: Vec<Step> = steps.collect::<Option<_>>()?;
        let Block { threads, samples, slab, stages, most, resident } = block;
        let widest = steps.iter().map(Step::width).max()?;
        let values_at = match chain {
            Chain::Forward => {
                let all: usize = steps
                    .iter()
                    .map(|step| step.passes() * step.inner.div_ceil(slab) * step.width() * (slab + 4))
                    .sum();
                let weights = if resident { 0 } else { widest * (slab + 4) };
                stages * (samples * pitch(slab) + weights)
                    + if resident { all } else { 0 }
                    + widths[1..].iter().sum::<usize>()
            }
            Chain::Backward => stages * slab * widest,
        };
        // What a step reads and what it writes may lie in the same place if it needs one pass. Steps that are odd, and what the chain begins
        // with, come first.
        let last = steps.len() - 1;
        let widest_of =
            |first: usize| steps[..last].iter().skip(first).step_by(2).map(|step| step.outer).max();
        let begins = if chain == Chain::Backward { widths[0] } else { 0 };
        let (even, odd) = (pitch(widest_of(0).unwrap_or(0)), pitch(widest_of(1).unwrap_or(0).max(begins)));
        let reading = usize::from(chain == Chain::Forward);
        let apart = steps[..last].iter().skip(reading).any(|step| step.passes() > 1);
        let values = samples * if apart { even + odd } else { even.max(odd) };
        let shared = 4 * (values_at + values);
        if shared > target.shared_bytes {
            return None;
        }
        // A block takes a KiB of its own.
        let fit = (target.shared_bytes + 1024) / (shared + 1024);
        let threads_that_fit = if most > 64 { THREADS_OF_LARGE_TILES } else { 384 };
        let blocks = fit.min(threads_that_fit / threads).max(1);
        let values_of_even = if apart { samples * odd } else { 0 };
        Some(Plan { block, shared, blocks, steps, values_at, values_of_even })
    }

    /// The constants that `shape.cuh` takes, and its tables.
    pub(super) fn constants(&self) -> [(&'static str, usize); 8] {
        [
            ("THREADS", self.block.threads),
            ("BLOCKS", self.blocks),
            ("SAMPLES", self.block.samples),
            ("SLAB", self.block.slab),
            ("STAGES", self.block.stages),
            ("RESIDENT", usize::from(self.block.resident)),
            ("VALUES_AT", self.values_at),
            ("VALUES_OF_EVEN", self.values_of_even),
        ]
    }

    pub(super) fn tables(&self) -> String {
        let of =
            |name, value: fn(&Step) -> usize| table(name, &self.steps.iter().map(value).collect::<Vec<_>>());
        [
            of("inner", |step| step.inner),
            of("outer", |step| step.outer),
            of("tile_rows", |step| step.rows),
            of("tile_columns", |step| step.columns),
            of("warps_across", |step| step.across),
        ]
        .concat()
    }

    /// Blocks for a batch.
    pub(super) fn grid(&self, batch: u32, multiprocessors: u32) -> u32 {
        let tiles = batch.div_ceil(u32::try_from(self.block.samples).unwrap_or(1));
        tiles.min(multiprocessors * u32::try_from(self.blocks).unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopgap_gpu::ComputeCapability;

    #[test]
    fn wide_layers_get_large_tiles_and_all_fit() {
        let target = Target::nominal(ComputeCapability { major: 9, minor: 0 });
        let block = Block { threads: 128, samples: 64, slab: 8, stages: 3, most: 128, resident: false };
        let plan = Plan::new(&[256, 256, 64], block, Chain::Forward, target).unwrap();
        assert_eq!((plan.steps[0].rows, plan.steps[0].columns, plan.steps[0].passes()), (16, 8, 1));
        assert_eq!((plan.blocks, plan.shared), (2, 111_872));
        assert!(Plan::new(&[256, 16_384, 16_384, 8], block, Chain::Forward, target).is_none());
    }
}
