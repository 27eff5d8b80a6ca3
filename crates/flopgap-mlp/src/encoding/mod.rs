//! Encodings: what the first layer of a network takes of a position, so that a small network learns
//! fine detail of a picture, a surface or a scene.
//!
//! [`Frequency`] has no parameters. [`HashGrid`] has a table of them, which is trained with the
//! network. Both are computed here in 64 bits, which is what
//! [`cuda::encoding::Encoder`](crate::cuda::encoding::Encoder) is checked against.
//!
//! ```
//! use flopgap_mlp::encoding::{Encoding, Frequency, HashGrid, HashGridSettings};
//!
//! let waves = Encoding::from(Frequency::new(3, 6)?);
//! assert_eq!((waves.width(), waves.parameters()), (36, 0));
//!
//! let settings = HashGridSettings { dimensions: 2, levels: 8, log2_entries: 12, ..Default::default() };
//! let grid = Encoding::from(HashGrid::new(settings)?);
//! assert_eq!(grid.width(), 16);
//! let table = grid.initial_table(42);
//! assert_eq!(table.len(), grid.parameters());
//! let x = grid.encode(&table, &[0.5, 0.25, 1.0, 0.0])?;    // two positions
//! assert_eq!(x.len(), 2 * grid.width());
//! # Ok::<(), flopgap_mlp::MlpError>(())
//! ```

mod frequency;
mod hash_grid;

use std::fmt;

use crate::MlpError;
use crate::error::check;
use crate::numerics::uniform;

pub use frequency::Frequency;
pub use hash_grid::{HashGrid, HashGridSettings, Level};

/// Numbers of a table are drawn from ± this.
const INITIAL: f32 = 1e-4;

/// What turns a position into the inputs of a network.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Encoding {
    /// Sines and cosines of fixed frequencies.
    Frequency(Frequency),
    /// Trained vectors at the vertices of grids, interpolated.
    HashGrid(HashGrid),
}

/// The gradients of a loss, by what an encoding is computed from.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodingGradients {
    /// By the table, summed over the batch.
    pub table: Vec<f64>,
    /// By the positions, `batch x dimensions`.
    pub positions: Vec<f64>,
}

impl Encoding {
    /// Numbers of a position.
    pub fn dimensions(&self) -> usize {
        match self {
            Encoding::Frequency(frequency) => frequency.dimensions(),
            Encoding::HashGrid(grid) => grid.settings().dimensions,
        }
    }

    /// Numbers that the network takes of a position: the width of its inputs. If it is not a
    /// multiple of 8, passes on a GPU copy them
    /// ([`Network::is_padded`](crate::Network::is_padded)).
    pub fn width(&self) -> usize {
        match self {
            Encoding::Frequency(frequency) => frequency.width(),
            Encoding::HashGrid(grid) => grid.width(),
        }
    }

    /// Numbers of the table; 0 where there is none.
    pub fn parameters(&self) -> usize {
        match self {
            Encoding::Frequency(_) => 0,
            Encoding::HashGrid(grid) => grid.parameters(),
        }
    }

    /// A table to begin with, uniform in ±1e-4. The numbers follow from `seed`, the same on every
    /// machine.
    pub fn initial_table(&self, seed: u64) -> Vec<f32> {
        (0..self.parameters() as u64).map(|index| INITIAL * uniform(seed, index)).collect()
    }

    /// The inputs of a network, `batch x width`, for `positions`, `batch x dimensions`, in 64 bits.
    ///
    /// # Errors
    /// [`MlpError::Length`].
    pub fn encode(&self, table: &[f32], positions: &[f32]) -> Result<Vec<f64>, MlpError> {
        let batch = self.batch(table, positions)?;
        let mut x = vec![0.0; batch * self.width()];
        let rows = positions.chunks_exact(self.dimensions()).zip(x.chunks_exact_mut(self.width()));
        for (position, x) in rows {
            match self {
                Encoding::Frequency(frequency) => frequency.encode(position, x),
                Encoding::HashGrid(grid) => grid.encode(table, position, x),
            }
        }
        Ok(x)
    }

    /// The gradients of the loss whose gradient by what [`Encoding::encode`] returns is `dx`.
    ///
    /// # Errors
    /// [`MlpError::Length`].
    pub fn gradients(
        &self,
        table: &[f32],
        positions: &[f32],
        dx: &[f32],
    ) -> Result<EncodingGradients, MlpError> {
        let batch = self.batch(table, positions)?;
        check("gradients by the inputs", batch * self.width(), dx.len())?;
        let mut of_table = vec![0.0; self.parameters()];
        let mut of_positions = vec![0.0; positions.len()];
        let rows = positions.chunks_exact(self.dimensions()).zip(dx.chunks_exact(self.width()));
        for ((position, dx), gradients) in rows.zip(of_positions.chunks_exact_mut(self.dimensions())) {
            match self {
                Encoding::Frequency(frequency) => frequency.gradients(position, dx, gradients),
                Encoding::HashGrid(grid) => grid.gradients(table, position, dx, &mut of_table, gradients),
            }
        }
        Ok(EncodingGradients { table: of_table, positions: of_positions })
    }

    fn batch(&self, table: &[f32], positions: &[f32]) -> Result<usize, MlpError> {
        check("the table of an encoding", self.parameters(), table.len())?;
        let batch = positions.len() / self.dimensions();
        check("positions", batch * self.dimensions(), positions.len())?;
        Ok(batch)
    }
}

impl From<Frequency> for Encoding {
    fn from(frequency: Frequency) -> Self {
        Encoding::Frequency(frequency)
    }
}

