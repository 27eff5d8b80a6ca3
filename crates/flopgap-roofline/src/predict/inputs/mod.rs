//! What a prediction depends on: the machine, a step, its kernels, what was measured, and the
//! features of all that.

pub(crate) mod cores;
pub(crate) mod features;
pub(crate) mod kernel;
pub(crate) mod kernel_names;
pub(crate) mod kind;
pub(crate) mod machine;
pub(crate) mod measured;
pub(crate) mod point;
pub(crate) mod range;
pub(crate) mod regime;
pub(crate) mod shape;
pub(crate) mod whole;

/// The natural logarithm of a value, and of a thousandth for what is smaller: features may be 0.
pub(crate) fn ln(value: f64) -> f64 {
    value.max(1e-3).ln()
}
