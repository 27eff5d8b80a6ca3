//! A file as a table again.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use super::checksum::{Verified, verified};
use super::derived::{Derived, sum};
use super::provenance::{DERIVED_ENTRY, FORMAT, PREFIX, Provenance, VERSION};
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

/// Opens a file that [`write()`](super::write) wrote. Of its rows none is read yet. What is read
/// later is verified before it is decoded.
///
/// # Errors
/// [`Error::Io`]; [`Error::Parquet`] for a file that is not Parquet, cut off or damaged;
/// [`Error::ForeignParquet`] for one of another program, and [`Error::NewerParquet`] for one of a
/// newer version of flopgap. What is damaged further on is an error of the batch.
pub fn read(path: impl AsRef<Path>) -> Result<Stored, Error> {
    let path: Arc<Path> = path.as_ref().into();
    let file = File::open(&path).map_err(|source| Error::Io { path: path.to_path_buf(), source })?;
    let damaged = |source| Error::Parquet { path: path.to_path_buf(), source };
    let sums = verified(&file).map_err(|error| damaged(error.into()))?;
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
    let sums = sums.ok_or_else(|| damaged("its metadata has no `flopgap.crc32`".into()))?;
    let name = entries.remove("table");
    let name = name.ok_or_else(|| damaged("its metadata has no `flopgap.table`".into()))?;
    let about = entries.remove("about").unwrap_or_default();
    let derived = entries.remove(DERIVED_ENTRY).map(|entry| serde_json::from_str::<Derived>(&entry));
    let derived = derived.transpose().map_err(|error| damaged(error.into()))?;
    let rows = u64::try_from(of_file.num_rows());
    let rows = rows.map_err(|_| damaged("its number of rows is negative".into()))?;
    // What the file says about itself is no property of the columns.
    let fields = metadata.schema().fields();
    let places = Place::all(fields, derived.as_ref()).ok_or_else(|| {
        damaged("its metadata has a column that follows from columns which it does not have".into())
    })?;
    let mut fields: Vec<FieldRef> = fields.iter().cloned().collect();
    if let Some(derived) = &derived {
        fields.insert(derived.place, derived.field());
    }
    let schema = Arc::new(Schema::new(fields));
    let stored = Arc::new(Rows { path: path.clone(), metadata, sums: sums.into(), places });
    let table = Table::of(&path, name.into(), about.into(), schema, stored);
    Ok(Stored { table, provenance: Provenance::of_entries(entries), rows })
}

/// What the library makes of the file, and why it could not. Its decoders panic on some damage, of
/// which the checksums let none through.
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

/// Where the values of a column come from, by places among the stored columns.
#[derive(Debug, Clone, Copy)]
enum Place {
    Stored(usize),
    Sum(usize, usize),
}

impl Place {
    /// The stored columns that it is made of.
    fn needs(self) -> impl Iterator<Item = usize> {
        let (first, second) = match self {
            Place::Stored(place) => (place, None),
            Place::Sum(a, b) => (a, Some(b)),
        };
        std::iter::once(first).chain(second)
    }

    /// All columns of a table; none if a column does not follow from those that are stored.
    fn all(stored: &Fields, derived: Option<&Derived>) -> Option<Vec<Place>> {
        let mut places: Vec<Place> = (0..stored.len()).map(Place::Stored).collect();
        if let Some(derived) = derived {
            let [a, b] = derived.sum_of.each_ref().map(|name| {
                let (place, field) = stored.find(name)?;
                (field.data_type() == &DataType::Int64).then_some(place)
            });
            if derived.place > places.len() {
                return None;
            }
            places.insert(derived.place, Place::Sum(a?, b?));
        }
        Some(places)
    }
}

/// The rows of a file.
struct Rows {
    path: Arc<Path>,
    metadata: ArrowReaderMetadata,
    /// The checksums of its column chunks.
    sums: Arc<[u32]>,
    /// Of every column of the table.
    places: Vec<Place>,
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
        // The reader has the columns once, and in the order of the file.
        let wanted: Vec<Place> = columns.iter().map(|&column| self.places[column]).collect();
        let mut order: Vec<usize> = wanted.iter().flat_map(|place| place.needs()).collect();
        order.sort_unstable();
        order.dedup();
        let metadata = self.metadata.metadata().clone();
        let file = guarded(&self.path, || Verified::new(file, metadata, self.sums.clone()))?;
        let reader = self.reader(file, &order, rows)?;
        let at = |place| order.binary_search(&place).unwrap_or_default();
        let places = wanted.into_iter().map(|place| match place {
            Place::Stored(place) => Place::Stored(at(place)),
            Place::Sum(a, b) => Place::Sum(at(a), at(b)),
        });
        let places = places.collect();
        Ok(Box::new(Batches { path: self.path.clone(), schema, reader: Some(reader), places }))
    }
}

impl Rows {
    fn reader(
        &self,
        file: Verified,
        columns: &[usize],
        rows: usize,
    ) -> Result<ParquetRecordBatchReader, Error> {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
        guarded(&self.path, || builder.with_projection(mask).with_batch_size(rows).build())
    }
}

/// A file on its way out.
struct Batches {
    path: Arc<Path>,
    schema: SchemaRef,
    /// None after an error.
    reader: Option<ParquetRecordBatchReader>,
    /// Where the columns are in a batch of the reader.
    places: Vec<Place>,
}

impl Batches {
    fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let column = |place: &Place| match *place {
            Place::Stored(place) => Ok(batch.column(place).clone()),
            Place::Sum(a, b) => {
                let [a, b] = [a, b].map(|place| batch.column(place).as_primitive::<Int64Type>());
                let sums = sum(a, b).ok_or_else(|| {
                    ArrowError::ComputeError("a sum of two columns exceeds 63 bits".to_owned())
                })?;
                Ok(Arc::new(sums) as ArrayRef)
            }
        };
        let columns = self.places.iter().map(column).collect::<Result<_, ArrowError>>()?;
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
