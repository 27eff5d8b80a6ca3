//! Tables as Parquet files and back.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use flopgap_files::{Hint as _, chain};
use flopgap_table::arrow_array::types::Int32Type;
use flopgap_table::arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, RecordBatchReader as _, UInt64Array,
};
use flopgap_table::arrow_schema::{DataType, Field, Schema};
use flopgap_table::parquet::{self, Provenance};
use flopgap_table::{Error, Kind, Source, Table};
use proptest::prelude::*;

use crate::{Cell, batches, cells, fixtures, open};

/// Every fixture that is a source.
fn sources() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for folder in ["nsys", "ncu", "kineto", "runs", "calibration"] {
        for entry in fs::read_dir(fixtures().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_other = ["ORIGIN", "expected.json", "key_averages.csv"];
            let is_source = folder == "runs" || path.is_file();
            if is_source && !is_other.iter().any(|other| name.contains(other)) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths
}

/// All values, column by column.
fn columns(batches: &[RecordBatch]) -> Vec<Vec<Cell>> {
    let Some(first) = batches.first() else { return Vec::new() };
    (0..first.num_columns())
        .map(|place| batches.iter().flat_map(|batch| cells(batch.column(place))).collect())
        .collect()
}

/// The columns that are in a file itself.
fn stored(path: &Path) -> Vec<String> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let columns = reader.metadata().file_metadata().schema_descr().columns().iter();
    columns.map(|column| column.name().to_owned()).collect()
}

#[test]
fn every_table_of_every_fixture_comes_back() {
    let (_folder, [path]) = flopgap_testing::paths(["table.parquet"]);
    let (mut files, mut tables) = (0, 0);
    for fixture in sources() {
        let source = Source::open(&fixture).unwrap();
        let provenance = source.provenance().unwrap();
        files += 1;
        for info in source.tables() {
            let place = format!("{} {}", fixture.display(), info.name);
            let table = source.table(&info.name).unwrap();
            let all = batches(&table);
            let written = parquet::write(&table, &path, &provenance).unwrap();
            let rows: usize = all.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(
                (written.rows, written.bytes),
                (rows as u64, path.metadata().unwrap().len()),
                "{place}"
            );

            let names: Vec<String> =
                table.schema().fields().iter().map(|field| field.name().clone()).collect();
            assert_eq!(stored(&path), names, "{place}: what any reader sees");

            let stored = parquet::read(&path).unwrap();
            assert_eq!((stored.rows, &stored.provenance), (rows as u64, &provenance), "{place}");
            assert_eq!(stored.table.schema(), table.schema(), "{place}");
            assert_eq!(columns(&batches(&stored.table)), columns(&all), "{place}");

            // The file is a source like any other.
            let again = Source::open(&path).unwrap();
            assert_eq!((again.kind(), again.tables()), (Kind::Parquet, vec![info.clone()]), "{place}");
            assert_eq!(again.provenance().unwrap(), provenance, "{place}");
            assert_eq!(again.table(&info.name).unwrap().about(), table.about());
            tables += 1;
        }
    }
    assert!(files > 35 && tables > 100, "{files} fixtures with {tables} tables");
}

#[test]
fn what_a_source_knows_is_in_the_metadata() {
    let provenance = open("nsys/two_gpus.sqlite.zst").provenance().unwrap();
    assert_eq!(provenance.kind.as_deref(), Some("nsys"));
    assert_eq!(provenance.source.as_deref(), Some("two_gpus.sqlite.zst"));
    assert_eq!(provenance.profiler.as_deref(), Some("NVIDIA Nsight Systems"));
    assert_eq!(provenance.gpu.as_deref(), Some("NVIDIA H200"), "each name once");
    assert_eq!(provenance.recorded.as_deref(), Some("2026-11-21T06:44:03.054Z"));
    let run = open("runs/h200-pytorch").provenance().unwrap();
    assert!(run.gpu.unwrap().contains("H200"));
    let kineto = open("kineto/mlp_n10_d1024_m128.json.gz").provenance().unwrap();
    assert!(kineto.gpu.unwrap().contains("H200"));
}

