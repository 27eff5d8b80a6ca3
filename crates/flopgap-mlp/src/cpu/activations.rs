//! Bias, activation and slope over rows that are still in the cache, eight numbers at a time where
//! the processor has AVX2.
//!
//! The functions are those of [`activation`](crate::activation); the tests hold how far each
//! is from 64 bits.

#![expect(
    clippy::inline_always,
    reason = "what is not inlined into a function with AVX2 is compiled without it"
)]

use crate::Activation;
use crate::activation::{slope, value};

/// Adds the biases to the rows of `sums` and applies the activation in place.
pub(super) fn activate(activation: Activation, sums: &mut [f32], biases: &[f32]) {
    dispatch(activation, InPlace { sums, biases });
}

/// Adds the biases to the rows of `sums` in place and writes what the activation makes of them to
/// `outputs`.
pub(super) fn activate_beside(activation: Activation, sums: &mut [f32], biases: &[f32], outputs: &mut [f32]) {
    dispatch(activation, Beside { sums, biases, outputs });
}

/// What the activation makes of sums that have their biases.
pub(super) fn activate_again(activation: Activation, sums: &[f32], outputs: &mut [f32]) {
    dispatch(activation, Again { sums, outputs });
}

/// Multiplies the gradients by the outputs of a layer with the slopes of its activation, and adds
/// the rows up in `bias_sums`. `kept` are the outputs where the slope follows from them, else the
/// sums before the activation.
pub(super) fn multiply_slopes(
    activation: Activation,
    gradients: &mut [f32],
    kept: &[f32],
    bias_sums: &mut [f32],
) {
    dispatch(activation, Slopes { gradients, kept, bias_sums });
}

/// Something done to many numbers with one activation, that of index `A`.
trait Pass {
    fn run<const A: usize, const FUSED: bool>(self);
}

/// Runs code in which the activation is a constant.
fn dispatch(activation: Activation, pass: impl Pass) {
    match activation {
        Activation::Identity => run::<{ Activation::Identity.index() }>(pass),
        Activation::Relu => run::<{ Activation::Relu.index() }>(pass),
        Activation::LeakyRelu => run::<{ Activation::LeakyRelu.index() }>(pass),
        Activation::Sigmoid => run::<{ Activation::Sigmoid.index() }>(pass),
        Activation::Tanh => run::<{ Activation::Tanh.index() }>(pass),
        Activation::Gelu => run::<{ Activation::Gelu.index() }>(pass),
        Activation::GeluTanh => run::<{ Activation::GeluTanh.index() }>(pass),
        Activation::Silu => run::<{ Activation::Silu.index() }>(pass),
    }
}

fn run<const A: usize>(pass: impl Pass) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both.
        return unsafe { run_avx2::<A>(pass) };
    }
    pass.run::<A, { cfg!(target_arch = "aarch64") }>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<const A: usize>(pass: impl Pass) {
    pass.run::<A, true>();
}

struct InPlace<'a> {
    sums: &'a mut [f32],
    biases: &'a [f32],
}

impl Pass for InPlace<'_> {
    #[inline(always)]
    fn run<const A: usize, const FUSED: bool>(self) {
        for row in self.sums.chunks_exact_mut(self.biases.len()) {
            row.iter_mut()
                .zip(self.biases)
                .for_each(|(z, bias)| *z = value::<FUSED>(Activation::ALL[A], *z + bias));
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
    fn run<const A: usize, const FUSED: bool>(self) {
        let width = self.biases.len();
        for (sums, outputs) in self.sums.chunks_exact_mut(width).zip(self.outputs.chunks_exact_mut(width)) {
            for ((z, bias), output) in sums.iter_mut().zip(self.biases).zip(outputs) {
                *z += bias;
                *output = value::<FUSED>(Activation::ALL[A], *z);
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
    fn run<const A: usize, const FUSED: bool>(self) {
        self.outputs
            .iter_mut()
            .zip(self.sums)
            .for_each(|(output, &z)| *output = value::<FUSED>(Activation::ALL[A], z));
    }
}

struct Slopes<'a> {
    gradients: &'a mut [f32],
    kept: &'a [f32],
    bias_sums: &'a mut [f32],
}

impl Pass for Slopes<'_> {
    #[inline(always)]
    fn run<const A: usize, const FUSED: bool>(self) {
        let width = self.bias_sums.len();
        let rows = self.gradients.chunks_exact_mut(width).zip(self.kept.chunks_exact(width));
        for (gradients, kept) in rows {
            for ((gradient, &kept), sum) in gradients.iter_mut().zip(kept).zip(self.bias_sums.iter_mut()) {
                *gradient *= slope::<FUSED>(Activation::ALL[A], kept);
                *sum += *gradient;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;
    use crate::slope_from_output;

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
        for activation in Activation::ALL {
            let found: Vec<f32> = numbers().into_iter().map(|z| value::<false>(activation, z)).collect();
            let error = worst(&found, |z| reference::activate(activation, z), 1e-3);
            assert!(error < 2e-6, "{activation}: {error:.2e}");
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
