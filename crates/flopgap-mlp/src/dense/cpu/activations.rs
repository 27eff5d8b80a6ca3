//! Bias, activation and slope over rows that are still in the cache, eight numbers at a time where the processor has AVX2.
//!
//! The functions have no branches, so that the compiler makes vector instructions of them. Polynomials were fitted by iteratively reweighted
//! least squares (Lawson's method); the tests hold how far each function is from 64 bits.

#![expect(
    clippy::inline_always,
    reason = "what is not inlined into a function with AVX2 is compiled without it"
)]

use crate::dense::{Activation, LEAKY_SLOPE};

/// Adds the biases to the rows of `sums` and applies the activation in place.
pub(super) fn activate(activation: Activation, sums: &mut [f32], biases: &[f32]) {
    dispatch(activation, InPlace { sums, biases });
}

/// Adds the biases to the rows of `sums` in place and writes what the activation makes of them to `outputs`.
pub(super) fn activate_beside(activation: Activation, sums: &mut [f32], biases: &[f32], outputs: &mut [f32]) {
    dispatch(activation, Beside { sums, biases, outputs });
}

/// What the activation makes of sums that have their biases.
pub(super) fn activate_again(activation: Activation, sums: &[f32], outputs: &mut [f32]) {
    dispatch(activation, Again { sums, outputs });
}

/// Multiplies the gradients by the outputs of a layer with the slopes of its activation, and adds the rows up in `bias_sums`. `kept` are the
/// outputs where the slope follows from them, else the sums before the activation.
pub(super) fn multiply_slopes(
    activation: Activation,
    gradients: &mut [f32],
    kept: &[f32],
    bias_sums: &mut [f32],
) {
    dispatch(activation, Slopes { gradients, kept, bias_sums });
}

/// An activation. `FUSED`: the processor has a fused multiply-add; without one, the library's would be slow.
trait Function {
    fn value<const FUSED: bool>(z: f32) -> f32;

    /// The derivative where the output (or the sum, see [`slope_from_output`](crate::dense::slope_from_output)) is `kept`.
    fn slope<const FUSED: bool>(kept: f32) -> f32;
}

/// Something done to many numbers with one activation.
trait Pass {
    fn run<A: Function, const FUSED: bool>(self);
}

fn dispatch(activation: Activation, pass: impl Pass) {
    match activation {
        Activation::Identity => run::<Identity>(pass),
        Activation::Relu => run::<Relu>(pass),
        Activation::LeakyRelu => run::<LeakyRelu>(pass),
        Activation::Sigmoid => run::<Sigmoid>(pass),
        Activation::Tanh => run::<Tanh>(pass),
        Activation::Gelu => run::<Gelu>(pass),
        Activation::GeluTanh => run::<GeluTanh>(pass),
        Activation::Silu => run::<Silu>(pass),
    }
}

fn run<A: Function>(pass: impl Pass) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both.
        return unsafe { run_avx2::<A>(pass) };
    }
    pass.run::<A, { cfg!(target_arch = "aarch64") }>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<A: Function>(pass: impl Pass) {
    pass.run::<A, true>();
}

struct InPlace<'a> {
    sums: &'a mut [f32],
    biases: &'a [f32],
}

impl Pass for InPlace<'_> {
    #[inline(always)]
    fn run<A: Function, const FUSED: bool>(self) {
        for row in self.sums.chunks_exact_mut(self.biases.len()) {
            row.iter_mut().zip(self.biases).for_each(|(z, bias)| *z = A::value::<FUSED>(*z + bias));
        }
    }
}

struct Beside<'a> {
    sums: &'a mut [f32],
    biases: &'a [f32],
    outputs: &'a mut [f32],
}

impl Pass for Beside<'_> {
    #[inline(always)]
    fn run<A: Function, const FUSED: bool>(self) {
        let width = self.biases.len();
        for (sums, outputs) in self.sums.chunks_exact_mut(width).zip(self.outputs.chunks_exact_mut(width)) {
            for ((z, bias), output) in sums.iter_mut().zip(self.biases).zip(outputs) {
                *z += bias;
                *output = A::value::<FUSED>(*z);
            }
        }
    }
}

struct Again<'a> {
    sums: &'a [f32],
    outputs: &'a mut [f32],
}

impl Pass for Again<'_> {
    #[inline(always)]
    fn run<A: Function, const FUSED: bool>(self) {
        self.outputs.iter_mut().zip(self.sums).for_each(|(output, &z)| *output = A::value::<FUSED>(z));
    }
}

struct Slopes<'a> {
    gradients: &'a mut [f32],
    kept: &'a [f32],
    bias_sums: &'a mut [f32],
}

impl Pass for Slopes<'_> {
    #[inline(always)]
    fn run<A: Function, const FUSED: bool>(self) {
        let width = self.bias_sums.len();
        let rows = self.gradients.chunks_exact_mut(width).zip(self.kept.chunks_exact(width));
        for (gradients, kept) in rows {
            for ((gradient, &kept), sum) in gradients.iter_mut().zip(kept).zip(self.bias_sums.iter_mut()) {
                *gradient *= A::slope::<FUSED>(kept);
                *sum += *gradient;
            }
        }
    }
}

