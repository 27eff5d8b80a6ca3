//! Operators that read where data says.

use crate::{ElementType, FlopError, Work, checked};

/// How a value between pixels follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interpolation {
    /// The nearest pixel.
    Nearest,
    /// A weighted sum of the nearest two along each dimension.
    Linear,
    /// A weighted sum of the nearest four along each of two dimensions.
    Cubic,
}

/// Images sampled at given points (`grid_sample`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct GridSample {
    /// The interpolation.
    pub interpolation: Interpolation,
    /// Images.
    pub batch: u64,
    /// Values of a pixel.
    pub channels: u64,
    /// Pixels of an image.
    pub pixels: u64,
    /// Points in each image.
    pub points: u64,
    /// Coordinates of a point: 2 or 3.
    pub dimensions: u32,
    /// Whether -1 and 1 are the centers of the outermost pixels and not their edges.
    pub align_corners: bool,
    /// Whether coordinates beyond the image are moved to its edge.
    pub clamped: bool,
}

impl GridSample {
    /// The FLOPs of a coordinate are shared by all channels of its point:
    ///
    /// | part | formula | FLOPs |
    /// |---|---|---|
    /// | pixel, corners aligned | `(x + 1) / 2 (n - 1)` | 3 |
    /// | pixel, edges aligned | `((x + 1) n - 1) / 2` | 4 |
    /// | moved to the edge | one clamp | 1 |
    /// | nearest | one rounding | 1 |
    /// | linear | `floor(x)`, the fraction and its complement | 3 |
    /// | cubic | `floor(x)`, four distances (4), two inner polynomials of 5, two outer of 6 | 27 |
    ///
    /// Then for each value: linear, a product of each of `2^d` pixels with its weight and their
    /// sum, where the weights of a point take `2^d (d - 1)`; cubic, four rows of 7 and a column
    /// of 7.
    /// Source: `ATen/native/GridSampler.h` of PyTorch, ONNX `GridSample`.
    ///
    /// ```
    /// use flopgap_flops::ElementType;
    /// use flopgap_flops::operator::{GridSample, Interpolation};
    ///
    /// let sample = GridSample {
    ///     interpolation: Interpolation::Linear, batch: 1, channels: 3, pixels: 64, points: 10,
    ///     dimensions: 2, align_corners: false, clamped: false,
    /// };
    /// // Two coordinates of 7, four weights, and 7 for each of three values.
    /// assert_eq!(sample.work(ElementType::Fp32)?.flops, 10 * (2 * 7 + 4 + 3 * 7));
    /// # Ok::<(), flopgap_flops::FlopError>(())
    /// ```
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn work(&self, element: ElementType) -> Result<Work, FlopError> {
        let quantity = "grid sample FLOPs";
        let dimensions = u64::from(self.dimensions);
        let corners = 1_u64.checked_shl(self.dimensions).ok_or_else(|| FlopError::overflow(quantity))?;
        let pixel = if self.align_corners { 3 } else { 4 } + u64::from(self.clamped);
        let (coordinate, weights, value) = match self.interpolation {
            Interpolation::Nearest => (1, 0, 0),
            Interpolation::Linear => (3, corners * dimensions.saturating_sub(1), 2 * corners - 1),
            Interpolation::Cubic => (27, 0, 35),
        };
        let points = checked::product(quantity, &[self.batch, self.points])?;
        let values = self.values()?;
        let each = dimensions * (pixel + coordinate) + weights;
        let flops =
            [checked::product(quantity, &[points, each])?, checked::product(quantity, &[values, value])?];
        let pixels = checked::product("pixels", &[self.batch, self.channels, self.pixels])?;
        let coordinates = checked::product("coordinates", &[points, dimensions])?;
        Work::of_elements(checked::sum(quantity, &flops)?, &[pixels, coordinates], &[values], element)
    }

    /// Values that are written.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn values(&self) -> Result<u64, FlopError> {
        checked::product("sampled values", &[self.batch, self.points, self.channels])
    }
}

/// What the rows of a bag become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bag {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The largest of each column.
    Max,
}

/// Rows picked out of a table and brought together by bag (`EmbeddingBag`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct EmbeddingBag {
    /// What the rows of a bag become.
    pub function: Bag,
    /// Rows that are picked, of all bags.
    pub rows: u64,
    /// Elements of a row.
    pub width: u64,
    /// Bags.
    pub bags: u64,
    /// Whether each row is multiplied by a weight.
    pub weighted: bool,
}

impl EmbeddingBag {
    /// A reduction of all elements that are picked: 1 FLOP each, 1 more with a weight, and for a
    /// mean a division of each result. Reads the rows that are picked; indexes are not counted.
    ///
    /// ```
    /// use flopgap_flops::ElementType;
    /// use flopgap_flops::operator::{Bag, EmbeddingBag};
    ///
    /// let (function, weighted) = (Bag::Mean, false);
    /// let bag = EmbeddingBag { function, rows: 20, width: 8, bags: 5, weighted };
    /// assert_eq!(bag.work(ElementType::Fp32)?.flops, 20 * 8 + 5 * 8);
    /// # Ok::<(), flopgap_flops::FlopError>(())
    /// ```
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn work(&self, element: ElementType) -> Result<Work, FlopError> {
        let quantity = "embedding bag FLOPs";
        let picked = checked::product(quantity, &[self.rows, self.width])?;
        let results = self.results()?;
        let each = 1 + u64::from(self.weighted);
        let divisions = if self.function == Bag::Mean { results } else { 0 };
        let flops = checked::sum(quantity, &[checked::product(quantity, &[picked, each])?, divisions])?;
        let weights = if self.weighted { self.rows } else { 0 };
        Work::of_elements(flops, &[picked, weights], &[results], element)
    }

    /// Elements that are written.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn results(&self) -> Result<u64, FlopError> {
        checked::product("elements of bags", &[self.bags, self.width])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(interpolation: Interpolation, dimensions: u32) -> GridSample {
        GridSample {
            interpolation,
            batch: 2,
            channels: 3,
            pixels: 100,
            points: 5,
            dimensions,
            align_corners: true,
            clamped: true,
        }
    }

    /// By hand: ten points and thirty values.
    #[test]
    fn samples_cost_what_their_parts_do() {
        let flops = |sample: GridSample| sample.work(ElementType::Fp32).unwrap().flops;
        assert_eq!(flops(sample(Interpolation::Nearest, 2)), 10 * 2 * (3 + 1 + 1));
        assert_eq!(flops(sample(Interpolation::Linear, 2)), 10 * (2 * 7 + 4) + 30 * 7);
        assert_eq!(flops(sample(Interpolation::Linear, 3)), 10 * (3 * 7 + 16) + 30 * 15);
        assert_eq!(flops(sample(Interpolation::Cubic, 2)), 10 * 2 * (4 + 27) + 30 * 35);
        let work = sample(Interpolation::Linear, 2).work(ElementType::Fp16).unwrap();
        assert_eq!((work.bytes_read, work.bytes_written), (2 * (600 + 20), 2 * 30));
    }

    #[test]
    fn bags_read_the_rows_that_they_hold() {
        let bag = EmbeddingBag { function: Bag::Sum, rows: 20, width: 8, bags: 5, weighted: true };
        let work = bag.work(ElementType::Fp32).unwrap();
        assert_eq!(work, Work { flops: 2 * 160, bytes_read: 4 * (160 + 20), bytes_written: 4 * 40 });
    }
}
