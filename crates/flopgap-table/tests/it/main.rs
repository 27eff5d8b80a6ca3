//! Tables over recorded files: the same values as their readers have.

mod bad;
mod csv;
mod held;
mod kind;
mod kineto;
mod losses;
mod measured;
mod ncu;
mod nsys;
mod parquet;
mod peers;
mod run;
mod shape;
mod soak;
mod unified;

use std::path::{Path, PathBuf};

use flopgap_table::arrow_array::cast::AsArray as _;
use flopgap_table::arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt64Type};
use flopgap_table::arrow_array::{Array, RecordBatch};
use flopgap_table::arrow_schema::DataType;
use flopgap_table::{Source, Table};

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Absent,
    Int(i64),
    Count(u64),
    Float(f64),
    Text(String),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn open(name: &str) -> Source {
    Source::open(fixtures().join(name)).unwrap()
}

fn batches(table: &Table) -> Vec<RecordBatch> {
    table.read().unwrap().collect::<Result<_, _>>().unwrap()
}

/// The values of an array.
fn cells(array: &dyn Array) -> Vec<Cell> {
    let value = |at: usize| match array.data_type() {
        _ if array.is_null(at) => Cell::Absent,
        DataType::Int64 => Cell::Int(array.as_primitive::<Int64Type>().value(at)),
        DataType::UInt64 => Cell::Count(array.as_primitive::<UInt64Type>().value(at)),
        DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(at)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_dictionary::<Int32Type>();
            let key = usize::try_from(dictionary.keys().value(at)).unwrap();
            Cell::from(dictionary.values().as_string::<i32>().value(key))
        }
        other => panic!("no column has the type {other}"),
    };
    (0..array.len()).map(value).collect()
}

/// A column of all batches.
fn column(table: &Table, name: &str) -> Vec<Cell> {
    batches(&table.select(&[name]).unwrap()).iter().flat_map(|batch| cells(batch.column(0))).collect()
}

fn ints(table: &Table, name: &str) -> Vec<i64> {
    let int = |cell| match cell {
        Cell::Int(value) => value,
        other => panic!("{name}: {other:?}"),
    };
    column(table, name).into_iter().map(int).collect()
}

fn maybe_ints(table: &Table, name: &str) -> Vec<Option<i64>> {
    let int = |cell| match cell {
        Cell::Int(value) => Some(value),
        Cell::Absent => None,
        other => panic!("{name}: {other:?}"),
    };
    column(table, name).into_iter().map(int).collect()
}

fn counts(table: &Table, name: &str) -> Vec<Option<u64>> {
    let count = |cell| match cell {
        Cell::Count(value) => Some(value),
        Cell::Absent => None,
        other => panic!("{name}: {other:?}"),
    };
    column(table, name).into_iter().map(count).collect()
}

fn texts(table: &Table, name: &str) -> Vec<Option<String>> {
    let text = |cell| match cell {
        Cell::Text(text) => Some(text),
        Cell::Absent => None,
        other => panic!("{name}: {other:?}"),
    };
    column(table, name).into_iter().map(text).collect()
}
