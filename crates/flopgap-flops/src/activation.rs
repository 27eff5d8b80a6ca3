//! Activation functions and their cost.

use std::fmt;
use std::str::FromStr;

use crate::{FlopError, checked};

/// An element-wise non-linearity. In text and JSON: `identity`, `relu`, `leaky_relu`, `sigmoid`,
/// `tanh`, `gelu`, `gelu_tanh`, `silu`.
///
/// The list is meant to be matched as a whole, and is not `non_exhaustive`: a program that computes
/// activations must not compile before it knows a new one, which a catch-all would turn into
/// another function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Activation {
    /// `x`: no work under any convention.
    Identity,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, a x)` with a slope `0 < a < 1`.
    LeakyRelu,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `(exp(2x) - 1) / (exp(2x) + 1)`.
    Tanh,
    /// `x/2 (1 + erf(x / sqrt 2))`.
    Gelu,
    /// `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
    GeluTanh,
    /// `x sigmoid(x)`, also called swish.
    Silu,
}

impl Activation {
    /// Every activation.
    pub const ALL: [Self; 8] = [
        Self::Identity,
        Self::Relu,
        Self::LeakyRelu,
        Self::Sigmoid,
        Self::Tanh,
        Self::Gelu,
        Self::GeluTanh,
        Self::Silu,
    ];

    /// Its place in [`Activation::ALL`].
    ///
    /// ```
    /// use flopgap_flops::Activation;
    ///
    /// assert!(Activation::ALL.into_iter().enumerate().all(|(index, activation)| activation.index() == index));
    /// ```
    pub const fn index(self) -> usize {
        match self {
            Self::Identity => 0,
            Self::Relu => 1,
            Self::LeakyRelu => 2,
            Self::Sigmoid => 3,
            Self::Tanh => 4,
            Self::Gelu => 5,
            Self::GeluTanh => 6,
            Self::Silu => 7,
        }
    }

    /// The name used in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Relu => "relu",
            Self::LeakyRelu => "leaky_relu",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::Silu => "silu",
        }
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Activation {
    type Err = FlopError;

    fn from_str(text: &str) -> Result<Self, FlopError> {
        checked::by_name("activation", text, &Self::ALL, Self::name)
    }
}

/// FLOPs per element of an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ActivationCost {
    /// The function.
    pub forward: u64,
    /// Its derivative, from the tensor that the forward pass saved. The multiplication with the
    /// incoming gradient is counted separately.
    pub derivative: u64,
}

/// The cost model of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ActivationCosts {
    /// The same for every activation but the identity, which is free.
    Uniform(ActivationCost),
    /// The operations of the textbook formula, one for each addition, multiplication, division,
    /// comparison, negation and call of `exp` or `erf`:
    ///
    /// | activation | forward | derivative | derivative computed as |
    /// |---|---|---|---|
    /// | identity | 0 | 0 | |
    /// | relu | 1 | 1 | `a > 0` |
    /// | `leaky_relu` | 2 | 1 | `a > 0` selects 1 or the slope |
    /// | sigmoid | 4 | 2 | `a (1 - a)` |
    /// | tanh | 5 | 2 | `1 - a a` |
    /// | gelu | 5 | 10 | `Phi(x) + x phi(x)`: 4 for `Phi`, 4 for `phi`, 2 to combine |
    /// | `gelu_tanh` | 13 | 22 | 10 for the tanh again, 12 for the product rule |
    /// | silu | 5 | 8 | `s (1 + x (1 - s))`, 4 of them for the sigmoid again |
    ///
    /// Here `a` is the saved output and `x` the saved input.
    Arithmetic,
}

impl ActivationCosts {
    /// Cost per element of one activation.
    pub const fn of(self, activation: Activation) -> ActivationCost {
        let (forward, derivative) = match (activation, self) {
            (Activation::Identity, _) => (0, 0),
            (_, Self::Uniform(cost)) => return cost,
            (Activation::Relu, Self::Arithmetic) => (1, 1),
            (Activation::LeakyRelu, Self::Arithmetic) => (2, 1),
            (Activation::Sigmoid, Self::Arithmetic) => (4, 2),
            (Activation::Tanh, Self::Arithmetic) => (5, 2),
            (Activation::Gelu, Self::Arithmetic) => (5, 10),
            (Activation::GeluTanh, Self::Arithmetic) => (13, 22),
            (Activation::Silu, Self::Arithmetic) => (5, 8),
        };
        ActivationCost { forward, derivative }
    }
}

