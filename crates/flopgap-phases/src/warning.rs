//! Warnings about the numbers of a recording.

use std::path::{Path, PathBuf};

use flopgap_flops::{Pass, Plausibility};

/// A reason to question numbers that are not impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A warning of the report.
    #[error("{}", warning.of_file(path))]
    Report {
        /// The report.
        path: PathBuf,
        /// The warning, with its position.
        warning: flopgap_ncu::Warning,
    },
    /// ncu printed counts rounded, such as `1.32 Minst`: sums may be off by half a percent.
    #[error(
        "{}: ncu printed counts rounded (such as `1.32 Minst`), so sums may be off by half a percent; \
         `ncu --print-units base` prints them whole",
        path.display()
    )]
    RoundedCounts {
        /// The report.
        path: PathBuf,
    },
    /// Half-precision instructions that may be arithmetic, constants or conversions are in no sum.
    #[error(
        "{}:{position}: {operations} half-precision operations of {launches} launches, the first of `{kernel}`, may be \
         arithmetic, constants or conversions, which the counters do not distinguish; they are not counted",
        path.display()
    )]
    UndecidedHalf {
        /// The report.
        path: PathBuf,
        /// Line or result index of the first launch.
        position: u64,
        /// The kernel of the first launch.
        kernel: String,
        /// Their number of operations, if they are operations.
        operations: u64,
        /// The number of such launches.
        launches: u64,
    },
    /// The counts of a pass are far above its theory.
    #[error("{pass}: {verdict}")]
    FarAbove {
        /// The pass.
        pass: Pass,
        /// The counts and the likely causes.
        verdict: Plausibility,
    },
    /// Launches are in none of the ranges setup, forward and backward, and in no pass.
    #[error(
        "{launches} launches with {flops} FLOPs are outside of the ranges setup, forward and backward and are counted in no \
         pass"
    )]
    Outside {
        /// Their number.
        launches: usize,
        /// Their FLOPs.
        flops: u64,
    },
}

impl Warning {
    /// The warnings of a report.
    pub(crate) fn of_report(path: &Path, warnings: &[flopgap_ncu::Warning]) -> Vec<Warning> {
        let of_file = |warning: &flopgap_ncu::Warning| Warning::Report {
            path: path.to_owned(),
            warning: warning.clone(),
        };
        warnings.iter().map(of_file).collect()
    }
}
