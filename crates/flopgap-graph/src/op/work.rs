//! FLOPs and bytes of operations.

use flopgap_flops::operator::{self, Convolution, NormKind, Pooling, window_positions};
use flopgap_flops::{ElementType, FlopError, Work};

use super::{Conv, Elementwise, ElementwiseFunction, Gemm, GroupedGemm, Norm, NormFunction, Op, Pool};

/// A product that names what overflowed.
pub(crate) fn product(quantity: &'static str, factors: &[u64]) -> Result<u64, FlopError> {
    if factors.contains(&0) {
        return Ok(0);
    }
    factors
        .iter()
        .try_fold(1_u64, |product, &factor| product.checked_mul(factor))
        .ok_or(FlopError::Overflow { quantity: quantity.into() })
}

impl Op {
    /// Exact FLOPs and compulsory bytes with all tensors of one type, as
    /// [`flopgap_flops::operator`] counts them; no bias and no activation.
    ///
    /// Of [`ElementwiseFunction::Quantize`], `element` is the type of the side that is not 8 bits.
    ///
    /// ```
    /// use flopgap_flops::ElementType;
    /// use flopgap_graph::{Op, op::Gemm};
    ///
    /// let op = Op::Gemm(Gemm { batch: 1, m: 32, n: 512, k: 1024 });
    /// assert_eq!(op.work(ElementType::Fp16)?.flops, 2 * 32 * 512 * 1024);
    /// # Ok::<(), flopgap_flops::FlopError>(())
    /// ```
    ///
    /// # Errors
    /// [`FlopError::Overflow`]; sizes that no convolution can have.
    pub fn work(&self, element: ElementType) -> Result<Work, FlopError> {
        match self {
            Op::Gemm(gemm) => gemm.work(element),
            Op::Conv(conv) => {
                let output = conv.output()?;
                conv.shape(&output).work(element)
            }
            Op::Pool(pool) => pool.shape().work(element),
            Op::Elementwise(elementwise) => elementwise.work(element),
            Op::Softmax { rows, columns } => operator::softmax(*rows, *columns, element),
            Op::Norm(norm) => norm.work(element),
            Op::Attention(attention) => attention.fused_forward(element),
            Op::Recurrent(recurrent) => recurrent.work(element),
            Op::Gather { rows, width } => operator::gather(*rows, *width, element),
            Op::GridSample(sample) => sample.work(element),
            Op::EmbeddingBag(bag) => bag.work(element),
            Op::GroupedGemm(gemm) => gemm.work(element),
            Op::Reduce { inputs, outputs } => operator::reduction(*inputs, *outputs, element),
            Op::Copy { elements } => operator::copy(*elements, element),
            Op::View | Op::Empty => Ok(Work::default()),
        }
    }

    /// Multiply-adds of matrix products, convolutions, recurrent layers and attention's two
    /// products: what other tools call MACs. 0 for operations without products.
    ///
    /// # Errors
    /// As [`work`](Self::work).
    pub fn multiply_adds(&self) -> Result<u64, FlopError> {
        match self {
            Op::Gemm(gemm) => product("multiply-adds", &[gemm.batch, gemm.m, gemm.n, gemm.k]),
            Op::GroupedGemm(gemm) => product("multiply-adds", &[gemm.m, gemm.n, gemm.k]),
            Op::Conv(conv) => {
                let output = conv.output()?;
                conv.shape(&output).multiply_adds()
            }
            Op::Recurrent(recurrent) => recurrent.multiply_adds(),
            Op::Attention(attention) => attention.multiply_adds(),
            _ => Ok(0),
        }
    }

    /// Elements of the result; 0 for [`Op::View`] and [`Op::Empty`], which write nothing.
    ///
    /// # Errors
    /// As [`work`](Self::work).
    pub fn output_elements(&self) -> Result<u64, FlopError> {
        match self {
            Op::Gemm(gemm) => product("output elements", &[gemm.batch, gemm.m, gemm.n]),
            Op::GroupedGemm(gemm) => product("output elements", &[gemm.m, gemm.n]),
            Op::Conv(conv) => {
                let output = conv.output()?;
                conv.shape(&output).output_elements()
            }
            Op::Pool(pool) => pool.shape().output_elements(),
            Op::Elementwise(elementwise) => Ok(elementwise.elements),
            Op::Softmax { rows, columns } | Op::Norm(Norm { rows, columns, .. }) => {
                product("output elements", &[*rows, *columns])
            }
            Op::Attention(attention) => attention.output_elements(),
            Op::Recurrent(layer) => {
                product("output elements", &[layer.batch, layer.length, layer.directions, layer.hidden])
            }
            Op::Gather { rows, width } => product("output elements", &[*rows, *width]),
            Op::GridSample(sample) => sample.values(),
            Op::EmbeddingBag(bag) => bag.results(),
            Op::Reduce { outputs, .. } => Ok(*outputs),
            Op::Copy { elements } => Ok(*elements),
            Op::View | Op::Empty => Ok(0),
        }
    }

