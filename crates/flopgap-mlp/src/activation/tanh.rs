//! The hyperbolic tangent of z.

use super::{Cuda, Facts, Function, Kept, math};

pub(crate) struct Tanh;

impl Function for Tanh {
    const FACTS: Facts = Facts {
        kept: Kept::Output,
        kink: false,
        cuda: Cuda {
            value: "return tanhf(z);",
            slope: "return fmaf(-a, a, 1.0f);",
            divides: false,
            value_instructions: 20,
            slope_instructions: 3,
        },
        #[cfg(test)]
        at_one: [-0.761_594_155_955_764_9, 0.761_594_155_955_764_9],
    };

    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        math::tanh::<FUSED>(z)
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(a: f32) -> f32 {
        math::multiply_add::<FUSED>(-a, a, 1.0)
    }

    fn exact(z: f64) -> f64 {
        z.tanh()
    }

    fn exact_slope(z: f64) -> f64 {
        1.0 - z.tanh() * z.tanh()
    }
}
