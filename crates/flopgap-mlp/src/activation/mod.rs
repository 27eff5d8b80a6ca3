//! Activations: all that kernels, plans and references must know of them.
//!
//! To add one: a variant of [`Activation`], its row in [`facts`], and its functions.

#![expect(
    clippy::inline_always,
    reason = "what is not inlined into a function with AVX2 is compiled without it"
)]

mod functions;
mod math;

use std::fmt::Write as _;

use flopgap_flops::Activation;

pub(crate) use functions::{exact, exact_curvature, exact_slope, slope, value};

/// The slope of [`Activation::LeakyRelu`] below 0.
pub const LEAKY_SLOPE: f32 = 0.01;

/// What plans must know of an activation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) kept: Kept,
    /// Whether the slope jumps where the sum is 0.
    pub(crate) kink: bool,
    pub(crate) cuda: Cuda,
}

/// What a training pass keeps for the slope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The output, which the next layer needs anyway.
    Output,
    /// The sum before the activation.
    Sum,
}

/// An activation in CUDA C, in 32 bits, and what it costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cuda {
    /// The body of a function of the sum `z`.
    pub(crate) value: &'static str,
    /// The body of its slope, a function of the output `a` or of the sum `z`, whichever is kept.
    pub(crate) slope: &'static str,
    /// The body of its second derivative, a function of the sum `z`.
    pub(crate) curvature: &'static str,
    /// Whether the value takes a division.
    pub(crate) divides: bool,
    /// Instructions of the value, more or less.
    pub(crate) value_instructions: usize,
    /// Instructions of the slope, more or less.
    pub(crate) slope_instructions: usize,
}

/// What plans must know of an activation.
pub(crate) fn facts(activation: Activation) -> Facts {
    use Kept::{Output, Sum};
    const NONE: &str = "return 0.0f;";
    let row =
        |kept, kink, divides, instructions: [usize; 2], [value, slope, curvature]: [&'static str; 3]| {
            let [value_instructions, slope_instructions] = instructions;
            let cuda = Cuda { value, slope, curvature, divides, value_instructions, slope_instructions };
            Facts { kept, kink, cuda }
        };
    match activation {
        Activation::Identity => row(Output, false, false, [0, 0], ["return z;", "return 1.0f;", NONE]),
        Activation::Relu => row(
            Output,
            true,
            false,
            [1, 3],
            ["return fmaxf(z, 0.0f);", "return a > 0.0f ? 1.0f : 0.0f;", NONE],
        ),
        Activation::LeakyRelu => row(
            Output,
            true,
            false,
            [2, 3],
            ["return fmaxf(z, LEAKY_SLOPE * z);", "return a > 0.0f ? 1.0f : LEAKY_SLOPE;", NONE],
        ),
        Activation::Sigmoid => row(
            Output,
            false,
            true,
            [16, 3],
            [
                "return 1.0f / (1.0f + expf(-z));",
                "return a * (1.0f - a);",
                "const float s = value(z); return s * (1.0f - s) * (1.0f - 2.0f * s);",
            ],
        ),
        Activation::Tanh => row(
            Output,
            false,
            false,
            [20, 3],
            [
                "return tanhf(z);",
                "return fmaf(-a, a, 1.0f);",
                "const float t = tanhf(z); return -2.0f * t * fmaf(-t, t, 1.0f);",
            ],
        ),
        Activation::Gelu => row(
            Sum,
            false,
            false,
            [50, 70],
            [
                "return z * normcdff(z);",
                "return fmaf(z * 0.3989422804f, expf(-0.5f * z * z), normcdff(z));",
                "return fmaf(-z, z, 2.0f) * 0.3989422804f * expf(-0.5f * z * z);",
            ],
        ),
        Activation::GeluTanh => row(
            Sum,
            false,
            false,
            [28, 36],
            [
                "return 0.5f * z * (1.0f + tanhf(0.7978845608f * fmaf(0.044715f * z * z, z, z)));",
                "const float t = tanhf(0.7978845608f * fmaf(0.044715f * z * z, z, z)); \
                 return 0.5f * (1.0f + t) \
                 + 0.5f * z * fmaf(-t, t, 1.0f) * 0.7978845608f * fmaf(0.134145f * z, z, 1.0f);",
                "const float t = tanhf(0.7978845608f * fmaf(0.044715f * z * z, z, z)), \
                 inner = 0.7978845608f * fmaf(0.134145f * z, z, 1.0f); \
                 return fmaf(-t, t, 1.0f) * fmaf(z, fmaf(-t * inner, inner, 0.1070322243f * z), inner);",
            ],
        ),
        Activation::Silu => row(
            Sum,
            false,
            true,
            [16, 22],
            [
                "return z * (1.0f / (1.0f + expf(-z)));",
                "const float s = 1.0f / (1.0f + expf(-z)); return s * fmaf(z, 1.0f - s, 1.0f);",
                "const float s = 1.0f / (1.0f + expf(-z)); \
                 return s * (1.0f - s) * fmaf(z, 1.0f - 2.0f * s, 2.0f);",
            ],
        ),
    }
}