    /// The name that JSON has for it: `gemm`, `conv`, `elementwise`.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Gemm(_) => "gemm",
            Op::Conv(_) => "conv",
            Op::Pool(_) => "pool",
            Op::Elementwise(_) => "elementwise",
            Op::Softmax { .. } => "softmax",
            Op::Norm(_) => "norm",
            Op::Attention(_) => "attention",
            Op::Recurrent(_) => "recurrent",
            Op::Gather { .. } => "gather",
            Op::GridSample(_) => "grid_sample",
            Op::EmbeddingBag(_) => "embedding_bag",
            Op::GroupedGemm(_) => "grouped_gemm",
            Op::Reduce { .. } => "reduce",
            Op::Copy { .. } => "copy",
            Op::View => "view",
            Op::Empty => "empty",
        }
    }

    /// The output channels that a bias has elements for: columns of a product, channels of a
    /// convolution.
    pub fn channels(&self) -> Option<u64> {
        match self {
            Op::Gemm(gemm) => Some(gemm.n),
            Op::Conv(conv) => Some(conv.outputs),
            _ => None,
        }
    }
}

impl Gemm {
    fn work(&self, element: ElementType) -> Result<Work, FlopError> {
        Work::gemm(self.m, self.n, self.k, element)?.checked_repeat(self.batch)
    }
}

impl GroupedGemm {
    fn work(&self, element: ElementType) -> Result<Work, FlopError> {
        let rows = product("product elements", &[self.m, self.k])?;
        let weights = product("product elements", &[self.groups, self.k, self.n])?;
        let read = rows.checked_add(weights);
        let read = read.ok_or(FlopError::Overflow { quantity: "product elements".into() })?;
        Ok(Work {
            flops: product("product FLOPs", &[2, self.m, self.n, self.k])?,
            bytes_read: product("bytes read", &[read, element.bytes()])?,
            bytes_written: product("bytes written", &[self.m, self.n, element.bytes()])?,
        })
    }
}

impl Conv {
    /// Sizes of the output image. Of a transposed convolution `stride (size - 1) + dilation
    /// (kernel - 1) + 1 + output padding - before - after` (ONNX `ConvTranspose`).
    ///
    /// # Errors
    /// [`FlopError::WindowTooLarge`] where not even one window fits, [`FlopError::ZeroSize`],
    /// [`FlopError::Overflow`]; [`FlopError::UnequalRanks`] where the lists of sizes differ in
    /// length.
    pub fn output(&self) -> Result<Vec<u64>, FlopError> {
        let rank = self.image.len();
        for (name, found) in [
            ("kernel", self.kernel.len()),
            ("stride", self.stride.len()),
            ("dilation", self.dilation.len()),
            ("padding", self.padding.len()),
        ] {
            if found != rank {
                return Err(FlopError::UnequalRanks { name, found, expected: rank });
            }
        }
        (0..rank)
            .map(|dimension| {
                if self.transposed {
                    self.transposed_size(dimension)
                } else {
                    window_positions(
                        self.image[dimension],
                        self.kernel[dimension],
                        self.stride[dimension],
                        self.dilation[dimension],
                        self.padding[dimension],
                    )
                }
            })
            .collect()
    }

    fn transposed_size(&self, dimension: usize) -> Result<u64, FlopError> {
        let overflow = || FlopError::Overflow { quantity: "size of a transposed convolution".into() };
        let Self { image, kernel, stride, dilation, padding, output_padding, .. } = self;
        let (Some(steps), Some(reach)) = (image[dimension].checked_sub(1), kernel[dimension].checked_sub(1))
        else {
            return Err(FlopError::ZeroSize { name: "image or window".into() });
        };
        let whole = product("size of a transposed convolution", &[steps, stride[dimension]])?
            .checked_add(product("size of a transposed convolution", &[reach, dilation[dimension]])?)
            .and_then(|size| size.checked_add(1))
            .and_then(|size| size.checked_add(output_padding.get(dimension).copied().unwrap_or(0)))
            .ok_or_else(overflow)?;
        let cut = padding[dimension][0].checked_add(padding[dimension][1]).ok_or_else(overflow)?;
        whole.checked_sub(cut).ok_or(FlopError::WindowTooLarge { window: cut, image: whole })
    }

