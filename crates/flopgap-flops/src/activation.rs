//! Activation functions and their cost.

use std::str::FromStr;

use strum::{EnumCount as _, VariantArray as _};

use crate::{FlopError, checked};

/// An element-wise non-linearity. In text and JSON: `identity`, `relu`, `leaky_relu`, `sigmoid`,
/// `tanh`, `gelu`, `gelu_tanh`, `silu`.
///
/// The list is meant to be matched as a whole, and is not `non_exhaustive`: a program that computes
/// activations must not compile before it knows a new one, which a catch-all would turn into
/// another function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, strum::IntoStaticStr, strum::EnumCount, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
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
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().expect("all variants");

    /// Its place in [`Activation::ALL`].
    ///
    /// ```
    /// use flopgap_flops::Activation;
    ///
    /// assert!(Activation::ALL.into_iter().enumerate().all(|(index, activation)| activation.index() == index));
    /// ```
    pub const fn index(self) -> usize {
        self as usize
    }

    /// FLOPs per element: the operations of the textbook formula, one for each addition,
    /// multiplication, division, comparison, negation and call of `exp` or `erf`.
    ///
    /// A GPU executes other numbers: PyTorch's sigmoid about 16 counted FLOPs an element, and its
    /// `ReLU` none, because a maximum is not a counted operation.
    ///
    /// | activation | FLOPs |
    /// |---|---|
    /// | identity | 0 |
    /// | relu | 1 |
    /// | `leaky_relu` | 2 |
    /// | sigmoid | 4 |
    /// | tanh | 5 |
    /// | gelu | 5: `x/2`, `x/sqrt 2`, `erf`, `1 +`, product |
    /// | `gelu_tanh` | 13: 5 for the polynomial, 5 for the tanh, `1 +`, `x/2`, product |
    /// | silu | 5: the sigmoid and a product |
    pub const fn flops(self) -> u64 {
        match self {
            Self::Identity => 0,
            Self::Relu => 1,
            Self::LeakyRelu => 2,
            Self::Sigmoid => 4,
            Self::Tanh | Self::Gelu | Self::Silu => 5,
            Self::GeluTanh => 13,
        }
    }

    /// The name used in text and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl FromStr for Activation {
    type Err = FlopError;

    fn from_str(text: &str) -> Result<Self, FlopError> {
        checked::by_name("activation", text, &Self::ALL, Self::name)
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
}
