//! Where one color ends and the next begins.

use super::log::{exponent_of, power};
use super::{Scale, Spacing, written};
use crate::numbers::ValueFormat;

/// Bounds that a legend affords: eight colors can be distinguished.
const MOST_BOUNDS: usize = 7;
/// The colors divide what lies between these shares of the values above 0; beyond, they are open.
const CENTRAL: (f64, f64) = (0.05, 0.98);
/// Round numbers of a decade, the densest choice first. Steps of each are nearly equal on a
/// logarithmic axis.
const MANTISSAS: [&[f64]; 4] = [&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];

/// The bounds for `sorted` values: as many round numbers as can be distinguished, where most values
/// are.
pub(super) fn bounds(scale: &Scale, sorted: &[f64], format: ValueFormat) -> Vec<(f64, String)> {
    if scale.flat {
        return Vec::new();
    }
    let positive = &sorted[sorted.partition_point(|value| *value <= 0.0)..];
    let negative = sorted.first().is_some_and(|least| *least < 0.0);
    if scale.spacing == Spacing::Linear || negative || positive.is_empty() {
        // The ends of the axis are no bounds: nothing lies beyond them.
        let inner = scale.ticks.iter().filter(|(tick, _)| scale.low < *tick && *tick < scale.high);
        return inner.cloned().collect();
    }
    let at = |share: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the length")]
        let index = ((positive.len() - 1) as f64 * share).round() as usize;
        positive[index]
    };
    let (low, high) = (at(CENTRAL.0), at(CENTRAL.1));
    let round = |mantissas: &[f64]| -> Vec<f64> {
        let exponents = exponent_of(low)..=exponent_of(high);
        let all = exponents.flat_map(|exponent| mantissas.iter().map(move |one| power(*one, exponent)));
        all.filter(|bound| low < *bound && *bound <= high).collect()
    };
    let mut found = Vec::new();
    for mantissas in MANTISSAS {
        found = round(mantissas);
        if found.len() <= MOST_BOUNDS {
            break;
        }
    }
    if found.len() > MOST_BOUNDS {
        let every = found.len().div_ceil(MOST_BOUNDS);
        found = found.into_iter().step_by(every).collect();
    }
    found.into_iter().map(|bound| (bound, written(bound, format))).collect()
}
