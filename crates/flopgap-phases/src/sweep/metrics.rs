//! `processed/metrics.csv`: one row for each configuration and pass.

use std::fs::File;
use std::path::Path;

use crate::{Analysis, PassAnalysis};
use flopgap_files::write_atomic;
use flopgap_flops::{ClassFlops, Decomposition, FlopError, Pass};
use serde::{Deserialize, Serialize};

use crate::sweep::{Config, RunError, RunFault};

/// One row of `processed/metrics.csv`: the counted and the theoretical FLOPs of a pass, and the
/// overheads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricsRow {
    /// Layers.
    pub n: u64,
    /// Width.
    pub d: u64,
    /// Columns.
    pub m: u64,
    /// The pass.
    pub pass: Pass,
    /// Counted FLOPs of matrix products.
    pub gemm: u64,
    /// Counted FLOPs of split-K reductions (and of the loss reduction, in the backward pass).
    pub split_k: u64,
    /// Counted FLOPs of element-wise kernels.
    pub activation: u64,
    /// Counted FLOPs of all other kernels.
    pub other: u64,
    /// All counted FLOPs: the sum of the four classes.
    pub total: u64,
    /// The closed form's FLOPs of matrix products.
    pub theory_gemm: u64,
    /// The closed form's FLOPs of activations.
    pub theory_activation: u64,
    /// `gemm / theory_gemm − 1`.
    pub epsilon: f64,
    /// `split_k` by the closed form's activation count.
    pub rho: f64,
    /// `activation / theory_activation − 1`.
    pub kappa: f64,
    /// `total / (theory_gemm + theory_activation) − 1`.
    pub omega: f64,
    /// The total reconstructed from the closed form and the overheads, as a check: equal to
    /// `total`.
    pub reconstructed: u64,
}

impl MetricsRow {
    /// The two rows of an analyzed configuration, forward first.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when counts that were changed by hand no longer add up within `u64`.
    pub fn of(config: Config, analysis: &Analysis) -> Result<[MetricsRow; 2], FlopError> {
        let row = |pass, part: &PassAnalysis| {
            let Decomposition { measured, theory, factors, reconstructed, .. } = &part.decomposition;
            let ClassFlops { gemm, split_k, activation, other } = *measured;
            Ok(MetricsRow {
                n: config.n,
                d: config.d,
                m: config.m,
                pass,
                gemm,
                split_k,
                activation,
                other,
                total: measured.total()?,
                theory_gemm: theory.gemm,
                theory_activation: theory.activation,
                epsilon: factors.epsilon,
                rho: factors.rho,
                kappa: factors.kappa,
                omega: factors.omega,
                reconstructed: *reconstructed,
            })
        };
        Ok([row(Pass::Forward, &analysis.forward)?, row(Pass::Backward, &analysis.backward)?])
    }

    /// The configuration of the row.
    pub fn config(&self) -> Config {
        Config { n: self.n, d: self.d, m: self.m }
    }
}

/// Writes the table, whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn write_metrics(path: &Path, rows: &[MetricsRow]) -> Result<(), RunError> {
    let table = not_a_table(path);
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).map_err(&table)?;
    }
    let bytes = writer.into_inner().map_err(|error| table(error.into_error().into()))?;
    Ok(write_atomic(path, &bytes)?)
}

/// Reads a table that [`write_metrics`] wrote.
///
/// # Errors
/// When the file cannot be read, or a cell has the wrong type (with line and field).
pub fn read_metrics(path: &Path) -> Result<Vec<MetricsRow>, RunError> {
    let file = File::open(path).map_err(RunFault::io(path))?;
    csv::Reader::from_reader(file).deserialize().map(|row| row.map_err(not_a_table(path))).collect()
}

fn not_a_table(path: &Path) -> impl Fn(csv::Error) -> RunError + '_ {
    |error| RunFault::Table { source: error.into() }.at(path)
}
