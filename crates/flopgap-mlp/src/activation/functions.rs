//! The functions themselves and their slopes, in 32 and in 64 bits.
//!
//! In 32 bits they have no branches, for vectors. `FUSED`: the processor has a fused multiply-add;
//! without one, the library's would be slow. Callers name the activation by a constant, so that the
//! choice is made when they are compiled.

use flopgap_flops::Activation;

use super::{LEAKY_SLOPE, math};

/// The activation of `z` in 32 bits.
#[inline(always)]
pub(crate) fn value<const FUSED: bool>(activation: Activation, z: f32) -> f32 {
    match activation {
        Activation::Identity => z,
        Activation::Relu => {
            if z > 0.0 {
                z
            } else {
                0.0
            }
        }
        Activation::LeakyRelu => {
            if z > 0.0 {
                z
            } else {
                LEAKY_SLOPE * z
            }
        }
        Activation::Sigmoid => math::sigmoid::<FUSED>(z),
        Activation::Tanh => math::tanh::<FUSED>(z),
        Activation::Gelu => z * math::normal::<FUSED>(z).1,
        // 1 + tanh(u) = 2 sigmoid(2 u), without the loss of digits where tanh is near -1.
        Activation::GeluTanh => z * math::sigmoid::<FUSED>(2.0 * inner::<FUSED>(z)),
        Activation::Silu => z * math::sigmoid::<FUSED>(z),
    }
}

/// The derivative in 32 bits, from what is [kept](super::Facts::kept).
#[inline(always)]
pub(crate) fn slope<const FUSED: bool>(activation: Activation, kept: f32) -> f32 {
    match activation {
        Activation::Identity => 1.0,
        Activation::Relu => {
            if kept > 0.0 {
                1.0
            } else {
                0.0
            }
        }
        Activation::LeakyRelu => {
            if kept > 0.0 {
                1.0
            } else {
                LEAKY_SLOPE
            }
        }
        Activation::Sigmoid => kept * (1.0 - kept),
        Activation::Tanh => math::multiply_add::<FUSED>(-kept, kept, 1.0),
        Activation::Gelu => {
            let (bell, normal) = math::normal::<FUSED>(kept);
            math::multiply_add::<FUSED>(kept * BELL_HEIGHT, bell, normal)
        }
        Activation::GeluTanh => {
            let (s, rest) = math::sigmoids::<FUSED>(2.0 * inner::<FUSED>(kept));
            let inner_slope = 2.0 * SCALE * math::multiply_add::<FUSED>(0.134_145 * kept, kept, 1.0);
            math::multiply_add::<FUSED>(kept * s * rest, inner_slope, s)
        }
        Activation::Silu => {
            let (s, rest) = math::sigmoids::<FUSED>(kept);
            s * math::multiply_add::<FUSED>(kept, rest, 1.0)
        }
    }
}

/// The activation of `z` in 64 bits: what everything is checked against.
pub(crate) fn exact(activation: Activation, z: f64) -> f64 {
    match activation {
        Activation::Identity => z,
        Activation::Relu => z.max(0.0),
        Activation::LeakyRelu => z * if z > 0.0 { 1.0 } else { f64::from(LEAKY_SLOPE) },
        Activation::Sigmoid => sigmoid(z),
        Activation::Tanh => z.tanh(),
        Activation::Gelu => z * normal(z),
        Activation::GeluTanh => 0.5 * z * (1.0 + exact_inner(z).tanh()),
        Activation::Silu => z * sigmoid(z),
    }
}

/// The derivative at `z` in 64 bits; at a kink, that from below.
pub(crate) fn exact_slope(activation: Activation, z: f64) -> f64 {
    match activation {
        Activation::Identity => 1.0,
        Activation::Relu => f64::from(u8::from(z > 0.0)),
        Activation::LeakyRelu => {
            if z > 0.0 {
                1.0
            } else {
                f64::from(LEAKY_SLOPE)
            }
        }
        Activation::Sigmoid => sigmoid(z) * (1.0 - sigmoid(z)),
        Activation::Tanh => 1.0 - z.tanh() * z.tanh(),
        Activation::Gelu => normal(z) + z * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt(),
        Activation::GeluTanh => {
            let t = exact_inner(z).tanh();
            0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * EXACT_SCALE * (1.0 + 3.0 * CUBE * z * z)
        }
        Activation::Silu => sigmoid(z) * (1.0 + z * (1.0 - sigmoid(z))),
    }
}

/// The second derivative at `z` in 64 bits; at a kink, that of the straight lines beside it.
pub(crate) fn exact_curvature(activation: Activation, z: f64) -> f64 {
    match activation {
        Activation::Identity | Activation::Relu | Activation::LeakyRelu => 0.0,
        Activation::Sigmoid => sigmoid(z) * (1.0 - sigmoid(z)) * (1.0 - 2.0 * sigmoid(z)),
        Activation::Tanh => -2.0 * z.tanh() * (1.0 - z.tanh() * z.tanh()),
        Activation::Gelu => (2.0 - z * z) * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt(),
        Activation::GeluTanh => {
            let t = exact_inner(z).tanh();
            let (first, second) = (EXACT_SCALE * (1.0 + 3.0 * CUBE * z * z), 6.0 * EXACT_SCALE * CUBE * z);
            (1.0 - t * t) * (first + z * (0.5 * second - t * first * first))
        }
        Activation::Silu => {
            let s = sigmoid(z);
            s * (1.0 - s) * (2.0 + z * (1.0 - 2.0 * s))
        }
    }
}

/// `1 / sqrt(2 pi)`.
const BELL_HEIGHT: f32 = 0.398_942_3;
/// `sqrt(2 / pi)`.
const EXACT_SCALE: f64 = 0.797_884_560_802_865_4;
const SCALE: f32 = 0.797_884_6;
const CUBE: f64 = 0.044_715;

/// The argument of the hyperbolic tangent in the approximation of GELU by it.
#[inline(always)]
fn inner<const FUSED: bool>(z: f32) -> f32 {
    SCALE * math::multiply_add::<FUSED>(0.044_715 * z * z, z, z)
}

fn exact_inner(z: f64) -> f64 {
    EXACT_SCALE * (z + CUBE * z * z * z)
}

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// The normal distribution function.
fn normal(z: f64) -> f64 {
    0.5 * (1.0 + libm::erf(z * std::f64::consts::FRAC_1_SQRT_2))
}
