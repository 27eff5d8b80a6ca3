//! Cooperative vectors: every lane of a warp holds a part of the vectors of the warp's samples, in
//! registers from layer to layer, and the warp multiplies them by the same weights together. In 16
//! bits on tensor cores (`mma.sync`), whose result has the layout of their operand; in 32 bits with
//! scalar multiply-adds, inputs passed between four lanes by shuffles.
//!
//! `vectors.cuh` has the layout and the product, `weights.cuh` brings weights to shared memory: all
//! of them if they fit, otherwise piece by piece while the block computes.

mod backward;
mod forward;
mod shape;

use flopgap_gpu::{Context, GpuError, Kernel};

use crate::{MlpError, Precision};

use super::budget;
use super::kernels::Kernels;
use super::request::Request;
use super::source::{Binaries, Source};

use shape::Rolled;

pub(super) fn sources(request: &Request<'_>) -> Result<Vec<Source>, MlpError> {
    check(request)?;
    let mut sources = forward::Plan::new(request)?.sources(request);
    sources.extend(backward::Plan::new(request)?.sources(request));
    Ok(sources)
}

pub(super) fn load(
    request: &Request<'_>,
    binaries: &Binaries,
    context: &Context,
) -> Result<Kernels, MlpError> {
    check(request)?;
    Ok(Kernels {
        forward: forward::Plan::new(request)?.load(request, binaries, context)?,
        backward: backward::Plan::new(request)?.load(request, binaries, context)?,
    })
}

fn check(request: &Request<'_>) -> Result<(), MlpError> {
    if request.precision == Precision::Bf16 && request.target.capability.major < 8 {
        return Err(request.unsupported(
            "tensor cores take bf16 from compute capability 8.0 on; fp16 is there, and forloop has bf16",
        ));
    }
    Ok(())
}

/// How the network is computed in a kernel of someone else, with all weights in shared memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resident {
    /// Samples of a lane.
    pub(super) rows: usize,
    /// `ROLLED` in `vectors.cuh`.
    pub(super) rolled: usize,
    /// Numbers of all weights in shared memory.
    pub(super) weights: usize,
}

/// The same choice of samples a lane as for the forward pass, where nothing has to be cut or
/// parked.
pub(super) fn resident(request: &Request<'_>) -> Result<Resident, MlpError> {
    check(request)?;
    forward::resident(request)
}

/// A source of this folder. `kernel`: which kernel of the file, where each is compiled by itself,
/// side by side with the other.
fn source(
    request: &Request<'_>,
    path: &str,
    kernel: Option<usize>,
    rolled: Rolled,
    constants: &[(&str, usize)],
) -> Source {
    let which = kernel.map(|kernel| format!("#define KERNEL {kernel}\n")).unwrap_or_default();
    let constants = [constants, &[("ROLLED", rolled as usize)]].concat();
    request.kernel(path, &which, &constants)
}

/// Whether a kernel of so many instructions is compiled in seconds. From `sm_100` on NVRTC takes
/// three times as long for scalar products; networks of one hidden layer, of which only pieces are
/// unrolled, are left as they were measured, and so are kernels of which nothing is left to roll.
fn is_short(request: &Request<'_>, instructions: usize, rolled: Rolled) -> bool {
    let slow = request.precision == Precision::F32
        && request.target.language.major >= 10
        && request.network.layers() > 2
        && rolled != Rolled::Operands;
    instructions <= if slow { budget::KERNEL / 3 } else { budget::KERNEL }
}

/// Whether kernels may begin before the one before them has ended.
fn overlap(request: &Request<'_>) -> bool {
    request.target.capability.major >= 9
}

/// Blocks that fill the device, at least one a multiprocessor.
fn filling(kernel: &Kernel, multiprocessors: u32, threads: u32, shared: usize) -> Result<u32, GpuError> {
    let resident = kernel.occupancy_max_active_blocks_per_multiprocessor(threads, shared, None)?;
    Ok(multiprocessors * resident.max(1))
}
