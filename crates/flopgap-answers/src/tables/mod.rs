//! Answers as tables, for people and for CSV and JSON: their columns have units and ranks, by which
//! they give way on a narrow terminal.
//!
//! ```
//! use flopgap_answers::{Part, open, tables};
//! use flopgap_report::table::TextOptions;
//! use flopgap_timings::passes::passes;
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
//! let trace = open::open(path)?;
//! let found = passes(trace.recording(), &Part::default().passes(Vec::new()))?;
//! let tables = tables::passes(&trace.name(), &found)?;
//! assert!(tables[0].to_text(&TextOptions::default()).starts_with("Passes of small_forward\n"));
//! # Ok::<(), flopgap_answers::Error>(())
//! ```

mod attention;
mod comparison;
mod diff;
mod difference;
mod gap;
mod kernels;
mod passes;
mod report;

use flopgap_report::table::Cell;

pub use attention::attention;
pub use comparison::comparison;
pub use diff::diff;
pub use difference::difference;
pub use gap::gap;
pub use kernels::{KernelNames, kernel_pairs, kernels};
pub use passes::passes;
#[cfg(feature = "pages")]
pub(crate) use passes::process_cell;
pub use report::report;

/// Nanoseconds as milliseconds to the microsecond.
pub fn ms(ns: f64) -> Cell {
    Cell::float(ns / 1e6, 3)
}

/// Nanoseconds as microseconds to the nanosecond.
fn us(ns: f64) -> Cell {
    Cell::float(ns / 1e3, 3)
}
