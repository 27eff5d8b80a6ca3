//! What holds for every table: batches fit their schema, texts are unique in their dictionaries,
//! and a choice of columns changes no value.

use std::collections::HashSet;

use flopgap_table::arrow_array::cast::AsArray as _;
use flopgap_table::arrow_array::types::Int32Type;
use flopgap_table::arrow_array::{Array, RecordBatch, RecordBatchReader as _};
use flopgap_table::arrow_schema::DataType;
use proptest::prelude::*;

use crate::{batches, cells, open};

const SOURCES: [&str; 8] = [
    "nsys/small_training_step.sqlite.zst",
    "nsys/streams_domains.sqlite.zst",
    "nsys/graph_whole.sqlite.zst",
    "nsys/host_threads.sqlite.zst",
    "ncu/lm_details.csv.zst",
    "ncu/h200_kernels_graph_nvtx.ncu-rep",
    "kineto/mlp_n10_d1024_m128.json.gz",
    "runs/h200-pytorch",
];

#[test]
fn batches_fit_their_schema() {
    for name in SOURCES {
        let source = open(name);
        for info in source.tables() {
            let table = source.table(&info.name).unwrap();
            let schema = table.schema();
            let reader = table.read().unwrap();
            assert_eq!(reader.schema(), schema);
            let mut names = HashSet::new();
            for field in schema.fields() {
                let place = format!("{name} {} {}", info.name, field.name());
                assert!(names.insert(field.name().clone()), "{place}");
                let sign = |sign: char| sign.is_lowercase() || sign.is_numeric() || sign == '_';
                assert!(field.name().chars().all(sign), "{place}");
                assert!(
                    field.metadata()["description"].ends_with('.')
                        || field.metadata()["description"].ends_with("..."),
                    "{place}"
                );
            }
            for batch in reader {
                let batch = batch.unwrap();
                assert_eq!(batch.schema(), schema);
                for (array, field) in batch.columns().iter().zip(schema.fields()) {
                    assert!(field.is_nullable() || array.null_count() == 0, "{name} {}", field.name());
                    if matches!(array.data_type(), DataType::Dictionary(..)) {
                        let dictionary = array.as_dictionary::<Int32Type>();
                        let values = dictionary.values().as_string::<i32>();
                        let unique: HashSet<_> = values.iter().collect();
                        assert_eq!(
                            unique.len(),
                            values.len(),
                            "{name} {}: values of a dictionary are unique",
                            field.name()
                        );
                    }
                }
            }
        }
    }
}

/// A second reading begins from the first row again.
#[test]
fn a_table_is_read_as_often_as_it_is_asked_for() {
    let table = open("nsys/small_forward.sqlite.zst").table("kernels").unwrap();
    let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let (first, second) = (batches(&table), batches(&table));
    assert!(rows(&first) > 0);
    assert_eq!(rows(&first), rows(&second));
    // One that was begun and left does not disturb the next.
    drop(table.read().unwrap().next());
    assert_eq!(rows(&batches(&table)), rows(&first));
}

/// The first rows are those of the whole table, also where there are fewer, or none.
#[test]
fn the_first_rows_are_the_first() {
    for (name, table) in [("nsys/small_forward.sqlite.zst", "kernels"), ("ncu/lm_raw.csv.zst", "launches")] {
        let table = open(name).table(table).unwrap();
        let all = batches(&table);
        let rows: usize = all.iter().map(RecordBatch::num_rows).sum();
        for wanted in [0, 1, 7, rows, rows + 1] {
            let first = table.first(wanted).unwrap();
            assert_eq!(first.num_rows(), wanted.min(rows));
            for (own, whole) in first.columns().iter().zip(all[0].columns()) {
                assert_eq!(cells(own), cells(whole)[..wanted.min(rows)]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_choice_of_columns_has_the_values_of_all(seed in prop::collection::vec(any::<prop::sample::Index>(), 1..6), place in 0..SOURCES.len()) {
        let source = open(SOURCES[place]);
        let table = source.table(&source.tables()[0].name).unwrap();
        let schema = table.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let chosen: Vec<&str> = seed.iter().map(|index| *index.get(&names)).collect();
        let (some, all) = (table.select(&chosen).unwrap(), batches(&table));
        for (own, whole) in batches(&some).iter().zip(&all) {
            for (name, array) in chosen.iter().zip(own.columns()) {
                let expected = whole.column_by_name(name).unwrap();
                prop_assert_eq!(cells(array), cells(expected));
            }
        }
    }
}