    fn shape<'a>(&'a self, output: &'a [u64]) -> Convolution<'a> {
        Convolution {
            batch: self.batch,
            inputs: self.inputs,
            outputs: self.outputs,
            groups: self.groups,
            image: &self.image,
            output,
            kernel: &self.kernel,
            transposed: self.transposed,
        }
    }
}

impl Pool {
    fn shape(&self) -> Pooling<'_> {
        Pooling { planes: self.planes, image: &self.image, output: &self.output, kernel: &self.kernel }
    }
}

impl ElementwiseFunction {
    /// FLOPs of an element. To and from 8 bits it is 2: the scale and the zero point.
    pub fn flops(self) -> u64 {
        match self {
            Self::Activation(activation) => activation.flops(),
            Self::Add | Self::Mul | Self::Div | Self::Compare | Self::Simple | Self::Transcendental => 1,
            Self::Several(flops) => u64::from(flops),
            Self::Quantize => 2,
        }
    }
}

impl Elementwise {
    fn work(&self, element: ElementType) -> Result<Work, FlopError> {
        let Self { function, elements, read } = *self;
        if function == ElementwiseFunction::Quantize {
            let wide = if element == ElementType::Int8 { ElementType::Fp32 } else { element };
            // Which side is the narrow one is the direction's, and the sum of both is not.
            let flops = product("element-wise FLOPs", &[function.flops(), elements])?;
            let bytes_read = product("bytes read", &[read, wide.bytes()])?;
            return Ok(Work { flops, bytes_read, bytes_written: elements });
        }
        operator::elementwise(function.flops(), read, elements, element)
    }
}

impl Norm {
    fn work(&self, element: ElementType) -> Result<Work, FlopError> {
        let kind = match self.function {
            NormFunction::BatchInference => NormKind::BatchInference,
            NormFunction::Layer | NormFunction::Group => NormKind::MeanAndVariance,
            NormFunction::Rms => NormKind::RootMeanSquare,
        };
        operator::normalization(kind, self.rows, self.columns, self.parameters, element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conv() -> Conv {
        Conv::new(1, [3, 64], &[224, 224], 7, 2)
    }

    #[test]
    fn the_first_convolution_of_a_residual_network() {
        let op = Op::Conv(conv());
        assert_eq!(op.multiply_adds(), Ok(118_013_952));
        assert_eq!(op.work(ElementType::Fp32).unwrap().flops, 236_027_904);
        assert_eq!(op.output_elements(), Ok(64 * 112 * 112));
    }

    #[test]
    fn a_transposed_convolution_undoes_the_size_of_the_convolution() {
        let back = Conv {
            inputs: 64,
            outputs: 3,
            image: vec![112, 112],
            transposed: true,
            output_padding: vec![1, 1],
            ..conv()
        };
        assert_eq!(back.output(), Ok(vec![224, 224]));
        assert_eq!(Op::Conv(back).multiply_adds(), Ok(118_013_952));
    }

    #[test]
    fn lists_of_unequal_length_are_an_error() {
        let short = Conv { stride: vec![2], ..conv() };
        assert_eq!(
            short.output().unwrap_err().to_string(),
            "stride has 1 sizes, but the image has 2 dimensions"
        );
    }

    #[test]
    fn a_batch_of_products_is_each_of_them() {
        let one = Op::Gemm(Gemm { batch: 1, m: 3, n: 4, k: 5 }).work(ElementType::Fp32).unwrap();
        let op = Op::Gemm(Gemm { batch: 7, m: 3, n: 4, k: 5 });
        assert_eq!(op.work(ElementType::Fp32), one.checked_repeat(7));
        assert_eq!(op.multiply_adds(), Ok(7 * 60));
    }

    #[test]
    fn bytes_of_quantization_are_five_an_element() {
        let op = Op::Elementwise(Elementwise {
            function: ElementwiseFunction::Quantize,
            elements: 100,
            read: 100,
        });
        for element in [ElementType::Fp32, ElementType::Int8] {
            assert_eq!(op.work(element).unwrap().bytes(), Ok(500));
        }
    }

    #[test]
    fn names_are_those_of_json() {
        for op in [Op::Conv(conv()), Op::View, Op::Softmax { rows: 1, columns: 2 }] {
            let json = serde_json::to_value(&op).unwrap();
            assert_eq!(json["op"], op.name());
        }
    }
}
