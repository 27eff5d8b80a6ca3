//! A forest with out-of-fold predictions.

use rayon::prelude::*;

use super::FitError;
use super::split::splits;
use super::trees::Trees;

/// How a forest is grown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    pub(super) seed: u64,
    /// Parts that each row is left out of once in a round.
    pub(super) folds: usize,
    /// Times that the rows are cut again.
    pub(super) rounds: usize,
    /// Trees of a part.
    pub(super) trees: usize,
    /// Rows of a leaf at least.
    pub(super) leaf: usize,
}

/// Trees in parts, each of which did not see some of the rows.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Forest {
    parts: Vec<Trees>,
    /// For each row that was fitted, the prediction of the trees that did not see it.
    pub(super) unseen: Vec<f64>,
}

impl Forest {
    /// Grows trees over rows of equally many features. Rows of one group are left out together.
    pub(super) fn fit(
        rows: &[Vec<f64>],
        groups: &[u64],
        targets: &[f64],
        growth: Growth,
    ) -> Result<Self, FitError> {
        let grown: Vec<(Trees, Vec<(usize, f64)>)> = splits(groups, growth.folds, growth.rounds, growth.seed)
            .into_par_iter()
            .map(|split| {
                let pick = |of: &[usize]| of.iter().map(|&row| rows[row].clone()).collect::<Vec<_>>();
                let kept: Vec<f64> = split.kept.iter().map(|&row| targets[row]).collect();
                let trees = Trees::grow(&pick(&split.kept), &kept, (growth.trees, growth.leaf), split.seed)?;
                let said = trees.predict(&pick(&split.left))?;
                Ok((trees, split.left.into_iter().zip(said).collect()))
            })
            .collect::<Result<_, FitError>>()?;
        let mut unseen = vec![0.0; rows.len()];
        let mut parts = Vec::with_capacity(grown.len());
        for (trees, said) in grown {
            for (row, value) in said {
                unseen[row] += value / growth.rounds as f64;
            }
            parts.push(trees);
        }
        Ok(Self { parts, unseen })
    }

    /// The mean of all trees for each row.
    pub(super) fn predict(&self, rows: &[Vec<f64>]) -> Result<Vec<f64>, FitError> {
        let mut sums = vec![0.0; rows.len()];
        for part in &self.parts {
            for (sum, value) in sums.iter_mut().zip(part.predict(rows)?) {
                *sum += value / self.parts.len() as f64;
            }
        }
        Ok(sums)
    }
}
