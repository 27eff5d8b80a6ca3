//! Convolutions: cuDNN, with the epilogue in its kernel where it has a fast one for that, and in a
//! kernel of our own behind it where it has not.
//!
//! Activations are NHWC and weights KRSC, which is what tensor cores read. 32-bit floats without
//! TF32 are NCHW and KCRS, as `PyTorch` has them by default: cuDNN's kernels for them read that,
//! and on an H200 most convolutions of residual networks take 10 to 50 % longer in NHWC, where
//! cuDNN transposes first.

mod check;
pub(super) mod plans;

pub(super) use check::Pixels;

use flopgap_flops::{Activation, Precision};
use flopgap_gpu::dnn::{
    self, Arithmetic, Convolution, ConvolutionAddresses, ConvolutionPlan, Fusion, Layout, Trait,
};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{GpuError, Kernel as Loaded, Stream};
use flopgap_graph::op::Conv;
use flopgap_graph::{Algorithm, Epilogue, Step};

use crate::engines::error::EngineError;

use plans::Share;

use super::gemm::{activation_code, weight_width};
use super::kernel::{Addresses, Array, Arrays, Filling, I8_BOUND, Kernel, Memory, Numbers, Sample};
use super::tools::{Tools, size, sizes, unsupported};

/// The slope of [`Activation::LeakyRelu`] below 0, as in `kernels.cu`.
const LEAKY_SLOPE: f32 = 0.01;

/// A convolution on the device.
pub(super) struct ConvKernel {
    arrays: Arrays,
    epilogue: Epilogue,
    precision: Precision,
    plan: ConvolutionPlan,
    /// Elements of the result's image.
    pixels: usize,
    tail: Tail,
}

/// The kernel that runs after cuDNN's.
enum Tail {
    /// Nothing: the whole step is one call.
    Fused,
    /// The activation, in place.
    Activation { kernel: Loaded, launch: Launch },
    /// Bias, residual and activation, in place.
    Everything { kernel: Loaded, launch: Launch },
}

impl Share {
    /// What is tried, in this order: shares of which our kernel behind them can do the
    /// rest.
    fn candidates(epilogue: Epilogue, convolution: &Convolution) -> Vec<Share> {
        let integers = convolution.arithmetic == Arithmetic::Int8;
        let plain = matches!(epilogue.activation, Activation::Identity | Activation::Relu);
        let is_none = epilogue == Epilogue::default();
        let mut shares = Vec::new();
        // Activations of 8-bit integers are functions of sixteenths, which cuDNN does not know.
        if plain || !integers {
            shares.push(Share::All);
        }
        if epilogue.activation != Activation::Identity {
            shares.push(Share::AllButActivation);
        }
        // 8-bit results are rounded once: nothing may be added behind that.
        if !is_none && !integers {
            shares.push(Share::Nothing);
        }
        shares
    }

    fn fusion(self, epilogue: Epilogue, scale: f32) -> Fusion {
        let activation = match (self, epilogue.activation) {
            (Share::AllButActivation | Share::Nothing, _) | (_, Activation::Identity) => {
                dnn::Activation::Identity
            }
            (_, Activation::Relu) => dnn::Activation::Relu,
            (_, Activation::LeakyRelu) => dnn::Activation::LeakyRelu { slope: LEAKY_SLOPE },
            (_, Activation::Sigmoid) => dnn::Activation::Sigmoid,
            (_, Activation::Tanh) => dnn::Activation::Tanh,
            (_, Activation::Gelu) => dnn::Activation::Gelu,
            (_, Activation::GeluTanh) => dnn::Activation::GeluTanh,
            (_, Activation::Silu) => dnn::Activation::Silu,
        };
        let adds = self != Share::Nothing;
        Fusion { scale, residual: adds && epilogue.residual, bias: adds && epilogue.bias, activation }
    }
}

fn arithmetic(precision: Precision) -> Arithmetic {
    match precision {
        Precision::Fp32 => Arithmetic::Fp32,
        Precision::Tf32 => Arithmetic::Tf32,
        Precision::Fp16 => Arithmetic::Fp16,
        Precision::Bf16 => Arithmetic::Bf16,
        Precision::Int8 => Arithmetic::Int8,
    }
}

/// The memory layout of a network's activations.
pub(super) fn layout(precision: Precision) -> Layout {
    match precision {
        Precision::Fp32 => Layout::ChannelsFirst,
        Precision::Tf32 | Precision::Fp16 | Precision::Bf16 | Precision::Int8 => Layout::ChannelsLast,
    }
}