/// As `sha256sum` prints it, of a file and of a directory.
#[test]
fn the_digest_is_that_of_sha256sum() {
    let (folder, [report]) = flopgap_testing::paths(["report.csv"]);
    fs::copy(fixtures().join("ncu/n4_d512_m64_forward.csv"), &report).unwrap();
    let run = folder.path().join("run");
    fs::create_dir_all(run.join("raw")).unwrap();
    fs::write(run.join("raw/b"), "b").unwrap();
    fs::write(run.join("raw/a"), "a").unwrap();
    fs::write(run.join("raw/.unfinished"), "x").unwrap();
    fs::write(run.join("other"), "x").unwrap();
    let printed = |folder: &Path, command: &str| {
        let output =
            std::process::Command::new("sh").args(["-c", command]).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
    };
    let digest = |path: &Path| Source::open(path).unwrap().provenance().unwrap().source_sha256.unwrap();
    assert_eq!(digest(&report), printed(folder.path(), "sha256sum report.csv"));
    let of_run = digest(&run);
    assert_eq!(
        of_run,
        printed(&run, "find raw -type f ! -name '.*' | LC_ALL=C sort | xargs sha256sum | sha256sum")
    );
    fs::write(run.join("raw/b"), "c").unwrap();
    assert_ne!(of_run, digest(&run));
}

/// Columns in another order, and one twice, are those of the whole table.
#[test]
fn columns_are_chosen_as_in_any_table() {
    let (_folder, [path]) = flopgap_testing::paths(["kernels.parquet"]);
    let table = open("nsys/small_forward.sqlite.zst").table("kernels").unwrap();
    parquet::write(&table, &path, &Provenance::default()).unwrap();
    let names = ["class", "start_ns", "class"];
    let stored = parquet::read(&path).unwrap().table.select(&names).unwrap();
    let reader = stored.read().unwrap();
    assert_eq!(reader.schema(), stored.schema());
    let all: Vec<RecordBatch> = reader.collect::<Result<_, _>>().unwrap();
    assert_eq!(columns(&all), columns(&batches(&table.select(&names).unwrap())));
    assert_eq!(stored.first(3).unwrap().num_rows(), 3);
    assert!(stored.select(&["nothing"]).unwrap_err().is_absence());
}

