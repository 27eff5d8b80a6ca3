//! A trace in the format that Perfetto opens: a timeline.
//!
//! It is written while the tables are scanned, so a large trace needs little memory.

mod json;
mod lanes;
mod links;
mod others;
mod perfetto;
mod window;
mod work;

use std::io;

pub use perfetto::{ExportCounts, perfetto};

use crate::error::if_recorded;
use crate::tables::session::DIAGNOSTICS;
use crate::{Error, Trace};

/// The tables of events that a timeline does not hold, with how many rows each has.
///
/// # Errors
/// When a table is damaged.
pub fn left_out(trace: &Trace) -> Result<Vec<(String, u64)>, Error> {
    let schema = trace.schema();
    let held: Vec<&str> = perfetto::DRAWN.iter().filter_map(|table| schema.table(table.name)).collect();
    let mut left_out = Vec::new();
    for table in schema.names() {
        // Records of CUDA events have a time only since 2026.
        let signs = ["start", "timestamp", "correlationId"];
        let is_event = signs.iter().any(|column| schema.slot(table, column).is_some());
        // Messages of nsys about the recording are not events of the program.
        if is_event && !held.contains(&table) && table != DIAGNOSTICS.name {
            left_out.push((table.to_owned(), trace.count(table)?));
        }
    }
    left_out.retain(|(_, rows)| *rows > 0);
    left_out.sort_unstable();
    Ok(left_out)
}

/// The rows of a table; none when it was not recorded.
fn rows<R: Iterator>(read: Result<R, Error>) -> Result<impl Iterator<Item = R::Item>, Error> {
    Ok(if_recorded(read)?.into_iter().flatten())
}

/// A failure to write the export.
fn writing(result: io::Result<()>) -> Result<(), Error> {
    result.map_err(|source| Error::Output { source })
}
