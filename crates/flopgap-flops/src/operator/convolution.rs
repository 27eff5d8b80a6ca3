//! Windows that slide over images.

use crate::{ElementType, FlopError, Work, checked};

/// Positions of a window over one dimension: `floor((size + before + after - dilation
/// (kernel - 1) - 1) / stride) + 1`.
///
/// Source: Dumoulin and Visin (2016), relationship 15; ONNX `Conv`.
///
/// ```
/// use flopgap_flops::operator::window_positions;
///
/// // The first convolution of a residual network: 7 wide, by 2, on 224 pixels with 3 zeros on each side.
/// assert_eq!(window_positions(224, 7, 2, 1, [3, 3])?, 112);
/// assert!(window_positions(4, 7, 1, 1, [0, 0]).is_err());
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
///
/// # Errors
/// [`FlopError::ZeroSize`] for a window or step of 0, [`FlopError::WindowTooLarge`] where not even
/// one window fits, [`FlopError::Overflow`].
pub fn window_positions(
    size: u64,
    kernel: u64,
    stride: u64,
    dilation: u64,
    padding: [u64; 2],
) -> Result<u64, FlopError> {
    checked::positive(&[("window", kernel), ("stride", stride), ("dilation", dilation)])?;
    let padded = checked::sum("padded size", &[size, padding[0], padding[1]])?;
    let reach = checked::sum("window", &[checked::product("window", &[dilation, kernel - 1])?, 1])?;
    match padded.checked_sub(reach) {
        Some(left) => Ok(left / stride + 1),
        None => Err(FlopError::WindowTooLarge { window: reach, image: padded }),
    }
}

/// A convolution, or its transpose, over any number of spatial dimensions.
///
/// ```
/// use flopgap_flops::ElementType;
/// use flopgap_flops::operator::Convolution;
///
/// // The first convolution of a residual network.
/// let first = Convolution {
///     batch: 1, inputs: 3, outputs: 64, groups: 1,
///     image: &[224, 224], output: &[112, 112], kernel: &[7, 7], transposed: false,
/// };
/// assert_eq!(first.multiply_adds()?, 118_013_952);
/// assert_eq!(first.work(ElementType::Fp32)?.flops, 2 * 118_013_952);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution<'a> {
    /// Samples.
    pub batch: u64,
    /// Channels read.
    pub inputs: u64,
    /// Channels written.
    pub outputs: u64,
    /// Groups that both are divided into.
    pub groups: u64,
    /// Sizes of the input image.
    pub image: &'a [u64],
    /// Sizes of the output image.
    pub output: &'a [u64],
    /// Sizes of the window.
    pub kernel: &'a [u64],
    /// Whether the window is written from each input position (transposed) and not read for each
    /// output position.
    pub transposed: bool,
}

impl Convolution<'_> {
    /// Multiply-adds: `batch outputs positions (inputs / groups) window`, positions of the output;
    /// of a transposed convolution `batch inputs positions (outputs / groups) window`, positions of
    /// the input.
    ///
    /// # Errors
    /// [`FlopError::Overflow`]; [`FlopError::UnevenGroups`] where the groups do not divide the
    /// channels.
    pub fn multiply_adds(&self) -> Result<u64, FlopError> {
        let quantity = "convolution multiply-adds";
        let (inputs, outputs) = (self.in_group(self.inputs)?, self.in_group(self.outputs)?);
        let window = checked::product(quantity, self.kernel)?;
        let (positions, each) = if self.transposed {
            (self.image, [self.inputs, outputs])
        } else {
            (self.output, [self.outputs, inputs])
        };
        let positions = checked::product(quantity, positions)?;
        checked::product(quantity, &[self.batch, positions, each[0], each[1], window])
    }

    /// Elements of the weights: `outputs (inputs / groups) window`, for both directions.
    ///
    /// # Errors
    /// As [`multiply_adds`](Self::multiply_adds).
    pub fn weights(&self) -> Result<u64, FlopError> {
        let inputs = self.in_group(self.inputs)?;
        let window = checked::product("convolution weights", self.kernel)?;
        checked::product("convolution weights", &[self.outputs, inputs, window])
    }

    /// Elements written.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn output_elements(&self) -> Result<u64, FlopError> {
        let positions = checked::product("convolution output elements", self.output)?;
        checked::product("convolution output elements", &[self.batch, self.outputs, positions])
    }

    /// Two FLOPs for each multiply-add; reads image and weights, writes the output. A bias is not
    /// included.
    ///
    /// # Errors
    /// As [`multiply_adds`](Self::multiply_adds).
    pub fn work(&self, element: ElementType) -> Result<Work, FlopError> {
        let flops = checked::product("convolution FLOPs", &[2, self.multiply_adds()?])?;
        let image = checked::product("convolution input elements", self.image)?;
        let image = checked::product("convolution input elements", &[self.batch, self.inputs, image])?;
        Work::of_elements(flops, &[image, self.weights()?], &[self.output_elements()?], element)
    }

    fn in_group(&self, channels: u64) -> Result<u64, FlopError> {
        checked::positive(&[("groups", self.groups)])?;
        if channels.is_multiple_of(self.groups) {
            Ok(channels / self.groups)
        } else {
            Err(FlopError::UnevenGroups { channels, groups: self.groups })
        }
    }
}

