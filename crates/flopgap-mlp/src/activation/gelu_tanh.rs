//! `z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3)))`: the approximation of GELU by the hyperbolic
//! tangent.

use super::{Cuda, Facts, Function, Kept, math};

pub(crate) struct GeluTanh;

impl Function for GeluTanh {
    const FACTS: Facts = Facts {
        kept: Kept::Sum,
        kink: false,
        cuda: Cuda {
            value: "return 0.5f * z * (1.0f + tanhf(0.7978845608f * fmaf(0.044715f * z * z, z, z)));",
            slope: "const float t = tanhf(0.7978845608f * fmaf(0.044715f * z * z, z, z)); \
                    return 0.5f * (1.0f + t) \
                    + 0.5f * z * fmaf(-t, t, 1.0f) * 0.7978845608f * fmaf(0.134145f * z, z, 1.0f);",
            divides: false,
            value_instructions: 28,
            slope_instructions: 36,
        },
        #[cfg(test)]
        at_one: [-0.158_808_009_391_723_24, 0.841_191_990_608_276_8],
    };

    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        // 1 + tanh(u) = 2 sigmoid(2 u), without the loss of digits where tanh is near -1.
        z * math::sigmoid::<FUSED>(2.0 * inner::<FUSED>(z))
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(z: f32) -> f32 {
        let (s, rest) = math::sigmoids::<FUSED>(2.0 * inner::<FUSED>(z));
        let inner_slope = 2.0 * SCALE * math::multiply_add::<FUSED>(0.134_145 * z, z, 1.0);
        math::multiply_add::<FUSED>(z * s * rest, inner_slope, s)
    }

    fn exact(z: f64) -> f64 {
        0.5 * z * (1.0 + exact_inner(z).tanh())
    }

    fn exact_slope(z: f64) -> f64 {
        let t = exact_inner(z).tanh();
        0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * EXACT_SCALE * (1.0 + 3.0 * CUBE * z * z)
    }
}

/// `sqrt(2 / pi)`.
const EXACT_SCALE: f64 = 0.797_884_560_802_865_4;
const SCALE: f32 = 0.797_884_6;
const CUBE: f64 = 0.044_715;

/// The argument of the hyperbolic tangent.
#[inline(always)]
fn inner<const FUSED: bool>(z: f32) -> f32 {
    SCALE * math::multiply_add::<FUSED>(0.044_715 * z * z, z, z)
}

fn exact_inner(z: f64) -> f64 {
    EXACT_SCALE * (z + CUBE * z * z * z)
}
