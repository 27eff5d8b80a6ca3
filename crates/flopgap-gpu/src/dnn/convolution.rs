//! Convolutions: sizes, layouts, arithmetic.

use crate::error::GpuError;

/// The arithmetic of a convolution. Sums are in 32 bits in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arithmetic {
    /// 32-bit floats, multiplied as such: no TF32.
    Fp32,
    /// 32-bit floats, multiplied with 10 bits of mantissa on tensor cores where cuDNN has a kernel
    /// for it.
    Tf32,
    /// IEEE binary16.
    Fp16,
    /// bfloat16.
    Bf16,
    /// 8-bit integers with 32-bit integer sums; the result is scaled, rounded to nearest even and
    /// clamped to -128..127.
    Int8,
}

impl Arithmetic {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Fp32, Self::Tf32, Self::Fp16, Self::Bf16, Self::Int8];

    /// Bytes of an element of activations and weights.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Fp32 | Self::Tf32 => 4,
            Self::Fp16 | Self::Bf16 => 2,
            Self::Int8 => 1,
        }
    }

    /// Bytes of an element of a bias: as the activations, but 32-bit floats for 8-bit integers.
    pub const fn bias_bytes(self) -> usize {
        match self {
            Self::Int8 => 4,
            other => other.bytes(),
        }
    }
}

/// How the dimensions of activations and weights follow each other in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// Channels vary fastest: NHWC, weights KRSC. What tensor cores read.
    ChannelsLast,
    /// The innermost spatial dimension varies fastest: NCHW, weights KCRS.
    ChannelsFirst,
}

