//! Extremely randomized trees (Geurts, Ernst, Wehenkel, 2006), as `smartcore` grows them.

use smartcore::ensemble::extra_trees_regressor::{ExtraTreesRegressor, ExtraTreesRegressorParameters};
use smartcore::linalg::basic::matrix::DenseMatrix;

use super::FitError;

/// Trees over rows of equally many features.
#[derive(Debug)]
pub(super) struct Trees {
    trees: ExtraTreesRegressor<f64, f64, DenseMatrix<f64>, Vec<f64>>,
    columns: usize,
}

impl Trees {
    /// Grows so many trees, each leaf of at least `leaf` rows.
    pub(super) fn grow(
        rows: &[Vec<f64>],
        targets: &[f64],
        (trees, leaf): (usize, usize),
        seed: u64,
    ) -> Result<Self, FitError> {
        let columns = rows.first().map_or(0, Vec::len);
        // Trees of one forest are seeded by consecutive numbers.
        let seed = seed << 16;
        let parameters = ExtraTreesRegressorParameters::default()
            .with_n_trees(trees)
            .with_m(columns)
            .with_min_samples_leaf(leaf)
            .with_seed(seed);
        let targets = targets.to_vec();
        let trees = ExtraTreesRegressor::fit(&matrix(rows, columns)?, &targets, parameters)
            .map_err(|failed| refused(&failed))?;
        Ok(Self { trees, columns })
    }

    /// The mean of the trees for each row.
    pub(super) fn predict(&self, rows: &[Vec<f64>]) -> Result<Vec<f64>, FitError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        self.trees.predict(&matrix(rows, self.columns)?).map_err(|failed| refused(&failed))
    }
}

fn refused(failed: &smartcore::error::Failed) -> FitError {
    FitError::Forest(failed.to_string())
}

fn matrix(rows: &[Vec<f64>], columns: usize) -> Result<DenseMatrix<f64>, FitError> {
    let values: Vec<f64> = rows.iter().flatten().copied().collect();
    DenseMatrix::new(rows.len(), columns, values, false).map_err(|failed| refused(&failed))
}
