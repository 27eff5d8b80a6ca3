//! Operators by name: ONNX and `ATen` call most of them alike, but for case and underscores.

use flopgap_flops::Activation;

use crate::op::ElementwiseFunction::{self, Add, Compare, Div, Mul, Several, Simple, Transcendental};

/// Whether a name is one of a list, which spaces separate.
pub(crate) fn is_among(name: &str, list: &str) -> bool {
    list.split_whitespace().any(|one| one == name)
}

/// Comparisons, selections, clamps and the like.
const COMPARISONS: &str = "eq ne lt le gt ge equal notequal less lessorequal greater greaterorequal maximum minimum max \
    min fmax fmin where clamp clampmin clampmax clip logicaland logicalor logicalxor logicalnot \
    and or xor not bitwiseand bitwiseor bitwisexor bitwisenot bitshift lshift rshift maskedfill \
    isnan isinf isfinite isposinf isneginf relu6 hardtanh threshold thresholdedrelu sign sgn \
    signbit heaviside nantonum tril triu trilu isclose cummax cummin";

/// Functions of an instruction or few.
const SIMPLE: &str = "neg negative abs absolute sqrt rsqrt reciprocal floor ceil round trunc fix frac positive \
    copysign conjphysical deg2rad rad2deg";

/// Functions of a polynomial or table.
const TRANSCENDENTAL: &str = "exp exp2 expm1 log log2 log10 log1p pow power sin cos tan asin acos atan atan2 sinh cosh \
    asinh acosh atanh erf erfc erfinv lgamma digamma sinc xlogy logaddexp hypot logit i0";

/// The function of an element-wise operator, its name in lower case without underscores.
///
/// What takes several FLOPs an element takes those of its formula, one for each operation and call:
///
/// | operator | formula | FLOPs |
/// |---|---|---|
/// | hard sigmoid | `max(0, min(1, a x + b))` | 4 |
/// | hard swish | `x` times that | 5 |
/// | ELU, CELU, SELU | `x > 0 ? x : a (exp(x) - 1)` | 4, 5, 5 |
/// | softplus, log-sigmoid | `log(1 + exp(x))` | 3, 5 |
/// | mish | `x tanh(softplus(x))` | 9 |
/// | softsign | `x / (1 + abs(x))` | 3 |
/// | shrink | `x` less a bound, chosen by comparison | 3 |
/// | GLU | `a sigmoid(b)` | 5 |
/// | lerp | `a + w (b - a)` | 3 |
/// | `addcmul`, `addcdiv` | `x + v a b` | 3 |
/// | L2 distance of elements | `(a - b)^2` | 2 |
pub(crate) fn pointwise(name: &str) -> Option<ElementwiseFunction> {
    Some(match name {
        "relu" => ElementwiseFunction::Activation(Activation::Relu),
        "leakyrelu" | "prelu" | "rrelu" => ElementwiseFunction::Activation(Activation::LeakyRelu),
        "sigmoid" => ElementwiseFunction::Activation(Activation::Sigmoid),
        "tanh" => ElementwiseFunction::Activation(Activation::Tanh),
        "gelu" => ElementwiseFunction::Activation(Activation::Gelu),
        "fastgelu" => ElementwiseFunction::Activation(Activation::GeluTanh),
        "silu" | "swish" => ElementwiseFunction::Activation(Activation::Silu),
        "hardsigmoid" | "elu" => Several(4),
        "hardswish" | "celu" | "selu" | "logsigmoid" | "glu" => Several(5),
        "softplus" | "softsign" | "hardshrink" | "softshrink" | "shrink" | "lerp" | "addcmul" | "addcdiv" => {
            Several(3)
        }
        "tanhshrink" | "quickgelu" => Several(6),
        "mish" => Several(9),
        "squareddifference" => Several(2),
        "add" | "sub" | "rsub" | "sum" | "mean" | "subtract" | "cumsum" | "diff" => Add,
        "mul" | "multiply" | "square" | "cumprod" => Mul,
        "div" | "divide" | "truedivide" | "floordivide" | "remainder" | "fmod" | "mod" => Div,
        name if is_among(name, COMPARISONS) => Compare,
        name if is_among(name, SIMPLE) => Simple,
        name if is_among(name, TRANSCENDENTAL) => Transcendental,
        _ => return None,
    })
}

/// FLOPs for each element read by an operator that brings many elements together, by its name in
/// lower case without underscores.
///
/// A sum, mean, product, maximum, or test is 1. A sum of magnitudes is 2, of squares 2. A logarithm
/// of a sum is 2, of exponentials 4 with the maximum subtracted. A variance is 4: the sum for the
/// mean, the difference, its square and their sum.
pub(crate) fn reduction(name: &str) -> Option<u64> {
    Some(match name {
        "sum" | "mean" | "max" | "min" | "amax" | "amin" | "prod" | "argmax" | "argmin" | "any" | "all"
        | "nansum" | "nanmean" | "countnonzero" | "aminmax" | "reducesum" | "reducemean" | "reducemax"
        | "reducemin" | "reduceprod" => 1,
        "norm" | "linalgvectornorm" | "reducel1" | "reducel2" | "reducesumsquare" | "reducelogsum" => 2,
        "var" | "std" | "varmean" | "stdmean" | "logsumexp" | "reducelogsumexp" => 4,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_cost_what_their_formulas_say() {
        for (name, flops) in
            [("relu", 1), ("gelu", 5), ("silu", 5), ("hardswish", 5), ("mish", 9), ("add", 1), ("exp", 1)]
        {
            assert_eq!(pointwise(name).map(ElementwiseFunction::flops), Some(flops), "{name}");
        }
        assert_eq!(pointwise("conv"), None);
        assert_eq!((reduction("sum"), reduction("var"), reduction("sort")), (Some(1), Some(4), None));
    }
}
