//! Measured calls of one kind, interpolated.

use std::collections::BTreeSet;

use super::Row;
use crate::kriging::{Field, Scale};

/// The fewest calls between which anything is interpolated.
const FEWEST: usize = 4;

/// Measured calls of one kind and arithmetic.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// Logarithms of times over floors.
    times: Field,
    /// How many kernels each call has.
    kernels: Vec<f64>,
    /// Sums of the logarithms and of their squares.
    sums: [f64; 2],
    /// The forms of its calls.
    pub(super) forms: BTreeSet<[u64; 2]>,
}

/// What lies between the measured calls.
pub(super) struct Between {
    pub(super) value: f64,
    pub(super) deviation: f64,
    pub(super) kernels: f64,
}

impl Table {
    pub(super) fn new(scales: &'static [Scale]) -> Self {
        let times = Field::new(scales);
        Self { times, kernels: Vec::new(), sums: [0.0; 2], forms: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// Adds a call by its rows.
    pub(super) fn push(&mut self, point: &[f64], rows: &[&Row], floor: f64) {
        self.forms.extend(rows.iter().map(|row| row.call.form()));
        let mut times: Vec<f64> = rows.iter().map(|row| row.nanoseconds).collect();
        times.sort_by(f64::total_cmp);
        let value = (times[times.len() / 2] / floor).ln();
        self.times.push(point, value);
        self.kernels.push(rows.iter().map(|row| row.kernels).sum::<f64>() / rows.len() as f64);
        self.sums = [self.sums[0] + value, self.sums[1] + value * value];
    }

    /// The standard deviation of the logarithms.
    pub(super) fn spread(&self) -> f64 {
        let [mean, squares] = self.sums.map(|sum| sum / self.len() as f64);
        (squares - mean * mean).max(0.0).sqrt()
    }

    pub(super) fn at(&self, point: &[f64]) -> Option<Between> {
        let guess = self.times.at(point).filter(|_| self.len() >= FEWEST)?;
        let kernels = self.kernels[guess.nearest];
        Some(Between { value: guess.value, deviation: guess.deviation, kernels })
    }
}
