//! Compares results of a convolution with 64-bit arithmetic.

use flopgap_flops::Precision;
use flopgap_gpu::dnn::{Convolution, Layout};

use crate::engines::error::EngineError;

use super::super::gemm::activate_i8;
use super::super::kernel::{I8_MOST, Memory, Operand, Sample};
use super::super::value::{Picker, activate};
use super::ConvKernel;

/// The number of pixels of the result that are checked, and of channels of each.
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

/// The weights of some channels of the result.
struct Weights<'c> {
    convolution: &'c Convolution,
    taps: usize,
    /// Of each channel of the result those of its own; of a transposed convolution, where they lie
    /// apart, all weights.
    values: Vec<Vec<f64>>,
}

impl<'c> Weights<'c> {
    fn read(
        convolution: &'c Convolution,
        memory: &dyn Memory,
        chosen: &[usize],
    ) -> Result<Self, EngineError> {
        let taps = convolution.kernel.iter().product::<usize>();
        let length = taps * (convolution.inputs / convolution.groups);
        let values = if convolution.transposed {
            vec![memory.read(Operand::Weights, 0, convolution.weight_len())?]
        } else {
            let of = |&channel: &usize| memory.read(Operand::Weights, channel * length, length);
            chosen.iter().map(of).collect::<Result<_, _>>()?
        };
        Ok(Weights { convolution, taps, values })
    }

    /// From a channel of the group, by a tap, to a channel of the result, the one with this place
    /// among those chosen.
    fn at(&self, (place, channel): (usize, usize), tap: usize, input: usize) -> f64 {
        let Convolution { inputs, outputs, groups, layout, transposed, .. } = *self.convolution;
        let (channels, columns) = (inputs / groups, outputs / groups);
        let (rows, row, column, width) = if transposed {
            (&self.values[0], channel / columns * channels + input, channel % columns, columns)
        } else {
            (&self.values[place], 0, input, channels)
        };
        rows[match layout {
            Layout::ChannelsLast => (row * self.taps + tap) * width + column,
            Layout::ChannelsFirst => (row * width + column) * self.taps + tap,
        }]
    }
}

/// Reads the channels of pixels of an array of activations.
pub(in crate::engines::cuda) struct Pixels<'m> {
    memory: &'m dyn Memory,
    operand: Operand,
    layout: Layout,
    channels: usize,
    /// Pixels of an image.
    image: usize,
    /// The image that was read last, where its channels do not lie together.
    last: Option<(usize, Vec<f64>)>,
}

impl<'m> Pixels<'m> {
    /// Of an array with so many channels and pixels.
    pub(in crate::engines::cuda) fn new(
        memory: &'m dyn Memory,
        operand: Operand,
        layout: Layout,
        [channels, image]: [usize; 2],
    ) -> Self {
        Pixels { memory, operand, layout, channels, image, last: None }
    }

    /// All channels of a pixel of a sample's image.
    pub(in crate::engines::cuda) fn all(
        &mut self,
        sample: usize,
        pixel: usize,
    ) -> Result<Vec<f64>, EngineError> {
        let Pixels { channels, image, .. } = *self;
        if self.layout == Layout::ChannelsLast {
            return self.memory.read(self.operand, (sample * image + pixel) * channels, channels);
        }
        if self.last.as_ref().is_none_or(|(of, _)| *of != sample) {
            let length = channels * image;
            self.last = Some((sample, self.memory.read(self.operand, sample * length, length)?));
        }
        let values = self.last.as_ref().map_or(&[][..], |(_, values)| values);
        Ok(values.iter().skip(pixel).step_by(image).copied().collect())
    }
}

