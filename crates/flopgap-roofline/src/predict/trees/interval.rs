//! Intervals from residuals of rows that trees did not see.
//!
//! Split conformal prediction with residuals in units of their expected size (Lei et al.,
//! "Distribution-free predictive inference for regression", 2018, section 5.2), by group (Vovk et
//! al., "Algorithmic learning in a random world", 2005, section 4.5): the interval of a regime
//! comes from the residuals of that regime alone, so that it covers in each of them.

use crate::predict::FitError;
use crate::predict::inputs::regime::Regime;
use crate::predict::trees::forest::{Forest, Growth};

/// Fewest residuals that a regime's own interval comes from.
const LEAST: usize = 30;
/// Fewest residuals that their size is predicted from.
const TREES: usize = 60;
/// Residuals below this are alike: a time is not measured any better.
const FLOOR: f64 = 0.005;

/// Half-widths of intervals on a logarithm.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Intervals {
    /// ln of the size of a residual.
    size: Option<Forest>,
    by_regime: Vec<(Regime, f64)>,
    all: f64,
}

/// A residual (measured over predicted, as a logarithm) with what its size may depend on.
pub(crate) struct Residual {
    pub(crate) value: f64,
    pub(crate) regime: Regime,
    pub(crate) features: Vec<f64>,
    pub(crate) group: u64,
}

impl Intervals {
    /// Intervals that hold this share of the runs; `without` where there are no residuals.
    pub(crate) fn fit(residuals: &[Residual], level: f64, seed: u64, without: f64) -> Result<Self, FitError> {
        let size = if residuals.len() >= TREES {
            let rows: Vec<Vec<f64>> = residuals.iter().map(|residual| residual.features.clone()).collect();
            let groups: Vec<u64> = residuals.iter().map(|residual| residual.group).collect();
            let targets: Vec<f64> =
                residuals.iter().map(|residual| (residual.value.abs() + FLOOR).ln()).collect();
            let growth = Growth { seed, folds: 8, rounds: 1, trees: 8, leaf: 8 };
            Some(Forest::fit(&rows, &groups, &targets, growth)?)
        } else {
            None
        };
        let scores: Vec<f64> = residuals
            .iter()
            .enumerate()
            .map(|(row, residual)| {
                let expected = size.as_ref().map_or(1.0, |forest| forest.unseen[row].exp());
                residual.value.abs() / expected
            })
            .collect();
        let by_regime = Regime::ALL.into_iter().filter_map(|regime| {
            let of_regime = residuals.iter().zip(&scores).filter(|(residual, _)| residual.regime == regime);
            let own: Vec<f64> = of_regime.map(|(_, score)| *score).collect();
            if own.len() < LEAST { None } else { quantile(own, level).map(|width| (regime, width)) }
        });
        let by_regime = by_regime.collect();
        let all = quantile(scores, level).unwrap_or(without);
        Ok(Self { size, by_regime, all })
    }

    /// Half-widths of points, by their regimes and features; that of all rows where a regime has
    /// too few.
    pub(crate) fn widths(&self, points: &[(Regime, Vec<f64>)]) -> Result<Vec<f64>, FitError> {
        let expected = match &self.size {
            Some(forest) => {
                let rows: Vec<Vec<f64>> = points.iter().map(|(_, features)| features.clone()).collect();
                forest.predict(&rows)?.into_iter().map(f64::exp).collect()
            }
            None => vec![1.0; points.len()],
        };
        Ok(points
            .iter()
            .zip(expected)
            .map(|((regime, _), expected)| {
                let own = self.by_regime.iter().find(|(other, _)| other == regime);
                expected * own.map_or(self.all, |(_, width)| *width)
            })
            .collect())
    }
}

/// The conformal quantile: the `ceil((n + 1) level)`-th smallest of `n` values, or the largest.
fn quantile(mut values: Vec<f64>, level: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a level below 1 times a length"
    )]
    let rank = (((values.len() + 1) as f64) * level).ceil() as usize;
    values.get(rank.min(values.len()).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_counts_the_row_to_come() {
        // Of 9 values and one to come, the 9th is not exceeded with probability 0.9.
        assert_eq!(quantile((1..=9).map(f64::from).collect(), 0.9), Some(9.0));
        assert_eq!(quantile((1..=19).map(f64::from).collect(), 0.9), Some(18.0));
        assert_eq!(quantile(Vec::new(), 0.9), None);
    }

    #[test]
    fn a_regime_has_the_width_of_its_own_residuals() {
        let residual = |regime, value: f64, group| Residual { value, regime, features: vec![0.0], group };
        let rows: Vec<Residual> = (0..50)
            .flat_map(|row| {
                let size = 0.001 * f64::from(row);
                [
                    residual(Regime::Launch, size, 2 * u64::try_from(row).unwrap()),
                    residual(Regime::Compute, 10.0 * size, 2 * u64::try_from(row).unwrap() + 1),
                ]
            })
            .collect();
        let found = Intervals::fit(&rows, 0.9, 1, 1.0).unwrap();
        let points = [Regime::Launch, Regime::Compute, Regime::Memory].map(|regime| (regime, vec![0.0]));
        let widths = found.widths(&points).unwrap();
        assert!((widths[0] - 0.045).abs() < 0.003, "{widths:?}");
        assert!((widths[1] - 0.45).abs() < 0.03, "{widths:?}");
        assert!(widths[2] > widths[0] && widths[2] < widths[1], "{widths:?}");
    }
}