impl From<HashGrid> for Encoding {
    fn from(grid: HashGrid) -> Self {
        Encoding::HashGrid(grid)
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Encoding::Frequency(frequency) => {
                write!(f, "frequency: {} dimensions, {} octaves", frequency.dimensions(), frequency.octaves())
            }
            Encoding::HashGrid(grid) => {
                let HashGridSettings { dimensions, levels, features, log2_entries, .. } = grid.settings();
                let resolutions = grid.levels().first().zip(grid.levels().last());
                let (coarse, fine) = resolutions.map_or((0, 0), |(a, b)| (a.resolution, b.resolution));
                write!(
                    f,
                    "hash grid: {dimensions} dimensions, {levels} levels of {features} from {coarse} to {fine} cells, \
                     at most 2^{log2_entries} entries"
                )
            }
        }
    }
}

/// Refuses a setting that is not in a range of whole numbers.
fn check_setting(
    what: &'static str,
    value: usize,
    range: std::ops::RangeInclusive<usize>,
    allowed: &'static str,
) -> Result<(), MlpError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(MlpError::Encoding { what, value: value.to_string(), allowed })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind, with levels that are dense and levels that are hashed.
    fn encodings() -> Vec<Encoding> {
        let grid = |dimensions, features| {
            HashGrid::new(HashGridSettings {
                dimensions,
                levels: 5,
                features,
                log2_entries: 7,
                base_resolution: 3,
                growth: 1.7,
            })
        };
        vec![
            Frequency::new(2, 5).unwrap().into(),
            grid(2, 2).unwrap().into(),
            grid(3, 1).unwrap().into(),
            grid(3, 4).unwrap().into(),
        ]
    }

    fn numbers(seed: u64, length: usize) -> Vec<f32> {
        (0..length as u64).map(|index| uniform(seed, index)).collect()
    }

    fn loss(encoding: &Encoding, table: &[f32], positions: &[f32], dx: &[f32]) -> f64 {
        let x = encoding.encode(table, positions).unwrap();
        x.iter().zip(dx).map(|(x, &dx)| x * f64::from(dx)).sum()
    }

    /// The loss is linear in the table: differences of any step are the gradient.
    #[test]
    fn gradients_by_the_table_are_finite_differences() {
        for encoding in encodings() {
            let table = numbers(1, encoding.parameters());
            let positions: Vec<f32> =
                numbers(2, 40 * encoding.dimensions()).iter().map(|x| 0.5 + 0.5 * x).collect();
            let dx = numbers(3, 40 * encoding.width());
            let found = encoding.gradients(&table, &positions, &dx).unwrap().table;
            for index in (0..table.len()).step_by(11) {
                let moved = |to: f32| {
                    let mut table = table.clone();
                    table[index] = to;
                    loss(&encoding, &table, &positions, &dx)
                };
                let expected = (moved(1.0) - moved(-1.0)) / 2.0;
                assert!((found[index] - expected).abs() < 1e-12, "{encoding}: {index}");
            }
        }
    }

    /// Within a cell, an interpolation is linear along each axis: so are differences.
    #[test]
    fn gradients_by_positions_are_finite_differences() {
        const STEP: f32 = 1.0 / 4096.0;
        for encoding in encodings() {
            let table = numbers(1, encoding.parameters());
            // Off the borders of all cells: what has kinks has them there.
            let near_border = |&x: &f32| match &encoding {
                Encoding::Frequency(_) => false,
                Encoding::HashGrid(grid) => grid.levels().iter().any(|level| {
                    let cells = f64::from(x) * f64::from(level.resolution);
                    (cells - cells.round()).abs() < 1.1 * f64::from(STEP) * f64::from(level.resolution)
                }),
            };
            let draws = numbers(2, 400).into_iter().map(|x| 0.5 + 0.499 * x);
            let positions: Vec<f32> =
                draws.filter(|x| !near_border(x)).take(40 * encoding.dimensions()).collect();
            assert_eq!(positions.len(), 40 * encoding.dimensions(), "{encoding}");
            let dx = numbers(3, 40 * encoding.width());
            let found = encoding.gradients(&table, &positions, &dx).unwrap().positions;
            for index in 0..positions.len() {
                let moved = |by: f32| {
                    let mut positions = positions.clone();
                    positions[index] += by;
                    (f64::from(positions[index]), loss(&encoding, &table, &positions, &dx))
                };
                let ((high, above), (low, below)) = (moved(STEP), moved(-STEP));
                let expected = (above - below) / (high - low);
                // The third derivative of the fastest wave.
                let allowed = if encoding.parameters() == 0 { 0.05 } else { 1e-9 };
                assert!((found[index] - expected).abs() < allowed, "{encoding}: {} {expected}", found[index]);
            }
        }
    }

    #[test]
    fn tables_are_small_and_follow_from_the_seed() {
        let encoding = &encodings()[1];
        let table = encoding.initial_table(7);
        assert!(table.iter().all(|value| value.abs() <= 1e-4));
        assert!(table.iter().any(|value| *value > 9e-5) && table.iter().any(|value| *value < -9e-5));
        assert_eq!(table, encoding.initial_table(7));
        assert_ne!(table, encoding.initial_table(8));
    }

    #[test]
    fn lengths_are_checked() {
        let encoding = &encodings()[1];
        let table = encoding.initial_table(1);
        let message = encoding.encode(&table[1..], &[0.5, 0.5]).unwrap_err().to_string();
        assert!(message.starts_with("the table of an encoding: expected"), "{message}");
        let message = encoding.encode(&table, &[0.5; 3]).unwrap_err().to_string();
        assert_eq!(message, "positions: expected 2 numbers, found 3");
        let message = encoding.gradients(&table, &[0.5; 2], &[0.0; 9]).unwrap_err().to_string();
        assert_eq!(message, "gradients by the inputs: expected 10 numbers, found 9");
    }
}