/// A function of each element of the result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// `x`.
    Identity,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, slope x)`.
    LeakyRelu {
        /// Between 0 and 1.
        slope: f32,
    },
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `x/2 (1 + erf(x / sqrt 2))`.
    Gelu,
    /// Its approximation by a hyperbolic tangent.
    GeluTanh,
    /// `x sigmoid(x)`.
    Silu,
}

/// Sizes of a convolution over one, two or three spatial dimensions.
///
/// Input: `batch` x `inputs` x image. Weights: `outputs` x `inputs / groups` x kernel. Transposed,
/// the weights are `inputs` x `outputs / groups` x kernel, and the result is larger than the input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// The arithmetic.
    pub arithmetic: Arithmetic,
    /// The layout of activations and weights.
    pub layout: Layout,
    /// Samples.
    pub batch: usize,
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the result.
    pub outputs: usize,
    /// Groups that the channels are divided into.
    pub groups: usize,
    /// Sizes of the input image.
    pub image: Vec<usize>,
    /// Sizes of the kernel.
    pub kernel: Vec<usize>,
    /// Steps of the window.
    pub stride: Vec<usize>,
    /// Steps between the elements of the kernel.
    pub dilation: Vec<usize>,
    /// Zeros before and after each dimension of the image.
    pub padding: Vec<[usize; 2]>,
    /// Whether it is the transposed convolution.
    pub transposed: bool,
    /// Elements that a transposed convolution adds at the end of each dimension.
    pub output_padding: Vec<usize>,
}

impl Convolution {
    /// Sizes of the result's image.
    ///
    /// # Errors
    /// [`GpuError::Shape`] when the sizes do not go together.
    pub fn output_image(&self) -> Result<Vec<usize>, GpuError> {
        self.validate()?;
        (0..self.image.len()).map(|dimension| self.output_size(dimension)).collect()
    }

    fn output_size(&self, dimension: usize) -> Result<usize, GpuError> {
        let (image, step) = (self.image[dimension], self.stride[dimension]);
        let wide = || GpuError::TooLarge { what: "an image of a convolution", value: image };
        let window = (self.kernel[dimension] - 1).checked_mul(self.dilation[dimension]).ok_or_else(wide)?;
        let [before, after] = self.padding[dimension];
        let zeros = before.checked_add(after).ok_or_else(wide)?;
        if self.transposed {
            let added = self.output_padding.get(dimension).copied().unwrap_or(0);
            let full = (image - 1).checked_mul(step).and_then(|size| size.checked_add(window));
            let full = full.and_then(|size| size.checked_add(1 + added)).ok_or_else(wide)?;
            return full.checked_sub(zeros).filter(|&size| size > 0).ok_or_else(|| {
                shape(format!("dimension {dimension}: {zeros} elements cut off a result of {full}"))
            });
        }
        let padded = image.checked_add(zeros).ok_or_else(wide)?;
        let moves = padded.checked_sub(window + 1).ok_or_else(|| {
            shape(format!("dimension {dimension}: a window of {} on an image of {padded}", window + 1))
        })?;
        Ok(moves / step + 1)
    }

    fn validate(&self) -> Result<(), GpuError> {
        let rank = self.image.len();
        if !(1..=3).contains(&rank) {
            return Err(shape(format!("{rank} spatial dimensions, 1 to 3 are known")));
        }
        for (what, sizes) in [
            ("image", &self.image),
            ("kernel", &self.kernel),
            ("stride", &self.stride),
            ("dilation", &self.dilation),
        ] {
            if sizes.len() != rank || sizes.contains(&0) {
                return Err(shape(format!("{what} {sizes:?}: {rank} sizes of at least 1 are needed")));
            }
        }
        if self.padding.len() != rank {
            return Err(shape(format!("padding {:?}: {rank} pairs are needed", self.padding)));
        }
        let Convolution { batch, inputs, outputs, groups, .. } = *self;
        if [batch, inputs, outputs, groups].contains(&0) || inputs % groups != 0 || outputs % groups != 0 {
            let sizes = format!("batch {batch}, channels {inputs} to {outputs} in {groups} groups");
            return Err(shape(format!("{sizes}: sizes are at least 1, groups divide the channels")));
        }
        Ok(())
    }

    /// Sizes of the input: samples, channels, image. An image of one dimension has a height of 1.
    pub(super) fn input_dimensions(&self) -> Vec<usize> {
        dimensions(self.batch, self.inputs, &self.image)
    }

    /// Sizes of the weights.
    pub(super) fn weight_dimensions(&self) -> Vec<usize> {
        let (rows, columns) =
            if self.transposed { (self.inputs, self.outputs) } else { (self.outputs, self.inputs) };
        dimensions(rows, columns / self.groups, &self.kernel)
    }

    /// Sizes of the result.
    pub(super) fn output_dimensions(&self) -> Result<Vec<usize>, GpuError> {
        Ok(dimensions(self.batch, self.outputs, &self.output_image()?))
    }

    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.input_dimensions().iter().product()
    }

    /// Elements of the weights.
    pub fn weight_len(&self) -> usize {
        self.weight_dimensions().iter().product()
    }

    /// Elements of the result.
    ///
    /// # Errors
    /// As [`Convolution::output_image`].
    pub fn output_len(&self) -> Result<usize, GpuError> {
        Ok(self.output_dimensions()?.iter().product())
    }
}

/// A tensor's sizes, with at least two spatial dimensions.
fn dimensions(outer: usize, channels: usize, spatial: &[usize]) -> Vec<usize> {
    let mut all = vec![outer, channels];
    all.extend(self::spatial(spatial, 1));
    all
}

/// A value for each spatial dimension, with `missing` before where there is only one.
pub(super) fn spatial(values: &[usize], missing: usize) -> Vec<usize> {
    let mut all = if values.len() == 1 { vec![missing] } else { Vec::new() };
    all.extend_from_slice(values);
    all
}

/// Elements from one index to the next, for each dimension of a tensor without gaps.
pub(super) fn strides(dimensions: &[usize], layout: Layout) -> Vec<usize> {
    let rank = dimensions.len();
    // From the dimension that varies fastest to the slowest.
    let order: Vec<usize> = match layout {
        Layout::ChannelsFirst => (0..rank).rev().collect(),
        Layout::ChannelsLast => std::iter::once(1).chain((2..rank).rev()).chain([0]).collect(),
    };
    let mut all = vec![1; rank];
    let mut step = 1_usize;
    for dimension in order {
        all[dimension] = step;
        step = step.saturating_mul(dimensions[dimension]);
    }
    all
}

fn shape(message: String) -> GpuError {
    GpuError::Shape { what: "a convolution", message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(image: usize, kernel: usize, stride: usize, padding: usize) -> Convolution {
        Convolution {
            arithmetic: Arithmetic::Fp16,
            layout: Layout::ChannelsLast,
            batch: 2,
            inputs: 8,
            outputs: 16,
            groups: 1,
            image: vec![image; 2],
            kernel: vec![kernel; 2],
            stride: vec![stride; 2],
            dilation: vec![1; 2],
            padding: vec![[padding; 2]; 2],
            transposed: false,
            output_padding: vec![0; 2],
        }
    }

    #[test]
    fn results_have_the_sizes_of_the_literature() {
        assert_eq!(square(224, 7, 2, 3).output_image().unwrap(), [112, 112]);
        assert_eq!(square(56, 3, 1, 1).output_image().unwrap(), [56, 56]);
        let dilated = Convolution { dilation: vec![2, 3], ..square(9, 3, 1, 0) };
        assert_eq!(dilated.output_image().unwrap(), [5, 3]);
        // A transposed convolution with the sizes of a strided one gives back its image, the rest
        // added.
        let back = Convolution { transposed: true, output_padding: vec![1, 0], ..square(112, 7, 2, 3) };
        assert_eq!(back.output_image().unwrap(), [224, 223]);
        assert_eq!(back.weight_dimensions(), [8, 16, 7, 7]);
        let line = Convolution {
            image: vec![10],
            kernel: vec![3],
            stride: vec![1],
            dilation: vec![1],
            padding: vec![[2, 0]],
            ..square(1, 1, 1, 0)
        };
        assert_eq!(line.output_image().unwrap(), [10]);
        assert_eq!(line.output_dimensions().unwrap(), [2, 16, 1, 10]);
    }

    #[test]
    fn sizes_that_do_not_go_together_are_refused() {
        let wrong = [
            Convolution { groups: 3, ..square(8, 3, 1, 1) },
            Convolution { stride: vec![0, 1], ..square(8, 3, 1, 1) },
            Convolution { kernel: vec![3], ..square(8, 3, 1, 1) },
            Convolution { image: vec![4; 4], ..square(8, 3, 1, 1) },
            square(4, 7, 1, 1),
            Convolution { transposed: true, ..square(1, 1, 1, 4) },
        ];
        for convolution in wrong {
            let error = convolution.output_image().unwrap_err();
            assert!(matches!(error, GpuError::Shape { .. }), "{error}");
        }
    }

    #[test]
    fn strides_follow_the_layout() {
        assert_eq!(strides(&[2, 3, 4, 5], Layout::ChannelsFirst), [60, 20, 5, 1]);
        assert_eq!(strides(&[2, 3, 4, 5], Layout::ChannelsLast), [60, 1, 15, 3]);
        assert_eq!(strides(&[1, 6, 2, 3, 4], Layout::ChannelsLast), [144, 1, 72, 24, 6]);
    }
}
