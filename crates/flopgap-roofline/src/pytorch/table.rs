//! Measured calls of one kind, interpolated.

use std::collections::{BTreeMap, BTreeSet};

use super::{Kind, Row};
use crate::kriging::{Field, Scale};

/// The fewest calls between which anything is interpolated.
const FEWEST: usize = 4;

/// Measured calls of one kind and arithmetic.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// Logarithms of times in units ([`Call::unit`](super::Call::unit)).
    times: Field,
    /// How many kernels each call has, at each place of a sequence.
    kernels: Vec<f64>,
    /// Sums of the logarithms and of their squares.
    sums: [f64; 2],
    /// The forms of its calls.
    pub(super) forms: BTreeSet<[u64; 2]>,
    /// By operator, whether its calls launch anything (1) or nothing (0), as the backward of most
    /// views does.
    launches: BTreeMap<String, Field>,
    scales: &'static [Scale],
}

/// What lies between the measured calls.
pub(super) struct Between {
    pub(super) value: f64,
    pub(super) deviation: f64,
    pub(super) kernels: f64,
}

impl Table {
    pub(super) fn new(kind: Kind) -> Self {
        let scales = kind.scales();
        let (times, launches, forms) = (Field::new(scales), BTreeMap::new(), BTreeSet::new());
        Self { times, kernels: Vec::new(), sums: [0.0; 2], forms, launches, scales }
    }

    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// Adds a call by its rows.
    pub(super) fn push(&mut self, point: &[f64], rows: &[&Row], unit: f64) {
        self.forms.extend(rows.iter().map(|row| row.call.form()));
        let kernels = rows.iter().map(|row| row.kernels).sum::<f64>() / rows.len() as f64;
        let launches = u8::from(kernels >= 0.5);
        let operator = rows[0].call.operator.to_string();
        let field = self.launches.entry(operator).or_insert_with(|| Field::new(self.scales));
        field.push(point, f64::from(launches));
        if launches == 0 {
            return;
        }
        let mut times: Vec<f64> = rows.iter().map(|row| row.nanoseconds).collect();
        times.sort_by(f64::total_cmp);
        let value = (times[times.len() / 2] / unit).ln();
        self.times.push(point, value);
        self.kernels.push(kernels / rows[0].call.steps());
        self.sums = [self.sums[0] + value, self.sums[1] + value * value];
    }

    /// The standard deviation of the logarithms.
    pub(super) fn spread(&self) -> f64 {
        let [mean, squares] = self.sums.map(|sum| sum / self.len() as f64);
        (squares - mean * mean).max(0.0).sqrt()
    }

    /// Whether a call of an operator launches anything, as the nearest measured one; `None` of an
    /// operator that was never measured.
    pub(super) fn launches(&self, operator: &str, point: &[f64]) -> Option<bool> {
        Some(self.launches.get(operator)?.nearest(point)? > 0.5)
    }

    /// Whether calls of an operator were measured.
    pub(super) fn has(&self, operator: &str) -> bool {
        self.launches.contains_key(operator)
    }

    pub(super) fn at(&self, point: &[f64]) -> Option<Between> {
        let guess = self.times.at(point).filter(|_| self.len() >= FEWEST)?;
        let kernels = self.kernels[guess.nearest];
        Some(Between { value: guess.value, deviation: guess.deviation, kernels })
    }
}
