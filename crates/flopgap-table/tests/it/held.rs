//! Tables of rows that are in memory.

use std::sync::Arc;

use flopgap_table::Table;
use flopgap_table::arrow_array::{Int64Array, RecordBatch, StringArray};
use flopgap_table::arrow_schema::{DataType, Field, Schema};

#[test]
fn rows_in_memory_are_a_table() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("launches", DataType::Int64, false),
        Field::new("kernel", DataType::Utf8, false),
    ]));
    let (numbers, names) = (Int64Array::from(vec![3, 5]), StringArray::from(vec!["a", "b"]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(numbers), Arc::new(names)]).unwrap();
    let table = Table::held("kernels", "Counted kernels.", batch.clone());
    assert_eq!((table.name(), table.about()), ("kernels", "Counted kernels."));
    for _ in 0..2 {
        let read: Vec<RecordBatch> = table.read().unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(read.as_slice(), std::slice::from_ref(&batch));
    }
    let one = table.select(&["kernel"]).unwrap();
    let read: Vec<RecordBatch> = one.read().unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(read, [batch.project(&[1]).unwrap()]);
    assert_eq!(read[0].schema(), one.schema());
    let error = table.select(&["kernels"]).unwrap_err().to_string();
    assert!(error.contains("no column"), "{error}");
}
