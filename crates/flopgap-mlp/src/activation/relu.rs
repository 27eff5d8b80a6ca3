//! `max(z, 0)`.

use super::{Cuda, Facts, Function, Kept};

pub(crate) struct Relu;

impl Function for Relu {
    const FACTS: Facts = Facts {
        kept: Kept::Output,
        kink: true,
        cuda: Cuda {
            value: "return fmaxf(z, 0.0f);",
            slope: "return a > 0.0f ? 1.0f : 0.0f;",
            divides: false,
            value_instructions: 1,
            slope_instructions: 3,
        },
        #[cfg(test)]
        at_one: [0.0, 1.0],
    };

    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        if z > 0.0 { z } else { 0.0 }
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(a: f32) -> f32 {
        if a > 0.0 { 1.0 } else { 0.0 }
    }

    fn exact(z: f64) -> f64 {
        z.max(0.0)
    }

    fn exact_slope(z: f64) -> f64 {
        f64::from(u8::from(z > 0.0))
    }
}
