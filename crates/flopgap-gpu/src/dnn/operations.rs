//! A convolution and the operations fused after it, as a graph of operations.

use cudarc::cudnn::sys;
use sys::cudnnBackendAttributeName_t as Name;
use sys::cudnnBackendDescriptorType_t as Kind;
use sys::cudnnDataType_t as Type;
use sys::cudnnPointwiseMode_t as Mode;

use super::api::{Api, Object};
use super::convolution::{Activation, Arithmetic, Convolution, spatial, strides};
use super::descriptor::{ConvolutionMode, DataType, Descriptor, PointwiseMode};
use crate::error::GpuError;

/// The operations after a convolution, before its result is written, in this order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fusion {
    /// Factor of the sums of 8-bit integers, before anything is added; 1 for other arithmetic.
    pub scale: f32,
    /// Another tensor of the result's shape and type is added.
    pub residual: bool,
    /// A number for each channel is added.
    pub bias: bool,
    /// A function is applied.
    pub activation: Activation,
}

impl Fusion {
    /// Nothing.
    pub const NONE: Fusion =
        Fusion { scale: 1.0, residual: false, bias: false, activation: Activation::Identity };

    /// Whether nothing follows.
    pub fn is_none(&self) -> bool {
        *self == Fusion::NONE
    }
}

/// The form in which operations are passed to cuDNN, which has kernels for some forms only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// The convolution alone.
    Alone,
    /// Convolution, sum with a tensor, sum with a bias, `ReLU` or nothing: what
    /// `cudnnConvolutionBiasActivationForward` computes, for which cuDNN has compiled kernels.
    Classic,
    /// Convolution and one operation for each thing that follows: kernels that cuDNN writes and
    /// compiles at run time.
    Generated,
}

/// Tensors that a graph reads and writes, by the number that they have in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub(super) enum Operand {
    Input = 1,
    Weights = 2,
    Output = 3,
    Bias = 4,
    Residual = 5,
    Scale = 6,
}

/// A graph of operations with everything that it is described by.
#[derive(Debug)]
pub(super) struct Operations {
    /// Everything but the graph itself: the library says nowhere that it keeps what is set.
    pub(super) parts: Vec<Descriptor>,
    /// Where the operations are among them.
    order: Vec<usize>,
    /// What it reads and writes.
    pub(super) operands: Vec<Operand>,
}

impl Form {
    /// The forms that can express this, in the order in which they are tried.
    pub(super) fn of(convolution: &Convolution, fusion: &Fusion) -> Vec<Form> {
        let integers = convolution.arithmetic == Arithmetic::Int8;
        let plain = matches!(fusion.activation, Activation::Identity | Activation::Relu);
        match (convolution.transposed, fusion.is_none()) {
            // Nothing can be fused with the transposed convolution.
            (true, true) => vec![Form::Alone],
            (true, false) => Vec::new(),
            (false, true) if !integers => vec![Form::Alone],
            (false, _) if plain => vec![Form::Classic, Form::Generated],
            (false, _) => vec![Form::Generated],
        }
    }
}

impl Operations {
    /// Describes a convolution and what follows in this form.
    pub(super) fn new(
        api: &'static Api,
        convolution: &Convolution,
        fusion: &Fusion,
        form: Form,
    ) -> Result<Self, GpuError> {
        let stored = element(convolution.arithmetic);
        let mut builder = Builder {
            api,
            convolution,
            dimensions: convolution.output_dimensions()?,
            virtuals: 0,
            made: Operations { parts: Vec::new(), order: Vec::new(), operands: Vec::new() },
        };
        match form {
            Form::Alone => builder.convolve(Some(stored), fusion.scale)?,
            Form::Classic => builder.classic(fusion, stored)?,
            Form::Generated => builder.generated(fusion, stored)?,
        };
        Ok(builder.made)
    }

