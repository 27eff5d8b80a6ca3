//! What `query` answers, and what it refuses.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use flopgap_table::Source;
use flopgap_table::arrow_array::cast::AsArray as _;
use flopgap_table::arrow_array::types::Int64Type;
use tempfile::TempDir;

use crate::{done, fixtures, rows, run, trace};

/// A data set of two traces and a run.
fn data_set() -> (TempDir, PathBuf) {
    let (folder, [output]) = flopgap_testing::paths(["out"]);
    for name in ["small_forward", "small_training_step"] {
        trace(name, &folder.path().join(format!("in/{name}.sqlite")));
    }
    let (input, run) = (folder.path().join("in"), fixtures().join("runs/h200-small"));
    done(&["collect", input.to_str().unwrap(), run.to_str().unwrap(), "-o", output.to_str().unwrap()]);
    (folder, output)
}

/// Our own sums of integers: of each run the kernels and their time.
pub(crate) fn sums(sources: &[(&str, PathBuf)]) -> Vec<String> {
    let mut sums = BTreeMap::new();
    for (run, path) in sources {
        let table =
            Source::open(path).unwrap().table("kernels").unwrap().select(&["class", "duration_ns"]).unwrap();
        for batch in table.read().unwrap() {
            let batch = batch.unwrap();
            let classes = batch.column(0).as_dictionary::<flopgap_table::arrow_array::types::Int32Type>();
            let classes = classes.downcast_dict::<flopgap_table::arrow_array::StringArray>().unwrap();
            let durations = batch.column(1).as_primitive::<Int64Type>();
            for (class, duration) in classes.into_iter().zip(durations.values()) {
                let sum =
                    sums.entry(((*run).to_owned(), class.unwrap().to_owned())).or_insert((0_u64, 0_i64));
                *sum = (sum.0 + 1, sum.1 + duration);
            }
        }
    }
    sums.into_iter().map(|((run, class), (calls, total))| format!("{run},{class},{calls},{total}")).collect()
}

#[test]
fn sums_are_those_of_integers() {
    let (folder, data) = data_set();
    let sources = ["small_forward", "small_training_step"]
        .map(|name| (name, folder.path().join(format!("in/{name}.sqlite"))));
    let sql = "select run, class, count(*) as calls, sum(duration_ns) as total_ns from kernels group by run, class order by run, class";
    assert_eq!(rows(&data, sql), sums(&sources));
    assert_eq!(
        rows(&data, "select sum(flops) as counted from launches where phase <> 'setup'"),
        rows(&data, "select sum(total_flops) as counted from metrics")
    );
}

#[test]
fn a_sum_beyond_64_bits_is_exact() {
    let (_folder, [input, output]) = flopgap_testing::paths(["a.sqlite", "out"]);
    trace("small_forward", &input);
    let changed = rusqlite::Connection::open(&input)
        .unwrap()
        .execute("update CUPTI_ACTIVITY_KIND_KERNEL set start = 1, end = 6000000000000000002", [])
        .unwrap();
    assert_eq!(changed, 838);
    done(&["collect", input.to_str().unwrap(), "-o", output.to_str().unwrap()]);
    let exact = (838_i128 * 6_000_000_000_000_000_001).to_string();
    assert_eq!(rows(&output, "select sum(duration_ns) as s from kernels"), std::slice::from_ref(&exact));
    assert_eq!(
        rows(
            &output,
            "select run, sum(case when stream >= 0 then duration_ns else 0 end) as s from kernels group by run"
        ),
        [format!("a,{exact}")]
    );
    // Products leave 64 bits even where the numbers do not.
    let product = (6_000_000_000_000_000_001_i128 * 10).to_string();
    assert_eq!(rows(&output, "select max(duration_ns * 10) as m from kernels"), [product]);
    // One that fits is a whole number all the same.
    assert_eq!(rows(&output, "select sum(start_ns) as s from kernels"), ["838"]);
}

#[test]
fn nulls_stay_nulls_and_formats_agree() {
    let (folder, data) = data_set();
    let data = data.to_str().unwrap();
    let sql = "select precision, count(*) as calls, avg(duration_ns) / 3 as third from kernels group by precision order by calls limit 2";
    let csv = done(&["query", data, "--sql", sql, "--format", "csv"]).stdout;
    assert!(csv.starts_with("precision,calls,third\n,"), "{csv}");
    let json = done(&["query", data, "--sql", sql, "--format", "json"]).json();
    let row = &json["rows"][0];
    assert!(row["precision"].is_null() && row["calls"].is_u64(), "{json}");
    let markdown = done(&["query", data, "--sql", sql, "--format", "markdown"]).stdout;
    assert!(markdown.starts_with("| precision | calls | third |"), "{markdown}");
    assert!(done(&["query", data, "--sql", sql]).stdout.contains("\n-  "));
    // A file's ending says the format.
    let file = folder.path().join("answer.csv");
    let silent = done(&["query", data, "--sql", sql, "-o", file.to_str().unwrap()]);
    assert_eq!((silent.stdout.as_str(), fs::read_to_string(file).unwrap()), ("", csv));
    assert_eq!(rows(Path::new(data), "select name from kernels where run = 'none'"), Vec::<String>::new());
}

