//! What kernels and plans must know of each activation, in one place.
//!
//! Every function here matches all of them, so that a new activation does not compile until it is known everywhere; in CUDA C, where
//! `static_assert` says so.

use std::fmt::Write as _;

use flopgap_flops::Activation;

/// The slope of [`Activation::LeakyRelu`] below 0.
pub const LEAKY_SLOPE: f32 = 0.01;

/// Whether the slope follows from the output, so that a training pass need not keep the sum before the activation.
pub(crate) fn slope_from_output(activation: Activation) -> bool {
    match activation {
        Activation::Identity
        | Activation::Relu
        | Activation::LeakyRelu
        | Activation::Sigmoid
        | Activation::Tanh => true,
        Activation::Gelu | Activation::GeluTanh | Activation::Silu => false,
    }
}

/// Whether the slope jumps where the sum is 0.
pub(crate) fn has_kink(activation: Activation) -> bool {
    match activation {
        Activation::Relu | Activation::LeakyRelu => true,
        Activation::Identity
        | Activation::Sigmoid
        | Activation::Tanh
        | Activation::Gelu
        | Activation::GeluTanh
        | Activation::Silu => false,
    }
}

/// Whether it is made of straight lines: a comparison and a product at most, for which registers are always left.
pub(crate) fn is_piecewise_linear(activation: Activation) -> bool {
    activation == Activation::Identity || has_kink(activation)
}

/// The name in CUDA C: `GELU_TANH`.
pub(crate) fn cuda_name(activation: Activation) -> String {
    activation.name().to_uppercase()
}

/// CUDA C: a number for each activation, and [`slope_from_output`].
pub(crate) fn cuda_definitions() -> String {
    let mut text = String::from("enum {");
    for activation in Activation::ALL {
        let _ = write!(text, " {} = {},", cuda_name(activation), activation.index());
    }
    text.push_str(
        " };\ntemplate <int ACTIVATION>\n__device__ constexpr bool slope_from_output() {\n    return ",
    );
    let of_output = Activation::ALL.into_iter().filter(|activation| slope_from_output(*activation));
    let tests: Vec<String> =
        of_output.map(|activation| format!("ACTIVATION == {}", cuda_name(activation))).collect();
    let _ = writeln!(text, "{};\n}}", tests.join(" || "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::reference::{activate, slope};

    /// Where the output says the slope, equal outputs have equal slopes; where it does not, some do not.
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
        assert!(text.contains("ACTIVATION == SIGMOID || ACTIVATION == TANH;"), "{text}");
    }
}
