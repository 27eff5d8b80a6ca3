//! The square sigmoid network: N layers of `D x D` weights on M columns.

use std::fmt;

use crate::{ClassFlops, FlopError, Pass, checked};

/// A network of `layers` (N) equal layers, each a `width x width` (D) weight matrix without bias
/// followed by a sigmoid, applied to an input of `columns` (M) columns.
///
/// It is the shape whose counted FLOPs separate cleanly into matrix products, split-K reductions
/// and activations, so it is what overheads are measured on. All three sizes are at least 1.
///
/// | class | forward | backward |
/// |---|---|---|
/// | GEMM | `N * 2 D^2 M` | `(N-1) * 4 D^2 M + 2 D^2 M` |
/// | split-K | 0 | 0 |
/// | activation | `N * D M` | `(2N-1) * D M` |
///
/// A product of `D x D` by `D x M` costs `2 D^2 M`: one multiplication and one addition per term.
/// Backward, every layer needs the gradient of its weights and every layer but the first the
/// gradient of its input.
///
/// The activation is charged 1 FLOP per element forward. Backward it is charged 2: one for the
/// derivative, one for multiplying it with the incoming gradient. One layer is charged 1: at the
/// loss end of a sum or mean the incoming gradient is the same constant everywhere, so there is
/// nothing to multiply with. That makes `2(N-1) + 1 = 2N-1`. What the hardware executes per element
/// is another matter, and kappa ([`OverheadFactors`](crate::OverheadFactors)) is the measure of it.
///
/// Split-K is absent from the theory: it is work that the library chooses to add, measured by rho.
///
/// ```
/// use flopgap_flops::{Pass, SquareMlp};
///
/// let model = SquareMlp::new(10, 1024, 128)?;
/// assert_eq!(model.theory(Pass::Forward)?.gemm, 2_684_354_560);
/// assert_eq!(model.theory(Pass::Backward)?.activation, 2_490_368);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct SquareMlp {
    layers: u64,
    width: u64,
    columns: u64,
}

impl SquareMlp {
    /// A network of `layers` layers of `width x width` weights on `columns` columns.
    ///
    /// # Errors
    /// [`FlopError::ZeroSize`] when a size is 0. Sizes whose FLOPs do not fit a `u64` are accepted
    /// here and refused by the counts.
    pub fn new(layers: u64, width: u64, columns: u64) -> Result<Self, FlopError> {
        checked::positive(&[("layers", layers), ("width", width), ("columns", columns)])?;
        Ok(Self { layers, width, columns })
    }

    /// N, the number of layers.
    pub const fn layers(&self) -> u64 {
        self.layers
    }

    /// D, the rows and columns of every weight matrix.
    pub const fn width(&self) -> u64 {
        self.width
    }

    /// M, the columns of the input: tokens, or samples of a batch.
    pub const fn columns(&self) -> u64 {
        self.columns
    }

    /// `N * D^2`, the number of weights.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn parameters(&self) -> Result<u64, FlopError> {
        checked::product("parameters", &[self.layers, self.width, self.width])
    }

    /// FLOPs that the mathematics of a pass asks for, by class; the table above.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a class exceeds `u64`.
    pub fn theory(&self, pass: Pass) -> Result<ClassFlops, FlopError> {
        let Self { layers: n, width: d, columns: m } = *self;
        let (gemm, activation) = match pass {
            Pass::Forward => (
                checked::product("forward GEMM FLOPs", &[2, n, d, d, m])?,
                checked::product("forward activation FLOPs", &[n, d, m])?,
            ),
            Pass::Backward => {
                let quantity = "backward GEMM FLOPs";
                let both_gradients = checked::product(quantity, &[n - 1, 4, d, d, m])?;
                let weights_only = checked::product(quantity, &[2, d, d, m])?;
                (checked::sum(quantity, &[both_gradients, weights_only])?, self.activation_elements(pass)?)
            }
        };
        Ok(ClassFlops { gemm, split_k: 0, activation, other: 0 })
    }

    /// The element count that rho divides by: `N * D * M` forward, `(2N-1) * D * M` backward. It
    /// equals the theoretical activation FLOPs of the pass.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn activation_elements(&self, pass: Pass) -> Result<u64, FlopError> {
        let (quantity, applications) = match pass {
            Pass::Forward => ("forward activation FLOPs", self.layers),
            Pass::Backward => {
                let quantity = "backward activation FLOPs";
                (quantity, checked::sum(quantity, &[self.layers, self.layers - 1])?)
            }
        };
        checked::product(quantity, &[applications, self.width, self.columns])
    }
}

impl fmt::Display for SquareMlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "N={} D={} M={}", self.layers, self.width, self.columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(layers: u64, width: u64, columns: u64) -> SquareMlp {
        SquareMlp::new(layers, width, columns).unwrap()
    }

    #[test]
    fn zero_sizes_are_refused_by_name() {
        for (sizes, name) in [((0, 1, 1), "layers"), ((1, 0, 1), "width"), ((1, 1, 0), "columns")] {
            let error = SquareMlp::new(sizes.0, sizes.1, sizes.2).unwrap_err();
            assert_eq!(error, FlopError::ZeroSize { name: name.into() });
        }
    }

    #[test]
    fn json_names() {
        let json = serde_json::to_string(&model(2, 3, 4)).unwrap();
        assert_eq!(json, r#"{"layers":2,"width":3,"columns":4}"#);
    }

    #[test]
    fn one_layer_has_no_input_gradient() {
        let theory = model(1, 3, 5).theory(Pass::Backward).unwrap();
        assert_eq!(theory, ClassFlops { gemm: 2 * 9 * 5, activation: 15, ..ClassFlops::default() });
        // (N-1) is 0: the other factors must not overflow on the way to 0.
        let wide = model(1, 1 << 31, 1).theory(Pass::Backward).unwrap();
        assert_eq!(wide.gemm, 1 << 63);
    }

    #[test]
    fn overflow_names_the_quantity() {
        let huge = model(1, 1 << 32, 1);
        assert_eq!(huge.theory(Pass::Forward), Err(FlopError::overflow("forward GEMM FLOPs")));
        assert_eq!(huge.theory(Pass::Backward), Err(FlopError::overflow("backward GEMM FLOPs")));
        assert_eq!(huge.parameters(), Err(FlopError::overflow("parameters")));
        assert_eq!(
            model(u64::MAX, 1, 1).activation_elements(Pass::Backward),
            Err(FlopError::overflow("backward activation FLOPs"))
        );
    }
}
