//! Products of matrices: cuBLASLt, with the epilogue in its kernel where it can, and in a kernel of
//! our own behind it where it cannot.

use flopgap_flops::{Activation, Precision};
use flopgap_gpu::blaslt::{self, Arithmetic, Choice, Matmul, Product};
use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Kernel as Loaded, Stream};
use flopgap_graph::op::Gemm;
use flopgap_graph::{Algorithm, Epilogue, Op, Step};

use crate::engines::error::EngineError;

use super::kernel::{
    Addresses, Array, Arrays, Filling, I8_BOUND, I8_MOST, Kernel, Memory, Numbers, Operand, Sample,
};
use super::tools::{Tools, size, sizes, unsupported};
use super::value::{Picker, activate};

/// The number of rows of the result that are checked, and of elements of each.
const CHECKED: (usize, usize) = (4, 16);

/// 8-bit products need sizes that are multiples of 4 and are fast where they are multiples of this.
const I8_MULTIPLE: usize = 16;

/// A product of matrices on the device.
pub(super) struct GemmKernel {
    arrays: Arrays,
    sizes: Sizes,
    epilogue: Epilogue,
    /// Factor of the sums: 1 but for 8-bit integers.
    alpha: f32,
    precision: Precision,
    matmul: Matmul,
    tail: Tail,
}

/// The sizes as indexes.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
}

/// The kernels that run in addition to cuBLASLt's.
enum Tail {
    /// Nothing: the whole step is one kernel.
    Fused,
    /// The activation, in place.
    Activation { kernel: Loaded, launch: Launch, activation: Activation },
    /// From 32-bit sums in the workspace to 8 bits.
    Requantize(Requantize),
}

/// The parts of an 8-bit product whose sums are written out.
struct Requantize {
    kernel: Loaded,
    launch: Launch,
    /// Copies the first operand into rows of a multiple of 16, where they are not.
    pad: Option<(Loaded, Launch)>,
    /// Elements from one row of the sums to the next.
    n_pitch: usize,
    /// The same of both operands.
    k_pitch: usize,
    /// Where the padded operand and the library's own workspace begin.
    offsets: [usize; 2],
    bytes: usize,
}

/// The library's compute type for a precision, except for 8-bit integers.
fn arithmetic(precision: Precision) -> Arithmetic {
    match precision {
        Precision::Fp32 => Arithmetic::Fp32,
        Precision::Tf32 => Arithmetic::Tf32,
        Precision::Fp16 => Arithmetic::Fp16,
        Precision::Bf16 => Arithmetic::Bf16,
        Precision::Int8 => Arithmetic::Int8,
    }
}

/// The activation as the library's epilogue, where it has it.
fn fused(activation: Activation) -> Option<blaslt::Activation> {
    match activation {
        Activation::Identity => Some(blaslt::Activation::Identity),
        Activation::Relu => Some(blaslt::Activation::Relu),
        Activation::GeluTanh => Some(blaslt::Activation::GeluTanh),
        Activation::LeakyRelu
        | Activation::Sigmoid
        | Activation::Tanh
        | Activation::Gelu
        | Activation::Silu => None,
    }
}

/// Weights such that results are as large as inputs, behind a `ReLU` on average (He and others,
/// 2015): the half width of a uniform distribution for sums of `k` products.
pub(super) fn weight_width(k: usize, activation: Activation) -> f64 {
    let variance = if activation == Activation::Relu { 2.0 } else { 1.0 } / k.max(1) as f64;
    (3.0 * variance).sqrt()
}