/// The engine has no largest rows by one number of 38 digits.
#[test]
fn the_largest_rows_are_found_by_one_key_of_any_kind() {
    let (_folder, data) = data_set();
    let found = |sql: &str| rows(&data, sql);
    let by_class = "select class, count(*) as n, sum(duration_ns + 0) as s, min(name) as name from kernels group by class";
    let all = found(&format!("{by_class} order by n desc, class"));
    for key in ["n", "s", "2"] {
        let first = found(&format!("{by_class} order by {key} desc limit 2"));
        assert_eq!(first.len(), 2, "{key}");
        assert!(all.contains(&first[0]), "{key}: {first:?}");
    }
    assert_eq!(found(&format!("{by_class} order by n desc limit 1")), all[..1]);
    assert_eq!(
        found("select duration_ns - 1 as d from kernels order by d desc limit 1"),
        found("select max(duration_ns) - 1 as d from kernels")
    );
    assert_eq!(
        found("select run from kernels union select run from ranges order by run limit 1"),
        ["small_forward"]
    );
    assert_eq!(found("select * from runs order by 1 limit 1").len(), 1);
}

#[test]
fn nothing_but_questions_to_the_data_set_is_asked() {
    let (folder, data) = data_set();
    let before = crate::files(folder.path());
    let part = data.join("kernels/run=small_forward/part-0.parquet");
    for sql in [
        "create table x as select * from kernels".to_owned(),
        "delete from kernels".to_owned(),
        "truncate table kernels".to_owned(),
        "select * into x from kernels".to_owned(),
        format!("select * from read_parquet('{}')", part.display()),
        "select * from read_csv('/etc/passwd')".to_owned(),
        "select 1; select 2".to_owned(),
    ] {
        let refused = run(&["query", data.to_str().unwrap(), "--sql", &sql]);
        assert!(
            refused.code == 2 && refused.stdout.is_empty() && refused.stderr.contains("error: SQL"),
            "{sql}: {refused:?}"
        );
    }
    assert_eq!(crate::files(folder.path()), before);
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let (folder, data) = data_set();
    let data = data.to_str().unwrap();
    run(&["query", data, "--sql", "select * from kernel"])
        .expect(3, &["no table `kernel`", "it has api_calls, "]);
    let column = run(&["query", data, "--sql", "select duration from kernels"]);
    column.expect(3, &["\"duration\"", "`kernels` has start_ns, end_ns"]);
    run(&["query", data, "--regressions", "small_forward", "x"])
        .expect(3, &["its runs are small_forward, small_training_step"]);
    run(&["query", data, "--trend", "x' or 1 = 1 --"]).expect(3, &["no run has a kernel, class or range"]);
    run(&["query", folder.path().join("in").to_str().unwrap()]).expect(3, &["not a data set"]);
    run(&["query", data, "--overhead-by", "n,x"]).expect(2, &["`x` is no column"]);
}

#[test]
fn ready_questions_are_sql_that_can_be_shown() {
    let (folder, data) = data_set();
    let data = data.to_str().unwrap();
    let plot = folder.path().join("trend.svg");
    let questions: [&[&str]; 6] = [
        &["--top-kernels", "3"],
        &["--overhead-by", "n,d"],
        &["--overhead-by", "cause,pass"],
        &["--regressions", "small_forward", "small_training_step", "--top", "0"],
        &["--ranks"],
        &["--trend", "matmul"],
    ];
    for question in questions {
        let asked = done(&[&["query", data, "--format", "csv", "--show-sql"], question].concat());
        let sql = asked.stderr.split_once("SQL:\n").unwrap().1;
        let same = done(&["query", data, "--format", "csv", "--sql", sql]);
        assert_eq!(asked.stdout, same.stdout, "{question:?}");
        assert!(asked.stdout.lines().count() > 1, "{question:?}");
    }
    let top = done(&["query", data, "--top-kernels", "3", "--format", "csv"]).stdout;
    assert_eq!(top.lines().count(), 4);
    done(&["query", data, "--trend", "forward", "--plot", plot.to_str().unwrap()]);
    assert!(fs::read_to_string(plot).unwrap().contains("Time of forward by run"));
    let tables = done(&["query", data, "--format", "csv"]).stdout;
    assert!(tables.contains("kernels,2,3412,\"start_ns,"), "{tables}");
}

#[test]
fn the_overhead_is_that_of_the_metrics() {
    let (_folder, data) = data_set();
    let overheads = done(&[
        "query",
        data.to_str().unwrap(),
        "--overhead-by",
        "n,d,m,pass",
        "--top",
        "0",
        "--format",
        "csv",
    ])
    .stdout;
    let metrics = rows(
        &data,
        "select n, d, m, pass, theory_gemm_flops + theory_activation_flops as theory, total_flops as counted, \
         total_flops - theory_gemm_flops - theory_activation_flops as overhead, omega from metrics order by n, d, m, pass",
    );
    let exact = |line: &str| line.rsplit_once(',').unwrap().0.to_owned();
    assert_eq!(
        overheads.lines().skip(1).map(exact).collect::<Vec<_>>(),
        metrics.iter().map(|line| exact(line)).collect::<Vec<_>>()
    );
}
