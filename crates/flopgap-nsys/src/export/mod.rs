//! A trace in formats that other tools open: a timeline for Perfetto, and plain CSV.
//!
//! Both are written while the tables are scanned, so a large trace needs little memory.

mod annotations;
mod csv;
mod json;
mod lanes;
mod links;
mod perfetto;
mod window;
mod work;

use std::io;
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use csv::{CsvTable, UnknownTable, csv};
pub use perfetto::{ExportCounts, perfetto};

use crate::{Error, Trace};

/// The texts of string ids, the latest kept at hand.
struct Strings<'t> {
    trace: &'t Trace,
    known: FxHashMap<i64, Arc<str>>,
}

impl<'t> Strings<'t> {
    /// Enough for every kernel and API name; a trace may have millions of distinct range names.
    const KEPT: usize = 1 << 16;

    fn new(trace: &'t Trace) -> Strings<'t> {
        Strings { trace, known: FxHashMap::default() }
    }

    fn get(&mut self, id: i64) -> Result<Arc<str>, Error> {
        if let Some(text) = self.known.get(&id) {
            return Ok(text.clone());
        }
        if self.known.len() >= Self::KEPT {
            self.known.clear();
        }
        let text = self.trace.string_or_id(id)?;
        self.known.insert(id, text.clone());
        Ok(text)
    }
}

/// A failure to write the export.
fn writing(result: io::Result<()>) -> Result<(), Error> {
    result.map_err(|source| Error::Output { source })
}
