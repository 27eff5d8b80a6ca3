//! Ready questions, as SQL that any engine answers.

use flopgap_cli::{Exit, Failure};

use super::data::DataSet;
use super::guard;

/// A question that needs no SQL of the user.
pub(super) enum Question {
    TopKernels(u64),
    /// By these columns, at most so many rows.
    OverheadBy(Vec<String>, u64),
    /// From one run to another.
    Regressions(String, String, u64),
    Ranks,
    Trend(String),
}

/// How many names of runs a hint lists.
const SHOWN: usize = 20;
/// Columns of `overheads` that describe the network and the run.
const OF_NETWORKS: [&str; 5] = ["n", "d", "m", "pass", "run"];
/// Columns of `overheads` that describe a part of the overhead, of which the closed form has none.
const OF_PARTS: [&str; 3] = ["cause", "kernel", "tile"];

impl Question {
    /// The SQL, and a title for its answer.
    pub(super) fn sql(&self, data: &DataSet) -> Result<(String, String), Failure> {
        match self {
            Question::TopKernels(limit) => {
                require(data, "kernels")?;
                Ok((top_kernels(*limit), "Kernels by the time that they took over all runs".to_owned()))
            }
            Question::OverheadBy(columns, limit) => {
                require(data, "overheads")?;
                let by: Vec<&str> = columns.iter().map(|column| column.trim()).collect();
                overhead_by(&by, *limit).map(|sql| (sql, format!("FLOPs above theory by {}", by.join(", "))))
            }
            Question::Regressions(before, after, limit) => {
                for run in [before, after] {
                    require_run(data, run)?;
                }
                Ok((regressions(before, after, *limit), format!("Kernels of {before} (A) and {after} (B)")))
            }
            Question::Ranks => {
                require(data, "kernels")?;
                require(data, "runs")?;
                Ok((ranks(), "GPU time by rank".to_owned()))
            }
            Question::Trend(name) => trend(data, name),
        }
    }
}

fn require(data: &DataSet, table: &str) -> Result<(), Failure> {
    let known = data.names();
    if known.contains(&table) { Ok(()) } else { Err(guard::unknown_table(table, &known)) }
}

fn require_run(data: &DataSet, run: &str) -> Result<(), Failure> {
    require(data, "kernels")?;
    let runs: Vec<&str> = data
        .table("kernels")
        .map(|table| table.files.iter().map(|(run, _)| run.as_str()).collect())
        .unwrap_or_default();
    if runs.contains(&run) {
        return Ok(());
    }
    let more = if runs.len() > SHOWN { format!(" and {} more", runs.len() - SHOWN) } else { String::new() };
    let shown = runs.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    Err(Failure::new(format!("the data set has no kernels of a run `{run}`"))
        .hint(format!("its runs are {shown}{more}"))
        .exit(Exit::Absent))
}

/// A text of SQL.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn limited(limit: u64) -> String {
    if limit == 0 { String::new() } else { format!("\nlimit {limit}") }
}

fn top_kernels(limit: u64) -> String {
    format!(
        "\
with found as (
  select display_name as kernel, class, count(*) as calls, sum(duration_ns) as total_ns,
         avg(duration_ns) as mean_ns, max(duration_ns) as max_ns, count(distinct run) as runs
  from kernels
  group by display_name, class),
whole as (select sum(duration_ns) as all_ns from kernels)
select kernel, class, runs, calls, total_ns, mean_ns, max_ns, total_ns * 1.0 / all_ns as share
from found cross join whole
order by total_ns desc, kernel, class{}",
        limited(limit)
    )
}

fn overhead_by(columns: &[&str], limit: u64) -> Result<String, Failure> {
    let known = || OF_NETWORKS.iter().chain(&OF_PARTS);
    if let Some(unknown) = columns.iter().find(|column| !known().any(|known| known == *column)) {
        let names: Vec<&str> = known().copied().collect();
        return Err(Failure::new(format!("`{unknown}` is no column to group overheads by"))
            .hint(format!("use some of {}", names.join(", ")))
            .exit(Exit::Usage));
    }
    let by = columns.join(", ");
    if columns.iter().any(|column| OF_PARTS.contains(column)) {
        return Ok(format!(
            "\
select {by}, sum(launches) as launches, sum(flops) as overhead_flops
from overheads
where kernel is not null
group by {by}
order by overhead_flops desc, {by}{}",
            limited(limit)
        ));
    }
    Ok(format!(
        "\
with found as (
  select {by}, sum(flops) as counted_flops, sum(case when kernel is null then flops else 0 end) as theory_flops
  from overheads
  group by {by})
select {by}, theory_flops, counted_flops, counted_flops - theory_flops as overhead_flops,
       case when theory_flops <> 0 then (counted_flops - theory_flops) * 1.0 / theory_flops end as omega
from found
order by {by}{}",
        limited(limit)
    ))
}

