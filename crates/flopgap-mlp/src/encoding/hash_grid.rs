//! Multiresolution hash encoding.

use crate::MlpError;

use super::check_setting;

/// What a [`HashGrid`] is set to. The defaults are those of Müller and others for a scene in three
/// dimensions, from 16 to about 2,048 cells.
///
/// ```
/// use flopgap_mlp::encoding::{HashGrid, HashGridSettings};
///
/// let settings = HashGridSettings { dimensions: 2, levels: 4, growth: 2.0, ..HashGridSettings::default() };
/// let grid = HashGrid::new(settings)?;
/// let resolutions: Vec<u32> = grid.levels().iter().map(|level| level.resolution).collect();
/// assert_eq!(resolutions, [16, 32, 64, 128]);
/// # Ok::<(), flopgap_mlp::MlpError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HashGridSettings {
    /// Numbers of a position: 2 or 3. 3.
    pub dimensions: usize,
    /// Grids: 1 to 32. 16.
    pub levels: usize,
    /// Numbers of an entry, so of a level: 1, 2, 4 or 8. 2.
    pub features: usize,
    /// The binary logarithm of the most entries that a level has: 1 to 24. 19.
    pub log2_entries: usize,
    /// Cells of the coarsest grid along each axis. 16.
    pub base_resolution: usize,
    /// How many times as many cells the next grid has along each axis, at least 1. About 1.38.
    pub growth: f64,
}

impl Default for HashGridSettings {
    fn default() -> Self {
        HashGridSettings {
            dimensions: 3,
            levels: 16,
            features: 2,
            log2_entries: 19,
            base_resolution: 16,
            growth: 1.381_912_879_967_776_2,
        }
    }
}

/// A grid of a [`HashGrid`]: its size, and where its entries lie in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Level {
    /// Cells along each axis. There is one vertex more.
    pub resolution: u32,
    /// Its first entry, counted in entries from the beginning of the table.
    pub first: usize,
    /// Entries.
    pub entries: usize,
    /// Whether each vertex has an entry of its own. Otherwise vertices share entries by a hash.
    pub is_dense: bool,
}

/// Vectors at the vertices of grids of several resolutions, linearly interpolated (Müller and
/// others, "Instant neural graphics primitives with a multiresolution hash encoding", 2022).
///
/// Positions are from 0 to 1 in every dimension; others count as the nearest of these, where the
/// gradient by the position is 0. Level `l` has `floor(base_resolution growth^l)` cells along each
/// axis. Feature `f` of entry `e` is number `e features + f` of the table, and feature `f` of level
/// `l` is number `l features + f` of what the network takes.
///
/// Where a level has no more vertices than entries are allowed, each vertex (x, y, z) has an entry
/// of its own, of `n` along each axis. Otherwise vertices share entries by a hash in 32 bits:
///
/// ```text
/// x + n (y + n z)          (x xor 2654435761 y xor 805459861 z) mod 2^log2_entries
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct HashGrid {
    settings: HashGridSettings,
    levels: Vec<Level>,
}

/// Of the paper's hash. The factor of the first dimension is 1, for locality.
const PRIMES: [u32; 3] = [1, 2_654_435_761, 805_459_861];
/// Whole numbers up to here have a fraction in 32 bits that is worth interpolating with.
const MOST_CELLS: u32 = 1 << 20;
/// Numbers of a table, at most: kernels count them in 32 bits.
const MOST_PARAMETERS: usize = i32::MAX as usize;

