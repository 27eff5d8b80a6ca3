//! How each column is stored, decided by the values of its first batch.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use rustc_hash::FxHashSet;

/// Rows of a row group.
pub(super) const GROUP: usize = 1 << 18;
/// Rows that are made and encoded at once: few enough to stay in the processor's cache, enough to
/// choose encodings by.
pub(super) const BATCH: usize = 1 << 14;
/// Bytes of a page before compression: each column has one page of a row group, and kernels that
/// repeat from step to step are within reach of the compression.
const PAGE: usize = 1 << 23;
/// Where Zstandard begins to find what repeats in numbers stored byte by byte. It is the first
/// level of its lazy search, 1.1 times the time of level 1 for the whole file.
const LEVEL: i32 = 5;
/// How numbers are stored that would not repeat in a dictionary: differences suit what rises
/// evenly, such as times; byte by byte suits values of one size, which differ in their low bytes.
const VARIED: [Encoding; 2] = [Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT];

pub(super) fn properties(
    schema: &Schema,
    first: Option<&RecordBatch>,
    entries: Vec<KeyValue>,
) -> Result<WriterProperties, ParquetError> {
    let mut properties = builder()?.set_key_value_metadata(Some(entries));
    for field in schema.fields().iter().filter(|field| !field.data_type().is_numeric()) {
        // Bounds of names say nothing, and every name would be compared with them.
        properties = properties.set_column_statistics_enabled(path(field.name()), EnabledStatistics::None);
    }
    for (name, encoding) in first.map(encodings).transpose()?.unwrap_or_default() {
        properties = stored_as(properties, &name, encoding);
    }
    Ok(properties.build())
}

fn builder() -> Result<WriterPropertiesBuilder, ParquetError> {
    Ok(WriterProperties::builder()
        .set_created_by(concat!("flopgap version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(GROUP))
        .set_data_page_row_count_limit(GROUP)
        .set_data_page_size_limit(PAGE)
        .set_write_batch_size(BATCH)
        .set_dictionary_page_size_limit(1 << 26))
}

/// Of the column's parts: a name may have dots.
fn path(name: &str) -> ColumnPath {
    ColumnPath::new(vec![name.to_owned()])
}

fn stored_as(properties: WriterPropertiesBuilder, name: &str, encoding: Encoding) -> WriterPropertiesBuilder {
    properties.set_column_dictionary_enabled(path(name), false).set_column_encoding(path(name), encoding)
}

/// The columns that are stored without a dictionary, and how.
fn encodings(first: &RecordBatch) -> Result<BTreeMap<String, Encoding>, ParquetError> {
    let schema = first.schema();
    let (mut varied, mut encodings) = (Vec::new(), BTreeMap::new());
    for (place, field) in schema.fields().iter().enumerate() {
        match values(first.column(place)) {
            // Differences of nothing take less time than one word of a dictionary for every row.
            Some(Values::Equal) if field.data_type().is_integer() => {
                encodings.insert(field.name().clone(), Encoding::DELTA_BINARY_PACKED);
            }
            Some(Values::Varied) => varied.push(place),
            _ => {}
        }
    }
    if !varied.is_empty() {
        encodings.extend(smallest(&first.project(&varied)?)?);
    }
    Ok(encodings)
}

/// How columns of numbers that would not repeat in a dictionary take least space.
fn smallest(columns: &RecordBatch) -> Result<BTreeMap<String, Encoding>, ParquetError> {
    let mut best: BTreeMap<String, (Encoding, i64)> = BTreeMap::new();
    for encoding in VARIED {
        let is_possible =
            |field: &&Arc<Field>| encoding == Encoding::BYTE_STREAM_SPLIT || field.data_type().is_integer();
        let mut properties = builder()?.set_statistics_enabled(EnabledStatistics::None);
        let schema = columns.schema();
        for field in schema.fields().iter().filter(is_possible) {
            properties = stored_as(properties, field.name(), encoding);
        }
        let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties.build()))?;
        writer.write(columns)?;
        let tried = writer.close()?;
        let chunks = tried.row_groups().iter().flat_map(RowGroupMetaData::columns);
        for (field, chunk) in schema.fields().iter().zip(chunks).filter(|(field, _)| is_possible(field)) {
            let size = chunk.compressed_size();
            if best.get(field.name()).is_none_or(|&(_, least)| size < least) {
                best.insert(field.name().clone(), (encoding, size));
            }
        }
    }
    Ok(best.into_iter().map(|(name, (encoding, _))| (name, encoding)).collect())
}

/// What the numbers of a column are like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// All are one.
    Equal,
    Repeated,
    /// More than a fourth are different ones.
    Varied,
}

/// None for a column of another type.
fn values(array: &dyn Array) -> Option<Values> {
    match array.data_type() {
        DataType::Int64 => Some(distinct(array.as_primitive::<Int64Type>(), |value| value)),
        DataType::UInt64 => Some(distinct(array.as_primitive::<UInt64Type>(), |value| value)),
        DataType::Float64 => Some(distinct(array.as_primitive::<Float64Type>(), f64::to_bits)),
        _ => None,
    }
}

fn distinct<T: ArrowPrimitiveType, K: Eq + Hash>(
    array: &PrimitiveArray<T>,
    key: impl Fn(T::Native) -> K,
) -> Values {
    let mut seen = FxHashSet::default();
    for value in array.iter().flatten() {
        seen.insert(key(value));
        if seen.len() > array.len() / 4 && seen.len() > 1 {
            return Values::Varied;
        }
    }
    if seen.len() > 1 { Values::Repeated } else { Values::Equal }
}
