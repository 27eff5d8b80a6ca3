//! `z` times the normal distribution function at `z`.

use super::{Cuda, Facts, Function, Kept, math};

pub(crate) struct Gelu;

impl Function for Gelu {
    const FACTS: Facts = Facts {
        kept: Kept::Sum,
        kink: false,
        cuda: Cuda {
            value: "return z * normcdff(z);",
            slope: "return fmaf(z * 0.3989422804f, expf(-0.5f * z * z), normcdff(z));",
            divides: false,
            value_instructions: 50,
            slope_instructions: 70,
        },
        #[cfg(test)]
        at_one: [-0.158_655_253_931_457_05, 0.841_344_746_068_542_9],
    };

    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        z * math::normal::<FUSED>(z).1
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(z: f32) -> f32 {
        let (bell, normal) = math::normal::<FUSED>(z);
        math::multiply_add::<FUSED>(z * BELL_HEIGHT, bell, normal)
    }

    fn exact(z: f64) -> f64 {
        z * math::exact_normal(z)
    }

    fn exact_slope(z: f64) -> f64 {
        math::exact_normal(z) + z * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
    }
}

/// `1 / sqrt(2 pi)`.
const BELL_HEIGHT: f32 = 0.398_942_3;
