//! Plain loops, a sample a thread: how a first attempt looks. Every array lies in local memory,
//! because it is indexed at run time.

use flopgap_gpu::{Context, GpuError, Kernel};

use crate::MlpError;

use super::kernels::{Backward, BackwardCall, Forward, ForwardCall, KernelFacts, Kernels, zero};
use super::launch::{Arguments, Launch};
use super::request::Request;
use super::source::{Binaries, Source};

/// Threads of a block, as in the benchmark that this stands for.
const THREADS: u32 = 64;

/// Numbers that a thread can hold in local memory: half of the 512 KiB that CUDA gives it.
const MOST: usize = 64 * 1024;

fn source(request: &Request<'_>) -> Result<Source, MlpError> {
    let all: usize = request.network.widths().iter().sum();
    if 2 * all > MOST {
        return Err(request.unsupported(format!(
            "a thread keeps all layers of a sample, {all} numbers, and at most {} fit its memory; the CPU has no such limit",
            MOST / 2
        )));
    }
    Ok(request.kernel("naive/naive.cu", "", &[]))
}

pub(super) fn sources(request: &Request<'_>) -> Result<Vec<Source>, MlpError> {
    Ok(vec![source(request)?])
}

pub(super) fn load(
    request: &Request<'_>,
    binaries: &Binaries,
    context: &Context,
) -> Result<Kernels, MlpError> {
    let program = source(request)?.load(binaries, context)?;
    Ok(Kernels {
        forward: Box::new(NaiveForward { kernel: program.kernel(FORWARD, 0)? }),
        backward: Box::new(NaiveBackward {
            kernel: program.kernel(BACKWARD, 0)?,
            gradient_bytes: request.network.parameters() * 4,
        }),
    })
}

const FORWARD: &str = "naive_mlp_forward";
const BACKWARD: &str = "naive_mlp_backward";

#[derive(Debug)]
struct NaiveForward {
    kernel: Kernel,
}

impl Forward for NaiveForward {
    fn queue(&self, call: &ForwardCall<'_>) -> Result<(), GpuError> {
        let arguments = Arguments::default().addresses([call.parameters, call.x, call.y]).u32(call.batch);
        // SAFETY: these are the kernel's arguments, and the arrays have the lengths that it
        // expects: `Model` checked them.
        unsafe {
            Launch::new(call.batch.div_ceil(THREADS), THREADS).queue(call.stream, &self.kernel, arguments)
        }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        Ok(vec![KernelFacts::new(FORWARD, &self.kernel, 0)?])
    }
}

#[derive(Debug)]
struct NaiveBackward {
    kernel: Kernel,
    gradient_bytes: usize,
}

impl Backward for NaiveBackward {
    fn keeps(&self, _batch: u32) -> bool {
        false
    }

    fn workspace(&self, _batch: u32) -> usize {
        0
    }

    fn queue(&self, call: &BackwardCall<'_>) -> Result<(), GpuError> {
        // SAFETY: `gradients` has so many bytes: `Model` checked it.
        unsafe { zero(call.stream, call.gradients, self.gradient_bytes) }?;
        let arguments = Arguments::default()
            .addresses([call.parameters, call.x, call.dy, call.dx.unwrap_or(0), call.gradients])
            .u32(call.batch);
        // SAFETY: these are the kernel's arguments, of the lengths that it expects; it leaves out
        // an array at address 0.
        unsafe {
            Launch::new(call.batch.div_ceil(THREADS), THREADS).queue(call.stream, &self.kernel, arguments)
        }
    }

    fn facts(&self) -> Result<Vec<KernelFacts>, GpuError> {
        Ok(vec![KernelFacts::new(BACKWARD, &self.kernel, 0)?])
    }
}