fn regressions(before: &str, after: &str, limit: u64) -> String {
    let (a, b) = (text(before), text(after));
    format!(
        "\
with found as (
  select display_name as kernel, class,
         sum(case when run = {a} then 1 else 0 end) as calls_a,
         sum(case when run = {b} then 1 else 0 end) as calls_b,
         sum(case when run = {a} then duration_ns else 0 end) as total_a_ns,
         sum(case when run = {b} then duration_ns else 0 end) as total_b_ns
  from kernels
  where run in ({a}, {b})
  group by display_name, class)
select kernel, class, calls_a, calls_b, total_a_ns, total_b_ns, total_b_ns - total_a_ns as difference_ns,
       case when total_a_ns <> 0 then (total_b_ns - total_a_ns) * 1.0 / total_a_ns end as change,
       case when calls_a <> 0 then total_a_ns * 1.0 / calls_a end as mean_a_ns,
       case when calls_b <> 0 then total_b_ns * 1.0 / calls_b end as mean_b_ns
from found
order by difference_ns desc, kernel, class{}",
        limited(limit)
    )
}

fn ranks() -> String {
    "\
with found as (
  select run, pid, device, count(*) as kernels, sum(duration_ns) as gpu_ns,
         sum(case when class = 'communication' then duration_ns else 0 end) as communication_ns,
         max(end_ns) - min(start_ns) as span_ns
  from kernels
  group by run, pid, device),
placed as (
  select runs.job as job, runs.rank as rank, found.run as run, pid, device, kernels, gpu_ns,
         gpu_ns - communication_ns as compute_ns, communication_ns, span_ns
  from found join runs on found.run = runs.run),
slowest as (select job, max(compute_ns) as most_ns from placed group by job)
select placed.job as job, rank, run, pid, device, kernels, compute_ns, communication_ns, span_ns,
       case when most_ns <> 0 then compute_ns * 1.0 / most_ns end as of_slowest
from placed join slowest on placed.job = slowest.job
order by job, rank, run, pid, device"
        .to_owned()
}

/// Over kernels of this name or class, else over ranges of this name.
fn trend(data: &DataSet, name: &str) -> Result<(String, String), Failure> {
    require(data, "runs")?;
    let value = text(name);
    let kernels = format!("display_name = {value} or class = {value} or name = {value}");
    let tables = [("kernels", kernels, "kernels"), ("ranges", format!("name = {value}"), "ranges")];
    for (table, condition, what) in tables {
        if data.table(table).is_none() {
            continue;
        }
        let found =
            data.rows(&format!("select count(*) as rows from {table} where {condition}"))?.into_table("")?;
        let is_there = found.rows().first().and_then(|row| row.first()).is_some_and(|cell| cell.raw() != "0");
        if is_there {
            let sql = format!(
                "\
with found as (
  select run, count(*) as calls, sum(duration_ns) as total_ns, avg(duration_ns) as mean_ns,
         min(duration_ns) as min_ns, max(duration_ns) as max_ns
  from {table}
  where {condition}
  group by run)
select runs.recorded as recorded, runs.recorded_by as recorded_by, found.run as run, calls, total_ns,
       mean_ns, min_ns, max_ns
from found left join runs on found.run = runs.run
order by recorded, run"
            );
            return Ok((sql, format!("Time of the {what} `{name}` by run")));
        }
    }
    Err(Failure::new(format!("no run has a kernel, class or range `{name}`"))
        .hint("`flopgap table query DIR --top-kernels` lists kernels and classes; names are compared as a whole")
        .exit(Exit::Absent))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: [&str; 4] = ["kernels", "overheads", "ranges", "runs"];

    #[test]
    fn ready_questions_pass_the_guard() {
        for sql in [
            top_kernels(20),
            top_kernels(0),
            overhead_by(&["n", "d"], 5).unwrap(),
            overhead_by(&["cause", "pass"], 0).unwrap(),
            regressions("a", "b", 3),
            ranks(),
        ] {
            guard::check(&sql, &TABLES, |_| Vec::new()).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }

    #[test]
    fn names_stay_names() {
        let evil = "x' or 1 = 1; drop table kernels; --";
        let sql = regressions(evil, "b", 3);
        guard::check(&sql, &TABLES, |_| Vec::new()).unwrap();
        assert!(sql.contains("'x'' or 1 = 1; drop table kernels; --'"));
        assert!(overhead_by(&["n", "d; drop table kernels"], 0).is_err());
    }
}
