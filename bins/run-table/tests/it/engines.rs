//! The same answers from DuckDB and from Polars in Python, over the same files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{done, rows, trace};

/// The Python of the newest environment in the user's cache that has the libraries.
pub(crate) fn python() -> Option<PathBuf> {
    let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?;
    let found = fs::read_dir(caches.join("flopgap")).ok()?.flatten();
    let found = found.filter(|entry| entry.file_name().to_string_lossy().starts_with("python-"));
    let newest = found.max_by_key(|entry| entry.metadata().and_then(|metadata| metadata.modified()).ok())?;
    Some(newest.path().join("bin/python")).filter(|python| python.exists())
}

const SCRIPT: &str = r#"
import sys
import duckdb, polars, pyarrow.dataset

root = sys.argv[1]
sql = ("select run, class, count(*) as calls, sum(duration_ns){} as total_ns, min(precision) as p from {} group by run, class")
from_duckdb = duckdb.sql(sql.format("::bigint",
    f"read_parquet('{root}/kernels/*/*.parquet', hive_partitioning = true, hive_types = {{'run': varchar}})")).fetchall()
kernels = polars.scan_parquet(root + "/kernels", hive_schema={"run": polars.String}).with_columns(
    polars.col("precision").cast(polars.String))
from_polars = polars.SQLContext(kernels=kernels).execute(sql.format("", "kernels")).collect().rows()
partitions = pyarrow.dataset.partitioning(pyarrow.schema([("run", pyarrow.string())]), flavor="hive")
table = pyarrow.dataset.dataset(root + "/kernels", partitioning=partitions).to_table(columns=["run", "class", "duration_ns"])
sums = table.unify_dictionaries().group_by(["run", "class"]).aggregate([("duration_ns", "count"), ("duration_ns", "sum")])
from_pyarrow = [(row["run"], row["class"], row["duration_ns_count"], row["duration_ns_sum"], "") for row in sums.to_pylist()]
for name, found in ("duckdb", from_duckdb), ("polars", from_polars), ("pyarrow", from_pyarrow):
    for row in sorted(",".join("" if value is None else str(value) for value in row) for row in found):
        print(name, row, sep="\t")
"#;

#[test]
fn other_engines_answer_the_same() {
    let Some(python) = python() else {
        flopgap_testing::skip("python libraries", "not installed from PyPI: run .ci/run once");
        return;
    };
    let (folder, [output]) = flopgap_testing::paths(["out"]);
    // Names that look like numbers, have a directory, a space and what is encoded.
    let names = [("001", "small_forward"), ("a/b 50%", "small_training_step"), ("it's", "two_ranks_nccl")];
    let mut sources = Vec::new();
    for (at, (run, name)) in names.into_iter().enumerate() {
        let path = folder.path().join(format!("{at}.sqlite"));
        trace(name, &path);
        done(&["collect", &format!("{run}={}", path.display()), "-o", output.to_str().unwrap()]);
        sources.push((run, path));
    }
    // Beside traces of nsys one of torch.profiler.
    let torch = folder.path().join("torch.json");
    let event = r#"{"ph":"X","cat":"kernel","name":"ampere_sgemm_128x64_nn","pid":0,"tid":7,"ts":5,"dur":2,"args":{"stream":7}}"#;
    fs::write(&torch, format!("{{\"traceEvents\":[{event}]}}")).unwrap();
    done(&["collect", torch.to_str().unwrap(), "-o", output.to_str().unwrap()]);
    let mut expected = crate::query::sums(&sources);
    expected.push("torch,matmul,1,2000".to_owned());

    let sql =
        "select run, class, count(*) as calls, sum(duration_ns) as total_ns from kernels group by run, class";
    let sorted = |mut rows: Vec<String>| {
        rows.sort();
        rows
    };
    expected = sorted(expected);
    assert_eq!(sorted(rows(&output, sql)), expected);

    let answer =
        Command::new(python).env_remove("PYTHONPATH").args(["-c", SCRIPT]).arg(&output).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let answer = String::from_utf8(answer.stdout).unwrap();
    let with_precision =
        sorted(rows(&output, &sql.replace(" from", ", min(cast(precision as varchar)) as p from")));
    for engine in ["duckdb", "polars", "pyarrow"] {
        let found = answer.lines().filter_map(|line| line.strip_prefix(engine)?.strip_prefix('\t'));
        let found = sorted(found.map(str::to_owned).collect());
        if engine == "pyarrow" {
            let whole = expected.iter().map(|row| format!("{row},")).collect::<Vec<_>>();
            assert_eq!(found, whole, "{engine}");
        } else {
            assert_eq!(found, with_precision, "{engine}");
        }
    }
}
