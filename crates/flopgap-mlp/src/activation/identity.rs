//! `z`: no activation.

use super::{Cuda, Facts, Function, Kept};

pub(crate) struct Identity;

impl Function for Identity {
    const FACTS: Facts = Facts {
        kept: Kept::Output,
        kink: false,
        cuda: Cuda {
            value: "return z;",
            slope: "return 1.0f;",
            divides: false,
            value_instructions: 0,
            slope_instructions: 0,
        },
        #[cfg(test)]
        at_one: [-1.0, 1.0],
    };

    #[inline(always)]
    fn value<const FUSED: bool>(z: f32) -> f32 {
        z
    }

    #[inline(always)]
    fn slope<const FUSED: bool>(_a: f32) -> f32 {
        1.0
    }

    fn exact(z: f64) -> f64 {
        z
    }

    fn exact_slope(_z: f64) -> f64 {
        1.0
    }
}