/// The bytes depend on the table alone, and a file is replaced whole.
#[test]
fn the_same_table_gives_the_same_bytes() {
    let (folder, [path]) = flopgap_testing::paths(["kernels.parquet"]);
    let source = open("nsys/small_forward.sqlite.zst");
    let write = || {
        parquet::write(&source.table("kernels").unwrap(), &path, &source.provenance().unwrap()).unwrap();
        fs::read(&path).unwrap()
    };
    assert_eq!(write(), write());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn further_entries_come_back_and_replace_no_entry() {
    let (_folder, [path]) = flopgap_testing::paths(["kernels.parquet"]);
    let table = open("nsys/small_forward.sqlite.zst").table("kernels").unwrap();
    let entry = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut provenance = Provenance { driver: Some("580.65.06".to_owned()), ..Provenance::default() };
    provenance.others = BTreeMap::from([entry("run", "a"), entry("format", "x"), entry("driver", "y")]);
    parquet::write(&table, &path, &provenance).unwrap();
    let stored = parquet::read(&path).unwrap();
    assert_eq!(stored.provenance.others, BTreeMap::from([entry("run", "a")]));
    assert_eq!(stored.provenance.driver, provenance.driver);
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let table = open("nsys/small_forward.sqlite.zst").table("kernels").unwrap();
    let error =
        parquet::write(&table, folder.path().join("no/a.parquet"), &Provenance::default()).unwrap_err();
    assert!(matches!(error, Error::Write(_)), "{error:?}");
    assert!(error.hint().unwrap().contains("create it first"));

    // A source that breaks off within its rows.
    let whole = fs::read(fixtures().join("ncu/h200_kernels_graph_nvtx.ncu-rep")).unwrap();
    let half = folder.path().join("half.ncu-rep");
    fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    let path = folder.path().join("counters.parquet");
    let source = Source::open(&half).unwrap();
    if let Err(error) = parquet::write(&source.table("counters").unwrap(), &path, &Provenance::default()) {
        assert!(error.to_string().contains("half.ncu-rep"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    } else {
        assert!(!source.warnings().is_empty());
    }
}

fn damaged(path: &Path) -> Error {
    let error = parquet::read(path).expect_err("damaged");
    assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error}");
    error
}

/// A file of another program with these entries.
fn foreign(path: &Path, entries: &[(&str, &str)]) {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema, None).unwrap();
    writer.write(&batch).unwrap();
    for (name, value) in entries {
        writer.append_key_value_metadata(KeyValue::new((*name).to_owned(), (*value).to_owned()));
    }
    writer.close().unwrap();
}

#[test]
fn files_of_others_and_of_newer_versions_are_refused() {
    let (_folder, [path]) = flopgap_testing::paths(["a.parquet"]);
    foreign(&path, &[]);
    let error = damaged(&path);
    assert!(matches!(error, Error::ForeignParquet { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("Polars"));
    assert!(matches!(Source::open(&path), Err(Error::ForeignParquet { .. })));

    foreign(&path, &[("flopgap.format", "flopgap-table"), ("flopgap.version", "2"), ("flopgap.table", "a")]);
    let error = damaged(&path);
    assert!(error.to_string().ends_with("has version 2 of flopgap's format; supported: 1"), "{error}");
    assert!(error.hint().unwrap().starts_with("update flopgap"));

    foreign(&path, &[("flopgap.format", "flopgap-table"), ("flopgap.version", "1")]);
    assert!(matches!(damaged(&path), Error::Parquet { .. }));
    foreign(&path, &[("flopgap.format", "flopgap-table"), ("flopgap.version", "1"), ("flopgap.table", "a")]);
    assert_eq!(columns(&all_of(&path).unwrap()), [[Cell::Int(1)]], "any writer's file with the entries");
}

/// Times and counts of one kind take the encoding that suits them: less than without one.
#[test]
fn numbers_that_rise_take_little_space() {
    let (_folder, [path]) = flopgap_testing::paths(["rows.parquet"]);
    let rows: Vec<Row> = (0..100_000).map(|at| (at * 1_000 + at % 7, Some(7), None, None)).collect();
    let written = parquet::write(&table_of(&rows), &path, &Provenance::default()).unwrap();
    assert!(written.bytes < 100_000, "{written:?}: a byte for each row");
    assert_eq!(columns(&batches(&parquet::read(&path).unwrap().table)), columns(&batches(&table_of(&rows))));
}

/// What is read of a file: all rows, whose arrays are valid, or why not.
fn all_of(path: &Path) -> Result<Vec<RecordBatch>, String> {
    let stored = parquet::read(path).map_err(|error| chain(&error).to_string())?;
    let reader = stored.table.read().map_err(|error| chain(&error).to_string())?;
    let batches = reader.collect::<Result<Vec<RecordBatch>, _>>();
    let batches = batches.map_err(|error| chain(&error).to_string())?;
    for column in batches.iter().flat_map(RecordBatch::columns) {
        column.to_data().validate_full().unwrap();
    }
    Ok(batches)
}

/// A flipped byte gives rows or an error that names the file, and no panic: the files have no
/// checksums, so that values may differ.
#[test]
fn no_flipped_byte_panics() {
    let (_folder, [path]) = flopgap_testing::paths(["rows.parquet"]);
    let row = |at: i64| {
        (at * 1_000, Some(at.cast_unsigned() / 9), Some(0.5 / at as f64), Some(format!("k{}", at % 3)))
    };
    parquet::write(&table_of(&(1..40).map(row).collect::<Vec<Row>>()), &path, &Provenance::default())
        .unwrap();
    let whole = fs::read(&path).unwrap();
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        if let Err(error) = all_of(&path) {
            assert!(error.contains("rows.parquet"), "byte {at}: {error}");
            refused += 1;
        }
    }
    assert!(refused > whole.len() / 4, "{refused} of {} bytes", whole.len());
}

#[test]
fn files_that_are_cut_off_or_no_parquet_are_refused() {
    let (_folder, [path]) = flopgap_testing::paths(["kernels.parquet"]);
    let table = open("nsys/small_forward.sqlite.zst").table("kernels").unwrap();
    parquet::write(&table, &path, &Provenance::default()).unwrap();
    let whole = fs::read(&path).unwrap();
    for length in [0, 3, 4, 8, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        let error = damaged(&path);
        assert!(matches!(error, Error::Parquet { .. }), "{length}: {error:?}");
        assert!(error.hint().unwrap().contains("copy the complete file"));
    }
    fs::remove_file(&path).unwrap();
    assert!(damaged(&path).is_not_found());
}

/// A row of a column of each type.
type Row = (i64, Option<u64>, Option<f64>, Option<String>);

/// A column of each type, with and without nulls.
fn table_of(rows: &[Row]) -> Table {
    let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let about = |name: &str| std::collections::HashMap::from([("description".to_owned(), name.to_owned())]);
    let field =
        |name: &str, kind: DataType, nullable| Field::new(name, kind, nullable).with_metadata(about(name));
    let schema = Arc::new(Schema::new(vec![
        field("whole", DataType::Int64, false),
        field("count", DataType::UInt64, true),
        field("a.float", DataType::Float64, true),
        field("text", text, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<UInt64Array>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.3.as_deref()).collect::<DictionaryArray<Int32Type>>()),
    ];
    Table::held("rows", "Rows of any values.", RecordBatch::try_new(schema, columns).unwrap())
}

fn row() -> impl Strategy<Value = Row> {
    (any::<i64>(), any::<Option<u64>>(), any::<Option<f64>>(), any::<Option<String>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_values_come_back(rows in prop::collection::vec(row(), 0..200), repeat in 1_usize..20) {
        let (_folder, [path]) = flopgap_testing::paths(["rows.parquet"]);
        let rows: Vec<_> = std::iter::repeat_n(rows, repeat).flatten().collect();
        let table = table_of(&rows);
        let written = parquet::write(&table, &path, &Provenance::default()).unwrap();
        prop_assert_eq!(written.rows, rows.len() as u64);
        let stored = parquet::read(&path).unwrap();
        prop_assert_eq!(stored.table.schema(), table.schema());
        let bits = |batches: &[RecordBatch]| {
            let bits = |cell| match cell { Cell::Float(value) => Cell::Count(value.to_bits()), cell => cell };
            columns(batches).into_iter().map(|column| column.into_iter().map(bits).collect()).collect::<Vec<Vec<_>>>()
        };
        let (read, own) = (batches(&stored.table), batches(&table));
        if rows.is_empty() {
            prop_assert!(read.is_empty());
        } else {
            prop_assert_eq!(bits(&read), bits(&own));
        }
    }

    /// Damage is an error or other rows.
    #[test]
    fn no_bytes_panic(rows in prop::collection::vec(row(), 1..50), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let (_folder, [path]) = flopgap_testing::paths(["rows.parquet"]);
        parquet::write(&table_of(&rows), &path, &Provenance::default()).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[at.index(whole.len())] = byte;
        for bytes in [&bytes[..], &whole[..cut.index(whole.len())]] {
            fs::write(&path, bytes).unwrap();
            if let Err(error) = all_of(&path) {
                prop_assert!(error.contains("rows.parquet"), "{}", error);
            }
        }
    }
}