    /// The graph of them.
    pub(super) fn graph(&self, api: &'static Api, handle: Object) -> Result<Descriptor, GpuError> {
        let operations: Vec<&Descriptor> = self.order.iter().map(|&index| &self.parts[index]).collect();
        let mut graph = Descriptor::new(api, Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        graph.set_handle(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle)?;
        graph.set_descriptors(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operations)?;
        graph.finalize()
    }
}

/// How activations and weights are stored.
fn element(arithmetic: Arithmetic) -> Type {
    match arithmetic {
        Arithmetic::Fp32 | Arithmetic::Tf32 => Type::CUDNN_DATA_FLOAT,
        Arithmetic::Fp16 => Type::CUDNN_DATA_HALF,
        Arithmetic::Bf16 => Type::CUDNN_DATA_BFLOAT16,
        Arithmetic::Int8 => Type::CUDNN_DATA_INT8,
    }
}

struct Builder<'a> {
    api: &'static Api,
    convolution: &'a Convolution,
    /// Of the result.
    dimensions: Vec<usize>,
    virtuals: i64,
    made: Operations,
}

/// A tensor that an operation reads or writes: the index of its description.
type Tensor = usize;

impl Builder<'_> {
    fn keep(&mut self, descriptor: Descriptor) -> usize {
        self.made.parts.push(descriptor);
        self.made.parts.len() - 1
    }

    fn describe(
        &mut self,
        dimensions: &[usize],
        stored: Type,
        number: i64,
        is_virtual: bool,
    ) -> Result<Tensor, GpuError> {
        let mut tensor = Descriptor::new(self.api, Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
        tensor
            .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[DataType(stored as u32)])?
            .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &signed(dimensions)?)?
            .set(Name::CUDNN_ATTR_TENSOR_STRIDES, &signed(&strides(dimensions, self.convolution.layout))?)?
            .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[number])?
            // Buffers are aligned to 256 bytes; kernels ask for at most 16.
            .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16_i64])?;
        if is_virtual {
            tensor.set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, &[true])?;
        }
        let tensor = tensor.finalize()?;
        Ok(self.keep(tensor))
    }

    /// A tensor in memory.
    fn operand(&mut self, operand: Operand, dimensions: &[usize], stored: Type) -> Result<Tensor, GpuError> {
        self.made.operands.push(operand);
        self.describe(dimensions, stored, operand as i64, false)
    }

    /// What an operation writes: the result, stored so, or for `None` a value that only the next
    /// operation sees.
    fn result(&mut self, stored: Option<Type>, between: Type) -> Result<Tensor, GpuError> {
        let dimensions = self.dimensions.clone();
        if let Some(stored) = stored {
            return self.operand(Operand::Output, &dimensions, stored);
        }
        self.virtuals += 1;
        self.describe(&dimensions, between, 100 + self.virtuals, true)
    }

    /// A number for each channel.
    fn channels(&mut self, operand: Operand, stored: Type) -> Result<Tensor, GpuError> {
        let mut dimensions = vec![1; self.dimensions.len()];
        dimensions[1] = self.dimensions[1];
        self.operand(operand, &dimensions, stored)
    }

    /// How the sums are stored before anything else is done with them.
    fn sums(&self) -> Type {
        match self.convolution.arithmetic {
            Arithmetic::Int8 => Type::CUDNN_DATA_INT32,
            _ => Type::CUDNN_DATA_FLOAT,
        }
    }

    /// The convolution. Its result is stored so, or for `None` read by the next operation.
    fn convolve(&mut self, stored: Option<Type>, factor: f32) -> Result<Tensor, GpuError> {
        let convolution = self.convolution;
        let (input, weights) = (convolution.input_dimensions(), convolution.weight_dimensions());
        let read = element(convolution.arithmetic);
        let sums = self.sums();
        let x = self.operand(Operand::Input, &input, read)?;
        let w = self.operand(Operand::Weights, &weights, read)?;
        let y = self.result(stored, sums)?;
        let window = self.window(sums)?;
        let kind = if convolution.transposed {
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
        } else {
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
        };
        // The transposed convolution is the gradient of a convolution by its input.
        let [alpha, beta, description, from, by, to] = if convolution.transposed {
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            ]
        } else {
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            ]
        };
        let parts = &self.made.parts;
        let mut operation = Descriptor::new(self.api, kind)?;
        operation
            .set(alpha, &[factor])?
            .set(beta, &[0.0_f32])?
            .set_descriptors(description, &[&parts[window]])?
            .set_descriptors(from, &[&parts[x]])?
            .set_descriptors(by, &[&parts[w]])?
            .set_descriptors(to, &[&parts[y]])?;
        let operation = operation.finalize()?;
        let operation = self.keep(operation);
        self.made.order.push(operation);
        Ok(y)
    }

    /// How the window moves.
    fn window(&mut self, sums: Type) -> Result<usize, GpuError> {
        let convolution = self.convolution;
        let [before, after] = [0, 1].map(|side| {
            let sizes: Vec<usize> = convolution.padding.iter().map(|pair| pair[side]).collect();
            spatial(&sizes, 0)
        });
        let rank = i64::try_from(before.len()).unwrap_or(i64::MAX);
        let mirrored = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION as u32;
        let mut window = Descriptor::new(self.api, Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
        window
            .set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &[DataType(sums as u32)])?
            .set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[ConvolutionMode(mirrored)])?
            .set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[rank])?
            .set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &signed(&before)?)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &signed(&after)?)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &signed(&spatial(&convolution.stride, 1))?)?
            .set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &signed(&spatial(&convolution.dilation, 1))?)?;
        let window = window.finalize()?;
        Ok(self.keep(window))
    }

    /// A function of each element of `x`, or of `x` and `b`. `factors` multiply them first.
    fn pointwise(
        &mut self,
        function: Pointwise,
        (x, b): (Tensor, Option<Tensor>),
        factors: Option<[f32; 2]>,
        stored: Option<Type>,
    ) -> Result<Tensor, GpuError> {
        let float = Type::CUDNN_DATA_FLOAT;
        let mut description = Descriptor::new(self.api, Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?;
        description
            .set(Name::CUDNN_ATTR_POINTWISE_MODE, &[PointwiseMode(function.mode as u32)])?
            .set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, &[DataType(float as u32)])?;
        if let Some(slope) = function.slope {
            description.set(Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, &[f64::from(slope)])?;
        }
        let description = description.finalize()?;
        let description = self.keep(description);
        let y = self.result(stored, float)?;
        let parts = &self.made.parts;
        let mut operation = Descriptor::new(self.api, Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?;
        operation
            .set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[&parts[description]])?
            .set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &[&parts[x]])?
            .set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &[&parts[y]])?;
        if let Some(b) = b {
            operation.set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC, &[&parts[b]])?;
        }
        if let Some([of_x, of_b]) = factors {
            operation
                .set(Name::CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, &[of_x])?
                .set(Name::CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, &[of_b])?;
        }
        let operation = operation.finalize()?;
        let operation = self.keep(operation);
        self.made.order.push(operation);
        Ok(y)
    }

    /// See [`Form::Classic`]. The bias is there in any case: without it, cuDNN has no compiled
    /// kernel.
    fn classic(&mut self, fusion: &Fusion, stored: Type) -> Result<Tensor, GpuError> {
        let integers = self.convolution.arithmetic == Arithmetic::Int8;
        let mut last = self.convolve(None, 1.0)?;
        if fusion.residual || integers {
            let dimensions = self.dimensions.clone();
            // The factor of the sums goes here. Where nothing is to be added, its factor is 0 and
            // it is not read.
            let residual = self.operand(Operand::Residual, &dimensions, stored)?;
            let factors = [fusion.scale, if fusion.residual { 1.0 } else { 0.0 }];
            last = self.pointwise(Pointwise::ADD, (last, Some(residual)), Some(factors), None)?;
        }
        let bias = self.channels(Operand::Bias, if integers { Type::CUDNN_DATA_FLOAT } else { stored })?;
        let activation = Pointwise::of(fusion.activation);
        let last_of_all = activation.is_none().then_some(stored);
        last = self.pointwise(Pointwise::ADD, (last, Some(bias)), None, last_of_all)?;
        match activation {
            Some(activation) => self.pointwise(activation, (last, None), None, Some(stored)),
            None => Ok(last),
        }
    }

    /// See [`Form::Generated`].
    fn generated(&mut self, fusion: &Fusion, stored: Type) -> Result<Tensor, GpuError> {
        let integers = self.convolution.arithmetic == Arithmetic::Int8;
        let activation = Pointwise::of(fusion.activation);
        let mut rest = [integers, fusion.residual, fusion.bias, activation.is_some()]
            .into_iter()
            .filter(|&wanted| wanted)
            .count();
        let mut last = self.convolve((rest == 0).then_some(stored), 1.0)?;
        let mut end = || {
            rest -= 1;
            (rest == 0).then_some(stored)
        };
        if integers {
            let scale = self.channels(Operand::Scale, Type::CUDNN_DATA_FLOAT)?;
            last = self.pointwise(Pointwise::MULTIPLY, (last, Some(scale)), None, end())?;
        }
        if fusion.residual {
            let dimensions = self.dimensions.clone();
            let residual = self.operand(Operand::Residual, &dimensions, stored)?;
            last = self.pointwise(Pointwise::ADD, (last, Some(residual)), None, end())?;
        }
        if fusion.bias {
            let bias =
                self.channels(Operand::Bias, if integers { Type::CUDNN_DATA_FLOAT } else { stored })?;
            last = self.pointwise(Pointwise::ADD, (last, Some(bias)), None, end())?;
        }
        if let Some(activation) = activation {
            last = self.pointwise(activation, (last, None), None, end())?;
        }
        Ok(last)
    }
}

