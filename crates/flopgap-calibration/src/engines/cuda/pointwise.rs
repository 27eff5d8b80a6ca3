//! Element-wise functions, copies, and the empty kernel.

use flopgap_flops::{Activation, Precision};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Kernel as Loaded, Stream};
use flopgap_graph::op::{Elementwise, ElementwiseFunction};
use flopgap_graph::{Algorithm, Epilogue, Step};

use crate::engines::error::EngineError;

use super::kernel::{
    Addresses, Array, Arrays, Filling, I8_BOUND, I8_MOST, I8_UNIT, Kernel, Memory, Numbers, Operand, Sample,
};
use super::tools::{Tools, size, unsupported};
use super::value::{Picker, activate};

/// The number of elements that are checked.
const CHECKED: usize = 64;

/// A function of one or two elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Activation(Activation),
    /// The square root of the magnitude.
    Root,
    /// `exp(-|x|)`.
    Exponential,
    /// To the nearest sixteenth within 8 bits, and back.
    Quantize,
    /// `min(max(x / 6 + 1/2, 0), 1)`.
    HardSigmoid,
    /// `x` times its hard sigmoid.
    HardSwish,
    Add,
    /// Kept within ±1024, as quotients are.
    Mul,
    Div,
    Maximum,
}

impl Function {
    fn of(function: ElementwiseFunction) -> Option<Self> {
        match function {
            ElementwiseFunction::Activation(activation) => Some(Function::Activation(activation)),
            ElementwiseFunction::Add => Some(Function::Add),
            ElementwiseFunction::Mul => Some(Function::Mul),
            ElementwiseFunction::Div => Some(Function::Div),
            ElementwiseFunction::Compare => Some(Function::Maximum),
            ElementwiseFunction::Simple => Some(Function::Root),
            ElementwiseFunction::Transcendental => Some(Function::Exponential),
            ElementwiseFunction::Quantize => Some(Function::Quantize),
            // Memory hides a few instructions, whichever they are.
            ElementwiseFunction::Several(0..5) => Some(Function::HardSigmoid),
            ElementwiseFunction::Several(_) => Some(Function::HardSwish),
            _ => None,
        }
    }

    /// The number in `kernels.cu`.
    fn code(self) -> u32 {
        match self {
            Function::Activation(activation) => super::gemm::activation_code(activation),
            Function::Root => 16,
            Function::Exponential => 17,
            Function::Quantize => 18,
            Function::HardSigmoid => 19,
            Function::HardSwish => 20,
            Function::Add => 32,
            Function::Mul => 33,
            Function::Div => 34,
            Function::Maximum => 35,
        }
    }

    fn takes_two(self) -> bool {
        matches!(self, Function::Add | Function::Mul | Function::Div | Function::Maximum)
    }

    fn value(self, a: f64, b: f64) -> f64 {
        match self {
            Function::Activation(activation) => activate(activation, a),
            Function::Root => a.abs().sqrt(),
            Function::Exponential => (-a.abs()).exp(),
            Function::Quantize => (a * 16.0).round_ties_even().clamp(-128.0, 127.0) / 16.0,
            Function::HardSigmoid => hard_sigmoid(a),
            Function::HardSwish => a * hard_sigmoid(a),
            Function::Add => a + b,
            Function::Mul => (a * b).clamp(-1024.0, 1024.0),
            Function::Div => (a / b).clamp(-1024.0, 1024.0),
            Function::Maximum => a.max(b),
        }
    }
}

fn hard_sigmoid(x: f64) -> f64 {
    (x / 6.0 + 0.5).clamp(0.0, 1.0)
}

/// The error that storing a result allows, over its magnitude, of kernels that compute in 32 bits.
pub(super) fn stored(precision: Precision) -> f64 {
    match precision {
        // Functions are within a few units of the last place.
        Precision::Fp32 | Precision::Tf32 => 2e-6,
        Precision::Fp16 => 1e-3,
        Precision::Bf16 => 8e-3,
        Precision::Int8 => I8_BOUND,
    }
}

/// The value of a stored number in a function of real numbers.
pub(super) fn real(numbers: Numbers, stored: f64) -> f64 {
    if numbers == Numbers::I8 { stored * I8_UNIT } else { stored }
}

/// A result of real numbers as a sample: 8-bit integers saturate.
pub(super) fn sample(numbers: Numbers, found: f64, expected: f64, magnitude: f64) -> Sample {
    let found = real(numbers, found);
    if numbers != Numbers::I8 {
        return Sample { found, expected, magnitude };
    }
    let expected = expected.clamp(-(I8_MOST + 1.0) * I8_UNIT, I8_MOST * I8_UNIT);
    Sample { found, expected, magnitude: I8_MOST * I8_UNIT }
}

/// An array of activations as steps begin with them: uniform around `center`.
pub(super) fn activations(elements: usize, precision: Precision, center: f32, width: f32) -> Array {
    let numbers = Numbers::of(precision);
    let unit = if numbers == Numbers::I8 { 16.0 } else { 1.0 };
    Array { elements, numbers, filling: Filling { center: center * unit, width: width * unit } }
}

/// Steps of our own kernels have no epilogue.
pub(super) fn no_epilogue(step: &Step) -> Result<(), EngineError> {
    if step.epilogue == Epilogue::default() {
        return Ok(());
    }
    Err(unsupported(step, "only products and convolutions have a bias, residual or activation fused"))
}

struct PointKernel {
    arrays: Arrays,
    function: Function,
    precision: Precision,
    kernel: Loaded,
    launch: Launch,
}

