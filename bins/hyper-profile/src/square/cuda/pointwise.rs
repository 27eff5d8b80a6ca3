//! Element-wise kernels, and the sum of the loss.

use flopgap_gpu::compile::{Architecture, Compiler};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Buffer, Context, Device, DeviceSlice, GpuError, Kernel, Stream, View, ViewMut};

use crate::square::SquareError;

/// The kernels, compiled at run time: CUDA C without headers.
const SOURCE: &str = include_str!("pointwise.cu");

/// How they are compiled. Nothing trades accuracy for speed: no fast mathematics, division is exact
/// to the last bit.
const OPTIONS: [&str; 1] = ["--ptxas-options=-v"];

/// Threads of a block.
const THREADS: u32 = 256;

/// Blocks of a sum of the loss, at most.
pub(super) const PARTIALS: u32 = 1024;

/// The kernels that work on every number by itself.
#[derive(Debug)]
pub(super) struct Pointwise {
    random: Kernel,
    forward: Kernel,
    backward: Kernel,
    backward_of_sum: Kernel,
    loss: Kernel,
    blocks: u32,
}

/// Blocks that fill the device as often as it holds them.
fn resident_blocks(device: &Device) -> u32 {
    (device.multiprocessors * (device.threads_per_multiprocessor / THREADS)).max(1)
}

/// One thread for four numbers, in at most this many blocks.
fn in_fours(length: usize, most: u32) -> Launch {
    let needed = length.div_ceil(4 * THREADS as usize).max(1);
    let blocks = u32::try_from(needed).unwrap_or(u32::MAX).min(most);
    Launch::new(blocks, THREADS)
}

impl Pointwise {
    pub(super) fn new(compiler: &Compiler, gpu: &Context) -> Result<Self, SquareError> {
        let architecture: Architecture = gpu.device().compute_capability.into();
        let module = gpu.load(&compiler.compile("pointwise.cu", SOURCE, architecture, &OPTIONS)?)?;
        Ok(Pointwise {
            random: module.kernel("random_uniform_init")?,
            forward: module.kernel("sigmoid_forward")?,
            backward: module.kernel("sigmoid_backward")?,
            backward_of_sum: module.kernel("sigmoid_backward_of_sum")?,
            loss: module.kernel("loss_sum_reduce")?,
            blocks: resident_blocks(gpu.device()),
        })
    }

    /// Elements `first`, `first + 1`, ... of the sequence of `seed`, times `bound`.
    pub(super) fn random(
        &self,
        stream: &Stream,
        x: &mut ViewMut<'_, f32>,
        seed: u64,
        first: u64,
        bound: f32,
    ) -> Result<(), GpuError> {
        let length = x.len() as u64;
        let shape = in_fours(x.len(), self.blocks);
        let arguments = Arguments::default().write(x).u64(length).u64(seed).u64(first).f32(bound);
        // SAFETY: the arguments are the kernel's, and it writes `length` numbers.
        unsafe { shape.queue(stream, &self.random, arguments) }
    }

    /// `x = sigmoid(x)`.
    pub(super) fn forward(&self, stream: &Stream, x: &mut ViewMut<'_, f32>) -> Result<(), GpuError> {
        let length = x.len() as u64;
        let shape = in_fours(x.len(), self.blocks);
        let arguments = Arguments::default().write(x).u64(length);
        // SAFETY: the arguments are the kernel's, and it reads and writes `length` numbers.
        unsafe { shape.queue(stream, &self.forward, arguments) }
    }

    /// `x = x * (1 - y) * y`.
    pub(super) fn backward(
        &self,
        stream: &Stream,
        x: &mut ViewMut<'_, f32>,
        y: &View<'_, f32>,
    ) -> Result<(), GpuError> {
        self.gradient(&self.backward, stream, x, y)
    }

