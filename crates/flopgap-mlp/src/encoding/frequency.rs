//! Sines and cosines.

use std::f64::consts::PI;

use crate::MlpError;

use super::check_setting;

/// Sines and cosines of a position, of octaves of frequencies (Mildenhall and others, "Representing
/// scenes as neural radiance fields for view synthesis", 2020).
///
/// For dimension `d` and octave `k`, the numbers `2 (d octaves + k)` and the next are
///
/// ```text
/// sin(2^k pi x_d)          cos(2^k pi x_d)
/// ```
///
/// in the order of tiny-cuda-nn. Positions may be any numbers; most use -1 to 1 or 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frequency {
    dimensions: usize,
    octaves: usize,
}

impl Frequency {
    /// For positions of 1 to 16 `dimensions`, with 1 to 24 `octaves`: a position in 32 bits has no
    /// more.
    ///
    /// # Errors
    /// [`MlpError::Encoding`].
    pub fn new(dimensions: usize, octaves: usize) -> Result<Self, MlpError> {
        check_setting("dimensions", dimensions, 1..=16, "1 to 16")?;
        check_setting("octaves", octaves, 1..=24, "1 to 24")?;
        Ok(Frequency { dimensions, octaves })
    }

    /// Numbers of a position.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Frequencies of each dimension.
    pub fn octaves(&self) -> usize {
        self.octaves
    }

    /// Numbers that the network takes of a position: `2 dimensions octaves`.
    pub fn width(&self) -> usize {
        2 * self.dimensions * self.octaves
    }

    pub(super) fn encode(self, position: &[f32], x: &mut [f64]) {
        for (&place, x) in position.iter().zip(x.chunks_exact_mut(2 * self.octaves)) {
            for (pair, phase) in x.chunks_exact_mut(2).zip(phases(place)) {
                (pair[0], pair[1]) = phase.sin_cos();
            }
        }
    }

    pub(super) fn gradients(self, position: &[f32], dx: &[f32], gradients: &mut [f64]) {
        let rows = dx.chunks_exact(2 * self.octaves).zip(gradients);
        for (&place, (dx, gradient)) in position.iter().zip(rows) {
            let mut frequency = PI;
            for (pair, phase) in dx.chunks_exact(2).zip(phases(place)) {
                let (sine, cosine) = phase.sin_cos();
                *gradient += frequency * (f64::from(pair[0]) * cosine - f64::from(pair[1]) * sine);
                frequency *= 2.0;
            }
        }
    }
}

/// `2^k pi x` for each `k`, less whole turns: these are exact before the product with pi.
fn phases(place: f32) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(f64::from(place) % 2.0), |half_turns| Some(2.0 * half_turns % 2.0))
        .map(|half_turns| PI * half_turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_formula_in_the_documented_order() {
        let frequency = Frequency::new(2, 3).unwrap();
        let mut x = [0.0; 12];
        frequency.encode(&[0.3, -0.7], &mut x);
        for (dimension, place) in [0.3_f32, -0.7].into_iter().enumerate() {
            for (octave, frequency) in [1.0, 2.0, 4.0].into_iter().enumerate() {
                let phase = frequency * PI * f64::from(place);
                let at = 2 * (3 * dimension + octave);
                assert!((x[at] - phase.sin()).abs() < 1e-14 && (x[at + 1] - phase.cos()).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let message = Frequency::new(0, 4).unwrap_err().to_string();
        assert_eq!(message, "invalid dimensions 0 of the encoding; expected 1 to 16");
        let message = Frequency::new(3, 25).unwrap_err().to_string();
        assert_eq!(message, "invalid octaves 25 of the encoding; expected 1 to 24");
    }
}
