//! The FLOPs that `torch.profiler` assigns to an operator (`with_flops=True`).
//!
//! `PyTorch` knows seven operators (`torch/csrc/profiler/util.cpp`) and assigns 0 to every other
//! one:
//!
//! | operator | FLOPs |
//! |---|---|
//! | `aten::mm(a, b)`, `aten::addmm(c, a, b)` | `2 m k n` for `a: m×k`, `b: k×n`; `alpha`, `beta` and the addition of `c` are free |
//! | `aten::bmm(a, b)`, `aten::baddbmm(c, a, b)` | `2 b m k n` for `a: b×m×k`, `b: b×k×n` |
//! | `aten::conv2d(x, w, …)` | `2 N Ho Wo Kh Kw C O / groups`, with the output's height and width from stride, padding and dilation |
//! | `aten::mul(a, …)`, `aten::add(a, …)` | the elements of `a`, even where the other operand is larger and `a` is broadcast |
//!
//! `aten::matmul`, `aten::linear` and their kind have none themselves: they call one of these.
//! Backward convolutions, activations, reductions and fused attention have none at all.

/// The operation of an operator that has a formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `mm`, `addmm`, `bmm`, `baddbmm`.
    MatMul,
    /// `conv2d`.
    Convolution,
    /// `mul`, `add`.
    Elementwise,
}

impl Kind {
    /// The kind of an operator; `None` for one without a formula.
    ///
    /// ```
    /// use flopgap_kineto::formula::Kind;
    /// assert_eq!(Kind::of("aten::addmm"), Some(Kind::MatMul));
    /// assert_eq!(Kind::of("aten::sigmoid"), None);
    /// ```
    pub fn of(operator: &str) -> Option<Kind> {
        Some(match operator {
            "aten::mm" | "aten::addmm" | "aten::bmm" | "aten::baddbmm" => Kind::MatMul,
            "aten::conv2d" => Kind::Convolution,
            "aten::mul" | "aten::add" => Kind::Elementwise,
            _ => return None,
        })
    }
}

/// Why an operator that has a formula has no FLOPs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormulaError {
    /// A shape is missing from the trace or is not that of a tensor.
    #[error("the shape of input {index} is not in the trace")]
    NoShape {
        /// The input, from 0.
        index: usize,
    },
    /// A tensor has a different number of dimensions than the operator takes.
    #[error("input {index} has {found} dimensions instead of {expected}")]
    Rank {
        /// The input, from 0.
        index: usize,
        /// Its dimensions.
        found: usize,
        /// What the operator takes.
        expected: usize,
    },
    /// Two shapes that cannot be multiplied.
    #[error("{left:?} and {right:?} cannot be multiplied")]
    Mismatch {
        /// The left shape.
        left: Vec<u64>,
        /// The right shape.
        right: Vec<u64>,
    },
    /// A convolution's stride, padding, dilation or groups are not in the trace (older versions
    /// leave them out) or not valid.
    #[error("its {what} is not in the trace or not valid")]
    Argument {
        /// Which.
        what: &'static str,
    },
    /// More than 2⁶⁴ − 1.
    #[error("its FLOPs are more than 2^64")]
    Overflow,
}

/// What an operator was called with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inputs<'a> {
    /// The shape of each input; `None` where it is not a single tensor with known sizes. Numbers
    /// and absent inputs have an empty one.
    pub shapes: &'a [Option<Vec<u64>>],
    /// The values of non-tensor inputs, as text; only convolutions need them. May be empty.
    pub concrete: &'a [String],
}

impl<'a> Inputs<'a> {
    fn shape(&self, index: usize, rank: usize) -> Result<&'a [u64], FormulaError> {
        let shape = self.any_shape(index)?;
        if shape.len() != rank {
            return Err(FormulaError::Rank { index, found: shape.len(), expected: rank });
        }
        Ok(shape)
    }

    fn any_shape(&self, index: usize) -> Result<&'a [u64], FormulaError> {
        self.shapes.get(index).and_then(Option::as_deref).ok_or(FormulaError::NoShape { index })
    }

    /// A pair such as `[1, 1]`.
    fn pair(&self, index: usize, what: &'static str) -> Result<[u64; 2], FormulaError> {
        let text = self.concrete.get(index).map(|text| text.trim());
        let numbers = text.and_then(|text| text.strip_prefix('[')?.strip_suffix(']')?.split_once(','));
        let pair = numbers.and_then(|(a, b)| Some([a.trim().parse().ok()?, b.trim().parse().ok()?]));
        pair.ok_or(FormulaError::Argument { what })
    }
}

