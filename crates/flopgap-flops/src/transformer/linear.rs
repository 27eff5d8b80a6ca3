//! A linear layer on rows of tokens.

use crate::{ElementType, FlopError, Work, checked};

/// `Y = X W^T + b` on `tokens` rows: `inputs` features to `outputs` features.
///
/// ```
/// use flopgap_flops::ElementType;
/// use flopgap_flops::transformer::Linear;
///
/// let projection = Linear { tokens: 2048, inputs: 768, outputs: 2304, bias: false };
/// let forward = projection.forward(ElementType::Fp32)?;
/// assert_eq!(forward.flops, 2 * 2048 * 768 * 2304);
/// assert_eq!(projection.backward(ElementType::Fp32, true)?.flops, 2 * forward.flops);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Linear {
    /// Rows of `X`: batch times sequence length.
    pub tokens: u64,
    /// Columns of `X`.
    pub inputs: u64,
    /// Columns of `Y`.
    pub outputs: u64,
    /// Whether there is a bias.
    pub bias: bool,
}

impl Linear {
    /// Weights and biases.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn parameters(&self) -> Result<u64, FlopError> {
        let weights = checked::product("linear parameters", &[self.inputs, self.outputs])?;
        checked::sum("linear parameters", &[weights, if self.bias { self.outputs } else { 0 }])
    }

    /// `2 tokens inputs outputs` FLOPs, and `tokens outputs` for a bias. Reads `X`, `W` and `b`;
    /// writes `Y`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn forward(&self, element: ElementType) -> Result<Work, FlopError> {
        let (x, y) = self.activations()?;
        let product = self.product()?;
        let flops = checked::sum("linear FLOPs", &[product, if self.bias { y } else { 0 }])?;
        Work::of_elements(flops, &[x, self.parameters()?], &[y], element)
    }

    /// `dW`, `db` and, where `input_gradient` is set, `dX`: each product `2 tokens inputs outputs`
    /// FLOPs, `db` another `tokens outputs`. Reads `dY`, `X` and, for `dX`, `W`; writes the
    /// gradients.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn backward(&self, element: ElementType, input_gradient: bool) -> Result<Work, FlopError> {
        let (x, y) = self.activations()?;
        let product = self.product()?;
        let weights = checked::product("linear weights", &[self.inputs, self.outputs])?;
        let when = |condition: bool, count: u64| if condition { count } else { 0 };
        let flops = checked::sum(
            "linear backward FLOPs",
            &[product, when(input_gradient, product), when(self.bias, y)],
        )?;
        Work::of_elements(
            flops,
            &[y, x, when(input_gradient, weights)],
            &[self.parameters()?, when(input_gradient, x)],
            element,
        )
    }

    fn product(&self) -> Result<u64, FlopError> {
        checked::product("linear FLOPs", &[2, self.tokens, self.inputs, self.outputs])
    }

    fn activations(&self) -> Result<(u64, u64), FlopError> {
        let elements = |features| checked::product("linear activation elements", &[self.tokens, features]);
        Ok((elements(self.inputs)?, elements(self.outputs)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let linear = Linear { tokens: 5, inputs: 3, outputs: 2, bias: true };
        assert_eq!(linear.parameters(), Ok(8));
        assert_eq!(
            linear.forward(ElementType::Fp32),
            Ok(Work { flops: 70, bytes_read: 4 * (15 + 8), bytes_written: 40 })
        );
        assert_eq!(
            linear.backward(ElementType::Fp32, true),
            Ok(Work { flops: 130, bytes_read: 4 * (10 + 15 + 6), bytes_written: 4 * (8 + 15) })
        );
        assert_eq!(
            Linear { bias: false, ..linear }.backward(ElementType::Int8, false),
            Ok(Work { flops: 60, bytes_read: 25, bytes_written: 6 })
        );
    }

    #[test]
    fn without_bias_it_is_a_gemm() {
        let linear = Linear { tokens: 11, inputs: 13, outputs: 17, bias: false };
        assert_eq!(linear.forward(ElementType::Bf16), Work::gemm(11, 17, 13, ElementType::Bf16));
    }
}
