//! Warnings of CSV tables.

use std::fmt;

use flopgap_flops::Precision;

/// Something that a reader of a table must know: what was left out, what contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SheetWarning {
    /// A measured memory of 0 was read as "not measured".
    ZeroMemory {
        /// Rows with such a value.
        rows: usize,
    },
    /// The recorded error of a time contradicts the times of its row and was ignored.
    ContradictoryError {
        /// Rows with such an error.
        rows: usize,
    },
    /// The table estimates memory traffic but not memory in use, so memory is not compared.
    MemoryTraffic,
    /// Measured rows without an estimate were left out.
    NotEstimated {
        /// Rows left out.
        rows: usize,
        /// All measured rows.
        measured: usize,
    },
    /// Estimates of rows that were not measured were left out.
    NotMeasured {
        /// Estimates left out.
        rows: usize,
        /// All estimates.
        estimates: usize,
    },
    /// Rows whose columns do not describe what was run were left out.
    NoWorkload {
        /// Rows left out.
        rows: usize,
    },
    /// Rows in a precision that is not known here were left out.
    UnknownPrecision {
        /// Rows left out.
        rows: usize,
        /// The precision.
        name: String,
    },
    /// Rows in a launch mode that is not known here were left out.
    UnknownMode {
        /// Rows left out.
        rows: usize,
        /// The mode.
        name: String,
    },
}

impl fmt::Display for SheetWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroMemory { rows } => {
                write!(
                    f,
                    "{rows} {} a measured memory of 0, read as not measured",
                    verb(*rows, "has", "have")
                )
            }
            Self::ContradictoryError { rows } => write!(
                f,
                "{rows} {} a `time_error_pct` that contradicts the times; it is ignored",
                verb(*rows, "has", "have")
            ),
            Self::MemoryTraffic => f.write_str(
                "`analytical_memory_traffic_mb` is traffic, not memory in use; memory is not compared",
            ),
            Self::NotEstimated { rows, measured } => {
                write!(f, "{rows} of {measured} measured rows have no estimate")
            }
            Self::NotMeasured { rows, estimates } => {
                write!(f, "{rows} of {estimates} estimates belong to rows that were not measured")
            }
            Self::NoWorkload { rows } => {
                let of = verb(*rows, "does", "do");
                write!(f, "{rows} {of} not describe what was run and {} left out", was(*rows))
            }
            Self::UnknownPrecision { rows, name } => {
                let known = Precision::ALL.map(Precision::name).join(", ");
                write!(
                    f,
                    "{rows} {} left out: the precision `{name}` is none of {known}",
                    verb(*rows, "is", "are")
                )
            }
            Self::UnknownMode { rows, name } => {
                let of = verb(*rows, "is", "are");
                write!(f, "{rows} {of} left out: the mode `{name}` is none of call, stream, graph")
            }
        }
    }
}

/// `row has` or `rows have`.
fn verb(rows: usize, one: &str, many: &str) -> String {
    if rows == 1 { format!("row {one}") } else { format!("rows {many}") }
}

fn was(rows: usize) -> &'static str {
    if rows == 1 { "is" } else { "are" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_is_singular() {
        let text = |rows| SheetWarning::ZeroMemory { rows }.to_string();
        assert_eq!(text(1), "1 row has a measured memory of 0, read as not measured");
        assert_eq!(text(2), "2 rows have a measured memory of 0, read as not measured");
    }
}