/// The FLOPs that `PyTorch` assigns to one call; `None` for an operator without a formula.
///
/// ```
/// use flopgap_kineto::formula::{Inputs, flops};
///
/// let shapes = [Some(vec![1024, 1024]), Some(vec![1024, 128])];
/// let inputs = Inputs { shapes: &shapes, concrete: &[] };
/// assert_eq!(flops("aten::mm", inputs)?, Some(2 * 1024 * 1024 * 128));
/// assert_eq!(flops("aten::sigmoid", inputs)?, None);
/// # Ok::<(), flopgap_kineto::formula::FormulaError>(())
/// ```
///
/// # Errors
/// When the shapes that the formula needs are missing or contradict each other, where `PyTorch`
/// warns and counts 0; and when the product leaves `u64`, where `PyTorch` wraps around.
pub fn flops(operator: &str, inputs: Inputs<'_>) -> Result<Option<u64>, FormulaError> {
    match operator {
        "aten::mm" => matmul(inputs, 0, 2).map(Some),
        "aten::addmm" => matmul(inputs, 1, 2).map(Some),
        "aten::bmm" => matmul(inputs, 0, 3).map(Some),
        "aten::baddbmm" => matmul(inputs, 1, 3).map(Some),
        "aten::mul" | "aten::add" => product(inputs.any_shape(0)?.iter().copied()).map(Some),
        "aten::conv2d" => conv2d(inputs).map(Some),
        _ => Ok(None),
    }
}

/// Inputs `first` and `first + 1`, of `rank` dimensions.
fn matmul(inputs: Inputs<'_>, first: usize, rank: usize) -> Result<u64, FormulaError> {
    let (left, right) = (inputs.shape(first, rank)?, inputs.shape(first + 1, rank)?);
    if left[rank - 1] != right[rank - 2] || left[..rank - 2] != right[..rank - 2] {
        return Err(FormulaError::Mismatch { left: left.to_vec(), right: right.to_vec() });
    }
    product([2].into_iter().chain(left.iter().copied()).chain([right[rank - 1]]))
}

fn conv2d(inputs: Inputs<'_>) -> Result<u64, FormulaError> {
    let (input, weight) = (inputs.shape(0, 4)?, inputs.shape(1, 4)?);
    let stride = inputs.pair(3, "stride")?;
    let padding = inputs.pair(4, "padding")?;
    let dilation = inputs.pair(5, "dilation")?;
    let groups: u64 = inputs.concrete.get(6).and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    if groups == 0 {
        return Err(FormulaError::Argument { what: "number of groups" });
    }
    // (input + 2 padding − dilation (kernel − 1) − 1) / stride + 1
    let output = |axis: usize| -> Result<u64, FormulaError> {
        let reach = weight[axis + 2].checked_sub(1).and_then(|last| dilation[axis].checked_mul(last));
        let padded = padding[axis].checked_mul(2).and_then(|both| both.checked_add(input[axis + 2]));
        let room = padded.zip(reach).and_then(|(padded, reach)| padded.checked_sub(reach)?.checked_sub(1));
        let room = room.ok_or(FormulaError::Argument { what: "kernel, which is larger than its input," })?;
        Ok(room.checked_div(stride[axis]).ok_or(FormulaError::Argument { what: "stride" })? + 1)
    };
    let factors = [2, input[0], output(0)?, output(1)?, weight[2], weight[3], input[1], weight[0]];
    Ok(product(factors.into_iter())? / groups)
}

