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
    points: Vec<(Vec<f64>, f64)>,
    scales: &'static [Scale],
    /// The standard deviation of the logarithms.
    pub(super) spread: f64,
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
        Self { times, points: Vec::new(), scales, spread: 0.0, sums: [0.0; 2], forms: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// Adds a call by its rows.
    pub(super) fn push(&mut self, point: &[f64], rows: &[&Row], floor: f64) {
        self.forms.extend(rows.iter().map(|row| row.call.form()));
        let mut times: Vec<f64> = rows.iter().map(|row| row.nanoseconds).collect();
        times.sort_by(f64::total_cmp);
        let value = (times[times.len() / 2] / floor).ln();
        let kernels = rows.iter().map(|row| row.kernels).sum::<f64>() / rows.len() as f64;
        self.times.push(point, value);
        self.points.push((point.to_vec(), kernels));
        self.sums = [self.sums[0] + value, self.sums[1] + value * value];
        let count = self.points.len() as f64;
        let mean = self.sums[0] / count;
        self.spread = (self.sums[1] / count - mean * mean).max(0.0).sqrt();
    }

    pub(super) fn at(&self, point: &[f64]) -> Option<Between> {
        if self.points.len() < FEWEST {
            return None;
        }
        let guess = self.times.at(point)?;
        let distance = |(of, _): &&(Vec<f64>, f64)| -> f64 {
            of.iter().zip(point).zip(self.scales).map(|((a, b), scale)| scale.apart(*a, *b)).sum()
        };
        let nearest = self.points.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let kernels = nearest.map_or(1.0, |(_, kernels)| *kernels);
        Some(Between { value: guess.value, deviation: guess.deviation, kernels })
    }
}
