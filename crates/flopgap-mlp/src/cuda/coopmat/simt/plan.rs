//! How a chain of products is laid over a block: tiles of sums by threads, and what lies where in
//! shared memory.

use crate::cuda::source::table;
use crate::cuda::target::Target;

/// Threads of a warp over samples and over outputs; as in `layout.cuh`.
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
    /// The same, with both factors by the inner sum (`terms/`).
    ForwardByTerms,
    /// From the outputs to the inputs; what it begins with lies with the values.
    Backward,
    /// The same, with both factors by the inner sum.
    BackwardByTerms,
}

impl Chain {
    fn by_terms(self) -> bool {
        matches!(self, Chain::ForwardByTerms | Chain::BackwardByTerms)
    }

    /// Whether it goes from the outputs to the inputs.
    pub(super) fn backward(self) -> bool {
        matches!(self, Chain::Backward | Chain::BackwardByTerms)
    }
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

    /// The shape with the least work.
    fn choose(inner: usize, outer: usize, block: &Block, chain: Chain) -> Option<Self> {
        let columns: &[usize] = match chain {
            Chain::Forward => &[8, 4, 2, 1],
            Chain::ForwardByTerms | Chain::BackwardByTerms => &[16, 8, 4, 2, 1],
            Chain::Backward => &[8, 4],
        };
        let warps = block.threads / 32;
        let mut best: Option<(f64, Step)> = None;
        for across in (0..=warps.ilog2()).map(|power| 1 << power) {
            let down = warps / across * LANES_DOWN;
            if !block.samples.is_multiple_of(down) {
                continue;
            }
            let rows = block.samples / down;
            for &columns in columns {
                if rows * columns > block.most {
                    continue;
                }
                let Some(cost) = cost(rows, columns, chain) else { continue };
                let step = Step { inner, outer, rows, columns, across };
                let cost = cost * step.passes() as f64;
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, step));
                }
            }
        }
        best.map(|(_, step)| step)
    }

    /// Arranged weights (`terms/transpose.cu`).
    fn arranged(&self, slab: usize) -> usize {
        self.passes() * self.inner.next_multiple_of(slab) * self.width()
    }
}

/// What a term costs a thread, in cycles of a multiply-add for all its lanes, more or less; none
/// where its factors do not fit its registers beside the sums. What a smaller tile costs more was
/// measured on an H200.
fn cost(rows: usize, columns: usize, chain: Chain) -> Option<f64> {
    let sums = (rows * columns) as f64;
    if !chain.by_terms() {
        // Every term takes rows * columns multiply-adds, and as many reads as both have fours.
        return (rows <= 16).then_some(sums + 1.5 * (rows as f64 + columns as f64) / 4.0 + 1.0);
    }
    let more = match (rows, columns) {
        (16, 8) | (8, 16) => 1.14,
        (8, 8) => 1.2,
        (16, 4) | (4, 16) => 1.25,
        (8, 4) | (4, 8) => 1.4,
        (16, 2) => 1.5,
        (8, 2) => 1.6,
        (4, 4) | (2, 8) => 1.7,
        (16, 1) => 1.8,
        (4, 2) | (8, 1) | (2, 4) | (1, 8) => 2.0,
        (4, 1) | (2, 2) | (1, 4) => 2.5,
        _ => return None,
    };
    Some(sums * more)
}

/// Floats between the rows of samples: an odd multiple of 8.
fn pitch(numbers: usize) -> usize {
    if numbers.is_multiple_of(16) { numbers + 8 } else { numbers }
}

/// Floats between the rows of terms (`terms/chain.cuh`).
fn terms_pitch(samples: usize) -> usize {
    samples + 4
}

