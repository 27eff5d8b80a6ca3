//! Exact 32-bit matrix tiles with scalar multiply-adds: all layers of a tile of samples in one
//! kernel, hidden layers in shared memory, a tile of sums in the registers of every thread.

mod backward;
mod forward;
mod plan;
mod terms;

pub(super) use backward::backward;
pub(super) use forward::forward;

use plan::{Block, Chain, Plan};

use crate::cuda::budget;
use crate::cuda::request::Request;
use crate::{MlpError, Network};

/// Up to this many samples the multiprocessors are not full, and small tiles end sooner.
const FEW_SAMPLES: u32 = 4096;

/// Blocks for many samples, the best first.
fn blocks_for_many(widest: usize) -> Vec<Block> {
    let block =
        |threads, samples, most| Block { threads, samples, slab: 16, stages: 2, most, resident: false };
    let narrow = Block { resident: true, ..block(128, 128, 64) };
    // One pass over the widest layer should give all its outputs: 64 or 128 sums a thread.
    let mut blocks = match widest {
        ..=64 => vec![narrow],
        65..=128 => vec![block(128, 128, 128)],
        129..=256 => vec![block(256, 128, 128)],
        _ => Vec::new(),
    };
    blocks.extend([block(256, 64, 128), block(128, 32, 128), block(128, 16, 128)]);
    blocks
}

/// Instructions that the kernels of this folder may have. They take the compiler 0.15 to 0.25 ms
/// each.
const MOST_CODE: usize = 2 * budget::KERNEL;

/// Instructions of a plan for a network, more or less. The chain back computes the slope of the
/// layer below at every step but its last.
fn code_of(plan: &Plan, network: &Network, chain: Chain) -> usize {
    let layers = network.layers();
    plan.instructions(|step| match chain.backward() {
        false => budget::activation(network.activation(step)),
        true if step + 1 < layers => budget::slope(network.activation(layers - 2 - step)),
        true => 0,
    })
}

/// The first plan that fits, for many samples or for few.
///
/// # Errors
/// [`MlpError::Unsupported`](crate::MlpError::Unsupported).
fn choose(request: &Request<'_>, chain: Chain, few: bool) -> Result<Plan, MlpError> {
    let (network, target) = (request.network, request.target);
    let mut widths = network.widths().to_vec();
    if chain.backward() {
        widths.reverse();
    }
    let widest = widths.iter().copied().max().unwrap_or_default();
    let few_samples = Block { threads: 128, samples: 16, slab: 32, stages: 3, most: 64, resident: false };
    let few = if few { vec![few_samples, Block { slab: 16, ..few_samples }] } else { Vec::new() };
    let smallest = Block { threads: 32, samples: 4, slab: 8, stages: 2, most: 64, resident: false };
    let all = few.into_iter().chain(blocks_for_many(widest)).chain([few_samples, smallest]);
    // The way back has its weights in the ring always.
    let of_chain = |block: Block| Block { resident: block.resident && chain == Chain::Forward, ..block };
    let mut plans: Vec<Plan> =
        all.into_iter().filter_map(|block| Plan::new(&widths, of_chain(block), chain, target)).collect();
    let code = |plan: &Plan| code_of(plan, network, chain);
    if let Some(short) = plans.iter().position(|plan| code(plan) <= MOST_CODE) {
        return Ok(plans.swap_remove(short));
    }
    Err(match plans.last() {
        Some(plan) => budget::exceeded(request, code(plan)),
        None => request.unsupported(
            "the hidden layers of 4 samples do not fit the shared memory; the CPU has no such limit",
        ),
    })
}
