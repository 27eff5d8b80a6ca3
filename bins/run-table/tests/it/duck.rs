//! Generated queries, answered by DuckDB over the same files: equal, or refused by name.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::engines::python;
use crate::{done, fixtures, run, trace};

const SCRIPT: &str = r#"
import csv, io, json, os, sys
import duckdb

root = sys.argv[1]
for table in os.listdir(root):
    if table.startswith("_"):
        continue
    source = f"read_parquet('{root}/{table}/*/*.parquet', hive_partitioning = true, hive_types = {{'run': varchar}})"
    columns = [(row[0], row[1]) for row in duckdb.sql(f"describe select * from {source}").fetchall()]
    chosen = [f'"{name}"::hugeint as "{name}"' if kind == "BIGINT" else f'"{name}"' for name, kind in columns]
    duckdb.sql(f"create view {table} as select {', '.join(chosen)} from {source}")
text = lambda value: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
for line in sys.stdin:
    try:
        rows = [[text(value) for value in row] for row in duckdb.sql(line).fetchall()]
        print(json.dumps({"rows": rows}))
    except Exception as error:
        print(json.dumps({"error": str(error)}))
"#;

/// What DuckDB answers to each query: rows of text, or its error.
pub(crate) fn answers(
    python: &Path,
    data: &Path,
    queries: &[String],
) -> Vec<Result<Vec<Vec<String>>, String>> {
    let mut duck = Command::new(python)
        .env_remove("PYTHONPATH")
        .args(["-c", SCRIPT])
        .arg(data)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = queries.iter().map(|query| query.replace('\n', " ") + "\n").collect::<String>();
    let mut input = duck.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = duck.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let answers: Vec<_> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let answer: serde_json::Value = serde_json::from_str(line).unwrap();
            match answer.get("rows") {
                Some(rows) => Ok(serde_json::from_value(rows.clone()).unwrap()),
                None => Err(answer["error"].to_string()),
            }
        })
        .collect();
    assert_eq!(answers.len(), queries.len());
    answers
}

/// Random numbers, the same each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn text(&mut self) -> String {
        match self.below(6) {
            0 => format!("upper({})", self.one(&TEXTS)),
            1 => format!("substr({}, {}, {})", self.one(&TEXTS), 1 + self.below(4), self.below(9)),
            2 => format!("{} || '_' || {}", self.one(&TEXTS), self.one(&TEXTS)),
            3 => format!("coalesce({}, 'none')", self.one(&TEXTS)),
            _ => self.one(&TEXTS).to_owned(),
        }
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.below(6) {
                0 => self.below(100).to_string(),
                1 => format!("length({})", self.one(&TEXTS)),
                _ => self.one(&NUMBERS).to_owned(),
            };
        }
        let (a, b) = (self.number(depth - 1), self.number(depth - 1));
        match self.below(8) {
            0 => format!("({a} + {b})"),
            1 | 2 => format!("({a} - {b})"),
            3 => format!("{a} * {}", self.number(0)),
            4 => format!("case when {} then {a} else {b} end", self.condition(0)),
            5 => format!("abs({a})"),
            6 => format!("-({a})"),
            _ => format!("coalesce({a}, {b})"),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        if depth > 0 {
            let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
            return match self.below(3) {
                0 => format!("({a} and {b})"),
                1 => format!("({a} or {b})"),
                _ => format!("not ({a})"),
            };
        }
        match self.below(9) {
            0 => format!(
                "{} like '{}'",
                self.one(&TEXTS),
                self.one(&["%gemm%", "s_all%", "%", "m_tmul", "M%"])
            ),
            1 => format!("{} not like '%e%'", self.one(&TEXTS)),
            2 => format!("{} ilike 'SM%'", self.one(&TEXTS)),
            // The operator of the engine looks for the pattern within the text.
            3 => format!("MATCH({},'{}')", self.one(&TEXTS), self.one(&["^s.*d$", "[0-9]+x", "gemm|red"])),
            4 => {
                format!(
                    "{} is {}null",
                    self.one(&["precision", "short_name", "class"]),
                    self.one(&["", "not "])
                )
            }
            5 => format!("stream {}in (7, 13, {})", self.one(&["", "not "]), self.below(30)),
            6 => format!("duration_ns between {} and {}", self.below(3000), self.below(90_000)),
            7 => "class in ('matmul', 'elementwise')".to_owned(),
            _ => format!("{} {} {}", self.number(1), self.one(&["<", ">=", "=", "<>"]), self.number(0)),
        }
    }

    fn aggregate(&mut self) -> String {
        match self.below(9) {
            0 => "count(*)".to_owned(),
            1 => format!("count({})", self.one(&TEXTS)),
            2 => format!("count(distinct {})", self.one(&TEXTS)),
            3 => format!("min({})", self.text()),
            4 => format!("max({})", self.number(1)),
            5 => format!("avg({})", self.number(1)),
            6 => format!("sum({}) / count(*)", self.number(0).replace(['0', '1', '2'], "3")),
            _ => {
                let depth = self.below(3);
                let column = self.one(&NUMBERS);
                format!("sum({} + {column})", self.number(depth))
            }
        }
    }

    fn grouped(&mut self) -> String {
        let key = self.text();
        let (a, b) = (self.aggregate(), self.aggregate());
        let having = if self.below(3) == 0 { " having count(*) > 20" } else { "" };
        let condition = self.condition(1);
        format!("select {key} as k, {a} as a, {b} as b from kernels where {condition} group by {key}{having}")
    }

    fn query(&mut self) -> String {
        match self.below(11) {
            0 => {
                let (a, b, c) = (self.text(), self.number(2), self.condition(1));
                format!("select {a} as a, {b} as b, duration_ns as c from kernels where {c}")
            }
            1 => {
                let (a, b, c) = (self.text(), self.number(1), self.condition(0));
                let order = self.one(&["1, 2", "2 desc, 1", "1 desc, 2 desc"]);
                format!("select distinct {a} as a, {b} as b from kernels where {c} order by {order} limit 9")
            }
            2 => format!("select {} as a, {} as b from kernels", self.aggregate(), self.aggregate()),
            3 => format!("select {} as a from kernels where {}", self.aggregate(), self.condition(2)),
            4 => format!(
                "with g as ({}) select count(*) as n, sum(length(k) * 1000000007) as s, min(k) as m from g",
                self.grouped()
            ),
            5 => format!(
                "select r.kind, {} as a, count(*) as n from kernels k {} runs r on k.run = r.run group by r.kind",
                "sum(k.duration_ns * 3 - k.start_ns)",
                self.one(&["join", "left join"])
            ),
            6 => format!(
                "select r.run, count(*) as n, count(m.duration_ns) as c, sum(m.duration_ns) as s \
                 from runs r left join {} m on r.run = m.run group by r.run",
                self.one(&["kernels", "copies", "ranges"])
            ),
            7 => {
                let (a, b) = (self.number(1), self.number(1));
                let all = self.one(&["", "all "]);
                format!("select run, {a} as n from kernels union {all}select run, {b} as n from kernels")
            }
            8 => format!(
                "select {} as a from kernels where run in (select run from runs where kind = 'nsys') and {}",
                self.aggregate(),
                self.condition(0)
            ),
            _ => self.grouped(),
        }
    }
}