/// A step's convolution as cuDNN takes it.
fn described(step: &Step, conv: &Conv, precision: Precision) -> Result<Convolution, EngineError> {
    let of = |value: u64| size(step, value);
    let all = |values: &[u64]| values.iter().map(|&value| of(value)).collect::<Result<Vec<_>, _>>();
    let padding: Result<Vec<[usize; 2]>, EngineError> =
        conv.padding.iter().map(|&[before, after]| Ok([of(before)?, of(after)?])).collect();
    Ok(Convolution {
        arithmetic: arithmetic(precision),
        layout: layout(precision),
        batch: of(conv.batch)?,
        inputs: of(conv.inputs)?,
        outputs: of(conv.outputs)?,
        groups: of(conv.groups)?,
        image: all(&conv.image)?,
        kernel: all(&conv.kernel)?,
        stride: all(&conv.stride)?,
        dilation: all(&conv.dilation)?,
        padding: padding?,
        transposed: conv.transposed,
        output_padding: all(&conv.output_padding)?,
    })
}

/// Products that are added up for a result, where no tap lies outside the image.
fn terms(convolution: &Convolution) -> usize {
    convolution.kernel.iter().product::<usize>() * (convolution.inputs / convolution.groups.max(1))
}

/// What cuDNN has nothing for is unsupported, such as tensors of more than 2^31 elements;
/// everything else has failed.
pub(super) fn refused(step: &Step, error: GpuError) -> EngineError {
    match error {
        GpuError::Shape { message, .. } => unsupported(step, message),
        GpuError::NoEngine { .. } => unsupported(step, error.to_string()),
        GpuError::Cudnn { ref status, .. } if status.starts_with("CUDNN_STATUS_NOT_SUPPORTED") => {
            unsupported(step, error.to_string())
        }
        other => other.into(),
    }
}

/// How weights are drawn: results are as large as inputs. What a residual is added to is smaller,
/// so that activations hardly grow from block to block: those of 50 blocks would not be finite in
/// half precision.
fn width(convolution: &Convolution, epilogue: Epilogue) -> f64 {
    let factor = if epilogue.residual { 0.25 } else { 1.0 };
    factor * weight_width(terms(convolution), epilogue.activation)
}

/// Chooses the kernel of a convolution.
pub(super) fn make(
    tools: &Tools,
    conv: &Conv,
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    let refused = |error| refused(step, error);
    let convolution = described(step, conv, precision)?;
    let image = convolution.output_image().map_err(refused)?;
    // Products of sizes, in bytes, must fit in 64 bits.
    let image_64: Vec<u64> = image.iter().map(|&size| size as u64).collect();
    sizes(step, &[&[conv.batch, conv.inputs, 4], conv.image.as_slice()].concat())?;
    sizes(step, &[&[conv.batch, conv.outputs, 4], image_64.as_slice()].concat())?;
    sizes(step, &[&[conv.outputs, conv.inputs, 4], conv.kernel.as_slice()].concat())?;
    let epilogue = step.epilogue;
    let width = width(&convolution, epilogue);
    #[expect(clippy::cast_possible_truncation, reason = "a factor in 32 bits")]
    let scale = if precision == Precision::Int8 { (width / 127.0) as f32 } else { 1.0 };
    let (plan, share) = choose(tools, &convolution, epilogue, scale).map_err(refused)?;
    let arrays = arrays(&convolution, plan.output_len(), epilogue, precision);
    let own = || tools.own(arrays.output.numbers);
    let tail = match share {
        Share::AllButActivation => {
            let launch = own()?.by_thread(arrays.output.elements.div_ceil(4));
            Tail::Activation { kernel: own()?.kernel("unary")?, launch }
        }
        Share::Nothing => {
            let launch = own()?.by_thread(arrays.output.elements.div_ceil(4));
            Tail::Everything { kernel: own()?.kernel("epilogue")?, launch }
        }
        Share::All => Tail::Fused,
    };
    let pixels = image.iter().product();
    Ok(Box::new(ConvKernel { arrays, epilogue, precision, plan, pixels, tail }))
}

/// The plan of a convolution, made now or before.
fn choose(
    tools: &Tools,
    convolution: &Convolution,
    epilogue: Epilogue,
    scale: f32,
) -> Result<(ConvolutionPlan, Share), GpuError> {
    let key = (convolution.clone(), epilogue);
    if let Some(known) = tools.convolutions.get(&key) {
        return Ok(known);
    }
    let made = plan(tools, convolution, epilogue, scale)?;
    tools.convolutions.keep(key, made.clone());
    Ok(made)
}