/// A function of each element.
pub(super) fn elementwise(
    tools: &Tools,
    sizes: &Elementwise,
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    let Some(function) = Function::of(sizes.function) else {
        return Err(unsupported(step, "no kernel supports this function"));
    };
    // The first operand has the result's shape, as far as so much is read; the second is broadcast
    // over it.
    let (elements, read) = (size(step, sizes.elements)?, size(step, sizes.read)?);
    let first = read.min(elements).max(1);
    let second = read.saturating_sub(first);
    // A function that reads a second operand without saying what of it, such as a rotary embedding.
    let function = if second > 0 && !function.takes_two() { Function::Mul } else { function };
    point(tools, function, [elements, first, second], step, precision)
}

/// Elements moved without arithmetic.
pub(super) fn copy(
    tools: &Tools,
    elements: u64,
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    let elements = size(step, elements)?;
    point(tools, Function::Activation(Activation::Identity), [elements, elements, 0], step, precision)
}

fn point(
    tools: &Tools,
    function: Function,
    [elements, first, second]: [usize; 3],
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    no_epilogue(step)?;
    if elements == 0 {
        return Err(unsupported(step, "it has no elements"));
    }
    let own = tools.own(Numbers::of(precision))?;
    // A function of two numbers whose second is the first again, or a constant, reads one array.
    let two = function.takes_two() && second > 0;
    let name = if function.takes_two() { "binary" } else { "unary" };
    let divisor = function == Function::Div;
    let arrays = Arrays {
        input: activations(first, precision, 0.0, 1.0),
        weights: two.then(|| {
            activations(
                second.min(elements),
                precision,
                if divisor { 1.5 } else { 0.0 },
                if divisor { 0.5 } else { 1.0 },
            )
        }),
        bias: None,
        residual: None,
        output: activations(elements, precision, 0.0, 1.0),
    };
    let launch = own.by_thread(elements.div_ceil(4));
    Ok(Box::new(PointKernel { arrays, function, precision, kernel: own.kernel(name)?, launch }))
}

/// The algorithm of an own kernel.
pub(super) fn ours(name: &str) -> Algorithm {
    Algorithm { id: format!("flopgap {name}"), workspace: Some(0), ..Algorithm::default() }
}

impl Kernel for PointKernel {
    fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    fn algorithm(&self) -> Algorithm {
        ours(if self.function.takes_two() { "binary" } else { "unary" })
    }

    #[expect(unsafe_code, reason = "launches a kernel")]
    unsafe fn queue(&self, stream: &Stream, at: &Addresses) -> Result<(), EngineError> {
        let (elements, first) = (self.arrays.output.elements as u64, self.arrays.input.elements as u64);
        let arguments = Arguments::default().u32(self.function.code());
        let arguments = if self.function.takes_two() {
            let second = self.arrays.weights.map_or(first, |second| second.elements as u64);
            let other = if self.arrays.weights.is_some() { at.weights } else { at.input };
            arguments.addresses([at.input, other, at.output]).u64(elements).u64(first).u64(second)
        } else {
            arguments.addresses([at.input, at.output]).u64(elements).u64(first)
        };
        // SAFETY: these are the kernel's arguments; the arrays are the caller's promise.
        Ok(unsafe { self.launch.queue(stream, &self.kernel, arguments) }?)
    }

    fn samples(&self, memory: &dyn Memory, seed: u64) -> Result<Vec<Sample>, EngineError> {
        let Arrays { input, weights, output, .. } = self.arrays;
        let numbers = output.numbers;
        let read = |operand, elements: usize, place: usize| -> Result<f64, EngineError> {
            let stored = memory.read(operand, place % elements, 1)?;
            Ok(real(numbers, stored.first().copied().unwrap_or(f64::NAN)))
        };
        let places = Picker::new(seed).some(output.elements, CHECKED);
        let mut samples = Vec::with_capacity(places.len());
        for place in places {
            let a = read(Operand::Input, input.elements, place)?;
            let b = match weights {
                Some(second) => read(Operand::Weights, second.elements, place)?,
                None => a,
            };
            let found = memory.read(Operand::Output, place, 1)?;
            let expected = self.function.value(a, b);
            samples.push(sample(numbers, found.first().copied().unwrap_or(f64::NAN), expected, 0.0));
        }
        Ok(samples)
    }

    fn bound(&self) -> f64 {
        stored(self.precision)
    }
}

struct Nothing {
    arrays: Arrays,
    kernel: Loaded,
}

/// An empty launch.
pub(super) fn empty(
    tools: &Tools,
    step: &Step,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    no_epilogue(step)?;
    let none = activations(0, precision, 0.0, 0.0);
    let arrays = Arrays { input: none, weights: None, bias: None, residual: None, output: none };
    Ok(Box::new(Nothing { arrays, kernel: tools.own(Numbers::of(precision))?.kernel("nothing")? }))
}

impl Kernel for Nothing {
    fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    fn algorithm(&self) -> Algorithm {
        ours("nothing")
    }

    #[expect(unsafe_code, reason = "launches a kernel")]
    unsafe fn queue(&self, stream: &Stream, _: &Addresses) -> Result<(), EngineError> {
        // SAFETY: the kernel takes nothing and does nothing.
        Ok(unsafe { Launch::new(1, 32).queue(stream, &self.kernel, Arguments::default()) }?)
    }

    fn samples(&self, _: &dyn Memory, _: u64) -> Result<Vec<Sample>, EngineError> {
        Ok(Vec::new())
    }

    fn bound(&self) -> f64 {
        0.0
    }
}