impl ConvKernel {
    /// See [`Kernel::samples`](super::super::kernel::Kernel::samples).
    pub(super) fn compare(&self, memory: &dyn Memory, seed: u64) -> Result<Vec<Sample>, EngineError> {
        let convolution = self.plan.convolution();
        let Convolution { batch, inputs, outputs, groups, layout, .. } = *convolution;
        let image = convolution.output_image()?;
        let (taps, channels) = (convolution.kernel.iter().product::<usize>(), inputs / groups);
        let bias =
            if self.epilogue.bias { memory.read(Operand::Bias, 0, outputs)? } else { vec![0.0; outputs] };
        let scale = f64::from(self.plan.fusion().scale);
        let mut picker = Picker::new(seed);
        let chosen = picker.some(outputs, CHECKED.1);
        let weights = Weights::read(convolution, memory, &chosen)?;
        let in_pixels = convolution.image.iter().product();
        let mut input = Pixels::new(memory, Operand::Input, layout, [inputs, in_pixels]);
        let mut output = Pixels::new(memory, Operand::Output, layout, [outputs, self.pixels]);
        let mut residual = Pixels::new(memory, Operand::Residual, layout, [outputs, self.pixels]);
        let mut samples = Vec::new();
        for pixel in picker.some(batch * self.pixels, CHECKED.0) {
            let (sample, pixel) = (pixel / self.pixels, pixel % self.pixels);
            let to = index(&image, pixel);
            let found = output.all(sample, pixel)?;
            let added =
                if self.epilogue.residual { residual.all(sample, pixel)? } else { vec![0.0; outputs] };
            let mut sums = vec![(0.0, 0.0); chosen.len()];
            for tap in 0..taps {
                let Some(from) = source(convolution, &to, &index(&convolution.kernel, tap)) else { continue };
                let x = input.all(sample, number(&convolution.image, &from))?;
                for (place, (&channel, (sum, squares))) in chosen.iter().zip(&mut sums).enumerate() {
                    let first = channel / (outputs / groups) * channels;
                    for (inner, x) in x[first..first + channels].iter().enumerate() {
                        let term = x * weights.at((place, channel), tap, inner) * scale;
                        *sum += term;
                        *squares += term * term;
                    }
                }
            }
            for (&channel, (sum, squares)) in chosen.iter().zip(sums) {
                let sum = sum + bias[channel] + added[channel];
                let activation = self.epilogue.activation;
                let (expected, magnitude) = if self.precision == Precision::Int8 {
                    (activate_i8(activation, sum), I8_MOST)
                } else {
                    (activate(activation, sum), squares.sqrt())
                };
                samples.push(Sample { found: found[channel], expected, magnitude });
            }
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use flopgap_gpu::dnn::Arithmetic;

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

    /// Numbers that say where they lie.
    struct Counting;

    impl Memory for Counting {
        fn read(&self, _: Operand, start: usize, length: usize) -> Result<Vec<f64>, EngineError> {
            Ok((start..start + length).map(|place| place as f64).collect())
        }
    }

    #[test]
    fn values_are_found_in_either_layout() {
        let convolution = |layout, transposed| Convolution {
            arithmetic: Arithmetic::Fp32,
            layout,
            batch: 2,
            inputs: 6,
            outputs: 4,
            groups: 2,
            image: vec![5, 5],
            kernel: vec![3, 2],
            stride: vec![1, 1],
            dilation: vec![1, 1],
            padding: vec![[0, 0]; 2],
            transposed,
            output_padding: vec![0, 0],
        };
        // Channel 3 of the result, in the second group: by the fifth tap from that group's third
        // channel.
        let weight = |layout, transposed| {
            let convolution = convolution(layout, transposed);
            Weights::read(&convolution, &Counting, &[1, 3]).unwrap().at((1, 3), 4, 2)
        };
        let close = |found: f64, expected: usize| assert!((found - expected as f64).abs() < 0.5, "{found}");
        close(weight(Layout::ChannelsLast, false), (3 * 6 + 4) * 3 + 2);
        close(weight(Layout::ChannelsFirst, false), (3 * 3 + 2) * 6 + 4);
        close(weight(Layout::ChannelsLast, true), (5 * 6 + 4) * 2 + 1);
        close(weight(Layout::ChannelsFirst, true), (5 * 2 + 1) * 6 + 4);
        for (layout, expected) in [
            (Layout::ChannelsLast, [(25 + 7) * 3, (25 + 7) * 3 + 1]),
            (Layout::ChannelsFirst, [3 * 25 + 7, 4 * 25 + 7]),
        ] {
            let mut pixels = Pixels::new(&Counting, Operand::Input, layout, [3, 25]);
            let values = pixels.all(1, 7).unwrap();
            assert_eq!(values.len(), 3);
            close(values[0], expected[0]);
            close(values[1], expected[1]);
        }
    }
}