/// Chooses the kernel of a product.
pub(super) fn make(
    tools: &Tools,
    gemm: &Gemm,
    epilogue: Epilogue,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    let step = Step { op: Op::Gemm(*gemm), epilogue };
    let of = |value| size(&step, value);
    let sizes_of = Sizes { batch: of(gemm.batch)?, m: of(gemm.m)?, n: of(gemm.n)?, k: of(gemm.k)? };
    if [sizes_of.batch, sizes_of.m, sizes_of.n, sizes_of.k].contains(&0) {
        return Err(unsupported(&step, "a size is 0"));
    }
    // That the padded ones are counted in 64 bits, too.
    let padded = [gemm.m, gemm.n, gemm.k].map(|size| size.saturating_add(I8_MULTIPLE as u64));
    for pair in [[0, 1], [0, 2], [1, 2]] {
        sizes(&step, &[gemm.batch, padded[pair[0]], padded[pair[1]], 4])?;
    }
    match precision {
        Precision::Int8 => integers(tools, &step, sizes_of),
        _ => floats(tools, &step, sizes_of, precision),
    }
}

/// All arrays of a product.
fn arrays(sizes: Sizes, [n_pitch, k_pitch]: [usize; 2], epilogue: Epilogue, precision: Precision) -> Arrays {
    let Sizes { batch, m, n, k } = sizes;
    let numbers = Numbers::of(precision);
    let integers = precision == Precision::Int8;
    #[expect(clippy::cast_possible_truncation, reason = "rounded to how weights are stored")]
    let width = if integers { 127.0 } else { weight_width(k, epilogue.activation) as f32 };
    let unit = if integers { 127.0 } else { 1.0 };
    let array = |elements, width| Array { elements, numbers, filling: Filling { center: 0.0, width } };
    let result = array(batch * m * n, unit);
    Arrays {
        input: array(batch * m * k, unit),
        weights: Some(array(batch * n_pitch * k_pitch, width)),
        bias: epilogue.bias.then_some(Array {
            elements: n,
            numbers: if integers { Numbers::F32 } else { numbers },
            filling: Filling { center: 0.0, width: unit / 8.0 },
        }),
        residual: epilogue.residual.then_some(result),
        output: result,
    }
}

fn product(sizes: Sizes, arithmetic: Arithmetic, epilogue: Epilogue, alpha: f32) -> Product {
    Product {
        batch: sizes.batch,
        bias: epilogue.bias,
        residual: epilogue.residual,
        activation: fused(epilogue.activation).unwrap_or_default(),
        alpha,
        ..Product::new(arithmetic, sizes.m, sizes.n, sizes.k)
    }
}

fn floats(
    tools: &Tools,
    step: &Step,
    sizes: Sizes,
    precision: Precision,
) -> Result<Box<dyn Kernel>, EngineError> {
    let epilogue = step.epilogue;
    let whole = product(sizes, arithmetic(precision), epilogue, 1.0);
    let mut is_fused = fused(epilogue.activation).is_some();
    let mut chosen = tools.blas.matmul(&whole, tools.most_workspace)?;
    if chosen.is_none() && is_fused && whole.activation != blaslt::Activation::Identity {
        let without = Product { activation: blaslt::Activation::Identity, ..whole };
        (chosen, is_fused) = (tools.blas.matmul(&without, tools.most_workspace)?, false);
    }
    let Some(matmul) = chosen else {
        return Err(unsupported(step, format!("cuBLASLt has no algorithm for it in {precision}")));
    };
    let arrays = arrays(sizes, [sizes.n, sizes.k], epilogue, precision);
    let tail = if is_fused {
        Tail::Fused
    } else {
        let own = tools.own(arrays.output.numbers)?;
        Tail::Activation {
            kernel: own.kernel("unary")?,
            launch: own.by_thread(arrays.output.elements.div_ceil(4)),
            activation: epilogue.activation,
        }
    };
    Ok(Box::new(GemmKernel { arrays, sizes, epilogue, alpha: 1.0, precision, matmul, tail }))
}

