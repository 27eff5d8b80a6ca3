//! Maxima and means over windows: cuDNN.

use flopgap_flops::Precision;
use flopgap_gpu::Stream;
use flopgap_gpu::dnn::{self, Arithmetic, Pooling, PoolingPlan};
use flopgap_graph::op::{Pool, PoolFunction};
use flopgap_graph::{Algorithm, Step};

use crate::engines::error::EngineError;

use super::conv::{self, Pixels};
use super::kernel::{Addresses, Arrays, I8_BOUND, I8_MOST, Kernel, Memory, Operand, Sample};
use super::pointwise::{activations, no_epilogue};
use super::tools::{Tools, size, sizes, unsupported};
use super::value::Picker;

/// Pixels of the result that are checked, and channels of each.
const CHECKED: (usize, usize) = (4, 16);

/// A pooling on the device.
struct PoolKernel {
    arrays: Arrays,
    precision: Precision,
    plan: PoolingPlan,
}

/// How many of the planes are channels, where these are innermost: the step does not say. Bytes,
/// windows and blocks are the same for any number that fills whole vectors. A power of two, at most
/// 64, which networks pool in the middle; at their end, where an image becomes one pixel, at most
/// 2048.
fn channels(planes: u64, output: &[u64]) -> u64 {
    let most = if output.iter().all(|&size| size == 1) { 2048 } else { 64 };
    (1_u64 << planes.trailing_zeros().min(63)).min(most)
}

/// Elements before the image that the first window of each dimension reaches. Without padding in
/// the step, what the sizes ask for, most of it before the image.
fn before(pool: &Pool) -> Vec<u64> {
    (0..pool.image.len())
        .map(|dimension| {
            if let Some(&[before, _]) = pool.padding.get(dimension) {
                return before;
            }
            let moves = pool.output.get(dimension).copied().unwrap_or(1).saturating_sub(1);
            let step = pool.stride.get(dimension).copied().unwrap_or(1);
            let window = pool.kernel.get(dimension).copied().unwrap_or(1);
            let reach = moves.saturating_mul(step).saturating_add(window);
            reach.saturating_sub(pool.image[dimension]).div_ceil(2)
        })
        .collect()
}

/// Makes a pooling ready.
pub(super) fn make(
    tools: &Tools,
    pool: &Pool,
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    no_epilogue(step)?;
    let all = |values: &[u64]| values.iter().map(|&value| size(step, value)).collect::<Result<Vec<_>, _>>();
    if pool.planes == 0 {
        return Err(unsupported(step, "it has no planes"));
    }
    let channels = channels(pool.planes, &pool.output);
    let input = sizes(step, &[&[pool.planes], pool.image.as_slice()].concat())?;
    let output = sizes(step, &[&[pool.planes], pool.output.as_slice()].concat())?;
    let pooling = Pooling {
        function: match pool.function {
            PoolFunction::Max => dnn::PoolFunction::Max,
            PoolFunction::Average => dnn::PoolFunction::Mean,
        },
        arithmetic: match precision {
            Precision::Fp32 | Precision::Tf32 => Arithmetic::Fp32,
            Precision::Fp16 => Arithmetic::Fp16,
            Precision::Bf16 => Arithmetic::Bf16,
            Precision::Int8 => Arithmetic::Int8,
        },
        layout: conv::layout(precision),
        batch: size(step, pool.planes / channels)?,
        channels: size(step, channels)?,
        image: all(&pool.image)?,
        output: all(&pool.output)?,
        kernel: all(&pool.kernel)?,
        stride: all(&pool.stride)?,
        padding: all(&before(pool))?,
    };
    let plan = tools.dnn()?.pooling(&pooling).map_err(|error| conv::refused(step, error))?;
    let arrays = Arrays {
        input: activations(input, precision, 0.0, 1.0),
        weights: None,
        bias: None,
        residual: None,
        output: activations(output, precision, 0.0, 1.0),
    };
    Ok(Box::new(PoolKernel { arrays, precision, plan }))
}

