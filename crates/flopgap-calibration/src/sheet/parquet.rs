//! Tables as Parquet.

use std::path::Path;

use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::record::Field;
use bytes::Bytes;

use super::{SheetError, SheetFault};

/// Whether a file begins as Parquet does.
pub(super) fn is_parquet(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PAR1")
}

/// The same table as CSV, which the reader of tables reads.
///
/// # Errors
/// [`SheetFault::Malformed`] for a damaged file, and for columns of anything but numbers, text,
/// truth values and lists of numbers.
pub(super) fn as_csv(bytes: &[u8], path: &Path) -> Result<Vec<u8>, SheetError> {
    let malformed = |reason: String| SheetError::new(path, SheetFault::NotParquet { reason });
    let damaged = |error: ParquetError| malformed(error.to_string());
    let reader = SerializedFileReader::new(Bytes::copy_from_slice(bytes)).map_err(damaged)?;
    let schema = reader.metadata().file_metadata().schema();
    let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let failed = |error: ::csv::Error| malformed(error.to_string());
    writer.write_record(&names).map_err(failed)?;
    for row in reader.get_row_iter(None).map_err(damaged)? {
        let row = row.map_err(damaged)?;
        let cells = row.get_column_iter().map(|(name, field)| {
            cell(field).ok_or_else(|| malformed(format!("column `{name}` has neither numbers nor text")))
        });
        writer.write_record(cells.collect::<Result<Vec<_>, _>>()?).map_err(failed)?;
    }
    writer.into_inner().map_err(|error| malformed(error.to_string()))
}

/// A value as a cell of CSV; a list as `[512, 512]`.
fn cell(field: &Field) -> Option<String> {
    Some(match field {
        Field::Null => String::new(),
        Field::Bool(value) => value.to_string(),
        Field::Byte(value) => value.to_string(),
        Field::Short(value) => value.to_string(),
        Field::Int(value) => value.to_string(),
        Field::Long(value) => value.to_string(),
        Field::UByte(value) => value.to_string(),
        Field::UShort(value) => value.to_string(),
        Field::UInt(value) => value.to_string(),
        Field::ULong(value) => value.to_string(),
        Field::Float16(value) => value.to_string(),
        Field::Float(value) => value.to_string(),
        Field::Double(value) => value.to_string(),
        Field::Str(text) => text.clone(),
        // Text that is not marked as such.
        Field::Bytes(text) => text.as_utf8().ok()?.to_owned(),
        Field::ListInternal(list) => {
            let cells: Option<Vec<String>> = list.elements().iter().map(cell).collect();
            format!("[{}]", cells?.join(", "))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
    use ::parquet::file::properties::WriterProperties;
    use ::parquet::file::writer::SerializedFileWriter;
    use ::parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::sheet::{Role, parse};

    fn table() -> Vec<u8> {
        let schema = "message table {
            required binary model (UTF8);
            required int32 input_dim;
            required group hidden_dims (LIST) { repeated group list { required int64 element; } }
            required int64 output_dim;
            required int32 batch_size;
            required binary device (UTF8);
            required binary precision (UTF8);
            required double empirical_time_ms;
            optional double empirical_memory_mb;
        }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut bytes = Vec::new();
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let text = |values: [&str; 2]| values.map(|value| ByteArray::from(value)).to_vec();
        macro_rules! column {
            ($kind:ty, $values:expr, $definition:expr, $repetition:expr) => {
                let mut column = group.next_column().unwrap().unwrap();
                column.typed::<$kind>().write_batch($values, $definition, $repetition).unwrap();
                column.close().unwrap();
            };
        }
        column!(ByteArrayType, &text(["a, b", "c"]), None, None);
        column!(Int32Type, &[784, 20], None, None);
        column!(Int64Type, &[512, 256, 64], Some(&[1, 1, 1]), Some(&[0, 1, 0]));
        column!(Int64Type, &[10, 4], None, None);
        column!(Int32Type, &[32, 1], None, None);
        column!(ByteArrayType, &text(["cuda", "cuda"]), None, None);
        column!(ByteArrayType, &text(["fp16", "FP32"]), None, None);
        column!(DoubleType, &[0.25, 1e-3], None, None);
        column!(DoubleType, &[17.5], Some(&[1, 0]), None);
        group.close().unwrap();
        writer.close().unwrap();
        bytes
    }

    #[test]
    fn a_table_is_the_same_as_parquet_and_as_csv() {
        let csv = "model,input_dim,hidden_dims,output_dim,batch_size,device,precision,empirical_time_ms,\
                   empirical_memory_mb\n\"a, b\",784,\"[512, 256]\",10,32,cuda,fp16,0.25,17.5\n\
                   c,20,[64],4,1,cuda,FP32,0.001,\n";
        let path = Path::new("table.parquet");
        let bytes = table();
        assert_eq!(String::from_utf8(as_csv(&bytes, path).unwrap()).unwrap(), csv);
        let of = |bytes: &[u8]| parse(bytes, path, Role::Empirical, None).unwrap();
        assert_eq!(of(&bytes), of(csv.as_bytes()));
        assert_eq!(of(&bytes).records.len(), 2);
    }

    #[test]
    fn damaged_tables_are_refused() {
        let bytes = table();
        for length in [4, 12, bytes.len() / 2, bytes.len() - 1] {
            let error = parse(&bytes[..length], Path::new("cut.parquet"), Role::Empirical, None).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with("cut.parquet: not Parquet: "), "{length}: {text}");
        }
        // Any other byte anywhere ends in a table or in an error.
        for place in 4..bytes.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut other = bytes.clone();
                other[place] = value;
                let _ = parse(&other, Path::new("other.parquet"), Role::Empirical, None);
            }
        }
    }
}
