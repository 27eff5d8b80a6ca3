//! Interpolation between measured points: ordinary kriging of the nearest ones.
//!
//! The covariance of two points falls with `exp(-Σ |a - b| / reach)`. The estimate is the unbiased
//! combination of the nearest points with the least variance, and that variance grows with the
//! distance to them, so an interval knows where the data end. (Cressie, *Statistics for Spatial
//! Data*, 1993, section 3.2.)

/// Neighbors of an estimate.
const NEIGHBORS: usize = 48;
/// Variance of a measurement, where that of the field is 1.
const NUGGET: f64 = 0.005;

/// How far points are alike along one coordinate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// The distance over which the covariance falls to 1/e.
    pub(crate) reach: f64,
    /// The distance that counts as 1 when neighbors are chosen.
    pub(crate) near: f64,
    /// Whether coordinates are numbers of names: all that differ are 1 apart.
    pub(crate) names: bool,
}

impl Scale {
    fn distance(self, a: f64, b: f64) -> f64 {
        if self.names { f64::from(u8::from((a - b).abs() > 0.5)) } else { (a - b).abs() }
    }
}

/// Measured values at points.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    scales: &'static [Scale],
    /// The coordinates of all points, one after the other.
    points: Vec<f64>,
    values: Vec<f64>,
}

/// A value between the points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Guess {
    pub(crate) value: f64,
    /// Relative standard deviation, in units of that of the field.
    pub(crate) deviation: f64,
    /// The place of the nearest point, in the order in which they were added.
    pub(crate) nearest: usize,
}

impl Field {
    pub(crate) fn new(scales: &'static [Scale]) -> Self {
        Self { scales, points: Vec::new(), values: Vec::new() }
    }

    /// Adds a point; it has as many coordinates as there are scales.
    pub(crate) fn push(&mut self, point: &[f64], value: f64) {
        self.points.extend_from_slice(point);
        self.values.push(value);
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    fn point(&self, index: usize) -> &[f64] {
        &self.points[index * self.scales.len()..][..self.scales.len()]
    }

    fn distance(&self, index: usize, point: &[f64]) -> f64 {
        let pairs = self.point(index).iter().zip(point).zip(self.scales);
        pairs.map(|((a, b), scale)| scale.distance(*a, *b) / scale.near).sum()
    }

    /// The value of the nearest point.
    pub(crate) fn nearest(&self, point: &[f64]) -> Option<f64> {
        let distance = |index: &usize| self.distance(*index, point);
        let nearest = (0..self.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        Some(self.values[nearest])
    }

    /// The value at a point; `None` without any measured one.
    pub(crate) fn at(&self, point: &[f64]) -> Option<Guess> {
        let mut near: Vec<(f64, usize)> =
            (0..self.len()).map(|index| (self.distance(index, point), index)).collect();
        if near.len() > NEIGHBORS {
            near.select_nth_unstable_by(NEIGHBORS, |a, b| a.0.total_cmp(&b.0));
            near.truncate(NEIGHBORS);
        }
        let count = near.len();
        // Of several as near, the first.
        let (_, nearest) = near.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
        let alike = |a: &[f64], b: &[f64]| -> f64 {
            let pairs = a.iter().zip(b).zip(self.scales);
            (-pairs.map(|((a, b), scale)| scale.distance(*a, *b) / scale.reach).sum::<f64>()).exp()
        };
        let mut matrix = vec![0.0; count * count];
        for (row, &(_, a)) in near.iter().enumerate() {
            for (column, &(_, b)) in near[..row].iter().enumerate() {
                matrix[row * count + column] = alike(self.point(a), self.point(b));
            }
            matrix[row * count + row] = 1.0 + NUGGET;
        }
        factorize(&mut matrix, count);
        let toward: Vec<f64> = near.iter().map(|&(_, index)| alike(self.point(index), point)).collect();
        let simple = solve(&matrix, toward.clone());
        let ones = solve(&matrix, vec![1.0; count]);
        // The multiplier that makes the weights add up to 1.
        let excess = (1.0 - simple.iter().sum::<f64>()) / ones.iter().sum::<f64>();
        let weights: Vec<f64> = simple.iter().zip(&ones).map(|(a, b)| a + excess * b).collect();
        let value = weights.iter().zip(&near).map(|(weight, &(_, index))| weight * self.values[index]).sum();
        let explained: f64 = weights.iter().zip(&toward).map(|(weight, toward)| weight * toward).sum();
        let variance = 1.0 - explained + excess;
        Some(Guess { value, deviation: (variance + NUGGET).max(NUGGET).sqrt(), nearest })
    }
}

/// Cholesky's factor of a positive definite matrix, in the lower triangle.
fn factorize(matrix: &mut [f64], count: usize) {
    for row in 0..count {
        for column in 0..=row {
            let (rows, columns) = (&matrix[row * count..], &matrix[column * count..]);
            let done: f64 = rows[..column].iter().zip(&columns[..column]).map(|(a, b)| a * b).sum();
            let left = matrix[row * count + column] - done;
            matrix[row * count + column] = if row == column {
                left.max(f64::MIN_POSITIVE).sqrt()
            } else {
                left / matrix[column * count + column]
            };
        }
    }
}

/// Solves for a right side by the factor.
fn solve(factor: &[f64], mut side: Vec<f64>) -> Vec<f64> {
    let count = side.len();
    for row in 0..count {
        let done: f64 = (0..row).map(|column| factor[row * count + column] * side[column]).sum();
        side[row] = (side[row] - done) / factor[row * count + row];
    }
    for row in (0..count).rev() {
        let done: f64 = (row + 1..count).map(|below| factor[below * count + row] * side[below]).sum();
        side[row] = (side[row] - done) / factor[row * count + row];
    }
    side
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALES: &[Scale] = &[Scale { reach: 4.0, near: 1.0, names: false }; 2];

    #[test]
    fn a_plane_is_interpolated_and_the_deviation_grows_with_the_distance() {
        let mut field = Field::new(SCALES);
        assert_eq!(field.at(&[0.0, 0.0]), None);
        for place in 0..64 {
            let (x, y) = (f64::from(place % 8), f64::from(place / 8));
            field.push(&[x, y], 2.0 * x - y);
        }
        let inside = field.at(&[3.5, 2.25]).unwrap();
        assert!((inside.value - 4.75).abs() < 0.2, "{inside:?}");
        let on = field.at(&[3.0, 2.0]).unwrap();
        assert!((on.value - 4.0).abs() < 0.05, "{on:?}");
        assert_eq!(on.nearest, 8 * 2 + 3);
        let beyond = field.at(&[20.0, 2.0]).unwrap();
        assert!(on.deviation < inside.deviation && inside.deviation < 0.5 * beyond.deviation);
    }

    #[test]
    fn weights_are_those_of_the_dense_system() {
        let mut field = Field::new(SCALES);
        for (x, y, value) in [(0.0, 0.0, 1.0), (1.0, 0.0, 3.0), (0.0, 2.0, -2.0)] {
            field.push(&[x, y], value);
        }
        // Solved by Gaussian elimination with the constraint as a fourth row, in Python.
        let guess = field.at(&[0.5, 0.5]).unwrap();
        assert!((guess.value - 1.211_199).abs() < 1e-5, "{guess:?}");
    }
}