impl HashGrid {
    /// The grid with these settings.
    ///
    /// # Errors
    /// [`MlpError::Encoding`] for a setting out of its range, a level with more than 2^20 cells
    /// along an axis, or a table of 2^31 numbers or more.
    pub fn new(settings: HashGridSettings) -> Result<Self, MlpError> {
        let HashGridSettings { dimensions, levels, features, log2_entries, base_resolution, growth } =
            settings;
        check_setting("dimensions", dimensions, 2..=3, "2 or 3")?;
        check_setting("levels", levels, 1..=32, "1 to 32")?;
        if ![1, 2, 4, 8].contains(&features) {
            let value = features.to_string();
            return Err(MlpError::Encoding { what: "features", value, allowed: "1, 2, 4 or 8" });
        }
        check_setting("log2_entries", log2_entries, 1..=24, "1 to 24")?;
        check_setting("base_resolution", base_resolution, 1..=MOST_CELLS as usize, "1 to 1048576")?;
        if !(growth.is_finite() && growth >= 1.0) {
            let allowed = "a number from 1 on";
            return Err(MlpError::Encoding { what: "growth", value: growth.to_string(), allowed });
        }
        let mut grid = HashGrid { settings, levels: Vec::with_capacity(levels) };
        let (mut cells, mut first) = (base_resolution as f64, 0);
        for _ in 0..levels {
            // A growth that was computed to end at a resolution ends there, whatever its last bit.
            let resolution = (cells * (1.0 + 1e-9)).floor();
            if resolution > f64::from(MOST_CELLS) {
                let allowed = "at most 1048576 cells along an axis in the finest level";
                return Err(MlpError::Encoding { what: "growth", value: growth.to_string(), allowed });
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 2^20")]
            let resolution = resolution as u32;
            // At most 2^60 or so.
            let vertices: usize = std::iter::repeat_n(resolution as usize + 1, dimensions).product();
            let is_dense = vertices <= 1 << log2_entries;
            let entries = if is_dense { vertices } else { 1 << log2_entries };
            grid.levels.push(Level { resolution, first, entries, is_dense });
            first += entries;
            cells *= growth;
        }
        if grid.parameters() > MOST_PARAMETERS {
            let allowed = "a table of less than 2^31 numbers";
            return Err(MlpError::Encoding {
                what: "log2_entries",
                value: log2_entries.to_string(),
                allowed,
            });
        }
        Ok(grid)
    }

    /// The settings.
    pub fn settings(&self) -> HashGridSettings {
        self.settings
    }

    /// The grids, from the coarsest.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Numbers that the network takes of a position: `levels features`.
    pub fn width(&self) -> usize {
        self.settings.levels * self.settings.features
    }

    /// Numbers of the table.
    pub fn parameters(&self) -> usize {
        self.levels.iter().map(|level| level.entries).sum::<usize>() * self.settings.features
    }

    /// The entry of a vertex of a level, from the beginning of the table.
    fn entry(level: &Level, vertex: &[u32]) -> usize {
        let place = if level.is_dense {
            let side = level.resolution as usize + 1;
            vertex.iter().rev().fold(0, |place, &x| place * side + x as usize)
        } else {
            let hash = vertex.iter().zip(PRIMES).fold(0, |hash, (x, prime)| hash ^ x.wrapping_mul(prime));
            hash as usize % level.entries
        };
        level.first + place
    }

    /// Calls `visit` with each vertex of the cell of a position: where its entry begins in the
    /// table, its weight, and the derivatives of the weight by the position.
    fn vertices(&self, level: &Level, position: &[f32], mut visit: impl FnMut(usize, f64, [f64; 3])) {
        let dimensions = position.len();
        let cells = f64::from(level.resolution);
        let (mut cell, mut rest, mut slope) = ([0; 3], [0.0; 3], [0.0; 3]);
        for (d, &x) in position.iter().enumerate() {
            #[expect(
                clippy::manual_clamp,
                reason = "NaN is 0, as on a GPU: an entry of the table in any case"
            )]
            let within = f64::from(x).max(0.0).min(1.0);
            let corner = (within * cells).floor().min(cells - 1.0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 2^20")]
            let number = corner as u32;
            (cell[d], rest[d]) = (number, within * cells - corner);
            slope[d] = if (0.0..=1.0).contains(&x) { cells } else { 0.0 };
        }
        for corner in 0..1_u32 << dimensions {
            let upper = |d: usize| corner >> d & 1 == 1;
            let along = |d: usize| if upper(d) { rest[d] } else { 1.0 - rest[d] };
            let mut vertex = cell;
            (0..dimensions).filter(|&d| upper(d)).for_each(|d| vertex[d] += 1);
            let weight = (0..dimensions).map(along).product();
            let derivative = |d: usize| {
                let others: f64 = (0..dimensions).filter(|&other| other != d).map(along).product();
                if upper(d) { slope[d] * others } else { -slope[d] * others }
            };
            let entry = Self::entry(level, &vertex[..dimensions]);
            visit(entry * self.settings.features, weight, [0, 1, 2].map(derivative));
        }
    }

