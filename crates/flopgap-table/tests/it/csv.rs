//! Tables as CSV.

use std::io;
use std::sync::Arc;

use flopgap_table::arrow_array::types::Int32Type;
use flopgap_table::arrow_array::{Array as _, DictionaryArray, RecordBatch};
use flopgap_table::arrow_schema::{Field, Schema};
use flopgap_table::{Error, Table, csv};

use crate::{Cell, batches, cells, open};

/// What a cell is in CSV.
fn text(cell: Cell) -> String {
    match cell {
        Cell::Absent => String::new(),
        Cell::Int(value) => value.to_string(),
        Cell::Count(value) => value.to_string(),
        Cell::Float(value) => format!("{value:?}"),
        Cell::Text(text) => text,
    }
}

/// Another reader finds the header and every value.
#[test]
fn every_value_comes_back() {
    for name in [
        "nsys/streams_domains.sqlite.zst",
        "nsys/unified_memory.sqlite.zst",
        "nsys/graph_whole.sqlite.zst",
        "ncu/full_raw.csv.zst",
        "kineto/mlp_n10_d1024_m128.json.gz",
    ] {
        let source = open(name);
        for info in source.tables() {
            let table = source.table(&info.name).unwrap();
            let mut written = Vec::new();
            let rows = csv::write(&table, &mut written).unwrap();
            let mut reader = ::csv::Reader::from_reader(written.as_slice());
            let header: Vec<&str> = reader.headers().unwrap().iter().collect();
            let schema = table.schema();
            assert_eq!(header, schema.fields().iter().map(|field| field.name()).collect::<Vec<_>>());
            let records: Vec<_> = reader.records().map(Result::unwrap).collect();
            assert_eq!(records.len() as u64, rows, "{name} {}", info.name);
            let mut row = 0;
            for batch in batches(&table) {
                let columns: Vec<Vec<Cell>> = batch.columns().iter().map(|array| cells(array)).collect();
                for at in 0..batch.num_rows() {
                    let expected = columns.iter().map(|column| text(column[at].clone()));
                    assert!(expected.eq(records[row].iter()), "{name} {} {row}", info.name);
                    row += 1;
                }
            }
            assert_eq!(row, records.len());
        }
    }
}

#[test]
fn fields_are_quoted_where_they_must_be() {
    let texts = [Some("a\"b\n\r\t\u{1}\u{2028}, 🦀"), Some(" a"), Some("a'b;"), Some(""), None];
    let texts: DictionaryArray<Int32Type> = texts.into_iter().collect();
    let schema = Schema::new(vec![Field::new("a,b", texts.data_type().clone(), true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(texts)]).unwrap();
    let mut written = Vec::new();
    assert_eq!(csv::write(&Table::held("texts", "Texts.", batch), &mut written).unwrap(), 5);
    let expected = "\"a,b\"\n\"a\"\"b\n\r\t\u{1}\u{2028}, 🦀\"\n\" a\"\na'b;\n\n\n";
    assert_eq!(String::from_utf8(written).unwrap(), expected);
}

#[test]
fn an_output_that_fails_is_not_blamed_on_the_source() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let table = open("nsys/streams_domains.sqlite.zst").table("api_calls").unwrap();
    for room in [0, 10, 5000] {
        let error = csv::write(&table, &mut Full(room)).unwrap_err();
        assert!(matches!(error, Error::Output { .. }), "{error}");
        assert!(!error.to_string().contains("streams_domains"), "{error}");
    }
}