fn integers(tools: &Tools, step: &Step, sizes: Sizes) -> Result<Box<dyn Kernel>, EngineError> {
    let epilogue = step.epilogue;
    let Sizes { batch, m, n, k } = sizes;
    // The spread of uniform 8-bit numbers is 127 / sqrt(3).
    #[expect(clippy::cast_possible_truncation, reason = "a factor in 32 bits")]
    let alpha = (weight_width(k, epilogue.activation) / 127.0) as f32;
    let aligned = n.is_multiple_of(4) && k.is_multiple_of(4);
    if aligned && fused(epilogue.activation).is_some_and(|found| found != blaslt::Activation::GeluTanh) {
        let whole = product(sizes, Arithmetic::Int8, epilogue, alpha);
        if let Some(matmul) = tools.blas.matmul(&whole, tools.most_workspace)? {
            let arrays = arrays(sizes, [n, k], epilogue, Precision::Int8);
            let tail = Tail::Fused;
            let precision = Precision::Int8;
            return Ok(Box::new(GemmKernel { arrays, sizes, epilogue, alpha, precision, matmul, tail }));
        }
    }
    let pitch = |size: usize| if size.is_multiple_of(4) { size } else { size.next_multiple_of(I8_MULTIPLE) };
    let (n_pitch, k_pitch) = (pitch(n), pitch(k));
    let sums = Product { batch, ..Product::new(Arithmetic::Int8Sums, m, n_pitch, k_pitch) };
    let Some(matmul) = tools.blas.matmul(&sums, tools.most_workspace)? else {
        return Err(unsupported(step, "cuBLASLt has no algorithm for it in int8"));
    };
    let own = tools.own(Numbers::I8)?;
    let pad = (k_pitch != k)
        .then(|| own.kernel("pad").map(|kernel| (kernel, own.by_thread(batch * m * k_pitch))))
        .transpose()?;
    let padded = (batch * m * n_pitch * 4).next_multiple_of(256);
    let library = padded + if pad.is_some() { (batch * m * k_pitch).next_multiple_of(256) } else { 0 };
    let tail = Tail::Requantize(Requantize {
        kernel: own.kernel("requantize")?,
        launch: own.by_thread(batch * m * n),
        pad,
        n_pitch,
        k_pitch,
        offsets: [padded, library],
        bytes: library + matmul.workspace(),
    });
    let arrays = arrays(sizes, [n_pitch, k_pitch], epilogue, Precision::Int8);
    Ok(Box::new(GemmKernel { arrays, sizes, epilogue, alpha, precision: Precision::Int8, matmul, tail }))
}

/// An algorithm of cuBLASLt as rows record it.
fn recorded(choice: &Choice) -> Algorithm {
    let Choice { id, tile, stages, split_k, cluster, waves, workspace, .. } = *choice;
    let positive = |value: i32| u32::try_from(value).unwrap_or(0).max(1);
    let attributes = [
        ("tile_id", choice.tile_id.map(i64::from)),
        ("reduction", choice.reduction.map(i64::from)),
        ("swizzle", choice.swizzle.map(i64::from)),
        ("custom", choice.custom.map(i64::from)),
        ("inner_shape", choice.inner_shape.map(i64::from)),
    ];
    Algorithm {
        id: id.map_or_else(|| "cublaslt".to_owned(), |id| format!("cublaslt {id}")),
        tile,
        stages,
        split_k: split_k.map(positive),
        cluster,
        waves_thousandths: thousandths(waves),
        workspace: Some(workspace as u64),
        attributes: attributes
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect(),
        kernels: Vec::new(),
        launches: Vec::new(),
    }
}

/// Waves in thousandths; `None` where the library does not know.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
pub(super) fn thousandths(waves: f32) -> Option<u64> {
    (waves.is_finite() && waves > 0.0).then(|| (f64::from(waves) * 1000.0).round() as u64)
}

impl Kernel for GemmKernel {
    fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    fn workspace(&self) -> usize {
        match &self.tail {
            Tail::Requantize(parts) => parts.bytes,
            Tail::Fused | Tail::Activation { .. } => self.matmul.workspace(),
        }
    }

