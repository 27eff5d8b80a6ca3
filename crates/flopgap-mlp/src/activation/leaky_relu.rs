//! `max(z, LEAKY_SLOPE z)`.

use super::{Cuda, Facts, Function, Kept, LEAKY_SLOPE};

pub(crate) struct LeakyRelu;

impl Function for LeakyRelu {
    const FACTS: Facts = Facts {
        kept: Kept::Output,
        kink: true,
        cuda: Cuda {
            value: "return fmaxf(z, LEAKY_SLOPE * z);",
            slope: "return a > 0.0f ? 1.0f : LEAKY_SLOPE;",
            divides: false,
            value_instructions: 2,
            slope_instructions: 3,
        },
        #[cfg(test)]
        at_one: [-0.01, 1.0],
    };

    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        if z > 0.0 { z } else { LEAKY_SLOPE * z }
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(a: f32) -> f32 {
        if a > 0.0 { 1.0 } else { LEAKY_SLOPE }
    }

    fn exact(z: f64) -> f64 {
        if z > 0.0 { z } else { f64::from(LEAKY_SLOPE) * z }
    }

    fn exact_slope(z: f64) -> f64 {
        if z > 0.0 { 1.0 } else { f64::from(LEAKY_SLOPE) }
    }
}
