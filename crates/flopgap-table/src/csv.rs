//! Tables as CSV.

use std::fmt::Write as _;
use std::io;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{
    Array as _, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::ArrowError;

use crate::table::own_or;
use crate::{Error, Table};

/// Rows that are read at once: few, so that little memory is held.
const ROWS: usize = 1 << 13;

/// Writes a table as CSV (RFC 4180 with `\n`) while it is read, and returns how many rows it has.
///
/// The header has the names of the columns. A null is an empty field, and numbers have as many
/// digits as are necessary to read back the same.
///
/// ```
/// use flopgap_table::{Source, csv};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
/// let ranges = Source::open(path)?.table("ranges")?.select(&["style", "domain", "name"])?;
/// let mut text = Vec::new();
/// assert_eq!(csv::write(&ranges, &mut text)?, 150);
/// assert!(text.starts_with(b"style,domain,name\nPushPop,,warmup\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// What is wrong with the table's source; [`Error::Output`] when `out` fails.
pub fn write(table: &Table, out: &mut impl io::Write) -> Result<u64, Error> {
    let batches = table.read_most(ROWS)?;
    let mut line = String::new();
    for field in table.schema().fields() {
        quoted(&mut line, field.name());
    }
    let mut rows = 0;
    end(&mut line, out)?;
    for batch in batches {
        let batch = batch.map_err(|error| own_or(error, |source| table.arrow(source)))?;
        let cells = cells(&batch).map_err(|source| table.arrow(source))?;
        for row in 0..batch.num_rows() {
            for cells in &cells {
                cells.push(row, &mut line);
            }
            end(&mut line, out)?;
        }
        rows += batch.num_rows() as u64;
    }
    Ok(rows)
}

/// Writes a line, each of whose fields ends in a comma.
fn end(line: &mut String, out: &mut impl io::Write) -> Result<(), Error> {
    line.pop();
    line.push('\n');
    let written = out.write_all(line.as_bytes()).map_err(|source| Error::Output { source });
    line.clear();
    written
}

/// A column of a batch.
enum Cells<'a> {
    Whole(&'a Int64Array),
    Count(&'a UInt64Array),
    Float(&'a Float64Array),
    Text(&'a Int32Array, &'a StringArray),
}

fn cells(batch: &RecordBatch) -> Result<Vec<Cells<'_>>, ArrowError> {
    let other = |array: &ArrayRef| ArrowError::NotYetImplemented(format!("CSV of {}", array.data_type()));
    batch.columns().iter().map(|array| Cells::of(array).ok_or_else(|| other(array))).collect()
}

impl<'a> Cells<'a> {
    /// None for a column of another type.
    fn of(array: &'a ArrayRef) -> Option<Cells<'a>> {
        let whole = array.as_primitive_opt::<Int64Type>().map(Cells::Whole);
        let count = || array.as_primitive_opt::<UInt64Type>().map(Cells::Count);
        let float = || array.as_primitive_opt::<Float64Type>().map(Cells::Float);
        let text = || {
            let texts = array.as_dictionary_opt::<Int32Type>()?;
            Some(Cells::Text(texts.keys(), texts.values().as_string_opt()?))
        };
        whole.or_else(count).or_else(float).or_else(text)
    }

    /// Adds the field of a row.
    fn push(&self, row: usize, line: &mut String) {
        let mut digits = itoa::Buffer::new();
        match self {
            Cells::Whole(values) if values.is_valid(row) => line.push_str(digits.format(values.value(row))),
            Cells::Count(values) if values.is_valid(row) => line.push_str(digits.format(values.value(row))),
            Cells::Float(values) if values.is_valid(row) => {
                let _ = write!(line, "{:?}", values.value(row));
            }
            Cells::Text(keys, texts) if keys.is_valid(row) => {
                return quoted(line, texts.value(keys.value(row).cast_unsigned() as usize));
            }
            _ => {}
        }
        line.push(',');
    }
}

/// Adds a field of text, in quotes if necessary.
fn quoted(line: &mut String, text: &str) {
    let is_special = |byte| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if text.bytes().any(is_special) || text.starts_with(' ') || text.ends_with(' ') {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
    line.push(',');
}
