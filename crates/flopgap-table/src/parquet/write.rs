//! A table into a file.

use std::error::Error as StdError;
use std::io::{self, Write as _};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use flopgap_fs::{WriteError, write_atomic_with};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use super::Provenance;
use super::checksum::{placeholder, seal};
use super::derived::Derived;
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
/// `end_ns` is not stored beside `start_ns` and `duration_ns`, whose sum it is;
/// [`read()`](super::read) has it again.
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
    let mut derived = Derived::of(&table.schema());
    loop {
        let rows = match attempt(table, path, provenance, derived.as_ref()) {
            Ok(rows) => rows,
            // Then the column is stored, for all rows.
            Err(Stop::Contradiction) => {
                derived = None;
                continue;
            }
            Err(Stop::Failed(error)) => return Err(error),
        };
        let bytes = path.metadata().map_err(|source| WriteError::new(path, source))?.len();
        return Ok(Written { rows, bytes });
    }
}

/// Why a file is not written.
enum Stop {
    Failed(Error),
    /// A row in which a column is not what was to be derived.
    Contradiction,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

impl From<WriteError> for Stop {
    fn from(error: WriteError) -> Stop {
        Stop::Failed(error.into())
    }
}

/// Writes all rows, without a column that follows from others, and returns how many they are.
fn attempt(
    table: &Table,
    path: &Path,
    provenance: &Provenance,
    derived: Option<&Derived>,
) -> Result<u64, Stop> {
    let failed = |error| failed(path, table.name(), error);
    let mut batches = table.read_most(BATCH)?;
    let mut next = || -> Result<Option<RecordBatch>, Stop> {
        let batch =
            batches.next().transpose().map_err(|error| own_or(error, |source| table.arrow(source)))?;
        let Some(derived) = derived else { return Ok(batch) };
        batch.map(|batch| derived.without(&batch).ok_or(Stop::Contradiction)).transpose()
    };
    let first = next()?;
    let mut entries = provenance.entries(table.name(), table.about());
    entries.extend(derived.map(Derived::entry));
    let schema = stored(table, derived)?;
    let properties = properties(&schema, first.as_ref(), entries).map_err(failed)?;
    let io = |source| WriteError::new(path, source);
    write_atomic_with(path, |file| {
        let mut writer = ArrowWriter::try_new(&mut *file, schema, Some(properties)).map_err(failed)?;
        let (mut rows, mut batch) = (0, first);
        while let Some(some) = batch {
            writer.write(&some).map_err(failed)?;
            rows += some.num_rows() as u64;
            batch = next()?;
        }
        writer.flush().map_err(failed)?;
        let chunks = writer.flushed_row_groups().iter().map(|group| group.columns().len()).sum();
        writer.append_key_value_metadata(placeholder(chunks));
        let metadata = writer.close().map_err(failed)?;
        file.flush().map_err(io)?;
        seal(file.get_ref(), &metadata).map_err(io)?;
        Ok(rows)
    })
}

/// The columns that are stored.
fn stored(table: &Table, derived: Option<&Derived>) -> Result<SchemaRef, Error> {
    let schema = table.schema();
    let Some(derived) = derived else { return Ok(schema) };
    let others: Vec<usize> = (0..schema.fields().len()).filter(|&place| place != derived.place).collect();
    schema.project(&others).map(SchemaRef::new).map_err(|source| table.arrow(source))
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