    fn algorithm(&self) -> Algorithm {
        let mut algorithm = recorded(self.matmul.choice());
        algorithm.workspace = Some(self.workspace() as u64);
        let kernels = match &self.tail {
            Tail::Fused => 0,
            Tail::Activation { .. } => 1,
            Tail::Requantize(parts) => 1 + i64::from(parts.pad.is_some()),
        };
        if kernels > 0 {
            algorithm.attributes.insert("kernels_beside".to_owned(), kernels);
        }
        algorithm
    }

    #[expect(unsafe_code, reason = "calls cuBLASLt and launches kernels by address")]
    unsafe fn queue(&self, stream: &Stream, at: &Addresses) -> Result<(), EngineError> {
        let Addresses { input: x, weights: w, bias, residual, output: y, workspace } = *at;
        match &self.tail {
            Tail::Fused => {
                // SAFETY: the caller's promise.
                unsafe {
                    self.matmul.queue_at(stream, &blaslt::Addresses { x, w, bias, residual, y, workspace })
                }?;
            }
            Tail::Activation { kernel, launch, activation } => {
                // SAFETY: the caller's promise.
                unsafe {
                    self.matmul.queue_at(stream, &blaslt::Addresses { x, w, bias, residual, y, workspace })
                }?;
                let elements = self.arrays.output.elements as u64;
                let arguments = Arguments::default().u32(activation_code(*activation)).addresses([y, y]);
                // SAFETY: these are the kernel's arguments: it replaces each element of the output.
                unsafe { launch.queue(stream, kernel, arguments.u64(elements).u64(elements)) }?;
            }
            Tail::Requantize(parts) => {
                let Requantize { kernel, launch, pad, n_pitch, k_pitch, offsets, .. } = parts;
                let Sizes { batch, m, n, k } = self.sizes;
                let (sums, padded) = (workspace, workspace + offsets[0] as u64);
                if let Some((kernel, launch)) = pad {
                    let arguments = Arguments::default().addresses([x, padded]).u64((batch * m) as u64);
                    // SAFETY: these are the kernel's arguments; the workspace has room for the
                    // padded rows behind the sums.
                    unsafe { launch.queue(stream, kernel, arguments.u64(k as u64).u64(*k_pitch as u64)) }?;
                }
                let at = blaslt::Addresses {
                    x: if pad.is_some() { padded } else { x },
                    w,
                    bias: 0,
                    residual: 0,
                    y: sums,
                    workspace: workspace + offsets[1] as u64,
                };
                // SAFETY: the caller's promise; the workspace has room for the sums, padded rows
                // and what the library needs.
                unsafe { self.matmul.queue_at(stream, &at) }?;
                let arguments = Arguments::default()
                    .addresses([sums, bias, residual, y])
                    .u64((batch * m) as u64)
                    .u64(n as u64)
                    .u64(*n_pitch as u64)
                    .f32(self.alpha)
                    .u32(activation_code(self.epilogue.activation));
                // SAFETY: these are the kernel's arguments, with 0 for absent ones.
                unsafe { launch.queue(stream, kernel, arguments) }?;
            }
        }
        Ok(())
    }