    /// `x = (1 - y) * y`: the gradient by the output is 1.
    pub(super) fn backward_of_sum(
        &self,
        stream: &Stream,
        x: &mut ViewMut<'_, f32>,
        y: &View<'_, f32>,
    ) -> Result<(), GpuError> {
        self.gradient(&self.backward_of_sum, stream, x, y)
    }

    fn gradient(
        &self,
        kernel: &Kernel,
        stream: &Stream,
        x: &mut ViewMut<'_, f32>,
        y: &View<'_, f32>,
    ) -> Result<(), GpuError> {
        let length = x.len().min(y.len());
        let shape = in_fours(length, self.blocks);
        let length = length as u64;
        let arguments = Arguments::default().write(x).read(y).u64(length);
        // SAFETY: the arguments are those of both kernels, and both arrays have `length` numbers.
        unsafe { shape.queue(stream, kernel, arguments) }
    }

    /// The sum of `y`, the same bits in every run. `partial` has [`PARTIALS`] elements, `arrived`
    /// and `loss` one each.
    pub(super) fn loss(&self, stream: &Stream, y: &View<'_, f32>, sum: &mut Sum) -> Result<(), GpuError> {
        let length = y.len() as u64;
        let shape = in_fours(y.len(), self.blocks.min(PARTIALS));
        let arguments = Arguments::default().read(y).u64(length);
        let arguments = arguments.write(&mut sum.partial).write(&mut sum.arrived).write(&mut sum.loss);
        // SAFETY: the arguments are the kernel's; there are at most `PARTIALS` blocks, and
        // `Sum::new` made as many partial sums.
        unsafe { shape.queue(stream, &self.loss, arguments) }
    }
}

/// The buffers of a sum over all blocks.
#[derive(Debug)]
pub(super) struct Sum {
    /// [`PARTIALS`] of them.
    pub(super) partial: Buffer<f32>,
    /// 0 before and after.
    pub(super) arrived: Buffer<u32>,
    pub(super) loss: Buffer<f32>,
}

impl Sum {
    pub(super) fn new(stream: &Stream) -> Result<Self, GpuError> {
        // SAFETY: any bits are a float; a sum writes what it reads, and the loss.
        let unwritten = |numbers| unsafe { stream.unwritten(numbers) };
        Ok(Sum { partial: unwritten(PARTIALS as usize)?, arrived: stream.zeros(1)?, loss: unwritten(1)? })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use flopgap_kernels::{KernelClass, classify};

    use super::*;

    #[test]
    fn every_kernel_compiles_for_every_architecture_without_spills() {
        let compiler = match Compiler::without_cache() {
            Ok(compiler) => compiler,
            Err(error) => return flopgap_testing::skip("nvrtc", error),
        };
        let architectures = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"];
        thread::scope(|scope| {
            for architecture in architectures.map(|name| name.parse().unwrap()) {
                let compiler = &compiler;
                scope.spawn(move || {
                    let binary = compiler.compile("pointwise.cu", SOURCE, architecture, &OPTIONS).unwrap();
                    let log = binary.log();
                    assert!(!log.contains("warning"), "{architecture}: {log}");
                    let kernels = log.matches("Compiling entry function").count();
                    let clean = log.matches("0 bytes stack frame, 0 bytes spill stores").count();
                    assert_eq!((kernels, clean), (5, 5), "{architecture}: {log}");
                });
            }
        });
    }

    #[test]
    fn kernels_have_the_class_that_their_flops_are_counted_under() {
        for (name, class) in [
            ("random_uniform_init", KernelClass::Random),
            ("sigmoid_forward", KernelClass::Elementwise),
            ("sigmoid_backward", KernelClass::Elementwise),
            ("sigmoid_backward_of_sum", KernelClass::Elementwise),
            ("loss_sum_reduce", KernelClass::Reduction),
        ] {
            assert!(SOURCE.contains(&format!("void {name}(")), "{name}");
            assert_eq!(classify(name).class, class, "{name}");
        }
    }
}
