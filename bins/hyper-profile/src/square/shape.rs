//! The sizes of a network, checked, and the memory that it takes.

use std::fmt;

use flopgap_flops::SquareMlp;

use crate::square::SquareError;

/// The sizes of a square network: `layers` (N) weight matrices of `width x width` (D x D), applied
/// to `samples` (M) columns.
///
/// A `Shape` fits: every array of it can be addressed, and width and samples fit the 32-bit sizes
/// of BLAS.
///
/// ```
/// use hyper_profile::square::Shape;
///
/// let shape = Shape::new(10, 1024, 128)?;
/// assert_eq!(shape.memory().weights, 10 * 1024 * 1024 * 4);
/// assert!(Shape::new(10, 0, 128).is_err());
/// # Ok::<(), hyper_profile::square::SquareError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    layers: usize,
    width: usize,
    samples: usize,
}

/// Bytes of a network's arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// `4 N D^2`.
    pub weights: u64,
    /// `4 N D^2`.
    pub gradients: u64,
    /// Input and the output of every layer, `4 (N+1) D M`.
    pub activations: u64,
    /// The gradient before every activation, `4 N D M`.
    pub deltas: u64,
}

impl Memory {
    /// All of it, in bytes.
    pub fn total(&self) -> u64 {
        // Each is at most `isize::MAX`, as `Shape::new` checked, but four of them may not fit.
        self.weights
            .saturating_add(self.gradients)
            .saturating_add(self.activations)
            .saturating_add(self.deltas)
    }
}

impl Shape {
    /// A network of `layers` layers of `width x width` weights on `samples` columns.
    ///
    /// # Errors
    /// [`SquareError::Sizes`] when one is 0, [`SquareError::TooLarge`] when width or samples exceed
    /// 2^31 - 1 or an array exceeds the address space.
    pub fn new(layers: u64, width: u64, samples: u64) -> Result<Self, SquareError> {
        SquareMlp::new(layers, width, samples)?.try_into()
    }

    /// N, the number of layers.
    pub const fn layers(&self) -> usize {
        self.layers
    }

    /// D, the rows and columns of every weight matrix.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// M, the columns of the input.
    pub const fn samples(&self) -> usize {
        self.samples
    }

    /// D^2, the weights of one layer.
    pub const fn matrix(&self) -> usize {
        self.width * self.width
    }

    /// D M, the numbers between two layers.
    pub const fn panel(&self) -> usize {
        self.width * self.samples
    }

    /// N D^2, all weights.
    pub const fn weights(&self) -> usize {
        self.layers * self.matrix()
    }

    /// (N+1) D M: the input and the output of every layer.
    pub const fn activations(&self) -> usize {
        (self.layers + 1) * self.panel()
    }

    /// N D M: the gradient before the activation of every layer.
    pub const fn deltas(&self) -> usize {
        self.layers * self.panel()
    }

    /// The largest weight that a network is initialized with: Glorot's bound for the sigmoid,
    /// `4 sqrt(6 / (D + D))`. Activations then keep their spread from layer to layer and gradients
    /// do not vanish, so that errors show.
    #[expect(clippy::cast_possible_truncation, reason = "rounded to the precision of the weights")]
    pub fn weight_bound(&self) -> f32 {
        (4.0 * (3.0 / self.width as f64).sqrt()) as f32
    }

    /// Bytes of all arrays: what a GPU needs apart from the workspace of its libraries.
    pub fn memory(&self) -> Memory {
        let bytes = |numbers: usize| (numbers as u64).saturating_mul(4);
        Memory {
            weights: bytes(self.weights()),
            gradients: bytes(self.weights()),
            activations: bytes(self.activations()),
            deltas: bytes(self.deltas()),
        }
    }

    /// Checks that `weights` and `input` have the network's sizes.
    pub(crate) fn check(&self, weights: &[f32], input: &[f32]) -> Result<(), SquareError> {
        for (what, expected, found) in
            [("weights", self.weights(), weights.len()), ("input", self.panel(), input.len())]
        {
            if expected != found {
                return Err(SquareError::Length { what, expected, found });
            }
        }
        Ok(())
    }
}

impl TryFrom<SquareMlp> for Shape {
    type Error = SquareError;

    fn try_from(network: SquareMlp) -> Result<Self, SquareError> {
        let (layers, width, samples) = (network.layers(), network.width(), network.columns());
        let too_large = |what, limit| SquareError::TooLarge { what, limit, layers, width, samples };
        let blas_limit = i32::MAX.unsigned_abs();
        for (what, size) in [("the width", width), ("the samples", samples)] {
            if size > u64::from(blas_limit) {
                return Err(too_large(what, blas_limit.into()));
            }
        }
        let addressable = isize::MAX.unsigned_abs() as u64;
        let fits = |what, factors: [u64; 4]| {
            let bytes = factors.iter().try_fold(1_u64, |product, &factor| product.checked_mul(factor));
            bytes.filter(|&bytes| bytes <= addressable).ok_or_else(|| too_large(what, addressable))
        };
        fits("the bytes of the weights", [4, layers, width, width])?;
        // N + 1 cannot overflow: 4 N fits.
        fits("the bytes of the activations", [4, layers + 1, width, samples])?;
        let size = |value| usize::try_from(value).map_err(|_| too_large("a size", addressable));
        Ok(Shape { layers: size(layers)?, width: size(width)?, samples: size(samples)? })
    }
}

impl From<Shape> for SquareMlp {
    fn from(shape: Shape) -> Self {
        SquareMlp::new(shape.layers as u64, shape.width as u64, shape.samples as u64)
            .expect("the sizes of a shape are not 0")
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "N={} D={} M={}", self.layers, self.width, self.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_cannot_be_stored_are_refused_by_name() {
        let error = |n, d, m| Shape::new(n, d, m).unwrap_err().to_string();
        assert!(error(0, 1, 1).starts_with("layers is 0"), "{}", error(0, 1, 1));
        assert!(error(1, 1, 0).starts_with("columns is 0"), "{}", error(1, 1, 0));
        assert!(error(1, 1 << 31, 1).starts_with("the width of a network"), "{}", error(1, 1 << 31, 1));
        assert!(error(1, 1, 1 << 31).starts_with("the samples of"), "{}", error(1, 1, 1 << 31));
        assert!(error(u64::MAX, 1, 1).starts_with("the bytes of the weights"), "{}", error(u64::MAX, 1, 1));
        let error = error(1 << 30, 1, (1 << 31) - 1);
        assert!(error.starts_with("the bytes of the activations"), "{error}");
    }

    #[test]
    fn the_memory_of_the_largest_shapes_does_not_wrap() {
        let shape = Shape::new(1, (1 << 30) - 1, 1).unwrap();
        assert_eq!(shape.memory().weights, 4 * ((1 << 30) - 1) * ((1 << 30) - 1));
        assert!(shape.memory().total() > 1 << 62);
        assert_eq!(SquareMlp::from(shape).width(), (1 << 30) - 1);
    }
}
