//! Some results in 64 bits.

use flopgap_gpu::dnn::{Activation, Arithmetic, Convolution, Fusion, Layout, PoolFunction, Pooling};

use crate::elements::{Element, Random};

/// Results that are checked.
const CHECKED: usize = 256;

/// The arrays of the host.
pub(crate) struct Host<'a, T: Element> {
    pub(crate) x: &'a [T],
    pub(crate) w: &'a [T],
    pub(crate) bias: &'a [T::Bias],
    pub(crate) residual: &'a [T],
    pub(crate) y: &'a [T],
}

/// Where an element of a tensor with these sizes lies: `[outer, channel, spatial...]`.
fn offset(sizes: &[usize], at: &[usize], layout: Layout) -> usize {
    let order: Vec<usize> = match layout {
        Layout::ChannelsFirst => (0..sizes.len()).collect(),
        Layout::ChannelsLast => [0].into_iter().chain(2..sizes.len()).chain([1]).collect(),
    };
    order.iter().fold(0, |offset, &dimension| offset * sizes[dimension] + at[dimension])
}

/// The index of element number `number`, in the order of sizes.
fn index(sizes: &[usize], mut number: usize) -> Vec<usize> {
    let mut at = vec![0; sizes.len()];
    for dimension in (0..sizes.len()).rev() {
        at[dimension] = number % sizes[dimension];
        number /= sizes[dimension];
    }
    at
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::LeakyRelu { slope } => x.max(f64::from(slope) * x),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
        Activation::Silu => x / (1.0 + (-x).exp()),
        // Needs the error function, which the standard library lacks; no case has it.
        Activation::Gelu => f64::NAN,
        Activation::GeluTanh => {
            x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh())
        }
    }
}

/// The largest error of some results over the size of what was added up, and what the arithmetic
/// allows.
pub(crate) fn error<T: Element>(
    convolution: &Convolution,
    fusion: &Fusion,
    host: &Host<'_, T>,
) -> (f64, f64) {
    let output: Vec<usize> = [convolution.batch, convolution.outputs]
        .into_iter()
        .chain(convolution.output_image().unwrap_or_default())
        .collect();
    let integers = convolution.arithmetic == Arithmetic::Int8;
    let mut random = Random::new(41);
    let mut worst = 0.0_f64;
    for number in 0..CHECKED {
        // The first and the last, and some between.
        let number = match number {
            0 => 0,
            1 => host.y.len() - 1,
            _ => usize::try_from(random.next() % host.y.len() as u64).unwrap_or(0),
        };
        let at = index(&output, number);
        let place = offset(&output, &at, convolution.layout);
        let (mut sum, mut squares) = sums(convolution, host, &at);
        sum *= f64::from(fusion.scale);
        squares *= f64::from(fusion.scale) * f64::from(fusion.scale);
        let mut add = |value: f64| {
            sum += value;
            squares += value * value;
        };
        if fusion.bias {
            add(T::bias_value(host.bias[at[1]]));
        }
        if fusion.residual {
            add(host.residual[place].value());
        }
        let expected = activate(fusion.activation, sum);
        let found = host.y[place].value();
        let off = if integers {
            (found - expected.clamp(-128.0, 127.0)).abs()
        } else {
            (found - expected).abs() / squares.sqrt().max(1e-30)
        };
        worst = if off.is_nan() { f64::INFINITY } else { worst.max(off) };
    }
    let bound = match convolution.arithmetic {
        Arithmetic::Fp32 => 2e-5,
        Arithmetic::Tf32 | Arithmetic::Fp16 => 2e-3,
        Arithmetic::Bf16 => 1.6e-2,
        // Half a unit by rounding.
        Arithmetic::Int8 => 0.51,
    };
    (worst, bound)
}

