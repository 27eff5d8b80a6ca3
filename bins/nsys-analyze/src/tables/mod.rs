//! Answers as tables.

mod attention;
mod comparison;
mod diff;
mod kernels;
mod passes;
mod report;

use flopgap_report::table::Cell;

pub(crate) use attention::attention;
pub(crate) use comparison::comparison;
pub(crate) use diff::diff;
pub(crate) use kernels::{KernelNames, kernel_pairs, kernels};
pub(crate) use passes::{passes, process_cell};
pub(crate) use report::report;

/// Nanoseconds as milliseconds to the microsecond.
pub(crate) fn ms(ns: f64) -> Cell {
    Cell::float(ns / 1e6, 3)
}

/// Nanoseconds as microseconds to the nanosecond.
fn us(ns: f64) -> Cell {
    Cell::float(ns / 1e3, 3)
}
