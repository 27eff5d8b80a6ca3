//! A file as a table again.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;

use super::provenance::{FORMAT, PREFIX, Provenance, VERSION};
use crate::table::{Read, most_rows};
use crate::{Error, Table};

/// A table that was written by [`write()`](super::write).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stored {
    /// The table. [`Table::read`] streams its record batches, and [`Table::select`] leaves out
    /// columns, which are not read then.
    pub table: Table,
    /// Where its rows come from.
    pub provenance: Provenance,
    /// How many rows it has.
    pub rows: u64,
}

/// Opens a file that [`write()`](super::write) wrote. Of its rows none is read yet.
///
/// # Errors
/// [`Error::Io`]; [`Error::Parquet`] for a file that is not Parquet, cut off or damaged;
/// [`Error::ForeignParquet`] for one of another program, and [`Error::NewerParquet`] for one of a
/// newer version of flopgap. What is damaged further on is an error of the batch.
pub fn read(path: impl AsRef<Path>) -> Result<Stored, Error> {
    let path: Arc<Path> = path.as_ref().into();
    let file = File::open(&path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    let damaged = |source| Error::Parquet { path: path.to_path_buf(), source };
    let metadata = guarded(&path, || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()))?;
    let of_file = metadata.metadata().file_metadata();
    let entries = of_file.key_value_metadata().into_iter().flatten();
    let mut entries: BTreeMap<String, String> = entries
        .filter_map(|entry| Some((entry.key.strip_prefix(PREFIX)?.to_owned(), entry.value.clone()?)))
        .collect();
    if entries.remove("format").as_deref() != Some(FORMAT) {
        return Err(Error::ForeignParquet { path: path.to_path_buf() });
    }
    let version = entries.remove("version");
    let version = version.ok_or_else(|| damaged("its metadata has no `flopgap.version`".into()))?;
    if version.parse() != Ok(VERSION) {
        return Err(Error::NewerParquet { path: path.to_path_buf(), version, supported: VERSION });
    }
    let name = entries.remove("table");
    let name = name.ok_or_else(|| damaged("its metadata has no `flopgap.table`".into()))?;
    let about = entries.remove("about").unwrap_or_default();
    let rows = u64::try_from(of_file.num_rows());
    let rows = rows.map_err(|_| damaged("its number of rows is negative".into()))?;
    // What the file says about itself is no property of the columns.
    let schema = Arc::new(Schema::new(metadata.schema().fields().clone()));
    let stored = Arc::new(Rows { path: path.clone(), metadata });
    let table = Table::of(&path, name.into(), about.into(), schema, stored);
    Ok(Stored { table, provenance: Provenance::of_entries(entries), rows })
}

/// What the library makes of the file, and why it could not: its decoders panic on some damage.
fn guarded<T, E: Into<Box<dyn StdError + Send + Sync>>>(
    path: &Path,
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T, Error> {
    let damaged = |source| Error::Parquet { path: path.to_owned(), source };
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| damaged(error.into())),
        Err(_) => Err(damaged("a page contradicts its header".into())),
    }
}

/// The rows of a file.
struct Rows {
    path: Arc<Path>,
    metadata: ArrowReaderMetadata,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Read for Rows {
    fn read(
        &self,
        columns: &[usize],
        schema: SchemaRef,
        most: usize,
    ) -> Result<Box<dyn RecordBatchReader + Send>, Error> {
        let file =
            File::open(&self.path).map_err(|source| Error::Io { path: self.path.to_path_buf(), source })?;
        let rows = most_rows(self.metadata.schema().fields().len(), most);
        let builder = guarded(&self.path, || {
            Ok::<_, ParquetError>(ParquetRecordBatchReaderBuilder::new_with_metadata(
                file,
                self.metadata.clone(),
            ))
        })?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
        let reader = guarded(&self.path, || builder.with_projection(mask).with_batch_size(rows).build())?;
        // The reader has the columns once, and in the order of the file.
        let mut stored = columns.to_vec();
        stored.sort_unstable();
        stored.dedup();
        let places = columns.iter().filter_map(|column| stored.binary_search(column).ok()).collect();
        Ok(Box::new(Batches { path: self.path.clone(), schema, reader: Some(reader), places }))
    }
}

/// A file on its way out.
struct Batches {
    path: Arc<Path>,
    schema: SchemaRef,
    /// None after an error.
    reader: Option<ParquetRecordBatchReader>,
    /// Where the columns are in a batch of the reader.
    places: Vec<usize>,
}

impl Batches {
    fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = self.places.iter().map(|&place| batch.column(place).clone()).collect();
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &rows)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = self.reader.take()?;
        let batch = guarded(&self.path, || {
            let batch = reader.next().transpose()?;
            batch.map(|batch| self.batch(&batch)).transpose()
        });
        // After an error there is no reader any more.
        if matches!(batch, Ok(Some(_))) {
            self.reader = Some(reader);
        }
        batch.map_err(ArrowError::from).transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
