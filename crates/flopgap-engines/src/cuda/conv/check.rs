//! Results of a convolution beside 64-bit arithmetic.

use flopgap_flops::Precision;
use flopgap_gpu::dnn::Convolution;

use crate::error::EngineError;

use super::super::gemm::activate_i8;
use super::super::kernel::{Memory, Operand, Sample};
use super::super::value::{Picker, activate};
use super::ConvKernel;

/// Pixels of the result that are checked, and channels of each.
const CHECKED: (usize, usize) = (4, 16);

/// The index of element number `number` of an array with these sizes, the last innermost.
fn index(sizes: &[usize], mut number: usize) -> Vec<usize> {
    let mut at = vec![0; sizes.len()];
    for (place, &size) in at.iter_mut().zip(sizes).rev() {
        *place = number % size;
        number /= size;
    }
    at
}

/// The number of an index.
fn number(sizes: &[usize], at: &[usize]) -> usize {
    sizes.iter().zip(at).fold(0, |number, (&size, &place)| number * size + place)
}

/// The pixel that a tap reads for a pixel of the result; `None` outside the image.
fn source(convolution: &Convolution, to: &[usize], tap: &[usize]) -> Option<Vec<usize>> {
    (0..to.len())
        .map(|dimension| {
            let [before, _] = convolution.padding[dimension];
            let step = convolution.stride[dimension];
            let reach = tap[dimension] * convolution.dilation[dimension];
            let place = if convolution.transposed {
                let scaled = (to[dimension] + before).checked_sub(reach)?;
                scaled.is_multiple_of(step).then_some(scaled / step)?
            } else {
                (to[dimension] * step + reach).checked_sub(before)?
            };
            (place < convolution.image[dimension]).then_some(place)
        })
        .collect()
}

/// The weights of a tap, from the channels of a group to a channel of the result.
struct Weights<'m> {
    memory: &'m dyn Memory,
    /// All of them where the channels of the result lie innermost, as in a transposed convolution.
    all: Vec<f64>,
}

impl Weights<'_> {
    fn of(
        &self,
        convolution: &Convolution,
        channel: usize,
        tap: usize,
        taps: usize,
    ) -> Result<Vec<f64>, EngineError> {
        let channels = convolution.inputs / convolution.groups;
        if !convolution.transposed {
            return self.memory.read(Operand::Weights, (channel * taps + tap) * channels, channels);
        }
        let columns = convolution.outputs / convolution.groups;
        let group = channel / columns;
        let row = |input: usize| ((group * channels + input) * taps + tap) * columns + channel % columns;
        Ok((0..channels).map(|input| self.all[row(input)]).collect())
    }
}

impl ConvKernel {
    /// See [`Kernel::samples`](super::super::kernel::Kernel::samples).
    pub(super) fn compare(&self, memory: &dyn Memory, seed: u64) -> Result<Vec<Sample>, EngineError> {
        let convolution = self.plan.convolution();
        let Convolution { batch, inputs, outputs, groups, .. } = *convolution;
        let image = convolution.output_image()?;
        let (taps, in_pixels) =
            (convolution.kernel.iter().product::<usize>(), convolution.image.iter().product::<usize>());
        let channels = inputs / groups;
        let all = if convolution.transposed {
            memory.read(Operand::Weights, 0, convolution.weight_len())?
        } else {
            Vec::new()
        };
        let weights = Weights { memory, all };
        let bias =
            if self.epilogue.bias { memory.read(Operand::Bias, 0, outputs)? } else { vec![0.0; outputs] };
        let scale = f64::from(self.plan.fusion().scale);
        let mut picker = Picker::new(seed);
        let chosen = picker.some(outputs, CHECKED.1);
        let mut samples = Vec::new();
        for pixel in picker.some(batch * self.pixels, CHECKED.0) {
            let (sample, to) = (pixel / self.pixels, index(&image, pixel % self.pixels));
            let found = memory.read(Operand::Output, pixel * outputs, outputs)?;
            let residual = if self.epilogue.residual {
                memory.read(Operand::Residual, pixel * outputs, outputs)?
            } else {
                vec![0.0; outputs]
            };
            let mut sums = vec![(0.0, 0.0); chosen.len()];
            for tap in 0..taps {
                let Some(from) = source(convolution, &to, &index(&convolution.kernel, tap)) else { continue };
                let from = sample * in_pixels + number(&convolution.image, &from);
                let x = memory.read(Operand::Input, from * inputs, inputs)?;
                for (&channel, (sum, squares)) in chosen.iter().zip(&mut sums) {
                    let group = channel / (outputs / groups);
                    let by = weights.of(convolution, channel, tap, taps)?;
                    for (x, w) in x[group * channels..].iter().zip(by) {
                        let term = x * w * scale;
                        *sum += term;
                        *squares += term * term;
                    }
                }
            }
            for (&channel, (sum, squares)) in chosen.iter().zip(sums) {
                let sum = sum + bias[channel] + residual[channel];
                let activation = self.epilogue.activation;
                let expected = if self.precision == Precision::Int8 {
                    activate_i8(activation, sum)
                } else {
                    activate(activation, sum)
                };
                samples.push(Sample { found: found[channel], expected, magnitude: squares.sqrt() });
            }
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use flopgap_gpu::dnn::{Arithmetic, Layout};

    use super::*;

    #[test]
    fn taps_read_what_the_definition_says() {
        let forward = Convolution {
            arithmetic: Arithmetic::Fp32,
            layout: Layout::ChannelsLast,
            batch: 1,
            inputs: 1,
            outputs: 1,
            groups: 1,
            image: vec![5],
            kernel: vec![3],
            stride: vec![2],
            dilation: vec![2],
            padding: vec![[1, 0]],
            transposed: false,
            output_padding: vec![0],
        };
        let reads = |convolution: &Convolution, to: usize| -> Vec<Option<usize>> {
            (0..3).map(|tap| Some(source(convolution, &[to], &[tap])?[0])).collect()
        };
        assert_eq!(reads(&forward, 0), [None, Some(1), Some(3)]);
        assert_eq!(reads(&forward, 1), [Some(1), Some(3), None]);
        // The transposed one reads from where the plain one would write.
        let back = Convolution { transposed: true, dilation: vec![1], ..forward };
        assert_eq!(reads(&back, 0), [None, Some(0), None]);
        assert_eq!(reads(&back, 1), [Some(1), None, Some(0)]);
    }

    #[test]
    fn indexes_and_numbers_are_inverse() {
        let sizes = [3, 4, 5];
        for element in 0..60 {
            assert_eq!(number(&sizes, &index(&sizes, element)), element);
        }
        assert_eq!(index(&sizes, 27), [1, 1, 2]);
    }
}
