//! What a query may be.

use super::*;

const KNOWN: [&str; 2] = ["kernels", "runs"];

fn columns(_: &str) -> Vec<String> {
    vec!["run".to_owned(), "name".to_owned(), "start_ns".to_owned()]
}

fn tables(sql: &str) -> Vec<String> {
    check(sql, &KNOWN, columns).unwrap_or_else(|error| panic!("{sql}: {error}")).tables.into_iter().collect()
}

#[test]
fn questions_pass() {
    for (sql, read) in [
        ("select 1", &[][..]),
        ("SELECT * FROM kernels;", &["kernels"]),
        (
            "with a as (select run from runs) select a.run from a join kernels using (run)",
            &["kernels", "runs"],
        ),
        ("select * from (select name from kernels) as k", &["kernels"]),
        ("select name from kernels where run in (select run from runs)", &["kernels", "runs"]),
        ("(select name from kernels) union all (select source from runs)", &["kernels", "runs"]),
        ("select a.name from kernels as a, runs as b", &["kernels", "runs"]),
    ] {
        assert_eq!(tables(sql), read, "{sql}");
    }
}

#[test]
fn what_writes_or_reads_elsewhere_is_refused() {
    for sql in [
        "create table x as select * from kernels",
        "drop table kernels",
        "delete from kernels",
        "truncate table kernels",
        "insert into kernels values (1)",
        "update kernels set name = 'x'",
        "copy kernels to 'x.csv'",
        "attach 'x.db' as x",
        "pragma database_list",
        "set x = 1",
        "show tables",
        "explain select 1",
        "select * into x from kernels",
        "select * from read_parquet('/etc/passwd')",
        "select * from read_csv('https://example.com/x.csv')",
        "select * from kernels where run in (select x from read_parquet('x'))",
        "with a as (select * from read_json('x')) select * from a",
        "with a as (delete from kernels returning *) select * from a",
        "select * from table(read_parquet('x'))",
        "select * from main.kernels",
        "select 1; select 2",
        "",
        "selec 1",
    ] {
        let failure = check(sql, &KNOWN, columns).expect_err(sql);
        assert_eq!(failure.code(), Exit::Usage, "{sql}: {failure}");
    }
}

#[test]
fn a_path_is_no_table() {
    for sql in [
        "select * from 'kernels/run=a/part-0.parquet'",
        "select * from \"/etc/passwd\"",
        "select * from kernel",
    ] {
        let failure = check(sql, &KNOWN, columns).expect_err(sql);
        assert!(failure.code() != Exit::Done && failure.to_string().contains("kernels"), "{sql}: {failure}");
    }
}

#[test]
fn whole_numbers_are_wide_where_they_are_calculated_with() {
    for (sql, calculates) in [
        ("select sum(start_ns), SUM(k.x), count(*) from kernels k where start_ns > 5", false),
        ("select max(start_ns) from kernels", false),
        ("select sum(x + 1) from kernels", true),
        ("select -x from kernels", true),
        ("select sum(x) from kernels join runs using (run)", true),
        ("select sum(y) from (select x as y from kernels) as k", true),
        ("with k as (select x as y from kernels) select sum(y) from k", true),
        ("select x from kernels union all select x from kernels", true),
    ] {
        assert_eq!(check(sql, &KNOWN, columns).unwrap().calculates, calculates, "{sql}");
    }
    let sums = check("select sum(start_ns), SUM(k.x) from kernels k", &KNOWN, columns).unwrap().summed;
    assert_eq!(sums.into_iter().collect::<Vec<_>>(), ["start_ns", "x"]);
}

#[test]
fn what_engines_answer_differently_is_refused() {
    for (sql, form) in [
        ("select sum(1) as n from kernels", "sum(1)"),
        ("select 1 as x where 1 = 2", "condition without FROM"),
        ("select name, count(*) from kernels", "`name` has several values"),
        ("select name, count(*) from kernels group by run", "`name` has several values"),
        ("select count(*) from kernels where sum(start_ns) > 1", "WHERE on a sum"),
        ("select sum(sum(start_ns)) from kernels", "an aggregate within sum"),
        ("select name from kernels where run not in (select run from runs)", "NOT IN"),
        ("select name from kernels where exists (select 1 from runs)", "EXISTS"),
        ("select (select max(start_ns) from kernels) as m from runs", "SELECT max"),
        ("select start_ns % 2 as m from kernels", "%"),
        ("select cast(start_ns as int) from kernels", "CAST"),
        ("select sum(start_ns) over () from kernels", "OVER"),
        ("select sum(start_ns) filter (where start_ns > 1) from kernels", "FILTER"),
        ("select sum(distinct start_ns) from kernels", "distinct"),
        ("select a.run from kernels a full join runs b on a.run = b.run", "FullOuter JOIN"),
        ("select a.run from kernels a join runs b on a.run > b.run", "JOIN … ON"),
        ("select * from kernels join runs using (run)", "`*` over several tables"),
        ("select run from kernels except select run from runs", "EXCEPT"),
        ("select name from kernels group by rollup (name)", "ROLLUP"),
        ("with runs as (select * from kernels) select * from runs", "`runs` is a table"),
        ("with recursive a as (select run from runs) select * from a", "RECURSIVE"),
        ("select upper(run) as run, count(*) as n from kernels group by run", "`run` is a column"),
        ("select run, count(*) as n from kernels group by run order by count(*)", "ORDER BY count(*)"),
        ("select concat(run, name) as c from kernels", "concat"),
        ("select position('a' in name) as c from kernels", "POSITION"),
        ("select run from kernels limit 1 by run", "LIMIT BY"),
        ("select run from kernels tablesample (5)", "sample"),
        ("select name like '%\\_%' as l from kernels", "LIKE"),
    ] {
        let failure = check(sql, &KNOWN, columns).expect_err(sql);
        assert_eq!(failure.code(), Exit::Usage, "{sql}");
        assert!(failure.message().contains(form), "{sql}: {failure}");
    }
}
