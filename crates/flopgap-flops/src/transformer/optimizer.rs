//! The step that changes the parameters.

use std::fmt;
use std::str::FromStr;

use crate::{ElementType, FlopError, Work, checked};

/// An optimizer; its step is element-wise over the parameters, so its arithmetic intensity is a
/// constant far below the ridge of any device. Factors that are the same for all parameters in a
/// step are not counted.
///
/// | optimizer | FLOPs per parameter | elements read | written |
/// |---|---|---|---|
/// | `sgd` | 2: `p -= lr g` | p, g | p |
/// | `sgd_momentum` | 4: `v = mu v + g`, `p -= lr v` | p, g, v | p, v |
/// | `adam` | 14: moments 3 and 4, bias corrections 2, `p -= lr mhat / (sqrt(vhat) + eps)` 5 | p, g, m, v | p, m, v |
/// | `adam_w` | 15: `p *= 1 - lr wd` before it | p, g, m, v | p, m, v |
///
/// ```
/// use flopgap_flops::ElementType;
/// use flopgap_flops::transformer::Optimizer;
///
/// let step = Optimizer::AdamW.step(124_439_808, ElementType::Fp32)?;
/// assert_eq!(step.flops, 15 * 124_439_808);
/// assert_eq!(format!("{:.4}", step.intensity()?.unwrap()), "0.5357");
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Optimizer {
    /// Stochastic gradient descent.
    Sgd,
    /// Stochastic gradient descent with momentum.
    SgdMomentum,
    /// Adam.
    Adam,
    /// Adam with decoupled weight decay.
    AdamW,
}

impl Optimizer {
    /// Every optimizer.
    pub const ALL: [Self; 4] = [Self::Sgd, Self::SgdMomentum, Self::Adam, Self::AdamW];

    /// The name used in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::SgdMomentum => "sgd_momentum",
            Self::Adam => "adam",
            Self::AdamW => "adam_w",
        }
    }

    /// FLOPs per parameter and step.
    pub const fn flops_per_parameter(self) -> u64 {
        match self {
            Self::Sgd => 2,
            Self::SgdMomentum => 4,
            Self::Adam => 14,
            Self::AdamW => 15,
        }
    }

    /// Values kept per parameter between steps.
    pub const fn state_per_parameter(self) -> u64 {
        match self {
            Self::Sgd => 0,
            Self::SgdMomentum => 1,
            Self::Adam | Self::AdamW => 2,
        }
    }

    /// One step over `parameters` parameters, with parameter, gradient and state all stored as
    /// `element`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn step(self, parameters: u64, element: ElementType) -> Result<Work, FlopError> {
        let flops = checked::product("optimizer FLOPs", &[self.flops_per_parameter(), parameters])?;
        let state = checked::product("optimizer state", &[self.state_per_parameter(), parameters])?;
        Work::of_elements(flops, &[parameters, parameters, state], &[parameters, state], element)
    }
}

impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Optimizer {
    type Err = FlopError;

    fn from_str(text: &str) -> Result<Self, FlopError> {
        checked::by_name("optimizer", text, &Self::ALL, Self::name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_traffic() {
        let bytes = [12, 20, 28, 28];
        for (optimizer, bytes) in Optimizer::ALL.into_iter().zip(bytes) {
            assert_eq!(optimizer.to_string().parse(), Ok(optimizer));
            assert_eq!(serde_json::to_string(&optimizer).unwrap(), format!("\"{optimizer}\""));
            let step = optimizer.step(1_000, ElementType::Fp32).unwrap();
            assert_eq!(step.bytes(), Ok(bytes * 1_000), "{optimizer}");
        }
        let error = Optimizer::Adam.step(1 << 61, ElementType::Fp32).unwrap_err();
        assert_eq!(error, FlopError::overflow("optimizer FLOPs"));
    }
}