/// The plan of the first share that has an engine which is no last resort; where none has, of the
/// first that has an engine.
fn plan(
    tools: &Tools,
    convolution: &Convolution,
    epilogue: Epilogue,
    scale: f32,
) -> Result<(ConvolutionPlan, Share), GpuError> {
    let (mut slow, mut missing) = (None, None);
    for share in Share::candidates(epilogue, convolution) {
        let fusion = share.fusion(epilogue, scale);
        match tools.dnn()?.convolution(&tools.stream, convolution, &fusion) {
            Ok(plan) if plan.choice().last_resort => {
                slow.get_or_insert((plan, share));
            }
            Ok(plan) => return Ok((plan, share)),
            Err(error @ GpuError::NoEngine { .. }) => missing = missing.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    slow.ok_or_else(|| missing.unwrap_or(GpuError::NoEngine { what: "this convolution", reason: None }))
}

/// All arrays of a convolution.
fn arrays(convolution: &Convolution, output: usize, epilogue: Epilogue, precision: Precision) -> Arrays {
    let numbers = Numbers::of(precision);
    let integers = precision == Precision::Int8;
    let unit = if integers { 127.0 } else { 1.0 };
    #[expect(clippy::cast_possible_truncation, reason = "rounded to how weights are stored")]
    let width = if integers { 127.0 } else { self::width(convolution, epilogue) as f32 };
    let array = |elements, width| Array { elements, numbers, filling: Filling { center: 0.0, width } };
    let result = array(output, unit);
    Arrays {
        input: array(convolution.input_len(), unit),
        weights: Some(array(convolution.weight_len(), width)),
        bias: epilogue.bias.then_some(Array {
            elements: convolution.outputs,
            numbers: if integers { Numbers::F32 } else { numbers },
            filling: Filling { center: 0.0, width: unit / 8.0 },
        }),
        residual: epilogue.residual.then_some(result),
        output: result,
    }
}

/// An engine of cuDNN as rows record it.
fn recorded(choice: &dnn::Choice) -> Algorithm {
    let form = match choice.form {
        dnn::Form::Alone => "alone",
        dnn::Form::Classic => "classic",
        dnn::Form::Generated => "generated",
    };
    let positive = |kind: u32| choice.knob(kind).and_then(|value| u32::try_from(value).ok());
    let said = |one: Trait| i64::from(choice.traits.contains(&one));
    let heuristic = match choice.heuristic {
        dnn::Heuristic::A => 0,
        dnn::Heuristic::Fallback => 2,
    };
    let rank = i64::try_from(choice.rank).unwrap_or(i64::MAX);
    let mut attributes: std::collections::BTreeMap<String, i64> = [
        ("heuristic", heuristic),
        ("rank", rank),
        ("tensor_cores", said(Trait::TensorCores)),
        ("winograd", said(Trait::Winograd)),
        ("fft", said(Trait::Fft)),
        ("compiled", said(Trait::Compiled)),
        ("last_resort", i64::from(choice.last_resort)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    attributes.extend(choice.knobs.iter().map(|(kind, value)| (format!("knob_{kind}"), *value)));
    Algorithm {
        id: format!("cudnn {form} {}", choice.engine),
        // Numbers of the library: `CUDNN_KNOB_TYPE_STAGES`, `CUDNN_KNOB_TYPE_SPLIT_K`.
        stages: positive(14),
        split_k: positive(0).map(|parts| parts.max(1)),
        workspace: Some(choice.workspace as u64),
        attributes,
        ..Algorithm::default()
    }
}

impl Kernel for ConvKernel {
    fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    fn workspace(&self) -> usize {
        self.plan.workspace()
    }

    fn algorithm(&self) -> Algorithm {
        let mut algorithm = recorded(self.plan.choice());
        if !matches!(self.tail, Tail::Fused) {
            algorithm.attributes.insert("kernels_beside".to_owned(), 1);
        }
        algorithm
    }

    #[expect(unsafe_code, reason = "calls cuDNN and launches kernels by address")]
    unsafe fn queue(&self, stream: &Stream, at: &Addresses) -> Result<(), EngineError> {
        let Addresses { input, weights, bias, residual, output, workspace } = *at;
        let addresses = ConvolutionAddresses { input, weights, bias, residual, output, workspace };
        // SAFETY: the caller's promise.
        unsafe { self.plan.queue_at(stream, &addresses) }?;
        let elements = self.arrays.output.elements as u64;
        let activation = activation_code(self.epilogue.activation);
        match &self.tail {
            Tail::Fused => {}
            Tail::Activation { kernel, launch } => {
                let arguments = Arguments::default().u32(activation).addresses([output, output]);
                // SAFETY: these are the kernel's arguments: it replaces each element of the output.
                unsafe { launch.queue(stream, kernel, arguments.u64(elements).u64(elements)) }?;
            }
            Tail::Everything { kernel, launch } => {
                let convolution = self.plan.convolution();
                let channels = convolution.outputs as u64;
                let inner = if convolution.layout == Layout::ChannelsFirst { self.pixels as u64 } else { 1 };
                let arguments = Arguments::default()
                    .addresses([output, bias, residual])
                    .u64(elements)
                    .u64(channels)
                    .u64(inner)
                    .u32(activation);
                // SAFETY: these are the kernel's arguments, with 0 for absent ones.
                unsafe { launch.queue(stream, kernel, arguments) }?;
            }
        }
        Ok(())
    }

    fn samples(&self, memory: &dyn Memory, seed: u64) -> Result<Vec<Sample>, EngineError> {
        self.compare(memory, seed)
    }

    fn bound(&self) -> f64 {
        let choice = self.plan.choice();
        let terms = terms(self.plan.convolution()) as f64;
        // As of a product. Transforms lose some bits, and what is stored between two kernels is
        // rounded twice.
        let transformed = choice.traits.iter().any(|one| matches!(one, Trait::Winograd | Trait::Fft));
        let sums = 2.0_f64.powi(-24) * (8.0 + 4.0 * terms.sqrt()) * if transformed { 16.0 } else { 1.0 };
        let twice = if matches!(self.tail, Tail::Fused) { 1.0 } else { 2.0 };
        match self.precision {
            Precision::Fp32 => sums,
            Precision::Tf32 => 4e-3 + sums,
            Precision::Fp16 => 2.0_f64.powi(-10) * twice + sums,
            Precision::Bf16 => 2.0_f64.powi(-7) * twice + sums,
            // What is rounded twice is off by up to a unit, and a function of it by hardly more.
            Precision::Int8 => I8_BOUND * if twice > 1.0 { 2.2 } else { 1.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described_as(arithmetic: Arithmetic, transposed: bool) -> Convolution {
        Convolution {
            arithmetic,
            layout: Layout::ChannelsLast,
            batch: 2,
            inputs: 8,
            outputs: 16,
            groups: 4,
            image: vec![8, 8],
            kernel: vec![3, 3],
            stride: vec![1, 1],
            dilation: vec![1, 1],
            padding: vec![[1, 1]; 2],
            transposed,
            output_padding: vec![0, 0],
        }
    }

    #[test]
    fn what_cudnn_leaves_is_done_behind_it() {
        let of = |bias, activation| Epilogue { bias, activation, ..Epilogue::default() };
        let half = described_as(Arithmetic::Fp16, false);
        let relu = of(true, Activation::Relu);
        let shares = Share::candidates(relu, &half);
        assert_eq!(shares, [Share::All, Share::AllButActivation, Share::Nothing]);
        assert_eq!(Share::candidates(Epilogue::default(), &half), [Share::All]);
        assert_eq!(Share::candidates(of(true, Activation::Identity), &half), [Share::All, Share::Nothing]);
        let integers = described_as(Arithmetic::Int8, false);
        let silu = of(true, Activation::Silu);
        assert_eq!(Share::candidates(silu, &integers), [Share::AllButActivation]);
        let fusion = Share::AllButActivation.fusion(silu, 0.5);
        assert_eq!(
            fusion,
            Fusion { scale: 0.5, residual: false, bias: true, activation: dnn::Activation::Identity }
        );
        assert_eq!(Share::Nothing.fusion(silu, 1.0), Fusion::NONE);
        assert_eq!(Share::All.fusion(silu, 1.0).activation, dnn::Activation::Silu);
    }

    #[test]
    fn sums_have_the_terms_of_a_group() {
        assert_eq!(terms(&described_as(Arithmetic::Fp16, false)), 9 * 2);
    }

    #[test]
    fn what_a_residual_is_added_to_is_small() {
        let convolution = described_as(Arithmetic::Fp16, false);
        let of = |residual| width(&convolution, Epilogue { residual, ..Epilogue::default() });
        assert!((of(false) / of(true) - 4.0).abs() < 1e-12);
    }

    #[test]
    fn integers_have_a_bias_of_floats() {
        let epilogue = Epilogue { bias: true, residual: true, activation: Activation::Relu };
        let arrays = arrays(&described_as(Arithmetic::Int8, false), 2048, epilogue, Precision::Int8);
        assert_eq!(arrays.bias.unwrap().numbers, Numbers::F32);
        assert_eq!(arrays.residual, Some(arrays.output));
        assert_eq!(arrays.weights.unwrap().elements, 16 * 2 * 9);
    }
}
