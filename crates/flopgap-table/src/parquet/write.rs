//! A table into a file.

use std::error::Error as StdError;
use std::io;
use std::path::Path;

use flopgap_files::{WriteError, write_atomic_with};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use super::Provenance;
use super::encoding::{BATCH, properties};
use crate::table::own_or;
use crate::{Error, Table};

/// What [`write()`] wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes a table as a Parquet file. The file appears whole or not at all, and replaces one of its
/// name.
///
/// Rows are read and written as they come: no more than a batch and a compressed row group is held.
///
/// ```
/// use flopgap_table::{Source, parquet};
///
/// # let folder = tempfile::tempdir()?;
/// # let output = folder.path().join("kernels.parquet");
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
/// let source = Source::open(path)?;
/// let written = parquet::write(&source.table("kernels")?, &output, &source.provenance()?)?;
/// assert_eq!(written.rows, 838);
/// let stored = parquet::read(&output)?;
/// assert_eq!(stored.provenance, source.provenance()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// What is wrong with the table's source, and when the file cannot be written: [`Error::Write`].
pub fn write(table: &Table, path: impl AsRef<Path>, provenance: &Provenance) -> Result<Written, Error> {
    let path = path.as_ref();
    let failed = |error| failed(path, table.name(), error);
    let mut batches = table.read_most(BATCH)?;
    let mut next = || batches.next().transpose().map_err(|error| own_or(error, |source| table.arrow(source)));
    let first = next()?;
    let schema = table.schema();
    let entries = provenance.entries(table.name(), table.about());
    let properties = properties(&schema, first.as_ref(), entries).map_err(failed)?;
    let rows = write_atomic_with(path, |file| {
        let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).map_err(failed)?;
        let (mut rows, mut batch) = (0, first);
        while let Some(some) = batch {
            writer.write(&some).map_err(failed)?;
            rows += some.num_rows() as u64;
            batch = next()?;
        }
        writer.close().map_err(failed)?;
        Ok::<_, Error>(rows)
    })?;
    let bytes = path.metadata().map_err(|source| WriteError::new(path, source))?.len();
    Ok(Written { rows, bytes })
}

/// The system error where it is the cause, else the error of the library.
fn failed(path: &Path, table: &str, error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => WriteError::new(path, *source).into(),
            Err(source) => not_written(path, table, source),
        },
        error => not_written(path, table, error.into()),
    }
}

fn not_written(path: &Path, table: &str, source: Box<dyn StdError + Send + Sync>) -> Error {
    Error::NotWritten { path: path.to_owned(), table: table.to_owned(), source }
}
