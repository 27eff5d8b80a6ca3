//! The same sums in Polars, `DuckDB` and pyarrow, from the libraries that `.ci/run` installs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flopgap_table::parquet;

use crate::{Cell, column, ints, open, texts};

/// The Python of the newest environment in the user's cache that has the libraries.
fn python() -> Option<PathBuf> {
    let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?;
    let found = fs::read_dir(caches.join("flopgap")).ok()?.flatten();
    let found = found.filter(|entry| entry.file_name().to_string_lossy().starts_with("python-"));
    let newest = found.max_by_key(|entry| entry.metadata().and_then(|metadata| metadata.modified()).ok())?;
    Some(newest.path().join("bin/python")).filter(|python| python.exists())
}

const SCRIPT: &str = r#"
import sys
import duckdb, polars, pyarrow.compute, pyarrow.parquet

path = sys.argv[1]
query = "select class, count(*)::bigint as calls, sum(duration_ns)::bigint as total from {} group by class"
rows = {
    "duckdb": duckdb.sql(query.format(f"'{path}'")).fetchall(),
    "polars": polars.scan_parquet(path)
    .group_by("class")
    .agg(polars.len(), polars.col("duration_ns").sum())
    .collect()
    .rows(),
    "pyarrow": [
        (row["class"], row["duration_ns_count"], row["duration_ns_sum"])
        for row in pyarrow.parquet.read_table(path)
        .group_by("class")
        .aggregate([("duration_ns", "count"), ("duration_ns", "sum")])
        .to_pylist()
    ],
}
for engine, of_engine in rows.items():
    for kind, calls, total in of_engine:
        print(engine, kind, calls, total, sep="\t")
entries = pyarrow.parquet.read_metadata(path).metadata
print("metadata", "table", entries[b"flopgap.table"].decode(), entries[b"flopgap.gpu"].decode(), sep="\t")
for column in ["name", "registers"]:
    values = duckdb.sql(f"select count(distinct {column}) from '{path}'").fetchall()[0][0]
    print("distinct", column, values, polars.read_parquet(path)[column].drop_nulls().n_unique(), sep="\t")
"#;

#[test]
fn others_read_the_same_sums() {
    let Some(python) = python() else {
        flopgap_testing::skip("python libraries", "not installed from PyPI: run .ci/run once");
        return;
    };
    let (_folder, [path]) = flopgap_testing::paths(["kernels.parquet"]);
    let source = open("nsys/small_training_step.sqlite.zst");
    let table = source.table("kernels").unwrap();
    parquet::write(&table, &path, &source.provenance().unwrap()).unwrap();
    let output =
        Command::new(python).env_remove("PYTHONPATH").args(["-c", SCRIPT]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();

    let mut sums: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for (class, duration) in texts(&table, "class").into_iter().zip(ints(&table, "duration_ns")) {
        let sum = sums.entry(class.unwrap()).or_default();
        *sum = (sum.0 + 1, sum.1 + duration);
    }
    let mut expected = Vec::new();
    for engine in ["duckdb", "polars", "pyarrow"] {
        expected.extend(
            sums.iter().map(|(class, (calls, total))| format!("{engine}\t{class}\t{calls}\t{total}")),
        );
    }
    expected.push("metadata\ttable\tkernels\tNVIDIA H200".to_owned());
    for name in ["name", "registers"] {
        let mut values: Vec<String> = column(&table, name)
            .into_iter()
            .filter(|cell| *cell != Cell::Absent)
            .map(|cell| format!("{cell:?}"))
            .collect();
        values.sort();
        values.dedup();
        expected.push(format!("distinct\t{name}\t{0}\t{0}", values.len()));
    }
    let mut printed: Vec<&str> = printed.lines().collect();
    printed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(printed, expected);
}