/// A maximum or mean over windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pooling<'a> {
    /// Samples times channels.
    pub planes: u64,
    /// Sizes of the input image.
    pub image: &'a [u64],
    /// Sizes of the output image.
    pub output: &'a [u64],
    /// Sizes of the window.
    pub kernel: &'a [u64],
}

impl Pooling<'_> {
    /// Elements written.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn output_elements(&self) -> Result<u64, FlopError> {
        let positions = checked::product("pooling output elements", self.output)?;
        checked::product("pooling output elements", &[self.planes, positions])
    }

    /// A comparison or addition for each element of each window.
    ///
    /// ```
    /// use flopgap_flops::ElementType;
    /// use flopgap_flops::operator::Pooling;
    ///
    /// let pool = Pooling { planes: 64, image: &[112, 112], output: &[56, 56], kernel: &[3, 3] };
    /// assert_eq!(pool.work(ElementType::Fp32)?.flops, 64 * 56 * 56 * 9);
    /// # Ok::<(), flopgap_flops::FlopError>(())
    /// ```
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn work(&self, element: ElementType) -> Result<Work, FlopError> {
        let written = self.output_elements()?;
        let window = checked::product("pooling window", self.kernel)?;
        let image = checked::product("pooling input elements", self.image)?;
        let read = checked::product("pooling input elements", &[self.planes, image])?;
        let flops = checked::product("pooling FLOPs", &[written, window])?;
        Work::of_elements(flops, &[read], &[written], element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Convolution<'static> = Convolution {
        batch: 2,
        inputs: 4,
        outputs: 6,
        groups: 2,
        image: &[5, 7],
        output: &[3, 3],
        kernel: &[3, 2],
        transposed: false,
    };

    #[test]
    fn every_product_is_counted_one_by_one() {
        let mut products = 0;
        for _sample in 0..2 {
            for _output in 0..6 {
                for _position in 0..9 {
                    for _input in 0..4 / 2 {
                        products += 3 * 2;
                    }
                }
            }
        }
        assert_eq!(SMALL.multiply_adds(), Ok(products));
        let work = SMALL.work(ElementType::Fp16).unwrap();
        assert_eq!(work.flops, 2 * products);
        assert_eq!(work.bytes_read, 2 * (2 * 4 * 5 * 7 + 6 * 2 * 3 * 2));
        assert_eq!(work.bytes_written, 2 * (2 * 6 * 9));
    }

    #[test]
    fn a_transposed_convolution_costs_what_the_gradient_of_the_convolution_does() {
        // Its input is the other's output, and the other way round.
        let back = Convolution {
            inputs: SMALL.outputs,
            outputs: SMALL.inputs,
            image: SMALL.output,
            output: SMALL.image,
            transposed: true,
            ..SMALL
        };
        assert_eq!(back.multiply_adds(), SMALL.multiply_adds());
        assert_eq!(back.weights(), SMALL.weights());
    }

    #[test]
    fn windows_are_counted_by_hand() {
        for size in 1..20_u64 {
            for kernel in 1..4 {
                for stride in 1..4 {
                    for dilation in 1..3 {
                        for padding in 0..3 {
                            let reach = dilation * (kernel - 1) + 1;
                            let counted = (0..size + 2 * padding)
                                .step_by(usize::try_from(stride).unwrap())
                                .filter(|start| start + reach <= size + 2 * padding)
                                .count() as u64;
                            let found = window_positions(size, kernel, stride, dilation, [padding, padding]);
                            if counted == 0 {
                                assert!(matches!(found, Err(FlopError::WindowTooLarge { .. })), "{found:?}");
                            } else {
                                assert_eq!(found, Ok(counted));
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_sizes_are_named() {
        let uneven = Convolution { groups: 4, ..SMALL };
        assert_eq!(uneven.multiply_adds(), Err(FlopError::UnevenGroups { channels: 6, groups: 4 }));
        let none = Convolution { groups: 0, ..SMALL };
        assert_eq!(none.weights(), Err(FlopError::ZeroSize { name: "groups".into() }));
        let large = Convolution { batch: u64::MAX, ..SMALL };
        assert_eq!(large.multiply_adds(), Err(FlopError::overflow("convolution multiply-adds")));
        assert_eq!(
            window_positions(4, 3, 1, 2, [0, 0]).unwrap_err().to_string(),
            "a window of 5 does not fit in an image of 4, padding included"
        );
    }
}