    pub(super) fn encode(&self, table: &[f32], position: &[f32], x: &mut [f64]) {
        for (level, x) in self.levels.iter().zip(x.chunks_exact_mut(self.settings.features)) {
            self.vertices(level, position, |at, weight, _| {
                x.iter_mut().zip(&table[at..]).for_each(|(x, &value)| *x += weight * f64::from(value));
            });
        }
    }

    pub(super) fn gradients(
        &self,
        table: &[f32],
        position: &[f32],
        dx: &[f32],
        of_table: &mut [f64],
        of_position: &mut [f64],
    ) {
        for (level, dx) in self.levels.iter().zip(dx.chunks_exact(self.settings.features)) {
            self.vertices(level, position, |at, weight, slopes| {
                let mut of_weight = 0.0;
                for (f, &dx) in dx.iter().enumerate() {
                    of_table[at + f] += weight * f64::from(dx);
                    of_weight += f64::from(table[at + f]) * f64::from(dx);
                }
                of_position.iter_mut().zip(slopes).for_each(|(sum, slope)| *sum += slope * of_weight);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Encoding;
    use crate::numerics::uniform;

    fn grid(dimensions: usize) -> HashGrid {
        HashGrid::new(HashGridSettings {
            dimensions,
            levels: 6,
            features: 2,
            log2_entries: 10,
            base_resolution: 4,
            growth: 1.8,
        })
        .unwrap()
    }

    #[test]
    fn the_defaults_are_those_of_the_paper() {
        let grid = HashGrid::new(HashGridSettings::default()).unwrap();
        let levels = grid.levels();
        assert_eq!((levels[0].resolution, levels[15].resolution), (16, 2048));
        let sum = levels.iter().scan(0, |sum, level| Some(std::mem::replace(sum, *sum + level.entries)));
        assert!(levels.iter().map(|level| level.first).eq(sum), "levels lie one after the other");
        let dense: Vec<bool> = levels.iter().map(|level| level.is_dense).collect();
        assert_eq!(dense.iter().filter(|dense| **dense).count(), 5);
        assert!(dense.is_sorted_by(|a, b| a >= b), "coarse levels are dense");
    }

    #[test]
    fn vertices_of_dense_levels_do_not_share_entries() {
        for dimensions in [2, 3] {
            let grid = grid(dimensions);
            let mut owner = vec![false; grid.parameters() / 2];
            for level in grid.levels() {
                let side = level.resolution + 1;
                for number in 0..if dimensions == 2 { side * side } else { side * side * side } {
                    let vertex = [number % side, number / side % side, number / side / side];
                    let entry = HashGrid::entry(level, &vertex[..dimensions]);
                    assert!((level.first..level.first + level.entries).contains(&entry));
                    assert!(!(level.is_dense && owner[entry]), "{dimensions}: {level:?} {vertex:?}");
                    owner[entry] = true;
                }
            }
            let mut dense = grid.levels().iter().filter(|level| level.is_dense).peekable();
            assert!(dense.peek().is_some());
            assert!(
                dense.all(|level| owner[level.first..level.first + level.entries].iter().all(|own| *own))
            );
        }
    }

    #[test]
    fn hashed_vertices_have_the_entry_of_the_published_hash() {
        let level = Level { resolution: 500, first: 100, entries: 1 << 14, is_dense: false };
        // 7 xor (11 * 2654435761 mod 2^32) xor (13 * 805459861 mod 2^32), modulo 2^14.
        let expected = 7 ^ (11 * 2_654_435_761_usize % (1 << 32)) ^ (13 * 805_459_861_usize % (1 << 32));
        assert_eq!(HashGrid::entry(&level, &[7, 11, 13]), 100 + expected % (1 << 14));
    }

    /// On both sides of a border, and in the corners of the cube.
    #[test]
    fn an_encoding_is_continuous_over_the_borders_of_cells() {
        for dimensions in [2, 3] {
            let grid = grid(dimensions);
            let borders = grid
                .levels()
                .iter()
                .flat_map(|level| (1..level.resolution).map(|cell| cell as f32 / level.resolution as f32));
            let borders: Vec<f32> = borders.collect();
            let encoding = Encoding::from(grid);
            let table: Vec<f32> = (0..encoding.parameters() as u64).map(|i| uniform(1, i)).collect();
            let at = |border: f32, d: usize| {
                let mut position = vec![0.37; dimensions];
                position[d] = border;
                encoding.encode(&table, &position).unwrap()
            };
            for border in borders {
                for d in 0..dimensions {
                    let (below, above) = (at(border.next_down(), d), at(border.next_up(), d));
                    assert!(below.iter().zip(above).all(|(a, b)| (a - b).abs() < 1e-4), "{border}");
                }
            }
        }
    }

    #[test]
    fn vertices_have_their_own_entry() {
        let grid = grid(2);
        let table: Vec<f32> = (0..grid.parameters() as u64).map(|i| uniform(1, i)).collect();
        for level in grid.levels() {
            for x in [0, level.resolution] {
                let y = level.resolution - x;
                let mut found = 0.0;
                let position = [x, y].map(|vertex| vertex as f32 / level.resolution as f32);
                grid.vertices(level, &position, |at, weight, _| found += weight * f64::from(table[at]));
                let expected = f64::from(table[2 * HashGrid::entry(level, &[x, y])]);
                assert!((found - expected).abs() < 1e-12, "{level:?}");
            }
        }
    }

    #[test]
    fn positions_outside_are_the_nearest_inside_and_have_no_gradient() {
        let encoding = Encoding::from(grid(3));
        let table: Vec<f32> = (0..encoding.parameters() as u64).map(|i| uniform(1, i)).collect();
        let (outside, border) = ([-0.5, 1.5, 0.3], [0.0, 1.0, 0.3]);
        assert_eq!(encoding.encode(&table, &outside), encoding.encode(&table, &border));
        let dx = vec![1.0; encoding.width()];
        let gradients = |position| encoding.gradients(&table, position, &dx).unwrap().positions;
        let (outside, border) = (gradients(&outside), gradients(&border));
        assert_eq!(outside[..2], [0.0; 2]);
        assert!(border.iter().all(|gradient| *gradient != 0.0));
        assert_eq!(outside[2].to_bits(), border[2].to_bits());
        assert_eq!(encoding.encode(&table, &[f32::NAN; 3]), encoding.encode(&table, &[0.0; 3]));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = HashGridSettings::default();
        for (settings, expected) in [
            (
                HashGridSettings { dimensions: 4, ..good },
                "invalid dimensions 4 of the encoding; expected 2 or 3",
            ),
            (HashGridSettings { levels: 0, ..good }, "invalid levels 0"),
            (
                HashGridSettings { features: 3, ..good },
                "invalid features 3 of the encoding; expected 1, 2, 4 or 8",
            ),
            (HashGridSettings { log2_entries: 25, ..good }, "invalid log2_entries 25"),
            (HashGridSettings { base_resolution: 0, ..good }, "invalid base_resolution 0"),
            (
                HashGridSettings { growth: 0.9, ..good },
                "invalid growth 0.9 of the encoding; expected a number from 1 on",
            ),
            (HashGridSettings { growth: f64::NAN, ..good }, "invalid growth NaN"),
            (HashGridSettings { growth: 3.0, ..good }, "at most 1048576 cells along an axis"),
            (
                HashGridSettings { levels: 32, features: 8, log2_entries: 24, growth: 1.3, ..good },
                "a table of less than 2^31 numbers",
            ),
        ] {
            let message = HashGrid::new(settings).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