impl Plan {
    /// The plan for these widths, from what the chain takes to what it gives; none if it does not
    /// fit the shared memory.
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
            Chain::ForwardByTerms => {
                let all: usize = steps.iter().map(|step| step.arranged(slab)).sum();
                stages * slab * (terms_pitch(samples) + if resident { 0 } else { widest })
                    + if resident { all } else { 0 }
                    + widths[1..].iter().sum::<usize>()
            }
            Chain::BackwardByTerms if resident => steps.iter().map(|step| step.arranged(slab)).sum(),
            Chain::Backward | Chain::BackwardByTerms => stages * slab * widest,
        };
        // What a step reads and what it writes may lie in the same place if it needs one pass.
        // Steps that are odd, and what the chain begins with, come first.
        let last = steps.len() - 1;
        let widest_of =
            |first: usize| steps[..last].iter().skip(first).step_by(2).map(|step| step.outer).max();
        let begins = if chain.backward() { widths[0] } else { 0 };
        let values_of = |width: usize| {
            if chain.by_terms() { width * terms_pitch(samples) } else { samples * pitch(width) }
        };
        let (even, odd) =
            (values_of(widest_of(0).unwrap_or(0)), values_of(widest_of(1).unwrap_or(0).max(begins)));
        let reading = usize::from(!chain.backward());
        let apart = steps[..last].iter().skip(reading).any(|step| step.passes() > 1);
        let values = if apart { even + odd } else { even.max(odd) };
        let shared = 4 * (values_at + values);
        if shared > target.shared_bytes {
            return None;
        }
        // A block takes a KiB of its own.
        let fit = (target.shared_bytes + 1024) / (shared + 1024);
        let threads_that_fit = if most > 64 { THREADS_OF_LARGE_TILES } else { 384 };
        let blocks = fit.min(threads_that_fit / threads).max(1);
        let values_of_even = if apart { odd } else { 0 };
        Some(Plan { block, shared, blocks, steps, values_at, values_of_even })
    }

    /// Arranged weights of all steps (`terms/transpose.cu`).
    pub(super) fn arranged(&self) -> usize {
        self.steps.iter().map(|step| step.arranged(self.block.slab)).sum()
    }

    /// The part of a chain by terms that goes to products of the network: the rest goes to reads,
    /// and to outputs and samples beside them.
    pub(super) fn efficiency(&self) -> f64 {
        let needed: usize = self.steps.iter().map(|step| step.inner * step.outer).sum();
        let spent = |step: &Step| {
            let of_sum = cost(step.rows, step.columns, Chain::ForwardByTerms).unwrap_or(f64::INFINITY)
                / (step.rows * step.columns) as f64;
            (step.inner * step.passes() * step.width()) as f64 * of_sum
        };
        needed as f64 / self.steps.iter().map(spent).sum::<f64>()
    }

    /// The constants that `layout.cuh`, `shape.cuh` and `terms/chain.cuh` take, and their tables.
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

impl Plan {
    /// Instructions of the kernel, more or less: of each number that a thread sums, `each` for its
    /// activation or slope beside the products; and of the copies, which every layer has for all
    /// layers.
    pub(super) fn instructions(&self, each: impl Fn(usize) -> usize) -> usize {
        let of_step = |(index, step): (usize, &Step)| step.rows * step.columns * (18 + each(index));
        let copies = 40 * self.steps.len() * self.steps.len();
        self.steps.iter().enumerate().map(of_step).sum::<usize>() + copies
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

    #[test]
    fn by_terms_a_thread_has_128_sums_of_a_wide_layer() {
        let target = Target::nominal(ComputeCapability { major: 9, minor: 0 });
        let block = Block { threads: 256, samples: 64, slab: 16, stages: 2, most: 128, resident: false };
        let plan = Plan::new(&[512, 512, 128], block, Chain::ForwardByTerms, target).unwrap();
        let shapes: Vec<_> = plan.steps.iter().map(|step| (step.rows, step.columns, step.across)).collect();
        assert_eq!(shapes, [(8, 16, 4), (4, 8, 2)]);
        assert_eq!((plan.arranged(), plan.blocks), (512 * 640, 1));
    }
}
