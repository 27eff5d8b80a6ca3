//! A forest that predicts rows it was not grown from, too.
//!
//! The rows are cut into folds, several times over; the trees of one part never see one fold. A row's own
//! residual is taken from the trees that did not see it, so that intervals need no rows of their own.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use smartcore::ensemble::extra_trees_regressor::{ExtraTreesRegressor, ExtraTreesRegressorParameters};
use smartcore::linalg::basic::matrix::DenseMatrix;

use super::FitError;

type Trees = ExtraTreesRegressor<f64, f64, DenseMatrix<f64>, Vec<f64>>;

/// How a forest is grown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    pub(super) seed: u64,
    /// Parts that each row is left out of once in a round.
    pub(super) folds: usize,
    /// Times that the rows are cut anew.
    pub(super) rounds: usize,
    /// Trees of a part.
    pub(super) trees: usize,
    /// Rows of a leaf at least.
    pub(super) leaf: usize,
}

/// Trees and what they say about the rows that they did not see.
#[derive(Debug)]
pub(super) struct Forest {
    parts: Vec<Trees>,
    columns: usize,
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
        let columns = rows.first().map_or(0, Vec::len);
        let mut distinct = groups.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let folds = growth.folds.min(distinct.len());
        if columns == 0 || folds < 2 {
            return Err(FitError::TooFew { needed: 2, found: distinct.len() });
        }
        let cuts: Vec<Vec<usize>> = (0..growth.rounds)
            .map(|round| cut(&distinct, groups, folds, growth.seed.wrapping_add(round as u64)))
            .collect();
        let jobs: Vec<(usize, usize)> =
            (0..growth.rounds).flat_map(|round| (0..folds).map(move |fold| (round, fold))).collect();
        let grown: Vec<(Trees, Vec<(usize, f64)>)> = jobs
            .par_iter()
            .map(|&(round, fold)| {
                let of = &cuts[round];
                let kept: Vec<usize> = (0..rows.len()).filter(|&row| of[row] != fold).collect();
                let left: Vec<usize> = (0..rows.len()).filter(|&row| of[row] == fold).collect();
                let x = matrix(&kept.iter().map(|&row| &*rows[row]).collect::<Vec<_>>(), columns)?;
                let y: Vec<f64> = kept.iter().map(|&row| targets[row]).collect();
                let parameters = ExtraTreesRegressorParameters::default()
                    .with_n_trees(growth.trees)
                    .with_m(columns)
                    .with_min_samples_leaf(growth.leaf)
                    .with_seed(growth.seed.wrapping_add(((round * folds + fold) * 1000) as u64));
                let trees = Trees::fit(&x, &y, parameters).map_err(|failed| refused(&failed))?;
                let asked = matrix(&left.iter().map(|&row| &*rows[row]).collect::<Vec<_>>(), columns)?;
                let said = trees.predict(&asked).map_err(|failed| refused(&failed))?;
                Ok((trees, left.into_iter().zip(said).collect()))
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
        Ok(Self { parts, columns, unseen })
    }

    /// The mean of all trees for each row.
    pub(super) fn predict(&self, rows: &[Vec<f64>]) -> Result<Vec<f64>, FitError> {
        let mut sums = vec![0.0; rows.len()];
        if rows.is_empty() {
            return Ok(sums);
        }
        let x = matrix(&rows.iter().map(|row| &**row).collect::<Vec<_>>(), self.columns)?;
        for part in &self.parts {
            for (sum, value) in sums.iter_mut().zip(part.predict(&x).map_err(|failed| refused(&failed))?) {
                *sum += value / self.parts.len() as f64;
            }
        }
        Ok(sums)
    }
}

fn refused(failed: &smartcore::error::Failed) -> FitError {
    FitError::Forest(failed.to_string())
}

fn matrix(rows: &[&[f64]], columns: usize) -> Result<DenseMatrix<f64>, FitError> {
    let values: Vec<f64> = rows.iter().flat_map(|row| row.iter().copied()).collect();
    DenseMatrix::new(rows.len(), columns, values, false).map_err(|failed| refused(&failed))
}

/// The fold of each row: a seeded shuffle of the groups, cut evenly.
fn cut(distinct: &[u64], groups: &[u64], folds: usize, seed: u64) -> Vec<usize> {
    let mut shuffled = distinct.to_vec();
    shuffled.sort_by_key(|group| (mix(seed, *group), *group));
    let fold: FxHashMap<u64, usize> =
        shuffled.into_iter().enumerate().map(|(place, group)| (group, place % folds)).collect();
    groups.iter().map(|group| fold.get(group).copied().unwrap_or_default()).collect()
}

/// `SplitMix64`'s output function (Steele, Lea, Flood, 2014) over a seed and a number.
pub(super) const fn mix(seed: u64, number: u64) -> u64 {
    let mut z = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
