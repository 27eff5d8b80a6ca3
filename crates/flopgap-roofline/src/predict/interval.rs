//! Intervals from residuals of rows that trees did not see: split conformal prediction, by regime.
//!
//! Vovk et al., "Algorithmic Learning in a Random World" (2005), section 4.5 (Mondrian predictors): the interval of a group comes from the
//! residuals of that group alone, so that it covers in each group.

use super::regime::Regime;

/// Fewest residuals that a group's own interval comes from.
const LEAST: usize = 30;

/// Half-widths of intervals on a logarithm.
#[derive(Debug, Clone)]
pub(super) struct Intervals {
    level: f64,
    /// Residuals that intervals are from, each with its regime, ascending by magnitude.
    by_regime: Vec<(Regime, f64)>,
    all: f64,
}

impl Intervals {
    /// From residuals (measured over predicted, logarithms) and the regimes of their rows.
    pub(super) fn of(residuals: &[(Regime, f64)], level: f64, without: f64) -> Self {
        let all = quantile(residuals.iter().map(|(_, residual)| residual.abs()).collect(), level)
            .unwrap_or(without);
        let mut regimes: Vec<Regime> = residuals.iter().map(|(regime, _)| *regime).collect();
        regimes.sort_unstable();
        regimes.dedup();
        let widths = regimes.into_iter().filter_map(|regime| {
            let own: Vec<f64> = residuals
                .iter()
                .filter(|(other, _)| *other == regime)
                .map(|(_, residual)| residual.abs())
                .collect();
            if own.len() < LEAST { None } else { quantile(own, level).map(|width| (regime, width)) }
        });
        Self { level, by_regime: widths.collect(), all }
    }

    /// Half-width for a regime; that of all rows where the regime has too few.
    pub(super) fn width(&self, regime: Regime) -> f64 {
        self.by_regime.iter().find(|(other, _)| *other == regime).map_or(self.all, |(_, width)| *width)
    }

    /// The share of runs that the intervals are to hold.
    pub(super) fn level(&self) -> f64 {
        self.level
    }
}

/// The conformal quantile: the `ceil((n + 1) level)`-th smallest of `n` residuals, or the largest.
pub(super) fn quantile(mut values: Vec<f64>, level: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a level below 1 times a length"
    )]
    let rank = (((values.len() + 1) as f64) * level).ceil() as usize;
    values.get(rank.min(values.len()).checked_sub(1)?).copied()
}
