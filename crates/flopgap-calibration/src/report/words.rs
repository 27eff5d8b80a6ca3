//! Numbers in sentences and cells.

use flopgap_report::numbers;
use flopgap_report::table::{Cell, Column};

use crate::accuracy::Errors;

/// A time with the unit that suits it: `12.3 µs`.
pub fn duration(nanoseconds: f64) -> String {
    numbers::si_with_unit(nanoseconds * 1e-9, "s")
}

/// Bytes as megabytes (10⁶): `12.3 MB`.
pub fn megabytes(bytes: f64) -> String {
    format!("{} MB", numbers::float(bytes / 1e6, 1))
}

/// Bytes with a binary prefix, as caches are sized: `48 KiB`.
pub(super) fn binary(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor {
            let value = bytes as f64 / factor as f64;
            return format!("{} {unit}", numbers::float(value, usize::from(!bytes.is_multiple_of(factor))));
        }
    }
    format!("{bytes} B")
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
        assert_eq!(duration(12_340.0), "12.3 µs");
        assert_eq!(duration(1.5e9), "1.50 s");
        assert_eq!(megabytes(12_345_678.0), "12.3 MB");
        assert_eq!([48 << 10, 1 << 20, 100].map(binary), ["48 KiB", "1 MiB", "100 B"]);
    }
}
