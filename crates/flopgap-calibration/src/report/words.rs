//! Numbers in sentences and cells.

use flopgap_report::numbers;
pub use flopgap_report::numbers::duration;
use flopgap_report::table::{Cell, Column};

use crate::accuracy::Errors;

/// Bytes as megabytes (10⁶): `12.3 MB`.
pub fn megabytes(bytes: f64) -> String {
    format!("{} MB", numbers::float(bytes / 1e6, 1))
}

/// A share as a percentage: `15.3%`.
pub(super) fn percent(fraction: f64) -> String {
    numbers::percent(fraction, 1)
}

/// Columns of the statistics of errors.
pub(super) fn error_columns() -> Vec<Column> {
    vec![
        Column::number("rows", "rows"),
        Column::number("mape", "MAPE†"),
        Column::number("median", "median"),
        Column::number("p90", "p90"),
        Column::number("worst", "worst"),
        Column::number("bias", "bias"),
    ]
}

/// The cells below [`error_columns`].
pub(super) fn error_cells(errors: Option<Errors>) -> Vec<Cell> {
    let Some(errors) = errors else { return vec![Cell::Absent; 6] };
    vec![
        Cell::from(errors.count as u64),
        Cell::percent(errors.mape, 1),
        Cell::percent(errors.median, 1),
        Cell::percent(errors.p90, 1),
        Cell::percent(errors.worst, 1),
        Cell::signed_percent(errors.bias, 1),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_suits_them() {
        assert_eq!(megabytes(12_345_678.0), "12.3 MB");
    }
}
