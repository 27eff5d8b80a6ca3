//! Normalization over the features of a token.

use crate::{ElementType, FlopError, Work, checked};

/// Which normalization. In text and JSON: `layer_norm`, `rms_norm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Norm {
    /// `(x - mean) / deviation * gain + shift`.
    LayerNorm,
    /// `x / rms * gain`.
    RmsNorm,
}

impl Norm {
    /// Gains, and shifts for layer norm.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn parameters(self, width: u64) -> Result<u64, FlopError> {
        let vectors = match self {
            Self::LayerNorm => 2,
            Self::RmsNorm => 1,
        };
        checked::product("norm parameters", &[vectors, width])
    }

    /// Layer norm: 7 FLOPs per element (sum for the mean; subtract it; square and sum; scale; gain;
    /// shift). RMS norm: 4 (square and sum; scale; gain). Reads the input and the parameters,
    /// writes the output.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn forward(self, tokens: u64, width: u64, element: ElementType) -> Result<Work, FlopError> {
        let each = match self {
            Self::LayerNorm => 7,
            Self::RmsNorm => 4,
        };
        let elements = checked::product("norm elements", &[tokens, width])?;
        let flops = checked::product("norm FLOPs", &[each, elements])?;
        Work::of_elements(flops, &[elements, self.parameters(width)?], &[elements], element)
    }

    /// Layer norm: 13 FLOPs per element. Normalize again 2, gradient of the gain 2 and of the shift
    /// 1, `g = dy * gain` 1, the row sums of `g` and of `g * xhat` 3, `rstd * (g - mean(g) - xhat *
    /// mean(g xhat))` 4. RMS norm: 9, the same without mean and shift: 1, 2, 1, 2, 3. Reads `dy`,
    /// `x` and the gain, writes `dx` and the parameter gradients; the saved row statistics are not
    /// counted.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn backward(self, tokens: u64, width: u64, element: ElementType) -> Result<Work, FlopError> {
        let each = match self {
            Self::LayerNorm => 13,
            Self::RmsNorm => 9,
        };
        let elements = checked::product("norm elements", &[tokens, width])?;
        let flops = checked::product("norm gradient FLOPs", &[each, elements])?;
        Work::of_elements(flops, &[elements, elements, width], &[elements, self.parameters(width)?], element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let e = ElementType::Fp32;
        let work = |flops, read: u64, written: u64| {
            Ok(Work { flops, bytes_read: 4 * read, bytes_written: 4 * written })
        };
        assert_eq!(Norm::LayerNorm.forward(3, 10, e), work(210, 30 + 20, 30));
        assert_eq!(Norm::RmsNorm.forward(3, 10, e), work(120, 30 + 10, 30));
        assert_eq!(Norm::LayerNorm.backward(3, 10, e), work(390, 30 + 30 + 10, 30 + 20));
        assert_eq!(Norm::RmsNorm.backward(3, 10, e), work(270, 30 + 30 + 10, 30 + 10));
        assert_eq!(Norm::RmsNorm.forward(u64::MAX, 2, e), Err(FlopError::overflow("norm elements")));
    }
}