/// The sum of a result's products and that of their squares.
fn sums<T: Element>(convolution: &Convolution, host: &Host<'_, T>, at: &[usize]) -> (f64, f64) {
    let input: Vec<usize> = [convolution.batch, convolution.inputs]
        .into_iter()
        .chain(convolution.image.iter().copied())
        .collect();
    let groups = convolution.groups;
    let (rows, columns) = if convolution.transposed {
        (convolution.inputs, convolution.outputs / groups)
    } else {
        (convolution.outputs, convolution.inputs / groups)
    };
    let weights: Vec<usize> = [rows, columns].into_iter().chain(convolution.kernel.iter().copied()).collect();
    let taps: usize = convolution.kernel.iter().product();
    let group = at[1] / (convolution.outputs / groups);
    let channels = convolution.inputs / groups;
    let (mut sum, mut squares) = (0.0, 0.0);
    for tap in 0..taps {
        let tap = index(&convolution.kernel, tap);
        let Some(from) = source(convolution, &at[2..], &tap) else { continue };
        for channel in 0..channels {
            let read: Vec<usize> =
                [at[0], group * channels + channel].into_iter().chain(from.iter().copied()).collect();
            let by = if convolution.transposed {
                [group * channels + channel, at[1] % columns]
            } else {
                [at[1], channel]
            };
            let by: Vec<usize> = by.into_iter().chain(tap.iter().copied()).collect();
            let product = host.x[offset(&input, &read, convolution.layout)].value()
                * host.w[offset(&weights, &by, convolution.layout)].value();
            sum += product;
            squares += product * product;
        }
    }
    (sum, squares)
}

/// What a tap reads for a result, where that is within the image.
fn source(convolution: &Convolution, to: &[usize], tap: &[usize]) -> Option<Vec<usize>> {
    (0..to.len())
        .map(|dimension| {
            let [before, _] = convolution.padding[dimension];
            let (step, reach) =
                (convolution.stride[dimension], tap[dimension] * convolution.dilation[dimension]);
            let place = if convolution.transposed {
                let scaled = (to[dimension] + before).checked_sub(reach)?;
                (scaled % step == 0).then_some(scaled / step)?
            } else {
                (to[dimension] * step + reach).checked_sub(before)?
            };
            (place < convolution.image[dimension]).then_some(place)
        })
        .collect()
}

/// The same of a pooling.
pub(crate) fn pooling_error<T: Element>(pooling: &Pooling, x: &[T], y: &[T]) -> (f64, f64) {
    let sizes = |image: &[usize]| -> Vec<usize> {
        [pooling.batch, pooling.channels].into_iter().chain(image.iter().copied()).collect()
    };
    let (input, output) = (sizes(&pooling.image), sizes(&pooling.output));
    let mut random = Random::new(43);
    let mut worst = 0.0_f64;
    for _ in 0..CHECKED {
        let at = index(&output, usize::try_from(random.next() % y.len() as u64).unwrap_or(0));
        let (mut best, mut sum, mut count) = (f64::NEG_INFINITY, 0.0, 0.0);
        for tap in 0..pooling.kernel.iter().product() {
            let tap = index(&pooling.kernel, tap);
            let from: Option<Vec<usize>> = (0..tap.len())
                .map(|dimension| {
                    let place = (at[2 + dimension] * pooling.stride[dimension] + tap[dimension])
                        .checked_sub(pooling.padding[dimension])?;
                    (place < pooling.image[dimension]).then_some(place)
                })
                .collect();
            if let Some(from) = from {
                let read: Vec<usize> = at[..2].iter().copied().chain(from).collect();
                let value = x[offset(&input, &read, pooling.layout)].value();
                best = best.max(value);
                sum += value;
                count += 1.0;
            }
        }
        let expected = match pooling.function {
            PoolFunction::Max => best,
            PoolFunction::Mean => sum / count,
        };
        let off = (y[offset(&output, &at, pooling.layout)].value() - expected).abs();
        worst = if off.is_nan() { f64::INFINITY } else { worst.max(off) };
    }
    let bound = match pooling.arithmetic {
        Arithmetic::Fp32 | Arithmetic::Tf32 => 1e-6,
        Arithmetic::Fp16 => 1e-3,
        Arithmetic::Bf16 => 8e-3,
        // Whether means are rounded or cut off is not documented.
        Arithmetic::Int8 => 1.0,
    };
    (worst, bound)
}
