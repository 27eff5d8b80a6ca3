//! `export --format parquet` and `csv`.

use std::fs;

use flopgap_table::{Source, parquet};

use crate::{run, trace};

#[test]
fn parquet_has_every_table_of_the_trace() {
    let (folder, path) = trace("streams_domains");
    let tables = folder.path().join("tables");
    let done = run(&["export", &path, "--format", "parquet", "--output", tables.to_str().unwrap()]);
    done.refuses(0, &[]);
    let source = Source::open(&path).unwrap();
    let names: Vec<_> = source.tables().into_iter().map(|table| table.name).collect();
    assert!(names.len() > 5);
    assert_eq!(fs::read_dir(&tables).unwrap().count(), names.len());
    for name in names {
        let stored = parquet::read(tables.join(format!("{name}.parquet"))).unwrap();
        let rows = source.table(&name).unwrap().read().unwrap().map(|batch| batch.unwrap().num_rows());
        assert_eq!(stored.rows, rows.sum::<usize>() as u64, "{name}");
        assert_eq!(stored.provenance.tool, "nsys-analyze");
        assert_eq!(stored.provenance.source_sha256, source.provenance().unwrap().source_sha256);
    }
    done.says(&["51 rows in"]);
}

#[test]
fn one_table_can_be_chosen() {
    let (folder, path) = trace("streams_domains");
    let tables = folder.path().join("tables");
    let tables = tables.to_str().unwrap();
    let of =
        |table: &str| run(&["export", &path, "--format", "parquet", "--table", table, "--output", tables]);
    assert_eq!(of("kernels").code, 0);
    assert_eq!(fs::read_dir(tables).unwrap().count(), 1);
    of("kernel").expect(3, &["it has kernels, copies"]);
    assert_eq!(run(&["export", &path, "--format", "parquet"]).code, 2);
    run(&["export", &path, "--format", "csv", "--table", "sums"]).expect(3, &["it has kernels, copies"]);
    let csv = run(&["export", &path, "--format", "csv", "--table", "memsets", "--output", tables]);
    assert_eq!((csv.code, fs::read_dir(tables).unwrap().count()), (0, 2), "{}", csv.stderr);
}

#[test]
fn traces_of_torch_profiler_have_tables_too() {
    let folder = tempfile::tempdir().unwrap();
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/kineto/mlp_n10_d1024_m128.json.gz");
    let tables = folder.path().join("tables");
    run(&["export", trace, "--format", "parquet", "--output", tables.to_str().unwrap()]).expect(0, &[]);
    let stored = parquet::read(tables.join("operators.parquet")).unwrap();
    assert_eq!(stored.provenance.kind.as_deref(), Some("kineto"));
    assert!(stored.rows > 0);
    let csv = run(&["export", trace, "--format", "csv", "--table", "operators"]);
    assert_eq!((csv.code, csv.stdout.lines().count() as u64), (0, stored.rows + 1), "{}", csv.stderr);
    let directory = folder.path().to_str().unwrap();
    assert_ne!(run(&["export", directory, "--format", "parquet", "--output", directory]).code, 0);
}
