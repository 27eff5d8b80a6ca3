//! Which sizes were fitted: beyond them a prediction is an extrapolation.

use flopgap_flops::Precision;
use flopgap_graph::Mode;
use rustc_hash::FxHashMap;

use super::shape::{Family, Shape};

/// Sizes may exceed what was fitted by this much before that counts.
const SLACK: f64 = 1.1;

type Key = (Family, Precision, Mode);

/// Least and largest sizes of each kind of step.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranges {
    by_key: FxHashMap<Key, [[f64; 2]; 6]>,
}

impl Ranges {
    pub(super) fn include(&mut self, shape: &Shape, precision: Precision, mode: Mode) {
        let range = self
            .by_key
            .entry((shape.family, precision, mode))
            .or_insert([[f64::INFINITY, f64::NEG_INFINITY]; 6]);
        for (range, size) in range.iter_mut().zip(sizes(shape)) {
            *range = [range[0].min(size), range[1].max(size)];
        }
    }

    /// Whether a step lies outside of what was fitted.
    pub(super) fn outside(&self, shape: &Shape, precision: Precision, mode: Mode) -> bool {
        let Some(range) = self.by_key.get(&(shape.family, precision, mode)) else { return true };
        range
            .iter()
            .zip(sizes(shape))
            .any(|([least, most], size)| size < least / SLACK || size > most * SLACK)
    }
}

fn sizes(shape: &Shape) -> [f64; 6] {
    [shape.batch, shape.m, shape.n, shape.k, shape.flops, shape.elements()]
}