/// Whether the slope follows from the output, so that a training pass need not keep the sum before
/// the activation.
pub(crate) fn slope_from_output(activation: Activation) -> bool {
    facts(activation).kept == Kept::Output
}

/// Whether the slope jumps where the sum is 0.
pub(crate) fn has_kink(activation: Activation) -> bool {
    facts(activation).kink
}

/// Whether it is made of straight lines: a comparison and a product at most, for which registers
/// are always left.
pub(crate) fn is_piecewise_linear(activation: Activation) -> bool {
    activation == Activation::Identity || has_kink(activation)
}

/// The name in CUDA C: `GELU_TANH`.
pub(crate) fn cuda_name(activation: Activation) -> String {
    activation.name().to_uppercase()
}

/// CUDA C: a number for each activation, and an `Activation<number>` with its functions.
pub(crate) fn cuda_definitions() -> String {
    let mut text = String::from("enum {");
    for activation in Activation::ALL {
        let _ = write!(text, " {} = {},", cuda_name(activation), activation.index());
    }
    text.push_str(" };\ntemplate <int ACTIVATION> struct Activation;\n");
    for activation in Activation::ALL {
        let (name, Facts { kept, cuda, .. }) = (cuda_name(activation), facts(activation));
        let (from_output, argument) = if kept == Kept::Output { (true, "a") } else { (false, "z") };
        let _ = write!(
            text,
            "template <> struct Activation<{name}> {{\n\
             static constexpr bool SLOPE_FROM_OUTPUT = {from_output};\n\
             static __device__ __forceinline__ float value(float z) {{ {} }}\n\
             static __device__ __forceinline__ float slope(float {argument}) {{ {} }}\n\
             static __device__ __forceinline__ float curvature(float z) {{ {} }}\n}};\n",
            cuda.value, cuda.slope, cuda.curvature
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{activate, slope};

    /// Where the output says the slope, equal outputs have equal slopes; where it does not, some do
    /// not.
    #[test]
    fn slopes_follow_from_outputs_where_it_says_so() {
        let places: Vec<f64> = (-4_000..4_000).map(|i| f64::from(i) / 1_000.0).collect();
        for activation in Activation::ALL {
            let mut points: Vec<(f64, f64)> =
                places.iter().map(|&z| (activate(activation, z), slope(activation, z))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let jumps = points
                .windows(2)
                .any(|pair| (pair[1].0 - pair[0].0).abs() < 1e-5 && (pair[1].1 - pair[0].1).abs() > 0.05);
            assert_eq!(jumps, !slope_from_output(activation), "{activation}");
        }
    }

    #[test]
    fn kinks_are_where_the_slope_jumps() {
        for activation in Activation::ALL {
            let jump = (slope(activation, 1e-9) - slope(activation, -1e-9)).abs();
            assert_eq!(jump > 0.5, has_kink(activation), "{activation}");
            let bend = (slope(activation, 0.5) - slope(activation, 1.0)).abs();
            assert_eq!(bend < 1e-12, is_piecewise_linear(activation), "{activation}");
        }
    }

    #[test]
    fn cuda_has_a_number_for_each() {
        let text = cuda_definitions();
        assert!(text.starts_with("enum { IDENTITY = 0, RELU = 1,"), "{text}");
        assert!(text.contains(" GELU_TANH = 6, SILU = 7, };"), "{text}");
        assert_eq!(text.matches("SLOPE_FROM_OUTPUT = true").count(), 5, "{text}");
        assert!(text.contains("float slope(float a) { return a * (1.0f - a); }"), "{text}");
    }
}