/// A function of one or two elements, in cuDNN's terms.
#[derive(Debug, Clone, Copy)]
struct Pointwise {
    mode: Mode,
    slope: Option<f32>,
}

impl Pointwise {
    const ADD: Pointwise = Pointwise::mode(Mode::CUDNN_POINTWISE_ADD);
    const MULTIPLY: Pointwise = Pointwise::mode(Mode::CUDNN_POINTWISE_MUL);

    const fn mode(mode: Mode) -> Self {
        Pointwise { mode, slope: None }
    }

    fn of(activation: Activation) -> Option<Self> {
        match activation {
            Activation::Identity => None,
            Activation::Relu => Some(Pointwise::mode(Mode::CUDNN_POINTWISE_RELU_FWD)),
            Activation::LeakyRelu { slope } => {
                Some(Pointwise { slope: Some(slope), ..Pointwise::mode(Mode::CUDNN_POINTWISE_RELU_FWD) })
            }
            Activation::Sigmoid => Some(Pointwise::mode(Mode::CUDNN_POINTWISE_SIGMOID_FWD)),
            Activation::Tanh => Some(Pointwise::mode(Mode::CUDNN_POINTWISE_TANH_FWD)),
            Activation::Gelu => Some(Pointwise::mode(Mode::CUDNN_POINTWISE_GELU_FWD)),
            Activation::GeluTanh => Some(Pointwise::mode(Mode::CUDNN_POINTWISE_GELU_APPROX_TANH_FWD)),
            Activation::Silu => Some(Pointwise::mode(Mode::CUDNN_POINTWISE_SWISH_FWD)),
        }
    }
}