const TEXTS: [&str; 6] = ["run", "class", "display_name", "precision", "short_name", "name"];
const NUMBERS: [&str; 5] = ["duration_ns", "start_ns", "end_ns", "stream", "registers"];

/// A query with `MATCH` as each engine writes it.
fn spelled(query: &str, as_operator: bool) -> String {
    let mut rest = query;
    let mut sql = String::new();
    while let Some((before, after)) = rest.split_once("MATCH(") {
        let (arguments, end) = after.split_once("')").unwrap();
        let (text, pattern) = arguments.split_once(",'").unwrap();
        sql += before;
        let [open, between, close] =
            if as_operator { ["", " ~ '", "'"] } else { ["regexp_matches(", ", '", "')"] };
        for part in [open, text, between, pattern, close] {
            sql += part;
        }
        rest = end;
    }
    sql + rest
}

fn is_same(ours: &str, theirs: &str) -> bool {
    match (ours.parse::<i128>(), theirs.parse::<i128>()) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        _ => match (ours.parse::<f64>(), theirs.parse::<f64>()) {
            (Ok(ours), Ok(theirs)) => (ours - theirs).abs() <= 1e-9 * theirs.abs().max(1e-9),
            _ => ours == theirs,
        },
    }
}

/// Rows of CSV; texts with commas and quotes are undone.
pub(crate) fn parsed(csv: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().from_reader(csv.as_bytes());
    reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect()
}

/// Whether two answers have the same rows, in any order.
pub(crate) fn are_same(mut ours: Vec<Vec<String>>, mut theirs: Vec<Vec<String>>) -> bool {
    ours.sort();
    theirs.sort();
    let same = |a: &[String], b: &[String]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b));
    // Real numbers have other texts, so that rows may be sorted otherwise.
    ours.len() == theirs.len()
        && ours.iter().all(|row| {
            let at = theirs.iter().position(|other| same(row, other));
            at.map(|at| theirs.swap_remove(at)).is_some()
        })
}

#[test]
fn generated_queries_are_answered_as_by_duckdb_or_refused() {
    let Some(python) = python() else {
        flopgap_testing::skip("python libraries", "not installed from PyPI: run .ci/run once");
        return;
    };
    let (folder, [output]) = flopgap_testing::paths(["out"]);
    for name in ["small_forward", "contexts"] {
        trace(name, &folder.path().join(format!("in/{name}.sqlite")));
    }
    // Times that leave 64 bits where a few are added.
    let long = folder.path().join("in/long.sqlite");
    trace("small_forward", &long);
    rusqlite::Connection::open(&long)
        .unwrap()
        .execute_batch(
            "update CUPTI_ACTIVITY_KIND_KERNEL set start = 3000000000000000000, end = 9000000000000000000",
        )
        .unwrap();
    let (input, small) = (folder.path().join("in"), fixtures().join("runs/h200-small"));
    done(&["collect", input.to_str().unwrap(), small.to_str().unwrap(), "-o", output.to_str().unwrap()]);

    let mut draw = Draw(26);
    let queries: Vec<String> = (0..200).map(|_| draw.query()).collect();
    let for_duck: Vec<String> = queries.iter().map(|query| spelled(query, false)).collect();
    let expected = answers(&python, &output, &for_duck);
    let (mut answered, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
    for (query, expected) in queries.iter().zip(expected) {
        let sql = spelled(query, true);
        let asked = run(&["query", output.to_str().unwrap(), "--format", "csv", "--sql", &sql]);
        match (asked.code, expected) {
            (0, Ok(theirs)) if are_same(parsed(&asked.stdout), theirs.clone()) => answered += 1,
            (2, _) if asked.stderr.contains("error: SQL") && !asked.stderr.contains("panicked") => {
                refused.push(format!("{sql}\n{}", asked.stderr));
            }
            (_, theirs) => wrong.push(format!("{sql}\n{asked:.900?}\n{theirs:.900?}")),
        }
    }
    assert!(wrong.is_empty(), "{} of 200:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(answered >= 180, "{answered}:\n{}", refused.join("\n"));
}