impl Kernel for PoolKernel {
    fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm { id: "cudnn pooling".to_owned(), ..Algorithm::default() }
    }

    #[expect(unsafe_code, reason = "calls cuDNN by address")]
    unsafe fn queue(&self, stream: &Stream, at: &Addresses) -> Result<(), EngineError> {
        // SAFETY: the caller's promise.
        Ok(unsafe { self.plan.queue_at(stream, at.input, at.output) }?)
    }

    fn samples(&self, memory: &dyn Memory, seed: u64) -> Result<Vec<Sample>, EngineError> {
        let pooling = self.plan.pooling();
        let channels = pooling.channels;
        let (in_pixels, out_pixels) =
            (pooling.image.iter().product::<usize>(), pooling.output.iter().product::<usize>());
        let mut picker = Picker::new(seed);
        let chosen = picker.some(channels, CHECKED.1);
        let mut samples = Vec::new();
        let mut input = Pixels::new(memory, Operand::Input, pooling.layout, [channels, in_pixels]);
        let mut output = Pixels::new(memory, Operand::Output, pooling.layout, [channels, out_pixels]);
        for pixel in picker.some(pooling.batch * out_pixels, CHECKED.0) {
            let (sample, pixel) = (pixel / out_pixels, pixel % out_pixels);
            let values: Vec<Vec<f64>> = window(pooling, pixel)
                .into_iter()
                .map(|place| input.all(sample, place))
                .collect::<Result<_, _>>()?;
            let found = output.all(sample, pixel)?;
            for &channel in &chosen {
                let of = values.iter().map(|value| value[channel]);
                let expected = match pooling.function {
                    dnn::PoolFunction::Max => of.clone().fold(f64::NEG_INFINITY, f64::max),
                    dnn::PoolFunction::Mean => of.clone().sum::<f64>() / values.len() as f64,
                };
                let integers = self.precision == Precision::Int8;
                let magnitude = if integers { I8_MOST } else { of.map(f64::abs).fold(0.0, f64::max) };
                samples.push(Sample { found: found[channel], expected, magnitude });
            }
        }
        Ok(samples)
    }

    fn bound(&self) -> f64 {
        match (self.precision, self.plan.pooling().function) {
            // One of the operands, as it is.
            (_, dnn::PoolFunction::Max) => 1e-9,
            (Precision::Fp32 | Precision::Tf32, _) => 2e-6,
            (Precision::Fp16, _) => 1e-3,
            (Precision::Bf16, _) => 8e-3,
            (Precision::Int8, _) => I8_BOUND,
        }
    }
}

/// The pixels of the image, by their numbers, in the window of a pixel of the result.
fn window(pooling: &Pooling, pixel: usize) -> Vec<usize> {
    let mut places = vec![0];
    let mut rest: usize = pooling.output.iter().product();
    for dimension in 0..pooling.image.len() {
        rest /= pooling.output[dimension];
        let to = pixel / rest % pooling.output[dimension];
        let image = pooling.image[dimension];
        let reads: Vec<usize> = (0..pooling.kernel[dimension])
            .filter_map(|tap| (to * pooling.stride[dimension] + tap).checked_sub(pooling.padding[dimension]))
            .filter(|&place| place < image)
            .collect();
        places = places.iter().flat_map(|place| reads.iter().map(move |read| place * image + read)).collect();
    }
    places
}

#[cfg(test)]
mod tests {
    use flopgap_gpu::dnn::Layout;

    use super::*;

    fn pool(image: u64, output: u64, kernel: u64, stride: u64) -> Pool {
        Pool {
            function: PoolFunction::Max,
            planes: 6,
            image: vec![image; 2],
            output: vec![output; 2],
            kernel: vec![kernel; 2],
            stride: vec![stride; 2],
            padding: Vec::new(),
        }
    }

    #[test]
    fn padding_is_what_the_sizes_ask_for() {
        assert_eq!(before(&pool(112, 56, 3, 2)), [1, 1]);
        assert_eq!(before(&pool(7, 1, 7, 1)), [0, 0]);
        assert_eq!(before(&pool(9, 4, 2, 2)), [0, 0]);
        let given = Pool { padding: vec![[0, 1], [2, 0]], ..pool(112, 56, 3, 2) };
        assert_eq!(before(&given), [0, 2]);
    }

    #[test]
    fn channels_divide_the_planes() {
        assert_eq!(channels(32 * 64, &[56, 56]), 64);
        assert_eq!(channels(32 * 2048, &[1, 1]), 2048);
        assert_eq!(channels(96, &[28, 28]), 32);
        assert_eq!(channels(7, &[28, 28]), 1);
    }

    #[test]
    fn windows_end_at_the_image() {
        let pooling = Pooling {
            function: dnn::PoolFunction::Max,
            arithmetic: Arithmetic::Fp32,
            layout: Layout::ChannelsLast,
            batch: 1,
            channels: 1,
            image: vec![4, 5],
            output: vec![2, 3],
            kernel: vec![3, 3],
            stride: vec![2, 2],
            padding: vec![1, 1],
        };
        assert_eq!(window(&pooling, 0), [0, 1, 5, 6]);
        assert_eq!(window(&pooling, 5), [8, 9, 13, 14, 18, 19]);
    }
}