/// Sizes as the library takes them.
fn signed(sizes: &[usize]) -> Result<Vec<i64>, GpuError> {
    let one = |&size| {
        i64::try_from(size).map_err(|_| GpuError::TooLarge { what: "a size of a tensor", value: size })
    };
    sizes.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_go_by_what_cudnn_has_kernels_for() {
        let convolution = |arithmetic, transposed| Convolution {
            arithmetic,
            layout: super::super::Layout::ChannelsLast,
            batch: 1,
            inputs: 4,
            outputs: 4,
            groups: 1,
            image: vec![8, 8],
            kernel: vec![3, 3],
            stride: vec![1, 1],
            dilation: vec![1, 1],
            padding: vec![[1, 1]; 2],
            transposed,
            output_padding: vec![0, 0],
        };
        let relu = Fusion { bias: true, activation: Activation::Relu, ..Fusion::NONE };
        let silu = Fusion { activation: Activation::Silu, ..relu };
        let half = convolution(Arithmetic::Fp16, false);
        assert_eq!(Form::of(&half, &Fusion::NONE), [Form::Alone]);
        assert_eq!(Form::of(&half, &relu), [Form::Classic, Form::Generated]);
        assert_eq!(Form::of(&half, &silu), [Form::Generated]);
        let integers = convolution(Arithmetic::Int8, false);
        assert_eq!(Form::of(&integers, &Fusion::NONE), [Form::Classic, Form::Generated]);
        assert_eq!(Form::of(&convolution(Arithmetic::Fp16, true), &relu), []);
    }
}
