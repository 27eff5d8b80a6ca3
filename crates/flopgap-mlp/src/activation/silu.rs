//! `z sigmoid(z)`, also called swish.

use super::{Cuda, Facts, Function, Kept, math};

pub(crate) struct Silu;

impl Function for Silu {
    const FACTS: Facts = Facts {
        kept: Kept::Sum,
        kink: false,
        cuda: Cuda {
            value: "return z * (1.0f / (1.0f + expf(-z)));",
            slope: "const float s = 1.0f / (1.0f + expf(-z)); return s * fmaf(z, 1.0f - s, 1.0f);",
            divides: true,
            value_instructions: 16,
            slope_instructions: 22,
        },
        #[cfg(test)]
        at_one: [-0.268_941_421_369_995_1, 0.731_058_578_630_004_9],
    };

    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        z * math::sigmoid::<FUSED>(z)
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(z: f32) -> f32 {
        let (s, rest) = math::sigmoids::<FUSED>(z);
        s * math::multiply_add::<FUSED>(z, rest, 1.0)
    }

    fn exact(z: f64) -> f64 {
        z * math::exact_sigmoid(z)
    }

    fn exact_slope(z: f64) -> f64 {
        math::exact_sigmoid(z) * (1.0 + z * (1.0 - math::exact_sigmoid(z)))
    }
}