/// Exact; 0 when a factor is 0.
fn product(mut factors: impl Iterator<Item = u64> + Clone) -> Result<u64, FormulaError> {
    if factors.clone().any(|factor| factor == 0) {
        return Ok(0);
    }
    factors.try_fold(1_u64, u64::checked_mul).ok_or(FormulaError::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(operator: &str, shapes: &[&[u64]], concrete: &[&str]) -> Result<Option<u64>, FormulaError> {
        let shapes: Vec<_> = shapes.iter().map(|shape| Some(shape.to_vec())).collect();
        let concrete: Vec<_> = concrete.iter().map(|text| (*text).to_owned()).collect();
        flops(operator, Inputs { shapes: &shapes, concrete: &concrete })
    }

    #[test]
    fn products_of_matrices() {
        assert_eq!(of("aten::mm", &[&[3, 5], &[5, 7]], &[]), Ok(Some(210)));
        // The bias and its addition are free.
        assert_eq!(of("aten::addmm", &[&[7], &[3, 5], &[5, 7]], &[]), Ok(Some(210)));
        assert_eq!(of("aten::bmm", &[&[4, 3, 5], &[4, 5, 7]], &[]), Ok(Some(840)));
        assert_eq!(of("aten::baddbmm", &[&[4, 3, 7], &[4, 3, 5], &[4, 5, 7]], &[]), Ok(Some(840)));
        assert_eq!(of("aten::mm", &[&[0, u64::MAX], &[u64::MAX, 7]], &[]), Ok(Some(0)));
    }

    #[test]
    fn elementwise_operators_count_their_first_input() {
        assert_eq!(of("aten::mul", &[&[3, 1], &[3, 9]], &[]), Ok(Some(3)));
        assert_eq!(of("aten::add", &[&[], &[]], &[]), Ok(Some(1)));
        assert_eq!(of("aten::mul_", &[&[3], &[3]], &[]), Ok(None));
    }

    #[test]
    fn convolutions() {
        // ResNet's first layer: 112×112 outputs.
        let shapes: [&[u64]; 7] = [&[8, 3, 224, 224], &[64, 3, 7, 7], &[], &[], &[], &[], &[]];
        let concrete = ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "1"];
        let expected = 2 * 8 * 112 * 112 * 49 * 3 * 64;
        assert_eq!(of("aten::conv2d", &shapes, &concrete), Ok(Some(expected)));
        // A depthwise one with dilation: 8 + 2·2 − 2·2 − 1 + 1 = 8 outputs an axis.
        let shapes: [&[u64]; 7] = [&[1, 16, 8, 8], &[16, 1, 3, 3], &[], &[], &[], &[], &[]];
        let concrete = ["", "", "", "[1, 1]", "[2, 2]", "[2, 2]", "16"];
        assert_eq!(of("aten::conv2d", &shapes, &concrete), Ok(Some(2 * 64 * 9 * 16)));
    }

    #[test]
    fn what_a_formula_lacks_is_said() {
        let error = |operator: &str, shapes: &[&[u64]], concrete: &[&str]| {
            of(operator, shapes, concrete).unwrap_err().to_string()
        };
        assert_eq!(error("aten::mm", &[&[3, 5]], &[]), "the shape of input 1 is not in the trace");
        assert_eq!(error("aten::mm", &[&[3, 5], &[5]], &[]), "input 1 has 1 dimensions instead of 2");
        assert_eq!(error("aten::mm", &[&[3, 5], &[6, 7]], &[]), "[3, 5] and [6, 7] cannot be multiplied");
        assert_eq!(
            error("aten::mm", &[&[1 << 40, 1 << 40], &[1 << 40, 1]], &[]),
            "its FLOPs are more than 2^64"
        );
        let shapes: [&[u64]; 2] = [&[1, 1, 8, 8], &[1, 1, 9, 9]];
        assert_eq!(error("aten::conv2d", &shapes, &[]), "its stride is not in the trace or not valid");
        let concrete = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"];
        assert!(error("aten::conv2d", &shapes, &concrete).starts_with("its kernel, which is larger"));
        let concrete = ["", "", "", "[0, 1]", "[1, 1]", "[1, 1]", "1"];
        assert!(error("aten::conv2d", &shapes, &concrete).starts_with("its stride"));
    }

    proptest! {
        #[test]
        fn a_batch_of_products_is_that_many_products(b in 0u64..50, m in 0u64..5000, k in 0u64..5000, n in 0u64..5000) {
            let one = of("aten::mm", &[&[m, k], &[k, n]], &[]).unwrap().unwrap();
            prop_assert_eq!(one, 2 * m * k * n);
            prop_assert_eq!(of("aten::bmm", &[&[b, m, k], &[b, k, n]], &[]), Ok(Some(b * one)));
        }

        #[test]
        fn a_convolution_of_one_pixel_is_a_product(batch in 1u64..9, c in 1u64..99, o in 1u64..99, h in 1u64..50, w in 1u64..50) {
            let concrete = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"];
            let conv = of("aten::conv2d", &[&[batch, c, h, w], &[o, c, 1, 1]], &concrete);
            prop_assert_eq!(conv, of("aten::mm", &[&[batch * h * w, c], &[c, o]], &[]));
        }

        #[test]
        fn no_shapes_panic(operator in "aten::(mm|addmm|bmm|baddbmm|mul|add|conv2d)",
                           shapes in proptest::collection::vec(proptest::option::of(proptest::collection::vec(0u64.., 0..6)), 0..8),
                           concrete in proptest::collection::vec("[\\[\\]0-9, ]{0,12}", 0..8)) {
            let _ = flops(&operator, Inputs { shapes: &shapes, concrete: &concrete });
        }
    }
}