/// The gradient that enters the last layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum LossGradient {
    /// One constant for all elements, as behind a sum or mean: it is neither read nor multiplied
    /// with.
    Constant,
    /// A tensor of the shape of the output.
    Tensor,
}

/// Choices in counting that mathematics leaves open.
///
/// No convention is right for hardware: PyTorch's sigmoid executes about 16 counted FLOPs per
/// element forward and 3 backward (kappa 15.0 and 0.58 at `N=10 D=1024 M=128`), and a `ReLU` none,
/// because a maximum is not a counted operation. Theory needs one fixed convention, and the
/// measured difference is kappa.
///
/// Fixed in all conventions: a fused multiply-add is 2; a reduction of `n` values is `n` additions,
/// as in a dot product; adding a bias is 1 per output element; multiplying with the incoming
/// gradient is 1 per element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Convention {
    /// The cost model of activations.
    pub activations: ActivationCosts,
    /// The gradient that enters the backward pass.
    pub loss_gradient: LossGradient,
}

impl Convention {
    /// The convention of [`SquareMlp`](crate::SquareMlp): an activation and its derivative cost 1
    /// each, and the gradient of the loss is a constant. An [`Mlp`](crate::Mlp) counted this way
    /// agrees with it exactly.
    pub const SQUARE: Self = Self {
        activations: ActivationCosts::Uniform(ActivationCost { forward: 1, derivative: 1 }),
        loss_gradient: LossGradient::Constant,
    };

    /// Textbook operation counts and a tensor as loss gradient: for networks inside larger ones.
    pub const ARITHMETIC: Self =
        Self { activations: ActivationCosts::Arithmetic, loss_gradient: LossGradient::Tensor };

    /// FLOPs per element of an activation's backward: the derivative, and the product with the
    /// incoming gradient unless that is a constant. The identity passes the gradient through.
    pub(crate) fn backward_cost(
        &self,
        activation: Activation,
        incoming: LossGradient,
    ) -> Result<u64, FlopError> {
        let product = match (activation, incoming) {
            (Activation::Identity, _) | (_, LossGradient::Constant) => 0,
            (_, LossGradient::Tensor) => 1,
        };
        checked::sum("activation cost", &[self.activations.of(activation).derivative, product])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_json() {
        for activation in Activation::ALL {
            assert_eq!(activation.to_string().parse(), Ok(activation));
            assert_eq!(serde_json::to_string(&activation).unwrap(), format!("\"{activation}\""));
        }
        let error = "swish".parse::<Activation>().unwrap_err().to_string();
        assert!(error.starts_with("unknown activation `swish`; expected one of: identity, relu"), "{error}");
    }

    #[test]
    fn the_identity_is_free_and_passes_gradients_through() {
        for convention in [Convention::SQUARE, Convention::ARITHMETIC] {
            let cost = convention.activations.of(Activation::Identity);
            assert_eq!(cost, ActivationCost { forward: 0, derivative: 0 });
            assert_eq!(convention.backward_cost(Activation::Identity, LossGradient::Tensor), Ok(0));
        }
    }

    #[test]
    fn the_square_convention_is_two_inside_and_one_at_the_loss() {
        let cost = |incoming| Convention::SQUARE.backward_cost(Activation::Sigmoid, incoming);
        assert_eq!((cost(LossGradient::Tensor), cost(LossGradient::Constant)), (Ok(2), Ok(1)));
        assert_eq!(Convention::ARITHMETIC.backward_cost(Activation::GeluTanh, LossGradient::Tensor), Ok(23));
    }

    #[test]
    fn conventions_survive_json() {
        for convention in [Convention::SQUARE, Convention::ARITHMETIC] {
            let json = serde_json::to_string(&convention).unwrap();
            assert_eq!(serde_json::from_str::<Convention>(&json).unwrap(), convention);
        }
    }
}
