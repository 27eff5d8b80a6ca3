//! How each column is stored, decided by the values of its first batch.

use std::hash::Hash;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use rustc_hash::FxHashSet;

/// Rows of a row group.
pub(super) const GROUP: usize = 1 << 18;
/// Rows of a page.
const PAGE: usize = 1 << 16;

pub(super) fn properties(
    schema: &SchemaRef,
    first: Option<&RecordBatch>,
    entries: Vec<KeyValue>,
) -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("flopgap version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(GROUP))
        .set_data_page_row_count_limit(PAGE)
        .set_write_batch_size(PAGE)
        .set_dictionary_page_size_limit(1 << 26)
        .set_key_value_metadata(Some(entries));
    for (place, field) in schema.fields().iter().enumerate() {
        let plain = first.and_then(|batch| without_dictionary(batch.column(place)));
        if let Some(encoding) = plain {
            // Of the column's parts: a name may have dots.
            let path = ColumnPath::new(vec![field.name().clone()]);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, encoding);
        }
    }
    Ok(properties.build())
}

/// How numbers are stored that would not repeat in a dictionary.
fn without_dictionary(array: &dyn Array) -> Option<Encoding> {
    match array.data_type() {
        DataType::Int64 => varied(array.as_primitive::<Int64Type>(), |value| value),
        DataType::UInt64 => varied(array.as_primitive::<UInt64Type>(), |value| value),
        DataType::Float64 => varied(array.as_primitive::<Float64Type>(), f64::to_bits),
        _ => None,
    }
}

/// Differences where the values mostly rise, such as times; else byte by byte, since values of one
/// size differ in their low bytes.
fn varied<T: ArrowPrimitiveType, K: Eq + Hash>(
    array: &PrimitiveArray<T>,
    key: impl Fn(T::Native) -> K,
) -> Option<Encoding> {
    let mut seen = FxHashSet::default();
    let (mut rises, mut last) = (0, None);
    for value in array.iter().flatten() {
        seen.insert(key(value));
        rises += usize::from(last.is_some_and(|last| value >= last));
        last = Some(value);
    }
    if seen.len() <= array.len() / 4 {
        return None;
    }
    let sorted = T::DATA_TYPE.is_integer() && rises >= array.len() / 4 * 3;
    Some(if sorted { Encoding::DELTA_BINARY_PACKED } else { Encoding::BYTE_STREAM_SPLIT })
}
