//! `1 / (1 + exp(-z))`.

use super::{Cuda, Facts, Function, Kept, math};

pub(crate) struct Sigmoid;

impl Function for Sigmoid {
    const FACTS: Facts = Facts {
        kept: Kept::Output,
        kink: false,
        cuda: Cuda {
            value: "return 1.0f / (1.0f + expf(-z));",
            slope: "return a * (1.0f - a);",
            divides: true,
            value_instructions: 16,
            slope_instructions: 3,
        },
        #[cfg(test)]
        at_one: [0.268_941_421_369_995_1, 0.731_058_578_630_004_9],
    };

    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        math::sigmoid::<FUSED>(z)
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(a: f32) -> f32 {
        a * (1.0 - a)
    }

    fn exact(z: f64) -> f64 {
        math::exact_sigmoid(z)
    }

    fn exact_slope(z: f64) -> f64 {
        math::exact_sigmoid(z) * (1.0 - math::exact_sigmoid(z))
    }
}
