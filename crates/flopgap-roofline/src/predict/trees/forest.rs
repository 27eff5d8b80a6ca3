//! A forest with out-of-fold predictions.

use rayon::prelude::*;

use crate::predict::FitError;
use crate::predict::trees::extra_trees::Trees;
use crate::predict::trees::split::splits;

/// How a forest is grown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growth {
    pub(crate) seed: u64,
    /// Parts that each row is left out of once in a round.
    pub(crate) folds: usize,
    /// Times that the rows are cut again.
    pub(crate) rounds: usize,
    /// Trees of a part.
    pub(crate) trees: usize,
    /// Rows of a leaf at least.
    pub(crate) leaf: usize,
}

/// Trees in parts, each of which did not see some of the rows.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Forest {
    parts: Vec<Trees>,
    /// For each row that was fitted, the prediction of the trees that did not see it.
    pub(crate) unseen: Vec<f64>,
}

impl Forest {
    /// Grows trees over rows of equally many features. Rows of one group are left out together.
    pub(crate) fn fit(
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
                let predicted = trees.predict(&pick(&split.left))?;
                Ok((trees, split.left.into_iter().zip(predicted).collect()))
            })
            .collect::<Result<_, FitError>>()?;
        let mut unseen = vec![0.0; rows.len()];
        let mut parts = Vec::with_capacity(grown.len());
        for (trees, predicted) in grown {
            for (row, value) in predicted {
                unseen[row] += value / growth.rounds as f64;
            }
            parts.push(trees);
        }
        Ok(Self { parts, unseen })
    }

    /// The mean of all trees for each row.
    pub(crate) fn predict(&self, rows: &[Vec<f64>]) -> Result<Vec<f64>, FitError> {
        let mut sums = vec![0.0; rows.len()];
        for part in &self.parts {
            for (sum, value) in sums.iter_mut().zip(part.predict(rows)?) {
                *sum += value / self.parts.len() as f64;
            }
        }
        Ok(sums)
    }
}