    fn samples(&self, memory: &dyn Memory, seed: u64) -> Result<Vec<Sample>, EngineError> {
        let Sizes { batch, m, n, k } = self.sizes;
        let k_pitch = self.arrays.weights.map_or(k, |weights| {
            // Of the padded weights of one product.
            if let Tail::Requantize(parts) = &self.tail {
                parts.k_pitch
            } else {
                weights.elements / (batch * n)
            }
        });
        let n_pitch = if let Tail::Requantize(parts) = &self.tail { parts.n_pitch } else { n };
        let integers = self.precision == Precision::Int8;
        let bias = if self.epilogue.bias { memory.read(Operand::Bias, 0, n)? } else { vec![0.0; n] };
        let mut picker = Picker::new(seed);
        let columns = picker.some(n, CHECKED.1);
        let mut samples = Vec::new();
        // Each column's weights are read once, for all rows of one of the batch.
        let product = picker.below(batch);
        let rows = picker.some(m, CHECKED.0);
        let weights: Result<Vec<_>, _> = columns
            .iter()
            .map(|&column| memory.read(Operand::Weights, (product * n_pitch + column) * k_pitch, k))
            .collect();
        let weights = weights?;
        for row in rows {
            let place = product * m + row;
            let x = memory.read(Operand::Input, place * k, k)?;
            let found = memory.read(Operand::Output, place * n, n)?;
            let residual = if self.epilogue.residual {
                memory.read(Operand::Residual, place * n, n)?
            } else {
                vec![0.0; n]
            };
            for (&column, weights) in columns.iter().zip(&weights) {
                let terms = x.iter().zip(weights).map(|(x, w)| x * w * f64::from(self.alpha));
                let (sum, squares) =
                    terms.fold((0.0, 0.0), |(sum, squares), term| (sum + term, squares + term * term));
                let sum = sum + bias[column] + residual[column];
                let activation = self.epilogue.activation;
                let expected =
                    if integers { activate_i8(activation, sum) } else { activate(activation, sum) };
                let magnitude = if integers { I8_MOST } else { squares.sqrt() };
                samples.push(Sample { found: found[column], expected, magnitude });
            }
        }
        Ok(samples)
    }

    fn bound(&self) -> f64 {
        // The rounding of a sum of k terms grows with its root; the rest is how operands and
        // results are stored. The factors are about twice what was seen as the largest of many
        // samples.
        let sums = 2.0_f64.powi(-24) * (8.0 + 4.0 * (self.sizes.k as f64).sqrt());
        // The epilogue of cuBLASLt computes the hyperbolic tangent of this function by fast
        // exponentials: 3.9e-6 of the magnitude was the most of a sweep on an H200, with 32-bit
        // floats, whose rounding does not hide it.
        let function = match self.epilogue.activation {
            Activation::GeluTanh => 2.0_f64.powi(-17),
            _ => 0.0,
        };
        match self.precision {
            Precision::Fp32 => sums + function,
            Precision::Tf32 => 4e-3 + sums,
            Precision::Fp16 => 2.0_f64.powi(-10) + sums,
            Precision::Bf16 => 2.0_f64.powi(-7) + sums,
            Precision::Int8 => I8_BOUND,
        }
    }
}

/// The number of an activation in `kernels.cu`.
pub(super) fn activation_code(activation: Activation) -> u32 {
    u32::try_from(activation.index()).unwrap_or_default()
}

/// An activation of a number in units of 8-bit integers, kept within them but not rounded.
pub(super) fn activate_i8(activation: Activation, value: f64) -> f64 {
    use super::kernel::I8_UNIT;
    (activate(activation, value * I8_UNIT) / I8_UNIT).clamp(-128.0, 127.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_weights_belong_to_whole_rows() {
        let sizes = Sizes { batch: 2, m: 3, n: 10, k: 7 };
        let epilogue = Epilogue { bias: true, ..Epilogue::default() };
        let arrays = arrays(sizes, [16, 16], epilogue, Precision::Int8);
        assert_eq!(arrays.weights.unwrap().elements, 2 * 16 * 16);
        assert_eq!(arrays.input.elements, 2 * 3 * 7);
        assert_eq!(arrays.output.elements, 2 * 3 * 10);
        assert_eq!(arrays.bias.unwrap().numbers, Numbers::F32);
        assert!(arrays.residual.is_none());
    }

    #[test]
    fn waves_that_the_library_does_not_know_are_absent() {
        assert_eq!(thousandths(1.5), Some(1500));
        assert_eq!(thousandths(0.0), None);
        assert_eq!(thousandths(f32::NAN), None);
    }

    #[test]
    fn results_are_as_large_as_inputs() {
        // The variance of a uniform distribution is a third of the square of its half width.
        let width = weight_width(300, Activation::Identity);
        assert!((300.0 * width * width / 3.0 - 1.0).abs() < 1e-12);
        let width = weight_width(300, Activation::Relu);
        assert!((300.0 * width * width / 3.0 - 2.0).abs() < 1e-12);
    }
}