/// `a b + c`, in one rounding where that is fast.
#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// The polynomial with these coefficients, that of the constant first.
#[inline(always)]
fn polynomial<const FUSED: bool, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    for index in (0..N - 1).rev() {
        sum = multiply_add::<FUSED>(sum, x, coefficients[index]);
    }
    sum
}

/// 1.5 * 2^23: adding it rounds to a whole number, which is then in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// `exp(x)` to 1e-7 between -87 and 88, the value there beyond them; NaN for NaN.
#[inline(always)]
fn exp<const FUSED: bool>(x: f32) -> f32 {
    // Selections, unlike `f32::min`, keep NaN.
    let x = if x > 88.0 { 88.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = multiply_add::<FUSED>(x, std::f32::consts::LOG2_E, ROUND);
    let whole = shifted - ROUND;
    // ln 2 in two parts, the first with so few bits that its product with `whole` is exact.
    let rest = multiply_add::<FUSED>(whole, -0.693_359_4, x);
    let rest = multiply_add::<FUSED>(whole, 2.121_944_4e-4, rest);
    let tail = polynomial::<FUSED, 5>(
        rest,
        [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_718, 0.001_381_461_3],
    );
    let mantissa = multiply_add::<FUSED>(rest * rest, tail, rest) + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    mantissa * power
}

#[inline(always)]
fn sigmoid<const FUSED: bool>(z: f32) -> f32 {
    1.0 / (1.0 + exp::<FUSED>(-z))
}

/// The sigmoid, and 1 less it with all digits.
#[inline(always)]
fn sigmoids<const FUSED: bool>(z: f32) -> (f32, f32) {
    let exp = exp::<FUSED>(-z);
    let sigmoid = 1.0 / (1.0 + exp);
    (sigmoid, exp * sigmoid)
}

#[inline(always)]
fn tanh<const FUSED: bool>(z: f32) -> f32 {
    let size = z.abs();
    let square = z * z;
    let near = polynomial::<FUSED, 5>(
        square,
        [-0.333_332_8, 0.133_314_42, -0.053_739_7, 0.020_639_041, -0.005_704_933_3],
    );
    let near = multiply_add::<FUSED>(z * square, near, z);
    // The exponential is finite up to 44, and the tangent 1 long before.
    let far = (1.0 - 2.0 / (1.0 + exp::<FUSED>(2.0 * size))).copysign(z);
    if size < 0.625 { near } else { far }
}

/// `exp(-z^2 / 2)` and the normal distribution function at `z`.
#[inline(always)]
fn normal<const FUSED: bool>(z: f32) -> (f32, f32) {
    let half_square = 0.5 * z * z;
    let bell = exp::<FUSED>(-half_square);
    // What the square lost by rounding would show in the tails, where its exponential is steep.
    let bell = if FUSED { bell * (1.0 - (0.5 * z).mul_add(z, -half_square)) } else { bell };
    // The tail over the bell is a smooth function of t, from 0 far out to 1/2 in the middle.
    let t = 1.0 / multiply_add::<FUSED>(z.abs(), 0.35, 1.0);
    let tail = t * polynomial::<FUSED, 9>(
        t,
        [
            0.139_621_4,
            0.139_861_87,
            0.119_832_86,
            0.105_508_03,
            -0.023_109_902,
            0.159_174_26,
            -0.255_714_33,
            0.143_971_74,
            -0.029_145_94,
        ],
    );
    let below = bell * tail;
    (bell, if z < 0.0 { below } else { 1.0 - below })
}

/// The argument of the hyperbolic tangent in [`Activation::GeluTanh`].
#[inline(always)]
fn inner<const FUSED: bool>(z: f32) -> f32 {
    GELU_SCALE * multiply_add::<FUSED>(0.044_715 * z * z, z, z)
}

/// `sqrt(2 / pi)`.
const GELU_SCALE: f32 = 0.797_884_6;
/// `1 / sqrt(2 pi)`.
const BELL_HEIGHT: f32 = 0.398_942_3;

struct Identity;
struct Relu;
struct LeakyRelu;
struct Sigmoid;
struct Tanh;
struct Gelu;
struct GeluTanh;
struct Silu;

impl Function for Identity {
    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        z
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(_kept: f32) -> f32 {
        1.0
    }
}

impl Function for Relu {
    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        if z > 0.0 { z } else { 0.0 }
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(kept: f32) -> f32 {
        if kept > 0.0 { 1.0 } else { 0.0 }
    }
}

impl Function for LeakyRelu {
    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        if z > 0.0 { z } else { LEAKY_SLOPE * z }
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(kept: f32) -> f32 {
        if kept > 0.0 { 1.0 } else { LEAKY_SLOPE }
    }
}

impl Function for Sigmoid {
    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        sigmoid::<FUSED>(z)
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(kept: f32) -> f32 {
        kept * (1.0 - kept)
    }
}

impl Function for Tanh {
    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        tanh::<FUSED>(z)
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(kept: f32) -> f32 {
        multiply_add::<FUSED>(-kept, kept, 1.0)
    }
}

impl Function for Gelu {
    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        z * normal::<FUSED>(z).1
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(kept: f32) -> f32 {
        let (bell, normal) = normal::<FUSED>(kept);
        multiply_add::<FUSED>(kept * BELL_HEIGHT, bell, normal)
    }
}

impl Function for GeluTanh {
    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        // 1 + tanh(u) = 2 sigmoid(2 u), without the loss of digits where tanh is near -1.
        z * sigmoid::<FUSED>(2.0 * inner::<FUSED>(z))
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(kept: f32) -> f32 {
        let (s, rest) = sigmoids::<FUSED>(2.0 * inner::<FUSED>(kept));
        let inner_slope = 2.0 * GELU_SCALE * multiply_add::<FUSED>(0.134_145 * kept, kept, 1.0);
        multiply_add::<FUSED>(kept * s * rest, inner_slope, s)
    }
}

impl Function for Silu {
    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        z * sigmoid::<FUSED>(z)
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(kept: f32) -> f32 {
        let (s, rest) = sigmoids::<FUSED>(kept);
        s * multiply_add::<FUSED>(kept, rest, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::reference;
    use crate::dense::slope_from_output;

    /// Many numbers of every size, both signs.
    fn numbers() -> Vec<f32> {
        let mut numbers: Vec<f32> = (-100_000_i32..=100_000).map(|i| i as f32 / 1_000.0).collect();
        numbers.extend((1..=120).flat_map(|i| [0.5_f32.powi(i), -(0.5_f32.powi(i))]));
        numbers
    }

    /// The largest error of a value, relative to the larger of it and `floor`.
    fn worst(found: &[f32], expected: impl Fn(f64) -> f64, floor: f64) -> f64 {
        let errors = numbers().into_iter().zip(found).map(|(z, &found)| {
            let expected = expected(f64::from(z));
            (f64::from(found) - expected).abs() / expected.abs().max(floor)
        });
        errors.fold(0.0, f64::max)
    }

    #[test]
    fn values_and_slopes_are_those_of_the_reference() {
        for activation in Activation::ALL {
            let numbers = numbers();
            let mut sums = numbers.clone();
            let mut outputs = vec![f32::NAN; numbers.len()];
            activate_beside(activation, &mut sums, &[0.0], &mut outputs);
            assert_eq!(sums, numbers);
            let error = worst(&outputs, |z| reference::activate(activation, z), 1e-3);
            // In the tails of the GELUs the rounding of the exponent shows: 2e-9 of 1e-3.
            assert!(error < 2e-6, "{activation}: {error:.2e}");
            let mut again = vec![f32::NAN; numbers.len()];
            activate_again(activation, &numbers, &mut again);
            activate(activation, &mut sums, &[0.0]);
            assert!(outputs == again && outputs == sums, "{activation}");

            let mut slopes = vec![1.0; numbers.len()];
            let kept = if slope_from_output(activation) { &outputs } else { &numbers };
            multiply_slopes(activation, &mut slopes, kept, &mut [0.0]);
            // The slope of a saturated sigmoid is 1 - a, where only the rounding of a is left.
            let error = worst(&slopes, |z| reference::slope(activation, z), 0.25);
            assert!(error < 6e-7, "slope of {activation}: {error:.2e}");
        }
    }

    #[test]
    fn without_fused_multiply_adds_they_are_as_good() {
        for (function, expected) in [
            (sigmoid::<false> as fn(f32) -> f32, Activation::Sigmoid),
            (tanh::<false>, Activation::Tanh),
            (Gelu::value::<false>, Activation::Gelu),
            (GeluTanh::value::<false>, Activation::GeluTanh),
            (Silu::value::<false>, Activation::Silu),
        ] {
            let found: Vec<f32> = numbers().into_iter().map(function).collect();
            let error = worst(&found, |z| reference::activate(expected, z), 1e-3);
            assert!(error < 2e-6, "{expected}: {error:.2e}");
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        for activation in Activation::ALL.into_iter().filter(|activation| *activation != Activation::Relu) {
            let mut row = [f32::NAN; 8];
            activate(activation, &mut row, &[0.0; 8]);
            assert!(row.iter().all(|value| value.is_nan()), "{activation}: {row:?}");
        }
    }

    #[test]
    fn rows_have_their_biases_and_are_added_up() {
        let mut sums = [1.0, 2.0, 3.0, 4.0];
        activate(Activation::Identity, &mut sums, &[10.0, 20.0]);
        assert_eq!(sums.map(f32::to_bits), [11.0_f32, 22.0, 13.0, 24.0].map(f32::to_bits));
        let (mut gradients, mut bias_sums) = ([1.0, 2.0, 3.0, 4.0], [100.0, 200.0]);
        multiply_slopes(Activation::Relu, &mut gradients, &[1.0, -1.0, 1.0, 1.0], &mut bias_sums);
        assert_eq!((gradients, bias_sums), ([1.0, 0.0, 3.0, 4.0], [104.0, 204.0]));
    }
}
